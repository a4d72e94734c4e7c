// SPDX-License-Identifier: Apache-2.0
/*
 * A server of MCP, from the first call that somebody has for it to its end.
 *
 * It is started when it is wanted, kept while it is used, and started anew by the next call after it has died. One that fails
 * again and again is tried less and less often, and calls wait for it as long as they may.
 */
#include "tools/tools.h"

#include "base/clock.h"
#include "base/own.h"

#include <stdio.h>
#include <string.h>

enum {
	OPEN_US = 30 * 1000 * 1000,
	LEAVE_US = 2 * 1000 * 1000,
	STEADY_US = 10 * 1000 * 1000, /* who has lived that long may be started at once */
	AGAIN_MIN_US = 100 * 1000,
	AGAIN_MAX_US = 10 * 1000 * 1000,
	RESULT_MAX = 10 * 1024 * 1024,
	PROBE_US = 2 * 1000 * 1000,
};

struct server *server_new(struct tools *t, const char *owner, const char *name,
			  const struct jsonr *d, const struct jsonr_node *n,
			  spec_variable *variable, struct err *e)
{
	struct server *s, **at = &t->servers;
	unsigned int theirs = 0;

	if (!spec_is_name(name) || strlen(owner) >= OWNER_MAX) {
		(void)err_set(e, ERR_USAGE, 0,
			      "'%.64s' is no name of a server: a-z, 0-9, '_', '-', '.'", name);
		return NULL;
	}
	for (; *at != NULL; at = &(*at)->next)
		theirs += strcmp((*at)->owner, owner) == 0;
	if (t->nservers >= SERVERS_MAX || (owner[0] != '\0' && theirs >= SERVERS_OF_OWNER)) {
		(void)err_set(e, ERR_LIMIT, 0, "there are as many servers as there may be");
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL) {
		(void)err_set(e, ERR_SYS, ENOMEM, "keep a server");
		return NULL;
	}
	s->t = t;
	(void)snprintf(s->owner, sizeof(s->owner), "%s", owner);
	(void)snprintf(s->name, sizeof(s->name), "%s", name);
	if (spec_read(&s->spec, d, n, variable, t, e) < 0) {
		spec_done(&s->spec);
		free(s);
		return NULL;
	}
	*at = s;
	t->nservers++;
	return s;
}

struct server *server_find(struct tools *t, const char *owner, const char *name)
{
	struct server *found = NULL;

	for (struct server *s = t->servers; s != NULL; s = s->next)
		if (!s->gone && strcmp(s->name, name) == 0 &&
		    (strcmp(s->owner, owner) == 0 || (s->owner[0] == '\0' && found == NULL)))
			found = s;
	return found;
}

/* --- its end ---------------------------------------------------------------------------------------- */

/* Link and box, if it has them. Requests that are under way end. */
static void drop_link(struct server *s)
{
	struct toolway *l = s->link;
	uint64_t box = s->box;

	s->link = NULL;
	s->box = 0;
	s->forgotten = false;
	if (l != NULL) {
		mcpc_done(&l->client);
		l->transport->end(l);
	}
	if (box != 0)
		gate_end_box(s->t, box);
}

static void off(struct server *s)
{
	drop_link(s);
	s->state = SERVER_OFF;
}

/* It cannot be used: what waits for it hears why. */
static void failed(struct server *s, const char *why)
{
	uint64_t now = clock_us(), pause = AGAIN_MIN_US;
	char text[MCPC_ERROR];

	(void)snprintf(text, sizeof(text), "%s", why); /* which may go with the link */
	/* There are programs that end for a question that they do not know. */
	if (s->state == SERVER_OPENING && s->spec.place.argv != NULL && !s->legacy) {
		s->legacy = true;
		drop_link(s);
		s->state = SERVER_OFF; /* and the loop starts it */
		return;
	}
	if (s->state == SERVER_ON && now - s->opened_us > STEADY_US)
		s->failures = 0;
	else
		s->failures++;
	for (unsigned int i = 1; i < s->failures && pause < AGAIN_MAX_US; i++)
		pause *= 2;
	s->again_us = now + (s->failures > 0 ? pause : 0);
	s->state = SERVER_WAITS;
	gate_say(s->t, "tool_server_lost", s->name, text);
	drop_link(s);
	calls_fail(s, TOOL_FAILED, text);
}

