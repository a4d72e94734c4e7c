/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/json_text.c: JSON of somebody else, passed on. */
#include "wire/json_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/utf8.h"
#include "wire/jsonr.h"

#include "test_help.h"

#define REPLACED "\xef\xbf\xbd"

/* The text read from in front of a fence, and written again: NULL if it is refused. To be freed. */
static char *rewritten(const char *text, size_t n, int *rc)
{
	struct fence f = fence_open(n > 0 ? n : 1);
	struct json_text t;
	struct json j;

	json_init(&j);
	*rc = json_text_read((const char *)fence_copy(&f, text, n), n, &t);
	if (*rc == 0) {
		json_text_put(t, &j, NULL);
		CHECK(!j.failed);
		CHECK(j.len <= 6 * n);
	}
	fence_close(&f);
	return j.buf;
}

static void check_text(const char *text, size_t n, const char *want)
{
	int rc;
	own_free char *got = rewritten(text, n, &rc), *again = NULL;

	if (rc != 0)
		test_fail(__FILE__, __LINE__, "'%.*s' is refused: %d", (int)n, text, rc);
	CHECK_STR(got, want);
	again = rewritten(got, strlen(got), &rc);
	CHECK_EQ_INT(rc, 0);
	CHECK_STR(again, want);
}

static void check_refused(const char *text, size_t n, int want)
{
	int rc;
	own_free char *got = rewritten(text, n, &rc);

	if (rc != want)
		test_fail(__FILE__, __LINE__, "'%.*s' gives %d instead of %d", (int)n, text, rc,
			  want);
	CHECK(got == NULL);
}

#define CHECK_TEXT(text, want) check_text((text), sizeof(text) - 1, (want))
#define CHECK_REFUSED(text)    check_refused((text), sizeof(text) - 1, -EINVAL)

TEST(json_text_keeps_what_is_compact)
{
	static const char *const same[] = {
		"null",
		"true",
		"false",
		"0",
		"-0",
		"-1.5e-300",
		"1E+2",
		"123456789012345678901234567890",
		"1e999",
		"\"\"",
		"[]",
		"{}",
		"[[],{},[[]],{\"a\":{}}]",
		"{\"b\":1,\"a\":[true,null],\"b\":2}",
		"{\"\":\"\"}",
		"[\"a b\",\"}\",\"]\",\",\",\":\"]",
	};

	for (size_t i = 0; i < ARRAY_LEN(same); i++)
		check_text(same[i], strlen(same[i]), same[i]);
}

TEST(json_text_drops_space_outside_of_strings)
{
	CHECK_TEXT(" \t\r\n null\r\n", "null");
	CHECK_TEXT("[\n1 ,\t2\r\n,3 ]", "[1,2,3]");
	CHECK_TEXT("{ \"a\" : 1 ,\n\"b\":\n[ ] , \"c d\" : { } }", "{\"a\":1,\"b\":[],\"c d\":{}}");
	CHECK_TEXT("\" a  b \"", "\" a  b \"");
}

