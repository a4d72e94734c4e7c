// SPDX-License-Identifier: Apache-2.0
#include "cli/ws_client.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/own.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

enum { READ_SIZE = 65536, SILENCE_S = 75 /* a server pings every 30 s */ };

void ws_client_init(struct ws_client *w)
{
	w->fd = -1;
	w->closed = 0;
	w->why[0] = '\0';
	ws_reader_init(&w->in, WS_MESSAGE_MAX);
	bytes_init(&w->out, WS_QUEUE_MAX);
	bytes_init(&w->early, REPLY_MAX);
}

void ws_client_close(struct ws_client *w)
{
	fd_close(&w->fd);
	ws_reader_done(&w->in);
	bytes_done(&w->out);
	bytes_done(&w->early);
}

/* --- the handshake -------------------------------------------------------------------------------- */

static int make_key(char key[WS_KEY])
{
	uint8_t bytes[16];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return -EIO;
	key[base64_encode(bytes, sizeof(bytes), key)] = '\0';
	return 0;
}

static int send_upgrade(const struct client *c, int fd, const char *path, const char *key)
{
	struct bytes b;
	int r;

	bytes_init(&b, 8192);
	client_head(c, &b, "GET", path);
	bytes_printf(&b,
		     "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		     "Sec-WebSocket-Key: %s\r\n\r\n",
		     key);
	r = b.failed ? -E2BIG : client_send(fd, b.p, b.n, 0, CALL_INT);
	bytes_done(&b);
	return r;
}

/* The answer, and what came behind it. */
static int read_upgrade(struct ws_client *w, struct http_answer *a, struct bytes *body,
			const char **why)
{
	static char buf[READ_SIZE];
	uint64_t deadline = clock_us() + CALL_TIMEOUT_MS * US_PER_MS;

	http_answer_init(a);
	while (!a->done) {
		ssize_t n;
		size_t at = 0;
		int r = client_wait(w->fd, POLLIN, deadline, CALL_INT);

		if (r < 0)
			return r;
		n = recv(w->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n < 0)
			return -errno;
		if (n == 0)
			return http_answer_end(a) ? 0 : -ECONNRESET;
		while (at < (size_t)n && !a->done) {
			struct http_slice data;
			ptrdiff_t used = http_answer_feed(a, buf + at, (size_t)n - at, &data, why);

			if (used < 0)
				return -EPROTO;
			bytes_put(body, data.p, data.n);
			at += (size_t)used;
		}
		if (a->status == 101)
			bytes_put(&w->early, buf + at, (size_t)n - at);
	}
	return 0;
}

static bool is_upgraded(const struct http_answer *a, const char key[WS_KEY])
{
	char accept[WS_ACCEPT];

	ws_accept(key, accept);
	return a->status == 101 &&
	       http_slice_is_nocase(http_answer_get(a, "Upgrade"), "websocket") &&
	       http_slice_is(http_answer_get(a, "Sec-WebSocket-Accept"), accept);
}

static int refuse(const struct http_answer *a, struct bytes *body, struct err *e)
{
	struct reply r = { .status = a->status, .body = *body };

	if (r.body.n > 0)
		(void)jsonr_parse(&r.doc, r.body.p, r.body.n, NULL);
	(void)reply_refused(&r, e);
	jsonr_done(&r.doc);
	return -1;
}

int ws_client_open(struct ws_client *w, struct client *c, const char *path, bool *refused,
		   struct err *e)
{
	static struct http_answer a;
	const char *why = "";
	struct bytes body;
	char key[WS_KEY];
	int r;