static void release(struct server *s)
{
	struct server **at = &s->t->servers;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	s->t->nservers--;
	spec_done(&s->spec);
	free(s->params);
	free(s);
}

void servers_forget(struct tools *t, const char *owner)
{
	for (struct server *s = t->servers; s != NULL; s = s->next)
		if (owner[0] != '\0' && strcmp(s->owner, owner) == 0 && !s->gone) {
			s->gone = true;
			gate_say(t, "tool_server_gone", s->name, "its box has ended");
		}
}

void servers_stop(struct tools *t)
{
	for (struct server *s = t->servers; s != NULL; s = s->next) {
		s->box = 0; /* gone with the gate */
		off(s);
		calls_fail(s, TOOL_FAILED, "the gate has gone");
	}
}

/* --- its beginning ---------------------------------------------------------------------------------- */

static void on_opened(struct mcpc_request *r)
{
	struct server *s = r->arg;

	if (r->outcome == MCPC_DONE && s->state == SERVER_OPENING) {
		s->state = SERVER_ON;
		s->opened_us = clock_us();
		gate_say(s->t, "tool_server_on", s->name, s->link->client.server);
	} else if (s->link != NULL && s->link->client.broken[0] == '\0') {
		mcpc_lost(&s->link->client, "%s", r->error); /* and the loop sees it */
	}
	mcpc_request_done(r);
}

static void opened(struct server *s, struct toolway *l, const struct err *e)
{
	uint64_t now = clock_us();

	if (l == NULL) {
		failed(s, e->text);
		return;
	}
	s->link = l;
	l->way.legacy = l->way.legacy || s->legacy;
	s->state = SERVER_OPENING;
	s->opening =
		(struct mcpc_request){ .done = on_opened, .arg = s, .deadline_us = now + OPEN_US };
	mcpc_connect(&l->client, &s->opening, now);
}

static void bounds(struct mcpc_bounds *b)
{
	mcpc_bounds_init(b);
	b->message_bytes = RESULT_MAX;
	b->list_bytes = RESULT_MAX;
	b->requests = CALLS_OF_SERVER + 2;
	b->probe_us = PROBE_US;
}

static void start(struct server *s)
{
	struct mcpc_bounds b;
	struct dialer *d;
	struct err e;

	if (s->spec.place.argv != NULL) {
		s->state = SERVER_BOX;
		s->until_us = clock_us() + OPEN_US;
		if (gate_want_box(s->t, s) < 0)
			failed(s, "no box can be asked for");
		return;
	}
	bounds(&b);
	d = tools_dialer(s->t);
	if (d == NULL)
		failed(s, "out of memory");
	else
		opened(s, toolway_http_open(&s->spec.place, &b, d, &e), &e);
}

void server_wanted(struct server *s)
{
	s->used_us = clock_us();
	if (s->state == SERVER_OFF || (s->state == SERVER_WAITS && s->again_us <= s->used_us))
		start(s);
	else if (s->state == SERVER_ON)
		calls_ask(s);
}

static struct server *find_box(struct tools *t, uint64_t box)
{
	struct server *s = t->servers;

	while (s != NULL && s->box != box)
		s = s->next;
	return s;
}

void server_box(struct tools *t, uint64_t box, int fd)
{
	struct server *s = find_box(t, box);
	struct mcpc_bounds b;
	struct err e;

	if (s == NULL || s->state != SERVER_BOX) {
		(void)close(fd);
		gate_end_box(t, box);
		return;
	}
	bounds(&b);
	opened(s, toolway_box_open(&s->spec, &b, fd, &e), &e);
}

