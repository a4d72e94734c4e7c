// SPDX-License-Identifier: Apache-2.0
#include "cli/exec.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/own.h"
#include "cli/say.h"
#include "cli/term.h"
#include "cli/verbs.h"
#include "cli/wake.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	BLOCKED_MAX = 2,
	ACT_TIMEOUT_MS = 5000,
	END_TIMEOUT_MS = 500,
	INT_GRACE_MS = 60000, /* the longest that the server gives */
	END_GRACE_MS = 2000,
};

/* --- signals -------------------------------------------------------------------------------------- */

/* Who waits for its end need not be answered: events tell of it. false: the server does not answer. */
static bool act(struct exec *x, const char *method, const char *path, const struct json *body)
{
	struct call q = { .method = method,
			  .path = path,
			  .body = body,
			  .timeout_ms = body != NULL ? ACT_TIMEOUT_MS : END_TIMEOUT_MS,
			  .flags = CALL_NO_INT };
	struct reply r;
	struct err e;

	if (client_call(&x->c, &q, &r, &e) == 0) {
		reply_free(&r);
		return true;
	}
	if (body != NULL || e.sys != ETIMEDOUT)
		say("%s", e.text);
	return body == NULL || e.sys != ETIMEDOUT;
}

static bool signal_command(struct exec *x, int sig)
{
	const char *name = sigabbrev_np(sig);
	char path[BOX_PATH];
	struct json j;
	bool told;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "signal", name != NULL ? name : "TERM");
	json_close(&j, '}');
	(void)snprintf(path, sizeof(path), "%s/%s/signal", x->f.path, x->f.id);
	told = act(x, "POST", path, &j);
	json_done(&j);
	return told;
}

/* SIGINT interrupts a cell that runs, and cancels one that waits for its turn; which of them it is we may not have heard
 * yet. What else would end a program ends it, and with it its kernel if it goes on. */
static bool signal_cell(struct exec *x, int sig)
{
	char path[BOX_PATH];
	struct json j;
	bool told;

	if (sig != SIGINT || !x->begun) {
		(void)snprintf(path, sizeof(path), "%s/%s?grace_ms=%d", x->f.path, x->f.id,
			       sig == SIGINT ? INT_GRACE_MS : END_GRACE_MS);
		return act(x, "DELETE", path, NULL);
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "kernel", x->o->kernel);
	json_close(&j, '}');
	api_path(path, x->o->box, "/interrupt");
	told = act(x, "POST", path, &j);
	json_done(&j);
	return told;
}

/* nobody: there is nobody to pass them on to. */
static void pass_on(struct exec *x, bool nobody)
{
	struct wake w;

	wake_take(&w);
	if (w.goes_on) /* a password may be asked for */
		term_again();
	for (int sig = 1; sig < 32; sig++) {
		if ((w.passed_on & 1u << sig) == 0)
			continue;
		if (nobody || follow_is_lost(&x->f) || x->f.id[0] == '\0') {
			x->ended_by = sig;
			continue;
		}
		if (!(x->o->code != NULL ? signal_cell : signal_command)(x, sig))
			x->ended_by = sig; /* or nobody could end us */
	}
}

/* --- what it says --------------------------------------------------------------------------------- */

/* Nobody takes what we write: signals are passed on all the same, and the third of them ends us. */
static int on_blocked(void *arg, unsigned int times)
{
	struct exec *x = arg;

	pass_on(x, false);
	return x->ended_by != 0 || times > BLOCKED_MAX ? -EINTR : 0;
}

static void put(struct exec *x, int fd, const void *p, size_t n)
{
	if (x->write_error == 0)
		x->write_error = wake_write(fd, p, n, on_blocked, x);
}

static void put_output(struct exec *x, const struct follow_event *e, int fd)
{
	const struct jsonr_node *data = jsonr_get(e->doc, e->data, "data");
	own_free uint8_t *bytes = NULL;
	size_t n;

	if (data == NULL || data->type != JSONR_STRING)
		return;
	bytes = malloc(BASE64_BYTES_MAX((size_t)data->len) + 1);
	if (bytes != NULL && base64_decode(data->string, data->len, bytes, &n) == 0)
		put(x, fd, bytes, n);
}

static void take_end(struct exec *x, const struct follow_event *e)
{
	const struct jsonr_node *cut = jsonr_get(e->doc, e->data, "truncated");

	x->has_end = true;
	(void)snprintf(x->status, sizeof(x->status), "%s", node_str(e->doc, e->data, "status"));
	x->exit_code = node_int(e->doc, e->data, "exit_code", -1);
	x->signal = node_int(e->doc, e->data, "signal", -1);
	if (x->o->code == NULL)
		(void)snprintf(x->error, sizeof(x->error), "%s",
			       node_str(e->doc, e->data, "error"));
	x->cut = node_bool(e->doc, cut, "stdout") || node_bool(e->doc, cut, "stderr");
}

