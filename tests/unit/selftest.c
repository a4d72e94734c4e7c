/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Can the runner see a failure? Each hidden test below misbehaves in one way; the test at the end runs the
 * runner on each of them and expects it to say so.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

TEST_HIDDEN(selftest_passes)
{
	CHECK(true);
}

TEST_HIDDEN(selftest_check_fails)
{
	CHECK(strlen("four") == 5);
}

TEST_HIDDEN(selftest_int_differs)
{
	CHECK_EQ_INT(6 * 7, 41);
}

TEST_HIDDEN(selftest_str_differs)
{
	CHECK_STR("left", NULL);
}

TEST_HIDDEN(selftest_mem_differs)
{
	CHECK_MEM("abc", "abd", 3);
}

TEST_HIDDEN(selftest_check_fails_in_grandchild)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		CHECK(false);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

TEST_HIDDEN(selftest_leaks_fd)
{
	// cppcheck-suppress leakReturnValNotUsed ; that is the point
	CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0);
}

TEST_HIDDEN(selftest_leaks_process)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		(void)setsid(); /* leaving the group is no escape */
		for (;;)
			(void)pause();
	}
}

TEST_HIDDEN(selftest_crashes)
{
	CHECK(true);
	abort();
}

TEST_HIDDEN(selftest_hangs)
{
	sigset_t all;

	(void)sigfillset(&all);
	CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
	for (;;)
		(void)pause();
}

TEST_HIDDEN(selftest_exits)
{
	CHECK(true);
	_exit(0);
}

TEST_HIDDEN(selftest_checks_nothing)
{
}

TEST_HIDDEN(selftest_skips)
{
	SKIP("to be seen");
}

static const struct expectation {
	const char *test;
	const char *timeout_ms;
	int status;       /* of the runner */
	const char *says; /* somewhere in its output */
} expectations[] = {
	{ "selftest_passes", "30000", 0, "\nok 1 - selftest_passes\n" },
	{ "selftest_skips", "30000", 0, "ok 1 - selftest_skips # SKIP to be seen" },
	{ "selftest_check_fails", "30000", 1, "failed: CHECK(strlen(\"four\") == 5)" },
	{ "selftest_int_differs", "30000", 1, "6 * 7 is 42, wanted 41" },
	{ "selftest_str_differs", "30000", 1, "\"left\" is \"left\", wanted NULL" },
	{ "selftest_mem_differs", "30000", 1, "differs at byte 2 of 3: 0x63, wanted 0x64" },
	{ "selftest_check_fails_in_grandchild", "30000", 1, "failed: CHECK(false)" },
	{ "selftest_leaks_fd", "30000", 1, ": /dev/null" },
	{ "selftest_leaks_process", "30000", 1, "left a process running" },
	{ "selftest_crashes", "30000", 1, "killed by signal 6" },
	{ "selftest_hangs", "200", 1, "still running after 200 ms" },
	{ "selftest_exits", "30000", 1, "exited before its end" },
	{ "selftest_checks_nothing", "30000", 1, "ran no CHECK" },
	{ "selftest_no_such_test", "30000", 2, "1..0" },
};

/* Runs the runner on one test; returns its exit status, and all that it printed in `output`. */
static int run_runner(const struct expectation *e, char *output, size_t size)
{
	size_t used = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)setenv("UNIT_TIMEOUT_MS", e->timeout_ms, 1);
		(void)dup2(fds[1], STDOUT_FILENO);
		(void)dup2(fds[1], STDERR_FILENO);
		(void)execl("/proc/self/exe", "unit-tests", e->test, (char *)NULL);
		_exit(127);
	}
	(void)close(fds[1]);
	while (used < size - 1 && (n = read(fds[0], output + used, size - 1 - used)) > 0)
		used += (size_t)n;
	output[used] = '\0';
	(void)close(fds[0]);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(runner_sees_every_kind_of_failure)
{
	char output[8192];

	for (size_t i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++) {
		const struct expectation *e = &expectations[i];
		int status = run_runner(e, output, sizeof(output));

		if (status != e->status || !strstr(output, e->says))
			test_fail(__FILE__, __LINE__, "%s: status %d, wanted %d and \"%s\" in:\n%s",
				  e->test, status, e->status, e->says, output);
		if (e->status == 1)
			CHECK(strstr(output, "\nnot ok 1 - ") != NULL);
	}
}
