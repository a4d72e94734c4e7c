/* SPDX-License-Identifier: Apache-2.0 */
/* The Range of a request (RFC 9110), in the words that an operation on a file takes (wire/fileop.h). */
#pragma once

#include "wire/http1.h"

enum { HTTP_RANGE_WORD = 24 };

struct http_range {
	bool set;                    /* else all of it: `from` is "0" then, and `count` "" */
	char from[HTTP_RANGE_WORD];  /* the first byte, or "-n": the last n bytes */
	char count[HTTP_RANGE_WORD]; /* at most so many, or "" */
};

/* One range of bytes. Several of them, other units and what is malformed mean all of it, as if there was no such header. */
void http_range_parse(struct http_slice header, struct http_range *ret);
