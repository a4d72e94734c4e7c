// SPDX-License-Identifier: Apache-2.0
/*
 * What clients of Jupyter's dialect are told: the log of a cell as messages, and what the gate says itself.
 *
 * Of a request everybody hears, in this order: busy, what it was (execute_input), what it says, and, behind its reply,
 * idle. Cells of a kernel follow each other, and so do their taps: one is read when those before it were read to their
 * ends, but what a cell says after its end is told as it comes.
 */
#include "gate/jup.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/own.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SLOW_US  (30 * US_PER_S)
#define AGAIN_US (50 * US_PER_MS)

enum { UNSENT_MAX = 65536 };

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

static void await_reader(struct jup_client *c)
{
	if (c->slow.place == 0)
		(void)timer_set(&c->g->loop, &c->slow, c->g->loop.now_us + SLOW_US, on_slow, c);
}

/* What is not read from a log waits in memory: so who does not read is told no more. */
static void say_now(struct jup_client *c, const struct jup_say *s)
{
	size_t waits = ws_queued(c->ws);

	if (waits > JUP_BEHIND_MAX) {
		jup_goodbye(c, 1013, "the client does not read");
		return;
	}
	if (waits >= REQ_HIGH)
		await_reader(c);
	jup_send(c, s);
}

static void say_state(struct jup_client *c, const char *label, const char *state)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "{\"execution_state\":\"%s\"}", state);
	say_now(c, &(struct jup_say){ .channel = JUP_IOPUB,
				      .type = "status",
				      .label = label,
				      .content = text,
				      .ncontent = strlen(text) });
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
			say_state(c, NULL, state);
		else if (t->nstates < JUP_STATES_MAX)
			t->states[t->nstates++] = state;
	}
}

void jup_dead(struct jup_client *c)
{
	say_state(c, NULL, "dead");
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
		say_state(c, label, "busy");
		say_now(c, &s);
		say_state(c, label, "idle");
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

struct event {
	struct jup_tap *tap;
	const struct cell *cell;
	struct run_told told;
	const char *p; /* bytes of a stream, or members of an object */
	size_t n;
};

static struct json_text member(const struct event *e, const char *key)
{
	struct json_walk w = { e->p, e->p + e->n };
	struct json_text name, value;
	char text[32];

	while (json_walk_next(&w, &name, &value))
		if (json_text_str(name, text, sizeof(text)) && strcmp(text, key) == 0)
			return value;
	return (struct json_text){ 0 };
}

static void put_member(const struct event *e, const char *from, struct json *j, const char *to)
{
	struct json_text value = member(e, from);

	json_value(j, to);
	if (value.p != NULL)
		json_raw(j, value.p, value.n);
	else
		json_raw(j, "null", 4);
}

static void say(const struct event *e, enum jup_channel channel, const char *type,
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

static void say_status(const struct event *e, const char *state)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "{\"execution_state\":\"%s\"}", state);
	jup_send(e->tap->c, &(struct jup_say){ .channel = JUP_IOPUB,
					       .type = "status",
					       .label = e->cell->t.label,
					       .content = text,
					       .ncontent = strlen(text) });
}

/* A message that could not be sent has ended the connection, and with it perhaps the log. */
static bool is_gone(const struct event *e)
{
	return e->tap->rd.run == NULL;
}

static void tell_start(const struct event *e)
{
	static const char clear[] = "{\"wait\":false}";

	say_status(e, "busy");
	if (!e->tap->anew || (e->cell->t.flags & TASK_ASIDE) != 0)
		return;
	jup_send(e->tap->c, &(struct jup_say){ .channel = JUP_IOPUB,
					       .type = "clear_output",
					       .label = e->cell->t.label,
					       .content = clear,
					       .ncontent = sizeof(clear) - 1 });
}

static void tell_text(const struct event *e)
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

static void tell_display(const struct event *e)
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

static void tell_error(const struct event *e)
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
static void tell_members(const struct event *e, enum jup_channel channel, const char *type)
{
	struct json j;

	json_init(&j);
	json_raw(&j, "{", 1);
	json_raw(&j, e->p, e->n);
	json_raw(&j, "}", 1);
	say(e, channel, type, &j);
	json_done(&j);
}

static void tell_input(const struct event *e)
{
	if (is_for(e->tap->c->jup, e->tap->c, e->cell->t.label))
		tell_members(e, JUP_STDIN, "input_request");
}

static void tell_reply(const struct event *e)
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

static void tell_comm(const struct event *e)
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
static void tell_note(const struct event *e, const char *what)
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
	size_t n;

	json_text_find(text_of(jup_label_header(label)), &m, 1);
	if (!json_text_str(m.value, type, JUP_TYPE_MAX + 1))
		return false;
	n = strlen(type);
	if (n < 8 || strcmp(type + n - 8, "_request") != 0)
		return false;
	(void)memcpy(type + n - 8, "_reply", 7);
	return true;
}

