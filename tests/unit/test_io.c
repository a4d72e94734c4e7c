/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/io.c: small blocking reads and writes. */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"

#include "test_help.h"

/* A file with these bytes; its name, good for as long as *fd is open. */
static const char *file_with(const void *p, size_t n, int *fd)
{
	static char path[40];

	*fd = memfd_create("io", MFD_CLOEXEC);
	CHECK(*fd >= 0);
	CHECK_EQ_INT(write(*fd, p, n), n);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
	return path;
}

static const char *text_file(const char *text, int *fd)
{
	return file_with(text, strlen(text), fd);
}

static volatile sig_atomic_t interrupts;

static void on_alarm(int sig)
{
	(void)sig;
	interrupts++;
}

/* A signal every millisecond that interrupts whatever blocks. */
static void interrupt_often(void)
{
	const struct sigaction sa = { .sa_handler = on_alarm }; /* no SA_RESTART */
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };

	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

TEST(io_write_all_writes_all_through_a_small_pipe_and_signals)
{
	static uint8_t data[1 << 20], got[sizeof(data) + 1];
	uint64_t seed = 3;
	int fds[2], status;
	pid_t pid;

	rnd_fill(&seed, data, sizeof(data));
	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)close(fds[0]);
		interrupt_often();
		_exit(io_write_all(fds[1], data, sizeof(data)) == 0 ? 0 : 1);
	}
	(void)close(fds[1]);
	(void)usleep(10000); /* the writer is stuck in a full pipe and gets its signals there */
	CHECK_EQ_INT(io_read_full(fds[0], got, sizeof(got)), sizeof(data));
	CHECK_MEM(got, data, sizeof(data));
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ_INT(status, 0);
	(void)close(fds[0]);
}

TEST(io_write_all_reports_a_reader_that_is_gone)
{
	int fds[2];

	(void)signal(SIGPIPE, SIG_IGN);
	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	(void)close(fds[0]);
	CHECK_EQ_INT(io_write_all(fds[1], "x", 1), -EPIPE);
	CHECK_EQ_INT(io_write_all(fds[1], "x", 0), 0);
	(void)close(fds[1]);
	CHECK_EQ_INT(io_write_all(-1, "x", 1), -EBADF);
}

