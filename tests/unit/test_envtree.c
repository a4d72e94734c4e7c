/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/envtree.c: trees of strangers are counted and removed, whatever they are, and nothing beside them. */
#include "cli/envtree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"

#include "test_help.h"

enum { NOBODY = 23456, KIB = 1024 };

/* A directory with a tree in it, and something beside that. */
struct place {
	char top[64];
	int fd, tree;
};

static void put(int dir, const char *name, size_t n)
{
	static const char zeros[64 * KIB];
	own_fd fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK(n <= sizeof(zeros) && write(fd, zeros, n) == (ssize_t)n);
}

static int make_dir(int dir, const char *name)
{
	int fd;

	CHECK_EQ_INT(mkdirat(dir, name, 0755), 0);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static void place_open(struct place *p)
{
	*p = (struct place){ .top = "/tmp/unit-envtree-XXXXXX" };
	CHECK(mkdtemp(p->top) != NULL);
	p->fd = open(p->top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(p->fd >= 0);
	p->tree = make_dir(p->fd, "tree");
	put(p->fd, "beside", 3);
}

/* Nothing but the tree has gone. */
static void place_close(struct place *p)
{
	struct stat st;

	(void)close(p->tree);
	CHECK(fstatat(p->fd, "tree", &st, 0) < 0 && errno == ENOENT);
	CHECK(fstatat(p->fd, "beside", &st, 0) == 0 && st.st_size == 3);
	CHECK_EQ_INT(unlinkat(p->fd, "beside", 0), 0);
	(void)close(p->fd);
	CHECK_EQ_INT(rmdir(p->top), 0);
}

static void measure(const struct place *p, uint64_t most, struct envtree_size *ret)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/tree", p->top);
	envtree_measure(path, most, ret);
}

/* So many directories, one in the other. The innermost one. */
static int dig(int from, unsigned int levels)
{
	int at = fcntl(from, F_DUPFD_CLOEXEC, 0);

	for (unsigned int i = 0; i < levels; i++) {
		int next = make_dir(at, "d");

		(void)close(at);
		at = next;
	}
	return at;
}

static bool hides(const struct place *p)
{
	struct envtree_size size;

	measure(p, UINT64_MAX, &size);
	return size.hidden;
}

/* --- counting ----------------------------------------------------------------------------------------------- */

TEST(envtree_counts_what_is_on_the_disk)
{
	struct envtree_size size;
	struct place p;
	int dir;

	place_open(&p);
	measure(&p, UINT64_MAX, &size);
	CHECK(size.bytes == 0 && size.entries == 0 && !size.hidden);
	dir = make_dir(p.tree, "dir");
	put(p.tree, "a", 40 * KIB);
	put(dir, "b", 24 * KIB);
	CHECK_EQ_INT(symlinkat("/usr", dir, "link"), 0);
	CHECK_EQ_INT(mkfifoat(dir, "fifo", 0600), 0);
	measure(&p, UINT64_MAX, &size);
	CHECK(size.bytes >= 64 * KIB && size.bytes < 128 * KIB);
	CHECK(size.entries == 5 && !size.hidden);
	(void)close(dir);
	envtree_remove(p.fd, "tree");
	place_close(&p);
}

TEST(envtree_counts_a_file_with_several_names_once)
{
	struct envtree_size size;
	struct place p;
	char name[16];

	place_open(&p);
	put(p.tree, "a", 64 * KIB);
	for (int i = 0; i < 15; i++) {
		(void)snprintf(name, sizeof(name), "a%d", i);
		CHECK_EQ_INT(linkat(p.tree, "a", p.tree, name, 0), 0);
	}
	measure(&p, UINT64_MAX, &size);
	CHECK(size.entries == 16 && size.bytes >= 60 * KIB && size.bytes < 128 * KIB);
	envtree_remove(p.fd, "tree");
	place_close(&p);
}

TEST(envtree_counts_no_holes_and_stops_at_the_most)
{
	struct envtree_size size;
	struct place p;
	char name[16];

	place_open(&p);
	put(p.tree, "hole", 1);
	{
		own_fd fd = openat(p.tree, "hole", O_WRONLY | O_CLOEXEC);

		CHECK_EQ_INT(ftruncate(fd, (off_t)1 << 40), 0);
	}
	measure(&p, UINT64_MAX, &size);
	CHECK(size.bytes < 64 * KIB);
	for (int i = 0; i < 64; i++) {
		(void)snprintf(name, sizeof(name), "f%d", i);
		put(p.tree, name, 64 * KIB);
	}
	measure(&p, 256 * KIB, &size);
	CHECK(size.bytes > 256 * KIB && size.entries < 20);
	envtree_remove(p.fd, "tree");
	place_close(&p);
}

TEST(envtree_says_what_it_cannot_see)
{
	struct place p;
	int at;

	place_open(&p);
	at = dig(p.tree, 127);
	CHECK(!hides(&p));
	(void)close(dig(at, 1));
	CHECK(hides(&p));
	(void)close(at);
	envtree_remove(p.fd, "tree");
	place_close(&p);
}

TEST(envtree_says_which_directories_are_closed)
{
	struct place p;

	if (geteuid() != 0)
		SKIP("needs another user");
	place_open(&p);
	CHECK_EQ_INT(chmod(p.top, 0755), 0);
	(void)close(make_dir(p.tree, "closed"));
	CHECK_EQ_INT(fchmodat(p.tree, "closed", 0700, 0), 0);
	CHECK_EQ_INT(seteuid(NOBODY), 0);
	CHECK(hides(&p));
	CHECK_EQ_INT(seteuid(0), 0);
	CHECK(!hides(&p));
	envtree_remove(p.fd, "tree");
	place_close(&p);
}

TEST(envtree_of_what_is_not_there)
{
	struct envtree_size size;

	envtree_measure("/tmp/there/is/no/such/tree", 0, &size);
	CHECK(size.bytes == 0 && size.entries == 0 && !size.hidden);
	envtree_remove(AT_FDCWD, "/tmp/there/is/no/such/tree");
}

/* --- removing ----------------------------------------------------------------------------------------------- */

/* Five thousand levels: more than a path has room for, and than a program may have open. */
TEST(envtree_removes_however_deep_it_is)
{
	struct place p;
	int at;

	place_open(&p);
	at = dig(p.tree, 2500);
	put(at, "half", 1);
	(void)close(dig(at, 2500));
	(void)close(at);
	CHECK(hides(&p));
	envtree_remove(p.fd, "tree");
	place_close(&p);
}

/* Wide where it is deep: some of each level cannot be entered where it is. */
TEST(envtree_removes_deep_ones_side_by_side)
{
	struct place p;
	char name[16];

	place_open(&p);
	for (int i = 0; i < 40; i++) {
		int at, in;

		(void)snprintf(name, sizeof(name), "deep.%d",
			       i); /* as those are called that it moves */
		at = make_dir(p.tree, name);
		in = dig(at, 40);
		put(in, "file", 1);
		(void)close(make_dir(in, name));
		(void)close(in);
		(void)close(at);
	}
	envtree_remove(p.fd, "tree");
	place_close(&p);
}

TEST(envtree_removes_what_is_no_file_and_follows_nothing)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct place p;
	char path[96];
	own_fd s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int dir, out;

	place_open(&p);
	out = make_dir(p.fd, "out");
	put(out, "canary", 1);
	dir = make_dir(p.tree, "dir");
	CHECK_EQ_INT(mkfifoat(dir, "fifo", 0), 0);
	CHECK_EQ_INT(symlinkat("../../out", dir, "out"), 0);
	CHECK_EQ_INT(symlinkat("../out", p.tree, "out"), 0);
	CHECK_EQ_INT(symlinkat("nowhere", p.tree, "nowhere"), 0);
	(void)snprintf(name.sun_path, sizeof(name.sun_path), "%s/tree/socket", p.top);
	CHECK_EQ_INT(bind(s, (const struct sockaddr *)&name, sizeof(name)), 0);
	CHECK_EQ_INT(linkat(out, "canary", dir, "hard", 0), 0);
	(void)close(dir);
	envtree_remove(p.fd, "tree");
	CHECK_EQ_INT(faccessat(out, "canary", F_OK, 0), 0);
	(void)close(out);
	(void)snprintf(path, sizeof(path), "%s/out", p.top);
	CHECK_EQ_INT(symlinkat(path, p.fd, "tree"), 0);
	envtree_remove(p.fd, "tree"); /* a link: not what it leads to */
	CHECK_EQ_INT(unlinkat(p.fd, "tree", 0), 0);
	CHECK_EQ_INT(unlinkat(p.fd, "out/canary", 0), 0);
	CHECK_EQ_INT(unlinkat(p.fd, "out", AT_REMOVEDIR), 0);
	place_close(&p);
}

/* As an ordinary user: directories that their owner may not even look into. */
TEST(envtree_removes_what_is_closed)
{
	struct place p;
	int dir, in;

	if (geteuid() != 0)
		SKIP("needs another user");
	place_open(&p);
	CHECK_EQ_INT(fchown(p.fd, NOBODY, NOBODY), 0);
	CHECK_EQ_INT(fchown(p.tree, NOBODY, NOBODY), 0);
	CHECK_EQ_INT(seteuid(NOBODY), 0);
	dir = make_dir(p.tree, "a");
	in = dig(dir, 60);
	put(in, "f", 1);
	CHECK_EQ_INT(fchmod(in, 0), 0);
	(void)close(in);
	in = make_dir(dir, "read-only");
	put(in, "f", 1);
	CHECK_EQ_INT(fchmod(in, 0500), 0);
	(void)close(in);
	CHECK_EQ_INT(fchmod(dir, 0), 0);
	(void)close(dir);
	CHECK_EQ_INT(fchmod(p.tree, 0), 0);
	envtree_remove(p.fd, "tree");
	CHECK_EQ_INT(seteuid(0), 0);
	place_close(&p);
}
