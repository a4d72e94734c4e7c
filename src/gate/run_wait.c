// SPDX-License-Identifier: Apache-2.0
/* Waiting for the end of a run, to answer with all of it: in one piece, or in several where it is long. */
#include "base/own.h"
#include "gate/gate.h"
#include "gate/run.h"

#include <errno.h>

struct waiting {
	struct run_reader rd;
	struct gate *g;
	struct req *r;
	struct timer over; /* of a long poll */
	unsigned int parts;
	void (*left)(void *arg);
	void *arg;
	struct deferred deferred;
	/* Of a long answer. */
	struct run_pieces pieces;
	struct timer again;
};

static void waiting_free(void *arg)
{
	free(arg);
}

static void waiting_end(struct waiting *w)
{
	timer_clear(&w->g->loop, &w->over);
	timer_clear(&w->g->loop, &w->again);
	run_pieces_done(&w->pieces);
	run_leave(&w->rd);
	loop_defer(&w->g->loop, &w->deferred, waiting_free, w);
}

static void told(struct run *run, const struct json *j)
{
	if (!j->failed && run->ops->told != NULL)
		run->ops->told(run->arg);
}

/* --- a long answer -------------------------------------------------------------------------------- */

static void tell(struct waiting *w);

static void on_again(void *arg)
{
	tell(arg);
}

static void on_drained(struct req *r)
{
	tell(r->work);
}

static void on_nothing(struct run_reader *rd)
{
	(void)rd; /* what comes behind the end is not part of this answer */
}

static void on_lost(struct req *r)
{
	waiting_end(r->work);
}

/* As much as is good for others, and as the client takes. */
static void tell(struct waiting *w)
{
	struct req *r = w->r;
	bool more = true;
	struct json j;
	int rc;

	timer_clear(&w->g->loop, &w->again);
	json_init(&j);
	while (more && j.len < RUN_TURN && !j.failed)
		more = run_pieces_next(w->rd.run, &w->pieces, &j);
	rc = j.failed ? -ENOMEM : req_write(r, j.buf, j.len);
	if (rc == 0 && more && req_queued(r) < REQ_HIGH) /* else drained() comes */
		rc = timer_soon(&w->g->loop, &w->again, on_again, w);
	if (rc == -ENOMEM) { /* it must not end here as if it was whole */
		waiting_end(w);
		req_abort(r);
	} else if (rc == 0 && !more) { /* else gone() comes */
		waiting_end(w);
		req_end(r);
	}
	json_done(&j);
}

static void put_parts(const struct run *run, void *arg, struct json *j)
{
	const unsigned int *parts = arg;

	run_answer(run, j, *parts);
}

/* The log of the run is what is told from: w stays attached. */
static void begin_long(struct waiting *w, int status, run_put_fn put, void *arg)
{
	struct run *run = w->rd.run;
	struct req *r = w->r;

	run->pieces = &w->pieces;
	put(run, arg, &w->pieces.j);
	run->pieces = NULL;
	if (w->pieces.j.failed) {
		r->gone = NULL;
		waiting_end(w);
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
		return;
	}
	told(run, &w->pieces.j);
	timer_clear(&w->g->loop, &w->over);
	w->rd.more = on_nothing;
	w->rd.inside = true;
	r->work = w;
	r->gone = on_lost;
	r->drained = on_drained;
	r->stop = NULL;
	req_begin(r, status, "application/json", -1);
	tell(w);
}

/* --- answers -------------------------------------------------------------------------------------- */

static bool is_long(const struct run *run, const struct req *r, unsigned int parts)
{
	return parts != 0 && !run->lost && r->via == NULL && !r->head_only && run_is_long(run);
}

static struct waiting *waiting_new(struct req *r, unsigned int parts)
{
	struct waiting *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
		return NULL;
	}
	w->g = r->g;
	w->r = r;
	w->parts = parts;
	return w;
}

/* `parts` as in run_reply(). */
static void reply(struct run *run, struct req *r, int status, unsigned int parts, run_put_fn put,
		  void *arg)
{
	struct waiting *w;
	struct json j;

	if (is_long(run, r, parts)) {
		w = waiting_new(r, parts);
		if (w == NULL)
			return;
		run_attach(run, &w->rd, 0, on_nothing);
		begin_long(w, status, put, arg);
		return;
	}
	json_init(&j);
	put(run, arg, &j);
	if (parts != 0)
		told(run, &j);
	req_json(r, status, &j);
}

void run_reply(struct run *run, struct req *r, int status, unsigned int parts)
{
	reply(run, r, status, parts, put_parts, &parts);
}

void run_reply_as(struct run *run, struct req *r, int status, run_put_fn put, void *arg)
{
	reply(run, r, status, RUN_OUTPUT, put, arg);
}

static void waiting_answer(struct waiting *w)
{
	struct req *r = w->r;
	struct json j;

	if (is_long(w->rd.run, r, w->parts)) {
		begin_long(w, 200, put_parts, &w->parts);
		return;
	}
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
	struct waiting *w = waiting_new(r, parts);

	if (w == NULL)
		return;
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
