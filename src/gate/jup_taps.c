// SPDX-License-Identifier: Apache-2.0
/*
 * Taps: what each client of a kernel reads of which cell, and how far it is.
 *
 * Cells of a kernel follow each other, and so do their taps: one is read when those before it were read to their ends, but
 * what a cell says after its end is told as it comes. What was told and has not left is noted: who comes next, or in a
 * client's place, begins there, and nothing behind it is let go of.
 */
#include "gate/jup.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN_US (50 * US_PER_MS)

enum { UNSENT_MAX = 65536 };

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

	if (c->inside && n > JUP_LARGE)
		jup_goodbye(c, 1009, "too large for who is inside the box");
	if (c->closing || c->closed || t == NULL)
		return false;
	mine = ws_queued(c->ws);
	all = n > JUP_LARGE ? tenant_queued(c->g, t) : 0;
	if (mine < REQ_HIGH && (all == 0 || all + n <= JUP_SEND_MAX))
		return true;
	if (mine >= REQ_HIGH)
		jup_await_reader(c);
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

struct kernel *jup_kernel_of(const struct cell *cell)
{
	return cell->t.a != NULL ? kernel_named(cell->t.a, cell->kernel, strlen(cell->kernel))
				 : NULL;
}

const struct jup_tap *jup_tap_of(const struct jup_client *c, const struct cell *cell)
{
	const struct jup_tap *t = c->taps;

	while (t != NULL && t->rd.run != &cell->t.run)
		t = t->next;
	return t;
}

bool jup_place(struct jup_client *c, const struct cell *cell, uint64_t *ret)
{
	const struct jup_tap *t = jup_tap_of(c, cell);

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
	const struct kernel *k = jup_kernel_of(cell);
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
	const struct kernel *k = jup_kernel_of(cell);
	const struct jup_client *c = k != NULL && k->jup != NULL ? k->jup->clients : NULL;

	while (c != NULL && (c->closing || c->closed || jup_tap_of(c, cell) == NULL))
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
	struct jup_event e = { .tap = t, .cell = cell };
	bool all;

	while (*n < RUN_TURN && has_room(t->c, run_next_bytes(&t->rd)) &&
	       run_take(&t->rd, &e.told, &e.p, &e.n)) {
		*n += e.n + 256;
		if (cell->t.label != NULL)
			jup_tell(&e);
		if (jup_is_gone(&e))
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
			jup_say_state(c, NULL, t->states[i]);
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
