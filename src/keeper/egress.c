// SPDX-License-Identifier: Apache-2.0
/*
 * The egress process, a child of ours: started when a box is first to have a network, started again when it dies, told each time what boxes have.
 *
 * Must not: read a policy, wait for it, or give a box to it that has none.
 */
#include "keeper/keeper.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "wire/egressmsg.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>

enum { AGAIN_US = 100 * 1000, LIVED_US = 1000 * 1000, FAILURES_MAX = 3, OUT_MAX = 10000 };

static void close_channel(struct keeper *k)
{
	if (k->egress.fd >= 0)
		(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, k->egress.fd, NULL);
	fd_close(&k->egress.fd);
}

static int start(struct keeper *k, struct err *e)
{
	struct egress_child *x = &k->egress;
	own_fd theirs = -1;
	int pair[2], r;

	if (x->exec_fd < 0)
		return err_set(e, ERR_INPUT, 0, "there is no program for the network of boxes");
	if (x->servant.pid > 0 || clock_us() < x->again_us)
		return err_set(e, ERR_SYS, EAGAIN, "the network of boxes is starting again");
	r = chan_pair(pair);
	if (r < 0)
		return err_set(e, ERR_SYS, -r, "make a channel");
	x->fd = pair[0];
	theirs = pair[1];
	r = servant_spawn(&x->servant, "egress", theirs, /* peer= */ -1, x->exec_fd,
			  ids_egress(&k->ids, k->instance.slot));
	if (r < 0) {
		fd_close(&x->fd);
		return err_set(e, ERR_SYS, -r, "start the network of boxes");
	}
	x->born_us = clock_us();
	(void)io_set_nonblock(x->fd, 1);
	keeper_watch(k, x->fd, WATCH_EGRESS);
	return 0;
}

/* --- secrets ---------------------------------------------------------------------------------------- */

int egress_secrets_argument(struct keeper *k, const char *text, struct err *e)
{
	struct servant *s = &k->egress.servant;
	uint64_t fd;

	if (str_to_u64(text, INT_MAX, &fd) < 0 || fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_set(e, ERR_USAGE, 0, "descriptor '%s' of the network of boxes", text);
	k->egress.secrets_fd = (int)fd;
	s->pass[s->npass++] = (int)fd;
	s->args[s->nargs++] = "secrets";
	return 0;
}

/* One that cannot be told them has to be another one. */
void egress_secrets(struct keeper *k, int fd)
{
	struct egress_child *x = &k->egress;

	if (x->secrets_fd < 0 || dup3(fd, x->secrets_fd, O_CLOEXEC) < 0)
		return;
	if (x->fd >= 0 && chan_send(x->fd, EGRESS_SECRETS, 0, NULL, 0, &fd, 1) < 0)
		servant_end(&x->servant);
}

/* --- boxes ------------------------------------------------------------------------------------------ */

static int send_box(struct keeper *k, const struct net_figures *f, const int fds[EGRESS_FDS])
{
	int there[EGRESS_FDS];
	unsigned int n = 0;
	uint8_t body[8 + NET_FIGURES_BYTES], bits = 0;
	struct msg_out m;

	for (unsigned int i = 0; i < EGRESS_FDS; i++)
		if (fds[i] >= 0) {
			there[n++] = fds[i];
			bits |= (uint8_t)(1u << i);
		}
	msg_out_init(&m, body, sizeof(body));
	msg_put_u8(&m, bits);
	net_figures_put(&m, f);
	return chan_send(k->egress.fd, EGRESS_BOX, 0, body, m.len, there, n);
}

int egress_tell(struct keeper *k, const struct net_figures *f, const int fds[EGRESS_FDS],
		const uint8_t *policy, size_t n, struct err *e)
{
	static uint8_t body[8 + NET_POLICY_BYTES];
	struct msg_out m;
	int r = 0;

	if (k->egress.fd < 0) {
		if (start(k, e) < 0)
			return -1;
		/* It knows nobody: all of them, this one among them. */
		return egress_boxes(k);
	}
	if (fds != NULL)
		r = send_box(k, f, fds);
	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, f->box);
	(void)memcpy(body + m.len, policy, n);
	if (r == 0)
		r = chan_send(k->egress.fd, EGRESS_POLICY, f->box, body, m.len + n, NULL, 0);
	return r < 0 ? err_set(e, ERR_SYS, -r, "tell the network of boxes") : 0;
}

