/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts that a stream of bytes must not show: each byte of each of them becomes an asterisk, wherever pieces of the stream begin and end.
 *
 * What may be the beginning of one is held back until it is known, at most REDACT_HELD bytes. As many bytes come out as go in.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { REDACT_MAX = 1024, REDACT_HELD = 24 * 1024 };

struct redact_pattern {
	uint8_t *p;
	size_t n;
	uint16_t *
		fallback; /* of each length that was found: the longest beginning that its end is, too */
	size_t found; /* how much of it the last bytes are */
};

struct redact {
	struct redact_pattern *v;
	unsigned int n, room;
	uint64_t pairs[1024]; /* a bit for each two bytes that a pattern begins with */
	uint8_t *held;        /* exactly what may be the beginning of a pattern */
	size_t nheld, cap;
};

void redact_init(struct redact *r);
void redact_done(struct redact *r);

/* Also this, and what it is in base64, wherever in a longer text it stands, and in percent encoding. 0 or -ENOMEM, -E2BIG. */
int redact_add(struct redact *r, const void *p, size_t n);

/* Take n bytes; out gets what can be told now, ret_n of them, n + r->nheld at most. 0 or -ENOMEM. */
int redact_feed(struct redact *r, const void *p, size_t n, uint8_t *out, size_t *ret_n);
/* The end, or a pause that is longer than one says things in: what was held back is told as it is. */
size_t redact_end(struct redact *r, uint8_t *out);
