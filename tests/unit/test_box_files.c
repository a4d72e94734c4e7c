/* SPDX-License-Identifier: Apache-2.0 */
/* src/box/files_paths.c, files_beneath.c, files_copy.c, files_walk.c: what operations on files are made of. In a box: tests/api/test_init_files.py. */
#include "box/files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/io.h"
#include "base/own.h"

#include "test_help.h"

static char top[] = "/tmp/test-files-XXXXXX";

/* Each test is a process of its own: that of its directory is nobody else's. */
static void go_there(void)
{
	CHECK(mkdtemp(top) != NULL);
	CHECK_EQ_INT(chdir(top), 0);
}

static void leave(void)
{
	CHECK_EQ_INT(chdir("/"), 0);
	CHECK_EQ_INT(rmdir(top), 0);
}

TEST(box_files_last_name)
{
	static const struct {
		const char *path, *name;
	} cases[] = {
		{ "", "." },      { "/", "." },       { "//", "." },  { ".", "." },
		{ "..", "." },    { "a", "a" },       { "a/", "a" },  { "a//", "a" },
		{ "/a", "a" },    { "a/b", "b" },     { "a/.", "." }, { "a/..", "." },
		{ "...", "..." }, { "a/..b", "..b" }, { ".a", ".a" },
	};
	char name[NAME_MAX + 1], large[NAME_MAX + 2];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		last_name(cases[i].path, name);
		CHECK_STR(name, cases[i].name);
	}
	memset(large, 'n', sizeof(large));
	large[NAME_MAX] = '\0';
	last_name(large, name);
	CHECK_STR(name, large);
	large[NAME_MAX] = 'n';
	large[NAME_MAX + 1] = '\0';
	last_name(large, name);
	CHECK_STR(name, ".");
}

TEST(box_files_words)
{
	mode_t mode = 1;
	bool b;

	CHECK(mode_of("", 0640, &mode) == 0 && mode == 0640);
	CHECK(mode_of("0", 0640, &mode) == 0 && mode == 0);
	CHECK(mode_of("0000755", 0, &mode) == 0 && mode == 0755);
	CHECK(mode_of("777", 0, &mode) == 0 && mode == 0777);
	CHECK(mode_of("1000", 0, &mode) == EINVAL && mode_of("8", 0, &mode) == EINVAL);
	CHECK(mode_of("77777777777777777777777777", 0, &mode) == EINVAL);
	CHECK(bool_of("0", &b) == 0 && !b && bool_of("1", &b) == 0 && b);
	CHECK(bool_of("", &b) == EINVAL && bool_of("10", &b) == EINVAL &&
	      bool_of("2", &b) == EINVAL);
	CHECK(name_is_hidden(".glovebox-put-1") && name_is_hidden(".glovebox-unpack-1"));
	CHECK(!name_is_hidden(".glovebox-pu") && !name_is_hidden("x.glovebox-put-1"));
}

TEST(box_files_place)
{
	struct place p;

	go_there();
	CHECK_EQ_INT(place_open(&p, "a/b", false), ENOENT);
	CHECK_EQ_INT(place_open(&p, "a//b/", true), 0);
	CHECK_STR(p.name, "b");
	CHECK(!place_is_top(&p));
	fd_close(&p.dir);
	CHECK_EQ_INT(place_open(&p, "a/", false), 0); /* was made */
	CHECK_STR(p.name, "a");
	fd_close(&p.dir);
	for (int i = 0; i < 6; i++) {
		static const char *const tops[] = { "", ".", "/", "..", "a/.", "a/.." };

		CHECK_EQ_INT(place_open(&p, tops[i], false), 0);
		CHECK(place_is_top(&p));
		fd_close(&p.dir);
	}
	CHECK_EQ_INT(rmdir("a"), 0);
	leave();
}

static void check_file(const char *path, const char *want)
{
	char got[64];

	CHECK(io_read_text(AT_FDCWD, path, got, sizeof(got)) >= 0);
	CHECK_STR(got, want);
}

static unsigned int count_names(void)
{
	own_fd fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct walk w = { 0 };
	unsigned char type;
	unsigned int n = 0;

	CHECK_EQ_INT(walk_start(&w, fd_take(&fd)), 0);
	while (walk_next(&w, &type) != NULL)
		n++;
	walk_end(&w);
	return n;
}

