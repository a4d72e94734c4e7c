/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says that speaks MCP on its standard input and output: a message per line; and the end of what it says besides. */
#pragma once

#include "base/bytes.h"
#include "mcp/client.h"

enum { WORDS_MAX = 2048 };

struct lines {
	struct bytes line; /* the beginning of a message */
	size_t searched;
	char last[WORDS_MAX]; /* what it said last on standard error */
	size_t nlast;
};

/* max: of a line. */
void lines_init(struct lines *l, size_t max);
void lines_done(struct lines *l);

/* Standard output: whole lines go to the client, which is lost when one is too long. */
void lines_take(struct lines *l, struct mcpc *c, const void *p, size_t n, uint64_t now_us);
/* Standard error. */
void lines_words(struct lines *l, const void *p, size_t n);
