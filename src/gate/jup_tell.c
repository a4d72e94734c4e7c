// SPDX-License-Identifier: Apache-2.0
/*
 * What clients of Jupyter's dialect are told: the log of a cell as messages, and what the gate says itself.
 *
 * Of a request everybody hears, in this order: busy, what it was (execute_input), what it says, and, behind its reply,
 * idle.
 */
#include "gate/jup.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/own.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SLOW_US (30 * US_PER_S)

enum { STATE_TEXT = 64 };

void jup_goodbye(struct jup_client *c, uint16_t code, const char *why)
{
	if (c->closing || c->closed)
		return;
	c->closing = true;
	ws_close(c->ws, code, why);
}

/* --- sending -------------------------------------------------------------------------------------- */

static uint64_t unix_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_nsec / 1000;
}

static void put_header(struct jup *jup, const char *type, struct json *j)
{
	char id[64];
	const struct jup_header h = {
		.msg_id = id,
		.session = jup->session,
		.username = "glovebox",
		.msg_type = type,
		.unix_us = unix_us(),
	};

	(void)snprintf(id, sizeof(id), "%s_%llu", jup->session,
		       (unsigned long long)++jup->next_message);
	jup_header_put(&h, j, NULL);
}

static struct json_text text_of(const char *s)
{
	return (struct json_text){ s, s != NULL ? strlen(s) : 0 };
}

void jup_send(struct jup_client *c, const struct jup_say *s)
{
	struct json header, whole;
	bool binary;
	int rc;

	if (c->closing || c->closed || c->jup == NULL)
		return;
	json_init(&header);
	json_init(&whole);
	put_header(c->jup, s->type, &header);
	rc = header.failed ? -ENOMEM : 0;
	if (rc == 0) {
		const struct jup_out o = {
			.channel = s->channel,
			.header = { header.buf, header.len },
			.parent_header = text_of(jup_label_header(s->label)),
			.metadata = s->metadata,
			.content = { s->content, s->ncontent },
			.buffers = s->buffers,
			.nbuffers = s->nbuffers,
		};

		rc = jup_write(&whole, c->framing, &o, &binary);
	}
	if (rc == 0)
		ws_send(c->ws, binary, whole.buf, whole.len);
	else
		jup_goodbye(c, 1013, rc == -ENOMEM ? "out of memory" : "the message is too large");
	json_done(&header);
	json_done(&whole);
}

/* Whether the one whose label it is is connected. */
static bool is_there(const struct jup *jup, const char *label)
{
	const struct jup_client *c = label != NULL ? jup->clients : NULL;

	while (c != NULL && (c->closing || !jup_label_is_of(label, c->key)))
		c = c->next;
	return c != NULL;
}

/* Whose label it is, or everybody, if that one is not there. */
static bool is_for(const struct jup *jup, const struct jup_client *c, const char *label)
{
	return label == NULL || jup_label_is_of(label, c->key) || !is_there(jup, label);
}

static void on_slow(void *arg)
{
	struct jup_client *c = arg;

	jup_goodbye(c, 1013, "the client does not read");
	if (c->jup != NULL)
		jup_unpause(c->jup);
}

void jup_await_reader(struct jup_client *c)
{
	if (c->slow.place == 0)
		(void)timer_set(&c->g->loop, &c->slow, c->g->loop.now_us + SLOW_US, on_slow, c);
}

/* What is not read from a log waits in memory: so who does not read is told no more. */
static void say_now(struct jup_client *c, const struct jup_say *s)
{
	size_t waits = ws_queued(c->ws);

	if (waits > (c->inside ? (size_t)REQ_HIGH : (size_t)JUP_BEHIND_MAX)) {
		jup_goodbye(c, 1013, "the client does not read");
		return;
	}
	if (waits >= REQ_HIGH)
		jup_await_reader(c);
	jup_send(c, s);
}

