// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#define XX 0x80 /* in no alphabet: a bit that no value has */

/* clang-format off */
static const uint8_t values[256] = {
	XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX,
	XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX,
	XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, XX, 62, XX, XX, XX, 63,
	52, 53, 54, 55, 56, 57, 58, 59, 60, 61, XX, XX, XX, XX, XX, XX,
	XX,  0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14,
	15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, XX, XX, XX, XX, XX,
	XX, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40,
	41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, XX, XX, XX, XX, XX,
	[0x80 ... 0xff] = XX,
};
/* clang-format on */

/* Four characters without padding. Not 0 when one of them is not of the alphabet. */
static inline unsigned int decode_four(const unsigned char *in, uint8_t *out)
{
	unsigned int a = values[in[0]], b = values[in[1]], c = values[in[2]], d = values[in[3]];
	unsigned int v = a << 18 | b << 12 | c << 6 | d;

	out[0] = (uint8_t)(v >> 16);
	out[1] = (uint8_t)(v >> 8);
	out[2] = (uint8_t)v;
	return (a | b | c | d) & XX;
}

int base64_decode(const char *p, size_t n, uint8_t *out, size_t *ret_len)
{
	const unsigned char *in = (const unsigned char *)p;
	size_t pad = 0, whole, len;
	unsigned int bad = 0;

	if (n % 4 != 0)
		return -EINVAL;
	if (n > 0 && in[n - 1] == '=')
		pad = in[n - 2] == '=' ? 2 : 1;
	whole = n / 4 - (pad > 0);
	len = whole * 3;
	/* Every four are read before their three are written, so out may be p. */
	for (size_t i = 0; i < whole; i++)
		bad |= decode_four(in + i * 4, out + i * 3);
	if (pad > 0) {
		const unsigned char tail[4] = { in[n - 4], in[n - 3], pad == 2 ? 'A' : in[n - 2],
						'A' };
		uint8_t bytes[3];

		bad |= decode_four(tail, bytes);
		bad |= bytes[2] | (pad == 2 ? bytes[1] : 0u);
		out[len++] = bytes[0];
		if (pad == 1)
			out[len++] = bytes[1];
	}
	if (bad != 0)
		return -EINVAL;
	*ret_len = len;
	return 0;
}

static void encode_three(const uint8_t *in, char *out)
{
	unsigned int v = (unsigned int)in[0] << 16 | (unsigned int)in[1] << 8 | in[2];

	out[0] = alphabet[v >> 18];
	out[1] = alphabet[v >> 12 & 63];
	out[2] = alphabet[v >> 6 & 63];
	out[3] = alphabet[v & 63];
}

size_t base64_encode(const uint8_t *p, size_t n, char *out)
{
	size_t whole = n / 3, rest = n % 3;

	for (size_t i = 0; i < whole; i++)
		encode_three(p + i * 3, out + i * 4);
	if (rest > 0) {
		const uint8_t tail[3] = { p[whole * 3], rest == 2 ? p[whole * 3 + 1] : 0, 0 };
		char *end = out + whole * 4;

		encode_three(tail, end);
		end[3] = '=';
		if (rest == 1)
			end[2] = '=';
	}
	return BASE64_TEXT_LEN(n);
}
