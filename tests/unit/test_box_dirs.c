/* SPDX-License-Identifier: Apache-2.0 */
/* src/box/files_dirs.c: which directory a watch descriptor is. */
#include "box/files.h"

#include <stdio.h>
#include <stdlib.h>

#include "test_help.h"

static void dirs_done(struct watched_dirs *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].name);
	free(d->v);
}

static void check_path(const struct watched_dirs *d, int wd, const char *name, const char *want)
{
	char path[PATH_MAX];

	CHECK_EQ_INT(dirs_path(d, wd, name, path), want != NULL);
	if (want != NULL)
		CHECK_STR(path, want);
}

TEST(box_dirs_moves_what_is_below)
{
	struct watched_dirs d = { 0 };

	CHECK_EQ_INT(dirs_put(&d, 1, 0, NULL), 0);
	CHECK_EQ_INT(dirs_put(&d, 2, 1, "a"), 0);
	CHECK_EQ_INT(dirs_put(&d, 3, 2, "b"), 0);
	CHECK_EQ_INT(dirs_put(&d, 4, 1, "c"), 0);
	check_path(&d, 1, "x", "x");
	check_path(&d, 3, "x", "a/b/x");
	CHECK(dirs_child(&d, 2, "b") == dirs_find(&d, 3) && dirs_child(&d, 1, "b") == NULL);
	CHECK_EQ_INT(dirs_put(&d, 2, 4, "z"), 0);
	check_path(&d, 3, "x", "c/z/b/x");
	CHECK(dirs_child(&d, 1, "a") == NULL && dirs_child(&d, 4, "z")->wd == 2);
	dirs_drop(&d, 4, -1);
	CHECK(dirs_find(&d, 4) == NULL && dirs_find(&d, 2) == NULL && dirs_find(&d, 3) == NULL);
	check_path(&d, 3, "x", NULL);
	check_path(&d, 1, "x", "x");
	dirs_done(&d);
}

/* The end of a directory may be heard after the beginning of another of the same name. */
TEST(box_dirs_of_one_name_are_told_apart)
{
	struct watched_dirs d = { 0 };

	CHECK_EQ_INT(dirs_put(&d, 1, 0, NULL), 0);
	CHECK_EQ_INT(dirs_put(&d, 7, 1, "a"), 0);
	CHECK_EQ_INT(dirs_put(&d, 9, 1, "a"), 0);
	CHECK_EQ_INT(dirs_child(&d, 1, "a")->wd, 9);
	dirs_remove(&d, 7);
	dirs_remove(&d, 7);
	CHECK_EQ_INT(dirs_child(&d, 1, "a")->wd, 9);
	CHECK_EQ_INT(dirs_put(&d, 7, 9, "b"), 0); /* in its old place */
	check_path(&d, 7, "x", "a/b/x");
	dirs_done(&d);
}

TEST(box_dirs_that_are_gone_make_room)
{
	struct watched_dirs d = { 0 };
	char name[16];

	CHECK_EQ_INT(dirs_put(&d, 1, 0, NULL), 0);
	for (int wd = 2; wd < 20000; wd++) {
		(void)snprintf(name, sizeof(name), "%d", wd);
		CHECK_EQ_INT(dirs_put(&d, wd, 1, name), 0);
		if (wd % 10 != 0)
			dirs_remove(&d, wd);
	}
	CHECK(d.n < 8000);
	for (int wd = 2; wd < 20000; wd++)
		CHECK((dirs_find(&d, wd) != NULL) == (wd % 10 == 0));
	check_path(&d, 10000, "x", "10000/x");
	dirs_done(&d);
}

/* What cannot be is survived: a circle, and a path that is too long. */
TEST(box_dirs_has_an_end)
{
	struct watched_dirs d = { 0 };
	char long_name[NAME_MAX + 1];

	CHECK_EQ_INT(dirs_put(&d, 1, 0, NULL), 0);
	CHECK_EQ_INT(dirs_put(&d, 2, 3, "a"), 0);
	CHECK_EQ_INT(dirs_put(&d, 3, 2, "b"), 0);
	check_path(&d, 2, "x", NULL);
	dirs_drop(&d, 99, -1);
	CHECK(dirs_find(&d, 2) != NULL);
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[NAME_MAX] = '\0';
	for (int wd = 10; wd < 30; wd++)
		CHECK_EQ_INT(dirs_put(&d, wd, wd == 10 ? 1 : wd - 1, long_name), 0);
	check_path(&d, 29, "x", NULL);
	dirs_done(&d);
}
