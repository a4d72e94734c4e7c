// SPDX-License-Identifier: Apache-2.0
/*
 * What a kernel is asked on shell, by all its clients: one queue. And what the engine says about a kernel of this dialect.
 *
 * A few requests are with the engine, so that the next gate knows of them; the others wait here. One that is aborted keeps its
 * place, and is answered when those who hear of it have read what was before it.
 */
#include "gate/jup.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
	AHEAD_MAX = 8, /* cells that wait in the engine: the next gate knows of them, and answers */
	FEED_TURN = 64, /* requests that are answered in one turn */
	DEATHS_MAX =
		5, /* of a kernel, one after the other; then it is started when somebody asks */
};

/* --- the queue of a kernel -------------------------------------------------------------------------- */

static void feed(struct jup *jup);

static void request_free(struct jup_request *q)
{
	json_done(&q->body);
	free(q->label);
	free(q);
}

static struct jup_request *take_first(struct jup *jup)
{
	struct jup_request *q = jup->first;

	jup->first = q->next;
	if (jup->first == NULL)
		jup->last = NULL;
	jup->nwaiting--;
	jup->waiting_bytes -= q->body.cap;
	return q;
}

static bool is_execute(const struct jup_request *q)
{
	return strcmp(q->type, "execute_request") == 0;
}

/* "x_request" is answered by "x_reply"; false: by nothing. */
bool jup_reply_to(const char *type, char reply[JUP_TYPE_MAX + 1])
{
	size_t n = strlen(type);

	if (n < 8 || strcmp(type + n - 8, "_request") != 0)
		return false;
	(void)snprintf(reply, JUP_TYPE_MAX + 1, "%.*s_reply", (int)(n - 8), type);
	return true;
}

void jup_refuse(struct jup *jup, enum jup_channel channel, const char *type, const char *label,
		const char *why)
{
	char reply[JUP_TYPE_MAX + 1], text[320];

	if (!jup_reply_to(type, reply))
		return;
	(void)snprintf(text, sizeof(text),
		       "{\"status\":\"error\",\"ename\":\"RequestError\",\"evalue\":\"%s\","
		       "\"traceback\":[]}",
		       why);
	jup_answer(jup, channel, reply, label, text);
}

static void abort_request(struct jup *jup, struct jup_request *q)
{
	char reply[JUP_TYPE_MAX + 1];

	if (jup_reply_to(q->type, reply))
		jup_answer(jup, JUP_SHELL, reply, q->label, "{\"status\":\"aborted\"}");
	request_free(q);
}

/* Those that wait do not run: they are answered when it is their turn, behind what was before them. */
static void abort_all(struct jup *jup, bool questions)
{
	for (struct jup_request *q = jup->first; q != NULL; q = q->next)
		if (!q->aborted && (questions || is_execute(q))) {
			q->aborted = true;
			jup->waiting_bytes -= q->body.cap;
			json_done(&q->body);
			json_init(&q->body);
		}
}

/* An error ends what was to be run behind it. Questions stay. */
static void abort_waiting(struct jup *jup)
{
	struct kernel *k = jup->k;

	abort_all(jup, false);
	for (struct cell *c = k->queue, *behind; c != NULL; c = behind) {
		behind = c->next;
		if ((c->t.flags & (TASK_WHOLE | TASK_ASIDE)) == TASK_WHOLE)
			cell_cancel(c, "an earlier cell failed");
	}
}

/* The next one to the engine. */
static void start_request(struct jup *jup)
{
	static const struct idem_key no_key;
	struct jup_request *q = take_first(jup);
	struct cell_spec spec = { .code = "",
				  .request = &q->body,
				  .label = q->label,
				  .flags = TASK_WHOLE | (is_execute(q) ? 0 : TASK_ASIDE) |
					   (strncmp(q->type, "comm_", 5) == 0 ? TASK_TALKS : 0) };
	struct kernel *k = jup->k;
	struct cell *c;
	int error;

	if (!audit_allows(k->a->g)) {
		jup_refuse(jup, JUP_SHELL, q->type, q->label, "the audit file cannot be written");
		request_free(q);
		return;
	}
	c = cell_new(k, &spec, &no_key, &error);
	if (c == NULL || c->t.released) {
		jup_refuse(jup, JUP_SHELL, q->type, q->label, "the server has no memory for this");
		request_free(q);
		return;
	}
	if (is_execute(q))
		audit(k->a->g, "cell", NULL, "tenant", k->a->tenant->name, "box", k->a->id, NULL);
	c->stops = is_execute(q) && q->stop_on_error;
	for (struct jup_client *client = jup->clients; client != NULL; client = client->next)
		jup_follow(client, c, 0, false);
	request_free(q);
}

static void on_again(void *arg)
{
	feed(arg);
}

