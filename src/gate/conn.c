// SPDX-License-Identifier: Apache-2.0
/*
 * A client's connection: bytes in, requests to handlers, answers out. See conn.h for its states.
 *
 * Everything that comes in here is hostile. Heads are taken apart by wire/http1.c; a request whose
 * framing is in doubt is answered and the connection closed, so that nothing behind it is ever
 * taken for a request of its own.
 */
#include "gate/conn.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "gate/gate.h"
#include "gate/tls.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
	IN_MAX = HTTP_HEAD_MAX + GATE_SCRATCH,
	OUT_MAX = 1024 * 1024 * 1024,  /* of one whole answer */
	STREAM_MAX = 16 * 1024 * 1024, /* of others; whoever stops at REQ_HIGH stays far below */
	LINGER_US = 2 * 1000 * 1000,
	READ_HEAD = 2048,
};

static void progress(struct conn *c);
static void conn_event(void *arg, uint32_t events);

/* --- bytes ------------------------------------------------------------------------------------ */

static ssize_t receive(struct conn *c, void *p, size_t n)
{
	uint32_t want = 0;
	ssize_t got;

	if (c->tls != NULL)
		return tls_recv(c->tls, p, n, &want);
	got = recv(c->fd, p, n, 0);
	return got < 0 ? -errno : got;
}

static ssize_t transmit(struct conn *c, const void *p, size_t n)
{
	uint32_t want = 0;
	ssize_t put;

	if (c->tls != NULL)
		return tls_send(c->tls, p, n, &want);
	put = send(c->fd, p, n, MSG_NOSIGNAL);
	return put < 0 ? -errno : put;
}

static bool is_retry(ssize_t r)
{
	return r == -EAGAIN || r == -EINTR;
}

/* --- the end ---------------------------------------------------------------------------------- */

static void conn_free(void *arg)
{
	struct conn *c = arg;

	buf_done(&c->in);
	buf_done(&c->out);
	free(c);
}

static void req_free(struct req *r)
{
	free(r->body);
	free(r->extra);
	free(r);
}

static void log_request(const struct req *r, const char *how)
{
	uint64_t us = clock_us() - r->began_us;

	gate_log_request(r->g, r, how, us);
}

static void unlink_conn(struct conn *c)
{
	struct gate *g = c->g;

	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		g->conns = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	else
		g->conns_tail = c->prev;
}

static void link_conn(struct conn *c)
{
	struct gate *g = c->g;

	c->prev = NULL;
	c->next = g->conns;
	if (c->next != NULL)
		c->next->prev = c;
	else
		g->conns_tail = c;
	g->conns = c;
}

