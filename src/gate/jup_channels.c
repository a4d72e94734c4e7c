// SPDX-License-Identifier: Apache-2.0
/*
 * GET /api/kernels/{kernel_id}/channels, a WebSocket: one kernel's shell, control, iopub and stdin, for one client.
 *
 * What a client sends is hostile. A frame that is none closes the connection; a message that nobody knows is answered
 * with an error, if it is a request. Requests on shell wait in the kernel's queue (jup_queue.c); control does not wait, and is
 * answered here.
 */
#include "gate/jup.h"

#include "base/base64.h"
#include "base/own.h"
#include "wire/job.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* --- labels --------------------------------------------------------------------------------------- */

const char *jup_label_header(const char *label)
{
	const char *end = label != NULL ? strchr(label, '\n') : NULL;

	return end != NULL ? end + 1 : NULL;
}

bool jup_label_is_of(const char *label, const char *key)
{
	size_t n = strlen(key);

	return strncmp(label, key, n) == 0 && label[n] == '\n';
}

/* What is needed of a header to answer it. NULL: no memory, or it is longer than a label may be. */
static char *make_label(const struct jup_client *c, const struct jup_msg *m)
{
	struct json j;
	char *label;

	json_init(&j);
	json_raw(&j, c->key, strlen(c->key));
	json_raw(&j, "\n", 1);
	json_restart(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "msg_id", m->msg_id);
	json_str(&j, "msg_type", m->msg_type);
	json_str(&j, "session", m->session);
	json_str(&j, "username", m->username);
	json_str(&j, "date", m->date);
	json_str(&j, "version", m->version);
	json_close(&j, '}');
	json_raw(&j, "", 1);
	label = !j.failed && j.len <= TASK_LABEL ? strdup(j.buf) : NULL;
	json_done(&j);
	return label;
}

/* --- shell ---------------------------------------------------------------------------------------- */

static void put_buffers(struct json *j, const struct jup_msg *m)
{
	json_open(j, "buffers", '[');
	for (size_t i = 0; i < m->nbuffers; i++) {
		size_t n = m->buffers[i].n;
		char *text = malloc(BASE64_TEXT_LEN(n) + 1);

		if (text == NULL) {
			j->failed = true;
			return;
		}
		json_bytes(j, NULL, text, base64_encode(m->buffers[i].p, n, text));
		free(text);
	}
	json_close(j, ']');
}

/* As kernel/README.md has it. */
static void put_request(struct json *j, const struct jup_msg *m, const char *type)
{
	json_open(j, NULL, '{');
	json_str(j, "type", type);
	json_text_put(m->content, j, "content");
	if (strncmp(type, "comm_", 5) == 0) {
		json_text_put(m->metadata, j, "metadata");
		put_buffers(j, m);
	}
	if (strcmp(type, "execute") == 0)
		json_bool(j, "echo", true);
	json_close(j, '}');
}

/* Every message that shell takes, and what the kernel calls it. */
static const struct {
	const char *message, *type;
} requests[] = {
	{ "execute_request", "execute" },
	{ "complete_request", "complete" },
	{ "inspect_request", "inspect" },
	{ "history_request", "history" },
	{ "is_complete_request", "is_complete" },
	{ "kernel_info_request", "kernel_info" },
	{ "comm_info_request", "comm_info" },
	{ "comm_open", "comm_open" },
	{ "comm_msg", "comm_msg" },
	{ "comm_close", "comm_close" },
};

static bool stops_on_error(const struct jup_msg *m)
{
	struct json_member stop = { .key = "stop_on_error" };

	json_text_find(m->content, &stop, 1);
	return json_text_kind(stop.value) != 't' || stop.value.p[0] == 't';
}

static void ask(struct jup *jup, struct jup_client *c, const struct jup_msg *m, const char *type,
		char *label)
{
	struct jup_request *q = calloc(1, sizeof(*q));

	if (q == NULL) {
		jup_refuse(jup, JUP_SHELL, m->msg_type, label, "out of memory");
		free(label);
		return;
	}
	q->label = label;
	q->stop_on_error = stops_on_error(m);
	(void)memcpy(q->key, c->key, sizeof(q->key));
	(void)memcpy(q->type, m->msg_type, sizeof(q->type));
	put_request(&q->body, m, type);
	jup_enqueue(jup, q);
}

static void on_shell(struct jup *jup, struct jup_client *c, const struct jup_msg *m, char *label)
{
	for (unsigned int i = 0; i < ARRAY_LEN(requests); i++)
		if (strcmp(requests[i].message, m->msg_type) == 0) {
			ask(jup, c, m, requests[i].type, label);
			return;
		}
	jup_refuse(jup, JUP_SHELL, m->msg_type, label, "there is no such request");
	free(label);
}

