// SPDX-License-Identifier: Apache-2.0
#include "cli/toolway_fetch.h"

#include "base/own.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { READ_SIZE = 65536, OUT_MAX = 80 << 20 };

void fetch_init(struct fetch *x, size_t max)
{
	x->fd = -1;
	x->at = NULL;
	x->connecting = x->is_stream = false;
	x->sent = 0;
	x->why[0] = '\0';
	bytes_init(&x->out, OUT_MAX);
	bytes_init(&x->body, max);
	sse_init(&x->sse, max);
	http_answer_init(&x->answer);
}

void fetch_done(struct fetch *x)
{
	fd_close(&x->fd);
	bytes_done(&x->out);
	bytes_done(&x->body);
	sse_done(&x->sse);
}

static int failed(struct fetch *x, int error, const char *what)
{
	(void)snprintf(x->why, sizeof(x->why), "%s%s%s", what, error != EPROTO ? ": " : "",
		       error != EPROTO ? strerror(error) : "");
	return -error;
}

/* --- connecting ----------------------------------------------------------------------------------- */

/* The next address that can be tried. */
static int try_next(struct fetch *x)
{
	int error = ECONNREFUSED, one = 1;

	for (; x->at != NULL; x->at = x->at->ai_next) {
		fd_close(&x->fd);
		x->fd = socket(x->at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (x->fd < 0) {
			error = errno;
			continue;
		}
		(void)setsockopt(x->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		x->connecting = true;
		if (connect(x->fd, x->at->ai_addr, x->at->ai_addrlen) == 0 || errno == EINPROGRESS)
			return 0;
		error = errno;
	}
	fd_close(&x->fd);
	return failed(x, error, "connect");
}

int fetch_start(struct fetch *x, const struct addrinfo *list)
{
	x->at = list;
	x->sent = 0;
	if (x->out.failed)
		return failed(x, E2BIG, "send");
	return try_next(x);
}

static int finish_connect(struct fetch *x)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error == 0) {
		x->connecting = false;
		return 0;
	}
	x->at = x->at->ai_next;
	return x->at != NULL ? try_next(x) : failed(x, error, "connect");
}

/* --- out and in ----------------------------------------------------------------------------------- */

short fetch_events(const struct fetch *x)
{
	if (x->connecting)
		return POLLOUT;
	return (short)(x->sent < x->out.n ? POLLIN | POLLOUT : POLLIN);
}

static int push(struct fetch *x)
{
	while (x->sent < x->out.n) {
		ssize_t n = send(x->fd, x->out.p + x->sent, x->out.n - x->sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
			x->sent = x->out.n; /* who refuses may have said why */
			return 0;
		}
		if (n < 0)
			return failed(x, errno, "send");
		x->sent += (size_t)n;
	}
	return 0;
}

bool fetch_has_head(const struct fetch *x)
{
	return x->answer.status != 0;
}

bool fetch_is_type(const struct fetch *x, const char *type)
{
	struct http_slice s = http_answer_get(&x->answer, "Content-Type");
	size_t n = strlen(type);

	return s.n >= n && strncasecmp(s.p, type, n) == 0 &&
	       (s.n == n || strchr("; \t", s.p[n]) != NULL);
}

static int take(struct fetch *x, const char *p, size_t n, fetch_event *fn, void *arg)
{
	for (size_t at = 0; at < n && !x->answer.done;) {
		bool had_head = fetch_has_head(x);
		struct http_slice data;
		const char *why = "";
		ptrdiff_t used = http_answer_feed(&x->answer, p + at, n - at, &data, &why);
		int r = 0;

		if (used < 0) {
			(void)failed(x, EPROTO, "what answers speaks no HTTP that can be read");
			return -EPROTO;
		}
		if (!had_head && fetch_has_head(x))
			x->is_stream =
				x->answer.status == 200 && fetch_is_type(x, "text/event-stream");
		if (x->is_stream)
			r = sse_feed(&x->sse, data.p, data.n, fn, arg);
		else
			bytes_put(&x->body, data.p, data.n);
		if (r == -E2BIG || r == -ENOMEM || x->body.failed)
			return failed(x, E2BIG, "the answer");
		if (r != 0)
			return failed(x, ECANCELED, "the answer");
		at += (size_t)used;
	}
	return x->answer.done ? 1 : 0;
}

int fetch_step(struct fetch *x, fetch_event *fn, void *arg)
{
	static char buf[READ_SIZE];
	ssize_t n;
	int r;

	if (x->connecting) {
		r = finish_connect(x);
		if (r < 0 || x->connecting)
			return r;
	}
	r = push(x);
	if (r < 0)
		return r;
	n = recv(x->fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : failed(x, errno, "receive");
	if (n > 0)
		return take(x, buf, (size_t)n, fn, arg);
	if (http_answer_end(&x->answer))
		return 1;
	return failed(x, ECONNRESET,
		      fetch_has_head(x) ? "the answer ends before its end" : "there is no answer");
}
