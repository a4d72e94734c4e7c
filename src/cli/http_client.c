// SPDX-License-Identifier: Apache-2.0
#include "cli/http_client.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/wake.h"

#include "config.gen.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
	HEAD_MAX = 8192,
	READ_SIZE = 65536,
	STALE_S = 5, /* a connection that was idle for longer may be closed at any moment */
};

#define LATE_US (2 * US_PER_S) /* see CALL_LATE */

void client_init(struct client *c, const struct url *url, const char *token)
{
	*c = (struct client){ .url = *url, .fd = -1 };
	(void)snprintf(c->token, sizeof(c->token), "%s", token[0] != '\0' ? token : url->token);
}

void client_done(struct client *c)
{
	fd_close(&c->fd);
}

/* --- waiting -------------------------------------------------------------------------------------- */

static bool is_told_to_end(unsigned int flags, uint64_t since_us)
{
	if ((flags & CALL_NO_INT) != 0)
		return false;
	if (wake_end() != 0 || !wake_is_asked())
		return wake_end() != 0;
	return (flags & CALL_INT) != 0 ||
	       ((flags & CALL_LATE) != 0 && clock_us() - since_us >= LATE_US);
}

int client_wait(int fd, short events, uint64_t deadline_us, unsigned int flags)
{
	bool heard = (flags & CALL_NO_INT) != 0; /* of a signal that does not concern us */
	uint64_t since_us = clock_us();

	for (;;) {
		struct pollfd p[2] = { { .fd = fd, .events = events },
				       { .fd = heard ? -1 : wake_fd(), .events = POLLIN } };
		int n;

		if (is_told_to_end(flags, since_us))
			return -EINTR;
		n = poll(p, 2,
			 heard && (flags & CALL_NO_INT) == 0 ? 50 : clock_poll_ms(deadline_us));
		if (n > 0 && p[0].revents != 0)
			return 0;
		heard |= p[1].revents != 0;
		if (clock_us() >= deadline_us)
			return -ETIMEDOUT;
	}
}

static uint64_t deadline(unsigned int ms)
{
	return clock_us() + (ms != 0 ? ms : CALL_TIMEOUT_MS) * US_PER_MS;
}

int client_send(int fd, const void *p, size_t n, unsigned int timeout_ms, unsigned int flags)
{
	const char *at = p;

	while (n > 0) {
		ssize_t w = send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		int r = 0;

		if (w < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (w < 0)
			r = client_wait(fd, POLLOUT, deadline(timeout_ms), flags);
		if (r < 0)
			return r;
		at += w > 0 ? w : 0;
		n -= w > 0 ? (size_t)w : 0;
	}
	return 0;
}

/* --- connecting ----------------------------------------------------------------------------------- */

static int try_address(const struct sockaddr *a, socklen_t len, unsigned int flags)
{
	own_fd fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, error = 0, r;
	socklen_t size = sizeof(error);

	if (fd < 0)
		return -errno;
	if (connect(fd, a, len) < 0) {
		if (errno != EINPROGRESS)
			return -errno;
		r = client_wait(fd, POLLOUT, deadline(CONNECT_TIMEOUT_MS), flags);
		if (r < 0)
			return r;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0 || error != 0)
			return error != 0 ? -error : -errno;
	}
	if (a->sa_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd_take(&fd);
}

static int connect_tcp(const struct client *c, unsigned int flags, struct err *e)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	char port[8];
	int fd = -ENOENT, r;

	(void)snprintf(port, sizeof(port), "%u", (unsigned int)c->url.port);
	r = getaddrinfo(c->url.host, port, &hints, &list);
	if (r != 0)
		return err_set(e, ERR_INPUT, 0, "there is no host '%s': %s", c->url.host,
			       gai_strerror(r));
	for (const struct addrinfo *a = list; a != NULL && fd < 0 && fd != -EINTR; a = a->ai_next)
		fd = try_address(a->ai_addr, a->ai_addrlen, flags);
	freeaddrinfo(list);
	return fd < 0 ? err_set(e, ERR_SYS, -fd, "connect to %s", c->url.shown) : fd;
}