/* The same whether the file system has files without a name or not. */
static void try_new_file(int (*open_it)(struct new_file *, const struct place *, mode_t))
{
	struct place p;
	struct new_file n;
	bool is_new;

	go_there();
	CHECK_EQ_INT(place_open(&p, "f", false), 0);
	CHECK_EQ_INT(open_it(&n, &p, 0640), 0);
	CHECK_EQ_INT(io_write_all(n.fd, "one", 3), 0);
	CHECK_EQ_INT(access("f", F_OK), -1);
	CHECK_EQ_INT(new_file_publish(&n, false, &is_new), 0);
	new_file_close(&n);
	CHECK(is_new);
	check_file("f", "one");
	CHECK_EQ_INT(count_names(), 1);

	CHECK_EQ_INT(open_it(&n, &p, 0640), 0);
	CHECK_EQ_INT(io_write_all(n.fd, "two", 3), 0);
	CHECK_EQ_INT(new_file_publish(&n, false, &is_new), EEXIST);
	CHECK_EQ_INT(new_file_publish(&n, true, &is_new), 0);
	new_file_close(&n);
	CHECK(!is_new);
	check_file("f", "two");
	CHECK_EQ_INT(count_names(), 1);

	CHECK_EQ_INT(open_it(&n, &p, 0640), 0); /* never published */
	new_file_close(&n);
	CHECK_EQ_INT(count_names(), 1);
	CHECK_EQ_INT(unlink("f"), 0);
	CHECK_EQ_INT(mkdir("f", 0755), 0);
	CHECK_EQ_INT(open_it(&n, &p, 0640), 0);
	CHECK_EQ_INT(new_file_publish(&n, true, &is_new), EISDIR);
	new_file_close(&n);
	CHECK_EQ_INT(count_names(), 1);
	CHECK_EQ_INT(rmdir("f"), 0);
	fd_close(&p.dir);
	leave();
}

TEST(box_files_new_file)
{
	try_new_file(new_file_open);
}

TEST(box_files_new_file_where_there_are_none_without_a_name)
{
	try_new_file(new_file_open_named);
}

TEST(box_files_new_file_with_a_name_goes_on_sigterm)
{
	struct place p;
	int status, ready[2];
	pid_t pid;

	go_there();
	CHECK_EQ_INT(place_open(&p, "f", false), 0);
	CHECK_EQ_INT(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct new_file n;

		(void)alarm(60);
		if (new_file_open_named(&n, &p, 0600) == 0)
			(void)!write(ready[1], "x", 1);
		for (;;)
			(void)pause();
	}
	CHECK_EQ_INT(read(ready[0], &(char){ 0 }, 1), 1);
	CHECK_EQ_INT(count_names(), 1);
	CHECK_EQ_INT(kill(pid, SIGTERM), 0);
	CHECK_EQ_INT(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM);
	CHECK_EQ_INT(count_names(), 0);
	(void)close(ready[0]);
	(void)close(ready[1]);
	fd_close(&p.dir);
	leave();
}

/* --- walking ------------------------------------------------------------------------------------------------------ */

