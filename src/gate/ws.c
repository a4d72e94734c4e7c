// SPDX-License-Identifier: Apache-2.0
#include "gate/ws.h"

#include "base/base64.h"
#include "base/own.h"
#include "gate/gate.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <wslay/wslay.h>

enum { PING_US = 30 * 1000 * 1000 };

struct ws {
	struct req *r; /* NULL: the connection is gone */
	struct gate *g;
	wslay_event_context_ptr ctx;
	const struct ws_ops *ops;
	void *arg;
	const char *in; /* being given to wslay */
	size_t in_len;
	struct timer ping;
	bool answered; /* something came since the last ping */
	bool busy;     /* wslay is on the stack */
	bool closing, over;
	uint16_t code; /* of a close that comes behind what was said before it; 0: none */
	char why[124];
	uint64_t written, sent; /* when it ended */
	struct deferred deferred;
};

static void ws_free(void *arg)
{
	struct ws *w = arg;

	wslay_event_context_free(w->ctx);
	free(w);
}

/* The connection is not ours any more. */
static void note_end(struct ws *w)
{
	w->written = ws_written(w);
	w->sent = ws_sent(w);
	w->r = NULL;
}

/* The connection is gone, or is to go. */
static void over(struct ws *w)
{
	struct req *r = w->r;

	if (w->over)
		return;
	w->over = true;
	w->in_len = 0;
	timer_clear(&w->g->loop, &w->ping);
	note_end(w);
	if (r != NULL) {
		r->gone = NULL;
		r->take_body = NULL;
		req_end(r);
	}
	w->ops->closed(w->arg);
	loop_defer(&w->g->loop, &w->deferred, ws_free, w);
}

/* --- wslay's callbacks -------------------------------------------------------------------------- */

static ssize_t on_recv(wslay_event_context_ptr ctx, uint8_t *buf, size_t n, int flags, void *arg)
{
	struct ws *w = arg;

	(void)flags;
	if (w->in_len == 0) {
		wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	if (n > w->in_len)
		n = w->in_len;
	(void)memcpy(buf, w->in, n);
	w->in += n;
	w->in_len -= n;
	return (ssize_t)n;
}

static ssize_t on_send(wslay_event_context_ptr ctx, const uint8_t *p, size_t n, int flags,
		       void *arg)
{
	struct ws *w = arg;

	(void)flags;
	if (w->r == NULL || req_write(w->r, p, n) < 0) {
		wslay_event_set_error(ctx, WSLAY_ERR_CALLBACK_FAILURE);
		return -1;
	}
	return (ssize_t)n;
}

static void on_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg *m,
		       void *arg)
{
	static const uint8_t nothing[1];
	struct ws *w = arg;

	(void)ctx;
	if (!wslay_is_ctrl_frame(m->opcode) && !w->closing)
		w->ops->message(w->arg, m->opcode == WSLAY_BINARY_FRAME,
				m->msg != NULL ? m->msg : nothing, m->msg_length);
}

/* Send what wslay has; end what is over. */
static void push(struct ws *w)
{
	int rc;

	if (w->busy || w->over)
		return;
	w->busy = true;
	rc = wslay_event_send(w->ctx);
	if (rc == 0 && w->code != 0) { /* wslay would send it first */
		rc = wslay_event_queue_close(w->ctx, w->code, (const uint8_t *)w->why,
					     strlen(w->why));
		w->code = 0;
		if (rc == 0)
			rc = wslay_event_send(w->ctx);
	}
	w->busy = false;
	if (rc != 0 || (!wslay_event_want_read(w->ctx) && !wslay_event_want_write(w->ctx)) ||
	    (wslay_event_get_close_sent(w->ctx) && wslay_event_get_close_received(w->ctx)))
		over(w);
}

/* --- the connection ------------------------------------------------------------------------------- */

static ptrdiff_t take_bytes(struct req *r, const char *p, size_t n)
{
	struct ws *w = r->work;
	int rc;

	w->answered = true;
	w->in = p;
	w->in_len = n;
	w->busy = true;
	rc = wslay_event_recv(w->ctx);
	w->busy = false;
	if (rc != 0)
		over(w);
	else
		push(w);
	return (ptrdiff_t)n;
}

