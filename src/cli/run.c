// SPDX-License-Identifier: Apache-2.0
/*
 * `glovebox run`: one program in a fresh box, without a server.
 *
 * Phases: take the command line, start a keeper of our own, make the box, stage files, run, collect,
 * end the box, report. This process plays the gate: it talks to the keeper and to the box's init
 * and never touches the box in any other way. Whatever happens, the keeper sees our end of the
 * channel close and removes everything.
 */
#include "cli/run.h"
#include "cli/gate_program.h"
#include "cli/keeper_client.h"

#include "base/io.h"
#include "base/own.h"
#include "cli/opts.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>

enum { CODE_MAX = 16 * 1024 * 1024, GRACE_S = 2 };

/* --- signals: the one thing that has to be global ------------------------------------------- */

static volatile sig_atomic_t asked_int, asked_end, asked_resize;
static int wake_fd[2] = { -1, -1 };

static void on_signal(int sig)
{
	int saved = errno;

	if (sig == SIGINT)
		asked_int = asked_int + 1;
	else if (sig == SIGWINCH)
		asked_resize = 1;
	else if (sig == SIGALRM)
		asked_int = 2;
	else
		asked_end = sig;
	(void)!write(wake_fd[1], "s", 1);
	errno = saved;
}

/* While the program runs, signals are passed on or end the box in order. Before and after they simply
 * end us, and the keeper cleans up. What the caller ignores (nohup) stays ignored. No SA_RESTART: a wait
 * is to end. */
static void watch_signals(bool on, bool tty)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGWINCH };
	struct sigaction sa = { .sa_handler = SIG_DFL }, old;

	if (wake_fd[0] < 0 && pipe2(wake_fd, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	if (on)
		sa.sa_handler = on_signal;
	for (unsigned int i = 0; i < ARRAY_LEN(signals); i++)
		if ((signals[i] != SIGWINCH || tty) && sigaction(signals[i], NULL, &old) == 0 &&
		    old.sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &sa, NULL);
}

struct state {
	const struct run_request *q;
	struct run_result *res;
	int ints_passed;
	int out_fd[2];
};

/* The first Ctrl-C goes to the program; a second one, or none of its ending within two seconds,
 * ends the box. */
static int on_interrupt(void *arg)
{
	struct state *s = arg;
	char drop[16];

	while (read(wake_fd[0], drop, sizeof(drop)) > 0)
		;
	if (asked_end != 0 || asked_int > 1) {
		s->res->interrupted = asked_end != 0 ? (int)asked_end : SIGINT;
		return -1;
	}
	if (asked_int == 1 && s->ints_passed == 0) {
		s->ints_passed = 1;
		s->res->interrupted = SIGINT;
		(void)alarm(GRACE_S);
		return SIGINT;
	}
	if (asked_resize != 0) {
		asked_resize = 0;
		return SIGWINCH;
	}
	return 0;
}

/* --- output ----------------------------------------------------------------------------------- */

static int keep(struct capture *c, const uint8_t *p, size_t n)
{
	if (c->cap - c->len < n) {
		size_t cap = c->cap * 2 + n + 4096;
		uint8_t *buf = realloc(c->buf, cap);

		if (buf == NULL)
			return -ENOMEM;
		c->buf = buf;
		c->cap = cap;
	}
	(void)memcpy(c->buf + c->len, p, n);
	c->len += n;
	return 0;
}

/* Our standard output without waiting in it, so that a signal is seen even if nobody reads. A pipe is opened
 * anew for that: the flag belongs to whoever shares it with us, too. */
static int open_output(int fd)
{
	char self[32];
	struct stat st;
	int again = -1;

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
		again = open(self, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	return again >= 0 ? again : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

/* Wait until fd takes more. -EINTR: we are to end. */
static int wait_output(struct state *s, int fd)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLOUT },
			       { .fd = wake_fd[0], .events = POLLIN } };

	if (asked_end == 0 && asked_int == 0)
		(void)poll(p, 2, -1);
	/* Nobody reads: then the first Ctrl-C ends it, for the program could not tell either. */
	if (asked_end == 0 && asked_int == 0)
		return 0;
	s->res->interrupted = asked_end != 0 ? (int)asked_end : SIGINT;
	return -EINTR;
}

