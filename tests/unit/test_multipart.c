/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/multipart.c: forms in whatever pieces. */
#include "wire/multipart.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

#include "test_help.h"

#define TEXT(s) s, sizeof(s) - 1

/* Bytes, not a string. */
static void put(char *at, const char *p, size_t n)
{
	memcpy(at, p, n);
}

#define FORM "multipart/form-data; boundary=xyz"
#define CD   "Content-Disposition: form-data; name="
#define A    "--xyz\r\n" CD "a\r\n\r\n"
#define LAST "\r\n--xyz--"

/* What came out, as text: part(name,file,type)data; and "end", or the refusal. */
struct story {
	char *text;
	size_t n, max;
	bool in_data;
	struct http_refusal r;
};

static void add(struct story *s, const void *p, size_t n)
{
	CHECK(s->n + n < s->max);
	memcpy(s->text + s->n, p, n);
	s->n += n;
	s->text[s->n] = '\0';
}

static void add_text(struct story *s, const char *text)
{
	add(s, text, strlen(text));
}

static void tell(struct story *s, const struct multipart *m, enum multipart_event event,
		 struct http_slice data)
{
	if (event == MULTIPART_DATA) {
		CHECK(data.n > 0);
		add(s, data.p, data.n);
		return;
	}
	CHECK_EQ_INT(data.n, 0);
	if (event == MULTIPART_PART) {
		add_text(s, "part(");
		add_text(s, m->name);
		add_text(s, m->filename != NULL ? "," : "");
		add_text(s, m->filename != NULL ? m->filename : "");
		add_text(s, m->content_type != NULL ? "," : "");
		add_text(s, m->content_type != NULL ? m->content_type : "");
		add_text(s, ")");
	} else if (event != MULTIPART_MORE) {
		add_text(s, event == MULTIPART_END ? "end" : ";");
	}
}

/* One piece, to its end; -1 when it is refused. */
static int feed(struct multipart *m, const char *p, size_t n, struct story *s)
{
	enum multipart_event event;

	do {
		struct http_slice data;
		ptrdiff_t used = multipart_feed(m, p, n, &event, &data, &s->r);

		if (used < 0)
			return -1;
		CHECK((size_t)used <= n);
		p += used;
		n -= (size_t)used;
		tell(s, m, event, data);
	} while (event != MULTIPART_MORE);
	CHECK_EQ_INT(n, 0);
	return 0;
}

/* The whole body: first bytes, then step at a time. The story is written into text[max]. */
static struct story read_form(const char *type, const char *p, size_t n, size_t first, size_t step,
			      char *text, size_t max)
{
	struct fence f = fence_open(n + 1);
	struct story s = { .text = text, .max = max };
	static struct multipart m;
	int r;

	text[0] = '\0';
	r = multipart_init(&m, (struct http_slice){ type, strlen(type) }, &s.r);
	for (size_t at = 0, piece = first; r == 0 && at < n; at += piece, piece = step) {
		if (piece > n - at)
			piece = n - at;
		r = feed(&m, (const char *)fence_copy(&f, p + at, piece), piece, &s);
	}
	if (r == 0)
		r = multipart_end(&m, &s.r);
	else
		CHECK_EQ_INT(multipart_end(&m, &(struct http_refusal){ 0 }), -1);
	if (r < 0)
		add_text(&s, " refused");
	fence_close(&f);
	return s;
}

/* Whole, byte by byte, and cut once at every place: one story. */
static struct story read_all_ways(const char *type, const char *p, size_t n, char *text, size_t max)
{
	struct story whole = read_form(type, p, n, n, n, text, max);
	char *other = malloc(max);

	CHECK(other != NULL);
	for (size_t first = 1; first <= n; first++) {
		struct story got = read_form(type, p, n, first, first == 1 ? 1 : n, other, max);

		CHECK_EQ_INT(got.n, whole.n);
		CHECK_MEM(other, text, whole.n);
		if (whole.r.why != NULL)
			CHECK_STR(got.r.why, whole.r.why);
	}
	free(other);
	return whole;
}

