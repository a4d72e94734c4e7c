// SPDX-License-Identifier: Apache-2.0
/*
 * GET /v1/sessions/{session_id}/tty, a WebSocket: a terminal in a session. Beyond the reference.
 *
 * Binary messages are bytes of the terminal, both ways. Text from the client: {"resize": [columns, rows]}. When the
 * shell has ended: text {"exit": {"exit_code", "signal"}}, then the end. Who leaves takes the shell along.
 */
#include "gate/ci.h"
#include "gate/ci_session.h"
#include "gate/ws.h"

#include "base/own.h"
#include "wire/msg.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_MAX = 64 * 1024, ROWS = 24, COLUMNS = 80, INPUT_MAX = 1024 * 1024 };

struct tty {
	struct gate *g;
	struct ws *ws;
	struct gjob job;
	struct buf input; /* typed faster than it is read */
	uint64_t ack_later;
	struct deferred deferred;
	bool over;
};

static void tty_free(void *arg)
{
	struct tty *t = arg;

	buf_done(&t->input);
	free(t);
}

static void end(struct tty *t)
{
	if (t->over)
		return;
	t->over = true;
	if (t->job.box != NULL) {
		gjob_signal(&t->job, SIGHUP, 0);
		gjob_signal(&t->job, SIGKILL, 0);
		gjob_drop(&t->job);
	}
	loop_defer(&t->g->loop, &t->deferred, tty_free, t);
}

/* --- from the terminal ----------------------------------------------------------------------------- */

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct tty *t = arg;

	(void)stream;
	ws_send(t->ws, true, p, n);
	if (t->over)
		return;
	if (ws_queued(t->ws) < REQ_HIGH)
		gjob_ack(&t->job, number);
	else
		t->ack_later = number;
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct tty *t = arg;
	struct json j;

	gjob_ack(&t->job, number);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "exit", '{');
	if (x->how == JOB_EXITED)
		json_i64(&j, "exit_code", x->code);
	else
		json_null(&j, "exit_code");
	if (x->how == JOB_SIGNALED)
		json_i64(&j, "signal", x->code);
	else
		json_null(&j, "signal");
	json_close(&j, '}');
	json_close(&j, '}');
	if (!j.failed)
		ws_send(t->ws, false, j.buf, j.len);
	json_done(&j);
	if (!t->over)
		ws_close(t->ws, 1000, "the shell has ended");
}

static void on_failed(void *arg, int error, const char *why)
{
	struct tty *t = arg;

	(void)error;
	ws_close(t->ws, 1011, why);
}

static void on_lost(void *arg)
{
	struct tty *t = arg;

	ws_close(t->ws, 1001, "the session has ended");
}

static void feed(struct tty *t)
{
	if (buf_len(&t->input) > 0)
		buf_take(&t->input, gjob_input(&t->job, buf_head(&t->input), buf_len(&t->input)));
}

static void on_want(void *arg)
{
	feed(arg);
}

/* --- from the client ------------------------------------------------------------------------------- */

static void resize(struct tty *t, const uint8_t *p, size_t n)
{
	char *text = malloc(n + 1);
	const struct jsonr_node *list, *columns, *rows;
	struct jsonr doc;

	if (text == NULL)
		return;
	(void)memcpy(text, p, n);
	text[n] = '\0';
	if (jsonr_parse(&doc, text, n, NULL) == 0) {
		list = jsonr_get(&doc, jsonr_root(&doc), "resize");
		columns =
			list != NULL && list->type == JSONR_ARRAY ? jsonr_first(&doc, list) : NULL;
		rows = jsonr_next(&doc, columns);
		if (columns != NULL && rows != NULL && columns->type == JSONR_INT &&
		    rows->type == JSONR_INT && columns->integer > 0 && columns->integer < 10000 &&
		    rows->integer > 0 && rows->integer < 10000)
			gjob_resize(&t->job, (uint16_t)rows->integer, (uint16_t)columns->integer);
		else
			ws_close(t->ws, 1008, "text must be {\"resize\": [columns, rows]}");
		jsonr_done(&doc);
	} else {
		ws_close(t->ws, 1008, "text must be JSON");
	}
	free(text);
}

static void on_message(void *arg, bool binary, const uint8_t *p, size_t n)
{
	struct tty *t = arg;

	if (!binary) {
		resize(t, p, n);
		return;
	}
	if (buf_put(&t->input, p, n) < 0)
		ws_close(t->ws, 1013, "the terminal does not read");
	else
		feed(t);
}

static void on_drained(void *arg)
{
	struct tty *t = arg;

	if (t->ack_later > 0)
		gjob_ack(&t->job, t->ack_later);
	t->ack_later = 0;
}

static void on_closed(void *arg)
{
	end(arg);
}

void ci_session_tty(struct req *r)
{
	static const struct ws_ops ws_ops = { .message = on_message,
					      .drained = on_drained,
					      .closed = on_closed };
	static const struct gjob_ops job_ops = { .output = on_output,
						 .want = on_want,
						 .ended = on_ended,
						 .failed = on_failed,
						 .lost = on_lost };
	static const char *const argv[] = { "/bin/bash", "-l", NULL };
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_PTY,
				 .rows = ROWS,
				 .cols = COLUMNS,
				 .cwd = "/workspace",
				 .argv = argv,
				 .envp = ci_tty_environment() };
	struct gbox *box = ci_session_box(r);
	struct tty *t;

	if (box == NULL)
		return;
	t = calloc(1, sizeof(*t));
	if (t == NULL) {
		ci_detail(r, 503, "out of memory");
		return;
	}
	t->g = r->g;
	audit(r->g, "terminal", r, "tenant", r->tenant->name, NULL);
	buf_init(&t->input, INPUT_MAX);
	t->ws = ws_accept(r, MESSAGE_MAX, &ws_ops, t);
	if (t->ws == NULL) {
		tty_free(t);
		return;
	}
	if (gjob_start(box, &t->job, 0, &spec, &job_ops, t) < 0)
		ws_close(t->ws, 1011, "the session cannot be reached");
}
