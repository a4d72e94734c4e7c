// SPDX-License-Identifier: Apache-2.0
#include "wire/ws_frame.h"

#include "base/base64.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIN  0x80u
#define RSV  0x70u
#define MASK 0x80u

void ws_reader_init(struct ws_reader *r, size_t max)
{
	*r = (struct ws_reader){ .max = max };
}

void ws_reader_done(struct ws_reader *r)
{
	free(r->buf);
	ws_reader_init(r, r->max);
}

/* --- heads ---------------------------------------------------------------------------------------- */

/* How long this head is, as far as it can be told. */
static size_t head_len(const struct ws_reader *r)
{
	unsigned int length = r->nhead > 1 ? r->head[1] & 0x7fu : 0;

	return length == 127 ? 10 : length == 126 ? 4 : 2;
}

static uint64_t length_of(const struct ws_reader *r)
{
	unsigned int length = r->head[1] & 0x7fu;
	uint64_t v = 0;

	if (length < 126)
		return length;
	for (size_t i = 2; i < r->nhead; i++)
		v = v << 8 | r->head[i];
	return v;
}

/* The head of a frame is whole. */
static int begin_frame(struct ws_reader *r)
{
	unsigned int code = r->head[0] & 0x0fu;
	uint64_t n = length_of(r);

	if ((r->head[0] & RSV) != 0 || (r->head[1] & MASK) != 0)
		return -EPROTO;
	if ((r->nhead == 4 && n < 126) || (r->nhead == 10 && (n <= UINT16_MAX || n > INT64_MAX)))
		return -EPROTO;
	r->fin = (r->head[0] & FIN) != 0;
	r->frame = (enum ws_type)code;
	r->left = n;
	r->in_frame = true;
	if (code >= WS_CLOSE) {
		r->ncontrol = 0;
		return code > WS_PONG || !r->fin || n > WS_CONTROL_MAX ? -EPROTO : 0;
	}
	if (code == WS_NOTHING) {
		if (r->type == WS_NOTHING)
			return -EPROTO;
	} else {
		if (code > WS_BINARY || r->type != WS_NOTHING)
			return -EPROTO;
		r->type = r->frame;
		r->n = 0;
	}
	return n > r->max - r->n ? -E2BIG : 0;
}

/* --- contents ------------------------------------------------------------------------------------- */

static int keep(struct ws_reader *r, const uint8_t *p, size_t n)
{
	if (r->n + n + 1 > r->cap) {
		size_t cap = r->cap * 2 + n + 256;
		uint8_t *buf = realloc(r->buf, cap);

		if (buf == NULL)
			return -ENOMEM;
		r->buf = buf;
		r->cap = cap;
	}
	if (n > 0)
		(void)memcpy(r->buf + r->n, p, n);
	r->n += n;
	r->buf[r->n] = '\0';
	return 0;
}

static int take_content(struct ws_reader *r, const uint8_t *p, size_t n)
{
	r->left -= n;
	if (r->frame < WS_CLOSE)
		return keep(r, p, n);
	if (n > 0)
		(void)memcpy(r->control + r->ncontrol, p, n);
	r->ncontrol += n;
	r->control[r->ncontrol] = '\0';
	return 0;
}

static bool is_utf8(const uint8_t *p, size_t n)
{
	uint32_t c;

	for (size_t i = 0, len; i < n; i += len) {
		len = utf8_next(p + i, n - i, &c);
		if (len == 0)
			return false;
	}
	return true;
}

static bool is_close(const struct ws_reader *r)
{
	unsigned int code;

	if (r->ncontrol == 0)
		return true;
	if (r->ncontrol == 1)
		return false;
	code = (unsigned int)r->control[0] << 8 | r->control[1];
	return code >= 1000 && code < 5000 && code != 1004 && code != 1005 && code != 1006 &&
	       is_utf8(r->control + 2, r->ncontrol - 2);
}

/* A frame is whole. */
static int end_frame(struct ws_reader *r, struct ws_message *m)
{
	r->in_frame = false;
	r->nhead = 0;
	if (r->frame >= WS_CLOSE) {
		if (r->frame == WS_CLOSE && !is_close(r))
			return -EPROTO;
		*m = (struct ws_message){ r->frame, r->control, r->ncontrol };
		return 0;
	}
	if (!r->fin)
		return 0;
	if (r->type == WS_TEXT && !is_utf8(r->buf, r->n))
		return -EPROTO;
	*m = (struct ws_message){ r->type, r->buf, r->n };
	r->type = WS_NOTHING;
	return 0;
}

