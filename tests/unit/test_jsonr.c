/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/jsonr.c: reading JSON that somebody else wrote. */
#include "wire/jsonr.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

#include "test_help.h"

/* A copy of the text that ends at a forbidden page, read into *d. */
static int parse(struct fence *f, struct jsonr *d, const char *text, size_t n,
		 struct jsonr_error *e)
{
	char *copy;

	*f = fence_open(n > 0 ? n : 1);
	copy = fence_at(f, n);
	if (n > 0)
		memcpy(copy, text, n);
	return jsonr_parse(d, copy, n, e);
}

static void done(struct fence *f, struct jsonr *d)
{
	jsonr_done(d);
	fence_close(f);
}

/* The text read and written again; to be freed. */
static char *rewritten(const char *text, size_t n)
{
	struct jsonr_error e;
	struct fence f;
	struct jsonr d;
	struct json j;

	if (parse(&f, &d, text, n, &e) < 0)
		test_fail(__FILE__, __LINE__, "'%.*s' is refused at %zu: %s", (int)n, text,
			  e.offset, e.why);
	json_init(&j);
	jsonr_write(&d, jsonr_root(&d), &j, NULL);
	CHECK(!j.failed);
	done(&f, &d);
	return j.buf;
}

/* Text that is put together: fprintf() to it, then text_end(). */
struct text {
	char *p;
	size_t n;
	FILE *f;
};

static void text_begin(struct text *t)
{
	t->f = open_memstream(&t->p, &t->n);
	CHECK(t->f != NULL);
}

static void text_repeat(struct text *t, const char *s, unsigned int times)
{
	while (times-- > 0)
		(void)fputs(s, t->f);
}

static void text_end(struct text *t)
{
	CHECK(fclose(t->f) == 0);
}

/* --- what is accepted ---------------------------------------------------------------------------------------- */

static const struct {
	const char *text, *want; /* NULL: the same */
} accepted[] = {
	{ "null", NULL },
	{ "true", NULL },
	{ "false", NULL },
	{ "[]", NULL },
	{ "{}", NULL },
	{ "\"\"", NULL },
	{ " \t\r\n[ \n] \t\r\n", "[]" },
	{ "{ \"a\" : 1 , \"b\" : [ 2 , 3 ] }", "{\"a\":1,\"b\":[2,3]}" },
	{ "[[[]],{\"a\":{}},[1,[2]]]", NULL },
	{ "{\"\":{\"\":[]}}", NULL },
	{ "[{\"a\":1},{\"a\":1}]", NULL },
	{ "{\"a\":{\"a\":{\"a\":1}}}", NULL },
	{ "{\"a\":1,\"A\":2,\"aa\":3}", NULL },
	{ "{\"b\":1,\"a\":2}", NULL }, /* the order stays */
	/* integers */
	{ "0", NULL },
	{ "-0", "0" },
	{ "-1", NULL },
	{ "10", NULL },
	{ "9223372036854775807", NULL },
	{ "-9223372036854775808", NULL },
	/* reals */
	{ "0.0", NULL },
	{ "-0.0", NULL },
	{ "1.0", NULL },
	{ "1.50", "1.5" },
	{ "0.1", NULL },
	{ "1e0", "1.0" },
	{ "1E5", "100000.0" },
	{ "1e+5", "100000.0" },
	{ "10e-1", "1.0" },
	{ "1.5e-3", "0.0015" },
	{ "0.0001", NULL },
	{ "0.00001", "1e-05" },
	{ "1e15", "1000000000000000.0" },
	{ "1e16", "1e+16" },
	{ "123456789012345678e0", "1.2345678901234568e+17" },
	{ "0.30000000000000004", NULL },
	{ "1.7976931348623157e308", "1.7976931348623157e+308" },
	{ "-1.7976931348623157e308", "-1.7976931348623157e+308" },
	{ "5e-324", NULL },
	{ "1e-999", "0.0" },
	{ "2.2250738585072014e-308", NULL },
	{ "9223372036854775808.0", "9.223372036854776e+18" },
	{ "0.0000000000000000000000000000000000000000000000000000000000001", "1e-61" },
	/* strings */
	{ "\"a b\"", NULL },
	{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\u0008\\u000c\\n\\u000d\\u0009\"" },
	{ "\"\\u0041\\u00e9\\u20ac\\uFFFF\"", "\"A\u00e9\u20ac\xef\xbf\xbf\"" },
	{ "\"\\uD83D\\uDE00\"", "\"\U0001f600\"" },
	{ "\"\\ud800\\udc00\\udbff\\udfff\"", "\"\xf0\x90\x80\x80\xf4\x8f\xbf\xbf\"" },
	{ "\"\\u0001\\u001F\\u007f\"", "\"\\u0001\\u001f\\u007f\"" },
	{ "\"\x7f\"", "\"\\u007f\"" },
	{ "\"\xc2\xa0\xe2\x82\xac\xf0\x9f\x98\x80\"", NULL },
	{ "\"\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf4\x8f\xbf\xbf\"", NULL },
	{ "\"// no comment /* nor this */ 'x' {[,]}\"", NULL },
	{ "{\"k\\u0065y\\n\":\"v\"}", "{\"key\\n\":\"v\"}" },
};

