/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a `watch` (fileops.tbl): what has changed below a directory of a box.
 *
 *   u32 length of the rest | u8 what | u8 is_directory | string path | string to
 *
 * They come out of a box, and the reader takes them as that of listing.h does: paths are relative and stay below what is
 * watched, or the record is refused.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WATCH_HEADER = 4, WATCH_RECORD_MAX = 10 + 2 * (PATH_MAX - 1) };

enum watched {
	WATCHED_READY, /* the first one: what changes from now on is told; no path */
	WATCHED_CREATE, /* made, linked, or moved here from elsewhere; perhaps in the place of another file */
	WATCHED_MODIFY,   /* who wrote to it has closed it, or it was replaced by a `write` */
	WATCHED_ATTRIB,   /* its mode, times or the like */
	WATCHED_DELETE,   /* or moved away */
	WATCHED_MOVE,     /* it is at `to` now */
	WATCHED_OVERFLOW, /* more has changed than could be told: to be listed anew; no path */
	WATCHED_MAX,
};

struct watch_record {
	enum watched what;
	bool is_directory;
	char path[PATH_MAX];
	char to[PATH_MAX]; /* of a move, else "" */
};

struct watch_reader {
	uint8_t buf[WATCH_HEADER + WATCH_RECORD_MAX];
	size_t len;
	struct watch_record record;
};

/* "ready", "create" and so on. */
const char *watched_str(enum watched what);

/* Encode one record into buf; its length, or -EMSGSIZE. */
ptrdiff_t watch_encode(const struct watch_record *w, void *buf, size_t cap);

typedef int (*watch_fn)(void *arg, const struct watch_record *w);

/* As listing_feed() and listing_end(). */
int watch_feed(struct watch_reader *r, const void *p, size_t n, watch_fn fn, void *arg);
int watch_end(const struct watch_reader *r);
