// SPDX-License-Identifier: Apache-2.0
#include "cli/server_near.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/envdir.h"
#include "cli/http_client.h"

#include <fcntl.h>
#include <ftw.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum {
	START_S = 60,
	STOP_S = 20,
	ROOTS_MAX = 32,
	LIFE_FD = 3,
	SAYS_FD = 4,
};

/* --- the process between ---------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st, (void)at;
	(void)(type == FTW_DP ? rmdir(path) : unlink(path));
	return 0;
}

static void remove_tree(const char *dir)
{
	(void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Standard output goes to whoever waits for its first line, errors into a file. */
static _Noreturn void exec_server(const char *dir, char *const *argv)
{
	char log[URL_PATH + 8];
	int fd;

	(void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* should the minder be killed */
	for (int sig = 1; sig < 32; sig++)
		(void)signal(sig, SIG_DFL);
	(void)snprintf(log, sizeof(log), "%s/log", dir);
	fd = open(log, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (getppid() == 1 || fd < 0 || dup2(fd, STDERR_FILENO) < 0 ||
	    dup2(SAYS_FD, STDOUT_FILENO) < 0)
		_exit(125);
	(void)syscall(SYS_close_range, 3u, ~0u, 0u);
	(void)execv("/proc/self/exe", argv);
	_exit(125);
}

static void stop_server(pid_t pid)
{
	uint64_t deadline = clock_us() + STOP_S * US_PER_S;

	(void)kill(pid, SIGTERM);
	while (waitpid(pid, NULL, WNOHANG) == 0) {
		if (clock_us() > deadline) {
			(void)kill(pid, SIGKILL);
			(void)waitpid(pid, NULL, 0);
			return;
		}
		(void)poll(NULL, 0, 10);
	}
}

static _Noreturn void minder(int life, int says, const char *dir, char *const *argv)
{
	static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char drop;
	pid_t pid;

	(void)setsid(); /* keys of our terminal are not for it */
	for (unsigned int i = 0; i < ARRAY_LEN(ignored); i++)
		(void)signal(ignored[i], SIG_IGN);
	for (int fd = 0; fd <= 2; fd++)
		(void)dup2(null, fd);
	/* Both were made above these, see start(). */
	if (dup2(life, LIFE_FD) < 0 || dup2(says, SAYS_FD) < 0)
		_exit(125);
	(void)syscall(SYS_close_range, (unsigned int)SAYS_FD + 1, ~0u, 0u);
	pid = fork();
	if (pid == 0)
		exec_server(dir, argv);
	(void)close(SAYS_FD);
	while (read(LIFE_FD, &drop, 1) < 0 && errno == EINTR)
		;
	if (pid > 0)
		stop_server(pid);
	remove_tree(dir);
	_exit(0);
}

/* --- our side --------------------------------------------------------------------------------------- */

static int make_directory(char dir[URL_PATH], struct err *e)
{
	const char *above = getenv("XDG_RUNTIME_DIR");

	if (above == NULL || above[0] != '/' || access(above, W_OK) < 0 ||
	    strlen(above) > URL_PATH - 40)
		above = getenv("TMPDIR");
	if (above == NULL || above[0] != '/' || strlen(above) > URL_PATH - 40)
		above = "/tmp";
	(void)snprintf(dir, URL_PATH, "%s/glovebox-shell-XXXXXX", above);
	return mkdtemp(dir) != NULL
		       ? 0
		       : err_set(e, ERR_INPUT, errno, "make a directory in '%s'", above);
}

struct args {
	char *v[ROOTS_MAX + 16];
	unsigned int n;
};

static void add(struct args *a, const char *option, const char *value)
{
	if (a->n + 1 < ARRAY_LEN(a->v) && asprintf(&a->v[a->n], "%s%s", option, value) >= 0)
		a->n++;
}

static void make_args(struct args *a, const char *dir, const char *const *roots, bool warm)
{
	char path[PATH_MAX];
	struct err e;

	*a = (struct args){ 0 };
	add(a, "glovebox", "");
	add(a, "serve", "");
	(void)snprintf(path, sizeof(path), "unix:%s/socket", dir);
	add(a, "--listen=", path);
	(void)snprintf(path, sizeof(path), "%s/state", dir);
	add(a, "--state-dir=", path);
	add(a, "--audit-file=", "none");
	/* Made by `glovebox env`, for all that run here; not made for this. */
	if (envdir_usual(path, &e) == 0 && access(path, R_OK) == 0)
		add(a, "--environments-dir=", path);
	/* One box: what is made ahead would only take time from it. */
	add(a, "--warm=", warm ? "true" : "false");
	add(a, "--pool-size=", "0");
	add(a, "--session-pool-size=", "0");
	for (; roots != NULL && *roots != NULL; roots++)
		add(a, "--mount-root=", *roots);
}

/* The end of what it said on standard error, as one line: whole lines of it, if there are any. */
static void last_words(const char *dir, char *text, size_t size)
{
	static const char ours[] = "glovebox: ";
	char path[URL_PATH + 8], *p;
	own_fd fd = -1;
	ssize_t n = -1;
	off_t from;

	(void)snprintf(path, sizeof(path), "%s/log", dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	from = fd >= 0 ? lseek(fd, 0, SEEK_END) - (off_t)(size - 1) : 0;
	if (fd >= 0)
		n = pread(fd, text, size - 1, from > 0 ? from : 0);
	text[n > 0 ? n : 0] = '\0';
	while (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	p = from > 0 ? strchr(text, '\n') : NULL;
	if (p != NULL)
		(void)memmove(text, p + 1, strlen(p + 1) + 1);
	if (strncmp(text, ours, strlen(ours)) == 0)
		(void)memmove(text, text + strlen(ours), strlen(text + strlen(ours)) + 1);
	while ((p = strchr(text, '\n')) != NULL)
		*p = ';';
}

/* Wait for "listening on". */
static int await(struct server_near *s, int says, struct err *e)
{
	uint64_t deadline = clock_us() + START_S * US_PER_S;
	char line[256] = "", words[ERR_TEXT - 100];
	size_t n = 0;

	while (n < sizeof(line) - 1 && memchr(line, '\n', n) == NULL) {
		int r = client_wait(says, POLLIN, deadline, CALL_INT);
		ssize_t got = r == 0 ? read(says, line + n, sizeof(line) - 1 - n) : 0;

		if (r == -EINTR)
			return err_set(e, ERR_SYS, EINTR, "start a server");
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	line[n] = '\0';
	if (strncmp(line, "listening on ", 13) == 0)
		return 0;
	last_words(s->dir, words, sizeof(words));
	return err_set(e, ERR_INPUT, 0, "no server answers, and none could be started: %s",
		       words[0] != '\0' ? words : "it said nothing");
}

int server_near_start(struct server_near *s, const char *const *roots, bool warm, struct err *e)
{
	int life[2] = { -1, -1 }, says[2] = { -1, -1 }, r;
	char text[URL_PATH + 16];
	struct args a;

	*s = (struct server_near){ .life = -1 };
	if (make_directory(s->dir, e) < 0)
		return -1;
	if (pipe2(life, O_CLOEXEC) < 0 || pipe2(says, O_CLOEXEC) < 0) {
		(void)rmdir(s->dir);
		return err_set(e, ERR_SYS, errno, "make a pipe");
	}
	/* Clear of the places that the minder puts them in. */
	r = fcntl(life[0], F_DUPFD_CLOEXEC, 10);
	(void)close(life[0]);
	life[0] = r;
	r = fcntl(says[1], F_DUPFD_CLOEXEC, 10);
	(void)close(says[1]);
	says[1] = r;
	make_args(&a, s->dir, roots, warm);
	s->minder = fork();
	if (s->minder == 0) {
		(void)close(life[1]);
		minder(life[0], says[1], s->dir, a.v);
	}
	(void)close(life[0]);
	(void)close(says[1]);
	for (unsigned int i = 0; i < a.n; i++)
		free(a.v[i]);
	s->life = life[1];
	(void)snprintf(text, sizeof(text), "unix:%s/socket", s->dir);
	r = s->minder < 0 ? err_set(e, ERR_SYS, errno, "start a process")
			  : url_parse(text, &s->url, e);
	if (r == 0)
		r = await(s, says[0], e);
	(void)close(says[0]);
	if (r < 0)
		server_near_stop(s);
	return r;
}

void server_near_stop(struct server_near *s)
{
	if (s->life < 0)
		return;
	fd_close(&s->life);
	if (s->minder < 0)
		(void)rmdir(s->dir);
	while (s->minder > 0 && waitpid(s->minder, NULL, 0) < 0 && errno == EINTR)
		;
	s->minder = 0;
}
