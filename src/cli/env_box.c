// SPDX-License-Identifier: Apache-2.0
/*
 * Programs that fill and look at environments, each in a box of `glovebox run`: what they do with what strangers wrote, they do there.
 */
#include "cli/env.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/opts.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include "cli/env_programs.gen.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

enum {
	WORDS = 160,
	TURN_MS = 20,
	LOOK_US = 1000 * 1000, /* how often it is looked how much there is */
	LOOK_PART = 8,
	DISK_PART = 50, /* what is left to others: of a small disk a part */
};

#define DISK_FLOOR (UINT64_C(1) << 30)
#define FILE_MOST  (UINT64_C(1) << 42)

static const struct {
	const unsigned char *text;
	size_t n;
} programs[] = {
	[BOXED_BUILD] = { env_build_py, sizeof(env_build_py) },
	[BOXED_IMPORT] = { env_import_py, sizeof(env_import_py) },
	[BOXED_PROBE] = { env_probe_py, sizeof(env_probe_py) },
};

struct words {
	const char *v[WORDS];
	char *mine[WORDS];
	unsigned int n, nmine;
	char file_size[24];
};

static void add(struct words *w, const char *word)
{
	if (w->n + 1 < WORDS)
		w->v[w->n++] = word;
}

static void add_pair(struct words *w, const char *option, const char *value)
{
	if (value == NULL)
		return;
	add(w, option);
	add(w, value);
}

static void add_joined(struct words *w, const char *head, const char *tail)
{
	if (w->nmine < WORDS && asprintf(&w->mine[w->nmine], "%s%s", head, tail) >= 0)
		add(w, w->mine[w->nmine++]);
}

static void command(struct words *w, const struct env_opts *o, const struct boxed *b,
		    const char *dir)
{
	add(w, "glovebox");
	add(w, "run");
	add_pair(w, "--environments-dir", dir);
	add_pair(w, "--environment", b->environment);
	add_pair(w, "--timeout", o->timeout);
	add_pair(w, "--memory", o->memory);
	add_pair(w, "--accept-missing", o->missing);
	add_pair(w, "--resolver", o->resolver);
	if (b->tree != NULL) {
		(void)snprintf(w->file_size, sizeof(w->file_size), "%llu",
			       (unsigned long long)(o->bytes < FILE_MOST ? o->bytes : FILE_MOST));
		add_pair(w, "--file-size", w->file_size);
		add_pair(w, "--mount-root", b->tree);
		add(w, "--mount");
		add_joined(w, b->tree, ":" ENV_PLACE ":rw");
	}
	for (const char *const *more = b->more; more != NULL && *more != NULL; more++)
		add(w, *more);
	if (b->input != NULL)
		add_joined(w, "--stdin=", b->input);
	add(w, "--code");
	if (asprintf(&w->mine[w->nmine], "%.*s", (int)programs[b->program].n,
		     (const char *)programs[b->program].text) >= 0)
		add(w, w->mine[w->nmine++]);
	if (b->argument != NULL)
		add(w, b->argument);
	for (const char *const *more = b->words; more != NULL && *more != NULL; more++)
		add(w, *more);
	w->v[w->n] = NULL;
}

static _Noreturn void become(const struct words *w, int out, pid_t parent)
{
	/* Whoever kills us has it ended, too. */
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || (out >= 0 && dup2(out, STDOUT_FILENO) < 0))
		_exit(EXIT_GLOVEBOX);
	(void)execv("/proc/self/exe", (char *const *)(uintptr_t)w->v);
	_exit(EXIT_GLOVEBOX);
}

/* What it says, until it ends. -1: more than there is room for. */
static int hear(int fd, char *said, size_t size)
{
	size_t n = 0;
	ssize_t got = 0;

	while (n + 1 < size &&
	       ((got = read(fd, said + n, size - 1 - n)) > 0 || (got < 0 && errno == EINTR)))
		n += got > 0 ? (size_t)got : 0;
	said[n] = '\0';
	return got == 0 ? 0 : -1;
}

/* --- signals ------------------------------------------------------------------------------------ */

static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
static volatile sig_atomic_t running, asked;

/* Ours are the program's: it ends in order, and we go on to clean up behind it. */
static void pass_on(int sig)
{
	int saved = errno;

	asked = sig;
	if (running > 0)
		(void)kill(running, SIGTERM);
	errno = saved;
}

