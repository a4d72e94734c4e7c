// SPDX-License-Identifier: Apache-2.0
/*
 * The way to the other side: a name is looked up, each address it has is asked about, and those that are allowed are tried one after the other.
 *
 * What was looked up is remembered for as long as the answer says, per box: nobody learns from how long it takes what another box has asked for.
 */
#include "egress/egress.h"

#include "base/own.h"

#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

static void on_found(struct lookup *l, const struct net_address *found, unsigned int n,
		     uint64_t ttl_us);

static void on_late(void *arg)
{
	dial_failed(arg, ETIMEDOUT);
}

static void fail(struct econn *c, int error, enum egress_why why)
{
	if (c->entry == ENTRY_PROXY)
		(void)proxy_tell(c, error);
	conn_end(c, why);
}

/* Begin with the next one. -errno: it cannot even be begun. */
static int try_next(struct econn *c)
{
	const struct net_address *a = &c->tries[c->tried];
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(c->port) };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(c->port) };
	struct loop *l = &c->box->e->loop;
	const int one = 1;
	uint64_t until = c->dial_until_us;
	int r;

	c->address = *a;
	c->server_fd =
		socket(a->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->server_fd < 0)
		return -errno;
	if (!bounds_may_go_on(c->box->e, c->server_fd))
		return -EMFILE;
	(void)setsockopt(c->server_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)memcpy(&v6.sin6_addr, a->a, sizeof(v6.sin6_addr));
	(void)memcpy(&v4.sin_addr, a->a, sizeof(v4.sin_addr));
	r = a->v6 ? connect(c->server_fd, (const struct sockaddr *)&v6, sizeof(v6))
		  : connect(c->server_fd, (const struct sockaddr *)&v4, sizeof(v4));
	if (r < 0 && errno != EINPROGRESS)
		return -errno;
	r = loop_watch(l, &c->server, c->server_fd, EPOLLOUT, conn_on_server, c);
	if (r < 0)
		return r;
	if (c->tried + 1 < c->ntries && l->now_us + TRY_US < until)
		until = l->now_us + TRY_US;
	return timer_set(l, &c->timer, until, on_late, c);
}

static void close_try(struct econn *c)
{
	loop_unwatch(&c->box->e->loop, &c->server);
	fd_close(&c->server_fd);
}

static void try_from(struct econn *c, int error)
{
	c->state = CONN_DIALING;
	for (; c->tried < c->ntries && c->box->e->loop.now_us < c->dial_until_us; c->tried++) {
		int r = try_next(c);

		if (r == 0)
			return;
		error = -r;
		close_try(c);
	}
	fail(c, error, EGRESS_UNREACHABLE);
}

void dial_failed(struct econn *c, int error)
{
	if (c->state == CONN_LOOKUP) {
		fail(c, error, EGRESS_NO_ADDRESS);
		return;
	}
	close_try(c);
	c->tried++;
	try_from(c, error);
}

void dial_done(struct econn *c)
{
	int error = 0;
	socklen_t n = sizeof(error);

	if (getsockopt(c->server_fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
		error = errno;
	if (error != 0)
		dial_failed(c, error);
	else
		conn_opened(c);
}

/* Those of a name that the rules let through. */
static void dial_found(struct econn *c, const struct net_address *found, unsigned int n)
{
	for (unsigned int i = 0; i < n && c->ntries < ADDRESSES_MAX; i++)
		if (net_decide_address(&c->box->policy, &found[i], c->port, true).allowed)
			c->tries[c->ntries++] = found[i];
	if (n == 0) {
		fail(c, ENOENT, EGRESS_NO_ADDRESS);
	} else if (c->ntries == 0) {
		c->address = found[0];
		fail(c, EACCES, EGRESS_NOT_PUBLIC);
	} else {
		try_from(c, ETIMEDOUT);
	}
}

static void on_found(struct lookup *l, const struct net_address *found, unsigned int n,
		     uint64_t ttl_us)
{
	struct econn *c = l->arg;
	struct ename *name = names_find(&c->box->names, c->name);

	if (name != NULL && n > 0) {
		(void)memcpy(name->found, found, n * sizeof(*found));
		name->nfound = n;
		name->found_until_us = c->box->e->loop.now_us + ttl_us;
	}
	dial_found(c, found, n);
}

void dial_begin(struct econn *c)
{
	struct egress *e = c->box->e;
	const struct ename *name;

	c->dial_until_us = e->loop.now_us + DIAL_US;
	if (!c->named) {
		c->tries[c->ntries++] = c->address;
		try_from(c, ETIMEDOUT);
		return;
	}
	name = names_find(&c->box->names, c->name);
	if (name != NULL && name->found_until_us > e->loop.now_us) {
		dial_found(c, name->found, name->nfound);
		return;
	}
	c->state = CONN_LOOKUP;
	c->lookup = (struct lookup){ .fn = on_found, .arg = c };
	if (lookup_begin(e, &c->lookup, c->name) < 0 ||
	    timer_set(&e->loop, &c->timer, c->dial_until_us, on_late, c) < 0)
		fail(c, ENOENT, EGRESS_NO_ADDRESS);
}
