// SPDX-License-Identifier: Apache-2.0
/*
 * One cell, from its start to its end: what it says is shown as it comes, Ctrl-C interrupts it, input() asks at the
 * terminal. The terminal is as it was meanwhile, so that keys do what they always do, but for input().
 */
#include "cli/shell.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/say.h"
#include "cli/term.h"
#include "cli/wake.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

enum {
	INTERRUPTS = 2, /* that the program hears; the next one ends its kernel */
	ACT_TIMEOUT_MS = 5000,
	GRACE_MS = 60000,        /* the longest that the server gives */
	CANCEL_TIMEOUT_MS = 500, /* who waits for its end need not be answered: events tell of it */
};

struct cell {
	struct shell *s;
	struct follow f;
	bool begun; /* it runs, and does not only wait for its turn */
	bool ok, gave_up;
	int ints;    /* how often it was interrupted */
	bool asking; /* input() waits for the terminal */
	char prompt[256];
};

/* --- its end -------------------------------------------------------------------------------------- */

static const struct {
	const char *status, *words;
} ends[] = {
	{ "timeout", "the cell ran out of time" },
	{ "oom", "the kernel was killed for want of memory" },
	{ "crashed", "the kernel ended under the cell" },
	{ "cancelled", "the cell was cancelled" },
};

/* What a cell leaves to who runs it: a text to be paged through (name?), or the wish to leave (exit()). */
static void take_payload(struct cell *c, const struct follow_event *e)
{
	const struct jsonr_node *list = jsonr_get(e->doc, e->data, "payload");

	for (const struct jsonr_node *n = jsonr_first(e->doc, list); n != NULL;
	     n = jsonr_next(e->doc, n)) {
		const char *source = node_str(e->doc, n, "source");
		struct follow_event page = { .name = "display", .doc = e->doc, .data = n };

		if (strcmp(source, "page") == 0)
			show_event(&c->s->show, &page);
		else if (strcmp(source, "ask_exit") == 0)
			c->s->leaving = true;
	}
}

static void take_end(struct cell *c, const struct follow_event *e)
{
	const char *status = node_str(e->doc, e->data, "status");
	const char *restarted = node_str(e->doc, e->data, "kernel_restarted");
	const struct jsonr_node *cut = jsonr_get(e->doc, e->data, "truncated");

	c->ok = strcmp(status, "ok") == 0;
	c->s->count = node_int(e->doc, e->data, "execution_count", c->s->count - 1) + 1;
	take_payload(c, e);
	show_end(&c->s->show);
	if (restarted[0] != '\0')
		say("before this cell the kernel was started anew (%s): older variables are lost",
		    restarted);
	for (unsigned int i = 0; i < ARRAY_LEN(ends); i++)
		if (strcmp(status, ends[i].status) == 0)
			say("%s", ends[i].words);
	if (node_bool(e->doc, e->data, "state_lost"))
		say("its variables are lost; files are still there");
	if (node_bool(e->doc, cut, "stdout") || node_bool(e->doc, cut, "stderr"))
		say("it printed more than the box keeps; the rest was dropped");
}

/* --- acting on it --------------------------------------------------------------------------------- */

/* How it was taken; what is not there any more, or not waited for, needs nothing more. */
enum act { ACT_DONE, ACT_REFUSED, ACT_HANGS };

static enum act act(struct cell *c, const char *method, const char *path, const struct json *body)
{
	struct call q = { .method = method,
			  .path = path,
			  .body = body,
			  .timeout_ms = body != NULL ? ACT_TIMEOUT_MS : CANCEL_TIMEOUT_MS };
	struct reply r;
	struct err e;
	bool refused;

	if (client_call(&c->s->c, &q, &r, &e) < 0) {
		if (body == NULL && e.sys == ETIMEDOUT)
			return ACT_DONE;
		if (e.sys != EINTR)
			say("%s", e.text);
		return e.sys == ETIMEDOUT ? ACT_HANGS : ACT_REFUSED;
	}
	refused = r.status >= 400 && r.status != 409 && r.status != 404;
	if (refused && reply_refused(&r, &e) < 0)
		say("%s", e.text);
	reply_free(&r);
	return refused ? ACT_REFUSED : ACT_DONE;
}

static void give_up(struct cell *c)
{
	say("not waiting any longer; if the cell runs, it goes on");
	c->gave_up = true;
}

