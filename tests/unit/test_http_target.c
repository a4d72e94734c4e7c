/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/http_target.c: paths and queries. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "wire/http1.h"

#include "test_help.h"

/* A target taken apart and written down: /segment/segment ?key=value ... */
static const char *show(const struct http_target *t)
{
	static char out[4 * HTTP_TARGET_MAX];
	size_t n = 0;

	out[0] = '\0';
	for (unsigned int i = 0; i < t->nseg; i++) {
		CHECK(t->seg[i].p[t->seg[i].n] == '\0');
		CHECK_EQ_INT(strlen(t->seg[i].p), t->seg[i].n);
		n += (size_t)snprintf(out + n, sizeof(out) - n, "[%s]", t->seg[i].p);
	}
	for (unsigned int i = 0; i < t->nquery; i++) {
		struct http_slice key = t->query[i].key, value = t->query[i].value;

		CHECK_EQ_INT(strlen(key.p), key.n);
		CHECK_EQ_INT(strlen(value.p), value.n);
		n += (size_t)snprintf(out + n, sizeof(out) - n, " %s:%s", key.p, value.p);
	}
	return out;
}

static int parse(const char *text, struct http_target *t, struct http_refusal *r)
{
	size_t n = strlen(text);
	struct fence f = fence_open(n + 1);
	struct http_slice s = { (const char *)fence_copy(&f, text, n), n };
	int got;

	memset(t->buf, 'x', sizeof(t->buf));
	got = http_target_parse(s, t, r);
	for (size_t i = n; i < sizeof(t->buf);
	     i++) /* no more was written than the target is long */
		if (t->buf[i] != 'x')
			test_fail(__FILE__, __LINE__, "'%s' wrote at %zu", text, i);
	fence_close(&f);
	return got;
}

TEST(http_target_takes_apart)
{
	static const struct {
		const char *text, *want;
	} good[] = {
		{ "/", "" },
		{ "*", "" },
		{ "/a", "[a]" },
		{ "/a/", "[a][]" },
		{ "/v1/boxes/b-1/files", "[v1][boxes][b-1][files]" },
		{ "/a%2fb/c", "[a/b][c]" },
		{ "/a%2F%2f", "[a//]" },
		{ "/%2F", "[/]" },
		{ "/...", "[...]" },
		{ "/.a/a./..a", "[.a][a.][..a]" },
		{ "/a+b%20c", "[a+b c]" },
		{ "/%41%7e%25%32%35", "[A~%25]" },
		{ "/%c3%A9/%F0%9f%98%80", "[\xc3\xa9][\xf0\x9f\x98\x80]" },
		{ "/%3f%23%26=&;:@", "[?#&=&;:@]" },
		{ "/\"<>\\^`{|}~!$'()*,-._", "[\"<>\\^`{|}~!$'()*,-._]" },
		{ "/?", "" },
		{ "/a?", "[a]" },
		{ "/a/?b", "[a][] b:" },
		{ "/?a", " a:" },
		{ "/?a=", " a:" },
		{ "/?a=b", " a:b" },
		{ "/?a=b=c&d", " a:b=c d:" },
		{ "/?a=1&b=2&A=3", " a:1 b:2 A:3" },
		{ "/?a+b=+c%2B&%26=%3D", " a b: c+ &:=" },
		{ "/?a?b/c=//..?", " a?b/c://..?" },
		{ "/?%c3%a9=%e2%82%ac", " \xc3\xa9:\xe2\x82\xac" },
		{ "/?.=..", " .:.." },
	};
	static struct http_target t;
	struct http_refusal r;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		if (parse(good[i].text, &t, &r) != 0)
			test_fail(__FILE__, __LINE__, "'%s': %s", good[i].text, r.why);
		CHECK_STR(show(&t), good[i].want);
	}
}

