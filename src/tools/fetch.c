// SPDX-License-Identifier: Apache-2.0
#include "tools/fetch.h"

#include "base/own.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { READ_SIZE = 65536, OUT_MAX = 80 << 20 };

void fetch_init(struct fetch *x, size_t max)
{
	x->fd = -1;
	x->dialer = NULL;
	x->layer = NULL;
	x->layered = NULL;
	x->wants = 0;
	x->dials = 0;
	x->dialing = x->connecting = x->is_stream = false;
	x->sent = 0;
	x->why[0] = '\0';
	bytes_init(&x->out, OUT_MAX);
	bytes_init(&x->body, max);
	sse_init(&x->sse, max);
	http_answer_init(&x->answer);
}

static void drop_layer(struct fetch *x)
{
	if (x->layered != NULL && x->layer != NULL)
		x->layer->done(x);
	x->layered = NULL;
	x->wants = 0;
}

void fetch_done(struct fetch *x)
{
	if (x->dialing)
		x->dialer->drop(x->dialer, x);
	x->dialing = false;
	drop_layer(x);
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

static int dial(struct fetch *x)
{
	int r;

	drop_layer(x);
	fd_close(&x->fd);
	x->connecting = true;
	x->dialing = false;
	r = x->dialer->dial(x->dialer, x, x->dials++);
	if (r < 0)
		return r;
	x->dialing = x->fd < 0;
	return 0;
}

int fetch_start(struct fetch *x, struct dialer *d, const char *host, bool secure)
{
	int r;

	x->dialer = d;
	x->layer = secure ? d->tls : NULL;
	x->host = host;
	x->dials = 0;
	x->sent = 0;
	if (x->out.failed)
		return failed(x, E2BIG, "send");
	r = dial(x);
	return r < 0 ? failed(x, -r, "connect") : 0;
}

void fetch_dialed(struct fetch *x, int fd)
{
	x->dialing = false;
	x->fd = fd;
}

static int finish_connect(struct fetch *x)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (x->fd < 0)
		error = -x->fd; /* of fetch_dialed() */
	else if (getsockopt(x->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error == 0) {
		x->connecting = false;
		error = x->layer != NULL ? -x->layer->begin(x) : 0;
		return error != 0 ? failed(x, error, "begin TLS") : 0;
	}
	return dial(x) < 0 ? failed(x, error, "connect") : 0;
}

/* --- out and in ----------------------------------------------------------------------------------- */

short fetch_events(const struct fetch *x)
{
	if (x->connecting)
		return POLLOUT;
	if (x->wants != 0)
		return x->wants;
	return (short)(x->sent < x->out.n ? POLLIN | POLLOUT : POLLIN);
}

static ssize_t send_some(struct fetch *x, const void *p, size_t n)
{
	x->wants = 0;
	return x->layer != NULL ? x->layer->send(x, p, n)
				: send(x->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static ssize_t receive_some(struct fetch *x, void *p, size_t n)
{
	return x->layer != NULL ? x->layer->recv(x, p, n) : recv(x->fd, p, n, MSG_DONTWAIT);
}

static int push(struct fetch *x)
{
	while (x->sent < x->out.n) {
		ssize_t n = send_some(x, x->out.p + x->sent, x->out.n - x->sent);

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
	if (x->fd < 0)
		return failed(x, ENOTCONN, "send");
	r = push(x);
	if (r < 0)
		return r;
	if (x->wants == POLLOUT)
		return 0; /* nothing comes before that has gone */
	/* A layer may hold what no poll(2) tells of: it is taken to its end. */
	do {
		n = receive_some(x, buf, sizeof(buf));
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : failed(x, errno, "receive");
		r = n > 0 ? take(x, buf, (size_t)n, fn, arg) : 0;
	} while (n > 0 && r == 0 && x->layer != NULL);
	if (n > 0)
		return r;
	if (http_answer_end(&x->answer))
		return 1;
	return failed(x, ECONNRESET,
		      fetch_has_head(x) ? "the answer ends before its end" : "there is no answer");
}