/* --- control -------------------------------------------------------------------------------------- */

static void control_info(struct jup *jup, const struct jup_msg *m, const char *label)
{
	static const char plain[] =
		"{\"status\":\"ok\",\"protocol_version\":\"5.3\",\"implementation\":\"ipython\","
		"\"implementation_version\":\"\",\"banner\":\"\",\"help_links\":[],"
		"\"language_info\":{\"name\":\"python\",\"version\":\"3\",\"mimetype\":\"text/"
		"x-python\","
		"\"file_extension\":\".py\",\"pygments_lexer\":\"ipython3\"}}";

	(void)m;
	jup_answer(jup, JUP_CONTROL, "kernel_info_reply", label,
		   jup->k->info != NULL ? jup->k->info : plain);
}

static void control_interrupt(struct jup *jup, const struct jup_msg *m, const char *label)
{
	(void)m;
	if (jup->k->running != NULL)
		cell_interrupt(jup->k->running, 0);
	jup_answer(jup, JUP_CONTROL, "interrupt_reply", label, "{\"status\":\"ok\"}");
}

/* Its clients are told before it ends. */
static void control_shutdown(struct jup *jup, const struct jup_msg *m, const char *label)
{
	struct json_member restart = { .key = "restart" };
	bool again;

	json_text_find(m->content, &restart, 1);
	again = json_text_kind(restart.value) == 't' && restart.value.p[0] == 't';
	jup_answer(jup, JUP_CONTROL, "shutdown_reply", label,
		   again ? "{\"status\":\"ok\",\"restart\":true}"
			 : "{\"status\":\"ok\",\"restart\":false}");
	jup_end(jup->k, again);
}

static const struct {
	const char *message;
	void (*run)(struct jup *jup, const struct jup_msg *m, const char *label);
} controls[] = {
	{ "kernel_info_request", control_info },
	{ "interrupt_request", control_interrupt },
	{ "shutdown_request", control_shutdown },
};

static void on_control(struct jup *jup, const struct jup_msg *m, const char *label)
{
	for (unsigned int i = 0; i < ARRAY_LEN(controls); i++)
		if (strcmp(controls[i].message, m->msg_type) == 0) {
			controls[i].run(jup, m, label);
			return;
		}
	jup_refuse(jup, JUP_CONTROL, m->msg_type, label, "there is no such request");
}

/* --- stdin ---------------------------------------------------------------------------------------- */

/* What input() returns. What is too long is no answer: EOFError. */
static void on_stdin(struct jup *jup, const struct jup_msg *m)
{
	struct json_member value = { .key = "value" };
	struct cell *cell = jup->k->running;
	char text[CHANNEL_PAYLOAD_MAX + 1];
	bool ok;

	if (cell == NULL || cell->asked == 0 || strcmp(m->msg_type, "input_reply") != 0)
		return;
	json_text_find(m->content, &value, 1);
	ok = json_text_str(value.value, text, sizeof(text));
	(void)cell_answer(cell, ok ? text : "", ok ? strlen(text) : 0, !ok);
}

/* --- the connection ------------------------------------------------------------------------------- */

static void on_message(void *arg, bool binary, const uint8_t *p, size_t n)
{
	struct jup_client *c = arg;
	struct jup *jup = c->jup;
	const char *why = NULL;
	struct jup_msg m;
	char *label;

	if (jup == NULL || c->closing)
		return;
	if (jup_read(&m, c->framing, binary, p, n, &why) < 0) {
		jup_goodbye(c, 1007, why);
		return;
	}
	jup->active_ms = own_now_ms();
	abox_touch(jup->k->a);
	label = make_label(c, &m);
	if (label == NULL) {
		jup_goodbye(c, 1009, "the header is too large");
	} else if (m.channel == JUP_SHELL) {
		on_shell(jup, c, &m, label);
		label = NULL;
	} else if (m.channel == JUP_CONTROL) {
		on_control(jup, &m, label);
	} else if (m.channel == JUP_STDIN) {
		on_stdin(jup, &m);
	} else {
		jup_goodbye(c, 1003, "there is no such channel to send on");
	}
	free(label);
	jup_msg_done(&m);
}

static void on_drained(void *arg)
{
	struct jup_client *c = arg;

	timer_clear(&c->g->loop, &c->slow);
	jup_pump(c);
}

static void client_free(void *arg)
{
	struct jup_client *c = arg;

	free(c->unsent);
	free(c);
}