TEST(http_target_refuses)
{
	static const char *const bad[] = {
		"",          "a",        "a/b",       "http://a/", "**",          "?a=b",
		"//",        "//a",      "/a//b",     "/a//",      "/.",          "/..",
		"/./",       "/a/../b",  "/a/.",      "/a/..",     "/%2e",        "/%2E%2e",
		"/.%2e/a",   "/%2e./a",  "/a/%2E",    "/%00",      "/a%00b",      "/%1f",
		"/%7f",      "/%c2%80",  "/%c2%9f",   "/%0d%0a",   "/%",          "/%4",
		"/%4/",      "/%g0",     "/%0g",      "/%%41",     "/% 41",       "/%+1",
		"/%ff",      "/%c3",     "/%c3/%a9",  "/%c0%af",   "/%ed%a0%80",  "/%f4%90%80%80",
		"/\xc3\xa9", "/a b",     "/a\tb",     "/\x7f",     "/#",          "/a#b",
		"/a?b#c",    "/?%00",    "/?a=%00",   "/?a=%ff",   "/?%",         "/?a=%4",
		"/?a b",     "/?a=\x01", "/?=",       "/?=a",      "/?&",         "/?a&&b",
		"/?a=1&",    "/?&a=1",   "/?a=1&a=2", "/?a&%61",   "/?a+b&a%20b", "/?\xc3\xa9",
		"/?%c3=%a9",
	};
	static struct http_target t;
	struct http_refusal r;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		r = (struct http_refusal){ 0 };
		if (parse(bad[i], &t, &r) != -1)
			test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
		CHECK_EQ_INT(r.status, 400);
		CHECK(r.why != NULL);
	}
	CHECK_EQ_INT(http_target_parse((struct http_slice){ "/\0", 2 }, &t, &r), -1);
}

/* Every byte, raw and encoded, in a segment and in a value. */
TEST(http_target_characters)
{
	static struct http_target t;
	struct http_refusal r;

	for (unsigned int c = 1; c < 256; c++) {
		bool raw = c > 0x20 && c < 0x7f && c != '#' && c != '%';
		bool decoded = c >= 0x20 && c < 0x7f;
		char text[20];

		(void)snprintf(text, sizeof(text), "/a%cb", (char)c);
		CHECK_EQ_INT(parse(text, &t, &r), raw ? 0 : -1);
		(void)snprintf(text, sizeof(text), "/?a=a%cb", (char)c);
		CHECK_EQ_INT(parse(text, &t, &r), raw ? 0 : -1);
		(void)snprintf(text, sizeof(text), "/a%%%02x", c);
		CHECK_EQ_INT(parse(text, &t, &r), decoded ? 0 : -1);
		CHECK(!decoded || (t.seg[0].n == 2 && t.seg[0].p[1] == (char)c));
		(void)snprintf(text, sizeof(text), "/?a=b%%%02X", c);
		CHECK_EQ_INT(parse(text, &t, &r), decoded ? 0 : -1);
		CHECK(!decoded || (t.query[0].value.n == 2 && t.query[0].value.p[1] == (char)c));
	}
}

TEST(http_target_bounds)
{
	static struct http_target t;
	static char text[HTTP_TARGET_MAX + 10];
	struct http_refusal r;
	size_t n = 0;

	for (unsigned int i = 0; i < HTTP_SEGMENTS_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "/%u", i);
	CHECK_EQ_INT(parse(text, &t, &r), 0);
	CHECK_EQ_INT(t.nseg, HTTP_SEGMENTS_MAX);
	(void)snprintf(text + n, sizeof(text) - n, "/");
	CHECK_EQ_INT(parse(text, &t, &r), -1);
	CHECK_EQ_INT(r.status, 414);

	n = (size_t)snprintf(text, sizeof(text), "/?0");
	for (unsigned int i = 1; i < HTTP_QUERY_MAX; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "&%u", i);
	CHECK_EQ_INT(parse(text, &t, &r), 0);
	CHECK_EQ_INT(t.nquery, HTTP_QUERY_MAX);
	(void)snprintf(text + n, sizeof(text) - n, "&x");
	CHECK_EQ_INT(parse(text, &t, &r), -1);
	CHECK_EQ_INT(r.status, 414);

	memset(text, 'a', sizeof(text));
	text[0] = '/';
	text[HTTP_TARGET_MAX] = '\0';
	CHECK_EQ_INT(parse(text, &t, &r), 0);
	CHECK_EQ_INT(t.seg[0].n, HTTP_TARGET_MAX - 1);
	text[HTTP_TARGET_MAX] = 'a';
	text[HTTP_TARGET_MAX + 1] = '\0';
	CHECK_EQ_INT(http_target_parse((struct http_slice){ text, HTTP_TARGET_MAX + 1 }, &t, &r),
		     -1);
	CHECK_EQ_INT(r.status, 414);
}

TEST(http_target_parameters_are_found_by_name)
{
	static struct http_target t;
	struct http_refusal r;

	CHECK_EQ_INT(parse("/x?limit=10&all&q=a%20b", &t, &r), 0);
	CHECK(http_slice_is(*http_query(&t, "limit"), "10"));
	CHECK(http_slice_is(*http_query(&t, "all"), ""));
	CHECK(http_slice_is(*http_query(&t, "q"), "a b"));
	CHECK(http_query(&t, "Limit") == NULL && http_query(&t, "") == NULL);
}

