// SPDX-License-Identifier: Apache-2.0
/* Calls of tools for the gate: each is answered once, by what the server says, by what became of it, or because its time is over. */
#include "tools/tools.h"

#include "base/clock.h"
#include "base/own.h"

#include <stdio.h>
#include <string.h>

static void answer(struct tools *t, uint64_t id, enum tool_outcome how, const char *why)
{
	gate_result(t, id, how, 0, why, strlen(why));
}

/* It is over, and was answered. */
static void release(struct call *c)
{
	struct server *s = c->server;
	struct call **at = &s->calls;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	s->ncalls--;
	s->t->ncalls--;
	s->used_us = clock_us();
	mcpc_request_done(&c->request);
	free(c->arguments);
	free(c);
}

/* --- what comes of them ------------------------------------------------------------------------------ */

static void answer_list(struct call *c)
{
	const struct mcpc_tools *tools = &c->request.tools;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '[');
	for (unsigned int i = 0; i < tools->n; i++) {
		json_value(&j, NULL);
		json_raw(&j, tools->v[i].text, tools->v[i].n);
		j.comma = true;
	}
	json_close(&j, ']');
	if (j.failed)
		answer(c->server->t, c->id, TOOL_FAILED, "out of memory");
	else
		gate_result(c->server->t, c->id, TOOL_DONE, 0, j.buf, j.len);
	json_done(&j);
}

/* A program that says nothing at all while a call waits does not answer the next one either. */
static void fail(const struct call *c, const char *why)
{
	const struct server *s = c->server;
	bool late = clock_us() >= c->deadline_us;

	answer(s->t, c->id, late ? TOOL_TIMED_OUT : TOOL_FAILED, why);
	if (late && s->spec.place.argv != NULL && s->link != NULL &&
	    s->link->heard_us < c->asked_us)
		c->server->hung = true;
}

/* It was refused with its session, so that nothing was done: once more, in the next session. */
static bool ask_again(struct call *c)
{
	struct server *s = c->server;

	if (c->again || s->link == NULL || !s->link->undone || s->link->client.broken[0] != '\0')
		return false;
	c->again = true;
	c->asked = false;
	s->forgotten = true; /* and the loop opens another */
	mcpc_request_done(&c->request);
	return true;
}

static void on_done(struct mcpc_request *r)
{
	struct call *c = r->arg;
	struct tools *t = c->server->t;

	if ((r->outcome == MCPC_REFUSED || r->outcome == MCPC_FAILED) && ask_again(c))
		return;
	if (r->outcome == MCPC_DONE && c->is_list)
		answer_list(c);
	else if (r->outcome == MCPC_DONE)
		gate_result(t, c->id, TOOL_DONE, 0, r->result.p, r->result.n);
	else if (r->outcome == MCPC_REFUSED)
		gate_result(t, c->id, TOOL_REFUSED, (uint64_t)r->code, r->error, strlen(r->error));
	else if (r->outcome == MCPC_FAILED)
		fail(c, r->error);
	release(c);
}

/* --- asking ------------------------------------------------------------------------------------------ */

void tool_call_new(struct tools *t, uint64_t id, struct server *s, const char *tool,
		   const char *arguments, size_t n, uint64_t timeout_us)
{
	struct call *c, **at = &s->calls;

	if (t->ncalls >= CALLS_MAX || s->ncalls >= CALLS_OF_SERVER) {
		answer(t, id, TOOL_BUSY, "as many calls as may be are under way");
		return;
	}
	c = calloc(1, sizeof(*c));
	if (c != NULL && tool != NULL)
		c->arguments = malloc(n + 1);
	if (c == NULL || (tool != NULL && c->arguments == NULL)) {
		free(c);
		answer(t, id, TOOL_FAILED, "out of memory");
		return;
	}
	c->server = s;
	c->id = id;
	c->is_list = tool == NULL;
	c->deadline_us = clock_us() + timeout_us;
	if (tool != NULL) {
		(void)snprintf(c->tool, sizeof(c->tool), "%s", tool);
		(void)memcpy(c->arguments, arguments, n);
		c->n = n;
	}
	while (*at != NULL)
		at = &(*at)->next;
	*at = c;
	s->ncalls++;
	t->ncalls++;
	server_wanted(s);
}

static void ask(struct call *c)
{
	struct mcpc *client = &c->server->link->client;
	uint64_t now = clock_us();
	struct json_text arguments = { NULL, 0 };

	c->asked = true;
	c->asked_us = now;
	c->request =
		(struct mcpc_request){ .done = on_done, .arg = c, .deadline_us = c->deadline_us };
	if (c->is_list) {
		mcpc_list(client, &c->request, now);
		return;
	}
	if (json_text_read(c->arguments, c->n, &arguments) < 0) {
		answer(c->server->t, c->id, TOOL_FAILED, "the arguments are no JSON");
		release(c);
		return;
	}
	mcpc_call(client, &c->request, c->tool, arguments, NULL, now);
}

/* One of them may end at once, and take others along. */
void calls_ask(struct server *s)
{
	struct call *c = s->calls;

	while (c != NULL && s->link != NULL && !s->forgotten && s->link->client.broken[0] == '\0') {
		if (c->asked) {
			c = c->next;
			continue;
		}
		ask(c);
		c = s->calls;
	}
}

bool calls_asked(const struct server *s)
{
	const struct call *c = s->calls;

	while (c != NULL && !c->asked)
		c = c->next;
	return c != NULL;
}

/* --- the end ---------------------------------------------------------------------------------------- */

void calls_fail(struct server *s, enum tool_outcome how, const char *why)
{
	while (s->calls != NULL) {
		answer(s->t, s->calls->id, how, why);
		release(s->calls);
	}
}

uint64_t calls_tick(struct server *s, uint64_t now_us)
{
	uint64_t next = UINT64_MAX;

	for (struct call *c = s->calls, *after; c != NULL; c = after) {
		after = c->next;
		if (c->asked)
			continue; /* the client looks after those */
		if (now_us >= c->deadline_us) {
			answer(s->t, c->id, TOOL_TIMED_OUT, "the server does not begin");
			release(c);
		} else if (c->deadline_us < next) {
			next = c->deadline_us;
		}
	}
	return next;
}

void tool_call_cancel(struct tools *t, uint64_t id)
{
	for (struct server *s = t->servers; s != NULL; s = s->next)
		for (struct call *c = s->calls; c != NULL; c = c->next) {
			if (c->id != id)
				continue;
			if (c->asked)
				mcpc_cancel(&c->request, "nobody waits for it", clock_us());
			else
				release(c);
			return;
		}
}