TEST(jsonr_accepts_what_is_json)
{
	for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
		const char *text = accepted[i].text;
		own_free char *once = rewritten(text, strlen(text));
		own_free char *twice = rewritten(once, strlen(once));

		CHECK_STR(once, accepted[i].want != NULL ? accepted[i].want : text);
		CHECK_STR(twice, once);
	}
}

/* --- what is refused ----------------------------------------------------------------------------------------- */

#define VALUE  "expecting value"
#define NAME   "expecting property name enclosed in double quotes"
#define COLON  "expecting ':' delimiter"
#define COMMA  "expecting ',' delimiter"
#define EXTRA  "extra data"
#define OPEN   "unterminated string starting at"
#define CTRL   "invalid control character at"
#define ESCAPE "invalid \\escape"
#define UXXXX  "invalid \\uXXXX escape"
#define HALF   "half a surrogate pair"
#define RANGE  "number out of range"
#define UTF8   "invalid UTF-8"
#define TWICE  "duplicate key"

/* The offsets and the words up to HALF are those of Python 3.11, which were taken from it. */
static const struct {
	const char *text;
	size_t offset;
	const char *why;
} refused[] = {
	{ "", 0, VALUE },
	{ " \n", 2, VALUE },
	/* containers */
	{ "[", 1, VALUE },
	{ "{", 1, NAME },
	{ "]", 0, VALUE },
	{ "}", 0, VALUE },
	{ "[1", 2, COMMA },
	{ "[1 2]", 3, COMMA },
	{ "[1,", 3, VALUE },
	{ "[1,]", 3, VALUE },
	{ "[,1]", 1, VALUE },
	{ "[1,,2]", 3, VALUE },
	{ "[1}", 2, COMMA },
	{ "[1:2]", 2, COMMA },
	{ "[\"a\":1]", 4, COMMA },
	{ "{\"a\"", 4, COLON },
	{ "{\"a\":", 5, VALUE },
	{ "{\"a\":1", 6, COMMA },
	{ "{\"a\":1,", 7, NAME },
	{ "{\"a\":1,}", 7, NAME },
	{ "{,\"a\":1}", 1, NAME },
	{ "{\"a\":1]", 6, COMMA },
	{ "{\"a\" 1}", 5, COLON },
	{ "{\"a\"}", 4, COLON },
	{ "{\"a\",\"b\"}", 4, COLON },
	{ "{\"a\"::1}", 5, VALUE },
	{ "{\"a\":1 \"b\":2}", 7, COMMA },
	{ "{1:2}", 1, NAME },
	{ "{null:2}", 1, NAME },
	{ "{a:1}", 1, NAME },
	{ "{'a':1}", 1, NAME },
	{ "{{}:1}", 1, NAME },
	/* what is left over */
	{ "1 2", 2, EXTRA },
	{ "{} {}", 3, EXTRA },
	{ "[]]", 2, EXTRA },
	{ "{\"a\":1} x", 8, EXTRA },
	{ "null,", 4, EXTRA },
	{ "truex", 4, EXTRA },
	/* words and things of other languages */
	{ "tru", 0, VALUE },
	{ "True", 0, VALUE },
	{ "NULL", 0, VALUE },
	{ "nul", 0, VALUE },
	{ "undefined", 0, VALUE },
	{ "NaN", 0, VALUE },
	{ "Infinity", 0, VALUE },
	{ "-Infinity", 0, VALUE },
	{ "[-NaN]", 1, VALUE },
	{ "'a'", 0, VALUE },
	{ "`a`", 0, VALUE },
	{ "// x\n1", 0, VALUE },
	{ "/* x */ 1", 0, VALUE },
	{ "1 // x", 2, EXTRA },
	{ "[1 /* x */]", 3, COMMA },
	{ "#", 0, VALUE },
	{ "\\", 0, VALUE },
	{ "\f1", 0, VALUE },
	{ "\v1", 0, VALUE },
	{ "\xc2\xa0"
	  "1",
	  0, VALUE },
	/* numbers */
	{ "-", 0, VALUE },
	{ "--1", 0, VALUE },
	{ "+1", 0, VALUE },
	{ ".5", 0, VALUE },
	{ "-.5", 0, VALUE },
	{ "01", 1, EXTRA },
	{ "-01", 2, EXTRA },
	{ "[00]", 2, COMMA },
	{ "1.", 1, EXTRA },
	{ "1.e5", 1, EXTRA },
	{ "1..5", 1, EXTRA },
	{ "1e", 1, EXTRA },
	{ "1e+", 1, EXTRA },
	{ "1.5e-", 3, EXTRA },
	{ "1e5.5", 3, EXTRA },
	{ "0x10", 1, EXTRA },
	{ "1_000", 1, EXTRA },
	{ "1L", 1, EXTRA },
	/* strings */
	{ "\"", 0, OPEN },
	{ "\"abc", 0, OPEN },
	{ "[\"abc]", 1, OPEN },
	{ "\"a\\", 0, OPEN },
	{ "\"a\\\"", 0, OPEN },
	{ "{\"a", 1, OPEN },
	{ "\"a\nb\"", 2, CTRL },
	{ "\"\t\"", 1, CTRL },
	{ "\"12345678\x1f\"", 9, CTRL },
	{ "{\"a\rb\":1}", 3, CTRL },
	{ "\"\\x41\"", 1, ESCAPE },
	{ "\"\\'\"", 1, ESCAPE },
	{ "\"\\U0041\"", 1, ESCAPE },
	{ "\"\\N\"", 1, ESCAPE },
	{ "\"\\0\"", 1, ESCAPE },
	{ "\"\\\n\"", 1, ESCAPE },
	{ "\"\\u\"", 2, UXXXX },
	{ "\"\\u12\"", 2, UXXXX },
	{ "\"\\u123g\"", 2, UXXXX },
	{ "\"\\u 123\"", 2, UXXXX },
	{ "\"\\u-123\"", 2, UXXXX },
	{ "\"\\u+123\"", 2, UXXXX },
	{ "\"\\u0x1f\"", 2, UXXXX },
	{ "\"\\u1234", 2, UXXXX },
	/* what Python lets through */
	{ "\"\\ud800\"", 1, HALF },
	{ "\"\\udc00\"", 1, HALF },
	{ "\"\\udfffx\"", 1, HALF },
	{ "\"\\ud800\\ud800\"", 1, HALF },
	{ "\"\\ud800\\u0041\"", 1, HALF },
	{ "\"\\ud800\\n\"", 1, HALF },
	{ "\"\\ud800\\ue000\"", 1, HALF },
	{ "\"\\ud800\\uffff\"", 1, HALF },
	{ "\"\\ud800x\\udc00\"", 1, HALF },
	{ "\"\\udc00\\ud800\"", 1, HALF },
	{ "\"\\ud800\\udc0\"", 1, HALF },
	{ "\"\\ud800\\udc00", 1, HALF },
	{ "{\"\\ud800\":1}", 2, HALF },
	{ "\"a\\u0000b\"", 2, "NUL in a string" },
	{ "{\"\\u0000\":1}", 2, "NUL in a string" },
	{ "9223372036854775808", 0, RANGE },
	{ "[-9223372036854775809]", 1, RANGE },
	{ "18446744073709551616", 0, RANGE },
	{ "100000000000000000000000000000000000000000000000000000000000000000000000", 0, RANGE },
	{ "1e999", 0, RANGE },
	{ "-1e309", 0, RANGE },
	{ "[1.8e308]", 1, RANGE },
	{ "1e9999999999999999999999", 0, RANGE },
	{ "0.00000000000000000000000000000000000000000000000000000000000001e9", 0,
	  "number too long" },
	{ "{\"a\":1,\"a\":1}", 7, TWICE },
	{ "{\"a\":1,\"b\":2,\"a\":{}}", 13, TWICE },
	{ "{\"a\":1,\"\\u0061\":1}", 7, TWICE },
	{ "{\"\":1,\"\":1}", 6, TWICE },
	{ "[[{\"x\":[{\"a\":1,\"a\":2}]}]]", 15, TWICE },
	{ "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"g\":1,\"h\":1,\"i\":1,\"c\":1}", 55,
	  TWICE },
	{ "\xef\xbb\xbf{}", 0, "unexpected byte order mark" },
	{ "\xef\xbb\xbf", 0, "unexpected byte order mark" },
};