TEST(io_read_full_waits_for_the_last_byte)
{
	static const char text[] = "one two three";
	char got[32];
	int fds[2], status;
	pid_t pid;

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		for (size_t i = 0; i < sizeof(text); i++) {
			(void)usleep(2000);
			if (write(fds[1], text + i, 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	interrupt_often();
	CHECK_EQ_INT(io_read_full(fds[0], got, sizeof(text)), sizeof(text));
	CHECK_STR(got, text);
	CHECK(interrupts > 0);
	CHECK(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL) == 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ_INT(status, 0);
	(void)close(fds[0]);
	(void)close(fds[1]);
}

TEST(io_read_full_stops_at_the_end)
{
	char got[8] = "";
	int fds[2];

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	CHECK_EQ_INT(io_read_full(fds[0], got, 0), 0);
	CHECK_EQ_INT(write(fds[1], "abc", 3), 3);
	(void)close(fds[1]);
	CHECK_EQ_INT(io_read_full(fds[0], got, 2), 2);
	CHECK_EQ_INT(io_read_full(fds[0], got + 2, 6), 1);
	CHECK_STR(got, "abc");
	CHECK_EQ_INT(io_read_full(fds[0], got, 8), 0);
	(void)close(fds[0]);
	CHECK_EQ_INT(io_read_full(-1, got, 1), -EBADF);
}

TEST(io_read_text_fits_or_fails)
{
	struct fence f = fence_open(64);
	int fd;
	const char *path = text_file("0123456789", &fd);

	for (size_t size = 0; size <= 12; size++) {
		char *buf = (char *)fence_at(&f, size);
		ssize_t n = io_read_text(AT_FDCWD, path, buf, size);

		if (size <= 10) {
			CHECK_EQ_INT(n, -ENOBUFS);
		} else {
			CHECK_EQ_INT(n, 10);
			CHECK_STR(buf, "0123456789");
		}
	}
	(void)close(fd);
	fence_close(&f);
}

TEST(io_read_text_takes_newlines_off_the_end_only)
{
	static const struct {
		const char *file, *text;
	} cases[] = {
		{ "", "" },     { "\n", "" },           { "\n\n", "" },
		{ "a\n", "a" }, { "a\nb\n\n", "a\nb" }, { "\na", "\na" },
		{ "a ", "a " },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char buf[16];
		int fd;
		const char *path = text_file(cases[i].file, &fd);

		CHECK_EQ_INT(io_read_text(AT_FDCWD, path, buf, sizeof(buf)), strlen(cases[i].text));
		CHECK_STR(buf, cases[i].text);
		(void)close(fd);
	}
}

TEST(io_read_text_says_why_not)
{
	char buf[16];

	CHECK_EQ_INT(io_read_text(AT_FDCWD, "/proc/self/no-such", buf, sizeof(buf)), -ENOENT);
	CHECK_EQ_INT(io_read_text(AT_FDCWD, "/proc/self", buf, sizeof(buf)), -EISDIR);
	CHECK_EQ_INT(io_read_text(-1, "relative", buf, sizeof(buf)), -EBADF);
}

TEST(io_read_text_is_relative_to_the_directory)
{
	own_fd dir = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char buf[64];

	CHECK(dir >= 0);
	CHECK(io_read_text(dir, "comm", buf, sizeof(buf)) > 0);
	CHECK_STR(buf, "unit-tests");
}

TEST(io_write_text_writes_to_what_exists)
{
	char dir[] = "/tmp/unit-io-XXXXXX", path[64], buf[16];
	int fd;
	const char *name = text_file("old and long", &fd);

	CHECK_EQ_INT(io_write_text(AT_FDCWD, name, "new"), 0);
	CHECK_EQ_INT(pread(fd, buf, 3, 0), 3);
	CHECK_MEM(buf, "new", 3);
	CHECK_EQ_INT(io_write_text(AT_FDCWD, name, ""), 0);
	(void)close(fd);

	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(path, sizeof(path), "%s/x", dir);
	CHECK_EQ_INT(io_write_text(AT_FDCWD, path, "new"), -ENOENT); /* it creates nothing */
	CHECK_EQ_INT(access(path, F_OK), -1);
	CHECK(rmdir(dir) == 0);
	CHECK_EQ_INT(io_write_text(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
}

TEST(io_read_u64_takes_one_number)
{
	static const struct {
		const char *file;
		int result;
		uint64_t value;
	} cases[] = {
		{ "0\n", 0, 0 },
		{ "42", 0, 42 },
		{ "18446744073709551615\n", 0, UINT64_MAX },
		{ "18446744073709551616\n", -ERANGE, 0 },
		{ "max\n", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "1 2\n", -EINVAL, 0 },
		{ "1\n2\n", -EINVAL, 0 },
		{ "-1\n", -EINVAL, 0 },
		{ "0000000000000000000000000000000000000000000000000000000000000000\n", -ENOBUFS,
		  0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t v = 77;
		int fd;
		const char *path = text_file(cases[i].file, &fd);

		CHECK_EQ_INT(io_read_u64(AT_FDCWD, path, &v), cases[i].result);
		CHECK_EQ_INT(v, cases[i].result == 0 ? cases[i].value : 77);
		(void)close(fd);
	}
	CHECK_EQ_INT(io_read_u64(AT_FDCWD, "/proc/no-such", &(uint64_t){ 0 }), -ENOENT);
}

TEST(io_read_keyed_wants_the_whole_key_at_the_start_of_a_line)
{
	static const struct {
		const char *key;
		int result;
		uint64_t value;
	} cases[] = {
		{ "usage_usec", 0, 5 },    { "user_usec", 0, 7 },  { "last", 0, 9 },
		{ "usage", -ENOENT, 0 },   { "usec", -ENOENT, 0 }, { "usage_usec_", -ENOENT, 0 },
		{ "word", -EINVAL, 0 },    { "none", -ENOENT, 0 }, { "two", -EINVAL, 0 },
		{ "missing", -ENOENT, 0 },
	};
	int fd;
	const char *path = text_file("usage_usec 5\n\nuser_usec 7\nx usec 1\nword max\nnone\n"
				     "two 1 2\nlast 9",
				     &fd);

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t v = 77;

		CHECK_EQ_INT(io_read_keyed(AT_FDCWD, path, cases[i].key, &v), cases[i].result);
		CHECK_EQ_INT(v, cases[i].result == 0 ? cases[i].value : 77);
	}
	(void)close(fd);
}

TEST(io_read_keyed_refuses_a_file_it_cannot_hold)
{
	static const char line[] = { 'k', 'e', 'y', ' ', '1' };
	static char big[8192];

	memset(big, '\n', sizeof(big));
	memcpy(big, line, sizeof(line));
	for (size_t n = sizeof(big) - 1; n <= sizeof(big); n++) {
		uint64_t v = 77;
		int fd;
		const char *path = file_with(big, n, &fd);

		CHECK_EQ_INT(io_read_keyed(AT_FDCWD, path, "key", &v),
			     n < sizeof(big) ? 0 : -ENOBUFS);
		CHECK_EQ_INT(v, n < sizeof(big) ? 1 : 77);
		(void)close(fd);
	}
}

TEST(io_set_nonblock_changes_that_flag_alone)
{
	int fds[2], before;

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	CHECK(fcntl(fds[1], F_SETFL, O_APPEND) == 0);
	before = fcntl(fds[1], F_GETFL);
	CHECK_EQ_INT(io_set_nonblock(fds[1], 1), 0);
	CHECK_EQ_INT(fcntl(fds[1], F_GETFL), before | O_NONBLOCK);
	CHECK_EQ_INT(io_set_nonblock(fds[1], 1), 0);
	CHECK_EQ_INT(fcntl(fds[1], F_GETFL), before | O_NONBLOCK);
	CHECK_EQ_INT(io_set_nonblock(fds[1], 0), 0);
	CHECK_EQ_INT(fcntl(fds[1], F_GETFL), before);
	(void)close(fds[0]);
	(void)close(fds[1]);
	CHECK_EQ_INT(io_set_nonblock(fds[1], 1), -EBADF);
}
