// SPDX-License-Identifier: Apache-2.0
/*
 * What a client sends: bytes in, requests to handlers.
 *
 * Everything that comes in here is hostile. Heads are taken apart by wire/http1.c; a request whose
 * framing is in doubt is answered and the connection closed, so that nothing behind it is ever
 * taken for a request of its own.
 */
#include "gate/conn_impl.h"

#include "gate/gate.h"
#include "gate/tls.h"
#include "gate/tool_ray.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
	READ_HEAD = 2048,
	READ_RAW = 32768, /* many small messages: a turn is not to be long */
};

/* --- heads ------------------------------------------------------------------------------------ */

static void rebase(struct http_slice *s, const char *from, const char *to)
{
	if (s->p != NULL)
		s->p = to + (s->p - from);
}

/* A request of its own memory out of the head at the front of the input. */
static struct req *make_request(struct conn *c, struct http_head *h, size_t n)
{
	const char *from = buf_head(&c->in);
	struct req *r = calloc(1, sizeof(*r) + n);
	char *to;

	if (r == NULL)
		return NULL;
	to = (char *)(r + 1);
	(void)memcpy(to, from, n);
	rebase(&h->method, from, to);
	rebase(&h->target, from, to);
	rebase(&h->host, from, to);
	rebase(&h->ws_key, from, to);
	for (unsigned int i = 0; i < h->nh; i++) {
		rebase(&h->h[i].name, from, to);
		rebase(&h->h[i].value, from, to);
	}
	(void)memcpy(&r->head, h, sizeof(r->head));
	r->g = c->g;
	r->conn = c;
	r->began_us = c->g->loop.now_us;
	gate_request_id(c->g, r->id);
	return r;
}

/* An answer to what is not even a request. The connection ends with it. */
static void refuse_head(struct conn *c, const struct http_refusal *why)
{
	struct http_head nothing = { .minor = 1 };
	struct req *r = make_request(c, &nothing, 0);

	c->g->figures.malformed++;
	buf_done(&c->in);
	if (r == NULL) {
		c->peer_gone = true;
		return;
	}
	c->req = r;
	r->close = true;
	conn_set_state(c, CONN_BODY, 0); /* not read to its end */
	req_refuse(r, why->status, "malformed_request", NULL, "%s", why->why);
}