TEST(multipart_reads_forms)
{
	static const struct {
		const char *body;
		size_t n;
		const char *story;
		size_t story_n;
	} good[] = {
		{ TEXT("--xyz--"), TEXT("end") },
		{ TEXT("--xyz--\r\n"), TEXT("end") },
		{ TEXT("\r\n--xyz--\r\n"), TEXT("end") },
		{ TEXT(A LAST), TEXT("part(a);end") },
		{ TEXT(A "1" LAST), TEXT("part(a)1;end") },
		{ TEXT(A "--xyz--"), TEXT("part(a);end") }, /* no body at all: RFC 2046 */
		{ TEXT(A "\r\n" LAST), TEXT("part(a)\r\n;end") },
		{ TEXT(A "\0\xff" LAST "\r\n"), TEXT("part(a)\0\xff;end") },
		{ TEXT(A "1\r\n--xyz\r\n" CD "b\r\n\r\n2\r\n--xyz\r\n" CD "c\r\n\r\n3" LAST "\r\n"),
		  TEXT("part(a)1;part(b)2;part(c)3;end") },
		{ TEXT("preamble\r\n--xy\r\r\n-\r\n" A "1" LAST "\r\nepilogue\r\n--xyz\r\nxx"),
		  TEXT("part(a)1;end") },
		{ TEXT("--xy\r\n--x--xyz\r\n--xyz--"), TEXT("end") },

		/* what looks like a boundary */
		{ TEXT(A "\r" LAST), TEXT("part(a)\r;end") },
		{ TEXT(A "\r\n-" LAST), TEXT("part(a)\r\n-;end") },
		{ TEXT(A "\r\n--" LAST), TEXT("part(a)\r\n--;end") },
		{ TEXT(A "\r\n--xy" LAST), TEXT("part(a)\r\n--xy;end") },
		{ TEXT(A "\r\n--xy\r\n--xyz--"), TEXT("part(a)\r\n--xy;end") },
		{ TEXT(A "\r\r\r\n\r\n\r\n--\r\n--x\r\r\n--xyz--"),
		  TEXT("part(a)\r\r\r\n\r\n\r\n--\r\n--x\r;end") },
		{ TEXT(A "--xy" LAST), TEXT("part(a)--xy;end") },
		{ TEXT(A "-\r\n--xyz--"), TEXT("part(a)-;end") },
		{ TEXT(A "x--xyz\r\n--xYz\r\n --xyz\n--xyz" LAST),
		  TEXT("part(a)x--xyz\r\n--xYz\r\n --xyz\n--xyz;end") },

		/* headers of a part */
		{ TEXT("--xyz\r\ncontent-DISPOSITION:FORM-data ; NAME=\"a\"\t;x=y; FileName=b\r\n"
		       "content-type:text/plain;\tcharset=utf-8\r\nX: y\r\n\r\n1" LAST),
		  TEXT(" refused") },
		{ TEXT("--xyz\r\ncontent-DISPOSITION:FORM-data ; NAME=\"a\"\t;x=y; FileName=b\r\n"
		       "content-type:text/plain; charset=utf-8\r\nX: y\r\n\r\n1" LAST),
		  TEXT("part(a,b,text/plain; charset=utf-8)1;end") },
		{ TEXT("--xyz\r\n" CD "\"\"; filename=\"\"\r\n"
		       "Content-Type: application/octet-stream\r\n\r\n" LAST),
		  TEXT("part(,,application/octet-stream);end") },
		{ TEXT("--xyz\r\nContent-Transfer-Encoding: Binary\r\nContent-Length: 1\r\n" CD
		       "a\r\n\r\n1" LAST),
		  TEXT("part(a)1;end") },
	};
	char text[400];

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct story s = read_all_ways(FORM, good[i].body, good[i].n, text, sizeof(text));

		if (s.n != good[i].story_n || memcmp(text, good[i].story, s.n) != 0)
			test_fail(__FILE__, __LINE__, "row %zu: '%s' (%s)", i, text,
				  s.r.why != NULL ? s.r.why : "-");
		CHECK(true);
	}
}

