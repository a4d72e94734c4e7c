/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/envdir.c: versions, their pages and locks, and links that say which one counts or lie about it. */
#include "cli/envdir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cli/envtree.h"

#include "test_help.h"

struct place {
	char top[64];
	struct envdir dir;
};

static void place_open(struct place *p)
{
	struct err e;
	char path[96];

	*p = (struct place){ .top = "/tmp/unit-envdir-XXXXXX" };
	CHECK(mkdtemp(p->top) != NULL);
	(void)snprintf(path, sizeof(path), "%s/some/where", p->top);
	CHECK_EQ_INT(envdir_open(&p->dir, path, &e), 0);
}

static void place_close(struct place *p)
{
	envdir_close(&p->dir);
	envtree_remove(AT_FDCWD, p->top);
	CHECK(access(p->top, F_OK) < 0);
}

static bool is_there(const struct place *p, const char *name)
{
	struct stat st;

	return fstatat(p->dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void link_to(const struct place *p, const char *to, const char *name)
{
	CHECK_EQ_INT(symlinkat(to, p->dir.fd, name), 0);
}

static void make_dir(const struct place *p, const char *name)
{
	CHECK_EQ_INT(mkdirat(p->dir.fd, name, 0755), 0);
}

static void put(const struct place *p, const char *path, const char *text)
{
	own_fd fd = openat(p->dir.fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

/* A version that is complete, and what its name is. */
static void build(const struct place *p, const char *name, char version[ENVDIR_VERSION])
{
	static struct env_row row;
	struct err e;
	own_fd page = envdir_new(&p->dir, name, version, &e);

	CHECK(page >= 0);
	row = (struct env_row){ .kind = ENV_PACKAGES };
	(void)snprintf(row.name, sizeof(row.name), "%s", name);
	CHECK_EQ_INT(envdir_publish(&p->dir, page, version, &row, &e), 0);
}

/* As a keeper has it, or whoever builds. */
static int hold(const struct place *p, const char *version, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET };
	char path[ENVDIR_VERSION + 16];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/environment", version);
	fd = openat(p->dir.fd, path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ_INT(fcntl(fd, F_OFD_SETLK, &l), 0);
	return fd;
}

/* --- the directory ------------------------------------------------------------------------------------------ */

TEST(envdir_makes_what_is_missing)
{
	struct place p;
	struct stat st;

	(void)umask(077);
	place_open(&p);
	CHECK_EQ_INT(fstat(p.dir.fd, &st), 0);
	CHECK_EQ_INT(st.st_mode & 07777, 0700);
	place_close(&p);
}

TEST(envdir_refuses_what_others_can_write_to)
{
	static const mode_t modes[] = { 0777, 0775, 0757, 01777 };
	struct place p;
	struct err e;

	place_open(&p);
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		struct envdir d;

		CHECK_EQ_INT(chmod(p.dir.path, modes[i]), 0);
		CHECK_EQ_INT(envdir_open(&d, p.dir.path, &e), -1);
		CHECK(strstr(e.text, "can be written to by others") != NULL);
		CHECK(strstr(e.hint, "chmod go-w") != NULL);
		envdir_close(&d);
	}
	CHECK_EQ_INT(chmod(p.dir.path, 0755), 0);
	if (geteuid() == 0) {
		struct envdir d;

		CHECK_EQ_INT(chown(p.dir.path, 1, 1), 0);
		CHECK_EQ_INT(envdir_open(&d, p.dir.path, &e), -1);
		CHECK_EQ_INT(chown(p.dir.path, 0, 0), 0);
	}
	place_close(&p);
}

TEST(envdir_refuses_paths_that_are_none)
{
	static char path[PATH_MAX], file[PATH_MAX + 8];
	struct place p;
	struct envdir d;
	struct err e;

	CHECK_EQ_INT(envdir_open(&d, "relative/path", &e), -1);
	CHECK_EQ_INT(envdir_open(&d, "", &e), -1);
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	CHECK_EQ_INT(envdir_open(&d, path, &e), -1);
	place_open(&p);
	put(&p, "file", "");
	(void)snprintf(file, sizeof(file), "%s/file", p.dir.path);
	CHECK_EQ_INT(envdir_open(&d, file, &e), -1);
	place_close(&p);
}

/* --- names -------------------------------------------------------------------------------------------------- */

TEST(envdir_names_are_links_to_versions)
{
	static const char *const lies[][2] = {
		{ "out", "../../etc" },    { "absolute", "/etc" },     { "other", "mine@1" },
		{ "itself", "itself" },    { "plain", "plain" },       { "below", "below@1/tree" },
		{ "above", "above@1/.." }, { "prefix", "prefixed@1" }, { "python", "python@1" },
		{ "Upper", "Upper@1" },    { ".hidden", ".hidden@1" }
	};
	char version[ENVDIR_VERSION], long_one[ENVDIR_VERSION + 8], **names;
	struct place p;
	struct err e;

	place_open(&p);
	build(&p, "mine", version);
	build(&p, "a", version);
	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		link_to(&p, lies[i][1], lies[i][0]);
		CHECK_EQ_INT(envdir_version(&p.dir, lies[i][0], version), -ENOENT);
		CHECK_EQ_INT(envdir_unlink(&p.dir, lies[i][0], &e), -1);
		CHECK(is_there(&p, lies[i][0]));
	}
	memset(long_one, '1', sizeof(long_one) - 1); /* it would be cut off */
	memcpy(long_one, "long@", 5);
	long_one[sizeof(long_one) - 1] = '\0';
	link_to(&p, long_one, "long");
	CHECK_EQ_INT(envdir_version(&p.dir, "long", version), -ENOENT);
	make_dir(&p, "directory");
	CHECK_EQ_INT(envdir_version(&p.dir, "directory", version), -ENOENT);
	CHECK_EQ_INT(envdir_version(&p.dir, "nothing", version), -ENOENT);
	CHECK_EQ_INT(envdir_version(&p.dir, "../mine", version), -ENOENT);
	names = envdir_names(&p.dir);
	CHECK_STR(names[0], "a");
	CHECK_STR(names[1], "mine");
	CHECK(names[2] == NULL);
	envdir_names_free(names);
	place_close(&p);
}

TEST(envdir_refuses_names_that_are_none)
{
	static const char *const bad[] = { "", "default", "A", "a/b", "..", "a@1", "-a", "a b" };
	char version[ENVDIR_VERSION];
	struct place p;
	struct err e;

	place_open(&p);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		CHECK_EQ_INT(envdir_new(&p.dir, bad[i], version, &e), -1);
		CHECK(e.kind == ERR_USAGE && e.hint[0] != '\0');
	}
	place_close(&p);
}

TEST(envdir_has_room_for_so_many)
{
	char version[ENVDIR_VERSION], name[16], **names;
	struct place p;
	struct err e;
	int n = 0;

	place_open(&p);
	for (int i = 0; i < ENVS_MAX; i++) {
		(void)snprintf(name, sizeof(name), "e%d", i);
		build(&p, name, version);
	}
	CHECK_EQ_INT(envdir_new(&p.dir, "another", version, &e), -1);
	CHECK(strstr(e.text, "there are 32 environments already") != NULL);
	build(&p, "e7", version); /* another version of one of them */
	CHECK_EQ_INT(envdir_unlink(&p.dir, "e3", &e), 0);
	build(&p, "another", version);
	names = envdir_names(&p.dir);
	while (names[n] != NULL)
		n++;
	CHECK_EQ_INT(n, ENVS_MAX);
	envdir_names_free(names);
	place_close(&p);
}

/* --- pages -------------------------------------------------------------------------------------------------- */

TEST(envdir_page_comes_back)
{
	static const char variables[] = "A=1\0LONG=a = b\0EMPTY=";
	static struct env_row row, got;
	char version[ENVDIR_VERSION], want[PATH_MAX + 128];
	struct place p;
	struct err e;
	own_fd page = -1;

	place_open(&p);
	row = (struct env_row){ .name = "x",
				.kind = ENV_ROOT,
				.python = "/usr/local/bin/python3",
				.path = "/usr/local/bin:/bin",
				.imports = "numpy a.b",
				.variables_len = sizeof(variables),
				.version = "3.12.1",
				.cells = true,
				.pool = 4,
				.bytes = 1ULL << 40,
				.made_ms = 1795107546394 };
	memcpy(row.variables, variables, sizeof(variables));
	page = envdir_new(&p.dir, "x", version, &e);
	CHECK(page >= 0);
	CHECK_EQ_INT(envdir_read(&p.dir, version, &got, &e),
		     0); /* an empty one: a draft says more */
	CHECK_EQ_INT(envdir_draft(page, version, &row, &e), 0);
	(void)snprintf(row.imports, sizeof(row.imports),
		       "a"); /* shorter: nothing of the old one stays */
	CHECK_EQ_INT(envdir_publish(&p.dir, page, version, &row, &e), 0);
	CHECK_EQ_INT(envdir_read(&p.dir, version, &got, &e), 0);
	CHECK(strcmp(got.name, row.name) == 0 && got.kind == row.kind && got.cells == row.cells);
	CHECK_STR(got.python, row.python);
	CHECK_STR(got.path, row.path);
	CHECK_STR(got.imports, "a");
	CHECK_STR(got.version, row.version);
	CHECK_EQ_INT(got.variables_len, sizeof(variables));
	CHECK_MEM(got.variables, variables, sizeof(variables));
	CHECK(got.pool == row.pool && got.bytes == row.bytes && got.made_ms == row.made_ms);
	(void)snprintf(want, sizeof(want), "%s/%s/tree", p.dir.path, version);
	CHECK_STR(got.tree, want);
	place_close(&p);
}

TEST(envdir_page_of_another_version_of_ours)
{
	static struct env_row row;
	struct place p;
	struct err e;

	place_open(&p);
	make_dir(&p, "x@1");
	put(&p, "x@1/environment",
	    "# a remark\n\nkind = root\nwhat comes later = yes\ncells = no\n");
	CHECK_EQ_INT(envdir_read(&p.dir, "x@1", &row, &e), 0);
	CHECK(row.kind == ENV_ROOT && !row.cells && row.python[0] == '\0');
	place_close(&p);
}

TEST(envdir_page_that_is_none)
{
	static const char *const bad[] = {
		"kind = other",      "kind =root",       "kind",
		"python = relative", "python = /a/../b", "pool = many",
		"pool = -1",         "bytes = 1e9",      "made_ms = 99999999999999999999",
		"variable = NAME",   "variable = =value"
	};
	static struct env_row row;
	static char text[8192];
	struct place p;
	struct err e;

	place_open(&p);
	make_dir(&p, "x@1");
	CHECK_EQ_INT(envdir_read(&p.dir, "x@1", &row, &e), -1);
	CHECK_EQ_INT(envdir_read(&p.dir, "x", &row, &e), -1);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(text, sizeof(text), "cells = yes\n%s\n", bad[i]);
		put(&p, "x@1/environment", text);
		CHECK_EQ_INT(envdir_read(&p.dir, "x@1", &row, &e), -1);
		CHECK(strstr(e.text, "x@1/environment' cannot be read") != NULL);
	}
	for (int i = 0; i < 3; i++) {
		static const char *const keys[] = { "path", "imports", "variable" };
		int n = snprintf(text, sizeof(text), "%s = A=", keys[i]);

		memset(text + n, 'x', 5000);
		text[n + 5000] = '\0';
		put(&p, "x@1/environment", text);
		CHECK_EQ_INT(envdir_read(&p.dir, "x@1", &row, &e), -1);
	}
	CHECK_EQ_INT(unlinkat(p.dir.fd, "x@1/environment", 0), 0);
	link_to(&p, "/etc/passwd", "x@1/environment");
	CHECK_EQ_INT(envdir_read(&p.dir, "x@1", &row, &e), -1);
	place_close(&p);
}

