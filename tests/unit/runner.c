/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the unit tests and reports in TAP, on standard output.
 *
 *	unit-tests [--list] [NAME...]
 *
 * A NAME picks the tests whose name contains it; a full name also picks a hidden test. Exit status: 0 all
 * passed or were skipped, 1 some failed, 2 nothing to run.
 *
 * One process per test, one after another. The child leads a process group, so that whatever it leaves can be
 * found and killed; the runner is a child subreaper, so that nothing escapes by being orphaned. What the test
 * prints goes to standard error: TAP stays clean. The deadline is kept by the runner and not by alarm() in
 * the child, which a test could block or reset.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

#define DEFAULT_TIMEOUT_MS 30000
#define MAX_FDS            1024

/* Set by the linker to the ends of the section that TEST() fills. */
extern const struct unit_test *const __start_unit_tests[];
extern const struct unit_test *const __stop_unit_tests[];

/* Shared between the runner, the test and the processes that the test forks. */
static struct report {
	bool failed;   /* a CHECK failed, perhaps in a grandchild whose status nobody looked at */
	bool finished; /* the test function returned */
	unsigned int checks; /* how many ran */
	char skipped[200];   /* reason, empty if not skipped */
} *report;

static int timeout_ms = DEFAULT_TIMEOUT_MS;

/* --- what a test calls ------------------------------------------------------------------------------------- */

void test_count(void)
{
	report->checks++;
}

void test_fail(const char *file, int line, const char *format, ...)
{
	va_list ap;

	report->failed = true;
	(void)fflush(stdout);
	(void)fprintf(stderr, "# %s:%d: failed: ", file, line);
	va_start(ap, format);
	(void)vfprintf(stderr, format, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	_exit(1);
}

void test_skip(const char *reason)
{
	(void)snprintf(report->skipped, sizeof(report->skipped), "%s", reason);
	_exit(0);
}

void test_check_int(const char *file, int line, const char *text, intmax_t got, intmax_t want)
{
	test_count();
	if (got != want)
		test_fail(file, line, "%s is %jd, wanted %jd", text, got, want);
}

void test_check_str(const char *file, int line, const char *text, const char *got, const char *want)
{
	test_count();
	if (got == want || (got && want && strcmp(got, want) == 0))
		return;
	test_fail(file, line, "%s is %s%s%s, wanted %s%s%s", text, got ? "\"" : "",
		  got ? got : "NULL", got ? "\"" : "", want ? "\"" : "", want ? want : "NULL",
		  want ? "\"" : "");
}

void test_check_mem(const char *file, int line, const char *text, const void *got, const void *want,
		    size_t size)
{
	const unsigned char *g = got, *w = want;

	test_count();
	for (size_t i = 0; i < size; i++)
		if (g[i] != w[i])
			test_fail(file, line,
				  "%s differs at byte %zu of %zu: 0x%02x, wanted 0x%02x", text, i,
				  size, g[i], w[i]);
}

/* --- inside the child -------------------------------------------------------------------------------------- */

static void list_fds(bool open_fds[MAX_FDS])
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	memset(open_fds, 0, MAX_FDS * sizeof(*open_fds));
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		unsigned long fd = strtoul(entry->d_name, NULL, 10);

		if (entry->d_name[0] != '.' && fd < MAX_FDS && fd != (unsigned long)dirfd(dir))
			open_fds[fd] = true;
	}
	(void)closedir(dir);
}

static void report_leaked_fds(const bool before[MAX_FDS])
{
	bool after[MAX_FDS];

	list_fds(after);
	for (int fd = 0; fd < MAX_FDS; fd++) {
		char path[64], target[256];
		ssize_t n;

		if (before[fd] || !after[fd])
			continue;
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		(void)fprintf(stderr, "# leaked descriptor %d: %s\n", fd, target);
		report->failed = true;
	}
}

/* Does not return. exit(), not _exit(): this is when the leak sanitizer looks at the heap. */
__attribute__((noreturn)) static void run_in_child(const struct unit_test *test)
{
	const struct rlimit no_core = { 0, 0 };
	bool before[MAX_FDS];

	(void)setpgid(0, 0);
	(void)setrlimit(RLIMIT_CORE, &no_core);
	if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(1);
	list_fds(before);
	test->run();
	report->finished = true;
	report_leaked_fds(before);
	exit(report->failed ? 1 : 0);
}

/* --- the runner -------------------------------------------------------------------------------------------- */

