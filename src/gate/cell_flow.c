// SPDX-License-Identifier: Apache-2.0
/*
 * Cells whose output flows: of any length, and nothing of it is cut as long as somebody reads.
 *
 * What all readers have is let go when the log is half full. If that does not help, the job is paused: init sends nothing
 * of it until they have read, and when its ring is full, the program waits. When nobody is there, the log is filled to its
 * end, the rest is cut, and the program goes on.
 */
#include "gate/jup.h"

#include "base/clock.h"

#define AWAIT_US (10 * US_PER_S)

enum {
	LOG_MIN = 2 * 1024 * 1024, /* what was sent before a pause is heard of finds room, too */
	RING_MORE = 24 * 1024 *
		    1024, /* beyond the window: the largest message, and some output behind it */
};

void cell_flow_init(struct cell *c)
{
	struct run *run = &c->t.run;

	for (unsigned int i = 0; i < 2 && task_flows(&c->t); i++)
		if (run->out[i].max < LOG_MIN)
			buf_init(&run->out[i], LOG_MIN);
}

uint64_t cell_flow_ring(const struct cell *c)
{
	return task_window(&c->t) + RING_MORE;
}

void cell_resume(struct cell *c)
{
	c->t.paused = false;
	gjob_pause(&c->t.job, false);
}

static void on_awaited(void *arg)
{
	struct cell *c = arg;

	c->t.awaited = true;
	cell_flow(c);
}

/* Whether somebody reads it. When a gate has died its clients come back: they are given a moment. */
static bool has_reader(struct cell *c)
{
	struct task *t = &c->t;

	if (jup_is_followed(c))
		return true;
	if (!t->adopted || t->awaited)
		return false;
	if (t->late.place == 0) /* cells of this dialect have no time of their own */
		(void)timer_set(&t->g->loop, &t->late, t->g->loop.now_us + AWAIT_US, on_awaited, c);
	return t->late.place != 0;
}

void cell_flow(struct cell *c)
{
	struct task *t = &c->t;

	if (!task_flows(t) || t->a == NULL || (!t->paused && !run_is_crowded(&t->run)))
		return;
	run_trim(&t->run, jup_heard(c));
	if (t->paused == (run_is_crowded(&t->run) && has_reader(c)))
		return;
	t->paused = !t->paused;
	gjob_pause(&t->job, t->paused);
}
