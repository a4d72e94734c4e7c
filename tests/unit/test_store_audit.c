/* SPDX-License-Identifier: Apache-2.0 */
/* src/store/audit.c: by way of a store that runs. */
#include "store/audit.h"

#include "test_store_help.h"

static uint64_t ask_audit(struct rig *b, const char *line)
{
	uint8_t body[STORE_LINE_MAX + 8];

	return ask(b, STORE_OP_AUDIT, body,
		   store_audit_encode(line, strlen(line), body, sizeof(body)), -1);
}

static void audit_line(struct rig *b, const char *line)
{
	answer_empty(b, ask_audit(b, line));
}

/* A directory for a store that writes its audit file there, too. */
static void audit_make(struct rig *b)
{
	rig_make(b);
	b->audit_fd = b->dir_fd;
	rig_arg(b, "audit_name=audit");
}

TEST(store_writes_audit_lines_in_order)
{
	char want[4096], line[64];
	size_t n = 0;
	uint64_t first;
	struct stat st;
	struct rig b;

	audit_make(&b);
	rig_start(&b);
	audit_line(&b, "{\"n\":-1}");
	first = b.request + 1;
	n += (size_t)snprintf(want + n, sizeof(want) - n, "{\"n\":-1}\n");
	for (unsigned int i = 0; i < 200; i++) {
		(void)snprintf(line, sizeof(line), "{\"n\":%u}", i);
		n += (size_t)snprintf(want + n, sizeof(want) - n, "%s\n", line);
		(void)ask_audit(&b, line);
	}
	for (unsigned int i = 0; i < 200; i++)
		answer_empty(&b, first + i);
	check_file(&b, "audit", want);
	CHECK(fstatat(b.dir_fd, "audit", &st, 0) == 0 && (st.st_mode & 07777) == 0640);
	CHECK_EQ_INT(figures(&b).audit_lines, 201);
	CHECK_EQ_INT(figures(&b).audit_failures, 0);
	rig_stop(&b);
	rig_start(&b);
	audit_line(&b, "more");
	(void)snprintf(want + n, sizeof(want) - n, "more\n");
	check_file(&b, "audit", want);
	rig_down(&b);
}

TEST(store_without_an_audit_directory_says_so)
{
	struct rig b;

	rig_up(&b);
	answer_failed(&b, ask_audit(&b, "line"), STORE_BROKEN);
	CHECK_EQ_INT(figures(&b).audit_failures, 1);
	rig_down(&b);
}

TEST(store_rotates_the_audit_file)
{
	uint64_t first;
	struct rig b;

	audit_make(&b);
	rig_arg(&b, "audit_max_bytes=20");
	rig_arg(&b, "audit_keep=2");
	rig_start(&b);
	audit_line(&b, "aaaaaaaaa");
	audit_line(&b, "bbbbbbbbb"); /* 20 bytes: full to the brim */
	check_file(&b, "audit", "aaaaaaaaa\nbbbbbbbbb\n");
	CHECK(!exists(&b, "audit.1"));
	audit_line(&b, "c");
	check_file(&b, "audit", "c\n");
	check_file(&b, "audit.1", "aaaaaaaaa\nbbbbbbbbb\n");
	audit_line(&b, "a line that is longer than a whole file may be");
	check_file(&b, "audit", "a line that is longer than a whole file may be\n");
	check_file(&b, "audit.1", "c\n");
	check_file(&b, "audit.2", "aaaaaaaaa\nbbbbbbbbb\n");
	audit_line(&b, "d");
	check_file(&b, "audit", "d\n");
	check_file(&b, "audit.2", "c\n");
	CHECK(!exists(&b, "audit.3"));

	/* Between the lines of one turn, too. */
	first = b.request + 1;
	for (unsigned int i = 0; i < 8; i++)
		(void)ask_audit(&b, "eeeeeeeee");
	for (unsigned int i = 0; i < 8; i++)
		answer_empty(&b, first + i);
	check_file(&b, "audit", "eeeeeeeee\n");
	check_file(&b, "audit.1", "eeeeeeeee\neeeeeeeee\n");
	check_file(&b, "audit.2", "eeeeeeeee\neeeeeeeee\n");
	CHECK(!exists(&b, "audit.3"));
	rig_stop(&b);

	/* What cannot be moved out of the way costs no line. */
	CHECK(unlinkat(b.dir_fd, "audit.1", 0) == 0 && mkdirat(b.dir_fd, "audit.1", 0700) == 0);
	CHECK(unlinkat(b.dir_fd, "audit.2", 0) == 0);
	plant_file(&b, "audit.2", "x\n");
	rig_start(&b);
	audit_line(&b, "eeeeeeeee");
	audit_line(&b, "f");
	check_file(&b, "audit", "eeeeeeeee\neeeeeeeee\nf\n");
	rig_down(&b);
}

