// SPDX-License-Identifier: Apache-2.0
/*
 * Environments that clients want built or removed: by `glovebox env`, as the operator would, one after the other. What it says on the way is kept for who asked.
 */
#include "cli/serve.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { OPTIONS = 16 };

static _Noreturn void become(const struct envbuild *b, const char *dir, int out)
{
	const char *argv[ENVBUILD_WORDS + OPTIONS] = { "glovebox", "env" };
	char pool[16];
	unsigned int n = 2;
	sigset_t none;
	int null = open("/dev/null", O_RDONLY);

	argv[n++] = b->act == ENVBUILD_BUILD ? "build" : "remove";
	argv[n++] = "--dir";
	argv[n++] = dir;
	if (b->act == ENVBUILD_BUILD) {
		(void)snprintf(pool, sizeof(pool), "%u", b->pool);
		argv[n++] = "--pool";
		argv[n++] = pool;
		argv[n++] = "--imports";
		argv[n++] = b->imports;
	}
	argv[n++] = b->name;
	for (unsigned int i = 0; i < b->nwords; i++)
		argv[n++] = b->words[i];
	argv[n] = NULL;
	(void)setpgid(0, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(out, STDERR_FILENO) < 0 || syscall(SYS_close_range, 3u, ~0u, 0u) < 0)
		_exit(125);
	(void)execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
	_exit(125);
}

int serve_build_start(struct building *w, const struct envbuild *b, const char *dir)
{
	int pair[2];

	if (w->pid > 0)
		return -EBUSY;
	if (pipe2(pair, O_CLOEXEC) < 0)
		return -errno;
	(void)io_set_nonblock(pair[0], 1);
	w->built = (struct envbuilt){ .status = 0 };
	(void)snprintf(w->built.name, sizeof(w->built.name), "%s", b->name);
	w->nlog = 0;
	w->pid = fork();
	if (w->pid == 0)
		become(b, dir, pair[1]);
	(void)close(pair[1]);
	w->fd = pair[0];
	if (w->pid > 0)
		return 0;
	fd_close(&w->fd);
	return -errno;
}

/* The end of it is what says how it went. */
static void keep(struct building *w, const char *p, size_t n)
{
	size_t room = sizeof(w->built.log) - 1, over;

	if (n > room) {
		p += n - room;
		n = room;
	}
	over = w->nlog + n > room ? w->nlog + n - room : 0;
	(void)memmove(w->built.log, w->built.log + over, w->nlog - over);
	w->nlog -= over;
	(void)memcpy(w->built.log + w->nlog, p, n);
	w->nlog += n;
	w->built.log[w->nlog] = '\0';
	for (size_t i = 0; i < w->nlog; i++) /* texts of messages have none */
		if (w->built.log[i] == '\0')
			w->built.log[i] = '?';
}

bool serve_build_event(struct building *w)
{
	char buf[4096];
	ssize_t n;
	int status = 0;

	while ((n = read(w->fd, buf, sizeof(buf))) > 0)
		keep(w, buf, (size_t)n);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	fd_close(&w->fd);
	while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	w->built.status =
		(uint32_t)(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return true;
}

void serve_build_end(struct building *w)
{
	if (w->pid <= 0)
		return;
	(void)kill(w->pid, SIGTERM);
	while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
		;
	w->pid = 0;
	fd_close(&w->fd);
}