TEST(multipart_refuses)
{
	static const struct {
		const char *body;
		size_t n;
		const char *story; /* up to the refusal */
	} bad[] = {
		/* cut short */
		{ TEXT(""), "" },
		{ TEXT("--xyz"), "" },
		{ TEXT("--xyz-"), "" },
		{ TEXT("--xyz\r\n"), "" },
		{ TEXT("--xyz\r\n" CD "a\r\n"), "" },
		{ TEXT(A), "part(a)" },
		{ TEXT(A "1"), "part(a)1" },
		{ TEXT(A "1\r\n--xy"), "part(a)1" },
		{ TEXT(A "1\r\n--xyz"), "part(a)1;" },
		{ TEXT(A "1\r\n--xyz-"), "part(a)1;" },
		{ TEXT("only a preamble"), "" },

		/* behind a boundary */
		{ TEXT("--xyz \r\n" CD "a\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\n" CD "a\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r" CD "a\r\n\r\n1" LAST), "" },
		{ TEXT("--xyzz\r\n" CD "a\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz-\r\n"), "" },
		{ TEXT(A "1\r\n--xyzz"), "part(a)1;" },
		{ TEXT(A "1\r\n--xyz--x"), "part(a)1;end" },
		{ TEXT(A "1\r\n--xyz--\n"), "part(a)1;end" },
		{ TEXT(A "1\r\n--xyz--\rx"), "part(a)1;end" },

		/* headers */
		{ TEXT("--xyz\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\nX: y\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\n\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\n b\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\nX : y\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\nX: y\0\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\n" CD "a\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\nContent-Type: a/b\r\nContent-Type: a/b\r\n\r\n" LAST),
		  "" },
		{ TEXT("--xyz\r\n" CD "a\r\nContent-Type: a\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\nContent-Type:\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\nContent-Type: a/\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\nContent-Type: a/b\xc3\xa9\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\nContent-Type: a/b;c=\xc3\xa9\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\n" CD "a\r\nContent-Transfer-Encoding: base64\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\nContent-Disposition: attachment; name=a\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\nContent-Disposition: form-data\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\nContent-Disposition:\r\n\r\n1" LAST), "" },
		{ TEXT("--xyz\r\nContent-Disposition: form-data; filename=a\r\n\r\n1" LAST), "" },
	};
	char text[400], want[100];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct story s = read_all_ways(FORM, bad[i].body, bad[i].n, text, sizeof(text));

		(void)snprintf(want, sizeof(want), "%s refused", bad[i].story);
		if (strcmp(text, want) != 0)
			test_fail(__FILE__, __LINE__, "row %zu: '%s'", i, text);
		CHECK_EQ_INT(s.r.status, 400);
	}
}

/* --- names ------------------------------------------------------------------------------------------------- */

/* The filename that a Content-Disposition has; NULL when it is refused. */
static const char *filename_of(const char *parameters)
{
	static struct multipart m;
	char body[4000];
	int n = snprintf(body, sizeof(body), "--xyz\r\n" CD "a%s\r\n\r\n", parameters);
	enum multipart_event event;
	struct http_slice data;
	struct http_refusal r;

	CHECK(n > 0 && (size_t)n < sizeof(body));
	CHECK_EQ_INT(multipart_init(&m, (struct http_slice){ TEXT(FORM) }, &r), 0);
	if (multipart_feed(&m, body, (size_t)n, &event, &data, &r) < 0)
		return NULL;
	CHECK_EQ_INT(event, MULTIPART_PART);
	CHECK_STR(m.name, "a");
	return m.filename != NULL ? m.filename : "(none)";
}