/* Its kernel did not say how it ended. */
static void tell_failure(const struct event *e)
{
	struct json_text error = member(e, "error");
	bool known = json_text_kind(error) == '{' && error.n > 2;
	const struct event inner = { e->tap, e->cell, e->told, known ? error.p + 1 : "",
				     known ? error.n - 2 : 0 };
	bool aborted = e->cell->t.started_ms == 0;
	char type[JUP_TYPE_MAX + 1];
	struct json j;

	if (aborted)
		say_status(e, "busy");
	else if (inner.n > 0 && (e->cell->t.flags & TASK_ASIDE) == 0)
		tell_error(&inner);
	if (is_gone(e) || !is_for(e->tap->c->jup, e->tap->c, e->cell->t.label) ||
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

static void tell(const struct event *e)
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
		if (!is_gone(e) && !e->cell->replied)
			tell_failure(e);
		if (!is_gone(e))
			say_status(e, "idle");
		break;
	case RUN_EVENT_MAX:
		break;
	}
}

/* --- taps ------------------------------------------------------------------------------------------- */

static void tap_free(void *arg)
{
	free(arg);
}

static void tap_end(struct jup_tap *t)
{
	struct jup_client *c = t->c;
	struct jup_tap **at = &c->taps;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	c->ntaps--;
	run_detach(&t->rd);
	loop_defer(&c->g->loop, &t->deferred, tap_free, t);
}

void jup_taps_done(struct jup_client *c)
{
	while (c->taps != NULL)
		tap_end(c->taps);
	timer_clear(&c->g->loop, &c->slow);
	timer_clear(&c->g->loop, &c->again);
}

static void on_again(void *arg)
{
	jup_pump(arg);
}

/* What waits to be sent to all clients of a tenant. */
static size_t tenant_queued(const struct gate *g, const struct tenant *t)
{
	size_t sum = 0;

	for (const struct abox *a = g->aboxes; a != NULL; a = a->next)
		for (const struct kernel *k = a->tenant == t ? a->kernels : NULL; k != NULL;
		     k = k->next)
			for (const struct jup_client *c = k->jup != NULL ? k->jup->clients : NULL;
			     c != NULL; c = c->next)
				sum += ws_queued(c->ws);
	return sum;
}

/* Whether n bytes more may be sent now; otherwise time runs. Who does not read is sent away; who waits because of others is
 * looked at again. */
static bool has_room(struct jup_client *c, size_t n)
{
	const struct tenant *t = c->jup != NULL ? c->jup->k->a->tenant : NULL;
	size_t mine, all;

	if (c->closing || c->closed || t == NULL)
		return false;
	mine = ws_queued(c->ws);
	all = n > JUP_LARGE ? tenant_queued(c->g, t) : 0;
	if (mine < REQ_HIGH && (all == 0 || all + n <= JUP_SEND_MAX))
		return true;
	if (mine >= REQ_HIGH)
		await_reader(c);
	if (mine < REQ_HIGH && c->again.place == 0)
		(void)timer_set(&c->g->loop, &c->again, c->g->loop.now_us + AGAIN_US, on_again, c);
	return false;
}

/* --- what did not arrive ---------------------------------------------------------------------------- */

/* Forget those that have left. */
static void prune(struct jup_client *c)
{
	uint64_t left = ws_sent(c->ws);

	while (c->first_unsent < c->nunsent && c->unsent[c->first_unsent].end <= left)
		c->first_unsent++;
	if (c->first_unsent == c->nunsent)
		c->first_unsent = c->nunsent = 0;
}

/* Room for one more. */
static int reserve(struct jup_client *c)
{
	size_t cap = c->cap_unsent > 0 ? c->cap_unsent * 2 : 64;
	struct jup_unsent *p;

	if (c->nunsent < c->cap_unsent)
		return 0;
	if (c->first_unsent > 0) {
		c->nunsent -= c->first_unsent;
		(void)memmove(c->unsent, c->unsent + c->first_unsent,
			      c->nunsent * sizeof(*c->unsent));
		c->first_unsent = 0;
		return 0;
	}
	p = cap <= UNSENT_MAX ? reallocarray(c->unsent, cap, sizeof(*p)) : NULL;
	if (p == NULL)
		return -1;
	c->unsent = p;
	c->cap_unsent = cap;
	return 0;
}

static void note(struct jup_client *c, const struct cell *cell, uint64_t seq)
{
	if (c->closing || c->closed)
		return;
	prune(c);
	if (ws_queued(c->ws) > 0 && reserve(c) == 0)
		c->unsent[c->nunsent++] =
			(struct jup_unsent){ ws_written(c->ws), cell->t.job_id, seq };
}

void jup_unsend(struct jup_client *c)
{
	struct abox *a = c->jup->k->a;

	prune(c);
	for (size_t i = c->nunsent; i > c->first_unsent; i--)
		for (struct task *t = a->tasks; t != NULL; t = t->next)
			if (t->kind == &cell_kind && t->job_id == c->unsent[i - 1].job &&
			    t->heard >= c->unsent[i - 1].seq)
				t->heard = c->unsent[i - 1].seq - 1;
}

static struct kernel *kernel_of(const struct cell *cell)
{
	return cell->t.a != NULL ? kernel_named(cell->t.a, cell->kernel, strlen(cell->kernel))
				 : NULL;
}