TEST(json_text_writes_strings_in_one_way)
{
	CHECK_TEXT("\"\\u0061\\/\\\"\\\\\"", "\"a/\\\"\\\\\"");
	CHECK_TEXT("\"\\b\\f\\n\\r\\t\\u000A\"", "\"\\u0008\\u000c\\n\\u000d\\u0009\\n\"");
	CHECK_TEXT("\"\\u0000\"", "\"\\u0000\"");
	CHECK_TEXT("\"\\u00e9\\u20AC\\ud83d\\ude00\"", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
	CHECK_TEXT("\"\\u2028\\udb40\\udc01\"", "\"\\u2028\\udb40\\udc01\"");
	CHECK_TEXT("\"\x7f\xc2\x85\xe2\x80\xa9\"", "\"\\u007f\\u0085\\u2029\"");
	CHECK_TEXT("{\"\\u0061\\u001b\":1}", "{\"a\\u001b\":1}");
	CHECK_TEXT("\"\\\\\\\\\"", "\"\\\\\\\\\"");
}

TEST(json_text_replaces_what_is_no_character)
{
	CHECK_TEXT("\"\xff\xc3\"", "\"" REPLACED REPLACED "\"");
	CHECK_TEXT("\"\xc3\\u00e9\xa9\"", "\"" REPLACED "\xc3\xa9" REPLACED "\"");
	CHECK_TEXT("\"\xed\xa0\x80\"", "\"" REPLACED REPLACED REPLACED "\"");
	CHECK_TEXT("\"\\ud800\"", "\"" REPLACED "\"");
	CHECK_TEXT("\"\\udc00\\ud800\"", "\"" REPLACED REPLACED "\"");
	CHECK_TEXT("\"\\ud800\\u0041\"", "\"" REPLACED "A\"");
	CHECK_TEXT("\"\\ud800\\ud83d\\ude00\"", "\"" REPLACED "\xf0\x9f\x98\x80\"");
	CHECK_TEXT("\"\\ud800\\n\"", "\"" REPLACED "\\n\"");
	CHECK_TEXT("\"\\ud800u dc00\"", "\"" REPLACED "u dc00\"");
	CHECK_TEXT("{\"\\udfff\":\"\xf4\x90\x80\x80\"}",
		   "{\"" REPLACED "\":\"" REPLACED REPLACED REPLACED REPLACED "\"}");
}

TEST(json_text_refuses_what_is_not_json)
{
	static const char *const bad[] = {
		"",           " ",
		"nul",        "nullx",
		"True",       "NaN",
		"Infinity",   "-Infinity",
		"-",          "+1",
		"01",         "-01",
		"1.",         ".5",
		"1.e1",       "1e",
		"1e+",        "0x1",
		"1 2",        "[1 2]",
		"[1,]",       "[,1]",
		"[,]",        "[",
		"]",          "[1",
		"[1}",        "{",
		"}",          "{]",
		"{\"a\"}",    "{\"a\":}",
		"{\"a\":1,}", "{\"a\" 1}",
		"{a:1}",      "{1:1}",
		"{'a':1}",    "{\"a\":1 \"b\":2}",
		"{,}",        "{\"a\":1]",
		"\"",         "\"a",
		"\"\\\"",     "\"\\",
		"\"\\x41\"",  "\"\\u12\"",
		"\"\\u123\"", "\"\\u12g4\"",
		"\"\\u\"",    "\"\\u+123\"",
		"'a'",        "//\n1",
		"1//",        "[]]",
		"{}{}",       "\"a\"\"b\"",
		"[\"a\":1]",  "{\"a\":1:2}",
		"1,",         "\xef\xbb\xbf[]",
		"\"\\'\"",    "[1,2",
		"{\"a\":[1}", "\"a\nb\"",
		"\"a\tb\"",   "\"\x1f\"",
		"\x0b[]",     "\xc2\xa0[]",
		"tru e",      "- 1",
		"1 .5",       "{\"a\\\":1}",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		check_refused(bad[i], strlen(bad[i]), -EINVAL);
	CHECK_REFUSED("1\0");
	CHECK_REFUSED("\"a\0b\"");
	CHECK_REFUSED("[1,\0 2]");
}

/* Whatever is cut off, nothing is taken for whole and nothing behind the end is looked at. */
TEST(json_text_refuses_every_beginning)
{
	static const char text[] =
		"{\"a\": [1.5e3, -2, \"\\u00e9\\ud83d\\ude00\\n\\\\\", true, null, {}],"
		" \"\\\"\": {\"b\": [[], \"\"]}}";

	for (size_t n = 0; n < sizeof(text) - 1; n++)
		check_refused(text, n, -EINVAL);
	CHECK_TEXT(text, "{\"a\":[1.5e3,-2,\"\xc3\xa9\xf0\x9f\x98\x80\\n\\\\\",true,null,{}],"
			 "\"\\\"\":{\"b\":[[],\"\"]}}");
}

/* --- bounds -------------------------------------------------------------------------------------------------- */

/* n times `open`, something in the middle, n times `close`. */
static char *nested(size_t n, const char *open, const char *middle, const char *close)
{
	char *p = malloc(n * (strlen(open) + strlen(close)) + strlen(middle) + 1), *to = p;

	CHECK(p != NULL);
	for (size_t i = 0; i < n; i++)
		to = stpcpy(to, open);
	to = stpcpy(to, middle);
	for (size_t i = 0; i < n; i++)
		to = stpcpy(to, close);
	return p;
}

static void check_depth(const char *open, const char *middle, const char *close)
{
	own_free char *most = nested(JSON_TEXT_DEPTH_MAX, open, middle, close);
	own_free char *more = nested(JSON_TEXT_DEPTH_MAX + 1, open, middle, close);
	own_free char *half = nested(JSON_TEXT_DEPTH_MAX + 1, open, "", "");
	own_free char *many = nested(1000000, open, middle, close);

	check_text(most, strlen(most), most);
	check_refused(more, strlen(more), -E2BIG);
	check_refused(half, strlen(half), -E2BIG);
	check_refused(many, strlen(many), -E2BIG);
}

TEST(json_text_is_bounded_in_depth)
{
	check_depth("[", "", "]");
	check_depth("[", "1", "]");
	check_depth("[2,", "3", "]");
	check_depth("{\"a\":", "null", "}");
}

TEST(json_text_may_be_wide)
{
	enum { N = 300000 }; /* more values than jsonr takes */
	own_free char *text = malloc(N * 3 + 3);
	char *to = text;

	CHECK(text != NULL);
	*to++ = '[';
	for (size_t i = 0; i < N; i++)
		to = stpcpy(to, i == 0 ? "[]" : ",[]");
	to = stpcpy(to, "]");
	check_text(text, (size_t)(to - text), text);
}

TEST(json_text_is_bounded_in_the_length_of_numbers)
{
	char text[JSON_TEXT_NUMBER_MAX + 4];

	memset(text, '1', sizeof(text));
	text[JSON_TEXT_NUMBER_MAX] = '\0';
	check_text(text, JSON_TEXT_NUMBER_MAX, text);
	text[JSON_TEXT_NUMBER_MAX] = '1';
	check_refused(text, JSON_TEXT_NUMBER_MAX + 1, -E2BIG);
	text[0] = '[';
	text[JSON_TEXT_NUMBER_MAX + 2] = ']';
	check_refused(text, JSON_TEXT_NUMBER_MAX + 3, -E2BIG);
}

TEST(json_text_has_long_strings)
{
	enum { N = 5 << 20 };
	static const struct {
		const char *piece, *want;
	} rows[] = { { "x", "x" },         { "\\n", "\\n" },     { "\\\"", "\\\"" },
		     { "\\t", "\\u0009" }, { "\xff", REPLACED }, { "\x7f", "\\u007f" } };

	for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
		own_free char *text = nested(N, rows[r].piece, "", "");
		own_free char *quoted = malloc(strlen(text) + 3), *got = NULL;
		size_t each = strlen(rows[r].want);
		int rc;

		CHECK(quoted != NULL);
		(void)sprintf(quoted, "\"%s\"", text);
		got = rewritten(quoted, strlen(quoted), &rc);
		CHECK_EQ_INT(rc, 0);
		CHECK_EQ_INT(strlen(got), N * each + 2);
		for (size_t i = 0; i < N; i++)
			if (memcmp(got + 1 + i * each, rows[r].want, each) != 0)
				test_fail(__FILE__, __LINE__, "piece %zu of row %zu", i, r);
	}
}

/* --- walking ------------------------------------------------------------------------------------------------- */

/* Eight bytes are looked at at once: at every place of them. */
TEST(json_text_refuses_every_stray_byte_of_a_long_string)
{
	char text[48];

	for (size_t n = 0; n < 40; n++)
		for (size_t at = 0; at < n; at++)
			for (unsigned int c = 1; c < 256; c++) {
				bool bad = c < 0x20 || c == '"' || c == '\\';
				struct json_text t;

				memset(text, 'x', sizeof(text));
				text[0] = text[n + 1] = '"';
				text[1 + at] = (char)c;
				CHECK_EQ_INT(json_text_read(text, n + 2, &t), bad ? -EINVAL : 0);
			}
}

static struct json_text read_text(const char *text)
{
	struct json_text t;

	CHECK_EQ_INT(json_text_read(text, strlen(text), &t), 0);
	return t;
}

static struct json_text get(struct json_text object, const char *key)
{
	struct json_member m = { .key = key };

	json_text_find(object, &m, 1);
	return m.value;
}

static void check_slice(struct json_text t, const char *want)
{
	CHECK_EQ_INT(t.n, strlen(want));
	CHECK_MEM(t.p, want, t.n);
}

TEST(json_text_knows_kinds)
{
	static const struct {
		const char *text;
		char kind;
	} rows[] = { { "{}", '{' },   { "[]", '[' },    { "\"\"", '"' }, { "0", '0' },
		     { "-1", '0' },   { "9.5", '0' },   { "true", 't' }, { "false", 't' },
		     { "null", 'n' }, { " null ", 'n' } };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		CHECK_EQ_INT(json_text_kind(read_text(rows[i].text)), rows[i].kind);
	CHECK_EQ_INT(json_text_kind((struct json_text){ NULL, 0 }), '\0');
}

TEST(json_text_walks)
{
	struct json_text t =
		read_text(" { \"a\" : [ 1 , {\"x\":\"]\"} ] , \"b}\":\"\\\"\",\"c\" :-1 } ");
	struct json_walk w = json_walk(t), inner;
	struct json_text key, value;

	CHECK(json_walk_next(&w, &key, &value));
	check_slice(key, "\"a\"");
	check_slice(value, "[ 1 , {\"x\":\"]\"} ]");
	inner = json_walk(value);
	CHECK(json_walk_next(&inner, &key, &value));
	CHECK(key.p == NULL);
	check_slice(value, "1");
	CHECK(json_walk_next(&inner, &key, &value));
	CHECK(key.p == NULL);
	check_slice(value, "{\"x\":\"]\"}");
	CHECK(!json_walk_next(&inner, &key, &value));
	CHECK(!json_walk_next(&inner, &key, &value));
	CHECK(json_walk_next(&w, &key, &value));
	check_slice(key, "\"b}\"");
	check_slice(value, "\"\\\"\"");
	CHECK(json_walk_next(&w, &key, &value));
	check_slice(key, "\"c\"");
	check_slice(value, "-1");
	CHECK(!json_walk_next(&w, &key, &value));
}

TEST(json_text_walks_over_nothing)
{
	static const char *const empty[] = { "{}", "[ ]", "{\n}", "\"{}\"", "1", "null", "true" };
	struct json_text key, value;
	struct json_walk w;

	for (size_t i = 0; i < ARRAY_LEN(empty); i++) {
		w = json_walk(read_text(empty[i]));
		CHECK(!json_walk_next(&w, &key, &value));
	}
	w = json_walk((struct json_text){ NULL, 0 });
	CHECK(!json_walk_next(&w, &key, &value));
}

TEST(json_text_walks_without_brackets)
{
	static const char members[] = "\"a\":1,\"b\":{\"a\":2}";
	struct json_walk w = { members, members + sizeof(members) - 1 };
	struct json_text key, value;

	CHECK(json_walk_next(&w, &key, &value));
	check_slice(key, "\"a\"");
	check_slice(value, "1");
	CHECK(json_walk_next(&w, &key, &value));
	check_slice(value, "{\"a\":2}");
	CHECK(!json_walk_next(&w, &key, &value));
}

TEST(json_text_finds_members)
{
	struct json_text t =
		read_text("{\"a\":1,\"b\":{\"c\":2},\"\\u0061\":3,\"a\\u0000\":4,\"ab\":5}");
	struct json_member m[] = { { .key = "b" },
				   { .key = "a", .value = t },
				   { .key = "c", .value = t } };

	json_text_find(t, m, ARRAY_LEN(m));
	check_slice(m[0].value, "{\"c\":2}");
	check_slice(m[1].value, "3"); /* the last one */
	CHECK(m[2].value.p == NULL);  /* not that of another level */
	CHECK(get(read_text("[\"a\",1]"), "a").p == NULL);
	CHECK(get(read_text("\"a\""), "a").p == NULL);
	CHECK(get((struct json_text){ NULL, 0 }, "a").p == NULL);
}

/* A walk of what never was checked says nothing of use, but stays inside and comes to an end. */
TEST(json_text_walks_within_bounds_whatever_it_is)
{
	static const char letters[] = "{}[]\",:\\u0\n x";
	struct fence f = fence_open(64);
	uint64_t state = 7;

	for (int round = 0; round < 20000; round++) {
		size_t n = rnd_below(&state, 24);
		char *p = fence_at(&f, n), buf[8];
		struct json_walk w = { p, p + n };
		struct json_text key, value;
		unsigned int steps = 0;
		struct json j;

		for (size_t i = 0; i < n; i++)
			p[i] = letters[rnd_below(&state, sizeof(letters) - 1)];
		json_init(&j);
		while (json_walk_next(&w, &key, &value)) {
			CHECK(++steps <= n);
			json_text_put(value, &j, NULL);
			json_text_put_key(key, &j);
			(void)json_text_str(value, buf, sizeof(buf));
			(void)get(value, "x");
		}
		json_done(&j);
	}
	fence_close(&f);
}

/* --- what is in it ------------------------------------------------------------------------------------------- */

TEST(json_text_decodes_short_strings)
{
	char buf[8] = "unread";

	CHECK(json_text_str(read_text("\"\""), buf, sizeof(buf)));
	CHECK_STR(buf, "");
	CHECK(json_text_str(read_text("\"1234567\""), buf, sizeof(buf)));
	CHECK_STR(buf, "1234567");
	CHECK(json_text_str(read_text("\"\\u0061b\\ud83d\\ude00c\""), buf, sizeof(buf)));
	CHECK_STR(buf, "ab\xf0\x9f\x98\x80"
		       "c");
	CHECK(!json_text_str(read_text("\"12345678\""), buf, sizeof(buf)));
	CHECK(!json_text_str(read_text("\"1234567\\n\""), buf, sizeof(buf)));
	CHECK(!json_text_str(read_text("\"a\\u0000\""), buf, sizeof(buf)));
	CHECK(!json_text_str(read_text("12"), buf, sizeof(buf)));
	CHECK(!json_text_str(read_text("[\"a\"]"), buf, sizeof(buf)));
	CHECK(!json_text_str((struct json_text){ NULL, 0 }, buf, sizeof(buf)));
	CHECK(!json_text_str(read_text("\"\""), buf, 0));
	CHECK(json_text_str(read_text("\"\""), buf, 1));
}

TEST(json_text_reads_integers)
{
	static const char *const none[] = { "1.0",
					    "1e2",
					    "9223372036854775808",
					    "-9223372036854775809",
					    "99999999999999999999999",
					    "\"1\"",
					    "true",
					    "null",
					    "[1]" };
	int64_t v = 5;

	CHECK(json_text_i64(read_text("-9223372036854775808"), &v));
	CHECK(v == INT64_MIN);
	CHECK(json_text_i64(read_text("9223372036854775807"), &v));
	CHECK(v == INT64_MAX);
	CHECK(json_text_i64(read_text("-0"), &v));
	CHECK_EQ_INT(v, 0);
	v = 5;
	for (size_t i = 0; i < ARRAY_LEN(none); i++)
		CHECK(!json_text_i64(read_text(none[i]), &v));
	CHECK(!json_text_i64((struct json_text){ NULL, 0 }, &v));
	CHECK_EQ_INT(v, 5);
}

TEST(json_text_is_put_between_other_values)
{
	struct json_text t = read_text("{ \"k\\n\" : [ 1 ] }"), key, value;
	struct json_walk w = json_walk(t);
	struct json j;

	CHECK(json_walk_next(&w, &key, &value));
	json_init(&j);
	json_open(&j, NULL, '{');
	json_text_put(t, &j, "a");
	json_text_put_key(key, &j);
	json_text_put(value, &j, NULL);
	json_text_put((struct json_text){ NULL, 0 }, &j, "b");
	json_value(&j, "c");
	json_raw(&j, "\"", 1);
	json_text_put_chars(read_text("\"\\u0078\""), &j);
	json_text_put_chars(value, &j); /* no string */
	json_text_put_chars(read_text("\"y\""), &j);
	json_raw(&j, "\"", 1);
	json_u64(&j, "d", 1);
	json_close(&j, '}');
	CHECK_STR(j.buf, "{\"a\":{\"k\\n\":[1]},\"k\\n\":[1],\"b\":null,\"c\":\"xy\",\"d\":1}");
	json_done(&j);
}

/* --- beside the other reader ----------------------------------------------------------------------------------- */

/* By jsonr what jsonr takes: NULL if it refuses. To be freed. */
static char *by_jsonr(const char *text, size_t n, struct jsonr_error *e)
{
	own_free char *copy = malloc(n + 1);
	struct jsonr d;
	struct json j;

	CHECK(copy != NULL);
	memcpy(copy, text, n);
	json_init(&j);
	if (jsonr_parse(&d, copy, n, e) == 0) {
		jsonr_write(&d, jsonr_root(&d), &j, NULL);
		jsonr_done(&d);
	}
	return j.buf;
}

/* Pieces of JSON in any order: now and then they make sense. Then both readers say the same. */
TEST(json_text_agrees_with_jsonr)
{
	static const char *const pieces[] = { "[",           "]",       "{",    "}",
					      "\"a\":",      "\"b\"",   ",",    "1",
					      "-2.5",        "true",    "null", " \n",
					      "\"\\u00e9\"", "\"\\n\"", "[]",   "{}" };
	uint64_t state = 11;
	unsigned int taken = 0;

	for (int round = 0; round < 60000; round++) {
		own_free char *got = NULL, *want = NULL, *again = NULL;
		struct jsonr_error e;
		char text[256];
		size_t n = 0;
		int rc;

		for (uint64_t k = 1 + rnd_below(&state, 7); k > 0; k--)
			n += (size_t)sprintf(text + n, "%s",
					     pieces[rnd_below(&state, ARRAY_LEN(pieces))]);
		want = by_jsonr(text, n, &e);
		got = rewritten(text, n, &rc);
		if (got == NULL && want != NULL)
			test_fail(__FILE__, __LINE__, "'%s' is refused", text);
		if (got == NULL)
			continue;
		taken++;
		if (want == NULL) {
			CHECK_STR(e.why, "duplicate key");
			continue;
		}
		again = by_jsonr(got, strlen(got), &e);
		CHECK_STR(again, want);
	}
	CHECK(taken > 500);
}
