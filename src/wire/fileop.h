/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on files of a box (fileops.tbl), and what gate and box must see alike: which bytes a `read` sends behind its record.
 */
#pragma once

#include "wire/listing.h"

#include <stddef.h>
#include <stdint.h>

enum fileop {
#define FILEOP(id, name, min, max, doc) FILEOP_##id,
#include "wire/fileops.tbl"
#undef FILEOP
	FILEOP_MAX,
};

struct fileop_row {
	const char *name;
	unsigned int min, max; /* words behind the path */
	const char *doc;
};

/* Names below which an operation in progress keeps what is not complete: nobody is shown them. */
#define FILEOP_HIDDEN_PUT    ".glovebox-put-"
#define FILEOP_HIDDEN_UNPACK ".glovebox-unpack-"

const struct fileop_row *fileop_row(enum fileop op);

/* Which operation argv asks for. -ENOSYS: there is none of this name; -EINVAL: not with so many words. */
int fileop_find(const char *const *argv);

/* The part of a file of that size which begins at `from` ("-n": the last n bytes) and has `count` bytes at most ("": all that
 * follow). -ERANGE: there is no byte of it; an empty file from "0" to its end is one all the same. -EINVAL: not numbers. */
int fileop_range(uint64_t size, const char *from, const char *count, uint64_t *ret_start,
		 uint64_t *ret_n);

enum fileop_sent {
	FILEOP_BYTES,     /* the record, and *ret_n bytes from *ret_start on */
	FILEOP_UNCHANGED, /* only the record: if_none_match has its tag */
	FILEOP_NO_RANGE,  /* only the record: nothing of the file is in the range */
};

/* The words of a `read` behind the path. */
struct fileop_read {
	const char *links, *from, *count, *if_range, *if_none_match;
};

/* What comes of a `read` of this file: enum fileop_sent, or -EINVAL. A range holds only if if_range is "" or the tag of the file; else
 * all of it is sent. */
int fileop_send(const struct listing_entry *e, const struct fileop_read *q, uint64_t *ret_start,
		uint64_t *ret_n);