	*refused = false;
	ws_client_close(w);
	ws_client_init(w);
	w->fd = client_connect(c, CALL_INT, e);
	if (w->fd < 0)
		return -1;
	bytes_init(&body, REPLY_MAX);
	r = make_key(key);
	if (r == 0)
		r = send_upgrade(c, w->fd, path, key);
	if (r == 0)
		r = read_upgrade(w, &a, &body, &why);
	w->heard_us = clock_us();
	if (r == 0 && is_upgraded(&a, key)) {
		bytes_done(&body);
		return 0;
	}
	*refused = r == 0 || r == -EPROTO;
	if (r == 0)
		r = refuse(&a, &body, e);
	else if (r == -EPROTO)
		r = err_set(e, ERR_PROTO, 0, "what answers at %s is no glovebox: %s", c->url.shown,
			    why);
	else
		r = err_set(e, ERR_SYS, -r, "ask %s", c->url.shown);
	bytes_done(&body);
	ws_client_close(w);
	return r;
}

/* --- messages ------------------------------------------------------------------------------------- */

int ws_client_send(struct ws_client *w, enum ws_type type, const void *p, size_t n)
{
	uint8_t head[WS_HEAD_MAX], mask[4] = { 0 };
	size_t at = w->out.n, len;

	(void)!getrandom(mask, sizeof(mask), 0);
	len = ws_head(head, type, n, mask);
	if (len + n > w->out.max - w->out.n)
		return -ENOBUFS;
	bytes_put(&w->out, head, len);
	bytes_put(&w->out, p, n);
	if (w->out.failed)
		return -ENOMEM;
	ws_mask((uint8_t *)w->out.p + at + len, n, mask);
	return 0;
}

short ws_client_events(const struct ws_client *w)
{
	return (short)(POLLIN | (w->out.n > 0 ? POLLOUT : 0));
}

bool ws_client_has_early(const struct ws_client *w)
{
	return w->early.n > 0;
}

static int flush(struct ws_client *w)
{
	ssize_t n;

	if (w->out.n == 0)
		return 0;
	n = send(w->fd, w->out.p, w->out.n, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	bytes_splice(&w->out, 0, (size_t)n, "", 0);
	return 0;
}

static void take_close(struct ws_client *w, const struct ws_message *m)
{
	const char *why;
	size_t n;

	w->closed = ws_close_code(m, &why, &n);
	(void)snprintf(w->why, sizeof(w->why), "%.*s", (int)n, why);
	(void)ws_client_send(w, WS_CLOSE, m->p, m->n < 2 ? 0 : 2);
	(void)flush(w);
}

static int take(struct ws_client *w, const uint8_t *p, size_t n,
		void (*fn)(void *arg, const struct ws_message *m), void *arg)
{
	for (size_t at = 0; at < n && w->closed == 0;) {
		struct ws_message m;
		ptrdiff_t used = ws_read(&w->in, p + at, n - at, &m);

		if (used < 0)
			return (int)used;
		at += (size_t)used;
		if (m.type == WS_TEXT || m.type == WS_BINARY)
			fn(arg, &m);
		else if (m.type == WS_PING)
			(void)ws_client_send(w, WS_PONG, m.p, m.n);
		else if (m.type == WS_CLOSE)
			take_close(w, &m);
	}
	return 0;
}

int ws_client_step(struct ws_client *w, void (*fn)(void *arg, const struct ws_message *m),
		   void *arg)
{
	static uint8_t buf[READ_SIZE];
	int r = flush(w);
	ssize_t n;

	if (r < 0)
		return r;
	if (w->early.n > 0) {
		r = take(w, (const uint8_t *)w->early.p, w->early.n, fn, arg);
		bytes_clear(&w->early);
		return r < 0 ? r : w->closed == 0;
	}
	n = recv(w->fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return -errno;
	if (n == 0)
		return -ECONNRESET;
	if (n < 0)
		return clock_us() - w->heard_us > SILENCE_S * US_PER_S ? -ETIMEDOUT : 1;
	w->heard_us = clock_us();
	r = take(w, buf, (size_t)n, fn, arg);
	if (r == 0)
		r = flush(w);
	return r < 0 ? r : w->closed == 0;
}