static void on_gone(struct req *r)
{
	struct ws *w = r->work;

	note_end(w);
	over(w);
}

static void on_drained(struct req *r)
{
	struct ws *w = r->work;

	if (w->ops->drained != NULL && !w->over)
		w->ops->drained(w->arg);
}

static void on_stop(struct req *r)
{
	ws_close(r->work, 1001, "the server is being stopped");
}

static void on_ping(void *arg)
{
	struct ws *w = arg;
	struct wslay_event_msg ping = { .opcode = WSLAY_PING };

	if (!w->answered || wslay_event_queue_msg(w->ctx, &ping) != 0) {
		over(w);
		return;
	}
	w->answered = false;
	(void)timer_set(&w->g->loop, &w->ping, w->g->loop.now_us + PING_US, on_ping, w);
	push(w);
}

int ws_accept_key(struct http_slice key, char text[WS_ACCEPT])
{
	static const char fixed[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	unsigned char both[24 + sizeof(fixed)], hash[EVP_MAX_MD_SIZE];
	unsigned int n = 0;

	if (key.n != 24)
		return -EINVAL;
	(void)memcpy(both, key.p, 24);
	(void)memcpy(both + 24, fixed, sizeof(fixed) - 1);
	if (EVP_Digest(both, 24 + sizeof(fixed) - 1, hash, &n, EVP_sha1(), NULL) != 1)
		return -EIO;
	text[base64_encode(hash, n, text)] = '\0';
	return 0;
}

struct ws *ws_accept(struct req *r, size_t message_max, const struct ws_ops *ops, void *arg)
{
	return ws_accept_as(r, NULL, message_max, ops, arg);
}

struct ws *ws_accept_as(struct req *r, const char *protocol, size_t message_max,
			const struct ws_ops *ops, void *arg)
{
	const struct wslay_event_callbacks callbacks = {
		.recv_callback = on_recv,
		.send_callback = on_send,
		.on_msg_recv_callback = on_message,
	};
	struct ws *w = calloc(1, sizeof(*w));
	char key[WS_ACCEPT];

	if (w == NULL || ws_accept_key(r->head.ws_key, key) < 0 ||
	    wslay_event_context_server_init(&w->ctx, &callbacks, w) != 0) {
		free(w);
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
		return NULL;
	}
	wslay_event_config_set_max_recv_msg_length(w->ctx, message_max);
	w->r = r;
	w->g = r->g;
	w->ops = ops;
	w->arg = arg;
	w->answered = true;
	r->work = w;
	r->gone = on_gone;
	r->drained = on_drained;
	r->stop = on_stop;
	r->take_body = take_bytes;
	req_upgrade(r, key, protocol);
	(void)timer_set(&w->g->loop, &w->ping, w->g->loop.now_us + PING_US, on_ping, w);
	return w;
}

void ws_send(struct ws *w, bool binary, const void *p, size_t n)
{
	struct wslay_event_msg m = { .opcode = binary ? WSLAY_BINARY_FRAME : WSLAY_TEXT_FRAME,
				     .msg = p,
				     .msg_length = n };

	if (w->over || w->closing)
		return;
	if (wslay_event_queue_msg(w->ctx, &m) != 0)
		over(w);
	else
		push(w);
}

uint64_t ws_written(const struct ws *w)
{
	return w->r != NULL ? req_sent(w->r) : w->written;
}

uint64_t ws_sent(const struct ws *w)
{
	return w->r != NULL ? req_sent(w->r) - req_queued(w->r) : w->sent;
}

size_t ws_queued(const struct ws *w)
{
	return w->r != NULL ? req_queued(w->r) : 0;
}

void ws_close(struct ws *w, uint16_t code, const char *why)
{
	if (w->over || w->closing)
		return;
	w->closing = true;
	w->code = code;
	(void)snprintf(w->why, sizeof(w->why), "%s", why);
	push(w);
}