void server_no_box(struct tools *t, uint64_t box, const char *why)
{
	struct server *s = find_box(t, box);

	if (s == NULL)
		return;
	s->box = 0;
	if (s->link != NULL) /* what it has said before is read to its end */
		return;
	failed(s, why);
}

/* --- its turn --------------------------------------------------------------------------------------- */

/* When its state wants to be looked at. */
static uint64_t due(const struct server *s)
{
	switch (s->state) {
	case SERVER_BOX:
	case SERVER_LEAVING:
		return s->until_us;
	case SERVER_WAITS:
		return s->ncalls > 0 ? s->again_us : UINT64_MAX;
	case SERVER_ON:
		return s->ncalls == 0 ? s->used_us + s->t->idle_us : UINT64_MAX;
	case SERVER_OFF:
	case SERVER_OPENING:
		break;
	}
	return UINT64_MAX;
}

/* What does not depend on what has come. When to look again. */
static uint64_t look(struct server *s, uint64_t now_us)
{
	uint64_t next = calls_tick(s, now_us), at;

	if (s->link != NULL && s->link->client.broken[0] != '\0' && s->state != SERVER_LEAVING)
		failed(s, s->link->client.broken);
	if (s->hung && s->state == SERVER_ON)
		failed(s, "the server does not answer any more");
	s->hung = false;
	if (s->forgotten && s->state == SERVER_ON && !calls_asked(s))
		off(s); /* what waits starts it, with another session */
	if (s->gone) {
		off(s);
		calls_fail(s, TOOL_FAILED, "the server has gone");
	}
	if (s->state == SERVER_BOX && now_us >= s->until_us)
		failed(s, "no box was made for it in time");
	if (s->state == SERVER_LEAVING &&
	    (s->link == NULL || now_us >= s->until_us || s->link->transport->is_idle(s->link)))
		off(s);
	if (s->ncalls > 0 &&
	    (s->state == SERVER_OFF || (s->state == SERVER_WAITS && s->again_us <= now_us)))
		start(s);
	if (s->state == SERVER_ON && s->ncalls > 0)
		calls_ask(s);
	if (s->state == SERVER_ON && s->link != NULL && s->ncalls == 0 &&
	    now_us >= s->used_us + s->t->idle_us) {
		s->state = SERVER_LEAVING;
		s->until_us = now_us + LEAVE_US;
		mcpc_done(&s->link->client);
		if (s->link->transport->leave != NULL)
			s->link->transport->leave(s->link);
	}
	at = due(s);
	next = at < next ? at : next;
	if (s->link != NULL) {
		at = mcpc_deadline(&s->link->client);
		next = at < next ? at : next;
	}
	return next;
}

unsigned int servers_wait(struct tools *t, struct pollfd *p, unsigned int max,
			  uint64_t *deadline_us)
{
	uint64_t now = clock_us();
	unsigned int n = 0;

	for (struct server *s = t->servers, *next; s != NULL; s = next) {
		uint64_t at = look(s, now);

		next = s->next;
		if (s->gone && s->state == SERVER_OFF && s->ncalls == 0) {
			release(s);
			continue;
		}
		*deadline_us = at < *deadline_us ? at : *deadline_us;
		s->slot = n;
		s->nslots = s->link != NULL && n + MCP_POLL_MAX <= max
				    ? s->link->transport->wait(s->link, p + n, deadline_us)
				    : 0;
		n += s->nslots;
	}
	return n;
}

void servers_step(struct tools *t, const struct pollfd *p, uint64_t now_us)
{
	for (struct server *s = t->servers; s != NULL; s = s->next) {
		struct toolway *l = s->link;

		if (l == NULL)
			continue;
		l->transport->step(l, p + s->slot, s->nslots, now_us);
		mcpc_tick(&l->client, now_us);
	}
}