/* --- versions ----------------------------------------------------------------------------------------------- */

/* Boxes read it as somebody else. */
TEST(envdir_version_is_open_to_all)
{
	static const char *const parts[] = { "", "/tree", "/environment" };
	static const mode_t modes[] = { 0755, 0755, 0644 };
	char version[ENVDIR_VERSION], path[ENVDIR_VERSION + 16];
	struct place p;
	struct stat st;

	(void)umask(077);
	place_open(&p);
	build(&p, "x", version);
	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", version, parts[i]);
		CHECK_EQ_INT(fstatat(p.dir.fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
		CHECK_EQ_INT(st.st_mode & 07777, modes[i]);
	}
	place_close(&p);
}

TEST(envdir_name_means_the_last_that_was_complete)
{
	char first[ENVDIR_VERSION], second[ENVDIR_VERSION], third[ENVDIR_VERSION],
		got[ENVDIR_VERSION];
	struct place p;
	struct err e;
	own_fd page = -1;

	place_open(&p);
	build(&p, "x", first);
	page = envdir_new(&p.dir, "x", second, &e); /* under way, and will never be */
	CHECK(page >= 0 && strcmp(first, second) != 0);
	CHECK_EQ_INT(envdir_version(&p.dir, "x", got), 0);
	CHECK_STR(got, first);
	build(&p, "x", third);
	CHECK_EQ_INT(envdir_version(&p.dir, "x", got), 0);
	CHECK_STR(got, third);
	CHECK_EQ_INT(envdir_sweep(&p.dir), 1);
	CHECK(!is_there(&p, first) && is_there(&p, second) && is_there(&p, third));
	fd_close(&page);
	CHECK_EQ_INT(envdir_sweep(&p.dir), 0);
	CHECK(!is_there(&p, second) && is_there(&p, third));
	CHECK_EQ_INT(envdir_unlink(&p.dir, "x", &e), 0);
	CHECK_EQ_INT(envdir_unlink(&p.dir, "x", &e), -1);
	CHECK_EQ_INT(envdir_sweep(&p.dir), 0);
	CHECK(!is_there(&p, third) && !is_there(&p, "x"));
	place_close(&p);
}

/* From the moment at which it has a page, keepers can hold it; until then only its builder. */
TEST(envdir_locks)
{
	static struct env_row row = { .name = "x" };
	char version[ENVDIR_VERSION];
	struct flock l = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	struct place p;
	struct err e;
	own_fd page = -1, other = -1;
	int keeper;

	place_open(&p);
	page = envdir_new(&p.dir, "x", version, &e);
	CHECK(page >= 0);
	CHECK_EQ_INT(envdir_sweep(&p.dir), 1);
	{
		char path[ENVDIR_VERSION + 16];

		(void)snprintf(path, sizeof(path), "%s/environment", version);
		other = openat(p.dir.fd, path, O_RDONLY | O_CLOEXEC);
	}
	CHECK(fcntl(other, F_OFD_SETLK, &l) < 0 && errno == EAGAIN);
	CHECK_EQ_INT(envdir_draft(page, version, &row, &e), 0);
	CHECK_EQ_INT(fcntl(other, F_OFD_SETLK, &l), 0);
	CHECK_EQ_INT(envdir_sweep(&p.dir), 1);
	keeper = hold(&p, version, F_RDLCK);
	fd_close(&page); /* it has failed */
	fd_close(&other);
	CHECK_EQ_INT(envdir_sweep(&p.dir), 1);
	CHECK(is_there(&p, version));
	(void)close(keeper);
	CHECK_EQ_INT(envdir_sweep(&p.dir), 0);
	CHECK(!is_there(&p, version));
	place_close(&p);
}

TEST(envdir_sweeps_nothing_else)
{
	static const char *const stay[] = { "README",  "@1",    ".x@1",      "python@1",
					    "Upper@1", "plain", "lost+found" };
	char version[ENVDIR_VERSION];
	struct place p;

	place_open(&p);
	build(&p, "mine", version);
	make_dir(&p, "outside");
	put(&p, "outside/canary", "");
	link_to(&p, "outside", "link@1");
	put(&p, "file@1", "");
	for (size_t i = 0; i < ARRAY_LEN(stay); i++)
		make_dir(&p, stay[i]);
	CHECK_EQ_INT(envdir_sweep(&p.dir), 0);
	for (size_t i = 0; i < ARRAY_LEN(stay); i++)
		CHECK(is_there(&p, stay[i]));
	CHECK(is_there(&p, version) && is_there(&p, "mine"));
	CHECK(is_there(&p, "outside/canary") && is_there(&p, "link@1") && is_there(&p, "file@1"));
	place_close(&p);
}

/* Whoever was killed while he made or removed one left a part of it. */
TEST(envdir_sweeps_what_was_not_finished)
{
	struct place p;

	place_open(&p);
	make_dir(&p, "empty@1");
	make_dir(&p, "part@1");
	make_dir(&p, "part@1/tree");
	put(&p, "part@1/tree/file", "");
	make_dir(&p, "whole@1");
	put(&p, "whole@1/environment", "");
	make_dir(&p, "whole@1/tree");
	make_dir(&p, "whole@1/image");
	put(&p, "whole@1/image/image.tar", "");
	CHECK_EQ_INT(envdir_sweep(&p.dir), 0);
	CHECK(!is_there(&p, "empty@1") && !is_there(&p, "part@1") && !is_there(&p, "whole@1"));
	place_close(&p);
}

TEST(envdir_sweeps_however_deep_it_is)
{
	char version[ENVDIR_VERSION], path[ENVDIR_VERSION + 8];
	struct place p;
	struct err e;
	int at;

	place_open(&p);
	CHECK_EQ_INT(close(envdir_new(&p.dir, "x", version, &e)), 0);
	(void)snprintf(path, sizeof(path), "%s/tree", version);
	at = openat(p.dir.fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 5000; i++) {
		int next;

		CHECK_EQ_INT(mkdirat(at, "d", 0755), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(at);
		at = next;
	}
	(void)close(at);
	CHECK_EQ_INT(envdir_sweep(&p.dir), 0);
	CHECK(!is_there(&p, version));
	place_close(&p);
}
