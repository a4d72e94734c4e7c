// SPDX-License-Identifier: Apache-2.0
/*
 * GET /v1/boxes/{box_id}/stream, a WebSocket: calls about a box, and events of what runs in it, on one connection.
 *
 * A message is a text, {"op": …, "ref": …, …the fields of the call}. The calls are the ones of HTTP: a message becomes a
 * request whose answer comes back here, with its ref. What a cell or command says follows as events with the ref of
 * the message that started or followed it. A client that leaves ends nothing, but what was asked to end with it.
 *
 * Who does not read is held back: events are read from the log only as fast as they are sent. After 30 seconds without
 * progress the connection is closed.
 */
#include "gate/commands.h"
#include "gate/kernels.h"
#include "gate/ws.h"

#include "base/clock.h"
#include "base/own.h"

#include <stdio.h>
#include <string.h>

enum {
	MESSAGE_MAX = 16 * 1024 * 1024,
	PENDING_MAX = 256, /* calls and logs at once */
	REF_MAX = 256,
};
#define SLOW_US (30 * US_PER_S)

struct stream {
	struct gate *g;
	struct abox *a; /* NULL: it has ended */
	struct stream *next;
	struct ws *ws;
	const struct tenant *tenant;
	char box[OWN_ID], request[REQ_ID];
	struct op_call *calls;
	struct follower *followers;
	unsigned int pending;
	struct timer slow;
	bool closing, closed;
	struct timer over;
	struct deferred deferred;
};

/* A call that was not answered yet. */
struct op_call {
	struct req r;
	struct stream *s;
	struct op_call *next;
	char ref[REF_MAX];   /* as JSON */
	char id[OWN_ID + 8]; /* what the path would have */
	struct deferred deferred;
};

/* A log whose events go out. */
struct follower {
	struct run_reader rd;
	struct stream *s;
	struct follower *next;
	char ref[REF_MAX];
	bool said; /* an event at least */
	void (*left)(void *arg);
	void *arg;
	struct timer again;
	struct deferred deferred;
};

static void goodbye(struct stream *s, uint16_t code, const char *why)
{
	if (s->closing || s->closed)
		return;
	s->closing = true;
	ws_close(s->ws, code, why);
}

/* --- to the client -------------------------------------------------------------------------------- */

static void send_text(struct stream *s, const struct json *j)
{
	if (s->closing || s->closed)
		return;
	if (j->failed)
		goodbye(s, 1013, "out of memory");
	else
		ws_send(s->ws, false, j->buf, j->len);
}

/* {"ref": …, and then whatever the object of p and n has. */
static void send_with_ref(struct stream *s, const char *ref, const char *event, const char *p,
			  size_t n)
{
	struct json j;

	json_init(&j);
	json_raw(&j, "{\"ref\":", 7);
	json_raw(&j, ref, strlen(ref));
	j.comma = true;
	if (event != NULL)
		json_str(&j, "event", event);
	if (n > 2) {
		json_raw(&j, ",", 1);
		json_raw(&j, p + 1, n - 1);
	} else {
		json_raw(&j, "}", 1);
	}
	send_text(s, &j);
	json_done(&j);
}

/* --- events --------------------------------------------------------------------------------------- */

static void follower_free(void *arg)
{
	free(arg);
}

static void follower_end(struct follower *f)
{
	struct stream *s = f->s;

	for (struct follower **at = &s->followers; *at != NULL; at = &(*at)->next)
		if (*at == f) {
			*at = f->next;
			s->pending--;
			break;
		}
	timer_clear(&s->g->loop, &f->again);
	run_detach(&f->rd);
	loop_defer(&s->g->loop, &f->deferred, follower_free, f);
}

static void on_slow(void *arg)
{
	struct stream *s = arg;

	goodbye(s, 1013, "the client does not read");
}

/* Whether there is room for an event; otherwise time runs. */
static bool has_room(struct stream *s)
{
	if (s->closing || s->closed)
		return false;
	if (ws_queued(s->ws) < REQ_HIGH)
		return true;
	if (s->slow.place == 0)
		(void)timer_set(&s->g->loop, &s->slow, s->g->loop.now_us + SLOW_US, on_slow, s);
	return false;
}

