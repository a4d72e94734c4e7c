/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/base64.c: bytes as text and back, and nothing else. */
#include "base/base64.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"

#include "test_help.h"

static int decode(const char *text, uint8_t *out, size_t *ret_len)
{
	size_t n = strlen(text);
	struct fence in = fence_open(n + 1), room = fence_open(n + 1);
	uint8_t *exact = fence_at(&room, BASE64_BYTES_MAX(n));
	size_t len = SIZE_MAX;
	int r = base64_decode((const char *)fence_copy(&in, text, n), n, exact, &len);

	CHECK(r == 0 ? len <= BASE64_BYTES_MAX(n) : len == SIZE_MAX);
	if (r == 0) {
		memcpy(out, exact, len);
		*ret_len = len;
	}
	fence_close(&in);
	fence_close(&room);
	return r;
}

/* RFC 4648, section 10, and the ends of the alphabet. */
TEST(base64_known_texts)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *text;
	} rows[] = {
		{ "", 0, "" },
		{ "f", 1, "Zg==" },
		{ "fo", 2, "Zm8=" },
		{ "foo", 3, "Zm9v" },
		{ "foob", 4, "Zm9vYg==" },
		{ "fooba", 5, "Zm9vYmE=" },
		{ "foobar", 6, "Zm9vYmFy" },
		{ "\0", 1, "AA==" },
		{ "\0\0\0", 3, "AAAA" },
		{ "\xff\xff\xff", 3, "////" },
		{ "\xfb\xef\xbe", 3, "++++" },
		{ "\xff", 1, "/w==" },
		{ "\xff\xff", 2, "//8=" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint8_t bytes[16];
		char text[16];
		size_t n = 99;

		CHECK_EQ_INT(decode(rows[i].text, bytes, &n), 0);
		CHECK_EQ_INT(n, rows[i].n);
		CHECK_MEM(bytes, rows[i].bytes, n);
		n = base64_encode((const uint8_t *)rows[i].bytes, rows[i].n, text);
		CHECK_EQ_INT(n, strlen(rows[i].text));
		CHECK_MEM(text, rows[i].text, n);
	}
}

TEST(base64_refuses)
{
	static const char *const bad[] = {
		"A",     "AA",       "AAA",      "AAAAA",    "=",
		"==",    "===",      "====",     "A===",     "AA=A",
		"A=AA",  "=AAA",     "AAAA====", "AA==AAAA", "AAA=AAAA",
		"Zg== ", " Zg==",    "Zm 9",     "Zm9v\n",   "Zm9vZm9\n",
		"Zm9-",  "Zm9_",     "Zm9.",     "Zm9\x80",  "\xff\xff\xff\xff",
		"Zh==",  "Zm9=",     "Zg=a",     "A=A=",     "//9=",
		"/x==",  "AAAAA===", "AAAAAA=A",
	};
	uint8_t out[32];
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (decode(bad[i], out, &n) != -EINVAL)
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
	CHECK_EQ_INT(base64_decode("A\0AA", 4, out, &n), -EINVAL);
}

/* Every character at every place of a group. */
TEST(base64_every_character)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (unsigned int c = 0; c < 256; c++)
		for (unsigned int at = 0; at < 4; at++) {
			char text[9] = "AAAAAAAA";
			const char *value = c == 0 ? NULL : strchr(alphabet, (int)c);
			uint8_t out[6];
			size_t n = 0;
			int r;

			text[at] = (char)c;
			r = base64_decode(text, 8, out, &n);
			CHECK_EQ_INT(r, value == NULL ? -EINVAL : 0);
			if (value != NULL) {
				unsigned int v = (unsigned int)(value - alphabet) << (6 * (3 - at));

				CHECK_EQ_INT(out[0] << 16 | out[1] << 8 | out[2], v);
				CHECK(n == 6 && out[3] == 0);
			}
		}
}

TEST(base64_comes_back_also_in_place)
{
	enum { MAX = 300 };
	struct fence f = fence_open(BASE64_TEXT_LEN(MAX)), in = fence_open(MAX);
	uint64_t seed = 1;

	for (size_t n = 0; n <= MAX; n++) {
		char *text = fence_at(&f, BASE64_TEXT_LEN(n));
		uint8_t bytes[MAX];
		size_t len = 0;

		rnd_fill(&seed, bytes, n);
		CHECK_EQ_INT(base64_encode(fence_copy(&in, bytes, n), n, text), BASE64_TEXT_LEN(n));
		CHECK_EQ_INT(base64_decode(text, BASE64_TEXT_LEN(n), (uint8_t *)text, &len), 0);
		CHECK_EQ_INT(len, n);
		CHECK_MEM(text, bytes, n);
	}
	fence_close(&f);
	fence_close(&in);
}