/* A state as content: `text` is room for it. */
static struct jup_say state_of(const char *label, const char *state, char text[STATE_TEXT])
{
	(void)snprintf(text, STATE_TEXT, "{\"execution_state\":\"%s\"}", state);
	return (struct jup_say){ .channel = JUP_IOPUB,
				 .type = "status",
				 .label = label,
				 .content = text,
				 .ncontent = strlen(text) };
}

void jup_say_state(struct jup_client *c, const char *label, const char *state)
{
	char text[STATE_TEXT];
	const struct jup_say s = state_of(label, state, text);

	say_now(c, &s);
}

void jup_status(struct jup *jup, const char *state)
{
	for (struct jup_client *c = jup->clients, *next; c != NULL; c = next) {
		struct jup_tap *t = NULL;

		next = c->next;
		for (struct jup_tap *begun = c->taps; begun != NULL; begun = begun->next)
			if (begun->rd.run->seq > 0)
				t = begun;
		if (t == NULL)
			jup_say_state(c, NULL, state);
		else if (t->nstates < JUP_STATES_MAX)
			t->states[t->nstates++] = state;
	}
}

void jup_answer(struct jup *jup, enum jup_channel channel, const char *type, const char *label,
		const char *content)
{
	const struct jup_say s = { .channel = channel,
				   .type = type,
				   .label = label,
				   .content = content,
				   .ncontent = strlen(content) };
	bool there = is_there(jup, label);

	for (struct jup_client *c = jup->clients, *next; c != NULL; c = next) {
		next = c->next;
		if (there && !jup_label_is_of(label, c->key))
			continue;
		jup_say_state(c, label, "busy");
		say_now(c, &s);
		jup_say_state(c, label, "idle");
	}
}

bool jup_has_read(const struct jup *jup, const char *label)
{
	bool there = is_there(jup, label);

	for (const struct jup_client *c = jup->clients; c != NULL; c = c->next)
		if (!c->closing && c->taps != NULL && (!there || jup_label_is_of(label, c->key)))
			return false;
	return true;
}

/* --- events as messages ----------------------------------------------------------------------------- */

static struct json_text member(const struct jup_event *e, const char *key)
{
	struct json_walk w = { e->p, e->p + e->n };
	struct json_text name, value;
	char text[32];

	while (json_walk_next(&w, &name, &value))
		if (json_text_str(name, text, sizeof(text)) && strcmp(text, key) == 0)
			return value;
	return (struct json_text){ 0 };
}

static void put_member(const struct jup_event *e, const char *from, struct json *j, const char *to)
{
	struct json_text value = member(e, from);

	json_value(j, to);
	if (value.p != NULL)
		json_raw(j, value.p, value.n);
	else
		json_raw(j, "null", 4);
}

static void say(const struct jup_event *e, enum jup_channel channel, const char *type,
		const struct json *content)
{
	if (content->failed)
		jup_goodbye(e->tap->c, 1013, "out of memory");
	else
		jup_send(e->tap->c, &(struct jup_say){ .channel = channel,
						       .type = type,
						       .label = e->cell->t.label,
						       .content = content->buf,
						       .ncontent = content->len });
}

/* Of a cell: its tap has looked whether there is room. */
static void say_state(struct jup_client *c, const char *label, const char *state)
{
	char text[STATE_TEXT];
	const struct jup_say s = state_of(label, state, text);

	jup_send(c, &s);
}

/* A message that could not be sent has ended the connection, and with it perhaps the log. */
bool jup_is_gone(const struct jup_event *e)
{
	return e->tap->rd.run == NULL;
}

static void tell_start(const struct jup_event *e)
{
	static const char clear[] = "{\"wait\":false}";

	say_state(e->tap->c, e->cell->t.label, "busy");
	if (!e->tap->anew || (e->cell->t.flags & TASK_ASIDE) != 0)
		return;
	jup_send(e->tap->c, &(struct jup_say){ .channel = JUP_IOPUB,
					       .type = "clear_output",
					       .label = e->cell->t.label,
					       .content = clear,
					       .ncontent = sizeof(clear) - 1 });
}