static int on_output(void *arg, unsigned int stream, const uint8_t *p, size_t n)
{
	struct state *s = arg;
	int fd = s->out_fd[stream - 1], r;

	if (s->q->json)
		return keep(&s->res->out[stream - 1], p, n);
	while (n > 0) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && (errno == EAGAIN || errno == EINTR)) {
			r = wait_output(s, fd);
			if (r < 0)
				return r;
			continue;
		}
		if (w < 0)
			return -errno;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

/* --- the program ------------------------------------------------------------------------------ */

struct program {
	uint8_t *code;
	size_t len;
	const char *name; /* in the workspace */
};

static int read_source(const struct run_request *q, struct program *p, struct err *e)
{
	bool from_stdin = q->source != NULL && strcmp(q->source, "-") == 0;
	own_fd fd = -1;
	struct stat st;
	ssize_t n;

	p->name = q->shell ? "__main__.sh" : "__main__.py";
	if (q->code != NULL) {
		p->code = (uint8_t *)strdup(q->code);
		p->len = strlen(q->code);
		return p->code != NULL ? 0 : err_set(e, ERR_SYS, ENOMEM, "keep the program");
	}
	if (q->source == NULL)
		return err_set(e, ERR_USAGE, 0, "no program to run");
	fd = from_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
			: open(q->source, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_INPUT, errno, "open '%s'", q->source);
	if (S_ISDIR(st.st_mode))
		return err_set(e, ERR_INPUT, EISDIR, "open '%s'", q->source);
	if (!from_stdin) {
		const char *slash = strrchr(q->source, '/');

		p->name = slash != NULL ? slash + 1 : q->source;
	}
	p->code = malloc(CODE_MAX + 1);
	if (p->code == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "read '%s'", q->source);
	n = io_read_full(fd, p->code, CODE_MAX + 1);
	if (n < 0)
		return err_set(e, ERR_INPUT, (int)-n, "read '%s'", q->source);
	if (n > CODE_MAX)
		return err_set(e, ERR_INPUT, 0, "'%s' is larger than %d MiB", q->source,
			       CODE_MAX >> 20);
	p->len = (size_t)n;
	return 0;
}

static const char *interpreter(const struct run_request *q)
{
	if (q->interpreter != NULL)
		return q->interpreter;
	if (q->shell)
		return "/bin/bash";
	return q->made_of != NULL ? q->made_of->python : "/usr/bin/python3";
}

static unsigned int set_env(const char **env, unsigned int n, const char *entry)
{
	size_t len = strcspn(entry, "=") + 1;

	for (unsigned int i = 0; i < n; i++)
		if (strncmp(env[i], entry, len) == 0) {
			env[i] = entry;
			return n;
		}
	env[n] = entry;
	return n + 1;
}

/* What an environment brings along. */
static unsigned int set_env_of(const char **env, unsigned int n, const struct env_row *r)
{
	static char path[2 * ENV_PATH];

	if (r->kind == ENV_PACKAGES)
		n = set_env(env, n, "VIRTUAL_ENV=" ENV_PLACE);
	if (r->path[0] != '\0')
		(void)snprintf(path, sizeof(path), "PATH=%s", r->path);
	else if (r->kind == ENV_PACKAGES)
		(void)snprintf(path, sizeof(path), "PATH=" ENV_PLACE "/bin:%s", &env[0][5]);
	if (path[0] != '\0')
		n = set_env(env, n, path);
	for (const char *v = r->variables; v < r->variables + r->variables_len; v += strlen(v) + 1)
		n = set_env(env, n, v);
	return n;
}

static const char *const *environment(const struct run_request *q)
{
	static const char *const defaults[] = {
#define ENV(name, value) name "=" value,
#include "policy/environment.tbl"
#undef ENV
	};
	static const char *env[RUN_ENV_MAX + ARRAY_LEN(defaults) + ENV_VARIABLES / 4 + 8];
	unsigned int n = 0;

	for (unsigned int i = 0; i < ARRAY_LEN(defaults); i++)
		n = set_env(env, n, defaults[i]);
	if (q->tty)
		n = set_env(env, n, "TERM=xterm-256color");
	if (q->made_of != NULL)
		n = set_env_of(env, n, q->made_of);
	for (unsigned int i = 0; i < q->nenv; i++)
		n = set_env(env, n, q->env[i]);
	env[n] = NULL;
	return env;
}