TEST(jsonr_refuses_what_is_not)
{
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		const char *text = refused[i].text;
		struct jsonr_error e = { 0 };
		struct fence f;
		struct jsonr d;

		if (parse(&f, &d, text, strlen(text), &e) != -EINVAL)
			test_fail(__FILE__, __LINE__, "'%s' is not refused", text);
		if (e.offset != refused[i].offset || strcmp(e.why, refused[i].why) != 0)
			test_fail(__FILE__, __LINE__, "'%s': '%s' at %zu, wanted '%s' at %zu", text,
				  e.why, e.offset, refused[i].why, refused[i].offset);
		CHECK(d.nodes == NULL && jsonr_root(&d) == NULL);
		done(&f, &d);
	}
}

TEST(jsonr_refuses_what_is_not_utf8)
{
	static const char *const bad[] = {
		"\x80",
		"\xbf",
		"\xff",
		"\xc0\x80",
		"\xc1\xbf",
		"\xe0\x9f\xbf",
		"\xed\xa0\x80",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80",
		"\xc3",
		"\xe2\x82",
		"\xe2\x82x",
		"\xf0\x9f\x98",
		"\xc3\xc3\xa9",
	};
	static const char *const before[] = { "", "12345678", "\xc3\xa9", "\\n" };

	for (size_t i = 0; i < ARRAY_LEN(bad) * ARRAY_LEN(before); i++) {
		const char *start = before[i % ARRAY_LEN(before)], *s = bad[i / ARRAY_LEN(before)];
		struct jsonr_error e;
		char text[64];
		struct fence f;
		struct jsonr d;

		for (int closed = 0; closed < 2; closed++) {
			(void)snprintf(text, sizeof(text), "[\"%s%s%s", start, s,
				       closed ? "\"]" : "");
			CHECK_EQ_INT(parse(&f, &d, text, strlen(text), &e), -EILSEQ);
			CHECK_EQ_INT(e.offset, 2 + strlen(start));
			CHECK_STR(e.why, UTF8);
			done(&f, &d);
		}
	}
}