int client_connect(const struct client *c, unsigned int flags, struct err *e)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd;

	if (c->url.path[0] == '\0')
		return connect_tcp(c, flags, e);
	(void)memcpy(un.sun_path, c->url.path, sizeof(un.sun_path));
	fd = try_address((const struct sockaddr *)&un, sizeof(un), flags);
	return fd < 0 ? err_set(e, ERR_SYS, -fd, "connect to %s", c->url.shown) : fd;
}

/* --- requests ------------------------------------------------------------------------------------- */

void client_head(const struct client *c, struct bytes *b, const char *method, const char *path)
{
	bytes_puts(b, method);
	bytes_puts(b, " ");
	bytes_puts(b, c->url.prefix);
	bytes_puts(b, path);
	bytes_puts(b, " HTTP/1.1\r\nHost: ");
	bytes_puts(b, c->url.authority);
	bytes_puts(b, "\r\nUser-Agent: glovebox/" GLOVEBOX_VERSION "\r\n");
	if (c->token[0] != '\0') {
		bytes_puts(b, "Authorization: Bearer ");
		bytes_puts(b, c->token);
		bytes_puts(b, "\r\n");
	}
}

static int send_request(const struct client *c, int fd, const struct call *q)
{
	struct bytes b;
	int r;

	bytes_init(&b, HEAD_MAX);
	client_head(c, &b, q->method, q->path);
	if (q->key != NULL)
		bytes_printf(&b, "Idempotency-Key: %s\r\n", q->key);
	if (q->after != 0)
		bytes_printf(&b, "Last-Event-ID: %llu\r\n", (unsigned long long)q->after);
	if (q->body != NULL)
		bytes_printf(&b, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
			     q->body->len);
	else if (strcmp(q->method, "GET") != 0)
		bytes_puts(&b, "Content-Length: 0\r\n");
	bytes_puts(&b, "\r\n");
	r = b.failed || (q->body != NULL && q->body->failed) ? -ENOMEM : 0;
	if (r == 0)
		r = client_send(fd, b.p, b.n, q->timeout_ms, q->flags);
	if (r == 0 && q->body != NULL)
		r = client_send(fd, q->body->buf, q->body->len, q->timeout_ms, q->flags);
	bytes_done(&b);
	return r;
}

/* --- answers -------------------------------------------------------------------------------------- */

/* Bytes of the connection: how many, 0 at its end, -errno. */
static ssize_t receive(int fd, char buf[READ_SIZE], unsigned int timeout_ms, unsigned int flags)
{
	for (;;) {
		ssize_t n = recv(fd, buf, READ_SIZE, MSG_DONTWAIT);
		int r;

		if (n >= 0)
			return n;
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
		r = client_wait(fd, POLLIN, deadline(timeout_ms), flags);
		if (r < 0)
			return r;
	}
}

/* Read on until the head is there (of_head) or the whole answer. 0, or -errno; -EPROTO with *why. *any: something came. */
static int read_answer(int fd, const struct call *q, struct http_answer *a, bool of_head,
		       struct bytes *body, bool *any, const char **why)
{
	static char buf[READ_SIZE];

	while (of_head ? a->status == 0 : !a->done) {
		ssize_t n = receive(fd, buf, q->timeout_ms, q->flags);

		if (n < 0)
			return (int)n;
		if (n == 0)
			return http_answer_end(a) ? 0 : -ECONNRESET;
		*any = true;
		for (size_t at = 0; at < (size_t)n && !a->done;) {
			struct http_slice data;
			ptrdiff_t used;

			if (of_head && a->status != 0) { /* whatever it is, it is for later */
				bytes_put(body, buf + at, (size_t)n - at);
				break;
			}
			used = http_answer_feed(a, buf + at, (size_t)n - at, &data, why);
			if (used < 0)
				return -EPROTO;
			bytes_put(body, data.p, data.n);
			at += (size_t)used;
		}
		if (body->failed)
			return -E2BIG;
	}
	return 0;
}

void client_no_nul(char *json, size_t n)
{
	if (memmem(json, n, "\\u0000", 6) == NULL)
		return;
	for (size_t i = 0; i + 1 < n; i++) {
		if (json[i] != '\\')
			continue;
		if (n - i >= 6 && memcmp(json + i, "\\u0000", 6) == 0)
			(void)memcpy(json + i, "\\ufffd", 6);
		i++; /* whatever is escaped */
	}
}

