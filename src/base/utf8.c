// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <string.h>

/* The second byte is bounded more closely behind some first ones: no overlong form, no surrogate, nothing too high. */
static void second_range(unsigned char first, unsigned char *low, unsigned char *high)
{
	if (first == 0xe0)
		*low = 0xa0;
	else if (first == 0xed)
		*high = 0x9f;
	else if (first == 0xf0)
		*low = 0x90;
	else if (first == 0xf4)
		*high = 0x8f;
}

size_t utf8_next(const unsigned char *p, size_t n, uint32_t *ret)
{
	unsigned char low = 0x80, high = 0xbf;
	uint32_t c;
	size_t len;

	if (p[0] < 0x80) {
		*ret = p[0];
		return 1;
	}
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	if (len > n)
		return 0;
	second_range(p[0], &low, &high);
	if (p[1] < low || p[1] > high)
		return 0;
	c = p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (p[i] & 0x3fu);
	}
	*ret = c;
	return len;
}

size_t utf8_bad(const unsigned char *p, size_t n)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t len, i;

	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 1;
	len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	second_range(p[0], &low, &high);
	for (i = 1; i < len && i < n && p[i] >= low && p[i] <= high; i++) {
		low = 0x80;
		high = 0xbf;
	}
	return i;
}

size_t utf8_unfinished(const unsigned char *p, size_t n)
{
	for (size_t back = 1; back <= 3 && back <= n; back++) {
		unsigned char c = p[n - back];
		size_t need = c > 0xf4 ? 0 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;

		if ((c & 0xc0) == 0x80)
			continue;
		return need > back && utf8_bad(p + n - back, back) == back ? back : 0;
	}
	return 0;
}

bool utf8_is_tricky(uint32_t c)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{ 0x00, 0x1f },     { 0x7f, 0x9f },       /* control */
		{ 0xad, 0xad },     { 0x61c, 0x61c },     /* soft hyphen, Arabic mark */
		{ 0x200b, 0x200f }, { 0x2028, 0x202e },   /* zero width, line ends, directions */
		{ 0x2060, 0x206f }, { 0xfeff, 0xfeff },   /* joiners, isolates, byte order mark */
		{ 0xfff9, 0xfffb }, { 0xe0000, 0xe007f }, /* annotations, tags */
	};

	for (unsigned int i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (c >= ranges[i].first && c <= ranges[i].last)
			return true;
	return false;
}

bool utf8_is_valid(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t left = strlen(text), n = 1;
	uint32_t c;

	for (; left > 0 && n > 0; p += n, left -= n)
		n = utf8_next(p, left, &c);
	return left == 0;
}