/* --- the rest of a path ----------------------------------------------------------------------------------------- */

TEST(http_target_rest_is_what_came)
{
	static const struct {
		const char *text;
		unsigned int n, nseg;
		const char *want; /* NULL: there is none */
	} rows[] = {
		{ "/a/b/c", 1, 3, "b/c" },
		{ "/a/b/c?d=/e", 2, 3, "c" },
		{ "/a/b", 2, 2, NULL },
		{ "/a", 1, 1, NULL },
		{ "/", 0, 0, "" },
		{ "/a/", 1, 2, "" },
		{ "/a//b", 1, 1, "/b" },
		{ "/a/../b", 1, 1, "../b" },
		{ "/a/b/./c", 1, 2, "b/./c" },
		{ "/a/%2e%2e/b", 1, 1, "%2e%2e/b" },
		{ "/a/%ff/b", 1, 1, "%ff/b" },
		{ "/a/%00", 1, 1, "%00" },
		{ "/a/%", 1, 1, "%" },
		{ "/a/b%2fc/d", 1, 3, "b%2fc/d" },
		{ "/a/b//", 1, 2, "b//" },
		{ "/../a", 0, 0, "../a" },
	};
	static struct http_target t;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_slice s = { rows[i].text, strlen(rows[i].text) }, rest;
		struct http_refusal r;

		CHECK_EQ_INT(http_target_parse_open(s, &t, &r), 0);
		CHECK_EQ_INT(t.nseg, rows[i].nseg);
		rest = http_target_rest(&t, rows[i].n);
		CHECK((rest.p == NULL) == (rows[i].want == NULL));
		if (rest.p != NULL && !http_slice_is(rest, rows[i].want))
			test_fail(__FILE__, __LINE__, "'%s': '%.*s'", rows[i].text, (int)rest.n,
				  rest.p);
	}
}

TEST(http_target_open_keeps_the_query)
{
	static struct http_target t;
	struct http_refusal r;
	static const char text[] = "/a/../b?c=d", twice[] = "/a/../b?c&c";

	CHECK_EQ_INT(http_target_parse_open((struct http_slice){ text, sizeof(text) - 1 }, &t, &r),
		     0);
	CHECK_EQ_INT(t.bad.status, 400);
	CHECK_STR(http_query(&t, "c")->p, "d");
	CHECK(!t.repeated);
	CHECK_EQ_INT(
		http_target_parse_open((struct http_slice){ twice, sizeof(twice) - 1 }, &t, &r), 0);
	CHECK(t.repeated); /* for the route to say whether it may be */
}

TEST(http_target_open_takes_any_query)
{
	static const char *const rows[] = { "/a?b=%", "/a?=b", "/a?%ff", "/a?b&&c", "/a?b=%00" };
	static struct http_target t;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_slice s = { rows[i], strlen(rows[i]) };
		struct http_refusal r;

		CHECK_EQ_INT(http_target_parse_open(s, &t, &r), 0);
		CHECK_EQ_INT(t.bad_query.status, 400);
		CHECK_EQ_INT(http_target_parse(s, &t, &r), -1);
		CHECK_EQ_INT(r.status, 400);
	}
}

TEST(http_path_is_decoded_once)
{
	static const struct {
		const char *text, *want; /* NULL: refused */
	} rows[] = {
		{ "", "" },
		{ "a/b", "a/b" },
		{ "a%2Fb", "a/b" },
		{ "%252e", "%2e" },
		{ "%2e%2E", ".." },
		{ "%ff%41", "\xff"
			    "A" },
		{ "%0a", "\n" },
		{ "a+b", "a+b" },
		{ "%00", NULL },
		{ "a%00b", NULL },
		{ "%", NULL },
		{ "%4", NULL },
		{ "%zz", NULL },
		{ "a b", NULL },
		{ "a#b", NULL },
	};
	char out[8];
	struct http_refusal r;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_slice s = { rows[i].text, strlen(rows[i].text) };
		ptrdiff_t n = http_path_decode(s, out, sizeof(out), &r);

		CHECK_EQ_INT(n, rows[i].want == NULL ? -1 : (ptrdiff_t)strlen(rows[i].want));
		if (n >= 0)
			CHECK_STR(out, rows[i].want);
		else
			CHECK_EQ_INT(r.status, 400);
	}
	CHECK_EQ_INT(http_path_decode((struct http_slice){ "12345678", 8 }, out, 8, &r), -1);
	CHECK_EQ_INT(r.status, 414);
}
