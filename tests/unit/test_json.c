/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/json.c: writing JSON. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/own.h"

#include "test_help.h"

#define REPLACED "\xef\xbf\xbd"

TEST(json_puts_commas_where_they_belong)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_u64(&j, "a", 1);
	json_open(&j, "b", '[');
	json_close(&j, ']');
	json_open(&j, "c", '[');
	json_str(&j, NULL, "x");
	json_open(&j, NULL, '{');
	json_close(&j, '}');
	json_open(&j, NULL, '{');
	json_null(&j, "d");
	json_close(&j, '}');
	json_bool(&j, NULL, true);
	json_close(&j, ']');
	json_bool(&j, "e", false);
	json_close(&j, '}');
	CHECK(!j.failed);
	CHECK_STR(j.buf, "{\"a\":1,\"b\":[],\"c\":[\"x\",{},{\"d\":null},true],\"e\":false}");
	CHECK_EQ_INT(j.len, strlen(j.buf));
	json_done(&j);
}

TEST(json_numbers_at_their_bounds)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '[');
	json_u64(&j, NULL, 0);
	json_u64(&j, NULL, UINT64_MAX);
	json_i64(&j, NULL, INT64_MIN);
	json_i64(&j, NULL, INT64_MAX);
	json_i64(&j, NULL, -1);
	json_milli(&j, NULL, 0);
	json_milli(&j, NULL, 1);
	json_milli(&j, NULL, 1234);
	json_milli(&j, NULL, 1050);
	json_milli(&j, NULL, UINT64_MAX);
	json_close(&j, ']');
	CHECK_STR(j.buf, "[0,18446744073709551615,-9223372036854775808,9223372036854775807,-1,"
			 "0.000,0.001,1.234,1.050,18446744073709551.615]");
	json_done(&j);
}

static void check_string(const char *bytes, size_t n, const char *want)
{
	struct fence f = fence_open(n);
	struct json j;

	json_init(&j);
	json_bytes(&j, NULL, fence_copy(&f, bytes, n), n);
	CHECK(j.len >= 2 && j.buf[0] == '"' && j.buf[j.len - 1] == '"');
	j.buf[j.len - 1] = '\0';
	CHECK_STR(j.buf + 1, want);
	json_done(&j);
	fence_close(&f);
}

#define CHECK_STRING(bytes, want) check_string((bytes), sizeof(bytes) - 1, (want))

TEST(json_strings_escape_what_must_be)
{
	CHECK_STRING("plain", "plain");
	CHECK_STRING("a\"b", "a\\\"b");
	CHECK_STRING("a\\b", "a\\\\b");
	CHECK_STRING("a\nb", "a\\nb");
	CHECK_STRING("\t\r", "\\u0009\\u000d");
	CHECK_STRING("nul\0inside", "nul\\u0000inside");
	CHECK_STRING("\x1b[31m", "\\u001b[31m");
	CHECK_STRING("\x7f", "\\u007f");
	CHECK_STRING("/", "/");
	CHECK_STRING("\"", "\\\"");
	CHECK_STRING("\"\"", "\\\"\\\"");
}

/* Valid, but not for a terminal to see: 8-bit controls, directions, tags. */
TEST(json_strings_escape_what_would_trick_a_reader)
{
	static const char override[] = { 'a', '\xe2', '\x80', '\xae', '\xe2', '\x80', '\xae', 'z' };

	CHECK_STRING("\xc2\x80", "\\u0080");
	CHECK_STRING("\xc2\x9b", "\\u009b");
	CHECK_STRING("\xe2\x80\xa8", "\\u2028");
	CHECK_STRING("\xef\xbb\xbf", "\\ufeff");
	CHECK_STRING("\xf3\xa0\x80\x81", "\\udb40\\udc01");
	/* Right to left from here on: spelled out, or a reader of this file would be tricked. */
	check_string(override, sizeof(override), "a\\u202e\\u202ez");
}

TEST(json_strings_keep_what_is_utf8)
{
	CHECK_STRING("\xc2\xa0", "\xc2\xa0");
	CHECK_STRING("\xdf\xbf", "\xdf\xbf");
	CHECK_STRING("\xe0\xa0\x80", "\xe0\xa0\x80");
	CHECK_STRING("\xed\x9f\xbf", "\xed\x9f\xbf");
	CHECK_STRING("\xee\x80\x80", "\xee\x80\x80");
	CHECK_STRING("\xef\xbf\xbf", "\xef\xbf\xbf");
	CHECK_STRING("\xf0\x90\x80\x80", "\xf0\x90\x80\x80");
	CHECK_STRING("\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf");
	CHECK_STRING("a\xc3\xa9z", "a\xc3\xa9z");
}