static void conn_close(struct conn *c)
{
	struct gate *g = c->g;

	if (c->state == CONN_CLOSED)
		return;
	c->state = CONN_CLOSED;
	if (c->req != NULL) {
		struct req *r = c->req;

		c->req = NULL;
		log_request(r, "gone");
		if (r->gone != NULL)
			r->gone(r);
		req_free(r);
	}
	loop_unwatch(&g->loop, &c->watch);
	timer_clear(&g->loop, &c->timer);
	tls_free(c->tls);
	c->tls = NULL;
	fd_close(&c->fd);
	unlink_conn(c);
	g->nconns--;
	listeners_resume(g);
	loop_defer(&g->loop, &c->deferred, conn_free, c);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void on_timer(void *arg);

static void set_state(struct conn *c, enum conn_state state, uint64_t timeout_us)
{
	c->state = state;
	c->deadline_us = timeout_us == 0 ? UINT64_MAX : c->g->loop.now_us + timeout_us;
}

/* Close it, but not now: whoever calls may be looking at the request. */
static void hang_up(struct conn *c)
{
	c->peer_gone = true;
	(void)shutdown(c->fd, SHUT_RDWR); /* comes back as an event */
}

/* When somebody has to look at this connection again. */
static uint64_t due(const struct conn *c)
{
	uint64_t at = c->deadline_us;

	if (buf_len(&c->out) > 0) {
		uint64_t writing = c->write_us + config_u64(&c->g->config, CONF_WRITE_TIMEOUT);

		if (writing < at)
			at = writing;
	}
	return at;
}

/* A timer that is set too early costs less than one that is moved for every request. */
static void update_timer(struct conn *c)
{
	uint64_t at = due(c);

	if (at == UINT64_MAX || (c->timer.place != 0 && c->timer.at_us <= at))
		return;
	if (timer_set(&c->g->loop, &c->timer, at, on_timer, c) < 0)
		hang_up(c);
}

static void on_timer(void *arg)
{
	struct conn *c = arg;

	if (!c->peer_gone && due(c) > c->g->loop.now_us) {
		update_timer(c);
		return;
	}
	c->g->figures.timeouts++;
	conn_close(c);
}

static bool wants_input(const struct conn *c)
{
	/* Who takes no answers may not ask on. */
	if (c->state == CONN_IDLE || c->state == CONN_HEAD)
		return buf_len(&c->out) < REQ_HIGH;
	return c->state == CONN_LINGER || c->state == CONN_RAW ||
	       (c->state == CONN_BODY && !c->body_stalled);
}

static void update(struct conn *c)
{
	uint32_t events = 0;

	if (c->state == CONN_CLOSED)
		return;
	if (wants_input(c))
		events |= EPOLLIN | EPOLLRDHUP;
	else if (!c->close_after) /* behind the last answer, its leaving changes nothing */
		events |= EPOLLRDHUP;
	if (buf_len(&c->out) > 0)
		events |= EPOLLOUT;
	loop_change(&c->g->loop, &c->watch, events);
	update_timer(c);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* Send what there is. What cannot be sent any more sets peer_gone. */
static void flush(struct conn *c)
{
	while (c->state != CONN_CLOSED && !c->peer_gone && buf_len(&c->out) > 0) {
		ssize_t n = transmit(c, buf_head(&c->out), buf_len(&c->out));

		if (is_retry(n))
			break;
		if (n <= 0) {
			c->peer_gone = true;
			return;
		}
		buf_take(&c->out, (size_t)n);
		c->sent_total += (uint64_t)n;
		c->write_us = c->g->loop.now_us;
		if (c->state == CONN_IDLE) /* from the end of the answer on */
			set_state(c, CONN_IDLE, config_u64(&c->g->config, CONF_IDLE_TIMEOUT));
	}
}

/* A handler that saw a full queue hears when there is room again. */
static void tell_drained(struct conn *c)
{
	if (!c->was_high || buf_len(&c->out) >= REQ_LOW)
		return;
	c->was_high = false;
	if (c->req != NULL && c->req->drained != NULL)
		c->req->drained(c->req);
}

static int queue(struct conn *c, const void *p, size_t n)
{
	if (c->state == CONN_CLOSED)
		return -1;
	if (buf_len(&c->out) == 0)
		c->write_us = c->g->loop.now_us;
	if (buf_put(&c->out, p, n) < 0) {
		c->peer_gone = true; /* closed at the end of what is being done now */
		return -1;
	}
	c->out_total += n;
	return 0;
}

static void linger(struct conn *c)
{
	if (c->tls != NULL)
		tls_bye(c->tls);
	(void)shutdown(c->fd, SHUT_WR);
	buf_done(&c->in);
	set_state(c, CONN_LINGER, LINGER_US);
}

/* --- answers ---------------------------------------------------------------------------------- */

void req_header(struct req *r, const char *name, const char *fmt, ...)
{
	char value[1024];
	size_t n;
	char *extra;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	value[strcspn(value, "\r\n")] = '\0';
	n = strlen(name) + strlen(value) + 4;
	extra = realloc(r->extra, r->extra_len + n + 1);
	if (extra == NULL)
		return;
	(void)snprintf(extra + r->extra_len, n + 1, "%s: %s\r\n", name, value);
	r->extra = extra;
	r->extra_len += n;
}

static const char *reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} rows[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 304, "Not Modified" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 417, "Expectation Failed" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 426, "Upgrade Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 503, "Service Unavailable" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].status == status)
			return rows[i].text;
	return "";
}

/* Whether the request's body was read to its end. */
static bool body_is_read(const struct conn *c)
{
	return c->state == CONN_WORK;
}

void req_begin(struct req *r, int status, const char *type, int64_t length)
{
	struct conn *c = r->conn;
	char head[1024];
	int n;

	r->begun = true;
	r->status = status;
	r->length = length;
	if (status == 503 && (r->extra == NULL || strstr(r->extra, "Retry-After") == NULL))
		req_header(
			r, "Retry-After", "%llu",
			(unsigned long long)(config_u64(&r->g->config, CONF_CAPACITY_RETRY_AFTER) /
					     US_PER_S));
	r->chunked = length < 0 && r->head.minor >= 1;
	if (!body_is_read(c) || !r->head.keep_alive || r->g->stopping ||
	    (length < 0 && !r->chunked))
		r->close = true;
	n = snprintf(head, sizeof(head),
		     "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Request-Id: %s\r\n"
		     "X-Content-Type-Options: nosniff\r\n",
		     status, reason(status), gate_date(r->g), r->id);
	if (type != NULL)
		n += snprintf(head + n, sizeof(head) - (size_t)n, "Content-Type: %s\r\n", type);
	if (length >= 0 && status != 204)
		n += snprintf(head + n, sizeof(head) - (size_t)n, "Content-Length: %lld\r\n",
			      (long long)length);
	if (r->chunked)
		n += snprintf(head + n, sizeof(head) - (size_t)n, "Transfer-Encoding: chunked\r\n");
	if (r->close)
		n += snprintf(head + n, sizeof(head) - (size_t)n, "Connection: close\r\n");
	else if (r->head.minor == 0)
		n += snprintf(head + n, sizeof(head) - (size_t)n, "Connection: keep-alive\r\n");
	(void)queue(c, head, (size_t)n);
	if (r->extra_len > 0)
		(void)queue(c, r->extra, r->extra_len);
	(void)queue(c, "\r\n", 2);
}

int req_write(struct req *r, const void *p, size_t n)
{
	struct conn *c = r->conn;
	char size[24];
	int rc;

	if (n == 0 || r->head_only)
		return 0;
	r->body_bytes += n;
	if (r->length < 0 && buf_len(&c->out) + n > STREAM_MAX) {
		c->peer_gone = true;
		rc = -1;
	} else if (!r->chunked) {
		rc = queue(c, p, n);
	} else {
		int len = snprintf(size, sizeof(size), "%zx\r\n", n);

		rc = queue(c, size, (size_t)len);
		if (rc == 0)
			rc = queue(c, p, n);
		if (rc == 0)
			rc = queue(c, "\r\n", 2);
	}
	if (!c->in_progress) { /* from a box, the store or a timer: there is no one else to do it */
		flush(c);
		if (c->peer_gone)
			hang_up(c);
		update(c);
	}
	c->was_high = buf_len(&c->out) >= REQ_HIGH;
	return rc;
}

void req_upgrade(struct req *r, const char *accept)
{
	struct conn *c = r->conn;
	char head[256];
	int n = snprintf(
		head, sizeof(head),
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\nX-Request-Id: %s\r\n\r\n",
		accept, r->id);

	r->begun = true;
	r->close = true;
	r->status = 101;
	r->length = -1;
	(void)queue(c, head, (size_t)n);
	set_state(c, CONN_RAW, 0);
}

size_t req_queued(const struct req *r)
{
	return buf_len(&r->conn->out);
}

uint64_t req_sent(const struct req *r)
{
	return r->conn->out_total;
}

uint64_t req_confirmed(const struct req *r)
{
	const struct conn *c = r->conn;
	int waiting = 0;

	if (c->state == CONN_CLOSED || ioctl(c->fd, SIOCOUTQ, &waiting) < 0)
		return 0;
	if (c->tls != NULL) /* other bytes than ours are on the wire: all or nothing */
		return waiting == 0 && buf_len(&c->out) == 0 ? c->sent_total : 0;
	return c->sent_total > (uint64_t)waiting ? c->sent_total - (uint64_t)waiting : 0;
}

/* The request is done with; the connection goes on. */
static void finish(struct conn *c)
{
	struct req *r = c->req;
	bool close = r->close, read = body_is_read(c);

	c->req = NULL;
	log_request(r, "done");
	req_free(r);
	c->body_stalled = false;
	if (!close) {
		set_state(c, CONN_IDLE, config_u64(&c->g->config, CONF_IDLE_TIMEOUT));
		return;
	}
	c->close_after = true;
	if (!read)
		buf_done(&c->in);
	set_state(c, CONN_WORK, 0); /* until the answer is out */
}

void req_end(struct req *r)
{
	struct conn *c = r->conn;

	if (r->chunked && !r->head_only)
		(void)queue(c, "0\r\n\r\n", 5);
	r->gone = NULL;
	finish(c);
	if (!c->in_progress)
		progress(c);
}

void req_abort(struct req *r)
{
	r->gone = NULL;
	r->conn->peer_gone = true;
	if (!r->conn->in_progress)
		conn_close(r->conn);
}

void req_reply(struct req *r, int status, const char *type, const void *body, size_t n)
{
	bool was = r->conn->in_progress;
	struct conn *c = r->conn;

	c->in_progress = true; /* head, body and end in one go */
	req_begin(r, status, type, (int64_t)n);
	(void)req_write(r, body, n);
	req_end(r);
	c->in_progress = was;
	if (!was)
		progress(c);
}

void req_json(struct req *r, int status, struct json *j)
{
	if (j->failed)
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
	else
		req_reply(r, status, "application/json", j->buf, j->len);
	json_done(j);
}

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
	set_state(c, CONN_BODY, 0); /* not read to its end */
	req_refuse(r, why->status, "malformed_request", NULL, "%s", why->why);
}

