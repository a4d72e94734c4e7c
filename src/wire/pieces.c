// SPDX-License-Identifier: Apache-2.0
#include "wire/pieces.h"

#include "wire/msg.h"

#include <errno.h>
#include <string.h>

static void fill(uint8_t *buf, size_t *len, size_t want, const uint8_t **p, size_t *n)
{
	size_t take = want - *len < *n ? want - *len : *n;

	if (take > 0)
		(void)memcpy(buf + *len, *p, take);
	*len += take;
	*p += take;
	*n -= take;
}

ptrdiff_t pieces_take(uint8_t *buf, size_t max, size_t *len, const void *p, size_t n, size_t *ret_n)
{
	const uint8_t *at = p;
	struct msg_in h;
	size_t rest;

	*ret_n = 0;
	if (*len < PIECES_HEADER)
		fill(buf, len, PIECES_HEADER, &at, &n);
	if (*len < PIECES_HEADER)
		return at - (const uint8_t *)p;
	msg_in_init(&h, buf, PIECES_HEADER);
	rest = msg_get_u32(&h);
	if (rest == 0 || rest > max)
		return -EPROTO;
	fill(buf, len, PIECES_HEADER + rest, &at, &n);
	if (*len == PIECES_HEADER + rest)
		*ret_n = rest;
	return at - (const uint8_t *)p;
}
