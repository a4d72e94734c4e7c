// SPDX-License-Identifier: Apache-2.0
/* The log of a run as server-sent events: `id` is the number, `event` the name, `data` one line of JSON. */
#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "gate/gate.h"
#include "gate/run.h"

#include <stdio.h>
#include <string.h>

enum { COMMENT_US = 15 * 1000 * 1000 };

struct sse {
	struct run_reader rd;
	struct gate *g;
	struct req *r;
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
	run_detach(&s->rd);
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
	if (req_queued(s->r) == 0)
		(void)req_write(s->r, ": still there\n\n", 15);
}

/* Whether there was an event, and the connection lives. */
static bool send_next(struct sse *s)
{
	struct req *r = s->r;
	struct run_told told;
	char head[64];
	struct json j, whole;
	bool failed;
	int n;

	json_init(&j);
	if (!run_read(&s->rd, &j, &told)) {
		json_done(&j);
		return false;
	}
	n = snprintf(head, sizeof(head),
		     "id: %llu\nevent: %s\ndata: ", (unsigned long long)told.seq,
		     run_event_str(told.event));
	json_init(&whole); /* in one piece: one chunk on the wire */
	json_raw(&whole, head, (size_t)n);
	json_raw(&whole, j.buf, j.len);
	json_raw(&whole, "\n\n", 2);
	failed = j.failed || whole.failed;
	if (!failed && req_write(r, whole.buf, whole.len) < 0) { /* gone() comes */
		s->rd.after = told.seq - 1;
		json_done(&j);
		json_done(&whole);
		return false;
	}
	json_done(&j);
	json_done(&whole);
	if (failed) { /* it must not be missing: the client has to come again */
		on_gone(r);
		req_abort(r);
	}
	return !failed;
}

static void send_all(struct sse *s)
{
	struct req *r = s->r;
	struct run *run;

	while (req_queued(r) < REQ_HIGH && send_next(s))
		;
	run = s->rd.run;
	if (run == NULL || (!run->ended && !run->lost) || s->rd.after < run->seq)
		return;
	if (run->ended && run->ops->told != NULL)
		run->ops->told(run->arg);
	sse_end(s);
	req_end(r);
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