static void begin_work(struct conn *c)
{
	set_state(c, CONN_WORK, 0);
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

	set_state(c, has_body ? CONN_BODY : CONN_WORK,
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
	if (has_body && h->expect_continue && buf_len(&c->in) == 0)
		(void)queue(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	if (!has_body) {
		begin_work(c);
		if (c->req == r && r->route->body == BODY_STREAM && r->body_end != NULL)
			r->body_end(r);
	} else if (r->route->body == BODY_STREAM) {
		r->route->run(r);
	} else {
		r->body_cap = h->framing == HTTP_LENGTH ? (size_t)h->length : 4096;
		r->body = malloc(r->body_cap + 1);
		if (r->body == NULL)
			req_refuse(r, 503, "no_memory", NULL, "out of memory");
	}
}

/* Whether a request began. */
static bool try_head(struct conn *c)
{
	struct http_refusal why;
	static struct http_head h; /* large; copied before anybody else comes here */
	ptrdiff_t n;

	if (buf_len(&c->in) == 0)
		return false;
	if (c->state == CONN_IDLE) {
		c->scanned = 0;
		set_state(c, CONN_HEAD, config_u64(&c->g->config, CONF_HEADER_TIMEOUT));
	}
	n = http_head_parse(buf_head(&c->in), buf_len(&c->in), &c->scanned, &h, &why);
	if (n == 0)
		return false;
	if (n < 0) {
		refuse_head(c, &why);
		return true;
	}
	unlink_conn(c); /* used last, so closed last for want of room */
	link_conn(c);
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
		set_state(c, CONN_WORK, 0);
		if (r->body_end != NULL)
			r->body_end(r);
		return;
	}
	r->body[r->body_len] = '\0';
	begin_work(c);
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
			req_refuse(c->req, why.status, "malformed_request", NULL, "%s", why.why);
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

/* Bytes that came right behind the upgrade request. */
static bool raw_from_input(struct conn *c)
{
	size_t n = buf_len(&c->in);

	if (c->req->take_body == NULL)
		return false;
	(void)c->req->take_body(c->req, buf_head(&c->in), n);
	buf_take(&c->in, n);
	return true;
}

void req_body_more(struct req *r)
{
	struct conn *c = r->conn;

	if (!c->body_stalled)
		return;
	c->body_stalled = false;
	set_state(c, CONN_BODY, config_u64(&c->g->config, CONF_BODY_TIMEOUT));
	if (!c->in_progress)
		progress(c);
}

/* --- reading ---------------------------------------------------------------------------------- */

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
		set_state(c, CONN_BODY, config_u64(&c->g->config, CONF_BODY_TIMEOUT));
	return n;
}

static void read_some(struct conn *c)
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
		n = receive(c, c->g->scratch, GATE_SCRATCH);
		if (n > 0 && c->req != NULL && c->req->take_body != NULL)
			(void)c->req->take_body(c->req, c->g->scratch, (size_t)n);
		break;
	case CONN_LINGER:
		n = receive(c, c->g->scratch, GATE_SCRATCH);
		break;
	case CONN_WORK:
	case CONN_CLOSED:
		return;
	}
	if (n == 0 || (n < 0 && !is_retry(n)))
		c->peer_gone = true;
}

