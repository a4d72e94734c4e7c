/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing records: what operations on files of a box say about a file (fileops.tbl).
 *
 *   u32 length of the rest | u8 type | u8 flags | u32 mode | u64 size | u64 mtime ns | u64 ctime ns |
 *   u64 inode | string path | string target
 *
 * The reader is fed whatever pieces arrive. Records come out of a box: a path is checked to be relative, and to stay
 * below what was asked for, before anybody sees it; a record that is not so is refused. Names may be any bytes: who shows a
 * path as it is, or makes a file by it, asks path_is_plain(). The target of a link is what the link says, and is not checked.
 */
#pragma once

#include "wire/etag.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LISTING_HEADER = 4,
	LISTING_RECORD_MAX = 46 + 2 * (PATH_MAX - 1),
	LISTING_ETAG = 4 * 16 + 6, /* bytes of an entity tag, with its end */
};

enum listing_flags {
	LISTING_NEW = 1u << 0, /* nothing had this name before */
	LISTING_RAW =
		1u << 1, /* the path is not UTF-8; never sent, it is the reader that finds out */
};

struct listing_entry {
	char type; /* 'f' file, 'd' directory, 'l' symlink, 'o' other */
	uint8_t flags;
	uint32_t mode;
	uint64_t size, mtime_ns, ctime_ns, inode;
	char path[PATH_MAX];   /* "." for the top of what was asked for */
	char target[PATH_MAX]; /* of a symlink, else "" */
};

struct listing_reader {
	uint8_t buf[LISTING_HEADER + LISTING_RECORD_MAX];
	size_t len;
	struct listing_entry entry;
};

/* Encode one record into buf; its length, or -EMSGSIZE. */
ptrdiff_t listing_encode(const struct listing_entry *e, void *buf, size_t cap);

/* The strong entity tag of a file, quotes included. */
void listing_etag(const struct listing_entry *e, char buf[LISTING_ETAG]);

typedef int (*listing_fn)(void *arg, const struct listing_entry *e);

/* Feed bytes; fn is called for each complete record and stops the reader by a negative result,
 * which is returned. -EPROTO for a record that breaks the format. */
int listing_feed(struct listing_reader *r, const void *p, size_t n, listing_fn fn, void *arg);

/* Feed the bytes of one record, of a stream that goes on with something else: how many of them were taken. *ret is the
 * record when it is complete, and NULL before. -EPROTO. */
ptrdiff_t listing_first(struct listing_reader *r, const void *p, size_t n,
			const struct listing_entry **ret);

/* At the end of the stream: -EPROTO when a record is incomplete. */
int listing_end(const struct listing_reader *r);
