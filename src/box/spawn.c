// SPDX-License-Identifier: Apache-2.0
/*
 * From fork to exec.
 *
 * The child inherits init's isolation. What is left to do is to make it a session of its own, give
 * it its descriptors and limits, take the user's uid for good, and exec. Until exec it is
 * non-dumpable, as init is: no process of the same uid can look into it or stop it half-way.
 *
 * Should: report a failure as stage and errno on the exec pipe.
 * Must not: return; allocate; touch a path before the uid is the user's.
 */
#include "box/init.h"

#include "base/own.h"
#include "wire/control.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>

/* Descriptors of the child; those behind FD_KERNEL do not outlive exec. */
enum { FD_CHANNEL = 3, FD_IMAGE, FD_FREEZE, FD_KERNEL, FD_REPORT, FD_THAW, FD_ARCHIVE, FD_MAX };
enum { FD_BASE = FD_FREEZE }; /* of who thaws, and does not freeze */

/* What becomes 0, 1, 2 and so on of the child; -1: nothing. Those up to FD_CHANNEL and FD_REPORT are ours to close. */
struct pipes {
	int child[FD_MAX];
};

static _Noreturn void fail(int report_fd, const char *stage)
{
	struct exec_report r = { .error = errno };

	(void)snprintf(r.stage, sizeof(r.stage), "%s", stage);
	(void)!write(report_fd, &r, sizeof(r));
	_exit(127);
}

/* Change ids by system call: the C library would signal threads that do not exist. */
static int set_uids(long r, long e, long s)
{
	return (int)syscall(SYS_setresuid, r, e, s);
}

static int set_limit(int which, uint64_t v)
{
	struct rlimit l = { .rlim_cur = v, .rlim_max = v };

	return v == 0 ? 0 : setrlimit(which, &l);
}

static void reset_signals(void)
{
	sigset_t none;

	for (int s = 1; s < _NSIG; s++)
		(void)signal(s, SIG_DFL);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool has(const int fds[FD_MAX], int fd)
{
	for (int i = 0; i < FD_MAX; i++)
		if (fds[i] == fd)
			return true;
	return false;
}

/* What is open for init and for other jobs may leave too few for ours to get into place. */
static void drop_others(const struct pipes *p, const int high[FD_MAX])
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	for (int fd = FD_MAX; fd < (int)l.rlim_cur; fd++)
		if (!has(p->child, fd) && !has(high, fd))
			(void)close(fd);
}

/* One that is out of the way already stays. */
static int move_up(const struct pipes *p, const int high[FD_MAX], int fd)
{
	int moved = fd >= FD_MAX ? fd : fcntl(fd, F_DUPFD, FD_MAX);

	if (moved < 0 && errno == EMFILE) {
		drop_others(p, high);
		moved = fcntl(fd, F_DUPFD, FD_MAX);
	}
	return moved;
}

static void take_descriptors(const struct pipes *p)
{
	int high[FD_MAX];

	/* First out of the way of the places, then into place. */
	for (int i = 0; i < FD_MAX; i++)
		high[i] = -1;
	for (int i = 0; i < FD_MAX; i++) {
		high[i] = p->child[i] >= 0 ? move_up(p, high, p->child[i]) : -1;
		if (high[i] < 0 && p->child[i] >= 0)
			fail(p->child[FD_REPORT], "descriptors");
	}
	for (int i = 0; i < FD_MAX; i++)
		if (high[i] < 0)
			(void)close(i);
		else if (i < FD_REPORT)
			(void)dup2(high[i], i);
		else
			(void)dup3(high[i], i, O_CLOEXEC);
	(void)syscall(SYS_close_range, (unsigned int)FD_MAX, ~0u, 0u);
}

static const char *env_get(const char *const *envp, const char *name)
{
	size_t n = strlen(name);

	for (; *envp != NULL; envp++)
		if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
			return *envp + n + 1;
	return NULL;
}

