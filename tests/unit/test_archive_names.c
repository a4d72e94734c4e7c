/* SPDX-License-Identifier: Apache-2.0 */
/* src/archive: names of members, targets of links, and how they are shown. */
#include "archive/archive.h"
#include "archive/names.h"

#include <errno.h>
#include <string.h>

#include "test_help.h"

TEST(archive_names)
{
	static const struct {
		const char *name, *path, *why; /* one of the two */
	} rows[] = {
		{ "a", "a", NULL },
		{ "a/b", "a/b", NULL },
		{ "./a//b/", "a/b", NULL },
		{ "a/./b/.", "a/b", NULL },
		{ ".", "", NULL },
		{ "./", "", NULL },
		{ ".//./", "", NULL },
		{ "..a", "..a", NULL },
		{ "a..", "a..", NULL },
		{ "...", "...", NULL },
		{ "a\\..\\b", "a\\..\\b", NULL },
		{ "C:\\x", "C:\\x", NULL },
		{ "with\nnewline", "with\nnewline", NULL },
		{ "\xff\xfe", "\xff\xfe", NULL },
		{ ".glovebox", ".glovebox", NULL },
		{ "", NULL, "is empty" },
		{ "/", NULL, "is absolute" },
		{ "/etc/passwd", NULL, "is absolute" },
		{ "//a", NULL, "is absolute" },
		{ "..", NULL, "leads out" },
		{ "../a", NULL, "leads out" },
		{ "a/..", NULL, "leads out" },
		{ "a/../b", NULL, "leads out" },
		{ "./../a", NULL, "leads out" },
		{ ".glovebox-unpack-1", NULL, "has a part that is a name of ours" },
		{ "a/.glovebox-unpack-1/b", NULL, "has a part that is a name of ours" },
		{ "a/.glovebox-put-1", NULL, "has a part that is a name of ours" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char path[PATH_MAX];
		const char *why = NULL;
		int r = name_take(rows[i].name, path, &why);

		CHECK_EQ_INT(r, rows[i].path != NULL ? 0 : -EBADMSG);
		if (r == 0)
			CHECK_STR(path, rows[i].path);
		else
			CHECK_STR(why, rows[i].why);
	}
}

TEST(archive_names_that_are_long)
{
	static char name[PATH_MAX + 2], path[PATH_MAX];
	const char *why = NULL;

	memset(name, 'a', 255);
	CHECK_EQ_INT(name_take(name, path, &why), 0);
	name[255] = 'a';
	CHECK_EQ_INT(name_take(name, path, &why), -EBADMSG);
	CHECK_STR(why, "has a part of more than 255 bytes");
	for (size_t i = 0; i < PATH_MAX - 1; i++)
		name[i] = i % 2 == 0 ? 'a' : '/';
	name[PATH_MAX - 1] = '\0';
	CHECK_EQ_INT(name_take(name, path, &why), 0);
	CHECK_STR(path, name);
	name[PATH_MAX - 1] = 'b';
	CHECK_EQ_INT(name_take(name, path, &why), -EBADMSG);
	CHECK_STR(why, "is longer than 4095 bytes");
}

TEST(archive_links)
{
	static const struct {
		const char *path, *target, *why; /* NULL: it may */
	} rows[] = {
		{ "l", "a", NULL },
		{ "l", "a/b", NULL },
		{ "l", ".", NULL },
		{ "l", "./a//b/", NULL },
		{ "l", "..a", NULL },
		{ "d/l", "..", NULL },
		{ "d/l", "../a", NULL },
		{ "d/e/l", "../../a/b", NULL },
		{ "d/e/l", ".././../a", NULL },
		{ "l", "", "leads nowhere" },
		{ "l", "/a", "leads to an absolute path" },
		{ "l", "..", "leads out" },
		{ "l", "./../a", "leads out" },
		{ "d/l", "../..", "leads out" },
		{ "d/e/l", "../../../a", "leads out" },
		{ "d/l", "a/..", "leads down and up again" },
		{ "d/l", "a/../../..", "leads down and up again" },
		{ "d/l", "../a/../b", "leads down and up again" },
	};
	static char long_target[PATH_MAX + 1];
	const char *why = NULL;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		why = NULL;
		CHECK_EQ_INT(link_check(rows[i].path, rows[i].target, &why),
			     rows[i].why == NULL ? 0 : -EBADMSG);
		CHECK_STR(why, rows[i].why);
	}
	memset(long_target, 'a', PATH_MAX);
	CHECK_EQ_INT(link_check("l", long_target, &why), -EBADMSG);
	CHECK_STR(why, "leads to more than 4095 bytes");
	long_target[PATH_MAX - 1] = '\0';
	CHECK_EQ_INT(link_check("l", long_target, &why), 0);
}

TEST(archive_names_are_shown)
{
	char out[SHOWN_MAX], name[2 * SHOWN_MAX + 1];

	CHECK_STR(shown("a/b c", out), "a/b c");
	CHECK_STR(shown("", out), "");
	CHECK_STR(shown("\xc3\xbc", out), "\xc3\xbc");
	CHECK_STR(shown("a\nb\x1b[1m\xff\xe2\x80\xa8", out), "a?b?[1m??");
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK(strlen(shown(name, out)) < SHOWN_MAX);
	CHECK_STR(out + strlen(out) - 4, "x...");
	for (size_t i = 0; i + 2 < sizeof(name); i += 2)
		memcpy(name + i, "\xc3\xbc", 2);
	CHECK(strlen(shown(name, out)) < SHOWN_MAX);
	CHECK_STR(out + strlen(out) - 5, "\xc3\xbc...");
}

TEST(archive_first_fault_stays)
{
	struct fault f = { 0 };

	CHECK_EQ_INT(fault_set(&f, ENOENT, "'%s'", "a"), -1);
	CHECK_EQ_INT(fault_set(&f, EACCES, "'%s'", "b"), -1);
	CHECK_EQ_INT(f.error, ENOENT);
	CHECK_STR(f.text, "'a'");
}
