// SPDX-License-Identifier: Apache-2.0
/*
 * GET /v1/boxes/{box_id}/tty, a WebSocket: a terminal in a box.
 *
 * As that of a session, but the shell stays when its client leaves: ?tty=ID comes back to it, and begins with what it
 * said last. Its first message is the text {"tty": ID}. A shell that nobody looks at runs on, and keeps no box from
 * being idle; what it says meanwhile is kept as far back as one screen needs.
 */
#include "gate/boxes.h"
#include "gate/ws.h"

#include "base/own.h"
#include "wire/msg.h"

#include <stdio.h>
#include <string.h>

enum {
	MESSAGE_MAX = 64 * 1024,
	ROWS = 24,
	COLUMNS = 80,
	INPUT_MAX = 1024 * 1024,
	BACK_MAX = 64 * 1024, /* what it said last */
};

/* A connection that sees a terminal, until another one does or the terminal is over. */
struct viewer {
	struct tty *t; /* NULL: not any more */
	struct ws *ws;
	struct gate *g;
	struct deferred deferred;
};

struct tty {
	struct gate *g;
	struct abox *a; /* NULL: over */
	struct tty *next;
	char id[OWN_ID];
	struct viewer *viewer; /* NULL: nobody looks */
	struct gjob job;
	uint64_t job_id;
	struct buf input; /* typed faster than it is read */
	struct buf back;
	uint64_t ack_later;
	struct deferred deferred;
};

static void tty_free(void *arg)
{
	struct tty *t = arg;

	buf_done(&t->input);
	buf_done(&t->back);
	free(t);
}

static void look_away(struct tty *t)
{
	if (t->viewer == NULL)
		return;
	t->viewer->t = NULL;
	t->viewer = NULL;
	if (t->a != NULL) {
		t->a->attached--;
		abox_touch(t->a);
	}
	if (t->ack_later > 0)
		gjob_ack(&t->job, t->ack_later);
	t->ack_later = 0;
}

/* The shell is gone. */
static void end(struct tty *t)
{
	struct abox *a = t->a;
	struct tty **at;

	if (a == NULL)
		return;
	look_away(t);
	for (at = &a->ttys; *at != t;)
		at = &(*at)->next;
	*at = t->next;
	a->nttys--;
	t->a = NULL;
	gjob_drop(&t->job);
	if (a->state == ABOX_READY)
		abox_changed(a);
	loop_defer(&t->g->loop, &t->deferred, tty_free, t);
}

/* Say goodbye to who looks. */
static void bye(struct tty *t, uint16_t code, const char *why)
{
	struct viewer *v = t->viewer;

	end(t);
	if (v != NULL)
		ws_close(v->ws, code, why);
}

/* --- from the terminal ----------------------------------------------------------------------------- */

static void keep(struct tty *t, const uint8_t *p, size_t n)
{
	if (n > BACK_MAX) {
		p += n - BACK_MAX;
		n = BACK_MAX;
	}
	if (buf_room(&t->back) < n)
		buf_take(&t->back, n - buf_room(&t->back));
	(void)buf_put(&t->back, p, n);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct tty *t = arg;

	(void)stream;
	keep(t, p, n);
	if (t->viewer != NULL)
		ws_send(t->viewer->ws, true, p, n); /* after which it may have gone */
	if (t->viewer == NULL || ws_queued(t->viewer->ws) < REQ_HIGH)
		gjob_ack(&t->job, number);
	else
		t->ack_later = number;
}

static void put_end(struct json *j, const struct job_exit *x)
{
	json_init(j);
	json_open(j, NULL, '{');
	json_open(j, "exit", '{');
	if (x->how == JOB_EXITED)
		json_i64(j, "exit_code", x->code);
	else
		json_null(j, "exit_code");
	if (x->how == JOB_SIGNALED)
		json_i64(j, "signal", x->code);
	else
		json_null(j, "signal");
	json_close(j, '}');
	json_close(j, '}');
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct tty *t = arg;
	struct json j;

	gjob_ack(&t->job, number);
	put_end(&j, x);
	if (!j.failed && t->viewer != NULL)
		ws_send(t->viewer->ws, false, j.buf, j.len);
	json_done(&j);
	bye(t, 1000, "the shell has ended");
}

static void on_failed(void *arg, int error, const char *why)
{
	(void)error;
	bye(arg, 1011, why);
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

static const struct gjob_ops job_ops = {
	.output = on_output, .want = on_want, .ended = on_ended, .failed = on_failed
};

/* --- from the client ------------------------------------------------------------------------------- */

static bool is_size(const struct jsonr_node *n)
{
	return n != NULL && n->type == JSONR_INT && n->integer > 0 && n->integer < 10000;
}

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
		if (is_size(columns) && is_size(rows))
			gjob_resize(&t->job, (uint16_t)rows->integer, (uint16_t)columns->integer);
		else
			ws_close(t->viewer->ws, 1008, "text must be {\"resize\": [columns, rows]}");
		jsonr_done(&doc);
	} else {
		ws_close(t->viewer->ws, 1008, "text must be JSON");
	}
	free(text);
}

static void on_message(void *arg, bool binary, const uint8_t *p, size_t n)
{
	struct viewer *v = arg;
	struct tty *t = v->t;

	if (t == NULL)
		return;
	abox_touch(t->a);
	if (!binary)
		resize(t, p, n);
	else if (buf_put(&t->input, p, n) < 0)
		ws_close(v->ws, 1013, "the terminal does not read");
	else
		feed(t);
}