/* execvpe(3) by the PATH of the job, not of init. */
static void exec_path(const struct job_spec *spec)
{
	char *const *argv = (char *const *)(uintptr_t)spec->argv;
	char *const *envp = (char *const *)(uintptr_t)spec->envp;
	const char *path = env_get(spec->envp, "PATH");
	bool denied = false;

	if (strchr(spec->argv[0], '/') != NULL) {
		(void)execve(spec->argv[0], argv, envp);
		/* A box that is made of an image may lack it: then its shell is the smaller one. */
		if (errno == ENOENT && strcmp(spec->argv[0], "/bin/bash") == 0)
			(void)execve("/bin/sh", argv, envp);
		return;
	}
	for (path = path != NULL ? path : "/usr/bin:/bin"; *path != '\0';) {
		char file[PATH_MAX];
		size_t n = strcspn(path, ":");
		int len = snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, spec->argv[0]);

		if (n > 0 && len > 0 && (size_t)len < sizeof(file)) {
			(void)execve(file, argv, envp);
			if (errno == EACCES)
				denied = true;
			else if (errno != ENOENT && errno != ENOTDIR)
				return;
		}
		path += n + (path[n] == ':');
	}
	errno = denied ? EACCES : ENOENT;
}

/* init is the last that out of memory takes; what it starts is not. The file belongs to whoever is
 * dumpable, which this process is for the moment: it still has init's effective uid, so that nobody
 * of the box may trace it. */
