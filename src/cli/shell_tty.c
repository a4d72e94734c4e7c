// SPDX-License-Identifier: Apache-2.0
/*
 * `glovebox shell --sh`: a shell of the box with a terminal there, connected to ours. All keys go through. A connection
 * that is lost is made anew, to the same shell; what it said last is shown again.
 */
#include "cli/shell.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/say.h"
#include "cli/term.h"
#include "cli/term_modes.h"
#include "cli/verbs.h"
#include "cli/wake.h"
#include "cli/ws_client.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum {
	PIECE = 16 * 1024,
	PATIENCE_S = 30,
	PAUSE_MS = 500,
};

struct tty {
	struct shell *s;
	struct ws_client ws;
	struct term_modes modes;
	char id[FOLLOW_ID]; /* of the terminal; "": not told yet */
	bool exited;
	int status;
	int error; /* -errno: nobody takes what we write */
};

/* --- what the box says ---------------------------------------------------------------------------- */

static void take_exit(struct tty *t, const struct jsonr *d, const struct jsonr_node *exit)
{
	int64_t code = node_int(d, exit, "exit_code", -1), sig = node_int(d, exit, "signal", -1);

	t->exited = true;
	t->status = code >= 0 && code < 256 ? (int)code
		    : sig > 0 && sig < 65   ? EXIT_SIGNAL_BASE + (int)sig
					    : EXIT_GLOVEBOX;
}

static void take_text(struct tty *t, const struct ws_message *m)
{
	own_free char *text = strndup((const char *)m->p, m->n);
	struct jsonr d = { 0 };
	const struct jsonr_node *exit;
	const char *id;

	if (text == NULL || jsonr_parse(&d, text, strlen(text), NULL) < 0)
		return;
	exit = jsonr_get(&d, jsonr_root(&d), "exit");
	id = node_str(&d, jsonr_root(&d), "tty");
	if (exit != NULL)
		take_exit(t, &d, exit);
	if (follow_is_id(id))
		(void)snprintf(t->id, sizeof(t->id), "%s", id);
	jsonr_done(&d);
}

static void on_message(void *arg, const struct ws_message *m)
{
	struct tty *t = arg;

	if (m->type == WS_TEXT)
		take_text(t, m);
	else if (t->error == 0) {
		term_modes_put(&t->modes, m->p, m->n);
		t->error = wake_write(STDOUT_FILENO, m->p, m->n, NULL, NULL);
	}
}

/* --- what we say ---------------------------------------------------------------------------------- */

static void send_size(struct tty *t)
{
	unsigned int cols, rows;
	char text[64];
	int n;

	term_size(&cols, &rows);
	n = snprintf(text, sizeof(text), "{\"resize\":[%u,%u]}", cols, rows);
	(void)ws_client_send(&t->ws, WS_TEXT, text, (size_t)n);
}

/* false: the terminal is gone. */
static bool send_keys(struct tty *t)
{
	char buf[PIECE];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf));

	if (n > 0)
		(void)ws_client_send(&t->ws, WS_BINARY, buf, (size_t)n);
	return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

/* --- the connection ------------------------------------------------------------------------------- */

static int connect_tty(struct tty *t, bool *refused, struct err *e)
{
	char tail[FOLLOW_ID + 16] = "/tty";

	if (t->id[0] != '\0')
		(void)snprintf(tail, sizeof(tail), "/tty?tty=%s", t->id);
	if (ws_client_open(&t->ws, &t->s->c, shell_path(t->s, tail), refused, e) < 0)
		return -1;
	send_size(t);
	return 0;
}

/* While there is no connection: whether to give up, by a signal or by Ctrl-C. */
static bool is_tired(void)
{
	struct pollfd p = { .fd = wake_fd(), .events = POLLIN };
	struct wake w;

	(void)poll(&p, 1, PAUSE_MS);
	wake_take(&w);
	if (w.goes_on)
		term_again();
	return w.end != 0 || w.ints > 0;
}