TEST(store_rotates_without_keeping)
{
	struct rig b;

	audit_make(&b);
	rig_arg(&b, "audit_max_bytes=10");
	rig_arg(&b, "audit_keep=0");
	rig_start(&b);
	audit_line(&b, "aaaaaaaaa");
	audit_line(&b, "b");
	check_file(&b, "audit", "b\n");
	CHECK(!exists(&b, "audit.0") && !exists(&b, "audit.1"));
	rig_down(&b);
}

TEST(store_makes_a_new_audit_file_when_it_was_moved_away)
{
	struct rig b;

	for (int removed = 0; removed <= 1; removed++) {
		audit_make(&b);
		rig_start(&b);
		audit_line(&b, "first");
		if (removed)
			CHECK(unlinkat(b.dir_fd, "audit", 0) == 0);
		else
			CHECK(renameat(b.dir_fd, "audit", b.dir_fd, "moved") == 0);
		while (!exists(&b, "audit")) {
			audit_line(&b, "x");
			pause_ms(20);
		}
		audit_line(&b, "last");
		check_file(&b, "audit", "x\nlast\n");
		rig_down(&b);
	}
}

TEST(store_cuts_half_a_line_off)
{
	static char longest[STORE_LINE_MAX + 2];
	struct rig b;

	audit_make(&b);
	plant_file(&b, "audit", "whole\nhalf");
	rig_start(&b);
	audit_line(&b, "next");
	check_file(&b, "audit", "whole\nnext\n");
	rig_stop(&b);
	plant_file(&b, "audit", "half");
	rig_start(&b);
	audit_line(&b, "next");
	check_file(&b, "audit", "next\n");
	rig_stop(&b);
	/* More than a line: whoever wrote that, it was not us. */
	memset(longest, 'x', sizeof(longest) - 1);
	plant_file(&b, "audit", longest);
	rig_start(&b);
	audit_line(&b, "next");
	rig_stop(&b);
	{
		struct stat st;

		CHECK(fstatat(b.dir_fd, "audit", &st, 0) == 0);
		CHECK_EQ_INT(st.st_size, STORE_LINE_MAX + 1 + 1 + 5); /* ended, not cut */
	}
	rig_down(&b);
}

TEST(store_does_not_audit_into_what_is_no_plain_file)
{
	struct rig b;

	audit_make(&b);
	plant_file(&b, "other", "other");
	CHECK(symlinkat("other", b.dir_fd, "audit") == 0);
	rig_start(&b);
	answer_failed(&b, ask_audit(&b, "line"), STORE_BROKEN);
	check_file(&b, "other", "other");
	CHECK(unlinkat(b.dir_fd, "audit", 0) == 0 && mkfifoat(b.dir_fd, "audit", 0666) == 0);
	answer_failed(&b, ask_audit(&b, "line"), STORE_BROKEN);
	CHECK_EQ_INT(figures(&b).audit_failures, 2);
	CHECK(unlinkat(b.dir_fd, "audit", 0) == 0);
	audit_line(&b, "line"); /* and goes on by itself */
	check_file(&b, "audit", "line\n");
	rig_down(&b);
}

TEST(store_audits_whole_lines_on_a_full_disk)
{
	static char line[1001], buf[8 * MIB];
	uint64_t lines = 0, failures = 0;
	own_fd fd = -1;
	struct rig b;
	ssize_t n;

	mount_small(&b, "1m");
	b.audit_fd = b.dir_fd;
	rig_arg(&b, "audit_name=audit");
	memset(line, 'x', sizeof(line) - 1);
	rig_start(&b);
	(void)figures(&b);
	/* Several in one turn, so that one write ends in the middle of some line. */
	while (failures == 0) {
		static struct chan_msg m;
		uint64_t first = b.request + 1;

		for (unsigned int i = 0; i < 30; i++)
			(void)ask_audit(&b, line);
		for (unsigned int i = 0; i < 30; i++) {
			CHECK_EQ_INT(chan_recv(b.gate_fd, &m), 1);
			CHECK_EQ_INT(m.request, first + i);
			lines += m.type == STORE_OK;
			failures += m.type == STORE_FAILED;
		}
	}
	answer_failed(&b, ask_audit(&b, line), STORE_FULL);
	CHECK_EQ_INT(figures(&b).audit_lines, lines);
	CHECK_EQ_INT(figures(&b).audit_failures, failures + 1);
	fd = openat(b.dir_fd, "audit", O_RDONLY | O_CLOEXEC);
	n = io_read_full(fd, buf, sizeof(buf));
	CHECK_EQ_INT(n, lines * sizeof(line));
	for (uint64_t i = 0; i < lines; i++)
		CHECK(memcmp(buf + i * sizeof(line), line, sizeof(line) - 1) == 0 &&
		      buf[i * sizeof(line) + sizeof(line) - 1] == '\n');
	/* Room again: it goes on. */
	CHECK(unlinkat(b.dir_fd, "audit", 0) == 0);
	fd_close(&fd);
	while (!exists(&b, "audit")) {
		(void)ask_audit(&b, "room");
		(void)answer(&b, b.request);
		pause_ms(20);
	}
	audit_line(&b, "last");
	unmount_small(&b);
}