static void tell_text(const struct jup_event *e)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "name", e->told.event == RUN_STDOUT ? "stdout" : "stderr");
	json_bytes(&j, "text", e->p, e->n);
	json_close(&j, '}');
	say(e, JUP_IOPUB, "stream", &j);
	json_done(&j);
}

static void tell_display(const struct jup_event *e)
{
	static const char *const types[] = { [RUN_DISPLAY] = "display_data",
					     [RUN_UPDATE] = "update_display_data",
					     [RUN_RESULT] = "execute_result" };
	struct json_text id = member(e, "display_id");
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	put_member(e, "data", &j, "data");
	put_member(e, "metadata", &j, "metadata");
	if (e->told.event == RUN_RESULT)
		put_member(e, "execution_count", &j, "execution_count");
	json_open(&j, "transient", '{');
	if (json_text_kind(id) == '"')
		put_member(e, "display_id", &j, "display_id");
	json_close(&j, '}');
	json_close(&j, '}');
	say(e, JUP_IOPUB, types[e->told.event], &j);
	json_done(&j);
}

static void tell_error(const struct jup_event *e)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	put_member(e, "name", &j, "ename");
	put_member(e, "value", &j, "evalue");
	put_member(e, "traceback", &j, "traceback");
	json_close(&j, '}');
	say(e, JUP_IOPUB, "error", &j);
	json_done(&j);
}

/* Events whose members are the content as it is. */
static void tell_members(const struct jup_event *e, enum jup_channel channel, const char *type)
{
	struct json j;

	json_init(&j);
	json_raw(&j, "{", 1);
	json_raw(&j, e->p, e->n);
	json_raw(&j, "}", 1);
	say(e, channel, type, &j);
	json_done(&j);
}

static void tell_input(const struct jup_event *e)
{
	if (is_for(e->tap->c->jup, e->tap->c, e->cell->t.label))
		tell_members(e, JUP_STDIN, "input_request");
}

static void tell_reply(const struct jup_event *e)
{
	struct json_text content = member(e, "content");
	char type[JUP_TYPE_MAX + 1];

	if (!is_for(e->tap->c->jup, e->tap->c, e->cell->t.label) ||
	    !json_text_str(member(e, "type"), type, sizeof(type)) ||
	    (strncmp(type, "comm_", 5) == 0 && strcmp(type, "comm_info_reply") != 0))
		return;
	jup_send(e->tap->c, &(struct jup_say){ .channel = JUP_SHELL,
					       .type = type,
					       .label = e->cell->t.label,
					       .content = content.p,
					       .ncontent = content.n });
}

/* Buffers are base64 in the log. -errno. */
static int take_buffers(struct json_text list, struct jup_bytes *to, size_t *n, uint8_t **ret_all)
{
	struct json_walk w = json_walk(list);
	struct json_text key, value;
	uint8_t *at;

	*n = 0;
	*ret_all = at = malloc(list.n + 1);
	if (at == NULL)
		return -ENOMEM;
	while (json_walk_next(&w, &key, &value)) {
		size_t len;

		if (*n == JUP_BUFFERS_MAX || value.n < 2 ||
		    base64_decode(value.p + 1, value.n - 2, at, &len) < 0)
			return -EPROTO;
		to[(*n)++] = (struct jup_bytes){ at, len };
		at += len;
	}
	return 0;
}

