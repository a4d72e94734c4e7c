// SPDX-License-Identifier: Apache-2.0
/*
 * A server of MCP that is a program of ours: lines of JSON over its standard input and output.
 *
 * It is a process group of its own, so that Ctrl-C is ours to act on, and runs on this machine, outside any box. It is ended with
 * grace: its input ends, then SIGTERM, then SIGKILL for the whole group; it does not outlive us.
 */
#include "cli/toolway.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/say.h"
#include "tools/lines.h"

#include "config.gen.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { READ_SIZE = 65536, GRACE_MS = 2000 };

struct stdio {
	struct toolway link; /* the first member */
	pid_t pid;
	int in, out, words; /* its standard input, output and error; -1: closed */
	struct bytes sending;
	size_t sent;
	struct lines said;
};

/* --- out ------------------------------------------------------------------------------------------ */

static void push(struct stdio *s)
{
	while (s->in >= 0 && s->sent < s->sending.n) {
		ssize_t n = write(s->in, s->sending.p + s->sent, s->sending.n - s->sent);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno != EINTR)
			fd_close(&s->in); /* what it has said before is read to its end */
		s->sent += n > 0 ? (size_t)n : 0;
	}
	s->sent = 0;
	bytes_clear(&s->sending);
}

static int send_message(struct mcpc_way *w, const struct mcpc_message *m)
{
	struct stdio *s = (struct stdio *)w;

	if (s->sent > 0) {
		bytes_splice(&s->sending, 0, s->sent, NULL, 0);
		s->sent = 0;
	}
	bytes_put(&s->sending, m->text, m->n);
	bytes_put(&s->sending, "\n", 1);
	if (s->sending.failed)
		return -ENOBUFS;
	push(s);
	return 0;
}

static bool is_idle(const struct toolway *l)
{
	const struct stdio *s = (const struct stdio *)l;

	return s->in < 0 || s->sent >= s->sending.n;
}

/* --- in ------------------------------------------------------------------------------------------- */

static void lost(struct stdio *s)
{
	siginfo_t how = { 0 };
	const char *what = "the server has closed its output";
	char text[64];

	/* Who has no output is ending, or will be made to. */
	for (int i = 0; i < 20 && how.si_pid == 0; i++) {
		(void)waitid(P_PID, (id_t)s->pid, &how, WEXITED | WNOWAIT | WNOHANG);
		if (how.si_pid == 0)
			(void)poll(NULL, 0, 10);
	}
	if (how.si_pid != 0) {
		(void)snprintf(text, sizeof(text), "the server has ended, by %s %d",
			       how.si_code == CLD_EXITED ? "status" : "signal", how.si_status);
		what = text;
	}
	mcpc_lost(&s->link.client, "%s", what);
}

static void pull(struct stdio *s, uint64_t now_us)
{
	static char buf[READ_SIZE];
	ssize_t n = read(s->out, buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fd_close(&s->out);
		lost(s);
		return;
	}
	lines_take(&s->said, &s->link.client, buf, (size_t)n, now_us);
}

static void pull_words(struct stdio *s)
{
	char buf[4096];
	ssize_t n = read(s->words, buf, sizeof(buf));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fd_close(&s->words);
		return;
	}
	lines_words(&s->said, buf, (size_t)n);
}

static unsigned int wait_for(struct toolway *l, struct pollfd *p, uint64_t *deadline_us)
{
	struct stdio *s = (struct stdio *)l;
	bool full = s->sent < s->sending.n;

	(void)deadline_us;
	p[0] = (struct pollfd){ .fd = s->out, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = s->words, .events = POLLIN };
	p[2] = (struct pollfd){ .fd = full ? s->in : -1, .events = POLLOUT };
	return 3;
}

static void step(struct toolway *l, const struct pollfd *p, unsigned int n, uint64_t now_us)
{
	struct stdio *s = (struct stdio *)l;

	(void)n;
	if (p[1].revents != 0)
		pull_words(s);
	if (p[2].revents != 0)
		push(s);
	if (p[0].revents != 0)
		pull(s, now_us);
}

/* --- the program ---------------------------------------------------------------------------------- */

