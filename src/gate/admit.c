// SPDX-License-Identifier: Apache-2.0
#include "gate/admit.h"

#include "base/own.h"
#include "gate/gate.h"

static const char *const names[] = { "execute", "execute_stream", "session_create", "session_bash",
				     "handler", "box_create",     "box_command",    "box_cell" };
_Static_assert(ARRAY_LEN(names) == OPERATION_MAX, "a name for every operation");

const char *operation_str(enum operation op)
{
	return names[op];
}

static void leave_queue(struct ticket *t)
{
	struct admit *a = &t->g->admit;

	if (!t->waiting)
		return;
	t->waiting = false;
	timer_clear(&t->g->loop, &t->timer);
	if (t->prev != NULL)
		t->prev->next = t->next;
	else
		a->first = t->next;
	if (t->next != NULL)
		t->next->prev = t->prev;
	else
		a->last = t->prev;
	t->prev = t->next = NULL;
	a->waiting--;
}

static void take_slot(struct ticket *t)
{
	struct admit *a = &t->g->admit;

	t->holds = true;
	t->admitted_us = t->g->loop.now_us;
	a->active++;
	a->by_operation[t->operation]++;
}

static void enter(struct ticket *t)
{
	take_slot(t);
	metrics_waited(&t->g->metrics, t->operation, t->admitted_us - t->asked_us);
	t->turn(t->arg);
}

static bool is_free(const struct gate *g)
{
	return g->admit.active < config_u64(&g->config, CONF_MAX_CONCURRENT_EXECUTIONS);
}

static void on_timeout(void *arg)
{
	struct ticket *t = arg;

	leave_queue(t);
	metrics_rejected(&t->g->metrics, t->operation, REJECT_CONCURRENCY);
	t->sent_away(t->arg);
}

void admit_ask(struct gate *g, struct ticket *t, enum operation op, void (*turn)(void *arg),
	       void (*sent_away)(void *arg), void *arg)
{
	struct admit *a = &g->admit;

	*t = (struct ticket){ .g = g,
			      .operation = op,
			      .asked_us = g->loop.now_us,
			      .turn = turn,
			      .sent_away = sent_away,
			      .arg = arg };
	if (a->first == NULL && is_free(g)) {
		enter(t);
		return;
	}
	t->waiting = true;
	t->prev = a->last;
	if (a->last != NULL)
		a->last->next = t;
	else
		a->first = t;
	a->last = t;
	a->waiting++;
	if (timer_set(&g->loop, &t->timer,
		      g->loop.now_us + config_u64(&g->config, CONF_EXECUTION_QUEUE_TIMEOUT),
		      on_timeout, t) < 0)
		on_timeout(t);
}

void admit_hold(struct gate *g, struct ticket *t, enum operation op)
{
	*t = (struct ticket){ .g = g, .operation = op, .asked_us = g->loop.now_us };
	take_slot(t);
}

void admit_done(struct ticket *t)
{
	struct gate *g = t->g;

	if (g == NULL)
		return;
	leave_queue(t);
	if (!t->holds)
		return;
	t->holds = false;
	g->admit.active--;
	g->admit.by_operation[t->operation]--;
	if (g->admit.letting_in)
		return;
	g->admit.letting_in = true;
	while (g->admit.first != NULL && is_free(g)) {
		struct ticket *next = g->admit.first;

		leave_queue(next);
		enter(next);
	}
	g->admit.letting_in = false;
}
