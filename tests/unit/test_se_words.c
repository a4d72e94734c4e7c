/* SPDX-License-Identifier: Apache-2.0 */
/* src/gate/se_answers.c, se_decode.c: paths, sizes and texts of the Sandbox Runtime dialect. */
#include "gate/se.h"
#include "gate/se_decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "test.h"

TEST(se_paths)
{
	static const struct {
		const char *from, *to; /* NULL: refused */
	} cases[] = {
		{ "a", "a" },
		{ "a/b", "a/b" },
		{ "/a", "a" },
		{ "///etc/passwd", "etc/passwd" },
		{ "a//b", "a/b" },
		{ "a/./b", "a/b" },
		{ "a/", "a" },
		{ "a/.", "a" },
		{ "", "" },
		{ "/", "" },
		{ "...", "..." },
		{ "..a", "..a" },
		{ "a..", "a.." },
		{ "a/...", "a/..." },
		{ ".a", ".a" },
		{ "a\\..\\b", "a\\..\\b" },
		{ "%2e%2e", "%2e%2e" },
		{ "\xff\xfe", "\xff\xfe" },
		{ "a\nb", "a\nb" },
		{ ".", NULL },
		{ "..", NULL },
		{ "/.", NULL },
		{ "//..", NULL },
		{ "./a", NULL },
		{ "../a", NULL },
		{ "a/..", NULL },
		{ "a/../b", NULL },
		{ "/../a", NULL },
		{ "a/b/../../../c", NULL },
	};
	char to[PATH_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *wrong = se_join(cases[i].from, strlen(cases[i].from), to);

		CHECK_STR(wrong == NULL ? to : NULL, cases[i].to);
	}
	CHECK(se_join("a\0b", 3, to) != NULL);
	CHECK(se_join("\0", 1, to) != NULL);
}

TEST(se_paths_of_any_length)
{
	static char from[3 * PATH_MAX], to[PATH_MAX];

	for (size_t n = 250; n < 260; n++) {
		memset(from, 'x', n);
		CHECK_EQ_INT(se_join(from, n, to) == NULL, n <= NAME_MAX);
	}
	for (size_t n = PATH_MAX - 110; n < PATH_MAX + 110; n++) {
		memset(from, 'x', n);
		for (size_t i = 100; i < n; i += 101)
			from[i] = '/';
		if (from[n - 1] == '/')
			continue;
		CHECK_EQ_INT(se_join(from, n, to) == NULL, n < PATH_MAX);
		CHECK(n >= PATH_MAX || strlen(to) == n);
	}
	memset(from, '/', sizeof(from));
	CHECK(se_join(from, sizeof(from), to) == NULL && to[0] == '\0');
}