TEST(multipart_names_of_files)
{
	static const struct {
		const char *parameters, *want;
	} rows[] = {
		{ "", "(none)" },
		{ "; x=y", "(none)" },
		{ "; filename=b.txt", "b.txt" },
		{ ";filename=\"b c.txt\"", "b c.txt" },
		{ " ; \tfilename=\"b;c=d.txt\" ", "b;c=d.txt" },
		{ "; filename=\"a\\\"b\\\\c\"", "a\"b\\c" },
		{ "; filename=\"C:\\dir\\new.txt\"", "C:\\dir\\new.txt" },
		{ "; filename=\"a%22b%0d%41%\"", "a\"b%0d%41%" },
		{ "; filename=a%22b", "a%22b" },
		{ "; filename=\"../../etc/passwd\"", "../../etc/passwd" },
		{ "; filename=\"caf\xc3\xa9 \xf0\x9f\x98\x80\"", "caf\xc3\xa9 \xf0\x9f\x98\x80" },
		{ "; filename*=UTF-8''caf%c3%A9%20x", "caf\xc3\xa9 x" },
		{ "; filename*=utf-8'de-DE'%22%25%5c", "\"%\\" },
		{ "; filename=x; filename*=UTF-8''y", "y" },
		{ "; filename*=UTF-8''y; filename=\"x\"", "y" },
		{ "; filename*=UTF-8''", "" },
		/* refused */
		{ "; filename", NULL },
		{ "; filename=", NULL },
		{ "; filename =x", NULL },
		{ "; filename= x", NULL },
		{ "; filename=x y", NULL },
		{ "; filename=x/y", NULL },
		{ "; filename=caf\xc3\xa9", NULL },
		{ "; filename=\"x", NULL },
		{ "; filename=\"x\\\"", NULL },
		{ "; filename=\"x\"y", NULL },
		{ "; filename=x\"y\"", NULL },
		{ "; filename=\"x\ty\"", NULL },
		{ "; filename=\"\xff\"", NULL },
		{ "; filename=\"\xc2\x85\"", NULL },
		{ "; filename=x; filename=x", NULL },
		{ "; filename*=UTF-8''x; FILENAME*=UTF-8''x", NULL },
		{ "; name=b", NULL },
		{ ";", NULL },
		{ "; ", NULL },
		{ ";; filename=x", NULL },
		{ ", filename=x", NULL },
		{ "; =x", NULL },
		{ "; filename*=x", NULL },
		{ "; filename*=UTF-8'x", NULL },
		{ "; filename*=ISO-8859-1''x", NULL },
		{ "; filename*=''x", NULL },
		{ "; filename*=\"UTF-8''x\"", NULL },
		{ "; filename*=UTF-8''%", NULL },
		{ "; filename*=UTF-8''%4", NULL },
		{ "; filename*=UTF-8''%4g", NULL },
		{ "; filename*=UTF-8''%00", NULL },
		{ "; filename*=UTF-8''%0a", NULL },
		{ "; filename*=UTF-8''%ff", NULL },
		{ "; filename*=UTF-8''a*b", NULL },
		{ "; filename*=UTF-8''a'b", NULL },
		{ "; filename*=UTF-8''a/b", NULL },
		{ "; filename*=UTF-8''y; filename=\"\xff\"", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *got = filename_of(rows[i].parameters);

		if ((got == NULL) != (rows[i].want == NULL))
			test_fail(__FILE__, __LINE__, "'%s': %s", rows[i].parameters,
				  got == NULL ? "refused" : got);
		CHECK_STR(got, rows[i].want);
	}
}

TEST(multipart_names_have_a_longest)
{
	static const char *const forms[] = { "; filename=%s", "; filename=\"%s\"",
					     "; filename*=UTF-8''%s" };
	char name[MULTIPART_NAME_MAX + 2], parameters[2000];

	for (size_t i = 0; i < ARRAY_LEN(forms); i++)
		for (size_t n = MULTIPART_NAME_MAX; n <= MULTIPART_NAME_MAX + 1; n++) {
			size_t front = strcspn(forms[i], "%");

			memset(name, 'n', n);
			name[n] = '\0';
			(void)snprintf(parameters, sizeof(parameters), "%.*s%s%s", (int)front,
				       forms[i], name, forms[i] + front + 2);
			if (n == MULTIPART_NAME_MAX)
				CHECK_STR(filename_of(parameters), name);
			else
				CHECK(filename_of(parameters) == NULL);
		}
}

/* --- the boundary -------------------------------------------------------------------------------------------- */

#define SEVENTY "0123456789012345678901234567890123456789012345678901234567890123456789"

TEST(multipart_boundaries)
{
	static const struct {
		const char *type;
		int status;           /* 0: taken */
		const char *boundary; /* then */
	} rows[] = {
		{ "multipart/form-data; boundary=x", 0, "x" },
		{ "Multipart/Form-Data;BOUNDARY=x", 0, "x" },
		{ "multipart/form-data ; charset=utf-8; boundary=\"x y\"; z=\"1;\\\"\"", 0, "x y" },
		{ "multipart/form-data; boundary=----=_Part_0.1", 0, "----=_Part_0.1" },
		{ "multipart/form-data; boundary=\"'()+_,-./:=?\"", 0, "'()+_,-./:=?" },
		{ "multipart/form-data; boundary=" SEVENTY, 0, SEVENTY },
		{ "multipart/form-data; boundary=" SEVENTY "0", 400, NULL },
		{ "multipart/form-data; boundary=\"\"", 400, NULL },
		{ "multipart/form-data; boundary=", 400, NULL },
		{ "multipart/form-data; boundary", 400, NULL },
		{ "multipart/form-data; boundary=\"x \"", 400, NULL },
		{ "multipart/form-data; boundary=\"x\\y\"", 400, NULL },
		{ "multipart/form-data; boundary=\"x", 400, NULL },
		{ "multipart/form-data; boundary=x*y", 400, NULL },
		{ "multipart/form-data; boundary=x\xc3\xa9", 400, NULL },
		{ "multipart/form-data; boundary=\"x\ty\"", 400, NULL },
		{ "multipart/form-data; boundary=x; boundary=x", 400, NULL },
		{ "multipart/form-data; boundary=x y", 400, NULL },
		{ "multipart/form-data; boundary=x;", 400, NULL },
		{ "multipart/form-data", 400, NULL },
		{ "multipart/form-data, boundary=x", 415, NULL },
		{ "multipart/mixed; boundary=x", 415, NULL },
		{ "application/json", 415, NULL },
		{ "", 415, NULL },
	};
	static struct multipart m;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_slice type = { rows[i].type, strlen(rows[i].type) };
		enum multipart_event event;
		struct http_refusal r = { 0 };
		struct http_slice data;
		char body[100];
		int n;

		CHECK_EQ_INT(multipart_init(&m, type, &r), rows[i].status == 0 ? 0 : -1);
		CHECK_EQ_INT(r.status, rows[i].status);
		if (rows[i].status != 0) {
			CHECK_EQ_INT(multipart_feed(&m, "x", 1, &event, &data, &r), -1);
			continue;
		}
		n = snprintf(body, sizeof(body), "--%s--", rows[i].boundary);
		CHECK_EQ_INT(multipart_feed(&m, body, (size_t)n, &event, &data, &r), n);
		CHECK_EQ_INT(event, MULTIPART_END);
	}
}