static int is_lost(const struct tty *t, struct err *e)
{
	return err_set(e, ERR_SYS, ECONNRESET, "the connection to %s is lost", t->s->c.url.shown);
}

static int try_again(struct tty *t, struct err *e)
{
	uint64_t deadline = clock_us() + PATIENCE_S * US_PER_S;
	bool refused = false;

	while (clock_us() < deadline) {
		if (connect_tty(t, &refused, e) == 0)
			return 0;
		if (refused)
			return -1;
		if (is_tired())
			return is_lost(t, e);
	}
	return -1;
}

/* Who waits for a server hears Ctrl-C, which is no signal otherwise. */
static int reconnect(struct tty *t, struct err *e)
{
	if (t->id[0] == '\0')
		return is_lost(t, e);
	(void)fprintf(stderr,
		      "\r\nglovebox: the connection is lost, trying again (Ctrl-C gives up)\r\n");
	(void)term_set(TERM_WAIT);
	if (try_again(t, e) < 0)
		return -1;
	(void)term_set(TERM_RAW);
	t->error = wake_write(STDOUT_FILENO, "\033[H\033[2J", 7, NULL, NULL);
	return 0;
}

/* --- the loop ------------------------------------------------------------------------------------- */

/* false: a signal that ends us. */
static bool on_wake(struct tty *t)
{
	struct wake w;

	wake_take(&w);
	if (w.goes_on)
		term_again();
	if (w.resized || w.goes_on)
		send_size(t);
	return w.end == 0 && w.ints == 0;
}

/* 1: goes on. 0: over. -1: e. */
static int turn(struct tty *t, struct err *e)
{
	bool keys = t->ws.out.n < WS_QUEUE_HIGH;
	struct pollfd p[3] = { { .fd = t->ws.fd, .events = ws_client_events(&t->ws) },
			       { .fd = wake_fd(), .events = POLLIN },
			       { .fd = keys ? STDIN_FILENO : -1, .events = POLLIN } };
	int r;

	(void)poll(p, 3, ws_client_has_early(&t->ws) ? 0 : clock_poll_ms(t->s->alive_us));
	if (p[1].revents != 0 && !on_wake(t))
		return err_set(e, ERR_SYS, EINTR, "wait for the shell");
	if (p[2].revents != 0 && !send_keys(t))
		return err_set(e, ERR_SYS, EIO, "the terminal is gone");
	shell_keep_alive(t->s);
	r = ws_client_step(&t->ws, on_message, t);
	if (t->error < 0)
		return err_set(e, ERR_INPUT, -t->error, "write what the shell says");
	if (t->exited)
		return 0;
	if (r == 0)
		return err_set(e, ERR_INPUT, 0, "the terminal was closed: %s (%u)", t->ws.why,
			       t->ws.closed);
	return r < 0 ? reconnect(t, e) == 0 ? 1 : -1 : 1;
}

/* What a program there has switched on and could not switch off: its box has ended, or we do. */
static void switch_off(const struct tty *t)
{
	struct bytes off;

	bytes_init(&off, 1024);
	term_modes_off(&t->modes, &off);
	(void)wake_write(STDOUT_FILENO, bytes_str(&off), off.n, NULL, NULL);
	bytes_done(&off);
}

int shell_tty(struct shell *s, struct err *e)
{
	static struct tty t;
	bool refused;
	int r;

	t.s = s;
	ws_client_init(&t.ws);
	r = connect_tty(&t, &refused, e);
	if (r == 0 && term_set(TERM_RAW) < 0)
		r = err_set(e, ERR_SYS, EIO, "set the terminal's mode");
	r = r == 0 ? 1 : -1;
	while (r > 0)
		r = turn(&t, e);
	switch_off(&t);
	(void)term_set(TERM_AS_IT_WAS);
	ws_client_close(&t.ws);
	return r < 0 ? -1 : t.status;
}