/* Waits for the child to end without collecting it: its pid stays ours, so the group can be named safely. */
static bool ends_in_time(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd pfd = { .fd = pidfd, .events = POLLIN };
	int r;

	if (pidfd < 0) {
		perror("# pidfd_open");
		exit(2);
	}
	do {
		r = poll(&pfd, 1, timeout_ms);
	} while (r < 0 && errno == EINTR);
	(void)close(pidfd);
	return r > 0;
}

/* Collects everything that has ended; true if some descendant of the test is still running. */
static bool reap_orphans(void)
{
	siginfo_t info;
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		;
	return pid == 0 && waitid(P_ALL, 0, &info, WNOHANG | WEXITED | WNOWAIT) == 0;
}

/* Kills what a test left: its group, then whoever left the group and was adopted by the runner. */
static void kill_orphans(pid_t group)
{
	char path[64], line[4096];
	FILE *f;

	(void)kill(-group, SIGKILL);
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f)) {
		char *end = line;

		for (long pid; (pid = strtol(end, &end, 10)) > 0;)
			(void)kill((pid_t)pid, SIGKILL);
	}
	if (f)
		(void)fclose(f);
	while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
		;
}

/* Why the test failed, into `why`; false if it did not. */
static bool judge(bool in_time, int status, bool orphans, char *why, size_t size)
{
	if (!in_time)
		(void)snprintf(why, size, "still running after %d ms", timeout_ms);
	else if (WIFSIGNALED(status))
		(void)snprintf(why, size, "killed by signal %d (%s)", WTERMSIG(status),
			       strsignal(WTERMSIG(status)));
	else if (report->failed || WEXITSTATUS(status) != 0)
		(void)snprintf(why, size, "exit status %d", WEXITSTATUS(status));
	else if (orphans)
		(void)snprintf(why, size, "left a process running");
	else if (report->skipped[0])
		return false;
	else if (!report->finished)
		(void)snprintf(why, size, "exited before its end");
	else if (report->checks == 0)
		(void)snprintf(why, size, "ran no CHECK");
	else
		return false;
	return true;
}

static bool run_one(const struct unit_test *test, unsigned int number)
{
	char why[200] = "";
	bool in_time, orphans, failed;
	int status = 0;
	pid_t pid;

	memset(report, 0, sizeof(*report));
	(void)fflush(NULL);
	pid = fork();
	if (pid < 0) {
		perror("# fork");
		exit(2);
	}
	if (pid == 0)
		run_in_child(test);

	(void)setpgid(pid, pid);
	in_time = ends_in_time(pid);
	if (!in_time)
		(void)kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	orphans = reap_orphans();
	if (orphans)
		kill_orphans(pid);

	failed = judge(in_time, status, orphans, why, sizeof(why));
	if (failed)
		(void)printf("not ok %u - %s\n# %s: %s\n", number, test->name, test->name, why);
	else if (report->skipped[0])
		(void)printf("ok %u - %s # SKIP %s\n", number, test->name, report->skipped);
	else
		(void)printf("ok %u - %s\n", number, test->name);
	return !failed;
}

static bool is_wanted(const struct unit_test *test, char *const names[])
{
	if (!*names)
		return !test->hidden;
	for (; *names; names++)
		if (test->hidden ? strcmp(test->name, *names) == 0
				 : strstr(test->name, *names) != NULL)
			return true;
	return false;
}

int main(int argc, char *argv[])
{
	const struct unit_test *const *const first = __start_unit_tests;
	const size_t count = (size_t)(__stop_unit_tests - __start_unit_tests);
	const bool list = argc > 1 && strcmp(argv[1], "--list") == 0;
	char *const *names = argv + 1 + (list ? 1 : 0);
	const char *timeout = getenv("UNIT_TIMEOUT_MS");
	unsigned int planned = 0, number = 0, failed = 0;

	if (timeout)
		timeout_ms = (int)strtol(timeout, NULL, 10);
	for (size_t i = 0; i < count; i++)
		planned += is_wanted(first[i], names);

	if (list) {
		for (size_t i = 0; i < count; i++)
			if (is_wanted(first[i], names))
				(void)puts(first[i]->name);
		return planned ? 0 : 2;
	}

	(void)printf("TAP version 13\n1..%u\n", planned);
	if (planned == 0) {
		(void)printf("# no test matches\n");
		return 2;
	}
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
		perror("# PR_SET_CHILD_SUBREAPER");
		return 2;
	}
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (report == MAP_FAILED) {
		perror("# mmap");
		return 2;
	}

	for (size_t i = 0; i < count; i++)
		if (is_wanted(first[i], names))
			failed += !run_one(first[i], ++number);
	return failed ? 1 : 0;
}