/* As many as is good for others. */
static void feed(struct jup *jup)
{
	unsigned int n = 0;

	if (jup->feeding)
		return;
	jup->feeding = true;
	for (; jup->first != NULL && n < FEED_TURN; n++) {
		if (jup->first->aborted) {
			if (!jup_has_read(jup, jup->first->label))
				break; /* jup_caught_up() comes */
			abort_request(jup, take_first(jup));
		} else if (jup->k->nqueued < AHEAD_MAX && !jup->k->unwanted) {
			start_request(jup);
		} else {
			break; /* jup_ended() comes */
		}
	}
	jup->feeding = false;
	if (n == FEED_TURN)
		(void)timer_soon(&jup->k->a->g->loop, &jup->again, on_again, jup);
}

void jup_caught_up(struct jup *jup)
{
	if (jup->first != NULL && jup->first->aborted)
		feed(jup);
}

void jup_enqueue(struct jup *jup, struct jup_request *q)
{
	bool full = jup->nwaiting >= JUP_WAITING_MAX ||
		    jup->waiting_bytes + q->body.cap > JUP_WAITING_BYTES;

	if (q->body.failed || full) {
		jup_refuse(jup, JUP_SHELL, q->type, q->label,
			   q->body.failed ? "out of memory"
					  : "too many requests wait for this kernel");
		request_free(q);
		return;
	}
	if (jup->last != NULL)
		jup->last->next = q;
	else
		jup->first = q;
	jup->last = q;
	jup->nwaiting++;
	jup->waiting_bytes += q->body.cap;
	feed(jup);
}

/* --- what the kernel does ----------------------------------------------------------------------------- */

struct jup *jup_of(struct kernel *k)
{
	uint8_t random[16];

	if (k->jup != NULL)
		return k->jup;
	k->jup = calloc(1, sizeof(*k->jup));
	if (k->jup == NULL)
		return NULL;
	k->jup->k = k;
	k->jup->active_ms = own_now_ms();
	(void)!getrandom(random, sizeof(random), 0);
	for (unsigned int i = 0; i < sizeof(random); i++)
		(void)snprintf(k->jup->session + 2 * (size_t)i, 3, "%02x", random[i]);
	return k->jup;
}

void jup_abort(struct kernel *k)
{
	struct jup *jup = k->jup;

	if (jup == NULL)
		return;
	abort_all(jup, true);
	feed(jup);
}

/* Nobody comes for what its cells said: another kernel of this name is another one. */
static void forget_cells(const struct kernel *k)
{
	for (struct task *t = k->a->tasks; t != NULL; t = t->next)
		if (t->kind == &cell_kind && strcmp(((struct cell *)t)->kernel, k->name) == 0) {
			t->heard = t->run.seq;
			t->answered = true;
		}
}

void jup_drop(struct kernel *k)
{
	struct jup *jup = k->jup;

	if (jup == NULL)
		return;
	jup->feeding = true; /* nothing begins any more */
	while (jup->first != NULL)
		request_free(take_first(jup));
	timer_clear(&k->a->g->loop, &jup->again);
	while (jup->clients != NULL) {
		struct jup_client *c = jup->clients;

		jup_pump(c);
		if (c->closed)
			continue; /* and it is not in the list any more */
		jup->clients = c->next;
		jup->nclients--;
		k->a->attached--;
		jup_taps_done(c);
		jup_say_state(c, NULL, "dead");
		c->jup = NULL;
		jup_goodbye(c, 1000, "the kernel has ended");
	}
	forget_cells(k);
	k->jup = NULL;
	free(jup);
}

void jup_state(struct kernel *k, const char *state)
{
	if (k->jup == NULL)
		return;
	jup_status(k->jup, state);
}

bool jup_died(struct kernel *k)
{
	bool again = ++k->jup->deaths <= DEATHS_MAX;

	jup_state(k, again ? "restarting" : "dead");
	return again;
}

void jup_failed(struct kernel *k, struct cell *c)
{
	struct jup *jup = k->jup;

	if (jup != NULL && c->t.status == TASK_OK)
		jup->deaths = 0;
	if (jup != NULL && c->stops && c->t.started_ms != 0 && c->t.status != TASK_OK)
		abort_waiting(jup);
}

void jup_ended(struct kernel *k)
{
	struct jup *jup = k->jup;

	if (jup == NULL)
		return;
	jup->active_ms = own_now_ms();
	feed(jup);
}

void jup_late(struct cell *c)
{
	struct kernel *k = jup_kernel_of(c);

	if (k == NULL || k->jup == NULL || (c->t.flags & TASK_WHOLE) == 0)
		return;
	for (struct jup_client *client = k->jup->clients; client != NULL; client = client->next)
		if (jup_tap_of(client, c) == NULL)
			jup_follow(client, c, c->t.run.seq - 1, true);
}
