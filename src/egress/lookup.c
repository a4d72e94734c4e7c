// SPDX-License-Identifier: Apache-2.0
/*
 * Names looked up by the servers of this machine, with c-ares on our loop. Files are not asked (there are none any more when this process works), and
 * neither is a search list: a name is what a rule has allowed, and nothing is put behind it.
 *
 * By datagrams only: when a connection to a server ends, c-ares gives up every question that the server has not answered, whoever has asked. There is room for more
 * addresses than are tried.
 */
#include "egress/egress.h"

#include "base/clock.h"
#include "base/own.h"

#include <ares.h>

enum {
	SOCKETS_MAX = 64,
	TRIES = 2,
	TIMEOUT_MS = 2000,
	TTL_MAX_S = 300,
	TTL_MIN_S = 5,
	DATAGRAM_MAX = 4096,
};

struct lookups;

struct lookup_socket {
	struct watch watch;
	struct lookups *all;
};

struct lookups {
	struct egress *e;
	ares_channel channel;
	struct lookup_socket sockets[SOCKETS_MAX];
	struct timer timer;
};

/* One that is under way; it outlives who has asked. */
struct asked {
	struct egress *e;
	struct lookup *l; /* NULL: nobody waits */
	struct net_address found[ADDRESSES_MAX];
	unsigned int n;
	uint64_t ttl_us;
	bool beginning, over;
	struct timer soon;
};

/* --- sockets of the library ----------------------------------------------------------------------- */

static void set_timer(struct lookups *a);

static void on_socket(void *arg, uint32_t events)
{
	const struct lookup_socket *s = arg;
	struct lookups *a = s->all;
	int fd = s->watch.fd;

	ares_process_fd(a->channel,
			(events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 ? fd : ARES_SOCKET_BAD,
			(events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0 ? fd : ARES_SOCKET_BAD);
	set_timer(a);
}

static void on_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct lookups *a = arg;
	uint32_t events = (readable != 0 ? EPOLLIN : 0u) | (writable != 0 ? EPOLLOUT : 0u);
	unsigned int free_at = SOCKETS_MAX;

	for (unsigned int i = 0; i < SOCKETS_MAX; i++) {
		struct watch *w = &a->sockets[i].watch;

		if (w->fn != NULL && w->fd == fd) {
			if (events == 0)
				loop_unwatch(&a->e->loop, w);
			else
				loop_change(&a->e->loop, w, events);
			return;
		}
		if (w->fn == NULL && free_at == SOCKETS_MAX)
			free_at = i;
	}
	if (events == 0 || free_at == SOCKETS_MAX)
		return; /* without a watch the query ends by its time */
	a->sockets[free_at].all = a;
	(void)loop_watch(&a->e->loop, &a->sockets[free_at].watch, fd, events, on_socket,
			 &a->sockets[free_at]);
}

static void on_timer(void *arg)
{
	struct lookups *a = arg;

	ares_process_fd(a->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_timer(a);
}

static void set_timer(struct lookups *a)
{
	struct timeval t;

	if (ares_timeout(a->channel, NULL, &t) == NULL)
		timer_clear(&a->e->loop, &a->timer);
	else
		(void)timer_set(&a->e->loop, &a->timer,
				clock_us() + (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_usec,
				on_timer, a);
}

/* --- answers --------------------------------------------------------------------------------------- */

static void tell(struct asked *q)
{
	struct lookup *l = q->l;

	if (l != NULL) {
		l->asked = NULL;
		l->fn(l, q->found, q->n, q->ttl_us);
	}
	free(q);
}

static void on_soon(void *arg)
{
	tell(arg);
}

static void take_node(struct asked *q, const struct ares_addrinfo_node *n)
{
	struct net_address *a = &q->found[q->n];
	const struct sockaddr_in6 *v6 = (const void *)n->ai_addr;
	const struct sockaddr_in *v4 = (const void *)n->ai_addr;

	if (n->ai_family == AF_INET)
		net_address_v4((const uint8_t *)&v4->sin_addr, a);
	else if (n->ai_family == AF_INET6)
		net_address_v6((const uint8_t *)&v6->sin6_addr, a);
	else
		return;
	if (q->n == 0 || (uint64_t)n->ai_ttl * US_PER_S < q->ttl_us)
		q->ttl_us = (uint64_t)(n->ai_ttl > 0 ? n->ai_ttl : 0) * US_PER_S;
	q->n++;
}

static void on_answer(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct asked *q = arg;

	(void)timeouts;
	for (const struct ares_addrinfo_node *n =
		     status == ARES_SUCCESS && info != NULL ? info->nodes : NULL;
	     n != NULL && q->n < ADDRESSES_MAX; n = n->ai_next)
		take_node(q, n);
	if (info != NULL)
		ares_freeaddrinfo(info);
	if (q->ttl_us > TTL_MAX_S * US_PER_S)
		q->ttl_us = TTL_MAX_S * US_PER_S;
	if (q->ttl_us < TTL_MIN_S * US_PER_S)
		q->ttl_us = TTL_MIN_S * US_PER_S;
	q->over = true;
	if (!q->beginning)
		tell(q);
}

/* --- from outside ---------------------------------------------------------------------------------- */

int lookups_start(struct egress *e, const char *servers, struct err *err)
{
	static char lookups[] = "b";
	struct lookups *a = calloc(1, sizeof(*a));
	struct ares_options o = { .flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES |
					   ARES_FLAG_IGNTC | ARES_FLAG_EDNS,
				  .ednspsz = DATAGRAM_MAX,
				  .timeout = TIMEOUT_MS,
				  .tries = TRIES,
				  .lookups = lookups,
				  .sock_state_cb = on_state,
				  .sock_state_cb_data = a };
	int r;

	if (a == NULL)
		return err_set(err, ERR_SYS, ENOMEM, "start the resolver");
	a->e = e;
	r = ares_library_init(ARES_LIB_INIT_ALL);
	if (r == ARES_SUCCESS)
		r = ares_init_options(&a->channel, &o,
				      ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES |
					      ARES_OPT_LOOKUPS | ARES_OPT_SOCK_STATE_CB |
					      ARES_OPT_EDNSPSZ);
	if (r == ARES_SUCCESS && servers[0] != '\0')
		r = ares_set_servers_ports_csv(a->channel, servers);
	if (r != ARES_SUCCESS) {
		free(a);
		return err_set(err, ERR_INPUT, 0, "start the resolver: %s", ares_strerror(r));
	}
	e->lookups = a;
	return 0;
}

int lookup_begin(struct egress *e, struct lookup *l, const char *name)
{
	struct ares_addrinfo_hints hints = { .ai_flags = ARES_AI_NOSORT, .ai_family = AF_UNSPEC };
	struct asked *q = calloc(1, sizeof(*q));

	if (q == NULL)
		return -ENOMEM;
	*q = (struct asked){ .e = e, .l = l, .beginning = true };
	l->asked = q;
	ares_getaddrinfo(e->lookups->channel, name, NULL, &hints, on_answer, q);
	q->beginning = false;
	/* It may have been answered already; who asks is not to hear of it before this has returned. */
	if (q->over && timer_soon(&e->loop, &q->soon, on_soon, q) < 0) {
		l->asked = NULL;
		free(q);
		return -ENOMEM;
	}
	set_timer(e->lookups);
	return 0;
}

void lookup_drop(struct lookup *l)
{
	if (l->asked != NULL)
		l->asked->l = NULL;
	l->asked = NULL;
}