static _Noreturn void exec_server(const struct mcp_place *p, const int fds[3], int told)
{
	int error;

	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	for (int sig = 1; sig < 32; sig++)
		(void)signal(sig, SIG_DFL);
	for (char *const *v = p->env; v != NULL && *v != NULL; v++)
		(void)putenv(*v);
	/* All three are above 2: see hold_standard_descriptors(). */
	for (int i = 0; i < 3; i++)
		if (fds[i] >= 0 && dup2(fds[i], i) < 0)
			_exit(127);
	(void)execvp(p->argv[0], p->argv);
	error = errno;
	(void)io_write_all(told, &error, sizeof(error));
	_exit(127);
}

static int start(struct stdio *s, const struct mcp_place *p, struct err *e)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, words[2] = { -1, -1 }, told[2] = { -1, -1 };
	int error = 0;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(told, O_CLOEXEC) < 0 ||
	    (!p->verbose && pipe2(words, O_CLOEXEC) < 0))
		error = errno;
	if (error == 0) {
		s->pid = fork();
		if (s->pid == 0)
			exec_server(p, (int[]){ in[0], out[1], words[1] }, told[1]);
		error = s->pid < 0 ? errno : 0;
	}
	fd_close(&in[0]);
	fd_close(&out[1]);
	fd_close(&words[1]);
	fd_close(&told[1]);
	s->in = in[1];
	s->out = out[0];
	s->words = words[0];
	if (error == 0 && io_read_full(told[0], &error, sizeof(error)) != (ssize_t)sizeof(error))
		error = 0;
	fd_close(&told[0]);
	if (error != 0)
		return err_set(e, ERR_INPUT, error, "run '%s'", p->argv[0]);
	(void)setpgid(s->pid, s->pid);
	(void)io_set_nonblock(s->in, 1);
	(void)io_set_nonblock(s->out, 1);
	if (s->words >= 0)
		(void)io_set_nonblock(s->words, 1);
	return 0;
}

/* Whether it ends within this time; what it still says is thrown away, so that it can. */
static bool ends_within(struct stdio *s, unsigned int ms)
{
	uint64_t until = clock_us() + ms * US_PER_MS;
	char drop[4096];

	for (;;) {
		siginfo_t how = { 0 };

		(void)waitid(P_PID, (id_t)s->pid, &how, WEXITED | WNOWAIT | WNOHANG);
		if (how.si_pid != 0)
			return true;
		if (clock_us() >= until)
			return false;
		while (s->out >= 0 && read(s->out, drop, sizeof(drop)) > 0)
			if (clock_us() >= until)
				return false;
		if (s->words >= 0)
			pull_words(s);
		(void)poll(NULL, 0, 5);
	}
}

static void stop(struct stdio *s)
{
	fd_close(&s->in);
	if (s->pid <= 0)
		return;
	if (!ends_within(s, GRACE_MS)) {
		(void)kill(-s->pid, SIGTERM);
		(void)ends_within(s, GRACE_MS);
	}
	/* Its group has its name as long as it is not waited for. */
	(void)kill(-s->pid, SIGKILL);
	while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void release(struct stdio *s)
{
	stop(s);
	fd_close(&s->out);
	fd_close(&s->words);
	bytes_done(&s->sending);
	lines_done(&s->said);
	free(s);
}

static void end(struct toolway *l)
{
	release((struct stdio *)l);
}

static void last_words(const struct toolway *l)
{
	const struct stdio *s = (const struct stdio *)l;
	const char *p = s->said.last, *stop_at = p + s->said.nlast;

	while (p < stop_at) {
		const char *lf = memchr(p, '\n', (size_t)(stop_at - p));
		size_t n = (size_t)((lf != NULL ? lf : stop_at) - p);

		if (n > 0)
			say("the server says: %.*s", (int)n, p);
		p += n + 1;
	}
}

struct toolway *toolway_stdio_open(const struct mcp_place *p, const struct mcpc_bounds *b,
				   struct err *e)
{
	static const struct mcp_transport transport = { wait_for, step, is_idle,
							NULL,     end,  last_words };
	struct stdio *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		(void)err_set(e, ERR_SYS, ENOMEM, "start a server");
		return NULL;
	}
	s->in = s->out = s->words = -1;
	s->link.transport = &transport;
	s->link.way.send = send_message;
	bytes_init(&s->sending, b->message_bytes);
	lines_init(&s->said, b->message_bytes);
	mcpc_init(&s->link.client, &s->link.way, b, "glovebox", GLOVEBOX_VERSION);
	if (start(s, p, e) < 0) {
		release(s);
		return NULL;
	}
	return &s->link;
}