static void take_reply(struct reply *r, const struct http_answer *a, unsigned int flags)
{
	struct http_slice retry = http_answer_get(a, "Retry-After");
	char digits[12];
	uint64_t v = 0;

	r->status = a->status;
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)(retry.n < 10 ? retry.n : 0), retry.p);
	if (str_to_u64(digits, 3600, &v) == 0)
		r->retry_after_s = (unsigned int)v;
	if (r->body.n == 0 || (flags & CALL_TEXT) != 0)
		return;
	client_no_nul(r->body.p, r->body.n);
	(void)jsonr_parse(&r->doc, r->body.p, r->body.n, NULL);
}

static int failed(const struct client *c, int error, const char *why, struct err *e)
{
	if (error == -EPROTO)
		return err_set(e, ERR_PROTO, 0, "what answers at %s is no glovebox: %s",
			       c->url.shown, why);
	return err_set(e, ERR_SYS, -error, "ask %s", c->url.shown);
}

static bool may_repeat(const struct call *q)
{
	return q->key != NULL || strcmp(q->method, "POST") != 0;
}

/* Whether a connection that was idle is still there. */
static bool is_alive(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

static bool is_stale(const struct client *c)
{
	return clock_us() - c->used_us > STALE_S * US_PER_S;
}

int client_call(struct client *c, const struct call *q, struct reply *r, struct err *e)
{
	static struct http_answer a;
	const char *why = "";
	bool kept, any = false;
	int rc;

	*r = (struct reply){ 0 };
	bytes_init(&r->body, REPLY_MAX);
	c->status = 0;
	c->unsure = false;
	if (c->fd >= 0 && (!is_alive(c->fd) || (!may_repeat(q) && is_stale(c))))
		fd_close(&c->fd);
	kept = c->fd >= 0;
	for (;;) {
		if (c->fd < 0)
			c->fd = client_connect(c, q->flags, e);
		if (c->fd < 0)
			return -1;
		http_answer_init(&a);
		c->unsure = true;
		rc = send_request(c, c->fd, q);
		/* Who refuses a body may close before it has all of it, and has said why. */
		if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
			rc = read_answer(c->fd, q, &a, false, &r->body, &any, &why);
		if (rc == 0)
			break;
		fd_close(&c->fd);
		if (!kept || any || !may_repeat(q) || rc == -EINTR || rc == -ETIMEDOUT) {
			reply_free(r);
			return failed(c, rc, why, e);
		}
		kept = false; /* it had been idle, and went at the same moment */
	}
	if (!a.keep_alive)
		fd_close(&c->fd);
	take_reply(r, &a, q->flags);
	c->used_us = clock_us();
	c->status = r->status;
	c->unsure = false;
	return 0;
}

void reply_free(struct reply *r)
{
	jsonr_done(&r->doc);
	bytes_done(&r->body);
}

const struct jsonr_node *reply_root(const struct reply *r)
{
	return r->doc.n > 0 ? jsonr_root(&r->doc) : NULL;
}

/* --- what it says --------------------------------------------------------------------------------- */

const char *node_str(const struct jsonr *d, const struct jsonr_node *object, const char *key)
{
	const struct jsonr_node *n = jsonr_get(d, object, key);

	return n != NULL && n->type == JSONR_STRING ? n->string : "";
}

int64_t node_int(const struct jsonr *d, const struct jsonr_node *object, const char *key,
		 int64_t otherwise)
{
	const struct jsonr_node *n = jsonr_get(d, object, key);

	return n != NULL && n->type == JSONR_INT ? n->integer : otherwise;
}

bool node_bool(const struct jsonr *d, const struct jsonr_node *object, const char *key)
{
	const struct jsonr_node *n = jsonr_get(d, object, key);

	return n != NULL && n->type == JSONR_BOOL && n->boolean;
}

const char *reply_code(const struct reply *r)
{
	return node_str(&r->doc, jsonr_get(&r->doc, reply_root(r), "error"), "code");
}

int reply_refused(const struct reply *r, struct err *e)
{
	const struct jsonr_node *error = jsonr_get(&r->doc, reply_root(r), "error");
	const char *message = node_str(&r->doc, error, "message");
	const char *hint = node_str(&r->doc, error, "hint");
	const char *reason = node_str(&r->doc, error, "reason");

	if (message[0] == '\0')
		return err_set(e, ERR_INPUT, 0, "the server answered with status %d", r->status);
	(void)err_set(e, ERR_INPUT, 0, "%.300s%s%.40s", message, reason[0] != '\0' ? ": " : "",
		      reason);
	if (r->status == 401)
		return err_hint(e, "give one by --token-file FILE or GLOVEBOX_TOKEN");
	if (hint[0] != '\0')
		return err_hint(e, "%.200s", hint);
	return -1;
}

/* --- streams of events ---------------------------------------------------------------------------- */

void stream_init(struct stream *s)
{
	s->fd = -1;
	sse_init(&s->sse, EVENT_MAX);
	bytes_init(&s->early, REPLY_MAX);
}

void stream_close(struct stream *s)
{
	fd_close(&s->fd);
	sse_done(&s->sse);
	bytes_done(&s->early);
}

static bool is_event_stream(const struct http_answer *a)
{
	static const char type[] = "text/event-stream";
	struct http_slice s = http_answer_get(a, "Content-Type");

	return a->status == 200 && s.n >= sizeof(type) - 1 &&
	       memcmp(s.p, type, sizeof(type) - 1) == 0;
}

/* It is no stream: what came with the head is the beginning of the body. */
static int take_other(struct stream *s, const struct call *q, struct reply *r, bool *any,
		      const char **why)
{
	struct http_slice data;
	int rc = 0;

	for (size_t at = 0; at < s->early.n && !s->answer.done && rc >= 0;) {
		ptrdiff_t used =
			http_answer_feed(&s->answer, s->early.p + at, s->early.n - at, &data, why);

		rc = used < 0 ? -EPROTO : 0;
		bytes_put(&r->body, data.p, data.n);
		at += used > 0 ? (size_t)used : 0;
	}
	if (rc == 0)
		rc = read_answer(s->fd, q, &s->answer, false, &r->body, any, why);
	return rc;
}

int stream_open(struct client *c, const struct call *q, struct stream *s, struct reply *r,
		struct err *e)
{
	const char *why = "";
	bool any = false;
	int rc;

	stream_close(s);
	*r = (struct reply){ 0 };
	bytes_init(&r->body, REPLY_MAX);
	s->fd = client_connect(c, q->flags, e);
	if (s->fd < 0)
		return -1;
	http_answer_init(&s->answer);
	rc = send_request(c, s->fd, q);
	if (rc == 0 || rc == -EPIPE || rc == -ECONNRESET)
		rc = read_answer(s->fd, q, &s->answer, true, &s->early, &any, &why);
	s->heard_us = clock_us();
	if (rc == 0 && is_event_stream(&s->answer))
		return 0;
	if (rc == 0)
		rc = take_other(s, q, r, &any, &why);
	if (rc == 0)
		take_reply(r, &s->answer, q->flags);
	stream_close(s);
	return rc == 0 ? 1 : failed(c, rc, why, e);
}

bool stream_has_early(const struct stream *s)
{
	return s->early.n > 0;
}

static int take_events(struct stream *s, const char *p, size_t n,
		       int (*fn)(void *arg, struct sse_event *e), void *arg)
{
	int rc = 0;

	for (size_t at = 0; at < n && !s->answer.done && rc == 0;) {
		struct http_slice data;
		const char *why;
		ptrdiff_t used = http_answer_feed(&s->answer, p + at, n - at, &data, &why);

		if (used < 0)
			return -EPROTO;
		rc = sse_feed(&s->sse, data.p, data.n, fn, arg);
		at += (size_t)used;
	}
	return rc;
}

int stream_step(struct stream *s, int (*fn)(void *arg, struct sse_event *e), void *arg)
{
	static char buf[READ_SIZE];
	ssize_t n;
	int rc = 0;

	if (s->early.n > 0) {
		rc = take_events(s, s->early.p, s->early.n, fn, arg);
		bytes_clear(&s->early);
	} else {
		n = recv(s->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 1 : -errno;
		if (n == 0)
			return http_answer_end(&s->answer) ? 0 : -ECONNRESET;
		s->heard_us = clock_us();
		rc = take_events(s, buf, (size_t)n, fn, arg);
	}
	if (rc != 0)
		return rc;
	return s->answer.done ? 0 : 1;
}
