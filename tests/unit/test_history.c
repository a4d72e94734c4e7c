/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/history.c: cells of earlier sessions. */
#include "cli/history.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "test_help.h"

struct place {
	char dir[64], path[128];
};

static struct place make_place(void)
{
	struct place p;

	(void)snprintf(p.dir, sizeof(p.dir), "/tmp/unit-history-XXXXXX");
	CHECK(mkdtemp(p.dir) != NULL);
	(void)snprintf(p.path, sizeof(p.path), "%s/a/history", p.dir);
	return p;
}

static void remove_place(const struct place *p)
{
	char dir[128];

	(void)unlink(p->path);
	(void)snprintf(dir, sizeof(dir), "%s/a", p->dir);
	(void)rmdir(dir);
	CHECK_EQ_INT(rmdir(p->dir), 0);
}

TEST(history_is_kept_over_sessions)
{
	static const char *const cells[] = { "x = 1", "def f():\n    return '\\n'", "\\", "漢字" };
	struct place p = make_place();
	struct history h;
	struct stat st;

	history_load(&h, p.path);
	CHECK_EQ_INT(h.n, 0);
	for (unsigned int i = 0; i < 4; i++)
		history_add(&h, cells[i]);
	history_add(&h, cells[3]); /* the same again */
	history_add(&h, "\xe6\xbc\xa2\xe5\xad\x97 \n    \n");
	history_add(&h, " \n");
	CHECK_EQ_INT(h.n, 4);
	history_done(&h);
	CHECK_EQ_INT(stat(p.path, &st), 0);
	CHECK_EQ_INT(st.st_mode & 07777, 0600);

	history_load(&h, p.path);
	CHECK_EQ_INT(h.n, 4);
	for (unsigned int i = 0; i < 4; i++)
		CHECK_STR(h.v[i], cells[i]);
	history_done(&h);
	remove_place(&p);
}

TEST(history_of_two_sessions_is_one_file)
{
	struct place p = make_place();
	struct history a, b;

	history_load(&a, p.path);
	history_load(&b, p.path);
	history_add(&a, "a1");
	history_add(&b, "b1");
	history_add(&a, "a2");
	CHECK_EQ_INT(a.n, 2);
	history_done(&a);
	history_done(&b);
	history_load(&a, p.path);
	CHECK_EQ_INT(a.n, 3);
	CHECK_STR(a.v[1], "b1");
	history_done(&a);
	remove_place(&p);
}

TEST(history_is_bounded)
{
	struct place p = make_place();
	struct history h;
	struct stat st;
	char text[1024], huge[HISTORY_ENTRY + 2];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	history_load(&h, p.path);
	for (unsigned int i = 0; i < HISTORY_ENTRIES + 10; i++) {
		(void)snprintf(text, 8, "%07u", i);
		text[7] = ' ';
		history_add(&h, text);
	}
	CHECK_EQ_INT(h.n, HISTORY_ENTRIES);
	CHECK(strncmp(h.v[0], "0000010", 7) == 0);
	memset(huge, 'y', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = '\0';
	history_add(&h, huge);
	CHECK_STR(h.v[h.n - 1], huge); /* for this session only */
	history_done(&h);
	CHECK_EQ_INT(stat(p.path, &st), 0);
	CHECK(st.st_size > HISTORY_LONG);

	history_load(&h, p.path);
	CHECK(h.n > 1000 && h.n <= HISTORY_ENTRIES);
	CHECK(strncmp(h.v[h.n - 1], "0005009", 7) == 0);
	history_done(&h);
	CHECK_EQ_INT(stat(p.path, &st), 0);
	CHECK(st.st_size <= HISTORY_BYTES && st.st_size > HISTORY_BYTES - 2048);
	CHECK_EQ_INT(st.st_mode & 07777, 0600);
	remove_place(&p);
}

/* A file that is long for its many cells keeps as many as a session has of them. */
TEST(history_keeps_as_many_as_it_says)
{
	struct place p = make_place();
	struct history h;
	char text[16], line[1024];
	int fd;

	history_load(&h, p.path);
	history_done(&h);
	fd = open(p.path, O_WRONLY | O_APPEND | O_CLOEXEC);
	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	for (unsigned int i = 0; i < HISTORY_LONG / sizeof(line); i++)
		CHECK_EQ_INT(write(fd, line, sizeof(line)), sizeof(line));
	for (unsigned int i = 0; i < HISTORY_ENTRIES + 10; i++) {
		int n = snprintf(text, sizeof(text), "cell %u\n", i);

		CHECK_EQ_INT(write(fd, text, (size_t)n), n);
	}
	(void)close(fd);
	for (unsigned int i = 0; i < 2; i++) { /* the second reads what the first wrote */
		history_load(&h, p.path);
		CHECK_EQ_INT(h.n, HISTORY_ENTRIES);
		CHECK_STR(h.v[0], "cell 10");
		CHECK_STR(h.v[h.n - 1], "cell 5009");
		history_done(&h);
	}
	remove_place(&p);
}

/* A session that began before another one wrote the file anew adds to the new one. */
TEST(history_of_two_sessions_that_is_cut)
{
	struct place p = make_place();
	struct history a, b;
	char line[4096];
	int fd;

	history_load(&a, p.path);
	fd = open(p.path, O_WRONLY | O_APPEND | O_CLOEXEC);
	memset(line, 'x', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	for (unsigned int i = 0; i <= HISTORY_LONG / sizeof(line); i++)
		CHECK_EQ_INT(write(fd, line, sizeof(line)), sizeof(line));
	(void)close(fd);
	history_load(&b, p.path);
	history_add(&a, "a1");
	history_add(&b, "b1");
	history_done(&a);
	history_done(&b);
	history_load(&a, p.path);
	CHECK_STR(a.v[a.n - 2], "a1");
	CHECK_STR(a.v[a.n - 1], "b1");
	history_done(&a);
	remove_place(&p);
}

/* A file of somebody else's making: links are not followed, and what a terminal would act on is not taken. */
TEST(history_takes_only_a_plain_file)
{
	static const char lines[] = "fine\n\033]0;title\a\nwith\\nend\nhalf";
	struct place p = make_place();
	struct history h;
	char other[160];
	int fd;

	history_load(&h, p.path);
	history_done(&h);
	CHECK_EQ_INT(unlink(p.path), 0);
	(void)snprintf(other, sizeof(other), "%s/other", p.dir);
	CHECK_EQ_INT(symlink(other, p.path), 0);
	history_load(&h, p.path);
	CHECK(h.path == NULL);
	history_add(&h, "kept in memory");
	CHECK_EQ_INT(h.n, 1);
	history_done(&h);
	CHECK(access(other, F_OK) < 0);

	CHECK_EQ_INT(unlink(p.path), 0);
	fd = open(p.path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK_EQ_INT(write(fd, lines, sizeof(lines) - 1), sizeof(lines) - 1);
	(void)close(fd);
	history_load(&h, p.path);
	CHECK_EQ_INT(h.n, 2);
	CHECK_STR(h.v[0], "fine");
	CHECK_STR(h.v[1], "with\nend");
	history_done(&h);
	history_load(&h, NULL);
	CHECK_EQ_INT(h.n, 0);
	remove_place(&p);
}