/* Every byte where nothing or only a string may stand, and NUL as well. */
TEST(jsonr_refuses_every_stray_byte)
{
	for (int c = 0; c < 256; c++) {
		char text[] = { '[', '1', (char)c, ']' }, string[] = { '"', (char)c, '"' };
		bool digit = c >= '0' && c <= '9';
		bool space = c == ' ' || c == '\t' || c == '\n' || c == '\r';
		bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
		struct fence f;
		struct jsonr d;

		CHECK_EQ_INT(parse(&f, &d, text, sizeof(text), NULL), digit || space ? 0 : -EINVAL);
		done(&f, &d);
		CHECK_EQ_INT(parse(&f, &d, string, sizeof(string), NULL), plain       ? 0
									  : c >= 0x80 ? -EILSEQ
										      : -EINVAL);
		done(&f, &d);
	}
}

/* The same in the middle of words of eight bytes, with and without an escape in front. */
TEST(jsonr_refuses_every_stray_byte_of_a_long_string)
{
	struct fence f = fence_open(64);

	for (int c = 0; c < 256; c++) {
		bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';

		for (size_t i = 0; i < 2 * 24; i++) {
			const size_t start = i % 2 == 0 ? 1 : 3, n = start + 24 + 1;
			char *text = fence_at(&f, n);
			struct jsonr d;

			memset(text, 'x', n);
			memcpy(text, "\"\\n", start);
			text[start + i / 2] = (char)c;
			text[n - 1] = '"';
			if ((jsonr_parse(&d, text, n, NULL) == 0) != plain)
				test_fail(__FILE__, __LINE__, "byte %d at %zu", c, i / 2);
			test_count();
			jsonr_done(&d);
		}
	}
	fence_close(&f);
}

TEST(jsonr_reads_reals_of_so_many_characters)
{
	for (int n = JSONR_NUMBER_MAX - 1; n <= JSONR_NUMBER_MAX + 1; n++) {
		bool good = n <= JSONR_NUMBER_MAX;
		char text[JSONR_NUMBER_MAX + 2];
		struct jsonr_error e;
		struct fence f;
		struct jsonr d;

		(void)snprintf(text, sizeof(text), "1.%0*d", n - 2, 5);
		CHECK_EQ_INT(strlen(text), n);
		CHECK_EQ_INT(parse(&f, &d, text, (size_t)n, &e), good ? 0 : -EINVAL);
		if (good)
			CHECK(jsonr_root(&d)->type == JSONR_REAL && jsonr_root(&d)->real == 1.0);
		else
			CHECK_STR(e.why, "number too long");
		done(&f, &d);
	}
}

/* Python counts characters. */
TEST(jsonr_says_where_in_characters_too)
{
	static const struct {
		const char *text;
		size_t offset, chars;
	} rows[] = {
		{ "[\"\u00e9\",]", 6, 5 },
		{ "\"\u00e9\\", 0, 0 },
		{ "[\"\u00e9\",\"\u00e9", 6, 5 },
		{ "\"\u00e9\t\"", 3, 2 },
		{ "{\"\u00e9\":\"\u6f22\" 1}", 12, 9 },
		{ "[\"\U0001f600\\n\u00e9\\x\"]", 10, 6 },
		{ "{\"\u00e9\":1,\"\u00e9\":1}", 8, 8 }, /* bytes for this one */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct jsonr_error e;
		struct fence f;
		struct jsonr d;

		CHECK_EQ_INT(parse(&f, &d, rows[i].text, strlen(rows[i].text), &e), -EINVAL);
		CHECK_EQ_INT(e.offset, rows[i].offset);
		CHECK_EQ_INT(e.chars, rows[i].chars);
		done(&f, &d);
	}
}

static const char everything[] =
	" {\"null\" : null, \"bools\":[true,false],\"ints\":[0,-1,9223372036854775807],"
	"\"reals\":[1.5,-2.5e-3,1E+2],\"text\":\"a\\n\\u00e9\\ud83d\\ude00\u00e9\U0001f600\","
	"\"empty\":[{},[],\"\"],\"k\\\\ey\":{\"deep\":[[[{}]]]}} ";

/* The fence stands behind each: nothing beyond the end is looked at. */
TEST(jsonr_at_every_size)
{
	const size_t n = sizeof(everything) - 1;

	for (size_t i = 0; i <= n; i++) {
		struct jsonr_error e = { 0 };
		struct fence f;
		struct jsonr d;
		int rc = parse(&f, &d, everything, i, &e);

		CHECK(rc == (i >= n - 1 ? 0 : rc == -EILSEQ ? -EILSEQ : -EINVAL));
		if (rc < 0)
			CHECK(e.offset <= i && e.chars <= e.offset && e.why != NULL);
		done(&f, &d);
	}
}

