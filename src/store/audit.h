/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit file: whole lines, appended, rotated by size.
 *
 * Lines are gathered by audit_add() and written by audit_flush() with one write(2), as long as no
 * rotation comes between them. A line is in the file as a whole or not at all. A failure is told to
 * whoever sent the line, counted, and forgotten: the next line tries again.
 *
 * The file may be moved away by others (logrotate): within a second a new one is made. What is
 * not a plain file is never written to. Both may wait for the disk.
 */
#pragma once

#include "wire/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AUDIT_BATCH = 64, AUDIT_NAME = 200 };

struct audit {
	int dir;               /* -1: there is none */
	char name[AUDIT_NAME]; /* a plain name in it */
	uint64_t max_bytes;    /* 0: never rotated */
	uint64_t keep;         /* how many old ones */
	int fd;                /* -1: not open */
	uint64_t looked_us;    /* when it was last checked to be the one of that name */
	uint64_t lines, failures;
	/* gathered */
	unsigned int n;
	uint64_t request[AUDIT_BATCH];
	size_t end[AUDIT_BATCH]; /* of each line, in buf */
	char buf[AUDIT_BATCH * (STORE_LINE_MAX + 1)];
};

/* The caller keeps dir open. Nothing is opened yet. */
void audit_init(struct audit *a, int dir, const char *name, uint64_t max_bytes, uint64_t keep);
void audit_close(struct audit *a);

static inline bool audit_is_full(const struct audit *a)
{
	return a->n == AUDIT_BATCH;
}

/* Not while it is full. */
void audit_add(struct audit *a, uint64_t request, const void *line, size_t n);

/* Write what was gathered; done() is called for every line with 0 or -errno. */
void audit_flush(struct audit *a, void (*done)(void *ctx, uint64_t request, int r), void *ctx);