/* --- bounds, and long data ----------------------------------------------------------------------------------- */

TEST(multipart_what_stands_around_is_bounded)
{
	static char body[2 * MULTIPART_AROUND_MAX], text[100];
	static const char whole[] = A "1" LAST;
	static const size_t steps[] = { 1, 7, sizeof(body) };

	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		for (size_t n = MULTIPART_AROUND_MAX; n <= MULTIPART_AROUND_MAX + 1; n++) {
			bool fits = n == MULTIPART_AROUND_MAX;

			memset(body, '-', n);
			put(body + n, TEXT("\r\n"));
			put(body + n + 2, TEXT(whole));
			(void)read_form(FORM, body, n + 2 + sizeof(whole) - 1, steps[i], steps[i],
					text, sizeof(text));
			CHECK_STR(text, fits ? "part(a)1;end" : " refused");

			put(body, TEXT(whole));
			memset(body + sizeof(whole) - 1, '-', n);
			put(body + sizeof(whole) - 1, TEXT("\r\n"));
			(void)read_form(FORM, body, n + sizeof(whole) - 1, steps[i], steps[i], text,
					sizeof(text));
			CHECK_STR(text, fits ? "part(a)1;end" : "part(a)1;end refused");
		}
}

TEST(multipart_headers_of_a_part_are_bounded)
{
	static char body[MULTIPART_HEAD_MAX + 100], text[100];
	static const size_t steps[] = { 1, 7, sizeof(body) };
	static const char start[] = "--xyz\r\n";

	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		for (size_t n = MULTIPART_HEAD_MAX; n <= MULTIPART_HEAD_MAX + 1; n++) {
			static const char head[] = CD "a\r\nX: ";
			char *at = body + sizeof(start) - 1;

			put(body, TEXT(start));
			memset(at, 'x', n);
			put(at, TEXT(head));
			put(at + n - 4, TEXT("\r\n\r\n"));
			put(at + n, TEXT("1" LAST));
			(void)read_form(FORM, body, sizeof(start) - 1 + n + sizeof("1" LAST) - 1,
					steps[i], steps[i], text, sizeof(text));
			CHECK_STR(text, n == MULTIPART_HEAD_MAX ? "part(a)1;end" : " refused");
		}
}

