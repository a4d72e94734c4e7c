// SPDX-License-Identifier: Apache-2.0
#include "gate/keeper_link.h"

#include "base/io.h"
#include "base/own.h"
#include "gate/gate.h"
#include "wire/msg.h"

#include <string.h>

/* A message that the socket did not take. The keeper always reads; this is for bursts. */
struct link_out {
	struct link_out *next;
	uint16_t type;
	uint64_t request;
	size_t len;
	uint8_t body[];
};

static void lost(struct keeper_link *k)
{
	/* Without the keeper there is nothing to do, and nobody to do it for. */
	loop_unwatch(&k->g->loop, &k->watch);
	k->g->loop.stop = true;
}

static void send_waiting(struct keeper_link *k)
{
	while (k->first != NULL) {
		struct link_out *o = k->first;
		int r = chan_send(k->fd, o->type, o->request, o->body, o->len, NULL, 0);

		if (r == -EAGAIN)
			break;
		if (r < 0) {
			lost(k);
			break;
		}
		k->first = o->next;
		free(o);
	}
	loop_change(&k->g->loop, &k->watch, k->first != NULL ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static int send_later(struct keeper_link *k, uint16_t op, uint64_t request, const void *body,
		      size_t len)
{
	struct link_out *o = malloc(sizeof(*o) + len);

	if (o == NULL)
		return -ENOMEM;
	*o = (struct link_out){ .type = op, .request = request, .len = len };
	if (len > 0)
		(void)memcpy(o->body, body, len);
	if (k->first == NULL)
		k->first = o;
	else
		k->last->next = o;
	k->last = o;
	loop_change(&k->g->loop, &k->watch, EPOLLIN | EPOLLOUT);
	return 0;
}

int keeper_ask(struct keeper_link *k, uint16_t op, const void *body, size_t len, keeper_fn fn,
	       void *arg)
{
	uint64_t request = k->next_request + 1;
	struct link_call *c;
	int r = -EAGAIN;

	if (k->waiting == LINK_CALLS)
		return -EBUSY;
	while (k->calls[request % LINK_CALLS].request != 0)
		request++;
	if (k->first == NULL)
		r = chan_send(k->fd, op, request, body, len, NULL, 0);
	if (r == -EAGAIN)
		r = send_later(k, op, request, body, len);
	if (r < 0)
		return r;
	k->next_request = request;
	c = &k->calls[request % LINK_CALLS];
	*c = (struct link_call){ .request = request, .fn = fn, .arg = arg };
	k->waiting++;
	return 0;
}

int keeper_ask_box(struct keeper_link *k, uint16_t op, uint64_t box, keeper_fn fn, void *arg)
{
	uint8_t body[8];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, box);
	return keeper_ask(k, op, body, m.len, fn, arg);
}

/* Nobody waits for it any more: what came with the answer goes, and a box that it brought is ended. */
static void nobody(void *arg, struct chan_msg *m, const struct err *e)
{
	struct keeper_link *k = arg;
	struct box_info info;

	(void)e;
	if (m == NULL)
		return;
	if (m->nfds == 1 && box_info_decode(m->body, m->len, &info) == 0)
		(void)keeper_ask_box(k, OP_BOX_END, info.box, NULL, NULL);
	chan_msg_close(m);
}

void keeper_forget(struct keeper_link *k, const void *arg)
{
	for (unsigned int i = 0; i < LINK_CALLS && k->waiting > 0; i++)
		if (k->calls[i].request != 0 && k->calls[i].arg == arg) {
			k->calls[i].fn = nobody;
			k->calls[i].arg = k;
		}
}

static void answer(struct keeper_link *k, struct chan_msg *m)
{
	struct link_call *c = &k->calls[m->request % LINK_CALLS];
	struct link_call call = *c;
	struct err e = { 0 };

	if (m->request == 0 || c->request != m->request) {
		chan_msg_close(m);
		return;
	}
	c->request = 0;
	k->waiting--;
	if (call.fn == NULL) {
		chan_msg_close(m);
		return;
	}
	if (m->type == REPLY_OK) {
		call.fn(call.arg, m, NULL);
		return;
	}
	if (failed_decode(m->body, m->len, &e) < 0)
		(void)err_set(&e, ERR_PROTO, 0, "the keeper failed without a reason");
	chan_msg_close(m);
	call.fn(call.arg, NULL, &e);
}

static void on_event(void *arg, uint32_t events)
{
	static struct chan_msg m;
	struct keeper_link *k = arg;

	if ((events & EPOLLOUT) != 0)
		send_waiting(k);
	for (unsigned int i = 0; i < 64 && k->watch.fn != NULL; i++) {
		int r = chan_recv(k->fd, &m);

		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r <= 0) {
			lost(k);
			return;
		}
		if (m.type == REPLY_OK || m.type == REPLY_FAILED)
			answer(k, &m);
		else
			k->event(k->g, &m);
	}
}

int keeper_link_start(struct gate *g, struct keeper_link *k, int fd,
		      void (*event)(struct gate *g, struct chan_msg *m), struct err *e)
{
	int r;

	k->g = g;
	k->fd = fd;
	k->event = event;
	(void)io_set_nonblock(fd, 1);
	r = loop_watch(&g->loop, &k->watch, fd, EPOLLIN, on_event, k);
	return r < 0 ? err_set(e, ERR_SYS, -r, "watch the keeper") : 0;
}
