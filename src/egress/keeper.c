// SPDX-License-Identifier: Apache-2.0
/* What the keeper says, and is told. It is trusted with where listeners come from; policies have come from a gate, and are read as such. */
#include "egress/tunnel.h"

#include "base/own.h"
#include "wire/msg.h"
#include "wire/ops.h"

#include <string.h>

static int take_box(struct egress *e, struct chan_msg *m, struct msg_in *in)
{
	uint8_t there = msg_get_u8(in);
	int fds[EGRESS_FDS], r;
	unsigned int n = 0;
	struct net_figures f;

	net_figures_get(in, &f);
	for (unsigned int i = 0; i < EGRESS_FDS; i++)
		fds[i] = (there & 1u << i) != 0 && n < m->nfds ? m->fds[n++] : -1;
	if (msg_end(in) < 0 || n != m->nfds)
		return -EPROTO;
	r = ebox_set(e, &f, fds);
	if (r == 0)
		m->nfds = 0;
	return r;
}

/* Those that could not be sent before. */
static void flush(struct egress *e)
{
	while (e->nanswers > 0) {
		uint8_t body[4];
		struct msg_out out;
		int r;

		msg_out_init(&out, body, sizeof(body));
		msg_put_u32(&out, (uint32_t)-e->answers[0].result);
		r = chan_send(e->keeper.fd, EGRESS_DONE, e->answers[0].request, body, out.len, NULL,
			      0);
		if (r == -EAGAIN)
			break;
		if (r < 0)
			e->loop.stop = true;
		e->nanswers--;
		(void)memmove(e->answers, e->answers + 1, e->nanswers * sizeof(e->answers[0]));
	}
	loop_change(&e->loop, &e->keeper, e->nanswers > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* A keeper that is busy hears of it later: what it asks is bounded by how many boxes it has, and it asks one thing at a time of each. */
static void answer(struct egress *e, uint64_t request, int r)
{
	if (e->nanswers == ANSWERS_MAX) {
		e->loop.stop = true;
		return;
	}
	e->answers[e->nanswers].request = request;
	e->answers[e->nanswers++].result = r;
	flush(e);
}

static void take(struct egress *e, struct chan_msg *m)
{
	struct msg_in in;
	struct err err;
	uint64_t id;

	msg_in_init(&in, m->body, m->len);
	switch (m->type) {
	case EVENT_PING:
		(void)chan_send(e->keeper.fd, EVENT_PING, 0, NULL, 0, NULL, 0);
		break;
	case EGRESS_BOX:
		answer(e, m->request, take_box(e, m, &in));
		break;
	case EGRESS_POLICY:
		id = msg_get_u64(&in);
		answer(e, m->request,
		       in.failed ? -EPROTO : ebox_policy(e, id, m->body + in.at, m->len - in.at));
		break;
	case EGRESS_END:
		ebox_end(e, msg_get_u64(&in));
		break;
	case EGRESS_SECRETS: /* those that cannot be read leave what was there */
		if (m->nfds == 1 && secrets_read(e, m->fds[0], &err) == 0)
			eboxes_secrets(e);
		break;
	default:
		break;
	}
	chan_msg_close(m);
}

static void on_keeper(void *arg, uint32_t events)
{
	static struct chan_msg m;
	struct egress *e = arg;
	int r = chan_recv(e->keeper.fd, &m);

	if ((events & EPOLLOUT) != 0)
		flush(e);
	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0)
		e->loop.stop = true;
	else
		take(e, &m);
}

int keeper_start(struct egress *e, int fd)
{
	return loop_watch(&e->loop, &e->keeper, fd, EPOLLIN, on_keeper, e);
}

/* A keeper that is busy misses some, and so does everybody when boxes do nothing else: there is no end to what hostile ones can have refused. */
void keeper_tell(struct egress *e, const struct egress_record *r)
{
	uint8_t body[NET_NAME + 128];
	ptrdiff_t n = egress_record_encode(r, body, sizeof(body));

	if (n > 0 && bucket_take(&e->records, e->loop.now_us, RECORDS_A_SECOND, RECORDS_AT_ONCE))
		(void)chan_send(e->keeper.fd, EGRESS_RECORD, 0, body, (size_t)n, NULL, 0);
}