static void interrupt_kernel(struct cell *c)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "kernel", c->s->o->kernel);
	json_close(&j, '}');
	if (act(c, "POST", shell_path(c->s, "/interrupt"), &j) == ACT_HANGS)
		give_up(c);
	json_done(&j);
}

/* A cell that waits for its turn is cancelled: what runs is somebody else's. It may have begun all the same, without our
 * having heard of it: then it is interrupted, and has the longest time there is to end. */
static void interrupt(struct cell *c)
{
	bool last = ++c->ints > INTERRUPTS;
	char tail[FOLLOW_ID + 48];

	if (c->f.id[0] == '\0')
		return;
	if (c->begun && !last) {
		interrupt_kernel(c);
		if (c->ints == INTERRUPTS)
			say("interrupted twice; once more ends the kernel, and its variables are "
			    "lost");
		return;
	}
	(void)snprintf(tail, sizeof(tail), "/cells/%s?grace_ms=%d", c->f.id, last ? 1 : GRACE_MS);
	(void)act(c, "DELETE", shell_path(c->s, tail), NULL);
}

/* --- input() -------------------------------------------------------------------------------------- */

static void stop_asking(struct cell *c)
{
	if (!c->asking)
		return;
	c->asking = false;
	line_leave(&c->s->line);
	shell_flush(c->s);
	(void)term_set(TERM_AS_IT_WAS);
}

/* The last line of the prompt is ours to show; what stands before it is text. */
static void take_prompt(struct cell *c, const char *text)
{
	const char *last = strrchr(text, '\n');
	struct filter plain;
	struct bytes clean;

	filter_init(&plain, FILTER_PLAIN);
	bytes_init(&clean, 1024 * 1024);
	if (last != NULL) {
		filter_put(&plain, text, (size_t)(last - text), &clean);
		show_line(&c->s->show, "%.900s", bytes_str(&clean));
		bytes_clear(&clean);
	}
	last = last != NULL ? last + 1 : text;
	filter_put(&plain, last, strlen(last), &clean);
	for (size_t i = 0; i < clean.n; i++)
		if ((unsigned char)clean.p[i] < ' ')
			clean.p[i] = ' ';
	(void)snprintf(c->prompt, sizeof(c->prompt), "%.*s",
		       (int)jsonr_cut(bytes_str(&clean), clean.n, sizeof(c->prompt) - 1),
		       bytes_str(&clean));
	bytes_done(&clean);
}

static void ask(struct cell *c, unsigned int flags)
{
	c->asking = term_set(TERM_EDIT) == 0;
	line_begin(&c->s->line, c->prompt, "", flags);
	shell_resize(c->s);
}

static void start_asking(struct cell *c, const struct follow_event *e)
{
	bool secret = node_bool(e->doc, e->data, "password");

	stop_asking(c);
	take_prompt(c, node_str(e->doc, e->data, "prompt"));
	if (!c->s->show.at_line_begin[0]) /* what was printed last is a part of the question */
		show_line(&c->s->show, "%s", "");
	ask(c, LINE_PLAIN | (secret ? LINE_SECRET : 0));
}

static void answer(struct cell *c, bool eof)
{
	char tail[FOLLOW_ID + 32];
	struct json j;

	line_accept(&c->s->line);
	shell_flush(c->s);
	json_init(&j);
	json_open(&j, NULL, '{');
	if (eof)
		json_bool(&j, "eof", true);
	else
		json_str(&j, "text", bytes_str(&c->s->line.text));
	json_close(&j, '}');
	c->asking = false;
	(void)term_set(TERM_AS_IT_WAS);
	(void)snprintf(tail, sizeof(tail), "/cells/%s/input", c->f.id);
	if (act(c, "POST", shell_path(c->s, tail), &j) != ACT_DONE)
		ask(c, c->s->line.flags); /* it still waits */
	json_done(&j);
}

static void on_keys(struct cell *c)
{
	struct shell *s = c->s;
	enum line_said said = LINE_MORE;

	while (s->typed.n > 0 && c->asking) {
		size_t n = line_feed(&s->line, s->typed.p, s->typed.n, &said);

		bytes_splice(&s->typed, 0, n, "", 0);
		shell_flush(s);
		if (said == LINE_ENTER || said == LINE_EOF) {
			answer(c, said == LINE_EOF);
		} else if (said == LINE_INTERRUPT) {
			line_drop(&s->line);
			stop_asking(c);
			interrupt(c);
		} else if (said == LINE_SUSPEND) {
			shell_suspend(s);
		}
	}
}

