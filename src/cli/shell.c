// SPDX-License-Identifier: Apache-2.0
/*
 * `glovebox shell`. Phases: take the command line, find or start a server, find or make a box, one cell after another, end
 * the box, end the server. Signals that end us end the session in the same order.
 */
#include "cli/shell.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/cell_text.h"
#include "cli/say.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include "cli/wake.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { CELL_MAX = 8 * 1024 * 1024, TYPED_MAX = 4 * 1024 * 1024 };

/* --- one cell from standard input ------------------------------------------------------------------ */

/* All of standard input. It may be a terminal: signals are heard. How much, or -errno. */
static ssize_t read_cell(struct shell *s, char *code, size_t size)
{
	size_t n = 0;
	ssize_t got = 1;

	while (n < size && got > 0) {
		struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				       { .fd = wake_fd(), .events = POLLIN } };
		struct wake w;

		(void)poll(p, 2, clock_poll_ms(s->alive_us));
		wake_take(&w);
		if (w.end != 0 || w.ints > 0)
			return -EINTR;
		shell_keep_alive(s);
		if (p[0].revents == 0)
			continue;
		got = read(STDIN_FILENO, code + n, size - n);
		if (got < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		n += got > 0 ? (size_t)got : 0;
		got = got < 0 ? 1 : got;
	}
	return (ssize_t)n;
}

/* n: how much of it there is, or -errno. */
static int run_piped(struct shell *s, const char *code, ssize_t n, struct err *e)
{
	if (n < 0)
		return err_set(e, ERR_INPUT, (int)-n, "read standard input");
	if (n > CELL_MAX)
		return err_set(e, ERR_INPUT, 0, "the cell is larger than %d MiB", CELL_MAX >> 20);
	if (memchr(code, '\0', (size_t)n) != NULL)
		return err_set(e, ERR_INPUT, 0, "the cell has a NUL in it: it is no text");
	return shell_cell(s, code, (size_t)n, e);
}

static int piped(struct shell *s, struct err *e)
{
	char *code = malloc(CELL_MAX + 1);
	int r = run_piped(s, code, code != NULL ? read_cell(s, code, CELL_MAX + 1) : -ENOMEM, e);

	free(code);
	return r;
}

/* --- one after another ---------------------------------------------------------------------------- */

/* Where its kernel is, if there is one already. */
static void find_count(struct shell *s)
{
	char tail[64];
	struct call q = { .method = "GET", .flags = CALL_INT };
	struct reply r;
	struct err ignored;

	s->count = 1;
	(void)snprintf(tail, sizeof(tail), "/kernels/%s", s->o->kernel);
	q.path = shell_path(s, tail);
	if (s->made || client_call(&s->c, &q, &r, &ignored) < 0)
		return;
	s->count = node_int(&r.doc, reply_root(&r), "execution_count", 0) + 1;
	reply_free(&r);
}

/* What was typed. 1: on to the next prompt. 0: that was all. -1: e. A cell that was refused, or a server that is away, is no
 * reason to end the box and everything in it. */
static int run_typed(struct shell *s, const char *code, struct err *e)
{
	int r;

	if (cell_is_blank(code))
		return 1;
	history_add(&s->history, code);
	if (cell_is_exit(code))
		return 0;
	r = shell_cell(s, code, strlen(code), e);
	if (r < 0 && (s->over || wake_end() != 0))
		return -1;
	if (r < 0)
		(void)say_err(e);
	show_line(&s->show, "%s", ""); /* as IPython does */
	return !s->leaving;
}

static int one_cell(struct shell *s, struct err *e)
{
	enum shell_read read = shell_read(s);
	char *code;
	int r;

	if (read != SHELL_CELL)
		return read == SHELL_DROPPED;
	code = strdup(bytes_str(&s->line.text)); /* input() is going to need the editor */
	r = code != NULL ? run_typed(s, code, e) : err_set(e, ERR_SYS, ENOMEM, "keep the cell");
	free(code);
	return r;
}

static int session(struct shell *s, struct err *e)
{
	own_free char *path = history_path();
	unsigned int cols, rows;
	int r = 1;

	term_size(&cols, &rows);
	history_load(&s->history, path);
	line_init(&s->line, &s->history, cols, rows);
	bytes_init(&s->typed, TYPED_MAX);
	find_count(s);
	show_line(&s->show, "Python in the box %s%s. Ctrl-D leaves.\n", s->box,
		  s->made && !s->o->keep ? ", which ends with this session" : "");
	while (r > 0)
		r = one_cell(s, e);
	line_done(&s->line);
	bytes_done(&s->typed);
	history_done(&s->history);
	return r;
}

static int in_box(struct shell *s, struct err *e)
{
	int r;

	if (s->o->sh)
		return shell_tty(s, e);
	s->interactive = term_open() && isatty(STDOUT_FILENO);
	show_init(&s->show, s->o->images, s->interactive);
	r = s->interactive ? session(s, e) : piped(s, e);
	show_done(&s->show);
	return r;
}

int verb_shell(int argc, char **argv)
{
	static struct shell_opts o;
	static struct shell s;
	struct err e = { .kind = ERR_NONE };
	int r;

	if (shell_opts(&o, argc, argv, &e) < 0)
		return say_err(&e);
	if (o.client.help)
		return 0;
	if (o.sh && !term_open()) {
		(void)err_set(&e, ERR_USAGE, 0, "--sh needs a terminal");
		(void)err_hint(&e, "'glovebox exec BOX -- bash' takes a script on standard input");
		return say_err(&e);
	}
	(void)signal(SIGPIPE, SIG_IGN);
	(void)wake_start(WAKE_INT);
	s.o = &o;
	r = shell_open(&s, &e);
	if (r == 0)
		r = in_box(&s, &e);
	(void)term_set(TERM_AS_IT_WAS);
	shell_close(&s);
	if (wake_end() != 0)
		return EXIT_SIGNAL_BASE + wake_end();
	if (r < 0 && e.sys == EINTR)
		return EXIT_SIGNAL_BASE + SIGINT;
	return r < 0 ? say_err(&e) : r;
}
