// SPDX-License-Identifier: Apache-2.0
/*
 * The network of a box, put into force: BOX_NET.
 *
 * A process of ours enters the box's network namespace, makes there what is missing (routes; the first time also the packet filter and the listeners), sends the listeners
 * back and ends. Then egress is told: the listeners, and the policy, which is bytes to us. Who asked is answered when egress says that it is in
 * force. What a box has is kept here for the next egress.
 *
 * Should: leave a box without a way out when any of it fails.
 * Must not: wait for that process, or for egress.
 */
#include "keeper/keeper.h"
#include "keeper/net.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "wire/msg.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

/* What is asked for, and was there before; of a box that may have a network. */
struct boxnet {
	int ns_fd;
	int fd[EGRESS_FDS];
	bool prepared;
	struct net_route *routes;
	unsigned int nroutes;
	uint8_t *policy;
	size_t policy_len;
	/* While it changes: */
	uint64_t request; /* who is to be answered; 0: nobody */
	int helper_fd;    /* -1: it does not */
	pid_t helper;
	struct net_route *next;
	unsigned int nnext;
};

enum { NET_ANSWER = 1 };

_Static_assert((int)NET_FD_TCP4 == EGRESS_TCP4 && (int)NET_FD_TCP6 == EGRESS_TCP6 &&
		       (int)NET_FD_PROXY == EGRESS_PROXY && (int)NET_FD_DNS == EGRESS_DNS &&
		       (int)NET_FD_DNS_TCP == EGRESS_DNS_TCP && (int)NET_FD_MAX == EGRESS_LISTENERS,
	       "egress has the listeners of a box in this order");

struct boxnet *boxnet_new(int ns_fd, int trust_fd)
{
	struct boxnet *n = calloc(1, sizeof(*n));

	if (n == NULL) {
		(void)close(ns_fd);
		(void)close(trust_fd);
		return NULL;
	}
	n->ns_fd = ns_fd;
	n->helper_fd = -1;
	for (unsigned int i = 0; i < EGRESS_FDS; i++)
		n->fd[i] = -1;
	n->fd[EGRESS_TRUST] = trust_fd;
	return n;
}

static void stop_watching(struct keeper *k, struct boxnet *n)
{
	if (n->helper_fd >= 0)
		(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, n->helper_fd, NULL);
	fd_close(&n->helper_fd);
}

static void answer(struct keeper *k, struct boxnet *n, const struct err *e)
{
	uint64_t request = n->request;

	n->request = 0;
	if (request != 0 && e != NULL)
		ops_failed(k, request, e);
	else if (request != 0)
		ops_ok(k, request, NULL, 0, NULL);
}

void boxnet_free(struct keeper *k, struct box *b)
{
	struct boxnet *n = b->net;
	struct err e;

	if (n == NULL)
		return;
	b->net = NULL;
	(void)err_set(&e, ERR_INPUT, 0, "there is no such box");
	answer(k, n, &e);
	stop_watching(k, n);
	if (n->policy != NULL)
		egress_forget(k, b->id);
	fd_close(&n->ns_fd);
	for (unsigned int i = 0; i < EGRESS_FDS; i++)
		fd_close(&n->fd[i]);
	free(n->routes);
	free(n->next);
	free(n->policy);
	free(n);
}

/* --- in the box's namespace ------------------------------------------------------------------------- */

static _Noreturn void help(const struct boxnet *n, int channel)
{
	const char *what = "enter the network of a box";
	int fds[EGRESS_LISTENERS], there[EGRESS_LISTENERS], r = 0;
	unsigned int nfds = 0;
	uint8_t body[128];
	struct msg_out m;
	uint8_t bits = 0;

	for (unsigned int i = 0; i < EGRESS_LISTENERS; i++)
		fds[i] = -1;
	if (setns(n->ns_fd, CLONE_NEWNET) < 0)
		r = -errno;
	if (r == 0 && !n->prepared)
		r = net_prepare(fds, &what);
	if (r == 0) {
		what = "set routes";
		r = net_routes(n->routes, n->nroutes, n->next, n->nnext);
	}
	for (unsigned int i = 0; i < EGRESS_LISTENERS; i++)
		if (fds[i] >= 0) {
			there[nfds++] = fds[i];
			bits |= (uint8_t)(1u << i);
		}
	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, (uint32_t)-r);
	msg_put_u8(&m, bits);
	msg_put_str(&m, what);
	(void)chan_send(channel, NET_ANSWER, 0, body, m.len, there, nfds);
	_exit(0);
}

