// SPDX-License-Identifier: Apache-2.0
/*
 * One request to a program of a box, and its answer.
 *
 * Each is a connection of its own, a link (JOB_LINK), which ends with the answer. Nothing is kept here but the head and what one side has sent
 * and the other has not taken: who does not take holds the other up, to the client's socket on one side and to the program's on the other.
 *
 * What follows an answer of 101 is no HTTP any more and is passed on as it is, both ways.
 */
#include "gate/published.h"

#include "base/own.h"
#include "gate/gate.h"
#include "gate/ws.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	UP_MAX = 2 * HTTP_HEAD_MAX + 128 * 1024, /* to the program, and not taken */
	UP_ROOM = 32,                            /* of it, for the frame of a chunk */
	UP_LOW = 64 * 1024,
};

struct inbound {
	struct inbound *next;
	struct published *to;
	struct gate *g;
	struct req *r; /* NULL: over */
	struct gjob job;
	struct buf up;
	struct http_answer answer;
	bool headed; /* the client has the head of the answer */
	bool raw;    /* and what follows is no HTTP */
	uint64_t ack_later;
	struct deferred deferred;
};

/* --- the end ---------------------------------------------------------------------------------------- */

static void inbound_free(void *arg)
{
	struct inbound *i = arg;

	buf_done(&i->up);
	free(i);
}

/* Nothing is heard of it any more; the request stays. */
static void let_go(struct inbound *i)
{
	struct req *r = i->r;
	struct abox *a = i->to->a;
	struct inbound **at = &i->to->inbound;

	i->r = NULL;
	r->work = NULL;
	r->gone = r->drained = r->body_end = r->stop = NULL;
	r->take_body = NULL;
	while (*at != i)
		at = &(*at)->next;
	*at = i->next;
	if (i->job.box != NULL && !i->job.told_end)
		gjob_signal(&i->job, SIGKILL, 0);
	gjob_drop(&i->job);
	a->attached--;
	a->ninbound--;
	abox_touch(a);
	loop_defer(&i->g->loop, &i->deferred, inbound_free, i);
}

/* The program has not answered, or not to the end. */
static void fail(struct inbound *i, const char *why)
{
	struct req *r = i->r;
	bool headed = i->headed, raw = i->raw;
	unsigned int port = i->to->port;

	let_go(i);
	if (raw)
		req_end(r);
	else if (headed)
		req_abort(r);
	else
		own_refuse(r, OWN_PROGRAM, NULL, "port %u of the box: %s", port, why);
}

static void finish(struct inbound *i)
{
	struct req *r = i->r;

	let_go(i);
	req_end(r);
}

void inbound_end_all(struct published *p)
{
	while (p->inbound != NULL)
		fail(p->inbound, "it is not published any more");
}

/* --- from the client -------------------------------------------------------------------------------- */

static void push(struct inbound *i)
{
	if (buf_len(&i->up) > 0 && i->job.box != NULL)
		buf_take(&i->up, gjob_input(&i->job, buf_head(&i->up), buf_len(&i->up)));
}

static void on_want(void *arg)
{
	struct inbound *i = arg;

	push(i);
	if (i->r != NULL && buf_len(&i->up) < UP_LOW)
		req_body_more(i->r);
}

/* A body goes on in the framing that it came in. */
static ptrdiff_t take_body(struct req *r, const char *p, size_t n)
{
	struct inbound *i = r->work;
	bool chunked = r->head.framing == HTTP_CHUNKED && !i->raw;
	size_t room = buf_room(&i->up);
	char size[24];
	int failed = 0;

	room = room > UP_ROOM ? room - UP_ROOM : 0;
	if (n > room)
		n = room;
	if (n == 0)
		return 0;
	if (chunked) {
		int len = snprintf(size, sizeof(size), "%zx\r\n", n);

		failed = buf_put(&i->up, size, (size_t)len);
	}
	if (failed == 0)
		failed = buf_put(&i->up, p, n);
	if (failed == 0 && chunked)
		failed = buf_put(&i->up, "\r\n", 2);
	if (failed < 0) {
		fail(i, "out of memory");
		return -1;
	}
	push(i);
	return (ptrdiff_t)n;
}

static void body_end(struct req *r)
{
	struct inbound *i = r->work;

	if (r->head.framing == HTTP_CHUNKED && buf_put(&i->up, "0\r\n\r\n", 5) == 0)
		push(i);
}

static void on_client_gone(struct req *r)
{
	let_go(r->work);
}

static void on_drained(struct req *r)
{
	struct inbound *i = r->work;

	if (i->ack_later > 0)
		gjob_ack(&i->job, i->ack_later);
	i->ack_later = 0;
}

static void on_stop(struct req *r)
{
	struct inbound *i = r->work;

	if (i->raw)
		finish(i);
}

/* --- from the program ------------------------------------------------------------------------------- */

