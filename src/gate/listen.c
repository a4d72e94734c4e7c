// SPDX-License-Identifier: Apache-2.0
/*
 * Listeners: opened by the supervisor or the keeper, kept by the keeper, accepted from here.
 *
 * At the limit of connections, the one that has been idle for the longest makes room; without an idle one, and when
 * descriptors are short, nothing is accepted until a connection ends: who waits, waits in the kernel's queue.
 *
 * A listener of a box (ports.c) comes and goes with it; one that can be reached from inside has bounds of its own.
 */
#include "base/io.h"
#include "base/own.h"
#include "gate/gate.h"
#include "gate/tls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
	ACCEPTS_PER_TURN = 64,
	RETRY_US = 100 * 1000,
	INSIDE_MAX = 512, /* connections from inside of boxes, all together */
};

static void on_retry(void *arg)
{
	listeners_resume(arg);
}

static void pause_accepting(struct gate *g)
{
	if (!g->listening)
		return;
	g->listening = false;
	g->figures.paused++;
	for (struct listener *l = g->accepting; l != NULL; l = l->next)
		loop_change(&g->loop, &l->watch, 0);
	(void)timer_set(&g->loop, &g->accept_again, g->loop.now_us + RETRY_US, on_retry, g);
}

void listeners_resume(struct gate *g)
{
	if (g->listening || g->stopping || g->accepting == NULL)
		return;
	g->listening = true;
	for (struct listener *l = g->accepting; l != NULL; l = l->next)
		loop_change(&g->loop, &l->watch, l->full ? 0 : EPOLLIN);
}

/* --- one that may not have as much as there is ---------------------------------------------------- */

static void go_on(void *arg)
{
	struct listener *l = arg;

	if (!l->accepting || l->conns >= l->most)
		return;
	l->full = false;
	if (l->g->listening)
		loop_change(&l->g->loop, &l->watch, EPOLLIN);
}

/* Who is behind it may be hostile, and is not to take from others: it waits. */
static void hold(struct listener *l, uint64_t us)
{
	l->full = true;
	loop_change(&l->g->loop, &l->watch, 0);
	if (timer_set(&l->g->loop, &l->again, l->g->loop.now_us + us, go_on, l) < 0)
		go_on(l);
}

void listener_left(struct listener *l)
{
	l->conns--;
	l->g->ninside -= l->inside;
	if (l->gone && l->conns == 0 && l->over != NULL)
		l->over(l);
	else if (l->full && l->again.place == 0)
		go_on(l);
}

static void name_peer(const struct sockaddr_storage *a, char *text, size_t size)
{
	char ip[INET6_ADDRSTRLEN] = "";

	if (a->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)a;

		(void)inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
		(void)snprintf(text, size, "%s:%u", ip, ntohs(in->sin_port));
	} else if (a->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)a;

		(void)inet_ntop(AF_INET6, &in->sin6_addr, ip, sizeof(ip));
		(void)snprintf(text, size, "[%s]:%u", ip, ntohs(in->sin6_port));
	} else {
		(void)snprintf(text, size, "unix");
	}
}

static void on_connection(void *arg, uint32_t events)
{
	struct listener *l = arg;
	struct gate *g = l->g;

	(void)events;
	for (unsigned int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage a = { 0 };
		socklen_t len = sizeof(a);
		char peer[64];
		int fd;

		if (l->inside && g->ninside >= INSIDE_MAX) {
			hold(l, RETRY_US);
			return;
		}
		if (g->nconns >= config_u64(&g->config, CONF_MAX_CONNECTIONS)) {
			if (i > 0)
				return; /* the next turn tells whether another one waits */
			if (!conns_make_room(g)) {
				pause_accepting(g);
				return;
			}
		}
		fd = accept4(l->fd, (struct sockaddr *)&a, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0 &&
		    (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) &&
		    !conns_make_room(g))
			pause_accepting(g);
		if (fd < 0)
			return;
		g->figures.accepted++;
		name_peer(&a, peer, sizeof(peer));
		conn_new(g, l, fd, peer);
		if (l->most != 0) {
			hold(l, l->pause_us);
			return;
		}
	}
}

/* --- begin and end ---------------------------------------------------------------------------------- */

int listener_add(struct gate *g, struct listener *l)
{
	int r;

	l->g = g;
	if (g->stopping)
		return 0;
	(void)io_set_nonblock(l->fd, 1);
	r = loop_watch(&g->loop, &l->watch, l->fd, g->listening ? EPOLLIN : 0, on_connection, l);
	if (r < 0)
		return r;
	l->prev = NULL;
	l->next = g->accepting;
	if (l->next != NULL)
		l->next->prev = l;
	g->accepting = l;
	l->accepting = true;
	return 0;
}

static void stop_accepting(struct listener *l)
{
	struct gate *g = l->g;

	if (l->prev != NULL)
		l->prev->next = l->next;
	else
		g->accepting = l->next;
	if (l->next != NULL)
		l->next->prev = l->prev;
	loop_unwatch(&g->loop, &l->watch);
	timer_clear(&g->loop, &l->again);
	fd_close(&l->fd);
	l->accepting = false;
}

void listener_end(struct listener *l)
{
	if (l->accepting)
		stop_accepting(l);
	fd_close(&l->fd);
	l->gone = true;
	if (l->conns == 0 && l->over != NULL)
		l->over(l);
	else if (l->conns > 0)
		conns_leave(l->g, l);
}

int listeners_start(struct gate *g, struct err *e)
{
	char *const *items;
	unsigned int n;

	items = config_list(&g->config, CONF_LISTEN, &n);
	if (n > GATE_LISTENERS_MAX)
		return err_set(e, ERR_INPUT, 0, "at most %d listeners", GATE_LISTENERS_MAX);
	g->listening = true;
	for (unsigned int i = 0; i < n; i++) {
		struct listener *l = &g->listeners[i];
		struct config_listen where;
		int r;

		l->fd = GATE_LISTEN_FD + (int)i;
		(void)snprintf(l->text, sizeof(l->text), "%s", items[i]);
		if (config_listen_parse(items[i], &where) < 0)
			return err_set(e, ERR_INPUT, 0, "listener '%s'", items[i]);
		l->local = where.local;
		l->unix_socket = where.addr.sa.sa_family == AF_UNIX;
		l->tls = l->unix_socket ? NULL : g->tls;
		l->place = ROUTE_MAIN;
		r = listener_add(g, l);
		if (r < 0)
			return err_set(e, ERR_SYS, -r, "watch listener '%s'", items[i]);
	}
	g->nlisteners = n;
	for (struct listener *l = g->accepting; l != NULL; l = l->next)
		loop_change(&g->loop, &l->watch, EPOLLIN);
	return 0;
}

void listeners_stop(struct gate *g)
{
	while (g->accepting != NULL) {
		/* The keeper has those of boxes, and would let connections wait for nobody. */
		if (g->accepting->box != NULL && g->accepting->fd >= 0)
			(void)shutdown(g->accepting->fd, SHUT_RDWR);
		stop_accepting(g->accepting);
	}
	g->nlisteners = 0;
	g->listening = false;
}