static int start_helper(struct keeper *k, struct box *b, struct err *e)
{
	struct boxnet *n = b->net;
	own_fd theirs = -1;
	int pair[2], r = chan_pair(pair);

	if (r < 0)
		return err_set(e, ERR_SYS, -r, "make a channel");
	n->helper_fd = pair[0];
	theirs = pair[1];
	n->helper = fork();
	if (n->helper == 0)
		help(n, theirs);
	if (n->helper < 0) {
		fd_close(&n->helper_fd);
		return err_set(e, ERR_SYS, errno, "start a process for the network of a box");
	}
	(void)io_set_nonblock(n->helper_fd, 1);
	keeper_watch(k, n->helper_fd, WATCH_NETS + b->number);
	return 0;
}

/* --- one after the other ---------------------------------------------------------------------------- */

int boxnet_set(struct keeper *k, struct box *b, const struct box_net *q, uint64_t request,
	       struct err *e)
{
	struct boxnet *n = b->net;
	uint8_t *policy;

	if (n == NULL)
		return err_set(e, ERR_INPUT, 0, "this box was made without a network");
	if (n->request != 0 || n->helper_fd >= 0)
		return err_set(e, ERR_INPUT, EBUSY, "the network of this box is changing already");
	policy = malloc(q->policy_len + 1);
	free(n->next); /* of one that failed */
	n->next = malloc((q->nroutes + 1) * sizeof(*n->next));
	if (policy == NULL || n->next == NULL) {
		free(policy);
		return err_set(e, ERR_SYS, ENOMEM, "keep the network of a box");
	}
	(void)memcpy(policy, q->policy, q->policy_len);
	(void)memcpy(n->next, q->routes, q->nroutes * sizeof(*n->next));
	n->nnext = q->nroutes;
	free(n->policy);
	n->policy = policy;
	n->policy_len = q->policy_len;
	n->request = request;
	if (start_helper(k, b, e) < 0) {
		n->request = 0;
		return -1;
	}
	return 0;
}

static int take_answer(struct boxnet *n, struct chan_msg *m, struct err *e)
{
	char what[96];
	struct msg_in in;
	uint32_t error;
	uint8_t there;
	unsigned int at = 0;

	msg_in_init(&in, m->body, m->len);
	error = msg_get_u32(&in);
	there = msg_get_u8(&in);
	(void)msg_get_str(&in, what, sizeof(what));
	if (msg_end(&in) < 0)
		return err_set(e, ERR_SYS, 0, "set up the network of a box");
	if (error != 0)
		return err_set(e, ERR_SYS, (int)error, "set up the network of a box: %s", what);
	for (unsigned int i = 0; i < EGRESS_LISTENERS && !n->prepared; i++)
		if ((there & 1u << i) != 0 && at < m->nfds)
			n->fd[i] = m->fds[at++];
	if (at > 0)
		m->nfds = 0;
	return 0;
}

/* The process has answered, or ended without a word. */
void boxnet_event(struct keeper *k, struct box *b)
{
	static struct chan_msg m;
	struct boxnet *n = b->net;
	int r = chan_recv(n->helper_fd, &m);
	bool first = !n->prepared;
	struct err e;

	if (r == -EAGAIN || r == -EINTR)
		return;
	stop_watching(k, n);
	if (r <= 0) {
		(void)err_set(&e, ERR_SYS, 0, "set up the network of a box: nobody answers");
		answer(k, n, &e);
		return;
	}
	r = take_answer(n, &m, &e);
	chan_msg_close(&m);
	if (r == 0) {
		n->prepared = true;
		free(n->routes);
		n->routes = n->next;
		n->nroutes = n->nnext;
		n->next = NULL;
		b->net_figures.box = b->id;
		r = egress_tell(k, &b->net_figures, first ? n->fd : NULL, n->policy, n->policy_len,
				&e);
	}
	if (r < 0)
		answer(k, n, &e);
}

/* Egress has it in force, or does not take it. */
void boxnet_done(struct keeper *k, struct box *b, int error)
{
	struct err e;

	if (b->net == NULL)
		return;
	if (error != 0)
		(void)err_set(&e, ERR_SYS, error, "put the rules of a box into force");
	answer(k, b->net, error != 0 ? &e : NULL);
}

/* For another egress. */
int boxnet_tell_again(struct keeper *k, const struct box *b)
{
	struct err e;

	if (b->net == NULL || !b->net->prepared)
		return 0;
	return egress_tell(k, &b->net_figures, b->net->fd, b->net->policy, b->net->policy_len, &e);
}

const uint8_t *boxnet_policy(const struct box *b, size_t *ret_n)
{
	*ret_n = b->net != NULL ? b->net->policy_len : 0;
	return b->net != NULL ? b->net->policy : NULL;
}