/* It wants to speak a WebSocket: so did its client, and it has read what that asked. */
static int begin_raw(struct inbound *i)
{
	struct req *r = i->r;
	struct http_slice accept = http_answer_get(&i->answer, "Sec-WebSocket-Accept");
	char key[WS_ACCEPT];

	if (!r->head.upgrade_websocket ||
	    !http_slice_is_nocase(http_answer_get(&i->answer, "Upgrade"), "websocket") ||
	    ws_accept_key(r->head.ws_key, key) < 0 || !http_slice_is(accept, key)) {
		fail(i, "it changes to a protocol that was not asked for");
		return -1;
	}
	i->raw = i->headed = true;
	r->stop = on_stop;
	inbound_headers(r, i->to, &i->answer);
	req_upgrade(r, key, NULL);
	return 0;
}

/* The head of the answer is there. 0, or -1: it is over. */
static int begin(struct inbound *i)
{
	const struct http_answer *a = &i->answer;
	struct req *r = i->r;
	int64_t length = -1;

	if (a->status == 101)
		return begin_raw(i);
	if (a->framing == HTTP_ANSWER_NONE)
		length = 0;
	else if (a->framing == HTTP_ANSWER_LENGTH)
		length = (int64_t)a->length;
	i->headed = true;
	inbound_headers(r, i->to, a);
	req_begin(r, a->status, NULL, length);
	if (!r->head_only)
		return 0;
	finish(i);
	return -1;
}

/* 0, or -1: it is over. */
static int feed(struct inbound *i, const char *p, size_t n)
{
	struct http_slice data;
	const char *why = "";

	while (n > 0) {
		ptrdiff_t used;

		if (i->raw) {
			(void)req_write(i->r, p, n);
			return 0;
		}
		used = http_answer_feed(&i->answer, p, n, &data, &why);
		if (used < 0) {
			fail(i, why);
			return -1;
		}
		p += used;
		n -= (size_t)used;
		if (!i->headed && i->answer.status != 0 && begin(i) < 0)
			return -1;
		if (data.n > 0)
			(void)req_write(i->r, data.p, data.n);
		if (i->answer.done && !i->raw) {
			finish(i);
			return -1;
		}
	}
	return 0;
}

static void on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n)
{
	struct inbound *i = arg;

	(void)stream;
	if (feed(i, (const char *)p, n) < 0)
		return;
	req_flush(i->r);
	if (req_queued(i->r) < REQ_HIGH)
		gjob_ack(&i->job, number);
	else
		i->ack_later = number;
}

static void on_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct inbound *i = arg;

	gjob_ack(&i->job, number);
	if (x->how == JOB_FAILED)
		fail(i, strerrordesc_np(x->code));
	else if (i->headed && (i->raw || http_answer_end(&i->answer)))
		finish(i);
	else
		fail(i, "it ended before its answer was whole");
}

static void on_failed(void *arg, int error, const char *why)
{
	fail(arg, error == ECONNREFUSED ? "no program of it listens there" : why);
}

static void on_lost(void *arg)
{
	fail(arg, "the box has ended");
}

/* --- a request --------------------------------------------------------------------------------------- */

static int start(struct inbound *i)
{
	static const struct gjob_ops ops = { .output = on_output,
					     .want = on_want,
					     .ended = on_ended,
					     .failed = on_failed,
					     .lost = on_lost };
	static const char *const none[] = { NULL };
	char port[8];
	const char *const argv[] = { port, NULL };
	struct job_spec spec = { .kind = JOB_LINK,
				 .flags = JOB_STDIN | JOB_ATTENDED | JOB_PROMPT,
				 .cwd = "/",
				 .argv = argv,
				 .envp = none };

	(void)snprintf(port, sizeof(port), "%u", i->to->port);
	return gjob_start(i->to->a->box, &i->job, 0, &spec, &ops, i);
}

void inbound_run(struct req *r)
{
	struct http_slice rest;
	struct published *p = published_find(r, &rest);
	struct inbound *i;

	if (p == NULL)
		return;
	if (p->a->ninbound >= INBOUND_MAX) {
		own_refuse(r, OWN_TOO_MANY, NULL, "%d requests to programs of this box are open",
			   INBOUND_MAX);
		return;
	}
	i = calloc(1, sizeof(*i));
	if (i == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	i->g = r->g;
	i->to = p;
	buf_init(&i->up, UP_MAX);
	http_answer_init(&i->answer);
	if (p->a->box == NULL || inbound_request(r, p, rest, &i->up) < 0 || start(i) < 0) {
		inbound_free(i);
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	i->r = r;
	i->next = p->inbound;
	p->inbound = i;
	p->a->ninbound++;
	p->a->attached++;
	r->work = i;
	r->gone = on_client_gone;
	r->drained = on_drained;
	r->take_body = take_body;
	r->body_end = body_end;
	push(i);
}