static int open_input(const struct run_request *q, struct err *e)
{
	int fd;

	if (q->tty || (q->stdin_file != NULL && *q->stdin_file == '\0'))
		return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	if (q->stdin_file == NULL)
		return -1;
	fd = open(q->stdin_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? (void)err_set(e, ERR_INPUT, errno, "open '%s'", q->stdin_file), -2 : fd;
}

static int raw_terminal(const struct run_request *q, struct termios *saved)
{
	struct termios raw;

	if (!q->tty || tcgetattr(STDIN_FILENO, saved) < 0)
		return 0;
	raw = *saved;
	cfmakeraw(&raw);
	return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static int run_program(struct box_client *b, struct state *s, const struct program *p,
		       struct err *e)
{
	static const char *argv[4100];
	static char dashed[NAME_MAX + 3];
	const struct run_request *q = s->q;
	own_fd in = open_input(q, e);
	struct job_io io = {
		.in_fd = in, .tty = q->tty, .out = on_output, .interrupt = on_interrupt, .arg = s
	};
	struct job_spec spec = {
		.kind = JOB_EXEC,
		.flags = JOB_SWEEP | (in >= 0 && !q->tty ? JOB_STDIN : 0) | (q->tty ? JOB_PTY : 0),
		.timeout_us = q->timeout_us,
		.output_max = q->box.limits.v[LIMIT_OUTPUT],
		.cwd = "/workspace",
		.argv = argv,
		.envp = environment(q),
	};
	struct termios saved;
	unsigned int n = 0;
	int raw, r;

	if (in == -2)
		return -1;
	argv[n++] = interpreter(q);
	if (p->name[0] == '-') { /* a name, not an option of the interpreter */
		(void)snprintf(dashed, sizeof(dashed), "./%s", p->name);
		argv[n++] = dashed;
	} else {
		argv[n++] = p->name;
	}
	for (char **a = q->args; *a != NULL; a++) {
		if (n >= ARRAY_LEN(argv) - 1)
			return err_set(e, ERR_USAGE, E2BIG, "arguments of the program");
		argv[n++] = *a;
	}
	argv[n] = NULL;
	s->out_fd[0] = open_output(STDOUT_FILENO);
	s->out_fd[1] = open_output(STDERR_FILENO);
	watch_signals(true, q->tty);
	io.interrupt_fd = wake_fd[0];
	raw = raw_terminal(q, &saved);
	if (q->tty)
		asked_resize = 1; /* tell the box our size first */
	r = box_run(b, &spec, &io, &s->res->exit, e);
	if (raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
	(void)alarm(0);
	watch_signals(false, q->tty);
	fd_close(&s->out_fd[0]);
	fd_close(&s->out_fd[1]);
	if (r < 0)
		return -1;
	s->res->ran = true;
	if (s->res->exit.how == JOB_FAILED) {
		(void)err_set(e, ERR_INPUT, s->res->exit.code, "start '%s' in the box (%s)",
			      argv[0], s->res->exit.stage);
		return err_hint(e, q->made_of != NULL
					   ? "the box shows what its environment has"
					   : "the box shows the programs of this machine's "
					     "/usr; is it installed there?");
	}
	return 0;
}

/* --- phases ----------------------------------------------------------------------------------- */

static int in_box(struct box_client *b, struct state *s, const struct program *p, struct err *e)
{
	struct snapshot *before = NULL;
	own_fd out = -1;
	int r = stage_bytes(b, p->code, p->len, p->name, 0644, e);

	for (unsigned int i = 0; i < s->q->nfiles && r == 0; i++)
		r = stage_file(b, &s->q->files[i], e);
	if (r == 0 && s->q->out_dir != NULL)
		r = collect_open(s->q->out_dir, &out, e);
	if (r == 0 && s->q->out_dir != NULL)
		r = snapshot_take(b, &before, e);
	if (r == 0)
		r = run_program(b, s, p, e);
	if (r == 0 && s->q->out_dir != NULL)
		r = collect(b, before, out, s->q->box.limits.v[LIMIT_WORKSPACE], s->res, e);
	snapshot_free(before);
	return r;
}

static int with_keeper(struct keeper_client *k, struct state *s, const struct program *p,
		       struct err *e)
{
	static struct box_client b;
	struct err end_err;
	int stream = -1, r;

	if (keeper_box_new(k, &s->q->box, &s->res->info, &stream, e) < 0)
		return -1;
	if (s->q->net.policy.mode != NET_NONE &&
	    keeper_box_net(k, s->res->info.box, &s->q->net.policy, e) < 0) {
		(void)close(stream);
		return -1;
	}
	/* Should init ever fail to end the program in time, the keeper ends the box. */
	if (s->q->timeout_us != 0 &&
	    keeper_box_deadline(k, s->res->info.box, s->q->timeout_us + 10 * 1000000ULL, e) < 0) {
		(void)close(stream);
		return -1;
	}
	r = box_open(&b, stream, k, e);
	if (r == 0)
		r = in_box(&b, s, p, e);
	box_close(&b);
	s->res->box_gone = k->box_gone;
	s->res->why = k->gone_why;
	if (s->q->json) {
		int n = keeper_refused(k, s->res->refused, ARRAY_LEN(s->res->refused), &end_err);

		s->res->nrefused = n > 0 ? (unsigned int)n : 0;
	}
	if (keeper_box_end(k, s->res->info.box, &s->res->figures, &end_err) < 0 && r == 0) {
		*e = end_err;
		return -1;
	}
	return r;
}

static int run(const struct run_request *q, struct run_result *res, struct err *e)
{
	struct state s = { .q = q, .res = res };
	struct keeper_client k = { .fd = -1, .pid = -1 };
	struct program p = { 0 };
	const char *args[RUN_ROOTS_MAX + 5];
	char *texts[RUN_ROOTS_MAX + 4];
	unsigned int n = 0;
	own_fd gate = -1;
	int r = read_source(q, &p, e);

	if (r < 0) {
		free(p.code);
		return -1;
	}
	for (unsigned int i = 0; i < q->nroots; i++)
		if (asprintf(&texts[n], "root=%s", q->roots[i]) > 0)
			n++;
	if (q->cgroup != NULL && asprintf(&texts[n], "cgroup=%s", q->cgroup) > 0)
		n++;
	if (q->env_fd >= 0 && asprintf(&texts[n], "envs=%d", q->env_fd) > 0)
		n++;
	if (q->env_fd >= 0) /* for the keeper to inherit */
		(void)fcntl(q->env_fd, F_SETFD, 0);
	if (q->net.policy.mode != NET_NONE) {
		gate = gate_program_open(e);
		/* For the keeper to inherit. */
		r = gate < 0 || fcntl(gate, F_SETFD, 0) < 0 ? -1 : 0;
		if (r == 0 && asprintf(&texts[n], "egress-exec=%d", gate) > 0)
			n++;
		if (q->resolver != NULL &&
		    asprintf(&texts[n], "egress:servers=%s", q->resolver) > 0)
			n++;
	}
	for (unsigned int i = 0; i < n; i++)
		args[i] = texts[i];
	args[n] = NULL;
	if (r == 0)
		r = keeper_start(&k, args, e);
	if (r == 0)
		r = with_keeper(&k, &s, &p, e);
	keeper_stop(&k);
	if (!q->json)
		run_net_say(&k, stderr);
	for (unsigned int i = 0; i < n; i++)
		free(texts[i]);
	free(p.code);
	return r;
}

static void result_done(struct run_result *res)
{
	free(res->out[0].buf);
	free(res->out[1].buf);
	for (unsigned int i = 0; i < res->nfiles; i++)
		free(res->files[i]);
	free(res->files);
}

int verb_run(int argc, char **argv)
{
	static struct run_request q;
	static struct run_result res;
	struct err e = { .kind = ERR_NONE };
	int status;

	if (run_opts(&q, argc, argv, &e) < 0) {
		if (q.json)
			(void)run_json(&q, &res, &e);
		return say_err(&e);
	}
	if (q.help)
		return 0;
	(void)signal(SIGPIPE, SIG_IGN);
	if (run_env_open(&q, &e) == 0 && run(&q, &res, &e) == 0)
		e.kind = ERR_NONE;
	if (e.sys == EPIPE && e.kind == ERR_INPUT) { /* nobody reads our output any more */
		status = EXIT_SIGNAL_BASE + SIGPIPE;
	} else {
		status = run_status(&res, &e);
		if (status == EXIT_GLOVEBOX && e.kind != ERR_NONE)
			(void)say_err(&e);
		if (!q.json)
			run_say(&q, &res);
	}
	if (q.json && run_json(&q, &res, &e) < 0)
		status = EXIT_GLOVEBOX;
	result_done(&res);
	return status;
}