static unsigned int open_descriptors(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

enum { DEPTH = 50 };

static void make_chain(void)
{
	for (int i = 0; i < DEPTH; i++)
		CHECK(mkdir("d", 0755) == 0 && chdir("d") == 0);
	CHECK_EQ_INT(chdir(top), 0);
}

static void walk_to_the_end(struct walk *w)
{
	unsigned char type;
	const char *name;

	CHECK_EQ_INT(walk_start(w, open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), 0);
	while ((name = walk_next(w, &type)) != NULL) {
		CHECK_STR(name, "d");
		CHECK_EQ_INT(type, DT_DIR);
		CHECK_EQ_INT(walk_down(w, name), 0);
	}
	CHECK_EQ_INT(w->n, DEPTH + 1);
}

TEST(box_files_walk_needs_few_descriptors)
{
	unsigned int before = open_descriptors();
	struct walk w = { 0 };

	go_there();
	make_chain();
	walk_to_the_end(&w);
	CHECK(open_descriptors() <= before + 10);
	for (size_t n = DEPTH; n > 0; n--) {
		CHECK_EQ_INT(walk_up(&w), 0);
		CHECK_EQ_INT(w.n, n);
		CHECK_EQ_INT(unlinkat(walk_here(&w)->fd, "d", AT_REMOVEDIR), 0);
	}
	CHECK_EQ_INT(walk_up(&w), 0);
	CHECK_EQ_INT(w.n, 0);
	walk_end(&w);
	CHECK_EQ_INT(open_descriptors(), before);
	leave();
}

/* Somebody takes the lower half away, and there is no way back from there. */
TEST(box_files_walk_does_not_go_astray)
{
	unsigned int before = open_descriptors();
	char half[DEPTH];
	struct walk w = { 0 };
	int r = 0;

	go_there();
	make_chain();
	walk_to_the_end(&w);
	for (int i = 0; i < DEPTH; i++)
		half[i] = i % 2 == 0 ? 'd' : '/';
	half[DEPTH - 1] = '\0';
	CHECK_EQ_INT(rename(half, "elsewhere"), 0);
	while (r == 0 && w.n > 0)
		r = walk_up(&w);
	CHECK_EQ_INT(r, ESTALE);
	CHECK(w.n > 0 && w.n < DEPTH / 2);
	CHECK(walk_here(&w)->fd >= 0);
	walk_end(&w);
	CHECK_EQ_INT(open_descriptors(), before);
	for (int i = 0; i < 2; i++) {
		const char *const words[] = { "1", NULL };
		struct file_job f = { .path = i == 0 ? "d" : "elsewhere", .words = words };

		CHECK_EQ_INT(file_delete(&f), 0);
	}
	leave();
}

TEST(box_files_walk_in_order)
{
	static const char *const names[] = { "b", "a", "B", "a-", "\xff", "a.b" };
	static const char *const sorted[] = { "B", "a", "a-", "a.b", "b", "\xff" };
	struct walk w = { .sorted = true };
	unsigned char type;

	go_there();
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		CHECK_EQ_INT(mknod(names[i], S_IFREG | 0600, 0), 0);
	CHECK_EQ_INT(walk_start(&w, open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), 0);
	for (size_t i = 0; i < ARRAY_LEN(sorted); i++) {
		const char *name = walk_next(&w, &type);

		CHECK(name != NULL);
		CHECK_STR(name, sorted[i]);
		CHECK_EQ_INT(unlink(name), 0);
	}
	CHECK(walk_next(&w, &type) == NULL);
	walk_end(&w);
	leave();
}

/* --- below the working directory ---------------------------------------------------------------------------------- */

/* Where the working directory is, below the top. */
static const char *here(char buf[PATH_MAX])
{
	CHECK(getcwd(buf, PATH_MAX) != NULL);
	CHECK(strncmp(buf, top, strlen(top)) == 0);
	return buf[strlen(top)] == '/' ? buf + strlen(top) + 1 : "";
}

static const struct {
	const char *name, *target;
} links[] = {
	{ "in", "d/f" },
	{ "dir", "d" },
	{ "d/back", "../in" },
	{ "twice", "dir/e/../f" },
	{ "out", "/etc" },
	{ "abs", "/tmp" },
	{ "up", ".." },
	{ "over", "d/../../x" },
	{ "d/e/up2", "../../.." },
	{ "loop", "loop" },
	{ "one", "two" },
	{ "two", "one" },
	{ "none", "d/none" },
	{ "astray", "none-such/../../x" },
	{ "top", "d/.." },
};

static void make_links(void)
{
	CHECK(mkdir("d", 0755) == 0 && mkdir("d/e", 0755) == 0);
	CHECK(close(open("d/f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644)) == 0);
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		CHECK_EQ_INT(symlink(links[i].target, links[i].name), 0);
}

static void remove_links(void)
{
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		CHECK_EQ_INT(unlink(links[i].name), 0);
	CHECK(unlink("d/f") == 0 && rmdir("d/e") == 0 && rmdir("d") == 0);
}

TEST(box_files_beneath)
{
	static const struct {
		const char *path;
		enum beneath_last last;
		int error;
		const char *in, *out;
	} cases[] = {
		{ "d/f", BENEATH_FILE, 0, "d", "f" },
		{ "d/f", BENEATH_NAME, 0, "d", "f" },
		{ "d", BENEATH_DIRECTORY, 0, "d", "." },
		{ "", BENEATH_DIRECTORY, 0, "", "." },
		{ "", BENEATH_FILE, 0, "", "." },
		{ "d//e/", BENEATH_DIRECTORY, 0, "d/e", "." },
		{ "d/f", BENEATH_DIRECTORY, ENOTDIR, NULL, NULL },
		{ "d/f/x", BENEATH_FILE, ENOTDIR, NULL, NULL },
		{ "d/none", BENEATH_FILE, ENOENT, NULL, NULL },
		{ "none-such/x", BENEATH_FILE, ENOENT, NULL, NULL },
		{ "d/none", BENEATH_NAME, 0, "d", "none" },
		{ "d/none/x/y", BENEATH_NAME, 0, "d", "none/x/y" },
		/* links that stay */
		{ "in", BENEATH_FILE, 0, "d", "f" },
		{ "in", BENEATH_NAME, 0, "", "in" },
		{ "dir/f", BENEATH_FILE, 0, "d", "f" },
		{ "dir/new", BENEATH_NAME, 0, "d", "new" },
		{ "d/back", BENEATH_FILE, 0, "d", "f" },
		{ "twice", BENEATH_FILE, 0, "d", "f" },
		{ "top", BENEATH_DIRECTORY, 0, "", "." },
		{ "top/d/f", BENEATH_FILE, 0, "d", "f" },
		{ "none", BENEATH_FILE, ENOENT, NULL, NULL },
		{ "none", BENEATH_NAME, 0, "", "none" },
		/* links that do not, and who wants to change what they lead to */
		{ "out", BENEATH_FILE, EXDEV, NULL, NULL },
		{ "out", BENEATH_DIRECTORY, EXDEV, NULL, NULL },
		{ "out", BENEATH_NAME, 0, "", "out" },
		{ "out/passwd", BENEATH_FILE, EXDEV, NULL, NULL },
		{ "out/x", BENEATH_NAME, EXDEV, NULL, NULL },
		{ "abs/x", BENEATH_NAME, EXDEV, NULL, NULL },
		{ "up", BENEATH_DIRECTORY, EXDEV, NULL, NULL },
		{ "up/x", BENEATH_NAME, EXDEV, NULL, NULL },
		{ "over", BENEATH_FILE, EXDEV, NULL, NULL },
		{ "d/e/up2/x", BENEATH_NAME, EXDEV, NULL, NULL },
		{ "dir/e/up2", BENEATH_DIRECTORY, EXDEV, NULL, NULL },
		{ "loop", BENEATH_FILE, ELOOP, NULL, NULL },
		{ "loop/x", BENEATH_NAME, ELOOP, NULL, NULL },
		{ "one/x", BENEATH_FILE, ELOOP, NULL, NULL },
		{ "astray/y", BENEATH_NAME, EXDEV, NULL, NULL },
		{ "/etc", BENEATH_DIRECTORY, EXDEV, NULL, NULL },
		{ "../x", BENEATH_NAME, EXDEV, NULL, NULL },
		{ "d/../../x", BENEATH_NAME, EXDEV, NULL, NULL },
	};
	char out[PATH_MAX], cwd[PATH_MAX];

	go_there();
	make_links();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int r = beneath_enter(cases[i].path, cases[i].last, out);

		if (r != cases[i].error)
			test_fail(__FILE__, __LINE__, "'%s': %d", cases[i].path, r);
		test_count();
		if (r == 0) {
			CHECK_STR(out, cases[i].out);
			CHECK_STR(here(cwd), cases[i].in);
		}
		CHECK_EQ_INT(chdir(top), 0);
	}
	remove_links();
	leave();
}

TEST(box_files_beneath_long)
{
	char path[PATH_MAX], out[PATH_MAX], part[101];

	go_there();
	memset(path, 'x', 300);
	path[300] = '\0';
	CHECK_EQ_INT(beneath_enter(path, BENEATH_NAME, out), ENAMETOOLONG);
	/* What is behind a link counts, too. */
	memset(part, 'y', 100);
	part[100] = '\0';
	path[0] = '\0';
	for (int i = 0; i < 40; i++)
		(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s%s",
			       i > 0 ? "/" : "", part);
	CHECK_EQ_INT(symlink(path, "l"), 0);
	CHECK_EQ_INT(beneath_enter("l/f", BENEATH_FILE, out), ENOENT);
	(void)memcpy(path, "l/", 2);
	memset(path + 2, 'z', 200);
	path[202] = '\0';
	CHECK_EQ_INT(beneath_enter(path, BENEATH_FILE, out), ENAMETOOLONG);
	CHECK_EQ_INT(unlink("l"), 0);
	leave();
}