static void call_refuse(struct stream *s, const char *ref, const char *code, const char *field,
			const char *text)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "error", '{');
	json_str(&j, "code", code);
	json_str(&j, "message", text);
	if (field != NULL)
		json_str(&j, "field", field);
	else
		json_null(&j, "field");
	json_null(&j, "hint");
	json_null(&j, "request_id");
	json_close(&j, '}');
	json_close(&j, '}');
	if (!j.failed)
		send_with_ref(s, ref, NULL, j.buf, j.len);
	json_done(&j);
}

static void send_done(struct stream *s, const char *ref)
{
	static const char done[] = "{\"done\":true}";

	send_with_ref(s, ref, NULL, done, sizeof(done) - 1);
}

static void on_again(void *arg);

static void pump(struct follower *f)
{
	struct stream *s = f->s;
	struct run *run = f->rd.run;
	struct run_told told;
	struct json j;
	size_t n = 0;

	timer_clear(&s->g->loop, &f->again);
	json_init(&j);
	while (has_room(s) && run_read(&f->rd, &j, &told)) {
		if (j.failed) { /* it must not be missing */
			goodbye(s, 1013, "out of memory");
			break;
		}
		f->said = true;
		send_with_ref(s, f->ref, run_event_str(told.event), j.buf, j.len);
		n += j.len;
		json_done(&j);
		json_init(&j);
		if (n >= RUN_TURN && timer_soon(&s->g->loop, &f->again, on_again, f) == 0)
			break;
	}
	json_done(&j);
	if (s->closing || s->closed || (!run->ended && !run->lost) || f->rd.after < run->seq)
		return;
	if (run->ended && run->ops->told != NULL)
		run->ops->told(run->arg);
	follower_end(f); /* first, as below */
	if (run->lost)
		call_refuse(s, f->ref, "not_found", NULL, "it has ended, and is not held any more");
	else if (!f->said) /* who asks is behind the last one: there are none any more */
		send_done(s, f->ref);
}

static void on_again(void *arg)
{
	pump(arg);
}

static void on_more(struct run_reader *rd)
{
	pump((struct follower *)rd); /* its first member */
}

static void follow(struct stream *s, const char *ref, struct run *run, uint64_t after,
		   void (*left)(void *arg), void *arg)
{
	struct follower *f = calloc(1, sizeof(*f));

	if (f == NULL) {
		goodbye(s, 1013, "out of memory");
		return;
	}
	f->s = s;
	f->left = left;
	f->arg = arg;
	(void)snprintf(f->ref, sizeof(f->ref), "%s", ref);
	f->next = s->followers;
	s->followers = f;
	s->pending++;
	run_attach(run, &f->rd, after, on_more);
}

/* --- calls ---------------------------------------------------------------------------------------- */

static void call_free(void *arg)
{
	struct op_call *c = arg;

	free(c->r.body);
	free(c);
}

static void call_end(struct op_call *c)
{
	struct stream *s = c->s;

	for (struct op_call **at = &s->calls; *at != NULL; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			s->pending--;
			break;
		}
	loop_defer(&s->g->loop, &c->deferred, call_free, c);
}

static void on_reply(struct req *r, int status, const void *body, size_t n)
{
	struct op_call *c = (struct op_call *)r; /* its first member */

	call_end(c); /* first: to send may close the connection, which ends all its calls */
	if (status == 204)
		send_done(c->s, c->ref);
	else
		send_with_ref(c->s, c->ref, NULL, body, n);
}

static void on_follow(struct req *r, struct run *run, uint64_t after, void (*left)(void *arg),
		      void *arg)
{
	struct op_call *c = (struct op_call *)r;

	call_end(c);
	follow(c->s, c->ref, run, after, left, arg);
}

static const struct req_via via = { .reply = on_reply, .follow = on_follow };

static void op_follow_cell(struct req *r)
{
	task_events(r, &cell_kind);
}

static void op_follow_command(struct req *r)
{
	task_events(r, &command_kind);
}

