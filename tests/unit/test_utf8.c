/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/utf8.c: which bytes are a character, and which characters nobody should be shown. */
#include "base/utf8.h"

#include <string.h>

#include "base/own.h"

#include "test_help.h"

/* The bytes of a character; how many. */
static size_t encode(uint32_t c, uint8_t out[4])
{
	size_t len = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	for (size_t i = len; i-- > 1; c >>= 6)
		out[i] = (uint8_t)(0x80 | (c & 0x3f));
	out[0] = (uint8_t)(len == 1 ? c : (0xf00u >> len & 0xff) | c);
	return len;
}

TEST(utf8_every_character_comes_back)
{
	struct fence f = fence_open(4);

	for (uint32_t c = 0; c <= 0x10ffff; c++) {
		bool surrogate = c >= 0xd800 && c <= 0xdfff;
		uint8_t bytes[4];
		size_t len = encode(c, bytes);
		uint32_t got = 0;

		for (size_t n = 1; n <= len; n++) { /* nothing is read beyond n */
			size_t r = utf8_next(fence_copy(&f, bytes, n), n, &got);

			if (r != (n == len && !surrogate ? len : 0) || (r > 0 && got != c))
				test_fail(__FILE__, __LINE__, "U+%04X misread", c);
		}
		if (utf8_next(fence_copy(&f, bytes, len), len, &got) == len && surrogate)
			test_fail(__FILE__, __LINE__, "surrogate U+%04X taken", c);
	}
	CHECK(true);
	fence_close(&f);
}

/* Every sequence of two bytes and a half: what is taken must be the shortest form of what it says. */
TEST(utf8_nothing_else_is_a_character)
{
	static const uint8_t ends[] = { 0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90,
					0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xff };

	for (unsigned int first = 0; first < 256; first++)
		for (unsigned int second = 0; second < 256; second++)
			for (size_t i = 0; i < ARRAY_LEN(ends) * ARRAY_LEN(ends); i++) {
				const uint8_t p[4] = { (uint8_t)first, (uint8_t)second,
						       ends[i / ARRAY_LEN(ends)],
						       ends[i % ARRAY_LEN(ends)] };
				uint8_t again[4];
				uint32_t c = 0;
				size_t len = utf8_next(p, sizeof(p), &c);

				if (len == 0)
					continue;
				if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ||
				    encode(c, again) != len || memcmp(p, again, len) != 0)
					test_fail(__FILE__, __LINE__, "%02x %02x %02x %02x is U+%X",
						  p[0], p[1], p[2], p[3], c);
			}
	CHECK(true);
}

TEST(utf8_tricky_is_what_a_terminal_obeys)
{
	static const uint32_t tricky[] = {
		0x1b,   0x00,   0x07,   0x0a,   0x0d,    0x1f,    0x7f,   0x80,
		0x9b,   0x9f,                                                     /* control */
		0x200b, 0x200e, 0x200f, 0x202a, 0x202b,  0x202c,  0x202d, 0x202e, /* directions */
		0x2066, 0x2067, 0x2068, 0x2069, 0x061c,                           /* isolates */
		0x2028, 0x2029, 0xfeff, 0xad,   0xe0001, 0xe007f,
	};
	static const uint32_t plain[] = { ' ',    '~',    0xa0,   0xe9,   0x3b1,   0x5d0,   0x627,
					  0x20ac, 0x2010, 0x4e2d, 0xfffd, 0x1f600, 0x10ffff };

	for (size_t i = 0; i < ARRAY_LEN(tricky); i++)
		if (!utf8_is_tricky(tricky[i]))
			test_fail(__FILE__, __LINE__, "U+%04X is shown", tricky[i]);
	for (size_t i = 0; i < ARRAY_LEN(plain); i++)
		if (utf8_is_tricky(plain[i]))
			test_fail(__FILE__, __LINE__, "U+%04X is hidden", plain[i]);
	CHECK(true);
}

TEST(utf8_texts)
{
	static const char *const good[] = { "", "a", "\xc3\xa9", "a\xf0\x9f\x98\x80z", "\n\x7f" };
	static const char *const bad[] = { "\xff",         "a\x80",        "\xc3",
					   "\xc0\xaf",     "\xed\xa0\x80", "\xf4\x90\x80\x80",
					   "\xc3\xa9\xc3", "\xe2\x82z" };

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK(utf8_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!utf8_is_valid(bad[i]));
}
