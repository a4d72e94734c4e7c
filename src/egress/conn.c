// SPDX-License-Identifier: Apache-2.0
/*
 * A connection of a box, from its arrival to its end.
 *
 * Where it leads is what the kernel says it was meant for, or what it asks for (proxy.c): an address that stands for a name, or an address. Both sides are there as soon as the rules allow it; what the client says first is held until it was looked at
 * (sniff.c), what the server says is not.
 *
 * Must not: connect before a verdict; pass on a byte that sniff_step() has not let go.
 */
#include "egress/tunnel.h"

#include "base/clock.h"
#include "base/own.h"

#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static void update(struct econn *c);

/* --- the end ------------------------------------------------------------------------------------ */

static bool is_refusal(enum egress_why why)
{
	return why == EGRESS_NOT_ALLOWED || why == EGRESS_NOT_PUBLIC || why == EGRESS_OTHER_NAME ||
	       why == EGRESS_OTHER_PROTOCOL || why == EGRESS_REQUEST || why == EGRESS_TOO_MANY ||
	       why == EGRESS_SERVER_TLS || why == EGRESS_ANSWER || why == EGRESS_LIMIT;
}

static struct egress_record record_of(const struct econn *c, enum egress_why why)
{
	struct egress_record r = { .box = c->box->id,
				   .has_address = c->address.v6 || c->address.a[0] != 0,
				   .address = c->address,
				   .port = c->port,
				   .rule = c->verdict.rule,
				   .why = why,
				   .sent = c->up.bytes + c->up_held_bytes,
				   .received = c->down.bytes,
				   .us = c->box->e->loop.now_us - c->began_us };

	if (c->named)
		(void)memcpy(r.name, c->name, sizeof(r.name));
	return r;
}

static void tell_record(const struct econn *c, enum egress_why why)
{
	struct egress_record r = record_of(c, why);

	if (is_refusal(why))
		c->box->figures.refused++;
	keeper_tell(c->box->e, &r);
}

static void reset(int fd)
{
	const struct linger now = { .l_onoff = 1 };

	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
}

static void free_conn(void *arg)
{
	struct econn *c = arg;

	free(c->hold);
	free(c);
}

void conn_end(struct econn *c, enum egress_why why)
{
	struct egress *e = c->box->e;

	if (c->ending)
		return;
	c->ending = true;
	tell_record(c, why);
	/* Who was told in words has what it needs, and finds the end behind it. */
	if (why != EGRESS_CLOSED && !c->answered &&
	    (c->told == TOLD_NOTHING || c->state == CONN_OPEN))
		reset(c->client_fd);
	if (why != EGRESS_CLOSED)
		reset(c->server_fd);
	tunnels_let_go(c, why != EGRESS_CLOSED);
	lookup_drop(&c->lookup);
	timer_clear(&e->loop, &c->timer);
	loop_unwatch(&e->loop, &c->client);
	loop_unwatch(&e->loop, &c->server);
	relay_done(e, &c->up);
	relay_done(e, &c->down);
	http_flow_done(c);
	fd_close(&c->client_fd);
	fd_close(&c->server_fd);
	*c->at = c->next;
	if (c->next != NULL)
		c->next->at = c->at;
	c->box->nconns--;
	e->nconns--;
	figures_changed(c->box);
	loop_defer(&e->loop, &c->gone, free_conn, c);
}

static void on_timer(void *arg)
{
	struct econn *c = arg;

	switch (c->state) {
	case CONN_ASKING:
		conn_end(c, EGRESS_OTHER_PROTOCOL);
		break;
	case CONN_LOOKUP:
	case CONN_DIALING:
		dial_failed(c, ETIMEDOUT);
		break;
	case CONN_OPEN:
		conn_end(c, c->held > 0 && !c->whole ? EGRESS_OTHER_PROTOCOL : EGRESS_IDLE);
		break;
	}
}

static void set_timer(struct econn *c, uint64_t us)
{
	if (timer_set(&c->box->e->loop, &c->timer, c->box->e->loop.now_us + us, on_timer, c) < 0)
		conn_end(c, EGRESS_BROKEN);
}

/* --- the client ---------------------------------------------------------------------------------- */

