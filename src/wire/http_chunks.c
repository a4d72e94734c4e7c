// SPDX-License-Identifier: Apache-2.0
/*
 * Chunked bodies. Everything but the data is read byte by byte: it is little, and a state per byte
 * is a reader that cannot disagree with itself about where a piece was cut.
 */
#include "wire/http1.h"

enum chunk_state {
	SIZE,       /* hexadecimal digits */
	SIZE_LF,    /* CR was read */
	DATA,       /* left bytes */
	DATA_CR,    /* the line end behind data */
	DATA_LF,    /* CR was read */
	TRAILER,    /* behind the last chunk: the line end of an empty trailer */
	TRAILER_LF, /* CR was read */
	DONE,
	REFUSED,
};

void http_chunks_init(struct http_chunks *c)
{
	*c = (struct http_chunks){ .state = SIZE };
}

static int chunk_size(struct http_chunks *c, char byte, struct http_refusal *r)
{
	int digit = http_hex(byte);

	if (digit < 0) {
		if (byte == ';' && c->digits > 0)
			return http_refuse(r, 400, "chunk extensions are not taken");
		if (byte != '\r' || c->digits == 0)
			return http_refuse(r, 400,
					   "the size of a chunk is not a hexadecimal number");
		c->state = SIZE_LF;
		return 0;
	}
	c->left = c->left << 4 | (unsigned int)digit;
	if (++c->digits > 16 || c->left > UINT64_C(1) << 62)
		return http_refuse(r, 400, "the size of a chunk is too large");
	return 0;
}

/* One byte that is not data. */
static int chunk_byte(struct http_chunks *c, char byte, struct http_refusal *r)
{
	if (c->state == SIZE)
		return chunk_size(c, byte, r);
	if (c->state == TRAILER && byte != '\r')
		return http_refuse(r, 400, "trailers are not taken");
	if (byte != (c->state == DATA_CR || c->state == TRAILER ? '\r' : '\n'))
		return http_refuse(r, 400, "a line of a chunked body does not end with CR LF");
	if (c->state == SIZE_LF)
		c->state = c->left > 0 ? DATA : TRAILER;
	else if (c->state == DATA_LF)
		http_chunks_init(c);
	else
		c->state++;
	return 0;
}

ptrdiff_t http_chunks_feed(struct http_chunks *c, const char *p, size_t n, struct http_slice *data,
			   bool *end, struct http_refusal *r)
{
	size_t at = 0;

	*data = (struct http_slice){ p, 0 };
	for (; at < n && c->state != DATA && c->state != DONE && c->state != REFUSED; at++)
		if (chunk_byte(c, p[at], r) < 0)
			c->state = REFUSED;
	*end = c->state == DONE;
	if (c->state == REFUSED)
		return at == 0 ? http_refuse(r, 400, "the body was refused before") : -1;
	if (c->state == DATA && at < n) {
		*data = (struct http_slice){ p + at, n - at < c->left ? n - at : (size_t)c->left };
		at += data->n;
		c->left -= data->n;
		if (c->left == 0)
			c->state = DATA_CR;
	}
	return (ptrdiff_t)at;
}
