/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/http_range.c: one range of bytes, and everything else. */
#include <string.h>

#include "base/own.h"
#include "wire/http_range.h"

#include "test.h"

TEST(http_range_of_bytes)
{
	static const struct {
		const char *text, *from, *count;
	} rows[] = {
		{ "bytes=0-0", "0", "1" },
		{ "bytes=0-", "0", "" },
		{ "bytes=5-9", "5", "5" },
		{ "bytes=007-9", "7", "3" },
		{ "bytes=-5", "-5", "" },
		{ "bytes=-0", "-0", "" },
		{ "BYTES=1-2", "1", "2" },
		{ "bytes=999999999999999999-", "999999999999999999", "" },
		{ "bytes=10-18446744073709551615", "10", "9223372036854775798" },
		{ "bytes=18446744073709551616-", "9223372036854775807", "" },
		{ "bytes=99999999999999999999999-99999999999999999999999", "9223372036854775807",
		  "1" },
		{ "bytes=-99999999999999999999999999", "-9223372036854775807", "" },
		{ "bytes=00000000000000000000000000001-", "1", "" },
	};
	struct http_range r;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		http_range_parse((struct http_slice){ rows[i].text, strlen(rows[i].text) }, &r);
		if (!r.set)
			test_fail(__FILE__, __LINE__, "'%s' was not taken", rows[i].text);
		CHECK_STR(r.from, rows[i].from);
		CHECK_STR(r.count, rows[i].count);
	}
}

TEST(http_range_that_is_none)
{
	static const char *const rows[] = {
		"",           "bytes",      "bytes=",     "bytes=-",    "bytes=5-4",
		"bytes=a-b",  "bytes=1",    "bytes=--1",  "bytes=1-2-", "bytes=1-2,4-5",
		"bytes=1-2,", "bytes= 1-2", "bytes=1-2 ", "bytes =1-2", "items=1-2",
		"bytes=+1-2", "bytes=0x1-", "0-9",        "bytes=1.5-", "bytes=-1-",
	};
	struct http_range r;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		http_range_parse((struct http_slice){ rows[i], strlen(rows[i]) }, &r);
		if (r.set)
			test_fail(__FILE__, __LINE__, "'%s' was taken", rows[i]);
		CHECK_STR(r.from, "0");
		CHECK_STR(r.count, "");
	}
	http_range_parse((struct http_slice){ NULL, 0 }, &r);
	CHECK(!r.set);
}

/* It never reads beyond what it is given. */
TEST(http_range_has_an_end)
{
	static const char text[] = "bytes=1-99";
	struct http_range r;

	for (size_t n = 0; n < sizeof(text); n++) {
		http_range_parse((struct http_slice){ text, n }, &r);
		CHECK(r.set == (n >= 8 && n < sizeof(text)));
	}
}