/* Any one byte changed to any other: read, or refused, and nothing worse. */
TEST(jsonr_with_every_byte_changed)
{
	char text[sizeof(everything)];
	unsigned int good = 0, bad = 0;
	struct fence f = fence_open(sizeof(everything) - 1);

	for (size_t i = 0; i < sizeof(everything) - 1; i++) {
		for (int c = 0; c < 256; c += 3) {
			struct jsonr d;
			int rc;

			memcpy(text, everything, sizeof(everything));
			text[i] = (char)c;
			memcpy(fence_at(&f, sizeof(text) - 1), text, sizeof(text) - 1);
			rc = jsonr_parse(&d, fence_at(&f, sizeof(text) - 1), sizeof(text) - 1,
					 NULL);
			good += rc == 0;
			bad += rc == -EINVAL || rc == -EILSEQ;
			jsonr_done(&d);
		}
	}
	CHECK(good > 1000 && bad > 1000);
	CHECK_EQ_INT(good + bad, (sizeof(everything) - 1) * 86);
	fence_close(&f);
}

/* --- the tree ------------------------------------------------------------------------------------------------ */

TEST(jsonr_gives_a_tree)
{
	const struct jsonr_node *root, *n, *c;
	struct fence f;
	struct jsonr d;

	CHECK_EQ_INT(parse(&f, &d, everything, sizeof(everything) - 1, NULL), 0);
	root = jsonr_root(&d);
	CHECK_EQ_INT(root->type, JSONR_OBJECT);
	CHECK_EQ_INT(root->len, 7);
	CHECK(root->key == NULL && jsonr_next(&d, root) == NULL);

	n = jsonr_first(&d, root);
	CHECK_STR(n->key, "null");
	CHECK_EQ_INT(n->key_len, 4);
	CHECK_EQ_INT(n->type, JSONR_NULL);
	CHECK(jsonr_first(&d, n) == NULL);

	n = jsonr_next(&d, n);
	CHECK_STR(n->key, "bools");
	CHECK_EQ_INT(n->type, JSONR_ARRAY);
	CHECK_EQ_INT(n->len, 2);
	c = jsonr_first(&d, n);
	CHECK(c->type == JSONR_BOOL && c->boolean && c->key == NULL);
	c = jsonr_next(&d, c);
	CHECK(c->type == JSONR_BOOL && !c->boolean);
	CHECK(jsonr_next(&d, c) == NULL);

	c = jsonr_first(&d, jsonr_get(&d, root, "ints"));
	CHECK(c->type == JSONR_INT && c->integer == 0);
	c = jsonr_next(&d, c);
	CHECK(c->type == JSONR_INT && c->integer == -1);
	CHECK(jsonr_next(&d, c)->integer == INT64_MAX);

	c = jsonr_first(&d, jsonr_get(&d, root, "reals"));
	CHECK(c->type == JSONR_REAL && c->real == 1.5);
	CHECK(jsonr_next(&d, c)->real == -2.5e-3);
	CHECK(jsonr_next(&d, jsonr_next(&d, c))->real == 100.0);

	n = jsonr_get(&d, root, "text");
	CHECK_EQ_INT(n->type, JSONR_STRING);
	CHECK_STR(n->string, "a\n\u00e9\U0001f600\u00e9\U0001f600");
	CHECK_EQ_INT(n->len, strlen(n->string));

	n = jsonr_get(&d, root, "k\\ey");
	CHECK_EQ_INT(n->type, JSONR_OBJECT);
	CHECK(jsonr_next(&d, n) == NULL);
	CHECK_EQ_INT(jsonr_get(&d, n, "deep")->len, 1);
	done(&f, &d);
}

TEST(jsonr_finds_nothing_where_nothing_is)
{
	struct jsonr d = { 0 };
	struct fence f;

	CHECK(jsonr_root(&d) == NULL);
	CHECK(jsonr_first(&d, NULL) == NULL && jsonr_next(&d, NULL) == NULL);
	CHECK(jsonr_get(&d, NULL, "a") == NULL);
	jsonr_done(&d);
	CHECK_EQ_INT(parse(&f, &d, "{\"a\":[1]}", 9, NULL), 0);
	CHECK(jsonr_get(&d, jsonr_root(&d), "b") == NULL);
	CHECK(jsonr_get(&d, jsonr_root(&d), "") == NULL);
	CHECK(jsonr_get(&d, jsonr_root(&d), "aa") == NULL);
	CHECK(jsonr_get(&d, jsonr_get(&d, jsonr_root(&d), "a"), "a") == NULL);
	done(&f, &d);
	jsonr_done(&d); /* once more */
	CHECK_EQ_INT(jsonr_parse(&d, NULL, 0, NULL), -EINVAL);
}

/* Strings of every length, with something special at every place, behind an escape or not: the words
 * of eight bytes begin and end everywhere. */