static void start_asking(struct exec *x, const struct follow_event *e)
{
	const char *prompt = node_str(e->doc, e->data, "prompt");
	struct bytes text;
	struct filter f;

	x->asking = true;
	if (x->o->client.json || !isatty(STDIN_FILENO))
		return;
	filter_init(&f, FILTER_PLAIN);
	bytes_init(&text, 65536);
	filter_put(&f, prompt, strlen(prompt), &text);
	put(x, STDOUT_FILENO, bytes_str(&text), text.n);
	bytes_done(&text);
	if (node_bool(e->doc, e->data, "password"))
		(void)term_set(TERM_QUIET);
}

static int on_event(void *arg, const struct follow_event *e)
{
	struct exec *x = arg;

	x->begun = true;
	if (strcmp(e->name, "end") == 0 && e->data != NULL)
		take_end(x, e);
	else if (strcmp(e->name, "input") == 0 && e->data != NULL)
		start_asking(x, e);
	else if (x->o->client.json || strcmp(e->name, "comm") == 0)
		return 0;
	else if (x->o->code != NULL)
		show_event(&x->show, e);
	else if (strcmp(e->name, "stdout") == 0 && e->data != NULL)
		put_output(x, e, STDOUT_FILENO);
	else if (strcmp(e->name, "stderr") == 0 && e->data != NULL)
		put_output(x, e, STDERR_FILENO);
	else if (strcmp(e->name, "gap") == 0)
		say("a part of the output is not held any more");
	if (x->show.error != 0)
		x->write_error = x->show.error;
	return x->write_error;
}

/* --- its life ------------------------------------------------------------------------------------- */

static void put_common(const struct exec_opts *o, struct json *j)
{
	json_bool(j, "detach", true);
	/* As one object everything is text; otherwise every byte counts. */
	json_str(j, "output_encoding", o->client.json ? "utf-8" : "base64");
	if (o->timeout_us == 0)
		json_null(j, "timeout_ms");
	else
		json_u64(j, "timeout_ms", (o->timeout_us + US_PER_MS - 1) / US_PER_MS);
	json_close(j, '}');
}

static void put_cell(const struct exec_opts *o, struct json *j)
{
	json_init(j);
	json_open(j, NULL, '{');
	json_str(j, "code", o->code);
	json_str(j, "kernel", o->kernel);
	json_bool(j, "stdin", !o->no_stdin && !o->detach);
	put_common(o, j);
}

static void put_command(const struct exec_opts *o, struct json *j)
{
	char name[256];

	json_init(j);
	json_open(j, NULL, '{');
	json_open(j, "argv", '[');
	for (char **a = o->argv; *a != NULL; a++)
		json_str(j, NULL, *a);
	json_close(j, ']');
	json_open(j, "env", '{');
	for (unsigned int i = 0; i < o->nenv; i++) {
		size_t n = strcspn(o->env[i], "=");

		(void)snprintf(name, sizeof(name), "%.*s", (int)n, o->env[i]);
		json_str(j, name, o->env[i] + n + 1);
	}
	json_close(j, '}');
	if (o->cwd != NULL)
		json_str(j, "cwd", o->cwd);
	json_bool(j, "stdin_open", !o->no_stdin && !o->detach);
	put_common(o, j);
}

static int turn(struct exec *x, struct err *e)
{
	struct pollfd p[3] = { { .fd = follow_fd(&x->f), .events = POLLIN },
			       { .fd = wake_fd(), .events = POLLIN },
			       { .fd = feed_fd(x), .events = POLLIN } };
	int r;

	(void)poll(p, 3, feed_wait_ms(x, follow_wait_ms(&x->f, -1)));
	if (p[1].revents != 0)
		pass_on(x, false);
	if (x->ended_by != 0)
		return 0;
	r = feed_turn(x, p[2].revents != 0, e);
	if (r == 0)
		r = follow_turn(&x->f, e);
	if (r < 0 && e->sys == EINTR) /* a signal, and a server that does not answer */
		pass_on(x, true);
	return x->ended_by != 0 ? 0 : r;
}

static int follow_all(struct exec *x, struct err *e)
{
	int r = 1;

	while (r > 0)
		r = turn(x, e);
	(void)term_set(TERM_AS_IT_WAS);
	if (x->o->code != NULL)
		show_end(&x->show);
	if (x->write_error == -EPIPE && x->f.id[0] != '\0') {
		/* As a pipe would: who wrote to it is told. */
		if (x->o->code == NULL)
			(void)signal_command(x, SIGPIPE);
		else
			(void)signal_cell(x, SIGINT);
	}
	return r;
}

/* --- how it ended --------------------------------------------------------------------------------- */