void env_guard(void)
{
	const struct sigaction sa = { .sa_handler = pass_on };
	struct sigaction old;

	for (unsigned int i = 0; i < ARRAY_LEN(signals); i++)
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &sa, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
}

int env_asked(void)
{
	return asked;
}

/* The program, unless we were asked to end: none that comes meanwhile is missed. -1: errno says why. */
static pid_t start(const struct words *w, int out)
{
	sigset_t set, old;
	pid_t pid = -1, parent = getpid();

	(void)sigemptyset(&set);
	for (unsigned int i = 0; i < ARRAY_LEN(signals); i++)
		(void)sigaddset(&set, signals[i]);
	(void)sigprocmask(SIG_BLOCK, &set, &old);
	errno = EINTR;
	if (asked == 0)
		pid = fork();
	if (pid != 0)
		running = pid;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid == 0)
		become(w, out, parent);
	return pid;
}

/* --- room --------------------------------------------------------------------------------------- */

/* What has no name any more takes room, too, and nobody can count it. */
static bool is_disk_full(const char *path)
{
	struct statvfs st;
	uint64_t floor;

	if (statvfs(path, &st) < 0)
		return false;
	floor = (uint64_t)st.f_blocks * st.f_frsize / DISK_PART;
	if (floor > DISK_FLOOR)
		floor = DISK_FLOOR;
	return (uint64_t)st.f_bavail * st.f_frsize < floor;
}

bool env_fits(const struct env_opts *o, const char *tree, struct envtree_size *ret)
{
	envtree_measure(tree, o->bytes, ret);
	if (ret->bytes > o->bytes)
		say("it has become larger than --bytes allows (%llu)",
		    (unsigned long long)o->bytes);
	else if (ret->entries > ENVTREE_ENTRIES_MAX)
		say("it has more than %d files", ENVTREE_ENTRIES_MAX);
	else if (ret->hidden)
		say("it has directories that are too deep, or that cannot be looked into");
	else if (is_disk_full(tree))
		say("the disk has hardly any room left");
	else
		return true;
	return false;
}

/* Its status; one that fills the disk is ended: a quota cannot be had everywhere. */
static int watch(pid_t pid, const struct env_opts *o, const struct boxed *b)
{
	uint64_t look_us = clock_us() + LOOK_US;
	struct envtree_size size;
	int status = 0;
	pid_t ended;

	while ((ended = waitpid(pid, &status, b->tree != NULL ? WNOHANG : 0)) <= 0) {
		uint64_t began_us;

		if (ended < 0 && errno != EINTR)
			return EXIT_GLOVEBOX;
		began_us = clock_us();
		(void)poll(NULL, 0, TURN_MS);
		if (b->tree == NULL || began_us < look_us)
			continue;
		if (!env_fits(o, b->tree, &size)) {
			(void)kill(pid, SIGTERM);
			(void)waitpid(pid, &status, 0);
			return EXIT_GLOVEBOX;
		}
		/* However many files there are, most of the time goes to whoever writes them. */
		look_us = clock_us() + LOOK_US + LOOK_PART * (clock_us() - began_us);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNAL_BASE + WTERMSIG(status);
}

static int failed(const char *what)
{
	struct err e;

	(void)err_set(&e, ERR_SYS, errno, "%s", what);
	return say_err(&e);
}

int env_run(const struct env_opts *o, const struct boxed *b)
{
	struct words w = { .n = 0 };
	int pair[2] = { -1, -1 }, status;
	pid_t pid;

	if (b->said != NULL && pipe2(pair, O_CLOEXEC) < 0)
		return failed("make a pipe");
	command(&w, o, b, o->dir);
	(void)fflush(NULL);
	pid = start(&w, pair[1]);
	fd_close(&pair[1]);
	if (pid > 0 && b->said != NULL && hear(pair[0], b->said, b->size) < 0)
		(void)kill(pid, SIGTERM);
	fd_close(&pair[0]);
	if (pid > 0)
		status = watch(pid, o, b);
	else
		status = asked != 0 ? EXIT_SIGNAL_BASE + asked : failed("start 'glovebox run'");
	running = 0;
	for (unsigned int i = 0; i < w.nmine; i++)
		free(w.mine[i]);
	return status;
}
