/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on standard input and output: one per line.
 *
 * Descriptors stay as they are, for they may be somebody else's as well: each read and write follows a poll(2) that said
 * that it does not wait.
 */
#pragma once

#include "base/bytes.h"

#include <sys/types.h>

enum {
	LINES_MAX = 64 * 1024 * 1024,
	LINES_READ = 64 * 1024,
};

struct lines_in {
	int fd;
	char buf[LINES_READ];
	size_t at, n;      /* what of buf was not looked at yet */
	size_t max;        /* of a line */
	struct bytes line; /* the beginning of one */
	bool skipping;     /* the rest of one that was too long */
	bool ended;
};

void lines_in_init(struct lines_in *in, int fd, size_t max);
void lines_in_done(struct lines_in *in);

/* The next line of what was read, without its end: 1, and *ret is to be freed; n bytes and a NUL. 0: there is none yet. -E2BIG: there
 * is one that is too long, told once; -ENOMEM. A last line needs no end. */
int lines_in_next(struct lines_in *in, char **ret, size_t *ret_n);
/* Whether lines_in_next() has something to look at. */
bool lines_in_has(const struct lines_in *in);
/* Read once. ended says whether it was the end. */
void lines_in_fill(struct lines_in *in);

struct lines_out {
	int fd;
	struct bytes q;
	size_t at;   /* so much of it was written */
	bool broken; /* nobody reads any more, or there was no memory for an answer */
};

void lines_out_init(struct lines_out *out, int fd);
void lines_out_done(struct lines_out *out);

/* A message behind what waits. It has no line feed in it. */
void lines_out_put(struct lines_out *out, const char *p, size_t n);
/* How many bytes wait. */
size_t lines_out_waits(const struct lines_out *out);
/* Write what there is room for now. */
void lines_out_flush(struct lines_out *out);
