// SPDX-License-Identifier: Apache-2.0
/*
 * A box: its listeners, its policy, and what it has going on.
 *
 * Until it has a policy nothing is accepted: what comes waits in the kernel.
 */
#include "egress/tunnel.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>

#define PAUSE_US (100 * US_PER_MS)

struct ebox *ebox_find(struct egress *e, uint64_t id)
{
	struct ebox *b = e->boxes;

	while (b != NULL && b->id != id)
		b = b->next;
	return b;
}

/* --- what comes ------------------------------------------------------------------------------------- */

static void listen_all(struct ebox *b);

static void on_resume(void *arg)
{
	listen_all(arg);
}

/* No descriptor or memory is to be had: what waits goes on waiting, and is not asked for all the time. */
static void pause_all(struct ebox *b)
{
	for (unsigned int i = 0; i < EGRESS_LISTENERS; i++)
		loop_unwatch(&b->e->loop, &b->watch[i]);
	(void)timer_set(&b->e->loop, &b->resume, b->e->loop.now_us + PAUSE_US, on_resume, b);
}

static void on_tcp4(void *arg, uint32_t events)
{
	struct ebox *b = arg;

	(void)events;
	if (conn_accept(b, b->fd[EGRESS_TCP4], ENTRY_REDIRECTED) < 0)
		pause_all(b);
}

static void on_tcp6(void *arg, uint32_t events)
{
	struct ebox *b = arg;

	(void)events;
	if (conn_accept(b, b->fd[EGRESS_TCP6], ENTRY_REDIRECTED) < 0)
		pause_all(b);
}

static void on_proxy(void *arg, uint32_t events)
{
	struct ebox *b = arg;

	(void)events;
	if (conn_accept(b, b->fd[EGRESS_PROXY], ENTRY_PROXY) < 0)
		pause_all(b);
}

static void on_dns(void *arg, uint32_t events)
{
	(void)events;
	dns_event(arg);
}

static void on_dns_tcp(void *arg, uint32_t events)
{
	(void)events;
	if (dns_accept(arg) < 0)
		pause_all(arg);
}

static void listen_all(struct ebox *b)
{
	static void (*const on[EGRESS_LISTENERS])(void *arg, uint32_t events) = {
		[EGRESS_TCP4] = on_tcp4, [EGRESS_TCP6] = on_tcp6,       [EGRESS_PROXY] = on_proxy,
		[EGRESS_DNS] = on_dns,   [EGRESS_DNS_TCP] = on_dns_tcp,
	};

	for (unsigned int i = 0; i < EGRESS_LISTENERS; i++)
		if (b->fd[i] >= 0 && b->watch[i].fn == NULL)
			(void)loop_watch(&b->e->loop, &b->watch[i], b->fd[i], EPOLLIN, on[i], b);
}

/* --- what the keeper says ---------------------------------------------------------------------------- */

static void close_listeners(struct ebox *b)
{
	timer_clear(&b->e->loop, &b->resume);
	for (unsigned int i = 0; i < EGRESS_LISTENERS; i++)
		loop_unwatch(&b->e->loop, &b->watch[i]);
	for (unsigned int i = 0; i < EGRESS_FDS; i++)
		fd_close(&b->fd[i]);
}

static struct ebox *ebox_new(struct egress *e, const struct net_figures *f)
{
	struct ebox *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	*b = (struct ebox){ .e = e,
			    .id = f->box,
			    .figures = *f,
			    .questions = { QUESTIONS_AT_ONCE * US_PER_S, e->loop.now_us },
			    .refusals = { REFUSALS_AT_ONCE * US_PER_S, e->loop.now_us },
			    .arrivals = { CONNS_AT_ONCE * US_PER_S, e->loop.now_us } };
	net_policy_init(&b->policy);
	for (unsigned int i = 0; i < EGRESS_FDS; i++)
		b->fd[i] = -1;
	if (names_init(&b->names) < 0) {
		free(b);
		return NULL;
	}
	b->next = e->boxes;
	e->boxes = b;
	return b;
}

int ebox_set(struct egress *e, const struct net_figures *f, const int fds[EGRESS_FDS])
{
	struct ebox *b = ebox_find(e, f->box);

	if (b == NULL)
		b = ebox_new(e, f);
	if (b == NULL)
		return -ENOMEM;
	close_listeners(b);
	(void)memcpy(b->fd, fds, sizeof(b->fd));
	return 0;
}

/* Where TLS is opened the box must trust whom it then speaks to. */
static int prepare(struct ebox *b, const struct net_policy *p)
{
	if (!net_policy_opens(p))
		return 0;
	if (b->fd[EGRESS_TRUST] < 0)
		return -ENOTSUP;
	if (b->authority == NULL)
		b->authority = secrets_authority(b->e, b->id);
	return b->authority == NULL ? -ENOMEM
				    : secrets_put_trust(b->e, b->authority, b->fd[EGRESS_TRUST]);
}

int ebox_policy(struct egress *e, uint64_t id, const void *bytes, size_t n)
{
	struct ebox *b = ebox_find(e, id);
	struct net_policy p;
	int r = b == NULL ? -ENOENT : net_policy_decode(bytes, n, &p);

	if (r == 0)
		r = prepare(b, &p);
	if (r < 0) {
		if (b != NULL)
			net_policy_done(&p);
		return r;
	}
	net_policy_done(&b->policy);
	b->policy = p;
	for (struct econn *c = b->conns, *next; c != NULL; c = next) {
		next = c->next;
		if (!conn_may_stay(c))
			conn_end(c, EGRESS_CUT);
		else
			conn_resume(c);
	}
	listen_all(b);
	return 0;
}

void eboxes_secrets(struct egress *e)
{
	for (struct ebox *b = e->boxes; b != NULL; b = b->next)
		for (struct econn *c = b->conns, *next; c != NULL; c = next) {
			next = c->next;
			if (c->tunnel[0] != NULL || c->tunnel[1] != NULL)
				conn_end(c, EGRESS_CUT);
		}
}

static void free_box(void *arg)
{
	struct ebox *b = arg;

	names_done(&b->names);
	net_policy_done(&b->policy);
	authority_free(b->authority);
	free(b);
}

void ebox_end(struct egress *e, uint64_t id)
{
	struct ebox **at = &e->boxes;
	struct ebox *b;

	while (*at != NULL && (*at)->id != id)
		at = &(*at)->next;
	b = *at;
	if (b == NULL)
		return;
	*at = b->next;
	while (b->conns != NULL)
		conn_end(b->conns, EGRESS_BOX_GONE);
	tunnels_end(b);
	dns_conns_end(b);
	close_listeners(b);
	bounds_done(b);
	figures_last(b);
	loop_defer(&e->loop, &b->gone, free_box, b);
}
