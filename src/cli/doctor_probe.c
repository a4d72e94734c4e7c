// SPDX-License-Identifier: Apache-2.0
/*
 * Trying things in a child: namespaces, filters and capabilities cannot be given back, so whoever
 * tries them is thrown away. The child says by a pipe how it went; one that hangs ends by its alarm,
 * one that a filter kills by a signal, and both are reported as errors.
 */
#include "cli/doctor.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { PROBE_S = 5 };

void probe_at(struct probe *p, const char *step)
{
	(void)snprintf(p->at, sizeof(p->at), "%s", step);
}

static _Noreturn void child(struct probe *p, int fd, int (*fn)(struct probe *p, const void *arg),
			    const void *arg)
{
	const struct rlimit none = { 0 };

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)alarm(PROBE_S);
	p->error = -fn(p, arg);
	(void)io_write_all(fd, p, sizeof(*p));
	_exit(0);
}

/* Nothing came: the child did not live to say it. */
static int error_of(int status)
{
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return ETIMEDOUT;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
		return ENOSYS;
	return EIO;
}

struct probe probe_run(int (*fn)(struct probe *p, const void *arg), const void *arg)
{
	struct probe p = { 0 };
	int pipe_fd[2], status = 0;
	ssize_t n;
	pid_t pid;

	if (pipe2(pipe_fd, O_CLOEXEC) < 0)
		return (struct probe){ .error = errno, .at = "pipe" };
	pid = fork();
	if (pid == 0)
		child(&p, pipe_fd[1], fn, arg);
	(void)close(pipe_fd[1]);
	n = io_read_full(pipe_fd[0], &p, sizeof(p));
	(void)close(pipe_fd[0]);
	if (pid < 0)
		return (struct probe){ .error = EAGAIN, .at = "fork" };
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (n != (ssize_t)sizeof(p))
		return (struct probe){ .error = error_of(status), .at = "child" };
	return p;
}

static int map_self(uid_t uid, gid_t gid)
{
	char text[32];
	int r = io_write_text(AT_FDCWD, "/proc/self/setgroups", "deny");

	(void)snprintf(text, sizeof(text), "0 %u 1\n", uid);
	if (r == 0)
		r = io_write_text(AT_FDCWD, "/proc/self/uid_map", text);
	(void)snprintf(text, sizeof(text), "0 %u 1\n", gid);
	return r < 0 ? r : io_write_text(AT_FDCWD, "/proc/self/gid_map", text);
}

int probe_namespace(struct probe *p, int flags)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int r;

	probe_at(p, "user namespace");
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	probe_at(p, "id map");
	r = map_self(uid, gid);
	if (r < 0)
		return r;
	probe_at(p, "further namespaces");
	return flags != 0 && unshare(flags) < 0 ? -errno : 0;
}

int probe_fork(struct probe *p, int (*fn)(struct probe *p, const void *arg), const void *arg)
{
	*p = probe_run(fn, arg);
	return -p->error;
}
