// SPDX-License-Identifier: Apache-2.0
/* The log of a run as server-sent events: `id` is the number, `event` the name, `data` one line of JSON. */
#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "gate/gate.h"
#include "gate/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { COMMENT_US = 15 * 1000 * 1000 };

struct sse {
	struct run_reader rd;
	struct gate *g;
	struct req *r;
	struct run_pieces pieces; /* of the event that is being told */
	bool telling;
	struct timer again;
	struct timer comment; /* so that nobody on the way takes silence for the end */
	void (*left)(void *arg);
	void *arg;
	struct deferred deferred;
};

static void sse_free(void *arg)
{
	free(arg);
}

static void sse_end(struct sse *s)
{
	timer_clear(&s->g->loop, &s->comment);
	timer_clear(&s->g->loop, &s->again);
	run_pieces_done(&s->pieces);
	run_leave(&s->rd);
	loop_defer(&s->g->loop, &s->deferred, sse_free, s);
}

static void on_gone(struct req *r)
{
	struct sse *s = r->work;

	if (s->left != NULL)
		s->left(s->arg);
	sse_end(s);
}

static void on_comment(void *arg)
{
	struct sse *s = arg;

	(void)timer_set(&s->g->loop, &s->comment, s->g->loop.now_us + COMMENT_US, on_comment, s);
	if (req_queued(s->r) == 0 && !s->telling)
		(void)req_write(s->r, ": still there\n\n", 15);
}

/* Whether there is an event to tell; its first line is in j then. */
static bool begin_event(struct sse *s, struct json *j)
{
	struct run *run = s->rd.run;
	struct run_told told;
	char head[64];
	int n;

	if (!run_next(&s->rd, &told))
		return false;
	n = snprintf(head, sizeof(head),
		     "id: %llu\nevent: %s\ndata: ", (unsigned long long)told.seq,
		     run_event_str(told.event));
	json_raw(j, head, (size_t)n);
	run->pieces = &s->pieces;
	(void)run_read(&s->rd, &s->pieces.j, &told);
	run->pieces = NULL;
	j->failed = j->failed || s->pieces.j.failed;
	s->telling = true;
	return true;
}

/* As much as is good for others; many small events are one write. */
static void collect(struct sse *s, struct json *j)
{
	while (j->len < RUN_TURN && !j->failed && (s->telling || begin_event(s, j))) {
		s->telling = run_pieces_next(s->rd.run, &s->pieces, j);
		if (s->telling)
			continue;
		json_raw(j, "\n\n", 2);
		run_pieces_done(&s->pieces);
	}
	if (s->telling)
		s->rd.inside = true;
	else
		run_outside(&s->rd);
}

static bool has_all(const struct sse *s)
{
	return !s->telling && s->rd.after >= s->rd.run->seq;
}

static void on_again(void *arg);

static void send_all(struct sse *s)
{
	struct req *r = s->r;
	struct run *run = s->rd.run;
	struct json j;
	int rc = 0;

	timer_clear(&s->g->loop, &s->again);
	if (req_queued(r) >= REQ_HIGH)
		return; /* drained() comes */
	json_init(&j);
	collect(s, &j);
	if (j.failed)
		rc = -ENOMEM;
	else if (j.len > 0)
		rc = req_write(r, j.buf, j.len);
	json_done(&j);
	if (rc == 0 && !has_all(s) && req_queued(r) < REQ_HIGH)
		rc = timer_soon(&s->g->loop, &s->again, on_again, s);
	if (rc == -ENOMEM) { /* it must not be missing: the client has to come again */
		on_gone(r);
		req_abort(r);
		return;
	}
	if (rc < 0 || !has_all(s) || (!run->ended && !run->lost))
		return; /* after a failure gone() comes */
	if (run->ended && run->ops->told != NULL)
		run->ops->told(run->arg);
	sse_end(s);
	req_end(r);
}

static void on_again(void *arg)
{
	send_all(arg);
}

static void on_more(struct run_reader *rd)
{
	send_all((struct sse *)rd); /* its first member */
}

static void on_drained(struct req *r)
{
	send_all(r->work);
}

/* The server stops: a run goes on, who follows it may come again. */
static void on_stop(struct req *r)
{
	struct sse *s = r->work;

	sse_end(s);
	req_end(r);
}

void run_stream(struct run *run, struct req *r, uint64_t after, void (*left)(void *arg), void *arg)
{
	struct sse *s;

	if (r->via != NULL) {
		r->via->follow(r, run, after, left, arg);
		return;
	}
	if (run->ended && after >= run->seq) { /* a browser that gets this does not ask again */
		req_reply(r, 204, NULL, "", 0);
		return;
	}
	s = r->head_only ? NULL : calloc(1, sizeof(*s));
	if (s == NULL && !r->head_only) {
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
		return;
	}
	req_header(r, "Cache-Control", "no-cache");
	req_header(r, "X-Accel-Buffering", "no");
	req_begin(r, 200, "text/event-stream; charset=utf-8", -1);
	if (s == NULL) {
		req_end(r);
		return;
	}
	s->g = r->g;
	s->r = r;
	s->left = left;
	s->arg = arg;
	r->work = s;
	r->gone = on_gone;
	r->drained = on_drained;
	r->stop = on_stop;
	(void)timer_set(&s->g->loop, &s->comment, s->g->loop.now_us + COMMENT_US, on_comment, s);
	run_attach(run, &s->rd, after, on_more);
}

int run_after(struct req *r, uint64_t *ret)
{
	struct http_slice id = req_get(r, "Last-Event-ID");
	const char *field = "Last-Event-ID";
	char text[24];

	*ret = r->via_after;
	if (r->via != NULL)
		return 0;
	if (id.n == 0) {
		id = req_query(r, "after");
		field = "after";
	}
	if (id.n == 0)
		return 0;
	(void)snprintf(text, sizeof(text), "%.*s", (int)(id.n < sizeof(text) ? id.n : 0), id.p);
	if (str_to_u64(text, INT64_MAX, ret) == 0)
		return 0;
	req_refuse(r, 422, "invalid_field", field, "'%s' must be the number of an event", field);
	return -1;
}
