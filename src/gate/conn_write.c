// SPDX-License-Identifier: Apache-2.0
/* What a client is sent: the answer of a handler, as fast as the other side takes it. */
#include "gate/conn_impl.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/boxes.h"
#include "gate/gate.h"
#include "gate/tls.h"

#include <linux/sockios.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Of an answer without a length that waits to be sent; whoever stops at REQ_HIGH stays far below. */
enum { STREAM_MAX = 48 * 1024 * 1024 }; /* the largest event, and what waits before it */

/* --- sending ---------------------------------------------------------------------------------- */

static ssize_t transmit(struct conn *c, const void *p, size_t n)
{
	uint32_t want = 0;
	ssize_t put;

	/* First: what it says is so for the next gate, too, and has reached init. */
	aboxes_save(c->g);
	if (c->g->unsaid)
		gboxes_flush(c->g);
	if (c->tls != NULL)
		return tls_send(c->tls, p, n, &want);
	put = send(c->fd, p, n, MSG_NOSIGNAL);
	return put < 0 ? -errno : put;
}

void conn_flush(struct conn *c)
{
	while (c->state != CONN_CLOSED && !c->peer_gone && buf_len(&c->out) > 0) {
		ssize_t n = transmit(c, buf_head(&c->out), buf_len(&c->out));

		if (conn_is_retry(n))
			break;
		if (n <= 0) {
			c->peer_gone = true;
			return;
		}
		buf_take(&c->out, (size_t)n);
		c->sent_total += (uint64_t)n;
		c->write_us = c->g->loop.now_us;
		if (c->state == CONN_IDLE) /* from the end of the answer on */
			conn_set_state(c, CONN_IDLE, config_u64(&c->g->config, CONF_IDLE_TIMEOUT));
	}
}

int conn_queue(struct conn *c, const void *p, size_t n)
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

/* --- answers ---------------------------------------------------------------------------------- */

void req_header(struct req *r, const char *name, const char *fmt, ...)
{
	char value[1024];
	size_t n;
	char *extra;
	va_list ap;

	if (r->via != NULL)
		return;
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

void req_header_slice(struct req *r, const char *name, struct http_slice value)
{
	size_t n = strlen(name) + value.n + 4;
	char *extra = realloc(r->extra, r->extra_len + n + 1);

	if (extra == NULL)
		return;
	(void)snprintf(extra + r->extra_len, n + 1, "%s: %.*s\r\n", name, (int)value.n, value.p);
	r->extra = extra;
	r->extra_len += n;
}

const char *req_reason(int status)
{
	static const struct {
		int status;
		const char *text;
	} rows[] = {
		{ 200, "OK" },
		{ 201, "Created" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 206, "Partial Content" },
		{ 304, "Not Modified" },
		{ 307, "Temporary Redirect" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 412, "Precondition Failed" },
		{ 413, "Content Too Large" },
		{ 414, "URI Too Long" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 417, "Expectation Failed" },
		{ 421, "Misdirected Request" },
		{ 422, "Unprocessable Content" },
		{ 426, "Upgrade Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 501, "Not Implemented" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 505, "HTTP Version Not Supported" },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++)
		if (rows[i].status == status)
			return rows[i].text;
	return "";
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
	if (!conn_body_is_read(c) || !r->head.keep_alive || conn_is_last(c) ||
	    (c->listener->inside && c->listener->place != ROUTE_TOOLS) ||
	    (length < 0 && !r->chunked))
		r->close = true;
	n = snprintf(head, sizeof(head),
		     "HTTP/1.1 %d %s\r\nDate: %s\r\nX-Request-Id: %s\r\n"
		     "X-Content-Type-Options: nosniff\r\n",
		     status, req_reason(status), gate_date(r->g), r->id);
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
	(void)conn_queue(c, head, (size_t)n);
	if (r->extra_len > 0)
		(void)conn_queue(c, r->extra, r->extra_len);
	(void)conn_queue(c, "\r\n", 2);
}

void req_flush(struct req *r)
{
	struct conn *c = r->conn;

	if (c->in_progress)
		return;
	conn_flush(c);
	if (c->peer_gone)
		conn_hang_up(c);
	conn_update(c);
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
		rc = conn_queue(c, p, n);
	} else {
		int len = snprintf(size, sizeof(size), "%zx\r\n", n);

		rc = conn_queue(c, size, (size_t)len);
		if (rc == 0)
			rc = conn_queue(c, p, n);
		if (rc == 0)
			rc = conn_queue(c, "\r\n", 2);
	}
	req_flush(r);
	c->was_high = buf_len(&c->out) >= REQ_HIGH;
	return rc;
}

void req_upgrade(struct req *r, const char *accept, const char *protocol)
{
	struct conn *c = r->conn;
	char head[320];
	int n = snprintf(
		head, sizeof(head),
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\nX-Request-Id: %s\r\n%s%s%s",
		accept, r->id, protocol != NULL ? "Sec-WebSocket-Protocol: " : "",
		protocol != NULL ? protocol : "", protocol != NULL ? "\r\n" : "");

	r->begun = true;
	r->close = true;
	r->status = 101;
	r->length = -1;
	(void)conn_queue(c, head, (size_t)n);
	if (r->extra_len > 0)
		(void)conn_queue(c, r->extra, r->extra_len);
	(void)conn_queue(c, "\r\n", 2);
	conn_set_state(c, CONN_RAW, 0);
}

size_t req_queued(const struct req *r)
{
	return r->via != NULL ? 0 : buf_len(&r->conn->out);
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

void req_end(struct req *r)
{
	struct conn *c = r->conn;

	if (r->chunked && !r->head_only)
		(void)conn_queue(c, "0\r\n\r\n", 5);
	r->gone = NULL;
	conn_finish(c);
	if (!c->in_progress)
		conn_progress(c);
}

void req_abort(struct req *r)
{
	static const char body[] =
		"{\"error\":{\"code\":\"no_memory\",\"message\":\"out of memory\"}}";

	if (r->via != NULL) {
		r->via->reply(r, 503, body, sizeof(body) - 1);
		return;
	}
	r->gone = NULL;
	r->conn->peer_gone = true;
	if (!r->conn->in_progress)
		conn_close(r->conn);
}

void req_reply(struct req *r, int status, const char *type, const void *body, size_t n)
{
	struct conn *c = r->conn;
	bool was;

	if (r->via != NULL) {
		r->via->reply(r, status, body, n);
		return;
	}
	was = c->in_progress;
	c->in_progress = true; /* head, body and end in one go */
	req_begin(r, status, type, (int64_t)n);
	(void)req_write(r, body, n);
	req_end(r);
	c->in_progress = was;
	if (!was)
		conn_progress(c);
}

void req_json(struct req *r, int status, struct json *j)
{
	if (j->failed)
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
	else
		req_reply(r, status, "application/json", j->buf, j->len);
	json_done(j);
}