/* Every op. `of`: the member that says which one it is about. */
static const struct {
	const char *op, *of;
	void (*run)(struct req *r);
} ops[] = {
	{ "cell", NULL, cell_create },
	{ "command", NULL, command_create },
	{ "input", "cell", cell_input },
	{ "stdin", "command", command_stdin },
	{ "signal", "command", command_signal },
	{ "cancel", "cell", cell_delete },
	{ "cancel", "command", command_delete },
	{ "events", "cell", op_follow_cell },
	{ "events", "command", op_follow_command },
	{ "interrupt", NULL, kernel_interrupt },
	{ "restart", NULL, kernel_restart },
};

/* The members that are the call's own. */
static int take_body(struct op_call *c, const struct jsonr *doc, const char *of)
{
	const struct jsonr_node *n = jsonr_first(doc, jsonr_root(doc));
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	for (; n != NULL; n = jsonr_next(doc, n)) {
		if (strcmp(n->key, "op") == 0 || strcmp(n->key, "ref") == 0 ||
		    strcmp(n->key, "after") == 0 || (of != NULL && strcmp(n->key, of) == 0))
			continue;
		jsonr_write(doc, n, &j, n->key);
	}
	json_close(&j, '}');
	json_raw(&j, "", 1); /* its NUL */
	if (j.failed) {
		json_done(&j);
		return -ENOMEM;
	}
	c->r.body = j.buf;
	c->r.body_len = j.len - 1;
	return 0;
}

static void call_run(struct stream *s, const char *ref, const struct jsonr *doc, unsigned int i)
{
	const struct jsonr_node *root = jsonr_root(doc);
	const struct jsonr_node *after = jsonr_get(doc, root, "after");
	const struct jsonr_node *id = ops[i].of != NULL ? jsonr_get(doc, root, ops[i].of) : NULL;
	struct op_call *c = calloc(1, sizeof(*c));

	if (c == NULL || take_body(c, doc, ops[i].of) < 0) {
		free(c);
		call_refuse(s, ref, "no_memory", NULL, "out of memory");
		return;
	}
	c->s = s;
	(void)snprintf(c->ref, sizeof(c->ref), "%s", ref);
	if (id != NULL)
		(void)snprintf(c->id, sizeof(c->id), "%s", id->string);
	c->r.g = s->g;
	c->r.tenant = s->tenant;
	(void)memcpy(c->r.id, s->request, sizeof(c->r.id));
	c->r.via = &via;
	c->r.via_after = after != NULL && after->type == JSONR_INT && after->integer > 0
				 ? (uint64_t)after->integer
				 : 0;
	c->r.param[0] = (struct http_slice){ s->box, strlen(s->box) };
	c->r.param[1] = (struct http_slice){ c->id, strlen(c->id) };
	c->next = s->calls;
	s->calls = c;
	s->pending++;
	ops[i].run(&c->r);
}

/* Which call it is; -1: none. *of: what is missing for it. */
static int find_op(const struct jsonr *doc, const struct jsonr_node *op, const char **of)
{
	*of = NULL;
	for (unsigned int i = 0; i < ARRAY_LEN(ops); i++) {
		const struct jsonr_node *id;

		if (op == NULL || op->type != JSONR_STRING || strcmp(op->string, ops[i].op) != 0)
			continue;
		id = ops[i].of != NULL ? jsonr_get(doc, jsonr_root(doc), ops[i].of) : NULL;
		if (ops[i].of == NULL || (id != NULL && id->type == JSONR_STRING))
			return (int)i;
		*of = ops[i].of;
	}
	return -1;
}

static void take_ref(const struct jsonr *doc, char ref[REF_MAX])
{
	const struct jsonr_node *n = jsonr_get(doc, jsonr_root(doc), "ref");
	struct json j;

	(void)snprintf(ref, REF_MAX, "null");
	json_init(&j);
	if (n != NULL && (n->type == JSONR_STRING || n->type == JSONR_INT))
		jsonr_write(doc, n, &j, NULL);
	if (!j.failed && j.len > 0 && j.len < REF_MAX) {
		(void)memcpy(ref, j.buf, j.len);
		ref[j.len] = '\0';
	}
	json_done(&j);
}