static void on_closed(void *arg)
{
	struct jup_client *c = arg;
	struct jup *jup = c->jup;

	c->closed = true;
	if (jup != NULL) {
		struct jup_client **at = &jup->clients;

		while (*at != c)
			at = &(*at)->next;
		*at = c->next;
		jup->nclients--;
		if (jup->nclients == 0)
			jup_unsend(c);
		jup_unpause(jup);
		jup->k->a->attached--;
		abox_touch(jup->k->a);
		jup_caught_up(jup);
	}
	jup_taps_done(c);
	loop_defer(&c->g->loop, &c->deferred, client_free, c);
}

/* When a gate has died all come back, one after the other: somebody else may have heard the answer to this one. */
static bool is_unanswered(const struct task *t, const struct jup_client *c)
{
	return t->adopted && t->run.ended && !t->answered && t->label != NULL &&
	       jup_label_is_of(t->label, c->key);
}

/* What was said while nobody was there; or, if somebody is, what comes from now on; or what the one whose place this is, if
 * any, has not read. */
static void replay(struct jup *jup, struct jup_client *c, struct jup_client *old)
{
	bool first = jup->nclients == 1;

	for (struct task *t = jup->k->a->tasks; t != NULL; t = t->next) {
		struct cell *cell = (struct cell *)t; /* its first member */
		uint64_t after;

		if (t->kind != &cell_kind || (t->flags & TASK_WHOLE) == 0 ||
		    strcmp(cell->kernel, jup->k->name) != 0)
			continue;
		if (old != NULL && jup_place(old, cell, &after))
			jup_follow(c, cell, after, false);
		else if (first && t->heard < t->run.seq)
			jup_follow(c, cell, t->heard, false);
		else if (!t->run.ended)
			jup_follow(c, cell, t->run.seq, false);
		else if (is_unanswered(t, c))
			jup_follow(c, cell, run_last(&t->run, RUN_REPLY), false);
	}
}

/* Somebody of the same name whose connection is stuck: this one takes its place. NULL: nobody. */
static struct jup_client *stuck(const struct jup *jup, const struct jup_client *c)
{
	struct jup_client *old = jup->clients;

	while (old != NULL && (!c->named || strcmp(old->key, c->key) != 0 || old->closing ||
			       ws_queued(old->ws) == 0))
		old = old->next;
	return old;
}

static bool wants_v1(const struct req *r)
{
	struct http_slice v = req_get(r, "Sec-WebSocket-Protocol");
	size_t n = strlen(JUP_V1_PROTOCOL);

	while (v.n >= n) {
		size_t len = 0;

		while (len < v.n && v.p[len] != ',' && v.p[len] != ' ')
			len++;
		if (len == n && memcmp(v.p, JUP_V1_PROTOCOL, n) == 0)
			return true;
		len += len < v.n;
		v.p += len;
		v.n -= len;
	}
	return false;
}

/* Whoever gives no session_id is nobody that was there before. */
static bool take_key(const struct req *r, char key[JUP_KEY])
{
	struct http_slice id = req_query(r, "session_id");
	bool plain = id.n > 0 && id.n < JUP_KEY;

	for (size_t i = 0; i < id.n && plain; i++)
		plain = id.p[i] > ' ' && id.p[i] < 127;
	if (plain)
		(void)snprintf(key, JUP_KEY, "%.*s", (int)id.n, id.p);
	else
		(void)snprintf(key, JUP_KEY, "request %s", r->id);
	return plain;
}

void jup_channels(struct req *r)
{
	static const struct ws_ops ops = { .message = on_message,
					   .drained = on_drained,
					   .closed = on_closed };
	struct kernel *k = jup_find(r);
	struct jup *jup = k != NULL ? jup_of(k) : NULL;
	struct jup_client *c, *old;

	if (k == NULL)
		return;
	if (jup != NULL && jup->nclients >= JUP_CLIENTS_MAX) {
		req_refuse(r, 429, "too_many", NULL, "%u clients are connected to this kernel",
			   jup->nclients);
		return;
	}
	c = jup != NULL ? calloc(1, sizeof(*c)) : NULL;
	if (c == NULL) {
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
		return;
	}
	c->g = r->g;
	c->framing = wants_v1(r) ? JUP_V1 : JUP_LEGACY;
	c->named = take_key(r, c->key);
	c->inside = r->conn->listener->inside;
	c->ws = ws_accept_as(r, c->framing == JUP_V1 ? JUP_V1_PROTOCOL : NULL,
			     c->inside ? (size_t)JUP_LARGE : (size_t)JUP_MESSAGE_MAX, &ops, c);
	if (c->ws == NULL) {
		free(c);
		return;
	}
	old = stuck(jup, c);
	c->jup = jup;
	c->next = jup->clients;
	jup->clients = c;
	jup->nclients++;
	k->a->attached++;
	abox_touch(k->a);
	replay(jup, c, old);
	if (old != NULL)
		jup_goodbye(old, 1000, "another connection took its place");
}
