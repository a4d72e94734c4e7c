/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/mcp_host_files.c: what can be named below the allowed directories and what cannot, also while somebody moves things about. */
#include "cli/mcp_host_files.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test_help.h"

/* top/in and top/also are allowed, top/out is not. */
struct place {
	char top[64];
	struct host_dirs dirs;
};

static char *path_of(const struct place *p, const char *below)
{
	static char paths[8][512];
	static unsigned int next;
	char *path = paths[next++ % 8];

	(void)snprintf(path, sizeof(paths[0]), "%s/%s", p->top, below);
	return path;
}

static void put(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");

	CHECK(f != NULL);
	CHECK(fputs(text, f) >= 0);
	CHECK_EQ_INT(fclose(f), 0);
}

static void get(const char *path, const char *want)
{
	char text[256];
	FILE *f = fopen(path, "re");
	size_t n;

	CHECK(f != NULL);
	n = fread(text, 1, sizeof(text) - 1, f);
	text[n] = '\0';
	(void)fclose(f);
	CHECK_STR(text, want);
}

static void place_open(struct place *p)
{
	struct err e;

	*p = (struct place){ .top = "/tmp/unit-mcp-XXXXXX" };
	CHECK(mkdtemp(p->top) != NULL);
	CHECK_EQ_INT(mkdir(path_of(p, "in"), 0700), 0);
	CHECK_EQ_INT(mkdir(path_of(p, "also"), 0700), 0);
	CHECK_EQ_INT(mkdir(path_of(p, "out"), 0700), 0);
	CHECK_EQ_INT(mkdir(path_of(p, "inside"), 0700), 0); /* whose name begins with that of one */
	put(path_of(p, "in/a"), "a");
	put(path_of(p, "also/b"), "b");
	put(path_of(p, "out/secret"), "secret");
	put(path_of(p, "inside/c"), "c");
	CHECK_EQ_INT(host_dirs_add(&p->dirs, path_of(p, "in"), &e), 0);
	CHECK_EQ_INT(host_dirs_add(&p->dirs, path_of(p, "also/../also"), &e), 0);
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

static void place_close(struct place *p)
{
	host_dirs_done(&p->dirs);
	CHECK_EQ_INT(nftw(p->top, drop, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static unsigned int entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned int n = 0;

	CHECK(d != NULL);
	while (readdir(d) != NULL)
		n++;
	(void)closedir(d);
	return n - 2;
}

/* --- reading -------------------------------------------------------------------------------------- */

static void reads(struct place *p, const char *path, const char *want)
{
	uint64_t size = 0;
	char text[64];
	struct err e;
	ssize_t n;
	int fd = host_open(&p->dirs, path, &size, &e);

	if (fd < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", path, e.text);
	n = read(fd, text, sizeof(text) - 1);
	CHECK_EQ_INT(n, size);
	text[n] = '\0';
	CHECK_STR(text, want);
	(void)close(fd);
}

static void reads_not(struct place *p, const char *path, const char *why)
{
	uint64_t size;
	struct err e = { 0 };

	CHECK_EQ_INT(host_open(&p->dirs, path, &size, &e), -1);
	if (strstr(e.text, why) == NULL)
		test_fail(__FILE__, __LINE__, "%s: '%s' is not in '%s'", path, why, e.text);
}

#define NOT_ALLOWED "is not within allowed directories for upload"

TEST(host_open_takes_what_lies_below)
{
	struct place p;

	place_open(&p);
	reads(&p, path_of(&p, "in/a"), "a");
	reads(&p, path_of(&p, "also/b"), "b");
	reads(&p, path_of(&p, "in/./..//in/a"), "a");
	reads(&p, path_of(&p, "out/../in/a"), "a");
	CHECK_EQ_INT(chdir(path_of(&p, "in")), 0);
	reads(&p, "a", "a");
	reads(&p, "./a", "a");
	reads(&p, "../also/b", "b");
	CHECK_EQ_INT(chdir("/"), 0);
	place_close(&p);
}

TEST(host_open_refuses_what_does_not)
{
	struct place p;

	place_open(&p);
	reads_not(&p, path_of(&p, "out/secret"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "in/../out/secret"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "in/nothing/../../out/secret"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "inside/c"), NOT_ALLOWED);
	reads_not(&p, "/etc/passwd", NOT_ALLOWED);
	reads_not(&p, "/", NOT_ALLOWED);
	reads_not(&p, "", NOT_ALLOWED);
	reads_not(&p, path_of(&p, "out/nothing"), NOT_ALLOWED); /* and not whether it is there */
	reads_not(&p, path_of(&p, "in/nothing"), "File not found: ");
	reads_not(&p, path_of(&p, "in/no/thing"), "File not found: ");
	reads_not(&p, path_of(&p, "in/a/b"), "File not found: ");
	reads_not(&p, path_of(&p, "in"), "Not a file: ");
	place_close(&p);
}

TEST(host_open_follows_links_that_stay)
{
	struct place p;

	place_open(&p);
	CHECK_EQ_INT(symlink("a", path_of(&p, "in/near")), 0);
	CHECK_EQ_INT(symlink(path_of(&p, "also/b"), path_of(&p, "in/far")), 0);
	CHECK_EQ_INT(symlink("../also", path_of(&p, "in/dir")), 0);
	CHECK_EQ_INT(symlink(path_of(&p, "in"), path_of(&p, "out/back")), 0);
	reads(&p, path_of(&p, "in/near"), "a");
	reads(&p, path_of(&p, "in/far"), "b");
	reads(&p, path_of(&p, "in/dir/b"), "b");
	reads(&p, path_of(&p, "out/back/a"), "a");
	place_close(&p);
}

TEST(host_open_refuses_links_that_lead_out)
{
	struct place p;

	place_open(&p);
	CHECK_EQ_INT(symlink("../out/secret", path_of(&p, "in/file")), 0);
	CHECK_EQ_INT(symlink(path_of(&p, "out"), path_of(&p, "in/dir")), 0);
	CHECK_EQ_INT(symlink("dir/secret", path_of(&p, "in/twice")), 0);
	CHECK_EQ_INT(symlink("/proc/self/fd/0", path_of(&p, "in/magic")), 0);
	CHECK_EQ_INT(symlink("/proc/self/root/etc/passwd", path_of(&p, "in/root")), 0);
	CHECK_EQ_INT(symlink("/proc/self/cwd", path_of(&p, "in/cwd")), 0);
	CHECK_EQ_INT(symlink("loop", path_of(&p, "in/loop")), 0);
	CHECK_EQ_INT(symlink("../out/nothing", path_of(&p, "in/dangling")), 0);
	reads_not(&p, path_of(&p, "in/file"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "in/dir/secret"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "in/twice"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "in/magic"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "in/root"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "in/cwd/etc/passwd"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "in/loop"), NOT_ALLOWED);
	reads_not(&p, path_of(&p, "in/dangling"), NOT_ALLOWED);
	place_close(&p);
}

TEST(host_open_neither_waits_nor_touches_devices)
{
	struct place p;

	place_open(&p);
	CHECK_EQ_INT(mkfifo(path_of(&p, "in/fifo"), 0600), 0);
	reads_not(&p, path_of(&p, "in/fifo"), "Not a file: ");
	if (mknod(path_of(&p, "in/null"), S_IFCHR | 0600, makedev(1, 3)) == 0)
		reads_not(&p, path_of(&p, "in/null"), "Not a file: ");
	place_close(&p);
}

/* One directory is, by turns, what it should be and a link to what is forbidden. */
static pid_t turn_about(struct place *p)
{
	char dir[512], away[512], link[512];
	pid_t pid;

	(void)snprintf(dir, sizeof(dir), "%s/in/d", p->top);
	(void)snprintf(away, sizeof(away), "%s/in/away", p->top);
	(void)snprintf(link, sizeof(link), "%s/in/link", p->top);
	CHECK_EQ_INT(mkdir(dir, 0700), 0);
	CHECK_EQ_INT(symlink("../out", link), 0);
	put(path_of(p, "in/d/secret"), "mine");
	pid = fork();
	CHECK(pid >= 0);
	if (pid > 0)
		return pid;
	for (;;) {
		(void)rename(dir, away);
		(void)rename(link, dir);
		(void)rename(dir, link);
		(void)rename(away, dir);
	}
}

TEST(host_open_loses_races)
{
	unsigned int read_mine = 0;
	struct place p;
	pid_t pid;

	place_open(&p);
	pid = turn_about(&p);
	for (unsigned int i = 0; i < 3000; i++) {
		uint64_t size;
		char text[16];
		struct err e;
		int fd = host_open(&p.dirs, path_of(&p, "in/d/secret"), &size, &e);

		if (fd < 0)
			continue;
		CHECK_EQ_INT(read(fd, text, sizeof(text)), 4);
		CHECK_MEM(text, "mine", 4);
		(void)close(fd);
		read_mine++;
	}
	(void)kill(pid, SIGKILL);
	CHECK_EQ_INT(waitpid(pid, NULL, 0), pid);
	CHECK(read_mine > 0);
	place_close(&p);
}

/* --- writing -------------------------------------------------------------------------------------- */

static void writes(struct place *p, const char *path, const char *text)
{
	struct host_new f;
	struct err e;

	if (host_new_check(&p->dirs, path, &f, &e) < 0 || host_new_begin(&f, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", path, e.text);
	CHECK_EQ_INT(write(f.fd, text, strlen(text)), (int)strlen(text));
	if (host_new_finish(&f, &e) < 0)
		test_fail(__FILE__, __LINE__, "%s: %s", path, e.text);
	host_new_done(&f);
	get(path, text);
}

static void writes_not(struct place *p, const char *path, const char *why)
{
	struct err e = { 0 };
	struct host_new f;

	if (host_new_check(&p->dirs, path, &f, &e) == 0 && host_new_begin(&f, &e) == 0)
		test_fail(__FILE__, __LINE__, "%s: it is written", path);
	host_new_done(&f);
	if (strstr(e.text, why) == NULL)
		test_fail(__FILE__, __LINE__, "%s: '%s' is not in '%s'", path, why, e.text);
}

#define NOT_THERE "is not within allowed directories for download"

TEST(host_new_makes_files_and_directories)
{
	struct place p;

	place_open(&p);
	writes(&p, path_of(&p, "in/new"), "1");
	writes(&p, path_of(&p, "in/new"), "2");
	writes(&p, path_of(&p, "in/x/y/z/new"), "3");
	writes(&p, path_of(&p, "in/x/y/other"), "4");
	writes(&p, path_of(&p, "also/./x//new"), "5");
	CHECK_EQ_INT(symlink("../also", path_of(&p, "in/dir")), 0);
	writes(&p, path_of(&p, "in/dir/q/new"), "6");
	get(path_of(&p, "also/q/new"), "6");
	CHECK_EQ_INT(symlink("a", path_of(&p, "in/near")), 0);
	writes(&p, path_of(&p, "in/near"), "7"); /* what the link leads to */
	get(path_of(&p, "in/a"), "7");
	CHECK_EQ_INT(chdir(path_of(&p, "in")), 0);
	writes(&p, "here", "8");
	writes(&p, "some/where", "9");
	CHECK_EQ_INT(chdir("/"), 0);
	CHECK_EQ_INT(entries(path_of(&p, "in")), 7); /* a new x dir near here some */
	place_close(&p);
}

TEST(host_new_refuses_what_lies_elsewhere)
{
	char deep[600], *d = deep;
	struct place p;

	place_open(&p);
	CHECK_EQ_INT(symlink("../out", path_of(&p, "in/dir")), 0);
	CHECK_EQ_INT(symlink("../out/made", path_of(&p, "in/dangling")), 0);
	CHECK_EQ_INT(symlink("../out/secret", path_of(&p, "in/file")), 0);
	CHECK_EQ_INT(mkfifo(path_of(&p, "in/fifo"), 0600), 0);
	writes_not(&p, path_of(&p, "out/new"), NOT_THERE);
	writes_not(&p, path_of(&p, "in/../out/new"), NOT_THERE);
	writes_not(&p, path_of(&p, "in/no/../../out/new"), NOT_THERE);
	writes_not(&p, path_of(&p, "in/no/.."), NOT_THERE);
	writes_not(&p, path_of(&p, "in/dir/new"), NOT_THERE);
	writes_not(&p, path_of(&p, "in/dir/x/new"), NOT_THERE);
	writes_not(&p, path_of(&p, "in/dangling"), NOT_THERE);
	writes_not(&p, path_of(&p, "in/dangling/new"), NOT_THERE);
	writes_not(&p, path_of(&p, "in/file"), NOT_THERE);
	writes_not(&p, path_of(&p, "inside/new"), NOT_THERE);
	writes_not(&p, "/proc/self/cwd/new", NOT_THERE);
	writes_not(&p, path_of(&p, "in"), "Not a file: ");
	writes_not(&p, path_of(&p, "in/"), "Not a file: ");
	writes_not(&p, path_of(&p, "in/new/"), "Not a file: ");
	writes_not(&p, path_of(&p, "in/fifo"), "Not a file: ");
	writes_not(&p, path_of(&p, "in/a/new"), "File cannot be written: ");
	d += snprintf(d, sizeof(deep), "%s/in/x/y/", p.top);
	(void)memset(d, 'n', 300);
	d[300] = '\0';
	writes_not(&p, deep, "File cannot be written: ");
	CHECK_EQ_INT(entries(path_of(&p, "out")), 1);
	CHECK_EQ_INT(entries(path_of(&p, "in")),
		     5); /* a, three links and the fifo: no x, nothing half done */
	get(path_of(&p, "out/secret"), "secret");
	place_close(&p);
}

TEST(host_new_leaves_nothing_of_what_was_not_finished)
{
	struct host_new f;
	struct place p;
	struct err e;

	place_open(&p);
	CHECK_EQ_INT(host_new_check(&p.dirs, path_of(&p, "in/x/y/new"), &f, &e), 0);
	host_new_done(&f);
	CHECK_EQ_INT(host_new_check(&p.dirs, path_of(&p, "in/x/y/new"), &f, &e), 0);
	CHECK_EQ_INT(host_new_begin(&f, &e), 0);
	CHECK_EQ_INT(write(f.fd, "half", 4), 4);
	CHECK_EQ_INT(access(path_of(&p, "in/x/y/new"), F_OK), -1);
	host_new_done(&f);
	CHECK_EQ_INT(entries(path_of(&p, "in")), 1);
	/* What was there before stays, and so does what somebody else has put there meanwhile. */
	CHECK_EQ_INT(mkdir(path_of(&p, "in/x"), 0700), 0);
	CHECK_EQ_INT(host_new_check(&p.dirs, path_of(&p, "in/x/y/z/new"), &f, &e), 0);
	CHECK_EQ_INT(host_new_begin(&f, &e), 0);
	put(path_of(&p, "in/x/y/other"), "theirs");
	host_new_done(&f);
	CHECK_EQ_INT(entries(path_of(&p, "in/x/y")), 1);
	CHECK_EQ_INT(host_new_check(&p.dirs, path_of(&p, "in/x/q/new"), &f, &e), 0);
	CHECK_EQ_INT(host_new_begin(&f, &e), 0);
	host_new_done(&f);
	CHECK_EQ_INT(entries(path_of(&p, "in/x")), 1);
	/* The old file is as it was. */
	CHECK_EQ_INT(host_new_check(&p.dirs, path_of(&p, "in/a"), &f, &e), 0);
	CHECK_EQ_INT(host_new_begin(&f, &e), 0);
	CHECK_EQ_INT(write(f.fd, "half", 4), 4);
	host_new_done(&f);
	get(path_of(&p, "in/a"), "a");
	place_close(&p);
}

TEST(host_new_gives_no_name_in_a_directory_that_was_moved)
{
	struct host_new f;
	struct place p;
	struct err e;

	place_open(&p);
	CHECK_EQ_INT(mkdir(path_of(&p, "in/d"), 0700), 0);
	CHECK_EQ_INT(host_new_check(&p.dirs, path_of(&p, "in/d/new"), &f, &e), 0);
	CHECK_EQ_INT(host_new_begin(&f, &e), 0);
	CHECK_EQ_INT(rename(path_of(&p, "in/d"), path_of(&p, "out/d")), 0);
	CHECK_EQ_INT(symlink("../out/d", path_of(&p, "in/d")), 0);
	CHECK_EQ_INT(host_new_finish(&f, &e), -1);
	CHECK(strstr(e.text, NOT_THERE) != NULL);
	host_new_done(&f);
	CHECK_EQ_INT(entries(path_of(&p, "out/d")), 0);
	/* Nor over what has taken its place. */
	CHECK_EQ_INT(host_new_check(&p.dirs, path_of(&p, "in/new"), &f, &e), 0);
	CHECK_EQ_INT(host_new_begin(&f, &e), 0);
	CHECK_EQ_INT(mkfifo(path_of(&p, "in/new"), 0600), 0);
	CHECK_EQ_INT(host_new_finish(&f, &e), -1);
	host_new_done(&f);
	CHECK_EQ_INT(entries(path_of(&p, "in")), 3);
	place_close(&p);
}

TEST(host_new_loses_races)
{
	struct place p;
	pid_t pid;

	place_open(&p);
	pid = turn_about(&p);
	for (unsigned int i = 0; i < 2000; i++) {
		char name[32];
		struct host_new f;
		struct err e;

		(void)snprintf(name, sizeof(name), "in/d/sub%u/new", i % 7);
		if (host_new_check(&p.dirs, path_of(&p, name), &f, &e) == 0 &&
		    host_new_begin(&f, &e) == 0)
			(void)host_new_finish(&f, &e);
		host_new_done(&f);
	}
	(void)kill(pid, SIGKILL);
	CHECK_EQ_INT(waitpid(pid, NULL, 0), pid);
	CHECK_EQ_INT(entries(path_of(&p, "out")), 1);
	get(path_of(&p, "out/secret"), "secret");
	place_close(&p);
}

TEST(host_dirs_are_directories_and_not_too_many)
{
	struct place p;
	struct err e;

	place_open(&p);
	CHECK_EQ_INT(host_dirs_add(&p.dirs, path_of(&p, "in/a"), &e), -1);
	CHECK_EQ_INT(host_dirs_add(&p.dirs, path_of(&p, "nothing"), &e), -1);
	while (p.dirs.n < HOST_DIRS_MAX)
		CHECK_EQ_INT(host_dirs_add(&p.dirs, p.top, &e), 0);
	CHECK_EQ_INT(host_dirs_add(&p.dirs, p.top, &e), -1);
	place_close(&p);
}

TEST(host_dirs_may_be_all)
{
	struct host_dirs all = { 0 };
	struct host_new f;
	uint64_t size;
	struct err e;
	int fd;

	CHECK_EQ_INT(host_dirs_add(&all, "/", &e), 0);
	fd = host_open(&all, "/etc/passwd", &size, &e);
	CHECK(fd >= 0);
	(void)close(fd);
	CHECK_EQ_INT(host_open(&all, "/", &size, &e), -1);
	CHECK_EQ_INT(host_new_check(&all, "/tmp/unit-mcp-never-written", &f, &e), 0);
	CHECK_STR(f.path, "tmp/unit-mcp-never-written");
	host_new_done(&f);
	CHECK_EQ_INT(host_new_check(&all, "/", &f, &e), -1);
	host_new_done(&f);
	host_dirs_done(&all);
}
