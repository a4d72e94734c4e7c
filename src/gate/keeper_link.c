// SPDX-License-Identifier: Apache-2.0
#include "gate/keeper_link.h"

#include "wire/msg.h"

int keeper_ask(struct keeper_link *k, uint16_t op, const void *body, size_t len, keeper_fn fn,
	       void *arg)
{
	int64_t r = call_ask(&k->link, op, body, len, -1, (call_fn)fn, arg);

	return r < 0 ? (int)r : 0;
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
	call_redirect(&k->link, arg, (call_fn)nobody, k);
}

static void answer(struct keeper_link *k, struct chan_msg *m)
{
	struct err e = { 0 };
	struct call call;
	keeper_fn fn;

	if (!call_answered(&k->link, m, &call))
		return;
	fn = (keeper_fn)call.fn;
	if (m->type == REPLY_OK) {
		fn(call.arg, m, NULL);
		return;
	}
	if (failed_decode(m->body, m->len, &e) < 0)
		(void)err_set(&e, ERR_PROTO, 0, "the keeper failed without a reason");
	chan_msg_close(m);
	fn(call.arg, NULL, &e);
}

static void received(void *arg, struct chan_msg *m)
{
	struct keeper_link *k = arg;

	if (m->type == REPLY_OK || m->type == REPLY_FAILED)
		answer(k, m);
	else
		k->event(k->link.g, m);
}

int keeper_link_start(struct gate *g, struct keeper_link *k, int fd,
		      void (*event)(struct gate *g, struct chan_msg *m), struct err *e)
{
	k->link = (struct call_link){ .calls = k->calls,
				      .ncalls = LINK_CALLS,
				      .queued_max = SIZE_MAX, /* LINK_CALLS is the bound */
				      .received = received,
				      .arg = k };
	k->event = event;
	return call_start(g, &k->link, fd, "keeper", e);
}
