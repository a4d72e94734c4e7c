/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an archive comes from: standard input, unpacked if it is gzip's, through the guard (wire/tar_guard.h). What
 * comes out goes to libarchive piece by piece, so it has never seen more than the guard has let through.
 */
#pragma once

#include "wire/tar_guard.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <zlib.h>

enum { SOURCE_IN = 64 * 1024, SOURCE_BUF = TAR_GUARD_WANTS_MAX + 64 * 1024 };

struct source {
	struct tar_guard guard;
	int fd, stop_fd; /* stop_fd: readable when we are asked to stop; -1: never */
	bool begun, gzip, over;
	bool between; /* gzip: behind the end of a stream */
	bool padded;  /* gzip: zeros came there */
	int error;    /* an errno: why nothing comes any more */
	const char *why;
	uint8_t *at; /* what was unpacked and not looked at */
	size_t n;
	z_stream z;
	uint8_t in[SOURCE_IN], buf[SOURCE_BUF];
};

void source_init(struct source *s, int fd, int stop_fd);
void source_done(struct source *s);

/* The next piece, valid until the next call: its size, 0 at the end, or -1 with s->error and s->why. */
ssize_t source_piece(struct source *s, const void **ret);
/* What is left is nothing but the end. 0, or -1 as above. */
int source_rest(struct source *s);