TEST(jsonr_strings_at_every_length)
{
	static const struct {
		const char *written, *read;
	} special[] = { { "", "" },
			{ "\\n", "\n" },
			{ "\\\"", "\"" },
			{ "\\u00e9", "\u00e9" },
			{ "\\ud83d\\ude00", "\U0001f600" },
			{ "\u00e9", "\u00e9" },
			{ "\U0001f600\u20ac", "\U0001f600\u20ac" } };
	char text[128], want[128];

	for (size_t i = 0; i < 2 * ARRAY_LEN(special); i++) {
		const char *first = i % 2 == 0 ? "" : "\\t";
		const char *written = special[i / 2].written, *read = special[i / 2].read;

		for (int n = 0; n < 36; n++) {
			for (int at = 0; at <= n; at++) {
				const char *letters = "abcdefghijklmnopqrstuvwxyz0123456789";
				struct fence f;
				struct jsonr d;

				(void)snprintf(text, sizeof(text), "\"%s%.*s%s%.*s\"", first, at,
					       letters, written, n - at, letters + at);
				(void)snprintf(want, sizeof(want), "%s%.*s%s%.*s",
					       i % 2 == 0 ? "" : "\t", at, letters, read, n - at,
					       letters + at);
				CHECK_EQ_INT(parse(&f, &d, text, strlen(text), NULL), 0);
				CHECK_STR(jsonr_root(&d)->string, want);
				CHECK_EQ_INT(jsonr_root(&d)->len, strlen(want));
				done(&f, &d);
			}
		}
	}
}

/* Random strings against the writer, which knows nothing of the reader. */
TEST(jsonr_reads_what_the_writer_writes)
{
	uint64_t state = 20260401;

	for (int i = 0; i < 3000; i++) {
		static const char *const pieces[] = {
			"\"",     "\\",         "\n",       "\t",       "plain text of some length",
			"\u00e9", "\U0001f600", "\xc2\x9b", "\\u0041x", "/"
		};
		char text[400];
		size_t n = 0;
		struct json j;
		struct jsonr d;

		for (uint64_t k = rnd_below(&state, 12); k > 0; k--) {
			const char *s = pieces[rnd_below(&state, ARRAY_LEN(pieces))];

			memcpy(text + n, s, strlen(s));
			n += strlen(s);
		}
		text[n] = '\0';
		json_init(&j);
		json_open(&j, NULL, '{');
		json_str(&j, text, text);
		json_close(&j, '}');
		CHECK_EQ_INT(jsonr_parse(&d, j.buf, j.len, NULL), 0);
		CHECK_STR(jsonr_first(&d, jsonr_root(&d))->key, text);
		CHECK_STR(jsonr_get(&d, jsonr_root(&d), text)->string, text);
		jsonr_done(&d);
		json_done(&j);
	}
}

TEST(jsonr_writes_reals_so_that_they_stay)
{
	uint64_t state = 7;
	struct json j;
	struct jsonr d;

	for (int i = 0; i < 20000; i++) {
		struct jsonr_node n = { .type = JSONR_REAL };
		uint64_t bits = rnd(&state);

		memcpy(&n.real, &bits, sizeof(n.real));
		if (i % 2 == 0)
			n.real = (double)rnd_below(&state, 100000000) / 1000;
		if (!isfinite(n.real))
			continue;
		json_init(&j);
		jsonr_write(&d, &n, &j, NULL);
		CHECK_EQ_INT(jsonr_parse(&d, j.buf, j.len, NULL), 0);
		CHECK_EQ_INT(jsonr_root(&d)->type, JSONR_REAL);
		CHECK_MEM(&jsonr_root(&d)->real, &n.real, sizeof(n.real));
		jsonr_done(&d);
		json_done(&j);
	}
}

/* --- bounds -------------------------------------------------------------------------------------------------- */

static const char *const opening[] = { "[", "{\"a\":" }, *const closing[] = { "]", "}" };

TEST(jsonr_nests_so_far_and_no_further)
{
	for (unsigned int i = 0; i < 6; i++) {
		unsigned int depth = JSONR_DEPTH_MAX - 1 + i / 2, kind = i % 2;
		bool good = depth <= JSONR_DEPTH_MAX;
		struct jsonr_error e;
		struct text t;
		struct fence f;
		struct jsonr d;

		text_begin(&t);
		text_repeat(&t, opening[kind], depth);
		text_repeat(&t, "1", 1);
		text_repeat(&t, closing[kind], depth);
		text_end(&t);
		CHECK_EQ_INT(parse(&f, &d, t.p, t.n, &e), good ? 0 : -E2BIG);
		if (!good) {
			CHECK_STR(e.why, "nested too deeply");
			CHECK_EQ_INT(e.offset, JSONR_DEPTH_MAX * strlen(opening[kind]));
		}
		done(&f, &d);
		free(t.p);
	}
}

