/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading JSON that a client sent: RFC 8259, strictly, in place and in one pass.
 *
 * The caller's buffer is taken apart where it lies: strings are unescaped inside it and end in a
 * NUL, so it must be writable and live as long as the document; its text is spoilt, also by a
 * failure. Values lie in one array in the order of the text: nothing is allocated per value.
 *
 * Refused, beyond what the RFC forbids: duplicate keys, invalid UTF-8, half a surrogate pair,
 * \u0000, a byte order mark, integers outside int64_t, reals that overflow or are written with more
 * than JSONR_NUMBER_MAX characters, more than JSONR_DEPTH_MAX levels or JSONR_NODES_MAX values.
 *
 * Time is linear in the length, whatever the text: keys of a large object are compared by a hash
 * with a random seed. Memory besides the text is below 16 MiB, and 1 KiB for a small request.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

enum {
	JSONR_NODES_MAX = 200000,
	JSONR_DEPTH_MAX = 32,
	JSONR_NUMBER_MAX = 64,
	JSONR_TEXT_MAX = 1 << 30,

	/* Bounds of jsonr_echo(). */
	JSONR_ECHO_STRING = 256, /* bytes of a string, and of a key */
	JSONR_ECHO_BYTES = 4096, /* of all of them together */
	JSONR_ECHO_NODES = 128,
	JSONR_ECHO_DEPTH = 4,
};

enum jsonr_type {
	JSONR_NULL,
	JSONR_BOOL,
	JSONR_INT, /* a number without fraction and exponent */
	JSONR_REAL,
	JSONR_STRING,
	JSONR_ARRAY,
	JSONR_OBJECT,
};

struct jsonr_node {
	const char *key; /* of a member of an object, else NULL; ends in NUL and contains none */
	union {
		bool boolean;
		int64_t integer;
		double real;
		const char *string; /* ends in NUL and contains none */
	};
	uint32_t key_len;
	uint32_t len;  /* string: its bytes; array, object: how many children */
	uint32_t next; /* index of the next sibling, 0 for none; a first child is the next node */
	enum jsonr_type type;
};

struct jsonr {
	struct jsonr_node *nodes; /* [0] is the root */
	uint32_t n, cap;
};

/* The text in Python's words for what Python refuses too, in lower case: a dialect shows it. */
struct jsonr_error {
	size_t offset; /* in bytes, before anything was unescaped */
	size_t chars;  /* the same in characters, as Python counts; in bytes for a duplicate key */
	const char *why;
};

/* Read a document. Whatever *d held before is not looked at; after a failure it is empty. Fills *e
 * (which may be NULL) and returns
 *   -EINVAL  it is not JSON, or a kind of JSON that is refused
 *   -EILSEQ  it is not UTF-8
 *   -E2BIG   one of the bounds above
 *   -ENOMEM  no memory, or no random numbers */
int jsonr_parse(struct jsonr *d, char *buf, size_t len, struct jsonr_error *e);
void jsonr_done(struct jsonr *d);

/* All of these give NULL when there is none, and accept NULL for a node. */
const struct jsonr_node *jsonr_root(const struct jsonr *d);
const struct jsonr_node *jsonr_first(const struct jsonr *d, const struct jsonr_node *n);
const struct jsonr_node *jsonr_next(const struct jsonr *d, const struct jsonr_node *n);

/* A member of an object by its key. Looks at every member: for a few keys, not for all. */
const struct jsonr_node *jsonr_get(const struct jsonr *d, const struct jsonr_node *object,
				   const char *key);

/* Write a value back: all of it. Numbers that were reals stay reals, and the same. */
void jsonr_write(const struct jsonr *d, const struct jsonr_node *n, struct json *j,
		 const char *key);

/* Write a value back within the bounds above, for an error that shows what it is about. A string
 * that was cut ends in "...", a container that is too deep is empty, the rest is left off. */
void jsonr_echo(const struct jsonr *d, const struct jsonr_node *n, struct json *j, const char *key);

/* How many of the n bytes of a text to take for max at most without cutting a character. */
size_t jsonr_cut(const char *p, size_t n, size_t max);