/* Go on as far as is possible without waiting. */
static void progress(struct conn *c)
{
	bool more = true;

	if (c->in_progress || c->state == CONN_CLOSED)
		return;
	c->in_progress = true;
	while (more && !c->peer_gone && c->state != CONN_CLOSED) {
		more = false;
		if (c->close_after && buf_len(&c->out) == 0)
			break;
		if ((c->state == CONN_IDLE || c->state == CONN_HEAD) && c->req == NULL &&
		    buf_len(&c->out) < REQ_HIGH)
			more = try_head(c);
		else if (c->state == CONN_BODY && c->req != NULL)
			more = body_from_input(c);
		else if (c->state == CONN_RAW && c->req != NULL && buf_len(&c->in) > 0)
			more = raw_from_input(c);
		if (!more && c->tls != NULL && wants_input(c) && tls_pending(c->tls)) {
			read_some(c);
			more = true;
		}
		flush(c);
	}
	c->in_progress = false;
	if (c->peer_gone)
		conn_close(c);
	else
		tell_drained(c);
	if (c->close_after && buf_len(&c->out) == 0 && c->state == CONN_WORK)
		linger(c);
	if (c->g->stopping && c->state == CONN_IDLE && buf_len(&c->out) == 0)
		conn_close(c);
	update(c);
}