TEST(jsonr_nests_side_by_side_as_often_as_it_likes)
{
	struct jsonr d;
	struct text t;

	text_begin(&t);
	(void)fputs("[0", t.f);
	text_repeat(&t, ",[],{}", 3 * JSONR_DEPTH_MAX);
	(void)fputs("]", t.f);
	text_end(&t);
	CHECK_EQ_INT(jsonr_parse(&d, t.p, t.n, NULL), 0);
	CHECK_EQ_INT(jsonr_root(&d)->len, 6 * JSONR_DEPTH_MAX + 1);
	jsonr_done(&d);
	free(t.p);
}

TEST(jsonr_does_not_follow_what_never_ends)
{
	for (size_t kind = 0; kind < 2; kind++) {
		struct jsonr d;
		struct text t;

		text_begin(&t);
		text_repeat(&t, opening[kind], 1 << 20);
		text_end(&t);
		CHECK_EQ_INT(jsonr_parse(&d, t.p, t.n, NULL), -E2BIG);
		free(t.p);
	}
}

/* An array of n values. */
static void many_values(struct text *t, unsigned int n)
{
	text_begin(t);
	(void)fputs("[7", t->f);
	text_repeat(t, ",7", n - 1);
	(void)fputs("]", t->f);
	text_end(t);
}

TEST(jsonr_counts_values)
{
	struct jsonr_error e;
	struct text t;
	uint32_t n = 0;
	struct jsonr d;

	many_values(&t, JSONR_NODES_MAX - 1);
	CHECK_EQ_INT(jsonr_parse(&d, t.p, t.n, NULL), 0);
	CHECK_EQ_INT(jsonr_root(&d)->len, JSONR_NODES_MAX - 1);
	for (const struct jsonr_node *c = jsonr_first(&d, jsonr_root(&d)); c;
	     c = jsonr_next(&d, c)) {
		if (c->type != JSONR_INT || c->integer != 7)
			break;
		n++;
	}
	CHECK_EQ_INT(n, JSONR_NODES_MAX - 1);
	jsonr_done(&d);
	free(t.p);
	many_values(&t, JSONR_NODES_MAX);
	CHECK_EQ_INT(jsonr_parse(&d, t.p, t.n, &e), -E2BIG);
	CHECK_STR(e.why, "too many values");
	free(t.p);
}

TEST(jsonr_does_not_touch_what_is_too_long)
{
	const size_t n = (size_t)JSONR_TEXT_MAX + 1;
	char *text = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct jsonr d;

	CHECK(text != MAP_FAILED);
	CHECK_EQ_INT(jsonr_parse(&d, text, n, NULL), -E2BIG);
	CHECK(munmap(text, n) == 0);
}

/* An object with n keys; the last one is the k-th again when k is not 0. */
static void many_keys(struct text *t, unsigned int n, unsigned int k)
{
	text_begin(t);
	for (unsigned int i = 1; i <= n; i++)
		(void)fprintf(t->f, "%s\"a-rather-long-key-of-many-%u\":%u", i == 1 ? "{" : ",",
			      i == n && k > 0 ? k : i, i);
	(void)fputs("}", t->f);
	text_end(t);
}

TEST(jsonr_sees_a_key_that_is_there_twice_among_many)
{
	static const unsigned int sizes[] = {
		2, 7, 8, 9, 10, 15, 16, 17, 31, 32, 33, 1000, 100000
	};

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		struct jsonr_error e;
		struct text t;
		struct jsonr d;

		many_keys(&t, sizes[i], 0);
		CHECK_EQ_INT(jsonr_parse(&d, t.p, t.n, NULL), 0);
		CHECK_EQ_INT(jsonr_root(&d)->len, sizes[i]);
		CHECK_EQ_INT(jsonr_get(&d, jsonr_root(&d), "a-rather-long-key-of-many-2")->integer,
			     2);
		jsonr_done(&d);
		free(t.p);
		for (int k = 0; k < 2; k++) {
			many_keys(&t, sizes[i], k == 0 ? 1 : sizes[i] - 1);
			CHECK_EQ_INT(jsonr_parse(&d, t.p, t.n, &e), -EINVAL);
			CHECK_STR(e.why, TWICE);
			CHECK(t.p[e.offset] == '"' && e.offset > t.n / 2 - 1);
			free(t.p);
		}
	}
}

/* One scratch serves all objects of a document: small behind large, large behind small. */
TEST(jsonr_compares_keys_of_each_object_by_itself)
{
	struct json j;
	struct jsonr d;

	json_init(&j);
	json_open(&j, NULL, '[');
	for (int i = 0; i < 60; i++) {
		json_open(&j, NULL, '{');
		for (int k = 0; k < (i * 37) % 60; k++) {
			char key[16];

			(void)snprintf(key, sizeof(key), "k%d", k);
			json_i64(&j, key, k);
		}
		json_close(&j, '}');
	}
	json_close(&j, ']');
	CHECK_EQ_INT(jsonr_parse(&d, j.buf, j.len, NULL), 0);
	CHECK_EQ_INT(jsonr_root(&d)->len, 60);
	jsonr_done(&d);
	json_done(&j);
}

/* --- echo ---------------------------------------------------------------------------------------------------- */