static void tell_comm(const struct jup_event *e)
{
	struct jup_bytes buffers[JUP_BUFFERS_MAX];
	struct json_text content = member(e, "content");
	char type[JUP_TYPE_MAX + 1];
	uint8_t *all = NULL;
	size_t n;

	if (take_buffers(member(e, "buffers"), buffers, &n, &all) == 0 &&
	    json_text_str(member(e, "type"), type, sizeof(type)))
		jup_send(e->tap->c, &(struct jup_say){ .channel = JUP_IOPUB,
						       .type = type,
						       .label = e->cell->t.label,
						       .content = content.p,
						       .ncontent = content.n,
						       .metadata = member(e, "metadata"),
						       .buffers = buffers,
						       .nbuffers = n });
	free(all);
}

/* A word of ours, between what the cell prints. */
static void tell_note(const struct jup_event *e, const char *what)
{
	char text[160];
	struct json j;

	(void)snprintf(text, sizeof(text), "\n[%s]\n", what);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "name", "stderr");
	json_str(&j, "text", text);
	json_close(&j, '}');
	say(e, JUP_IOPUB, "stream", &j);
	json_done(&j);
}

/* The type of the reply to what a label says; false: there is none. */
static bool reply_type(const char *label, char type[JUP_TYPE_MAX + 1])
{
	struct json_member m = { .key = "msg_type" };
	char asked[JUP_TYPE_MAX + 1];

	json_text_find(text_of(jup_label_header(label)), &m, 1);
	return json_text_str(m.value, asked, sizeof(asked)) && jup_reply_to(asked, type);
}

/* Its kernel did not say how it ended. */
static void tell_failure(const struct jup_event *e)
{
	struct json_text error = member(e, "error");
	bool known = json_text_kind(error) == '{' && error.n > 2;
	const struct jup_event inner = { e->tap, e->cell, e->told, known ? error.p + 1 : "",
					 known ? error.n - 2 : 0 };
	bool aborted = e->cell->t.started_ms == 0;
	char type[JUP_TYPE_MAX + 1];
	struct json j;

	if (aborted)
		say_state(e->tap->c, e->cell->t.label, "busy");
	else if (inner.n > 0 && (e->cell->t.flags & TASK_ASIDE) == 0)
		tell_error(&inner);
	if (jup_is_gone(e) || !is_for(e->tap->c->jup, e->tap->c, e->cell->t.label) ||
	    !reply_type(e->cell->t.label, type))
		return;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "status", aborted ? "aborted" : "error");
	if (!aborted && inner.n > 0) {
		put_member(&inner, "name", &j, "ename");
		put_member(&inner, "value", &j, "evalue");
		put_member(&inner, "traceback", &j, "traceback");
	}
	json_close(&j, '}');
	say(e, JUP_SHELL, type, &j);
	json_done(&j);
}

void jup_tell(const struct jup_event *e)
{
	switch (e->told.event) {
	case RUN_START:
		tell_start(e);
		break;
	case RUN_STDOUT:
	case RUN_STDERR:
		tell_text(e);
		break;
	case RUN_DISPLAY:
	case RUN_UPDATE:
	case RUN_RESULT:
		tell_display(e);
		break;
	case RUN_ERROR:
		tell_error(e);
		break;
	case RUN_CLEAR:
		tell_members(e, JUP_IOPUB, "clear_output");
		break;
	case RUN_CODE:
		tell_members(e, JUP_IOPUB, "execute_input");
		break;
	case RUN_INPUT:
		tell_input(e);
		break;
	case RUN_COMM:
		tell_comm(e);
		break;
	case RUN_REPLY:
		tell_reply(e);
		break;
	case RUN_GAP:
		tell_note(e, "output is missing here: it was not kept");
		break;
	case RUN_END:
		if (e->cell->t.run.cut[0] || e->cell->t.run.cut[1] || e->cell->t.run.cut_other)
			tell_note(e, "output is missing: there was more than this box may have");
		if (!jup_is_gone(e) && !e->cell->replied)
			tell_failure(e);
		if (!jup_is_gone(e))
			say_state(e->tap->c, e->cell->t.label, "idle");
		break;
	case RUN_EVENT_MAX:
		break;
	}
}
