// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/execute/stream: output as it comes, as server-sent events.
 *
 * Without more, a client that leaves ends its run; with an Idempotency-Key, see ci_stream_resume.c.
 */
#include "gate/ci_stream_impl.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>

/* --- the end ---------------------------------------------------------------------------------- */

static void stream_free(void *arg)
{
	struct ci_stream *s = arg;

	while (s->first != NULL) {
		struct held *h = s->first;

		s->first = h->next;
		free(h);
	}
	free(s->result);
	ci_run_done(&s->run);
	free(s->text);
	free(s);
}

void stream_end(struct ci_stream *s)
{
	if (s->ended)
		return;
	s->ended = true;
	if (s->o != NULL)
		oneshot_end(s->o);
	s->o = NULL;
	timer_clear(&s->g->loop, &s->timer);
	if (s->prev != NULL)
		s->prev->next = s->next;
	else if (s->g->streams == s)
		s->g->streams = s->next;
	if (s->next != NULL)
		s->next->prev = s->prev;
	loop_defer(&s->g->loop, &s->deferred, stream_free, s);
}

static void on_gone(struct req *r)
{
	struct ci_stream *s = r->work;

	s->r = NULL;
	if (s->resumable && s->o != NULL && oneshot_is_running(s->o))
		stream_detach(s);
	else
		stream_end(s);
}

/* --- what the run says ------------------------------------------------------------------------ */

static void on_running(void *arg)
{
	struct ci_stream *s = arg;

	s->running = true;
	if (s->r != NULL && !s->r->begun)
		stream_begin_answer(s);
}

static void on_drained(struct req *r)
{
	struct ci_stream *s = r->work;

	if (s->ack_later > 0 && s->o != NULL)
		oneshot_ack(s->o, s->ack_later);
	s->ack_later = 0;
}

void stream_lose_client(struct ci_stream *s)
{
	struct req *r = s->r;

	if (r == NULL)
		return;
	on_gone(r);
	req_abort(r);
}

/* No memory, or an init that does not wait to be acknowledged. */
static void cut(struct ci_stream *s)
{
	struct req *r = s->r;

	s->r = NULL;
	stream_end(s);
	if (r != NULL)
		req_abort(r);
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct ci_stream *s = arg;

	if (s->resumable) {
		if (stream_keep(s, number, stream, p, n) < 0)
			cut(s);
		return;
	}
	if (s->r == NULL)
		return;
	stream_send_output(s, number, stream, p, n);
	if (s->r == NULL)
		return;
	if (req_queued(s->r) < REQ_HIGH)
		oneshot_ack(s->o, number);
	else
		s->ack_later = number;
}

/* The last event: kept, because it may have to be sent again. */
static void keep_last(struct ci_stream *s, const char *name, struct json *data, uint64_t number)
{
	struct json j;

	json_init(&j);
	json_raw(&j, "event: ", 7);
	json_raw(&j, name, strlen(name));
	json_raw(&j, "\ndata: ", 7);
	json_raw(&j, data->buf, data->len);
	json_raw(&j, "\n\n", 2);
	if (j.failed || data->failed) {
		json_done(&j);
		j.buf = strdup("event: error\ndata: {\"message\":\"out of memory\"}\n\n");
		j.len = j.buf != NULL ? strlen(j.buf) : 0;
	}
	s->result = j.buf;
	s->result_len = j.len;
	s->result_number = number;
	json_done(data);
	if (s->r != NULL)
		stream_send_result(s);
}

static void on_result(void *arg, const struct oneshot_result *res)
{
	struct ci_stream *s = arg;
	struct json j;

	metrics_completed(&s->g->metrics, OPERATION_STREAM, ci_outcome(&res->exit),
			  clock_us() - s->began_us);
	json_init(&j);
	json_open(&j, NULL, '{');
	ci_put_exit(&j, &res->exit);
	json_u64(&j, "duration_ms", res->duration_us / 1000);
	ci_put_files(&j, res);
	json_close(&j, '}');
	keep_last(s, "result", &j, res->number);
}

static void on_failed(void *arg, const struct oneshot_failure *f)
{
	struct ci_stream *s = arg;
	struct req *r = s->r;
	struct json j;

	if (f->status != 404 && f->status != 429)
		metrics_completed(&s->g->metrics, OPERATION_STREAM, OUTCOME_ERROR,
				  clock_us() - s->began_us);
	if (r != NULL && !r->begun) {
		s->r = NULL;
		r->gone = NULL;
		stream_end(s); /* first: the connection's next request may have the same key */
		ci_failure(r, f, &s->run.spec);
		return;
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "message", f->text);
	json_close(&j, '}');
	keep_last(s, "error", &j, UINT64_MAX);
}

const struct oneshot_ops stream_ops = {
	.running = on_running, .output = on_output, .result = on_result, .failed = on_failed
};

/* --- requests --------------------------------------------------------------------------------- */

void stream_insert(struct gate *g, struct ci_stream *s)
{
	s->g = g;
	s->next = g->streams;
	if (s->next != NULL)
		s->next->prev = s;
	g->streams = s;
}

void stream_listen(struct ci_stream *s, struct req *r)
{
	r->work = s;
	r->gone = on_gone;
	r->drained = on_drained;
}

void ci_stream_run(struct req *r)
{
	struct http_slice key = req_get(r, "Idempotency-Key");
	struct ci_stream *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		ci_detail(r, 503, "out of memory");
		return;
	}
	if (key.n > 0 && stream_resume_or_new(r, s, key) < 0) {
		free(s);
		return;
	}
	s->r = r;
	s->told = 1;
	s->began_us = clock_us();
	if (ci_run_prepare(r, &s->run, OPERATION_STREAM) < 0) {
		free(s);
		return;
	}
	s->text = r->body;
	r->body = NULL;
	stream_insert(r->g, s);
	if (key.n == 0 || stream_make_resumable(s) == 0)
		s->o = oneshot_new(r->g, &s->run.spec, &stream_ops, s);
	if (s->o == NULL) {
		ci_detail(r, 503, "out of memory");
		stream_end(s);
		return;
	}
	stream_listen(s, r);
	oneshot_start(s->o);
}