static char *echoed(const char *text, size_t n)
{
	struct fence f;
	struct jsonr d;
	struct json j;

	CHECK_EQ_INT(parse(&f, &d, text, n, NULL), 0);
	json_init(&j);
	jsonr_echo(&d, jsonr_root(&d), &j, NULL);
	CHECK(!j.failed);
	done(&f, &d);
	return j.buf;
}

TEST(jsonr_echoes_what_is_small)
{
	static const char text[] =
		"{\"a\":[null,true,-1,1.5,\"x\"],\"b\":{\"c\":[[]]},\"\u20ac\":\"\\n\u20ac\"}";
	own_free char *got = echoed(text, sizeof(text) - 1);
	struct jsonr d = { 0 };
	struct json j;

	CHECK_STR(got, text);
	json_init(&j);
	jsonr_echo(&d, NULL, &j, NULL);
	jsonr_write(&d, NULL, &j, NULL);
	CHECK_STR(j.buf, "null,null");
	json_done(&j);
}

TEST(jsonr_echoes_no_more_than_so_deep)
{
	static const char text[] = "[[[[[[1]],2]],{\"a\":{\"b\":{\"c\":{}}}},3],4]";
	own_free char *got = echoed(text, sizeof(text) - 1);

	CHECK_STR(got, "[[[[[],2]],{\"a\":{\"b\":{}}},3],4]");
}

TEST(jsonr_echoes_no_more_than_so_much_of_a_string)
{
	for (int n = JSONR_ECHO_STRING - 5; n < JSONR_ECHO_STRING + 6; n++) {
		char text[400], want[400];
		own_free char *got = NULL;

		(void)snprintf(text, sizeof(text), "\"%0*d\u20ac\u20ac\u20ac\"", n - 9, 0);
		got = echoed(text, strlen(text));
		if (n <= JSONR_ECHO_STRING) {
			CHECK_STR(got, text);
			continue;
		}
		/* At the end of a character. */
		(void)snprintf(want, sizeof(want), "\"%0*d%s...\"", n - 9, 0,
			       n - JSONR_ECHO_STRING <= 3 ? "\u20ac\u20ac" : "\u20ac");
		CHECK_STR(got, want);
	}
}

/* Control characters are long when written. */
TEST(jsonr_echoes_no_more_than_so_much)
{
	enum { MOST = JSONR_ECHO_BYTES * 6 + JSONR_ECHO_NODES * 32 };
	struct text t;
	char *got;

	text_begin(&t);
	(void)fputs("[1", t.f);
	for (int i = 0; i < 200; i++) {
		(void)fputs(",\"", t.f);
		text_repeat(&t, "\\u0001", 300);
		(void)fputs("\"", t.f);
	}
	(void)fputs("]", t.f);
	text_end(&t);
	got = echoed(t.p, t.n);
	CHECK(strlen(got) > JSONR_ECHO_BYTES && strlen(got) < MOST);
	free(got);
	free(t.p);

	text_begin(&t);
	for (int i = 0; i < 100; i++)
		(void)fprintf(t.f, "%s\"%0*d\":0", i == 0 ? "{" : ",", JSONR_ECHO_STRING, i);
	(void)fputs("}", t.f);
	text_end(&t);
	got = echoed(t.p, t.n);
	CHECK(strlen(got) > JSONR_ECHO_BYTES && strlen(got) < JSONR_ECHO_BYTES + 100);
	free(got);
	free(t.p);

	many_values(&t, 1000);
	got = echoed(t.p, t.n);
	CHECK_EQ_INT(strlen(got), 2 * (JSONR_ECHO_NODES - 1) + 1);
	free(got);
	free(t.p);
}

/* A key is whole or not there: no two of them become the same. */
TEST(jsonr_echoes_no_half_of_a_key)
{
	struct fence f;
	struct jsonr d;
	struct text t;
	char *got;

	text_begin(&t);
	(void)fprintf(t.f, "{\"%0*d\":1,\"%0*d\":2,\"%0*d\":3}", JSONR_ECHO_STRING + 1, 1,
		      JSONR_ECHO_STRING + 1, 2, JSONR_ECHO_STRING, 3);
	text_end(&t);
	got = echoed(t.p, t.n);
	CHECK_EQ_INT(parse(&f, &d, got, strlen(got), NULL), 0);
	CHECK_EQ_INT(jsonr_root(&d)->len, 1);
	CHECK_EQ_INT(jsonr_first(&d, jsonr_root(&d))->integer, 3);
	done(&f, &d);
	free(got);
	free(t.p);
}

TEST(jsonr_cuts_between_characters)
{
	CHECK_EQ_INT(jsonr_cut("abc", 3, 5), 3);
	CHECK_EQ_INT(jsonr_cut("abc", 3, 3), 3);
	CHECK_EQ_INT(jsonr_cut("abc", 3, 2), 2);
	CHECK_EQ_INT(jsonr_cut("abc", 3, 0), 0);
	CHECK_EQ_INT(jsonr_cut("a\u20ac", 4, 3), 1);
	CHECK_EQ_INT(jsonr_cut("a\u20ac", 4, 1), 1);
	CHECK_EQ_INT(jsonr_cut("\U0001f600", 4, 3), 0);
}