static void take_message(struct stream *s, const struct jsonr *doc)
{
	const struct jsonr_node *root = jsonr_root(doc);
	char ref[REF_MAX];
	const char *of;
	int i;

	take_ref(doc, ref);
	i = root->type == JSONR_OBJECT ? find_op(doc, jsonr_get(doc, root, "op"), &of) : -1;
	if (root->type != JSONR_OBJECT)
		call_refuse(s, ref, "invalid_json", NULL, "a message must be an object");
	else if (i < 0 && of != NULL)
		call_refuse(s, ref, "invalid_field", of, "the message must say which one");
	else if (i < 0)
		call_refuse(s, ref, "invalid_field", "op", "there is no such op");
	else if (s->pending >= PENDING_MAX)
		call_refuse(s, ref, "too_many", NULL, "too much at once on this connection");
	else
		call_run(s, ref, doc, (unsigned int)i);
}

static void on_message(void *arg, bool binary, const uint8_t *p, size_t n)
{
	struct stream *s = arg;
	char *text = binary ? NULL : malloc(n + 1);
	struct jsonr doc;

	if (binary) {
		goodbye(s, 1003, "messages are text");
		return;
	}
	if (text == NULL) {
		goodbye(s, 1013, "out of memory");
		return;
	}
	(void)memcpy(text, p, n);
	text[n] = '\0';
	if (jsonr_parse(&doc, text, n, NULL) == 0) {
		take_message(s, &doc);
		jsonr_done(&doc);
	} else {
		call_refuse(s, "null", "invalid_json", NULL, "the message is not JSON");
	}
	free(text);
}

/* --- the connection ------------------------------------------------------------------------------- */

static void on_drained(void *arg)
{
	struct stream *s = arg;

	timer_clear(&s->g->loop, &s->slow);
	for (struct follower *f = s->followers, *next; f != NULL; f = next) {
		next = f->next;
		pump(f);
	}
}

static void stream_free(void *arg)
{
	free(arg);
}

static void forget(struct stream *s)
{
	struct stream **at;

	if (s->a == NULL)
		return;
	for (at = &s->a->streams; *at != s;)
		at = &(*at)->next;
	*at = s->next;
	s->a = NULL;
}

/* Not before everything that ran there was told to its end; who does not read is closed as ever. */
static void on_over(void *arg)
{
	struct stream *s = arg;

	if (s->followers == NULL ||
	    timer_set(&s->g->loop, &s->over, s->g->loop.now_us + 50 * US_PER_MS, on_over, s) < 0)
		goodbye(s, 1000, "the box has ended");
}

/* A moment later: at the end of this turn readers are told how it ended. */
void streams_end(struct abox *a)
{
	while (a->streams != NULL) {
		struct stream *s = a->streams;

		forget(s);
		if (timer_set(&s->g->loop, &s->over, s->g->loop.now_us + US_PER_MS, on_over, s) < 0)
			on_over(s);
	}
}

static void on_closed(void *arg)
{
	struct stream *s = arg;

	s->closed = true;
	forget(s);
	timer_clear(&s->g->loop, &s->over);
	timer_clear(&s->g->loop, &s->slow);
	while (s->followers != NULL) {
		struct follower *f = s->followers;

		if (f->left != NULL && !f->rd.run->ended)
			f->left(f->arg);
		follower_end(f);
	}
	while (s->calls != NULL) {
		struct op_call *c = s->calls;

		if (c->r.gone != NULL)
			c->r.gone(&c->r);
		call_end(c);
	}
	loop_defer(&s->g->loop, &s->deferred, stream_free, s);
}

void box_stream(struct req *r)
{
	static const struct ws_ops stream_ops = { .message = on_message,
						  .drained = on_drained,
						  .closed = on_closed };
	struct abox *a = abox_find(r, true);
	struct stream *s;

	if (a == NULL)
		return;
	s = calloc(1, sizeof(*s));
	if (s == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	s->g = r->g;
	s->tenant = r->tenant;
	(void)memcpy(s->box, a->id, sizeof(s->box));
	(void)memcpy(s->request, r->id, sizeof(s->request));
	abox_touch(a);
	s->ws = ws_accept(r, MESSAGE_MAX, &stream_ops, s);
	if (s->ws == NULL) {
		free(s);
		return;
	}
	s->a = a;
	s->next = a->streams;
	a->streams = s;
}