static int exit_status(const struct exec *x)
{
	if (x->ended_by != 0)
		return EXIT_SIGNAL_BASE + x->ended_by;
	if (x->write_error == -EPIPE || x->write_error == -EINTR)
		return EXIT_SIGNAL_BASE + (x->write_error == -EPIPE ? SIGPIPE : SIGINT);
	if (x->write_error != 0)
		return EXIT_GLOVEBOX;
	if (x->o->detach)
		return 0;
	if (!x->has_end)
		return EXIT_GLOVEBOX;
	if (strcmp(x->status, "timeout") == 0)
		return EXIT_TIMEOUT;
	if (strcmp(x->status, "oom") == 0)
		return EXIT_SIGNAL_BASE + SIGKILL;
	if (x->o->code != NULL)
		return strcmp(x->status, "ok") != 0;
	if (x->exit_code >= 0 && x->exit_code < 256)
		return (int)x->exit_code;
	return x->signal > 0 && x->signal < 65 ? EXIT_SIGNAL_BASE + (int)x->signal : EXIT_GLOVEBOX;
}

static void say_end(const struct exec *x)
{
	int error = x->write_error;

	if (error != 0 && error != -EPIPE && error != -EINTR)
		say("write what it says: %s", strerror(-error));
	if (error != 0 || x->ended_by != 0 || x->o->detach)
		return;
	if (!x->has_end)
		say("how it ended is not held any more");
	else if (x->o->client.json)
		return;
	else if (strcmp(x->status, "timeout") == 0)
		say("it ran out of time");
	else if (strcmp(x->status, "oom") == 0)
		say("it ran out of memory");
	else if (x->error[0] != '\0')
		say("%s", x->error);
	else if (x->o->code != NULL &&
		 (strcmp(x->status, "crashed") == 0 || strcmp(x->status, "cancelled") == 0))
		say("the cell was %s",
		    strcmp(x->status, "crashed") == 0 ? "ended with its kernel" : "cancelled");
	if (x->cut)
		say("it printed more than the box keeps; the rest was dropped");
}

/* The whole of it, as the server has it now. */
static int print_json(struct exec *x, struct err *e)
{
	char path[BOX_PATH];
	struct reply r;
	struct json j;

	(void)snprintf(path, sizeof(path), "%s/%s", x->f.path, x->f.id);
	if (api(&x->c, "GET", path, NULL, &r, e) < 0)
		return -1;
	json_init(&j);
	jsonr_write(&r.doc, reply_root(&r), &j, NULL);
	reply_free(&r);
	x->write_error = api_print_json(&j);
	return 0;
}

static int start_only(struct exec *x, struct json *body, struct err *e)
{
	const char *id;
	struct reply r;
	struct json j;
	int rc = 0;

	if (api(&x->c, "POST", x->f.path, body, &r, e) < 0)
		return -1;
	id = node_str(&r.doc, reply_root(&r), "id");
	if (!follow_is_id(id)) {
		rc = err_set(e, ERR_PROTO, 0, "the server answered without an id");
	} else if (x->o->client.json) {
		json_init(&j);
		jsonr_write(&r.doc, reply_root(&r), &j, NULL);
		x->write_error = api_print_json(&j);
	} else if (printf("%s\n", id) < 0 || fflush(stdout) != 0) {
		x->write_error = -errno;
	}
	reply_free(&r);
	return rc;
}

static int run(struct exec *x, struct err *e)
{
	const struct exec_opts *o = x->o;
	char path[BOX_PATH];
	struct json j;
	int r;

	if (o->code != NULL)
		put_cell(o, &j);
	else
		put_command(o, &j);
	api_path(path, o->box, "/%s", o->code != NULL ? "cells" : "commands");
	follow_start(&x->f, &x->events, path, &j);
	x->f.event = on_event;
	x->f.arg = x;
	if (o->detach) {
		r = start_only(x, &j, e);
	} else {
		(void)term_open();
		feed_init(&x->feed, !o->no_stdin);
		show_init(&x->show, o->images, false);
		x->show.heard = on_blocked;
		x->show.arg = x;
		r = follow_all(x, e);
		if (r == 0 && o->client.json && x->has_end)
			r = print_json(x, e);
		show_done(&x->show);
		bytes_done(&x->feed.piece);
	}
	follow_done(&x->f);
	json_done(&j);
	return r;
}

int verb_exec(int argc, char **argv)
{
	static struct exec_opts o;
	static struct exec x;
	struct err e = { .kind = ERR_NONE };
	int r;

	if (exec_opts(&o, argc, argv, &e) < 0)
		return say_err(&e);
	if (o.client.help)
		return 0;
	(void)signal(SIGPIPE, SIG_IGN);
	x.o = &o;
	if (api_open(&o.client, &x.c, &e) < 0)
		return say_err(&e);
	client_init(&x.events, &x.c.url, x.c.token);
	(void)wake_start(o.detach ? 0 : WAKE_PASS_ON);
	r = run(&x, &e);
	client_done(&x.c);
	client_done(&x.events);
	if (r < 0 && x.write_error == 0)
		return say_err(&e);
	say_end(&x);
	return exit_status(&x);
}