static void take_shield_off(void)
{
	own_fd fd = -1;

	(void)prctl(PR_SET_DUMPABLE, 1);
	fd = open(INIT_PROC "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		_exit(127);
	(void)prctl(PR_SET_DUMPABLE, 0);
}

static _Noreturn void child(const struct init *in, const struct job_spec *spec,
			    const struct pipes *p)
{
	long user = (long)in->user;
	int report = p->child[FD_REPORT];

	if (setsid() < 0)
		fail(report, "session");
	if ((spec->flags & JOB_PTY) != 0 && ioctl(p->child[0], TIOCSCTTY, 0) < 0)
		fail(report, "terminal");
	take_descriptors(p);
	report = FD_REPORT;
	if (in->shielded)
		take_shield_off();
	reset_signals();
	(void)umask(022);
	if (set_limit(RLIMIT_CPU, spec->cpu_seconds) < 0 ||
	    set_limit(RLIMIT_FSIZE, spec->file_bytes != 0 ? spec->file_bytes : in->file_bytes) <
		    0 ||
	    set_limit(RLIMIT_NOFILE, spec->open_files) < 0)
		fail(report, "limits");
	if (syscall(SYS_setresgid, user, user, user) < 0 || set_uids(user, user, user) < 0)
		fail(report, "uid");
	if (chdir(spec->cwd) < 0)
		fail(report, "working directory");
	if (spec->kind == JOB_FILE)
		_exit(files_run(spec, p->child[FD_ARCHIVE] >= 0 ? FD_ARCHIVE : -1));
	if ((spec->flags & JOB_THAW) != 0)
		(void)syscall(SYS_execveat, FD_THAW, "", spec->argv, spec->envp, AT_EMPTY_PATH);
	else
		exec_path(spec);
	fail(report, "exec");
}

/* A terminal whose slave belongs to the user: opened under the user's effective uid. */
static int open_terminal(const struct init *in, const struct job_spec *spec, int *ret_master,
			 int *ret_slave)
{
	struct winsize w = { .ws_row = spec->rows != 0 ? spec->rows : 24,
			     .ws_col = spec->cols != 0 ? spec->cols : 80 };
	own_fd master = -1, slave = -1;
	uid_t r, e, s;
	int off = 0;

	if (getresuid(&r, &e, &s) < 0)
		return -errno;
	(void)set_uids(-1, (long)in->user, -1);
	master = open("/dev/ptmx", O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	(void)set_uids(-1, (long)e, -1);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &off) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (slave < 0 || ioctl(master, TIOCSWINSZ, &w) < 0)
		return -errno;
	*ret_master = fd_take(&master);
	*ret_slave = fd_take(&slave);
	return 0;
}

int pipe_open(int *ours, int *theirs, bool we_read)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -errno;
	*ours = p[we_read ? 0 : 1];
	*theirs = p[we_read ? 1 : 0];
	return fcntl(*ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

static int open_streams(const struct init *in, struct job *j, const struct job_spec *spec,
			int theirs[3])
{
	int r;

	if ((spec->flags & JOB_PTY) != 0) {
		r = open_terminal(in, spec, &j->out[0].fd, &theirs[0]);
		if (r < 0)
			return r;
		j->in_fd = fcntl(j->out[0].fd, F_DUPFD_CLOEXEC, 4); /* watched apart */
		theirs[1] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 4);
		theirs[2] = fcntl(theirs[0], F_DUPFD_CLOEXEC, 4);
		return j->in_fd < 0 || theirs[1] < 0 || theirs[2] < 0 ? -errno : 0;
	}
	if ((spec->flags & JOB_STDIN) != 0) {
		r = pipe_open(&j->in_fd, &theirs[0], false);
		if (r == 0 &&
		    spec->kind == JOB_FILE) /* fewer, larger pieces; no matter if it may not */
			(void)fcntl(j->in_fd, F_SETPIPE_SZ, (int)job_window(spec->kind));
	} else {
		theirs[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		r = theirs[0] < 0 ? -errno : 0;
	}
	if (r == 0)
		r = pipe_open(&j->out[0].fd, &theirs[1], true);
	if (r == 0)
		r = pipe_open(&j->out[1].fd, &theirs[2], true);
	return r;
}

static int open_channel(struct job *j, int *theirs)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	j->channel_fd = pair[0];
	*theirs = pair[1];
	return 0;
}

/* 0, or -ENOENT: this box was not given what the job needs. Of a file operation that would mean another thing: -ENOSYS. */
static int take_kit(struct init *in, const struct job_spec *spec, struct pipes *p)
{
	/* Only who freezes has the image beside what user code can come upon. */
	bool thaw = (spec->flags & JOB_THAW) != 0, kit = (spec->flags & JOB_KIT) != 0,
	     freeze = kit && in->kit_fd[KIT_FREEZE] >= 0;
	const struct {
		bool wanted;
		enum kit part;
		int place;
	} rows[] = {
		{ thaw || freeze, KIT_IMAGE, FD_IMAGE },
		{ thaw && in->kit_fd[KIT_BASE] >= 0, KIT_BASE, FD_BASE },
		{ thaw, KIT_THAW, FD_THAW },
		{ freeze, KIT_FREEZE, FD_FREEZE },
		{ kit, KIT_KERNEL, FD_KERNEL },
		{ files_need_archive(spec), KIT_ARCHIVE, FD_ARCHIVE },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		int fd = rows[i].wanted ? kit_part(in, rows[i].part) : -1;

		if (rows[i].wanted && fd < 0)
			return fd == -ENOENT && spec->kind == JOB_FILE ? -ENOSYS : fd;
		if (rows[i].wanted)
			p->child[rows[i].place] = fd;
	}
	return 0;
}

int spawn(struct init *in, struct job *j, const struct job_spec *spec)
{
	struct pipes p;
	int r;

	for (int i = 0; i < FD_MAX; i++)
		p.child[i] = -1;
	r = take_kit(in, spec, &p);
	if (r == 0)
		r = open_streams(in, j, spec, p.child);
	if (r == 0 && (spec->flags & JOB_HELD) != 0)
		r = open_channel(j, &p.child[FD_CHANNEL]);
	if (r == 0)
		r = pipe_open(&j->exec_fd, &p.child[FD_REPORT], true);
	if (r == 0) {
		j->pid = fork();
		if (j->pid == 0)
			child(in, spec, &p);
		r = j->pid < 0 ? -errno : 0;
	}
	for (int i = 0; i <= FD_CHANNEL; i++)
		fd_close(&p.child[i]);
	fd_close(&p.child[FD_REPORT]);
	return r;
}
