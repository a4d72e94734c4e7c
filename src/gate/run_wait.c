// SPDX-License-Identifier: Apache-2.0
/* Waiting for the end of a run, to answer in one piece. */
#include "base/own.h"
#include "gate/gate.h"
#include "gate/run.h"

struct waiting {
	struct run_reader rd;
	struct gate *g;
	struct req *r;
	struct timer over; /* of a long poll */
	unsigned int parts;
	void (*left)(void *arg);
	void *arg;
	struct deferred deferred;
};

static void waiting_free(void *arg)
{
	free(arg);
}

static void waiting_end(struct waiting *w)
{
	timer_clear(&w->g->loop, &w->over);
	run_detach(&w->rd);
	loop_defer(&w->g->loop, &w->deferred, waiting_free, w);
}

static void told(struct run *run, const struct json *j)
{
	if (!j->failed && run->ops->told != NULL)
		run->ops->told(run->arg);
}

void run_reply(struct run *run, struct req *r, int status, unsigned int parts)
{
	struct json j;

	json_init(&j);
	run_answer(run, &j, parts);
	if (parts != 0)
		told(run, &j);
	req_json(r, status, &j);
}

static void waiting_answer(struct waiting *w)
{
	struct req *r = w->r;
	struct json j;

	r->gone = NULL;
	if (w->rd.run->lost && w->parts != 0) {
		const struct run *run = w->rd.run;

		waiting_end(w);
		run->ops->refuse(run->arg, r); /* it stays until the end of this turn */
		return;
	}
	if (w->parts == 0) {
		waiting_end(w);
		req_reply(r, 204, NULL, "", 0);
		return;
	}
	json_init(&j);
	run_answer(w->rd.run, &j, w->parts);
	told(w->rd.run, &j);
	waiting_end(w); /* what ran may go with its last reader */
	req_json(r, 200, &j);
}

static void on_more(struct run_reader *rd)
{
	if (rd->run->ended || rd->run->lost)
		waiting_answer((struct waiting *)rd); /* its first member */
}

static void on_over(void *arg)
{
	waiting_answer(arg);
}

static void on_gone(struct req *r)
{
	struct waiting *w = r->work;

	if (w->left != NULL)
		w->left(w->arg);
	waiting_end(w);
}

/* The server stops: who only looks is answered now. */
static void on_stop(struct req *r)
{
	waiting_answer(r->work);
}

void run_wait(struct run *run, struct req *r, uint64_t wait_us, unsigned int parts,
	      void (*left)(void *arg), void *arg)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
		return;
	}
	w->g = r->g;
	w->r = r;
	w->parts = parts;
	w->left = left;
	w->arg = arg;
	r->work = w;
	r->gone = on_gone;
	if (wait_us != 0) {
		r->stop = on_stop;
		(void)timer_set(&w->g->loop, &w->over, w->g->loop.now_us + wait_us, on_over, w);
	}
	run_attach(run, &w->rd, 0, on_more);
}
