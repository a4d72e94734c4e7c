/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing records: what a JOB_LIST writes, one per file below the directory that was asked for.
 *
 *   u32 length of the rest | u8 type | u32 mode | u64 size | u64 mtime ns | u64 ctime ns |
 *   u64 inode | string path
 *
 * The reader is fed whatever pieces arrive. Records come out of a box: paths are checked to be
 * plain and relative before anybody sees them, a record that is not is refused.
 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

enum { LISTING_RECORD_MAX = 45 + PATH_MAX, LISTING_HEADER = 4 };

struct listing_entry {
	char type; /* 'f' file, 'd' directory, 'l' symlink, 'o' other */
	uint32_t mode;
	uint64_t size, mtime_ns, ctime_ns, inode;
	char path[PATH_MAX];
};

struct listing_reader {
	uint8_t buf[LISTING_HEADER + LISTING_RECORD_MAX];
	size_t len;
};

/* Encode one record into buf; its length, or -EMSGSIZE. */
ptrdiff_t listing_encode(const struct listing_entry *e, void *buf, size_t cap);

typedef int (*listing_fn)(void *arg, const struct listing_entry *e);

/* Feed bytes; fn is called for each complete record and stops the reader by a negative result,
 * which is returned. -EPROTO for a record that breaks the format. */
int listing_feed(struct listing_reader *r, const void *p, size_t n, listing_fn fn, void *arg);

/* At the end of the stream: -EPROTO when a record is incomplete. */
int listing_end(const struct listing_reader *r);
