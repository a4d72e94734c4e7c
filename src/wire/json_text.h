/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON of somebody else that is passed on: looked through once, then walked and written anew, where it lies.
 *
 * For what is not ours to understand; requests are read by jsonr.h. Nothing is allocated, and no string is decoded before
 * it is written or compared, so a text may have as many values and as long ones as it likes.
 *
 * Refused is what RFC 8259 forbids, and beyond that more than JSON_TEXT_DEPTH_MAX levels and numbers of more than
 * JSON_TEXT_NUMBER_MAX characters, on which readers of others fail. Taken are \u0000, a key that stands there twice, and
 * in strings bytes that are no UTF-8 and halves of surrogate pairs.
 *
 * What is written is one line, whatever the text was: no space outside of strings, no control character, valid UTF-8 as
 * base/json.h has it, U+FFFD for what is no character. Numbers, keys and their order stay. Written a second time it is
 * the same. It has at most six times as many bytes (DEL).
 *
 * Time is linear in the length of what is looked at, and a walk looks at all that it passes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

enum {
	JSON_TEXT_DEPTH_MAX = 128,
	JSON_TEXT_NUMBER_MAX = 4096, /* Python reads 4300 digits at most */
};

/* A value, from its first character to its last. NULL: there is none. */
struct json_text {
	const char *p;
	size_t n;
};

/* Look through a text that is one value. 0, -EINVAL: it is not JSON; -E2BIG: one of the bounds above. The functions below
 * are for what has passed this, and for what was written by them. */
int json_text_read(const char *p, size_t n, struct json_text *ret);

/* '{', '[', '"', '0' for a number, 't' for true and false, 'n' for null, '\0' if there is no value. */
char json_text_kind(struct json_text t);

/* Members of an object, elements of an array. { p, p + n } walks over a text that has no brackets around it. */
struct json_walk {
	const char *p, *end;
};

/* What has neither members nor elements is as if it was empty. */
struct json_walk json_walk(struct json_text t);
/* The next one; key is that of a member, else it is none. false: there are no more. */
bool json_walk_next(struct json_walk *w, struct json_text *key, struct json_text *value);

struct json_member {
	const char *key; /* of at most 63 bytes */
	struct json_text value;
};

/* Fill in the values of members by their keys; of several with one key the last one, none where there is none. */
void json_text_find(struct json_text object, struct json_member *m, size_t n);

/* A string, decoded and with a NUL behind it; bytes that are no UTF-8 stay. false: it is none, has a NUL inside, or does
 * not fit. */
bool json_text_str(struct json_text t, char *buf, size_t size);
/* A number without fraction and exponent. false: it is none, or does not fit. */
bool json_text_i64(struct json_text t, int64_t *ret);

/* Write a value; where there is none, null. */
void json_text_put(struct json_text t, struct json *j, const char *key);
/* Write a key: the next value has none of its own. */
void json_text_put_key(struct json_text key, struct json *j);
/* Write the characters of a string, as json_chars() does. */
void json_text_put_chars(struct json_text t, struct json *j);