/* A client that waits is told to send its body. */
static void say_continue(struct conn *c)
{
	if (c->req->head.expect_continue && buf_len(&c->in) == 0)
		(void)conn_queue(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
}

static void begin_work(struct conn *c)
{
	conn_set_state(c, CONN_WORK, 0);
	c->req->route->run(c->req);
}

/* The head is good. Whoever may not ask, or asks for what is not there, is told before a byte of the body
 * is read. */
static void begin_request(struct conn *c)
{
	struct req *r = c->req;
	const struct http_head *h = &r->head;
	bool has_body = h->framing == HTTP_CHUNKED || (h->framing == HTTP_LENGTH && h->length > 0);
	uint64_t max;

	conn_set_state(c, has_body ? CONN_BODY : CONN_WORK,
		       has_body ? config_u64(&c->g->config, CONF_BODY_TIMEOUT) : 0);
	if (route_find(r) < 0)
		return; /* answered */
	max = r->route->body_max;
	if (h->framing == HTTP_LENGTH && h->length > max && r->route->body != BODY_STREAM) {
		req_refuse(r, 413, "body_too_large", NULL,
			   "the body has %llu bytes, at most %llu are taken here",
			   (unsigned long long)h->length, (unsigned long long)max);
		return;
	}
	c->body_left = h->length;
	http_chunks_init(&c->chunks);
	if (!has_body) {
		begin_work(c);
		if (c->req == r && r->route->body == BODY_STREAM && r->body_end != NULL)
			r->body_end(r);
	} else if (r->route->body == BODY_STREAM) {
		r->route->run(r);
		if (c->req == r && !r->begun) /* what the head alone decides is said at once */
			say_continue(c);
	} else {
		say_continue(c);
		r->body_cap = h->framing == HTTP_LENGTH ? (size_t)h->length : 4096;
		r->body = malloc(r->body_cap + 1);
		if (r->body == NULL)
			req_refuse(r, 503, "no_memory", NULL, "out of memory");
	}
}

/* What comes is no HTTP: on a box's socket for tools RayAI's framing is spoken, too, which begins with a 0. */
static bool begin_framed(struct conn *c)
{
	struct http_head nothing = { .minor = 1 };
	struct req *r = make_request(c, &nothing, 0);

	if (r == NULL) {
		c->peer_gone = true;
		return false;
	}
	c->req = r;
	r->route = &ray_route;
	r->tenant = c->listener->box != NULL ? c->listener->box->tenant : NULL;
	r->begun = r->close = true;
	r->status = 200;
	r->length = -1;
	conn_set_state(c, CONN_RAW, config_u64(&c->g->config, CONF_BODY_TIMEOUT));
	ray_begin(r);
	return true;
}

/* Whether a request began. */
static bool try_head(struct conn *c)
{
	struct http_refusal why;
	static struct http_head h; /* large; copied before anybody else comes here */
	ptrdiff_t n;

	if (buf_len(&c->in) == 0)
		return false;
	if (c->listener->place == ROUTE_TOOLS && *buf_head(&c->in) == '\0')
		return begin_framed(c);
	if (c->state == CONN_IDLE) {
		c->scanned = 0;
		conn_set_state(c, CONN_HEAD, config_u64(&c->g->config, CONF_HEADER_TIMEOUT));
	}
	n = http_head_parse(buf_head(&c->in), buf_len(&c->in), &c->scanned, &h, &why);
	if (n == 0)
		return false;
	if (n < 0) {
		refuse_head(c, &why);
		return true;
	}
	conn_touch(c);
	c->req = make_request(c, &h, (size_t)n);
	buf_take(&c->in, (size_t)n);
	if (c->req == NULL) {
		c->peer_gone = true;
		return false;
	}
	begin_request(c);
	return true;
}

/* --- bodies ----------------------------------------------------------------------------------- */

static int body_room(struct req *r, size_t n)
{
	size_t cap = r->body_cap;
	char *p;

	if (r->body_len + n > r->route->body_max)
		return -1;
	while (cap - r->body_len < n)
		cap = cap * 2 < r->route->body_max ? cap * 2 : (size_t)r->route->body_max;
	if (cap == r->body_cap)
		return 0;
	p = realloc(r->body, cap + 1);
	if (p == NULL)
		return -1;
	r->body = p;
	r->body_cap = cap;
	return 0;
}

/* Give a run of body bytes to whoever collects them. How many were taken; -1: answered. */
static ptrdiff_t deliver(struct conn *c, const char *p, size_t n)
{
	struct req *r = c->req;
	ptrdiff_t taken;

	if (r->route->body == BODY_STREAM) {
		taken = r->take_body != NULL ? r->take_body(r, p, n) : (ptrdiff_t)n;
		if (c->req != r || taken < 0)
			return -1;
		c->body_stalled = (size_t)taken < n;
		return taken;
	}
	if (body_room(r, n) < 0) {
		req_refuse(r, 413, "body_too_large", NULL, "at most %llu bytes are taken here",
			   (unsigned long long)r->route->body_max);
		return -1;
	}
	(void)memcpy(r->body + r->body_len, p, n);
	r->body_len += n;
	return (ptrdiff_t)n;
}

static void body_complete(struct conn *c)
{
	struct req *r = c->req;

	if (r->route->body == BODY_STREAM) {
		conn_set_state(c, CONN_WORK, 0);
		if (r->body_end != NULL)
			r->body_end(r);
		return;
	}
	r->body[r->body_len] = '\0';
	begin_work(c);
}

/* Whoever takes the body hears that no more of it comes: the rest of its work is over, too. */
static void refuse_body(struct req *r, const struct http_refusal *why)
{
	void (*gone)(struct req *r) = r->gone;

	r->gone = NULL;
	if (gone != NULL)
		gone(r);
	if (r->begun) /* a program of a box may answer before it has read everything */
		req_abort(r);
	else
		req_refuse(r, why->status, "malformed_request", NULL, "%s", why->why);
}

static ptrdiff_t feed_chunks(struct conn *c, const char *p, size_t n)
{
	struct http_refusal why;
	struct http_slice data;
	size_t at = 0;

	while (at < n && c->state == CONN_BODY && !c->body_stalled) {
		bool end = false;
		struct http_chunks before = c->chunks;
		ptrdiff_t used = http_chunks_feed(&c->chunks, p + at, n - at, &data, &end, &why);
		ptrdiff_t taken = 0;

		if (used < 0) {
			refuse_body(c->req, &why);
			return -1;
		}
		if (data.n > 0) {
			taken = deliver(c, data.p, data.n);
			if (taken < 0)
				return -1;
		}
		if ((size_t)taken < data.n) { /* go back to where the handler stopped */
			c->chunks = before;
			used = http_chunks_feed(&c->chunks, p + at,
						(size_t)(data.p - (p + at)) + (size_t)taken, &data,
						&end, &why);
		}
		at += (size_t)used;
		if (end) {
			body_complete(c);
			break;
		}
		if (used == 0)
			break;
	}
	return (ptrdiff_t)at;
}

/* Body bytes from the front of p; how many were used, -1: answered. */
static ptrdiff_t feed_body(struct conn *c, const char *p, size_t n)
{
	ptrdiff_t taken;

	if (c->req->head.framing == HTTP_CHUNKED)
		return feed_chunks(c, p, n);
	if (n > c->body_left)
		n = (size_t)c->body_left;
	taken = deliver(c, p, n);
	if (taken < 0)
		return -1;
	c->body_left -= (uint64_t)taken;
	if (c->body_left == 0)
		body_complete(c);
	return taken;
}

/* Bytes that came together with the head, or that the handler did not take at once. */
static bool body_from_input(struct conn *c)
{
	ptrdiff_t n;

	if (buf_len(&c->in) == 0 || c->body_stalled)
		return false;
	n = feed_body(c, buf_head(&c->in), buf_len(&c->in));
	if (n > 0)
		buf_take(&c->in, (size_t)n);
	return n != 0 || c->state != CONN_BODY;
}

/* Bytes of another protocol: how many were taken. */
static size_t deliver_raw(struct conn *c, const char *p, size_t n)
{
	struct req *r = c->req;
	ptrdiff_t taken;

	if (r == NULL || r->take_body == NULL)
		return n;
	taken = r->take_body(r, p, n);
	if (c->req != r || taken < 0)
		return n;
	c->body_stalled = (size_t)taken < n;
	return (size_t)taken;
}

/* Bytes that came right behind the upgrade request, or that were not taken at once. */
static bool raw_from_input(struct conn *c)
{
	size_t n;

	if (c->req->take_body == NULL || c->body_stalled)
		return false;
	n = deliver_raw(c, buf_head(&c->in), buf_len(&c->in));
	buf_take(&c->in, n);
	return n > 0;
}

bool conn_take_input(struct conn *c)
{
	if ((c->state == CONN_IDLE || c->state == CONN_HEAD) && c->req == NULL &&
	    buf_len(&c->out) < REQ_HIGH)
		return try_head(c);
	if (c->state == CONN_BODY && c->req != NULL)
		return body_from_input(c);
	if (c->state == CONN_RAW && c->req != NULL && buf_len(&c->in) > 0)
		return raw_from_input(c);
	return false;
}

void req_body_wait(struct req *r)
{
	r->conn->body_stalled = true;
}

void req_body_more(struct req *r)
{
	struct conn *c = r->conn;

	if (!c->body_stalled)
		return;
	c->body_stalled = false;
	if (c->state != CONN_RAW)
		conn_set_state(c, CONN_BODY, config_u64(&c->g->config, CONF_BODY_TIMEOUT));
	if (!c->in_progress)
		conn_progress(c);
}

/* --- reading ---------------------------------------------------------------------------------- */

static ssize_t receive(struct conn *c, void *p, size_t n)
{
	uint32_t want = 0;
	ssize_t got;

	if (c->tls != NULL)
		return tls_recv(c->tls, p, n, &want);
	got = recv(c->fd, p, n, 0);
	return got < 0 ? -errno : got;
}

static ssize_t read_head(struct conn *c)
{
	char *p = buf_reserve(&c->in, READ_HEAD);
	ssize_t n;

	if (p == NULL)
		return -ENOBUFS;
	n = receive(c, p, c->in.cap - c->in.end);
	if (n > 0)
		buf_added(&c->in, (size_t)n);
	return n;
}

static ssize_t read_body(struct conn *c)
{
	struct req *r = c->req;
	ptrdiff_t used;
	ssize_t n;

	if (r->route->body != BODY_STREAM && r->head.framing == HTTP_LENGTH) { /* to its place */
		n = receive(c, r->body + r->body_len, (size_t)c->body_left);
		if (n <= 0)
			return n;
		r->body_len += (size_t)n;
		c->body_left -= (uint64_t)n;
		if (c->body_left == 0)
			body_complete(c);
	} else {
		n = receive(c, c->g->scratch, GATE_SCRATCH);
		if (n <= 0)
			return n;
		used = feed_body(c, c->g->scratch, (size_t)n);
		if (used >= 0 && used < n && c->state != CONN_CLOSED &&
		    buf_put(&c->in, c->g->scratch + used, (size_t)(n - used)) < 0)
			return -ENOBUFS;
	}
	if (c->state == CONN_BODY)
		conn_set_state(c, CONN_BODY, config_u64(&c->g->config, CONF_BODY_TIMEOUT));
	return n;
}

void conn_read_some(struct conn *c)
{
	ssize_t n = 0;

	switch (c->state) {
	case CONN_IDLE:
	case CONN_HEAD:
		n = read_head(c);
		break;
	case CONN_BODY:
		if (c->body_stalled)
			return;
		n = read_body(c);
		break;
	case CONN_RAW:
		if (c->body_stalled)
			return;
		n = receive(c, c->g->scratch, READ_RAW);
		if (n > 0) {
			size_t taken = deliver_raw(c, c->g->scratch, (size_t)n);

			if (taken < (size_t)n && c->state == CONN_RAW &&
			    buf_put(&c->in, c->g->scratch + taken, (size_t)n - taken) < 0)
				n = -ENOBUFS;
		}
		break;
	case CONN_LINGER:
		n = receive(c, c->g->scratch, GATE_SCRATCH);
		break;
	case CONN_WORK:
	case CONN_CLOSED:
		return;
	}
	if (n == 0 || (n < 0 && !conn_is_retry(n)))
		c->peer_gone = true;
}