/* --- events --------------------------------------------------------------------------------------- */

static int on_event(void *arg, const struct follow_event *e)
{
	struct cell *c = arg;
	bool asking = c->asking;

	if (strcmp(e->name, "start") == 0) {
		c->begun = true;
	} else if (strcmp(e->name, "end") == 0 && e->data != NULL) {
		stop_asking(c);
		take_end(c, e);
	} else if (strcmp(e->name, "input") == 0 && e->data != NULL && c->s->interactive) {
		start_asking(c, e);
	} else if (strcmp(e->name, "comm") != 0) {
		if (asking) { /* somebody else of the cell says something meanwhile */
			line_leave(&c->s->line);
			shell_flush(c->s);
		}
		show_event(&c->s->show, e);
		if (asking) {
			line_draw(&c->s->line);
			shell_flush(c->s);
		}
	}
	return c->s->show.error != 0;
}

/* --- its life ------------------------------------------------------------------------------------- */

static void put_cell(const struct shell *s, struct json *j, const char *code, size_t n)
{
	json_init(j);
	json_open(j, NULL, '{');
	json_bytes(j, "code", code, n);
	json_str(j, "kernel", s->o->kernel);
	json_bool(j, "detach", true);
	json_bool(j, "stdin", s->interactive);
	json_str(j, "output_encoding", "base64");
	if (s->o->timeout_us == 0)
		json_null(j, "timeout_ms");
	else
		json_u64(j, "timeout_ms", (s->o->timeout_us + US_PER_MS - 1) / US_PER_MS);
	json_close(j, '}');
}

/* Signals while it runs. false: one that ends us. */
static bool on_wake(struct cell *c)
{
	struct wake w;

	wake_take(&w);
	if (w.ints > 0 && follow_is_lost(&c->f)) {
		give_up(c);
		return w.end == 0;
	}
	for (int i = 0; i < w.ints; i++)
		interrupt(c);
	if (w.goes_on && c->asking)
		shell_again(c->s);
	else if (w.resized && c->asking)
		shell_resize(c->s);
	return w.end == 0;
}

static int turn(struct cell *c, struct err *e)
{
	struct pollfd p[3] = { { .fd = follow_fd(&c->f), .events = POLLIN },
			       { .fd = wake_fd(), .events = POLLIN },
			       { .fd = c->asking ? STDIN_FILENO : -1, .events = POLLIN } };
	int r;

	if (wake_end() == 0 && !c->gave_up)
		(void)poll(p, 3, follow_wait_ms(&c->f, clock_poll_ms(c->s->alive_us)));
	if (wake_end() != 0 || (p[1].revents != 0 && !on_wake(c)))
		return err_set(e, ERR_SYS, EINTR, "wait for the cell");
	if (c->gave_up)
		return 0;
	if (p[2].revents != 0 && !shell_take_keys(c->s)) {
		c->s->over = true;
		return err_set(e, ERR_SYS, EIO, "the terminal is gone");
	}
	on_keys(c);
	shell_keep_alive(c->s);
	r = follow_turn(&c->f, e);
	/* Ctrl-C, and a server that does not answer. */
	return r < 0 && e->sys == EINTR && on_wake(c) && c->gave_up ? 0 : r;
}

int shell_cell(struct shell *s, const char *code, size_t n, struct err *e)
{
	static struct cell c;
	struct json j;
	int r = 1;

	c = (struct cell){ .s = s };
	put_cell(s, &j, code, n);
	follow_start(&c.f, &s->c, shell_path(s, "/cells"), &j);
	c.f.event = on_event;
	c.f.arg = &c;
	s->show.count = s->count;
	while (r > 0)
		r = turn(&c, e);
	stop_asking(&c);
	show_end(&s->show);
	follow_done(&c.f);
	json_done(&j);
	s->ended |= c.f.gone;
	s->over |= c.f.gone || s->show.error != 0;
	if (r == 0 && s->show.error != 0)
		return err_set(e, ERR_INPUT, -s->show.error, "write what the cell says");
	return r < 0 ? -1 : !c.ok;
}