int conn_room(struct econn *c, size_t n)
{
	size_t cap = c->hold_cap == 0 ? HOLD_FIRST : c->hold_cap;
	char *p;

	if (n <= c->hold_cap)
		return 0;
	while (cap < n)
		cap *= 2;
	if (cap > HOLD_MOST)
		return -ENOBUFS;
	p = realloc(c->hold, cap);
	if (p == NULL)
		return -ENOMEM;
	c->hold = p;
	c->hold_cap = cap;
	return 0;
}

/* What has come, to what is held. 0, or -errno: it is gone. */
static int read_client(struct econn *c)
{
	while (!c->client_ended && c->held < HOLD_MAX && conn_room(c, c->held + 1) == 0) {
		size_t cap = c->hold_cap < HOLD_MAX ? c->hold_cap : HOLD_MAX;
		ssize_t n = recv(c->client_fd, c->hold + c->held, cap - c->held, 0);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		c->client_ended = n == 0;
		c->held += (size_t)n;
	}
	return 0;
}

/* What may go out of what is held. 0 or -errno. */
static int write_held(struct econn *c)
{
	while (c->state == CONN_OPEN && c->pass > 0) {
		uint64_t most = bounds_allow(c->box, WAY_UP);
		ssize_t n;

		if (most == 0)
			break;
		n = send(c->server_fd, c->hold, most < c->pass ? (size_t)most : c->pass,
			 MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		bounds_spent(c->box, WAY_UP, (uint64_t)n);
		c->up_held_bytes += (uint64_t)n;
		c->pass -= (size_t)n;
		c->held -= (size_t)n;
		c->looked -= c->looked < (size_t)n ? c->looked : (size_t)n;
		(void)memmove(c->hold, c->hold + n, c->held);
	}
	if (c->held == 0 && c->whole) {
		free(c->hold);
		c->hold = NULL;
		c->hold_cap = 0;
	}
	return 0;
}

/* Whether what is held waits for something that the server is to say. */
static bool waits_for_server(const struct econn *c)
{
	return http_flow_wants_answer(c) || tunnel_waits(c);
}

/* Look at it, and pass on what may go. */
static void move_held(struct econn *c)
{
	size_t before;
	int r;

	do {
		before = c->held;
		r = c->state == CONN_OPEN ? sniff_step(c) : 0;
		if (c->ending)
			return;
		if (r == 0 && write_held(c) < 0) {
			conn_end(c, EGRESS_BROKEN);
			return;
		}
		/* There may be room now for what had none. */
	} while (r == 0 && c->pass == 0 && c->held > 0 && c->held < before);
	/* A hello that does not fit is none that a client sends. */
	if (r == 0 && c->pass == 0 && c->held >= HOLD_MAX && !c->whole && c->state == CONN_OPEN &&
	    !waits_for_server(c))
		r = -EBADMSG;
	if (r < 0) {
		conn_end(c, r == -EACCES         ? EGRESS_OTHER_NAME
			    : r == -EPERM        ? EGRESS_REQUEST
			    : r == -EKEYREJECTED ? EGRESS_SERVER_TLS
			    : r == -EBUSY        ? EGRESS_TOO_MANY
						 : EGRESS_OTHER_PROTOCOL);
		return;
	}
	if (c->client_ended && c->held > 0 && c->pass == 0 && c->state == CONN_OPEN &&
	    !waits_for_server(c)) { /* half of something that nobody could read */
		conn_end(c, EGRESS_OTHER_PROTOCOL);
		return;
	}
	if (c->client_ended && c->held == 0 && c->state == CONN_OPEN && !c->up.shut) {
		c->up.ended = c->up.shut = true;
		(void)shutdown(c->server_fd, SHUT_WR);
	}
}

/* Bytes one way. 0 or -errno. */
static int move(struct econn *c, enum way w)
{
	struct relay *r = w == WAY_UP ? &c->up : &c->down;
	uint64_t before = r->bytes;
	int failed = relay_step(c->box->e, r, bounds_allow(c->box, w));

	bounds_spent(c->box, w, r->bytes - before);
	return failed;
}

/* The box has had everything: all that it has open ends. */
static void cut_all(struct ebox *b)
{
	while (b->conns != NULL)
		conn_end(b->conns, EGRESS_LIMIT);
}

static void after(struct econn *c, int r)
{
	if (bounds_reached(c->box))
		cut_all(c->box);
	else if (r < 0)
		conn_end(c, EGRESS_BROKEN);
	else if (c->state == CONN_OPEN && relay_is_over(&c->up) && relay_is_over(&c->down))
		conn_end(c, EGRESS_CLOSED);
	else
		update(c);
}

static void on_client(void *arg, uint32_t events)
{
	struct econn *c = arg;
	int r = 0;

	if ((events & EPOLLERR) != 0) {
		conn_end(c, EGRESS_BROKEN);
		return;
	}
	if (c->whole && c->held == 0 && c->state == CONN_OPEN) {
		r = move(c, WAY_UP);
	} else if ((events & (EPOLLIN | EPOLLHUP)) != 0) {
		r = read_client(c);
		if (r == 0 && c->state == CONN_ASKING)
			proxy_step(c);
		if (r == 0 && !c->ending && c->state != CONN_ASKING)
			move_held(c);
		if (r == 0 && !c->ending && c->state == CONN_ASKING && c->client_ended)
			r = -EPIPE;
	}
	if (c->ending)
		return;
	if (r == 0 && c->state == CONN_OPEN && (events & EPOLLOUT) != 0)
		r = move(c, WAY_DOWN);
	after(c, r);
}

/* --- the server ----------------------------------------------------------------------------------- */

static int look_at_answer(struct econn *c)
{
	char first[16];
	ssize_t n = recv(c->server_fd, first, sizeof(first), MSG_PEEK);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (http_flow_answer(c, first, (size_t)n))
		move_held(c);
	return 0;
}

void conn_on_server(void *arg, uint32_t events)
{
	struct econn *c = arg;
	int r = 0;

	if (c->state == CONN_DIALING) {
		dial_done(c);
		return;
	}
	if ((events & EPOLLERR) != 0) {
		conn_end(c, EGRESS_BROKEN);
		return;
	}
	if (http_flow_wants_answer(c) && (events & EPOLLIN) != 0)
		r = look_at_answer(c);
	if (r == 0 && !c->ending && (events & (EPOLLIN | EPOLLHUP)) != 0)
		r = move(c, WAY_DOWN);
	if (r == 0 && !c->ending && (events & EPOLLOUT) != 0) {
		if (c->held > 0)
			move_held(c);
		else
			r = move(c, WAY_UP);
	}
	if (!c->ending)
		after(c, r);
}

static bool may_move(struct econn *c, enum way w)
{
	if (bounds_allow(c->box, w) > 0)
		return true;
	bounds_wait(c->box);
	return false;
}

/* What to wait for. */
static void update(struct econn *c)
{
	struct loop *l = &c->box->e->loop;
	bool open = c->state == CONN_OPEN, direct = c->whole && c->held == 0 && open;
	uint32_t client = 0, server = 0;

	if (direct ? relay_wants_read(&c->up) && may_move(c, WAY_UP)
		   : !c->client_ended && c->held < HOLD_MAX)
		client |= EPOLLIN;
	if (open && relay_wants_write(&c->down))
		client |= EPOLLOUT;
	if (open && relay_wants_read(&c->down) && may_move(c, WAY_DOWN))
		server |= EPOLLIN;
	if (open && (relay_wants_write(&c->up) || (c->pass > 0 && may_move(c, WAY_UP))))
		server |= EPOLLOUT;
	loop_change(l, &c->client, client);
	if (!open)
		return;
	loop_change(l, &c->server, server);
	set_timer(c, c->held > 0 && !c->whole                           ? HELLO_US
		     : relay_is_over(&c->up) || relay_is_over(&c->down) ? LINGER_US
									: IDLE_US);
}

void conn_resume(struct econn *c)
{
	if (!c->ending && c->state == CONN_OPEN)
		update(c);
}

void conn_again(struct econn *c)
{
	if (c->ending || c->state != CONN_OPEN)
		return;
	move_held(c);
	if (!c->ending)
		after(c, 0);
}

int conn_moved(struct econn *c)
{
	struct loop *l = &c->box->e->loop;

	if (c->down.bytes > 0 || c->down.in_pipe > 0 || c->up.in_pipe > 0)
		return -EBADMSG;
	loop_unwatch(l, &c->client);
	loop_unwatch(l, &c->server);
	c->up.from = c->down.to = c->client_fd;
	c->up.to = c->down.from = c->server_fd;
	return loop_watch(l, &c->client, c->client_fd, EPOLLIN, on_client, c) < 0 ||
			       loop_watch(l, &c->server, c->server_fd, EPOLLIN, conn_on_server, c) <
				       0
		       ? -ENOMEM
		       : 0;
}

void conn_opened(struct econn *c)
{
	/* Rules may have changed while it was on its way. */
	c->place = net_decide_address(&c->box->policy, &c->address, c->port, c->named);
	if (!c->place.allowed || conn_spoken(c) == 0) {
		if (c->entry == ENTRY_PROXY)
			(void)proxy_tell(c, EACCES);
		conn_end(c, EGRESS_NOT_ALLOWED);
		return;
	}
	c->state = CONN_OPEN;
	c->box->figures.connections++;
	figures_changed(c->box);
	c->up = (struct relay){ .from = c->client_fd, .to = c->server_fd, .pipe = { -1, -1 } };
	c->down = (struct relay){ .from = c->server_fd, .to = c->client_fd, .pipe = { -1, -1 } };
	if (c->entry == ENTRY_PROXY && proxy_tell(c, 0) < 0) {
		conn_end(c, EGRESS_BROKEN);
		return;
	}
	move_held(c);
	if (!c->ending)
		after(c, 0);
}

/* --- where it leads -------------------------------------------------------------------------------- */

void conn_go(struct econn *c)
{
	if (bounds_reached(c->box)) {
		if (c->entry == ENTRY_PROXY)
			(void)proxy_tell(c, EDQUOT);
		conn_end(c, EGRESS_LIMIT);
		return;
	}
	c->verdict = c->named ? net_decide_name_port(&c->box->policy, c->name, c->port)
			      : net_decide_address(&c->box->policy, &c->address, c->port, false);
	if (!c->verdict.allowed || (!c->named && names_is_in_range(&c->address))) {
		if (c->entry == ENTRY_PROXY)
			(void)proxy_tell(c, EACCES);
		conn_end(c, EGRESS_NOT_ALLOWED);
		return;
	}
	/* Whether anybody is there or not: a rule would be needed to find out. */
	if (c->verdict.rule == NET_BY_LEARN) {
		struct egress_record r = record_of(c, EGRESS_LEARNED);

		keeper_tell(c->box->e, &r);
	}
	dial_begin(c);
	if (!c->ending)
		update(c);
}

unsigned int conn_spoken(const struct econn *c)
{
	return c->verdict.spoken & c->place.spoken;
}

bool conn_is_narrow(const struct econn *c)
{
	return c->verdict.narrow || c->place.narrow;
}

/* Whether it is to be opened, and what answers must not show, is decided when it begins. */
static bool must_begin_anew(const struct econn *c)
{
	if (c->said == SAID_TLS)
		return c->verdict.opens;
	if (c->tls && !c->verdict.opens)
		return true;
	return (c->tls || c->said == SAID_HTTP) && inject_hides(c);
}

/* By what it has said so far. Who was let go for good cannot be asked about requests any more. */
static bool may_speak_on(const struct econn *c)
{
	static const unsigned int bits[] = { [SAID_NOTHING] = NET_SPOKEN_ALL,
					     [SAID_TLS] = NET_SPOKEN_TLS,
					     [SAID_HTTP] = NET_SPOKEN_HTTP,
					     [SAID_OTHER] = NET_SPOKEN_OTHER };

	if ((conn_spoken(c) & (c->tls ? NET_SPOKEN_TLS : bits[c->said])) == 0)
		return false;
	if (c->named && must_begin_anew(c))
		return false;
	return c->said != SAID_HTTP || !c->whole || !conn_is_narrow(c);
}

bool conn_may_stay(struct econn *c)
{
	const struct net_policy *p = &c->box->policy;

	if (c->state == CONN_ASKING)
		return p->mode != NET_NONE;
	c->verdict = c->named ? net_decide_name_port(p, c->name, c->port)
			      : net_decide_address(p, &c->address, c->port, false);
	if (!c->verdict.allowed)
		return false;
	if (c->state != CONN_OPEN)
		return true; /* where it leads is asked about when it is there */
	c->place = net_decide_address(p, &c->address, c->port, c->named);
	return c->place.allowed && may_speak_on(c);
}

/* What it was meant for: the kernel has brought it here with its own address. -errno: it came to the listener itself. */
static int original(int fd, struct net_address *a, uint16_t *port)
{
	struct sockaddr_storage s = { 0 };
	const struct sockaddr_in6 *v6 = (const void *)&s;
	const struct sockaddr_in *v4 = (const void *)&s;
	static const uint8_t loopback[16] = { [15] = 1 };
	socklen_t n = sizeof(s);

	if (getsockname(fd, (struct sockaddr *)&s, &n) < 0)
		return -errno;
	if (s.ss_family == AF_INET6) {
		net_address_v6((const uint8_t *)&v6->sin6_addr, a);
		*port = ntohs(v6->sin6_port);
	} else {
		net_address_v4((const uint8_t *)&v4->sin_addr, a);
		*port = ntohs(v4->sin_port);
	}
	if (a->v6 ? memcmp(a->a, loopback, sizeof(loopback)) == 0 : a->a[0] == 127)
		return -ECONNREFUSED;
	return 0;
}

static void find_place(struct econn *c)
{
	const struct ename *n;

	if (original(c->client_fd, &c->address, &c->port) < 0) {
		conn_end(c, EGRESS_NOT_ALLOWED);
		return;
	}
	n = c->address.v6 ? NULL : names_of(&c->box->names, c->address.a);
	if (n != NULL) {
		c->named = true;
		(void)memcpy(c->name, n->name, sizeof(c->name));
		c->address = (struct net_address){ 0 };
	}
	conn_go(c);
}

static struct econn *conn_new(struct ebox *b, int fd, enum entry entry)
{
	struct econn *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	*c = (struct econn){ .box = b,
			     .entry = entry,
			     .client_fd = fd,
			     .server_fd = -1,
			     .client = { .fd = -1 },
			     .server = { .fd = -1 },
			     .verdict = { .rule = NET_BY_NONE },
			     .up = { .pipe = { -1, -1 } },
			     .down = { .pipe = { -1, -1 } },
			     .began_us = b->e->loop.now_us };
	if (loop_watch(&b->e->loop, &c->client, fd, EPOLLIN, on_client, c) < 0) {
		free(c);
		return NULL;
	}
	c->next = b->conns;
	c->at = &b->conns;
	if (c->next != NULL)
		c->next->at = &c->next;
	b->conns = c;
	b->nconns++;
	b->e->nconns++;
	return c;
}

/* 0, or -errno: no further one now. */
static int accept_one(struct ebox *b, int listener, enum entry entry)
{
	const int one = 1;
	/* cppcheck-suppress nullPointer ; who it is does not matter */
	own_fd fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct econn *c;

	if (fd < 0)
		return errno == ECONNABORTED || errno == EINTR ? 0 : -errno;
	if (b->nconns >= b->policy.bounds.connections || b->e->nconns >= CONNS_MAX ||
	    !bounds_may_begin(b->e, fd) ||
	    !bucket_take(&b->arrivals, b->e->loop.now_us, CONNS_A_SECOND, CONNS_AT_ONCE)) {
		b->figures.refused++;
		figures_changed(b);
		reset(fd);
		return 0;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c = conn_new(b, fd, entry);
	if (c == NULL) {
		reset(fd);
		return 0;
	}
	(void)fd_take(&fd);
	set_timer(c, HELLO_US);
	if (!c->ending && entry == ENTRY_REDIRECTED)
		find_place(c);
	return 0;
}

int conn_accept(struct ebox *b, int listener, enum entry entry)
{
	int r = 0;

	for (int i = 0; i < ACCEPTS_A_TURN && r == 0; i++)
		r = accept_one(b, listener, entry);
	return r == -EAGAIN ? 0 : r;
}