/* Bytes that are mostly those of a boundary, in pieces of any size: all of them come out. */
TEST(multipart_long_data_comes_out_whole)
{
	enum { SIZE = 20000 };
	static const char bytes[] = "\r\n--xyz\r\r\n";
	static char body[SIZE + 200], text[SIZE + 200];
	static const char start[] = A;
	uint64_t seed = 5;

	for (unsigned int round = 0; round < 60; round++) {
		size_t n = sizeof(start) - 1, step = 1 + rnd_below(&seed, round < 30 ? 12 : 5000);
		struct story s;

		put(body, TEXT(start));
		while (n < SIZE) {
			body[n++] = bytes[rnd_below(&seed, sizeof(bytes) - 1)];
			if (n >= 7 && memcmp(body + n - 7, "\r\n--xyz", 7) == 0)
				body[n - 1] = 'Z';
			if (n == sizeof(start) + 4 && memcmp(body + n - 5, "--xyz", 5) == 0)
				body[n - 1] = 'Z';
		}
		put(body + n, TEXT(LAST));
		s = read_form(FORM, body, n + sizeof(LAST) - 1, step, step, text, sizeof(text));
		CHECK_EQ_INT(s.n, strlen("part(a);end") + n - (sizeof(start) - 1));
		CHECK_MEM(text + strlen("part(a)"), body + sizeof(start) - 1,
			  n - (sizeof(start) - 1));
	}
}

/* A run of data is handed out at once: nothing is held back that cannot begin a boundary. */
TEST(multipart_data_is_not_held_back)
{
	static struct multipart m;
	enum multipart_event event;
	struct http_slice data;
	struct http_refusal r;

	CHECK_EQ_INT(multipart_init(&m, (struct http_slice){ TEXT(FORM) }, &r), 0);
	CHECK_EQ_INT(multipart_feed(&m, TEXT(A), &event, &data, &r), sizeof(A) - 1);
	CHECK_EQ_INT(event, MULTIPART_PART);
	CHECK_EQ_INT(multipart_feed(&m, TEXT("ab\r\n-c\r"), &event, &data, &r), 7);
	CHECK(event == MULTIPART_DATA && http_slice_is(data, "ab\r\n-c"));
	CHECK_EQ_INT(multipart_feed(&m, "", 0, &event, &data, &r), 0);
	CHECK(event == MULTIPART_MORE);
	CHECK_EQ_INT(multipart_feed(&m, TEXT("d"), &event, &data, &r), 0);
	CHECK(event == MULTIPART_DATA && http_slice_is(data, "\r"));
	CHECK_EQ_INT(multipart_feed(&m, TEXT("d"), &event, &data, &r), 1);
	CHECK(event == MULTIPART_DATA && http_slice_is(data, "d"));
}