static const struct jup_tap *tap_of(const struct jup_client *c, const struct cell *cell)
{
	const struct jup_tap *t = c->taps;

	while (t != NULL && t->rd.run != &cell->t.run)
		t = t->next;
	return t;
}

bool jup_place(struct jup_client *c, const struct cell *cell, uint64_t *ret)
{
	const struct jup_tap *t = tap_of(c, cell);

	prune(c);
	for (size_t i = c->first_unsent; i < c->nunsent; i++)
		if (c->unsent[i].job == cell->t.job_id) {
			*ret = c->unsent[i].seq - 1;
			return true;
		}
	if (t != NULL)
		*ret = t->rd.after;
	return t != NULL;
}

uint64_t jup_heard(const struct cell *cell)
{
	const struct kernel *k = kernel_of(cell);
	bool followed = jup_is_followed(cell);
	uint64_t min = cell->t.heard, has;

	for (struct jup_client *c = k != NULL && k->jup != NULL ? k->jup->clients : NULL; c != NULL;
	     c = c->next)
		if (!(followed && c->closing) && jup_place(c, cell, &has) && has < min)
			min = has;
	return min;
}

bool jup_is_followed(const struct cell *cell)
{
	const struct kernel *k = kernel_of(cell);
	const struct jup_client *c = k != NULL && k->jup != NULL ? k->jup->clients : NULL;

	while (c != NULL && (c->closing || c->closed || tap_of(c, cell) == NULL))
		c = c->next;
	return c != NULL;
}

void jup_unpause(struct jup *jup)
{
	for (struct task *t = jup->k->a->tasks; t != NULL; t = t->next)
		if (t->kind == &cell_kind && t->paused)
			cell_flow((struct cell *)t); /* its first member */
}

/* Whether its client is the one who asked. */
static bool is_own(const struct jup_tap *t, const struct cell *cell)
{
	return cell->t.label != NULL && jup_label_is_of(cell->t.label, t->c->key);
}

/* A pause ends when what was told has left: nobody says so. */
static void look_again(struct jup_client *c)
{
	if (c->again.place == 0)
		(void)timer_set(&c->g->loop, &c->again, c->g->loop.now_us + AGAIN_US, on_again, c);
}

/* What there is of one; *n counts bytes. Whether it was read to its end. */
static bool pump(struct jup_tap *t, size_t *n)
{
	struct run *run = t->rd.run;
	struct cell *cell = run->arg; /* its task is its first member */
	struct event e = { .tap = t, .cell = cell };
	bool all;

	while (*n < RUN_TURN && has_room(t->c, run_next_bytes(&t->rd)) &&
	       run_take(&t->rd, &e.told, &e.p, &e.n)) {
		*n += e.n + 256;
		if (cell->t.label != NULL)
			tell(&e);
		if (is_gone(&e))
			return false;
		if (cell->t.heard < e.told.seq)
			cell->t.heard = e.told.seq;
		if (e.told.event == RUN_END && is_own(t, cell))
			cell->t.answered = true;
		note(t->c, cell, e.told.seq);
	}
	all = (run->ended || run->lost) && t->rd.after >= run->seq;
	if (cell->t.paused && all)
		cell_resume(cell);
	else if (cell->t.paused)
		cell_flow(cell);
	if (cell->t.paused)
		look_again(t->c);
	if (all && run->ended)
		run->ops->told(run->arg);
	return all;
}

void jup_pump(struct jup_client *c)
{
	size_t n = 0;

	timer_clear(&c->g->loop, &c->again);
	while (c->taps != NULL && !c->closing && pump(c->taps, &n)) {
		struct jup_tap *t = c->taps;

		for (unsigned int i = 0; i < t->nstates; i++)
			say_state(c, NULL, t->states[i]);
		if (c->taps == t) /* else the connection has ended */
			tap_end(t);
	}
	if (c->taps != NULL && n >= RUN_TURN && has_room(c, 0) &&
	    timer_soon(&c->g->loop, &c->again, on_again, c) < 0)
		jup_goodbye(c, 1013, "out of memory");
	if (c->taps == NULL && c->jup != NULL)
		jup_caught_up(c->jup);
}

static void on_more(struct run_reader *rd)
{
	jup_pump(((struct jup_tap *)rd)->c); /* its first member */
}

void jup_follow(struct jup_client *c, struct cell *cell, uint64_t after, bool late)
{
	struct jup_tap *t, **at = &c->taps;

	if (c->closing || c->closed)
		return;
	t = c->ntaps < JUP_TAPS_MAX ? calloc(1, sizeof(*t)) : NULL;
	if (t == NULL) {
		jup_goodbye(c, 1013,
			    c->ntaps < JUP_TAPS_MAX ? "out of memory" : "the client does not read");
		return;
	}
	c->ntaps++;
	t->c = c;
	t->anew = cell->t.adopted && cell->t.heard == 0 && after == 0;
	while (!late && *at != NULL)
		at = &(*at)->next;
	t->next = *at;
	*at = t;
	run_attach(&cell->t.run, &t->rd, after, on_more);
}