int egress_boxes(struct keeper *k)
{
	for (unsigned int i = 0; i < k->nboxes; i++)
		if (k->boxes[i].state == BOX_READY && boxnet_tell_again(k, &k->boxes[i]) < 0)
			return -1;
	return 0;
}

void egress_forget(struct keeper *k, uint64_t box)
{
	uint8_t body[8];
	struct msg_out m;

	if (k->egress.fd < 0)
		return;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, box);
	(void)chan_send(k->egress.fd, EGRESS_END, 0, body, m.len, NULL, 0);
}

/* The answer to a policy; the number of the request is the box's. */
static void take_done(struct keeper *k, const struct chan_msg *m)
{
	struct box *b = m->request != 0 ? box_find(k, m->request) : NULL;
	struct msg_in in;
	uint32_t error;

	msg_in_init(&in, m->body, m->len);
	error = msg_get_u32(&in);
	if (b != NULL && msg_end(&in) == 0)
		boxnet_done(k, b, (int)error);
}

/* Kept for whoever asks, and for the next egress; a gate is told. Of boxes that are ending, too. */
static void take_figures(struct keeper *k, const struct chan_msg *m)
{
	struct net_figures f;
	struct msg_in in;

	msg_in_init(&in, m->body, m->len);
	while (in.at < m->len && !in.failed) {
		net_figures_get(&in, &f);
		for (unsigned int i = 0; i < k->nboxes && !in.failed; i++)
			if (k->boxes[i].state != BOX_FREE && k->boxes[i].id == f.box)
				k->boxes[i].net_figures = f;
	}
	if (!in.failed)
		ops_mention(k, EVENT_NET_FIGURES, m->body, m->len);
}

void egress_event(struct keeper *k)
{
	static struct chan_msg m;
	int r = k->egress.fd < 0 ? -EAGAIN : chan_recv(k->egress.fd, &m);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0) {
		close_channel(k);
		servant_end(&k->egress.servant);
		return;
	}
	k->egress.servant.asked = false;
	if (m.type == EGRESS_DONE && m.nfds == 0)
		take_done(k, &m);
	else if (m.type == EGRESS_RECORD && m.nfds == 0)
		ops_mention(k, EVENT_NET, m.body, m.len);
	else if (m.type == EGRESS_FIGURES && m.nfds == 0)
		take_figures(k, &m);
	chan_msg_close(&m);
}

void egress_hear_out(struct keeper *k)
{
	struct pollfd p = { .fd = k->egress.fd, .events = POLLIN };

	for (unsigned int i = 0; i < OUT_MAX && p.fd >= 0 && poll(&p, 1, 0) > 0; i++) {
		egress_event(k);
		p.fd = k->egress.fd;
	}
}

bool egress_reaped(struct keeper *k, pid_t pid, int status)
{
	struct egress_child *x = &k->egress;

	if (x->servant.pid != pid || pid <= 0)
		return false;
	x->servant.pid = 0;
	close_channel(k);
	x->failures = clock_us() - x->born_us < LIVED_US ? x->failures + 1 : 0;
	x->again_us = clock_us() + (x->failures >= FAILURES_MAX ? LIVED_US
				    : x->failures > 0           ? AGAIN_US
								: 0);
	/* Whoever waits is told by the next one, if there is to be one. */
	for (unsigned int i = 0; i < k->nboxes && x->failures >= FAILURES_MAX; i++)
		if (k->boxes[i].state == BOX_READY)
			boxnet_done(k, &k->boxes[i], ECHILD);
	server_lost(k, "egress", status);
	return true;
}

/* Start it again where boxes need it; when to look again. */
uint64_t egress_turn(struct keeper *k)
{
	struct egress_child *x = &k->egress;
	bool wanted = false;
	struct err e;

	if (x->fd >= 0 || x->servant.pid > 0 || x->exec_fd < 0 || x->born_us == 0)
		return UINT64_MAX;
	for (unsigned int i = 0; i < k->nboxes && !wanted; i++)
		wanted = k->boxes[i].state == BOX_READY && k->boxes[i].net != NULL;
	if (!wanted)
		return UINT64_MAX;
	if (clock_us() < x->again_us)
		return x->again_us;
	if (start(k, &e) < 0 || egress_boxes(k) < 0)
		x->again_us = clock_us() + AGAIN_US;
	return x->fd >= 0 ? UINT64_MAX : x->again_us;
}
