// SPDX-License-Identifier: Apache-2.0
#include "gate/trial.h"

#include "base/clock.h"
#include "gate/ci.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void begin(struct gate *g);

/* The first outcome is for the operator, too. */
static void tell_keeper(struct gate *g, const struct err *e)
{
	static const struct err fine = { 0 };
	uint8_t body[ERR_TEXT + ERR_HINT + 64];
	struct msg_out m;
	ptrdiff_t n;

	if (g->trial.told)
		return;
	g->trial.told = true;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, g->trial.layers);
	n = failed_encode(e != NULL ? e : &fine, body + m.len, sizeof(body) - m.len);
	if (n > 0)
		(void)keeper_ask(&g->keeper, OP_TRIED, body, m.len + (size_t)n, NULL, NULL);
}

static void on_again(void *arg)
{
	begin(arg);
}

static void over(struct gate *g, bool ok, const struct err *e)
{
	struct trial *t = &g->trial;
	struct req *waiting[TRIAL_WAITERS];
	unsigned int n = t->nwaiting;

	t->box = NULL;
	timer_clear(&g->loop, &t->late);
	t->any = true;
	t->ok = ok;
	t->done_us = clock_us();
	(void)snprintf(t->why, sizeof(t->why), "%s", e != NULL ? e->text : "");
	tell_keeper(g, e);
	(void)timer_set(&g->loop, &t->again,
			g->loop.now_us + config_u64(&g->config, CONF_HEALTH_CHECK_INTERVAL),
			on_again, g);
	(void)memcpy(waiting, t->waiting, sizeof(waiting));
	t->nwaiting = 0;
	for (unsigned int i = 0; i < n; i++) {
		void (*answer)(struct req *r);

		(void)memcpy(&answer, &waiting[i]->work, sizeof(answer));
		waiting[i]->gone = NULL;
		answer(waiting[i]);
	}
}

static void on_ready(void *arg, struct gbox *b)
{
	struct gate *g = arg;

	g->trial.layers = b->info.layers;
	gbox_end(b, NULL, NULL);
	over(g, true, NULL);
}

static void on_failed(void *arg, const struct err *e)
{
	over(arg, false, e);
}

static void on_gone(void *arg, enum box_end why, const struct box_figures *f)
{
	(void)arg;
	(void)why;
	(void)f;
}

static void on_late(void *arg)
{
	struct gate *g = arg;
	struct err e;

	gbox_end(g->trial.box, NULL, NULL);
	(void)err_set(&e, ERR_SYS, ETIMEDOUT, "make a box for trial");
	over(g, false, &e);
}

static void begin(struct gate *g)
{
	static const struct gbox_ops ops = { .ready = on_ready,
					     .failed = on_failed,
					     .gone = on_gone };
	struct trial *t = &g->trial;
	struct box_request q;
	struct err e;

	if (t->box != NULL || g->stopping)
		return;
	timer_clear(&g->loop, &t->again);
	ci_limits(g, &q);
	t->box = gbox_new(g, &q, &ops, g, &e);
	if (t->box == NULL) {
		over(g, false, &e);
		return;
	}
	(void)timer_set(&g->loop, &t->late,
			g->loop.now_us + config_u64(&g->config, CONF_BACKEND_CHECK_TIMEOUT),
			on_late, g);
}

void trial_start(struct gate *g)
{
	begin(g);
}

static void on_waiter_gone(struct req *r)
{
	struct trial *t = &r->g->trial;

	for (unsigned int i = 0; i < t->nwaiting; i++)
		if (t->waiting[i] == r) {
			t->waiting[i] = t->waiting[--t->nwaiting];
			return;
		}
}

void trial_wait(struct gate *g, struct req *r, void (*answer)(struct req *r))
{
	struct trial *t = &g->trial;

	if (t->nwaiting == TRIAL_WAITERS || g->stopping) { /* the last one must do */
		answer(r);
		return;
	}
	(void)memcpy(&r->work, &answer, sizeof(answer));
	r->gone = on_waiter_gone;
	t->waiting[t->nwaiting++] = r;
	begin(g);
}