static int step(struct ws_reader *r, const uint8_t *p, size_t n, size_t *used, struct ws_message *m)
{
	size_t part;
	int rc = 0;

	if (!r->in_frame) {
		r->head[r->nhead++] = *p;
		*used = 1;
		if (r->nhead < head_len(r) || r->nhead < 2)
			return 0;
		rc = begin_frame(r);
		part = 0;
	} else {
		part = n < r->left ? n : (size_t)r->left;
		*used = part;
	}
	if (rc == 0)
		rc = take_content(r, p, part);
	if (rc == 0 && r->left == 0)
		rc = end_frame(r, m);
	return rc;
}

ptrdiff_t ws_read(struct ws_reader *r, const uint8_t *p, size_t n, struct ws_message *m)
{
	size_t at = 0;

	*m = (struct ws_message){ .type = WS_NOTHING };
	if (r->refused)
		return -EPROTO;
	while (at < n && m->type == WS_NOTHING) {
		size_t used = 0;
		int rc = step(r, p + at, n - at, &used, m);

		if (rc < 0) {
			r->refused = true;
			*m = (struct ws_message){ .type = WS_NOTHING };
			return rc;
		}
		at += used;
	}
	return (ptrdiff_t)at;
}

unsigned int ws_close_code(const struct ws_message *m, const char **why, size_t *n)
{
	*why = m->n > 2 ? (const char *)m->p + 2 : "";
	*n = m->n > 2 ? m->n - 2 : 0;
	return m->n < 2 ? 1005 : (unsigned int)m->p[0] << 8 | m->p[1];
}

/* --- writing -------------------------------------------------------------------------------------- */

size_t ws_head(uint8_t out[WS_HEAD_MAX], enum ws_type type, uint64_t n, const uint8_t mask[4])
{
	size_t len = 2;

	out[0] = (uint8_t)(FIN | (unsigned int)type);
	if (n < 126) {
		out[1] = (uint8_t)(MASK | n);
	} else {
		unsigned int bytes = n <= UINT16_MAX ? 2 : 8;

		out[1] = (uint8_t)(MASK | (bytes == 2 ? 126u : 127u));
		for (unsigned int i = 0; i < bytes; i++)
			out[len++] = (uint8_t)(n >> (8 * (bytes - 1 - i)));
	}
	(void)memcpy(out + len, mask, 4);
	return len + 4;
}

void ws_mask(uint8_t *p, size_t n, const uint8_t mask[4])
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(p[i] ^ mask[i % 4]);
}

/* --- the handshake -------------------------------------------------------------------------------- */

static uint32_t rotate(uint32_t v, unsigned int n)
{
	return v << n | v >> (32 - n);
}

/* One block of SHA-1 (FIPS 180-4), which the RFC asks for; nothing is kept secret by it. */
static void sha1_block(uint32_t h[5], const uint8_t block[64])
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	for (unsigned int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (unsigned int i = 16; i < 80; i++)
		w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (unsigned int i = 0; i < 80; i++) {
		static const uint32_t k[] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
		uint32_t f, t;

		if (i < 20)
			f = (b & c) | (~b & d);
		else if (i < 40 || i >= 60)
			f = b ^ c ^ d;
		else
			f = (b & c) | (b & d) | (c & d);
		t = rotate(a, 5) + f + e + k[i / 20] + w[i];
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void ws_accept(const char key[WS_KEY], char ret[WS_ACCEPT])
{
	static const char fixed[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	enum { LEN = WS_KEY - 1 + sizeof(fixed) - 1 }; /* 60 bytes: two blocks with padding */
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	uint8_t block[128] = { 0 }, sum[20];

	(void)memcpy(block, key, WS_KEY - 1);
	(void)memcpy(block + WS_KEY - 1, fixed, sizeof(fixed) - 1);
	block[LEN] = 0x80;
	block[126] = (uint8_t)(LEN * 8 >> 8);
	block[127] = (uint8_t)(LEN * 8 & 0xff);
	sha1_block(h, block);
	sha1_block(h, block + 64);
	for (unsigned int i = 0; i < 20; i++)
		sum[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
	ret[base64_encode(sum, sizeof(sum), ret)] = '\0';
}