TEST(se_sizes)
{
	static const struct {
		const char *text;
		int64_t bytes; /* -1: none */
	} cases[] = {
		{ "0", 0 },
		{ "1", 1 },
		{ "64k", 65536 },
		{ "64K", 65536 },
		{ "100M", 100 << 20 },
		{ "100m", 100 << 20 },
		{ "2g", (int64_t)2 << 30 },
		{ "2G", (int64_t)2 << 30 },
		{ "50%", 500 },
		{ "100%", 1000 },
		{ "0%", 0 },
		{ "101%", -1 },
		{ "", -1 },
		{ "M", -1 },
		{ "%", -1 },
		{ "-1", -1 },
		{ "+1", -1 },
		{ " 1", -1 },
		{ "1 M", -1 },
		{ "1MM", -1 },
		{ "1MB", -1 },
		{ "1.5M", -1 },
		{ "1T", -1 },
		{ "1M,mode=777", -1 },
		{ "9223372036854775807", INT64_MAX },
		{ "9223372036854775808", -1 },
		{ "9223372036854775807k", -1 },
		{ "8589934592G", -1 },
		{ "99999999999999999999999999", -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t v = 0;
		int r = se_size(cases[i].text, 1000, &v);

		CHECK_EQ_INT(r == 0 ? (int64_t)v : -1, cases[i].bytes);
	}
}

TEST(se_extensions)
{
	static const struct {
		const char *path, *end;
	} cases[] = {
		{ "a.txt", "txt" },  { "a.tar.gz", "gz" }, { "d.x/a", NULL }, { ".hidden", NULL },
		{ ".a.b", "b" },     { "...a", NULL },     { "a.", NULL },    { ".html..", NULL },
		{ "d/.x/y.P", "P" }, { "", NULL },         { "d/", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(se_extension(cases[i].path), cases[i].end);
}

/* --- texts ---------------------------------------------------------------------------------------------------------- */

/* A file, read from `offset` on as se_read.c does. */
static ptrdiff_t part(const char *file, size_t size, size_t offset, size_t want)
{
	size_t before = offset < SE_DECODE_EXTRA ? offset : SE_DECODE_EXTRA;
	size_t n = size - offset < want + SE_DECODE_EXTRA ? size - offset : want + SE_DECODE_EXTRA;
	char *copy = malloc(before + n + 1); /* so that who reads too far is found out */
	struct se_piece p = { .p = copy + before,
			      .before = before,
			      .n = n,
			      .want = n < want ? n : want,
			      .last = offset + n == size };
	ptrdiff_t r;

	CHECK(copy != NULL);
	(void)memcpy(copy, file + offset - before, before + n);
	r = se_utf8_part(&p);
	free(copy);
	return r;
}

/* From any place to the end, with pieces of any size: all of it comes, and pieces end where characters do. */
TEST(se_pieces_of_utf8)
{
	static const char text[] =
		"a\xe2\x82\xac\xc3\xa9\xf0\x9d\x84\x9e-b\xf0\x9d\x84\x9e\xe2\x82\xac";
	const size_t size = sizeof(text) - 1;

	for (size_t want = 1; want < 12; want++)
		for (size_t at = 0; at < size;) {
			ptrdiff_t n = part(text, size, at, want);

			CHECK(n > 0 && (size_t)n <= (want > 4 ? want : 4));
			at += (size_t)n;
			CHECK(at <= size && ((unsigned char)text[at] & 0xc0) != 0x80);
		}
	/* From the middle of a character on: its rest comes first, and then all is well. */
	CHECK_EQ_INT(part(text, size, 2, 1), 2);
	CHECK_EQ_INT(part(text, size, 3, 1), 1);
	CHECK_EQ_INT(part(text, size, 2, 4), 4);
	CHECK_EQ_INT(part(text, size, 7, 100), size - 7);
}

TEST(se_what_is_no_utf8)
{
	static const char *const texts[] = {
		"caf\xe9 au lait",  "\xff\xfe", "a\x80",
		"\xd6\xd0\xce\xc4", "\xe2\x82", "\xed\xa0\x80",
	};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		size_t size = strlen(texts[i]);

		CHECK_EQ_INT(part(texts[i], size, 0, size), -1);
	}
	/* Bytes that could go on with a character, where none has begun: not behind an 'a'. */
	CHECK_EQ_INT(part("a\xb0\xa1,hello", 9, 1, 8), -1);
	CHECK_EQ_INT(part("\xb0\xa1,hello", 8, 0, 8), -1);
	CHECK_EQ_INT(part("", 0, 0, 8), 0);
}

TEST(se_latin1)
{
	char all[256];
	struct buf text;

	for (int i = 0; i < 256; i++)
		all[i] = (char)i;
	buf_init(&text, 512);
	CHECK_EQ_INT(se_latin1(all, sizeof(all), &text), 0);
	CHECK_EQ_INT(buf_len(&text), 128 + 2 * 128);
	CHECK_MEM(buf_head(&text), all, 128);
	CHECK_MEM(buf_head(&text) + 128, "\xc2\x80\xc2\x81", 4);
	CHECK_MEM(buf_head(&text) + 128 + 2 * 127, "\xc3\xbf", 2);
	buf_done(&text);
	buf_init(&text, 3);
	CHECK_EQ_INT(se_latin1("\xe9\xe9", 2, &text), -ENOMEM);
	buf_done(&text);
}
