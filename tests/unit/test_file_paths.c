/* SPDX-License-Identifier: Apache-2.0 */
/* src/gate/file_paths.c and file_head.c: paths of requests, and what an answer says of a file. */
#include "gate/file_head.h"
#include "gate/file_paths.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "test.h"

static int take(struct file_path *p, const char *rest, struct http_refusal *r)
{
	memset(p, 0, sizeof(*p));
	return file_path_take_rest(p, (struct http_slice){ rest, strlen(rest) }, r);
}

TEST(file_paths_are_decoded_once)
{
	static const struct {
		const char *rest, *text, *name;
	} rows[] = {
		{ "a", "a", "a" },         { "a/b/c.txt", "a/b/c.txt", "c.txt" },
		{ "a%2Fb", "a/b", "b" },   { "%252e%252e", "%2e%2e", "%2e%2e" },
		{ "%ff", "\xff", "\xff" }, { "a%0Ab", "a\nb", "a\nb" },
		{ "...", "...", "..." },   { "..%20", ".. ", ".. " },
		{ "a+b", "a+b", "a+b" },
	};
	struct http_refusal r;
	struct file_path p;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CHECK_EQ_INT(take(&p, rows[i].rest, &r), 0);
		CHECK_STR(p.text, rows[i].text);
		CHECK_STR(file_path_name(&p), rows[i].name);
	}
}

TEST(file_paths_that_are_none)
{
	static const char *const rows[] = {
		"",    "/",    "/a",  "a/",       "a//b", ".",    "..",       "a/..",       "a/.",
		"./a", "../a", "%2e", "%2E%2e/a", "a%2F", "%2Fa", "a%2F%2Fb", "a/%2e%2e/b",
	};
	static const char *const malformed[] = { "%", "a%4", "%zz", "%00", "a%00b", "a b", "a#b" };
	static char text[PATH_MAX + 8];
	struct http_refusal r;
	struct file_path p;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (take(&p, rows[i], &r) != -EINVAL)
			test_fail(__FILE__, __LINE__, "'%s' was taken", rows[i]);
	for (size_t i = 0; i < ARRAY_LEN(malformed); i++) {
		CHECK_EQ_INT(take(&p, malformed[i], &r), -EBADMSG);
		CHECK_EQ_INT(r.status, 400);
	}
	memset(text, 'x', 256);
	CHECK_EQ_INT(take(&p, text, &r), -EINVAL); /* a name of 256 bytes */
	text[255] = '\0';
	CHECK_EQ_INT(take(&p, text, &r), 0);
	for (size_t i = 0; i < PATH_MAX; i++)
		text[i] = i % 2 == 0 ? 'x' : '/';
	text[PATH_MAX - 1] = '\0';
	CHECK_EQ_INT(take(&p, text, &r), 0);
	text[PATH_MAX - 1] = 'x';
	text[PATH_MAX] = '\0';
	CHECK_EQ_INT(take(&p, text, &r), -ENAMETOOLONG);
	CHECK_EQ_INT(file_path_take(&p, "a\0b", 3), -EINVAL);
}

TEST(file_paths_in_a_box)
{
	struct file_path p = { .text = "a/b" };
	char out[FILE_PATH_IN_BOX];

	file_path_in_box(&p, out);
	CHECK_STR(out, "a/b");
	p.from_root = true;
	file_path_in_box(&p, out);
	CHECK_STR(out, "/a/b");
	p.text[0] = '\0';
	file_path_in_box(&p, out);
	CHECK_STR(out, "/");
	p.from_root = false;
	file_path_in_box(&p, out);
	CHECK_STR(out, ".");
	CHECK_STR(file_path_name(&p), "");
	memset(p.text, 'x', PATH_MAX - 1);
	p.from_root = true;
	file_path_in_box(&p, out);
	CHECK_EQ_INT(strlen(out), PATH_MAX);
}

TEST(file_types_by_the_end_of_a_name)
{
	CHECK_STR(file_type("a.txt"), "text/plain");
	CHECK_STR(file_type("d.png/a.HTML"), "text/html");
	CHECK_STR(file_type("a.tar.gz"), "application/gzip");
	CHECK_STR(file_type("a.png.unheard-of"), "application/octet-stream");
	CHECK_STR(file_type("a"), "application/octet-stream");
	CHECK_STR(file_type("a."), "application/octet-stream");
	CHECK_STR(file_type(""), "application/octet-stream");
	CHECK_STR(file_type("a.html "), "application/octet-stream");
	CHECK_STR(file_type("d.png/a"), "application/octet-stream");
}

TEST(file_names_in_a_header)
{
	static const struct {
		const char *name, *value;
	} rows[] = {
		{ "a.txt", "attachment; filename=\"a.txt\"" },
		{ "a; b='c'", "attachment; filename=\"a; b='c'\"" },
		{ "a\"b", "attachment; filename=\"a_b\"; filename*=UTF-8''a%22b" },
		{ "a\\b", "attachment; filename=\"a_b\"; filename*=UTF-8''a%5Cb" },
		{ "100%", "attachment; filename=\"100_\"; filename*=UTF-8''100%25" },
		{ "a\r\nX: y",
		  "attachment; filename=\"a__X: y\"; filename*=UTF-8''a%0D%0AX%3A%20y" },
		{ "\xc3\xa9", "attachment; filename=\"__\"; filename*=UTF-8''%C3%A9" },
		{ "\xff"
		  "a",
		  "attachment; filename=\"_a\"; filename*=UTF-8''%EF%BF%BDa" },
	};
	char value[FILE_DISPOSITION], name[1025];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		file_disposition(rows[i].name, value);
		CHECK_STR(value, rows[i].value);
	}
	/* However long, and whatever is in it: the text is whole. */
	for (size_t n = 0; n < sizeof(name); n++) {
		static const char fill[] = { 'x', '"', '\xc3', '\xff' };

		for (size_t i = 0; i < ARRAY_LEN(fill); i++) {
			memset(name, fill[i], n);
			name[n] = '\0';
			file_disposition(name, value);
			CHECK(strlen(value) < FILE_DISPOSITION - 1 || n < 900);
			CHECK(strncmp(value, "attachment; filename=\"", 22) == 0);
			CHECK(strchr(value + 22, '"') != NULL);
		}
	}
}

TEST(file_dates)
{
	char date[FILE_DATE];

	file_date(0, date);
	CHECK_STR(date, "Thu, 01 Jan 1970 00:00:00 GMT");
	file_date(1600000000999999999u, date);
	CHECK_STR(date, "Sun, 13 Sep 2020 12:26:40 GMT");
	file_date(UINT64_MAX, date);
	CHECK_STR(date, "Sun, 21 Jul 2554 23:34:33 GMT");
}