TEST(json_strings_replace_what_is_not)
{
	CHECK_STRING("\x80", REPLACED);
	CHECK_STRING("\xbf", REPLACED);
	CHECK_STRING("\xff\xfe", REPLACED REPLACED);
	/* longer than need be */
	CHECK_STRING("\xc0\x80", REPLACED REPLACED);
	CHECK_STRING("\xc1\xbf", REPLACED REPLACED);
	CHECK_STRING("\xe0\x9f\xbf", REPLACED REPLACED REPLACED);
	CHECK_STRING("\xf0\x8f\xbf\xbf", REPLACED REPLACED REPLACED REPLACED);
	/* a surrogate, and what lies beyond the last character */
	CHECK_STRING("\xed\xa0\x80", REPLACED REPLACED REPLACED);
	CHECK_STRING("\xf4\x90\x80\x80", REPLACED REPLACED REPLACED REPLACED);
	CHECK_STRING("\xf5\x80\x80\x80", REPLACED REPLACED REPLACED REPLACED);
	/* cut at the end: nothing behind it is looked at; the beginning of a character is replaced as one */
	CHECK_STRING("\xc3", REPLACED);
	CHECK_STRING("\xe2\x82", REPLACED);
	CHECK_STRING("\xf0\x9f\x98", REPLACED);
	/* cut by another character, which stays */
	CHECK_STRING("\xe2\x82x", REPLACED "x");
	CHECK_STRING("\xc3\"", REPLACED "\\\"");
	CHECK_STRING("\xc3\xc3\xa9", REPLACED "\xc3\xa9");
}

TEST(json_keys_are_strings_too)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_u64(&j, "a\"\x80", 1);
	json_u64(&j, "", 2);
	json_close(&j, '}');
	CHECK_STR(j.buf, "{\"a\\\"" REPLACED "\":1,\"\":2}");
	json_done(&j);
}

TEST(json_strings_may_come_in_pieces)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_value(&j, "a");
	json_raw(&j, "\"", 1);
	json_chars(&j, "x\n", 2);
	json_chars(&j, "", 0);
	json_chars(&j, "\xc3", 1); /* no whole character: the next piece does not help */
	json_chars(&j, "\xa9\"", 2);
	json_raw(&j, "\"", 1);
	json_value(&j, "b");
	json_raw(&j, "[1]", 3);
	json_u64(&j, "c", 2);
	json_close(&j, '}');
	CHECK_STR(j.buf, "{\"a\":\"x\\n" REPLACED REPLACED "\\\"\",\"b\":[1],\"c\":2}");
	json_done(&j);
}

TEST(json_grows_as_far_as_needed)
{
	enum { N = 3 << 20 };
	char *big = malloc(N);
	struct json j;

	CHECK(big != NULL);
	memset(big, '\x01', N);
	json_init(&j);
	json_bytes(&j, NULL, big, N);
	CHECK(!j.failed);
	CHECK_EQ_INT(j.len, (size_t)N * 6 + 2);
	CHECK_EQ_INT(strlen(j.buf), j.len);
	for (size_t i = 0; i < N; i++)
		if (memcmp(j.buf + 1 + i * 6, "\\u0001", 6) != 0)
			test_fail(__FILE__, __LINE__, "byte %zu is wrong", i);
	json_done(&j);
	free(big);
}

TEST(json_ends_in_nul_after_every_call)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '[');
	for (int i = 0; i < 2000; i++) {
		json_i64(&j, NULL, i);
		CHECK_EQ_INT(strlen(j.buf), j.len);
		CHECK(j.len < j.cap);
	}
	json_done(&j);
}

TEST(json_that_failed_stays_failed)
{
	struct json j;
	size_t len;

	json_init(&j);
	json_open(&j, NULL, '[');
	len = j.len;
	j.failed = true; /* as after realloc() */
	json_str(&j, NULL, "more");
	json_close(&j, ']');
	CHECK(j.failed);
	CHECK_EQ_INT(j.len, len);
	json_done(&j);
	CHECK(!j.failed && j.buf == NULL);
	json_u64(&j, NULL, 1); /* usable again */
	CHECK_STR(j.buf, "1");
	json_done(&j);
	json_done(&j);
}