static void on_drained(void *arg)
{
	struct viewer *v = arg;
	struct tty *t = v->t;

	if (t == NULL || t->ack_later == 0)
		return;
	gjob_ack(&t->job, t->ack_later);
	t->ack_later = 0;
}

static void viewer_free(void *arg)
{
	free(arg);
}

static void on_closed(void *arg)
{
	struct viewer *v = arg;

	if (v->t != NULL)
		look_away(v->t);
	loop_defer(&v->g->loop, &v->deferred, viewer_free, v);
}

/* Who asks sees this terminal from now on. */
static void look(struct tty *t, struct req *r)
{
	static const struct ws_ops ops = { .message = on_message,
					   .drained = on_drained,
					   .closed = on_closed };
	struct viewer *v = calloc(1, sizeof(*v)), *old = t->viewer;
	struct json j;

	if (v == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	v->g = r->g;
	v->ws = ws_accept(r, MESSAGE_MAX, &ops, v);
	if (v->ws == NULL) {
		free(v);
		return;
	}
	look_away(t);
	if (old != NULL)
		ws_close(old->ws, 1000, "somebody else looks at this terminal now");
	v->t = t;
	t->viewer = v;
	t->a->attached++;
	abox_touch(t->a);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "tty", t->id);
	json_close(&j, '}');
	if (!j.failed)
		ws_send(v->ws, false, j.buf, j.len);
	json_done(&j);
	if (t->viewer == v && buf_len(&t->back) > 0)
		ws_send(v->ws, true, buf_head(&t->back), buf_len(&t->back));
}

/* --- terminals of a box ------------------------------------------------------------------------------ */

static struct tty *tty_new(struct abox *a)
{
	struct tty *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->g = a->g;
	t->a = a;
	buf_init(&t->input, INPUT_MAX);
	buf_init(&t->back, BACK_MAX);
	t->next = a->ttys;
	a->ttys = t;
	a->nttys++;
	return t;
}

static int tty_start(struct tty *t, uint64_t id)
{
	static const char *const argv[] = { "/bin/bash", "-l", NULL };
	static struct box_env env; /* large; the job is encoded before this returns */
	struct job_spec spec = { .kind = JOB_EXEC,
				 .flags = JOB_PTY,
				 .rows = ROWS,
				 .cols = COLUMNS,
				 .cwd = t->a->box->cwd,
				 .argv = argv,
				 .envp = env.v };
	int r;

	r = box_env_begin(&env, t->a, ci_tty_environment());
	if (r == 0)
		r = gjob_start(t->a->box, &t->job, id, &spec, &job_ops, t);
	t->job_id = t->job.id;
	box_env_done(&env);
	return r;
}

void box_tty(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct http_slice id;
	struct tty *t;

	if (a == NULL)
		return;
	id = req_query(r, "tty");
	if (id.n > 0) {
		for (t = a->ttys; t != NULL && !http_slice_is(id, t->id);)
			t = t->next;
		if (t == NULL)
			own_refuse(r, OWN_NOT_FOUND, "tty", "there is no terminal '%.*s'",
				   (int)(id.n < 128 ? id.n : 128), id.p);
		else
			look(t, r);
		return;
	}
	if (a->nttys >= BOX_TTYS_MAX) {
		own_refuse(r, OWN_TOO_MANY, NULL, "%d terminals are open in this box",
			   BOX_TTYS_MAX);
		return;
	}
	if (!audit_allows(r->g)) {
		own_refuse(r, OWN_AUDIT, NULL, "the audit file cannot be written");
		return;
	}
	t = a->box != NULL ? tty_new(a) : NULL;
	if (t == NULL || tty_start(t, 0) < 0) {
		if (t != NULL)
			end(t);
		own_refuse(r, OWN_NO_MEMORY, NULL, "the terminal cannot be started");
		return;
	}
	own_job_id(r->g, a->id, t->job_id, t->id);
	audit(r->g, "terminal", r, "tenant", a->tenant->name, "box", a->id, NULL);
	abox_changed(a);
	look(t, r);
}

void ttys_end(struct abox *a)
{
	while (a->ttys != NULL)
		bye(a->ttys, 1001, "the box has ended");
}

/* --- another gate --------------------------------------------------------------------------------------- */

void ttys_save(const struct abox *a, struct msg_out *m)
{
	msg_put_u16(m, (uint16_t)a->nttys);
	for (const struct tty *t = a->ttys; t != NULL; t = t->next)
		msg_put_u64(m, t->job_id);
}

int ttys_load(struct abox *a, struct msg_in *in)
{
	for (unsigned int n = msg_get_u16(in); n > 0; n--) {
		uint64_t job = msg_get_u64(in);
		struct tty *t = in->failed ? NULL : tty_new(a);

		if (t == NULL)
			return -EPROTO;
		t->job_id = job;
		own_job_id(a->g, a->id, job, t->id);
	}
	return 0;
}

/* One that has ended meanwhile is refused, and goes; init has the end of one that still runs. Should its start never
 * have come so far, a shell is what was asked for. */
void ttys_adopt(struct abox *a)
{
	struct tty *next;

	for (struct tty *t = a->ttys; t != NULL; t = next) {
		next = t->next;
		if (tty_start(t, t->job_id) < 0)
			end(t);
		else
			t->job.adopted = true;
	}
}