static void conn_event(void *arg, uint32_t events)
{
	struct conn *c = arg;

	if ((events & (EPOLLERR | EPOLLHUP)) != 0 ||
	    ((events & EPOLLRDHUP) != 0 && !wants_input(c) && !c->close_after)) {
		conn_close(c);
		return;
	}
	if ((events & (EPOLLIN | EPOLLRDHUP)) != 0) {
		c->in_progress = true;
		read_some(c);
		c->in_progress = false;
	}
	if ((events & EPOLLOUT) != 0)
		flush(c);
	progress(c);
}

/* --- birth ------------------------------------------------------------------------------------ */

void conn_new(struct gate *g, const struct listener *l, int fd, const char *peer)
{
	struct conn *c = calloc(1, sizeof(*c));
	int one = 1;

	if (c == NULL) {
		(void)close(fd);
		return;
	}
	c->g = g;
	c->listener = l;
	c->fd = fd;
	buf_init(&c->in, IN_MAX);
	buf_init(&c->out, OUT_MAX);
	(void)snprintf(c->peer, sizeof(c->peer), "%s", peer);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (l->tls != NULL)
		c->tls = tls_new(l->tls, fd);
	if ((l->tls != NULL && c->tls == NULL) ||
	    loop_watch(&g->loop, &c->watch, fd, EPOLLIN | EPOLLRDHUP, conn_event, c) < 0) {
		tls_free(c->tls);
		(void)close(fd);
		free(c);
		return;
	}
	link_conn(c);
	g->nconns++;
	/* The first head has to come at once. */
	set_state(c, CONN_IDLE, config_u64(&g->config, CONF_HEADER_TIMEOUT));
	update(c);
}

bool conns_make_room(struct gate *g)
{
	enum { LOOK = 256 };
	struct conn *c = g->conns_tail;

	for (unsigned int i = 0; i < LOOK && c != NULL; i++, c = c->prev)
		if ((c->state == CONN_IDLE || c->state == CONN_HEAD || c->state == CONN_LINGER) &&
		    buf_len(&c->out) == 0) {
			conn_close(c);
			return true;
		}
	return false;
}

void conns_drain(struct gate *g)
{
	struct conn *next;

	for (struct conn *c = g->conns; c != NULL; c = next) {
		next = c->next;
		if (c->state == CONN_IDLE && buf_len(&c->out) == 0)
			conn_close(c);
		else if (c->req != NULL && c->req->stop != NULL)
			c->req->stop(c->req);
	}
}
