/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing JSON, compact, into a growing buffer. Commas come by themselves. Strings are made valid
 * UTF-8: a byte that does not belong to a character becomes U+FFFD. Control characters and the like
 * are escaped: whoever looks at the JSON in a terminal is safe, too.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
	char *buf;
	size_t len, cap;
	bool comma;  /* something stands before the next value */
	bool failed; /* out of memory */
};

void json_init(struct json *j);
void json_done(struct json *j);

/* Text as it is, between values or around them. */
void json_raw(struct json *j, const char *p, size_t n);
/* Comma and key of a value that is then written by json_raw(). */
void json_value(struct json *j, const char *key);
/* Characters of a string whose quotes are written by json_raw(). Pieces of whole characters give the same as one. */
void json_chars(struct json *j, const void *p, size_t n);
/* A new document behind what is there: no comma before its first value. */
void json_restart(struct json *j);

/* Key of the next value, or NULL inside an array and at the top. */
void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);
void json_str(struct json *j, const char *key, const char *s);
void json_bytes(struct json *j, const char *key, const void *p, size_t n);
void json_u64(struct json *j, const char *key, uint64_t v);
void json_i64(struct json *j, const char *key, int64_t v);
void json_bool(struct json *j, const char *key, bool v);
void json_null(struct json *j, const char *key);
/* thousandths as a decimal number: 1234 is 1.234 */
void json_milli(struct json *j, const char *key, uint64_t v);
