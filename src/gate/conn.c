// SPDX-License-Identifier: Apache-2.0
/*
 * The life of a client's connection: birth, what it waits for, events, the end. See conn.h for its states.
 *
 * What comes in is taken apart by conn_read.c, answers go out by conn_write.c.
 */
#include "gate/conn_impl.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/gate.h"
#include "gate/tls.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

enum {
	IN_MAX = HTTP_HEAD_MAX + GATE_SCRATCH,
	OUT_MAX = 1024 * 1024 * 1024, /* of one whole answer */
	LINGER_US = 2 * 1000 * 1000,
};

/* --- the end ---------------------------------------------------------------------------------- */

static void conn_free(void *arg)
{
	struct conn *c = arg;

	buf_done(&c->in);
	buf_done(&c->out);
	free(c);
}

static void req_free(struct req *r)
{
	free(r->body);
	free(r->extra);
	free(r);
}

static void log_request(const struct req *r, const char *how)
{
	uint64_t us = clock_us() - r->began_us;

	gate_log_request(r->g, r, how, us);
}

static void unlink_conn(struct conn *c)
{
	struct gate *g = c->g;

	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		g->conns = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	else
		g->conns_tail = c->prev;
}

static void link_conn(struct conn *c)
{
	struct gate *g = c->g;

	c->prev = NULL;
	c->next = g->conns;
	if (c->next != NULL)
		c->next->prev = c;
	else
		g->conns_tail = c;
	g->conns = c;
}

void conn_touch(struct conn *c)
{
	unlink_conn(c);
	link_conn(c);
}

void conn_close(struct conn *c)
{
	struct gate *g = c->g;

	if (c->state == CONN_CLOSED)
		return;
	c->state = CONN_CLOSED;
	if (c->req != NULL) {
		struct req *r = c->req;

		c->req = NULL;
		log_request(r, "gone");
		if (r->gone != NULL)
			r->gone(r);
		req_free(r);
	}
	loop_unwatch(&g->loop, &c->watch);
	timer_clear(&g->loop, &c->timer);
	tls_free(c->tls);
	c->tls = NULL;
	fd_close(&c->fd);
	unlink_conn(c);
	g->nconns--;
	listener_left(c->listener);
	c->listener = NULL;
	listeners_resume(g);
	loop_defer(&g->loop, &c->deferred, conn_free, c);
}

bool conn_is_last(const struct conn *c)
{
	const struct listener *l = c->listener; /* NULL: it is closed */

	return c->g->stopping || l == NULL || l->gone;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void on_timer(void *arg);

void conn_set_state(struct conn *c, enum conn_state state, uint64_t timeout_us)
{
	c->state = state;
	c->deadline_us = timeout_us == 0 ? UINT64_MAX : c->g->loop.now_us + timeout_us;
}

void conn_hang_up(struct conn *c)
{
	c->peer_gone = true;
	(void)shutdown(c->fd, SHUT_RDWR); /* comes back as an event */
}

/* When somebody has to look at this connection again. */
static uint64_t due(const struct conn *c)
{
	uint64_t at = c->deadline_us;

	if (buf_len(&c->out) > 0) {
		uint64_t writing = c->write_us + config_u64(&c->g->config, CONF_WRITE_TIMEOUT);

		if (writing < at)
			at = writing;
	}
	return at;
}

/* A timer that is set too early costs less than one that is moved for every request. */
static void update_timer(struct conn *c)
{
	uint64_t at = due(c);

	if (at == UINT64_MAX || (c->timer.place != 0 && c->timer.at_us <= at))
		return;
	if (timer_set(&c->g->loop, &c->timer, at, on_timer, c) < 0)
		conn_hang_up(c);
}

static void on_timer(void *arg)
{
	struct conn *c = arg;

	if (!c->peer_gone && due(c) > c->g->loop.now_us) {
		update_timer(c);
		return;
	}
	c->g->figures.timeouts++;
	conn_close(c);
}

static bool wants_input(const struct conn *c)
{
	/* Who takes no answers may not ask on. */
	if (c->state == CONN_IDLE || c->state == CONN_HEAD)
		return buf_len(&c->out) < REQ_HIGH;
	return c->state == CONN_LINGER ||
	       ((c->state == CONN_BODY || c->state == CONN_RAW) && !c->body_stalled);
}

void conn_update(struct conn *c)
{
	uint32_t events = 0;

	if (c->state == CONN_CLOSED)
		return;
	if (wants_input(c))
		events |= EPOLLIN | EPOLLRDHUP;
	else if (!c->close_after) /* behind the last answer, its leaving changes nothing */
		events |= EPOLLRDHUP;
	if (buf_len(&c->out) > 0)
		events |= EPOLLOUT;
	loop_change(&c->g->loop, &c->watch, events);
	update_timer(c);
}

/* --- going on --------------------------------------------------------------------------------- */

void conn_finish(struct conn *c)
{
	struct req *r = c->req;
	bool close = r->close, read = conn_body_is_read(c);

	c->req = NULL;
	log_request(r, "done");
	req_free(r);
	c->body_stalled = false;
	if (!close) {
		conn_set_state(c, CONN_IDLE, config_u64(&c->g->config, CONF_IDLE_TIMEOUT));
		return;
	}
	c->close_after = true;
	if (!read)
		buf_done(&c->in);
	conn_set_state(c, CONN_WORK, 0); /* until the answer is out */
}

/* A handler that saw a full queue hears when there is room again. */
static void tell_drained(struct conn *c)
{
	if (!c->was_high || buf_len(&c->out) >= REQ_LOW)
		return;
	c->was_high = false;
	if (c->req != NULL && c->req->drained != NULL)
		c->req->drained(c->req);
}

static void linger(struct conn *c)
{
	if (c->tls != NULL)
		tls_bye(c->tls);
	(void)shutdown(c->fd, SHUT_WR);
	buf_done(&c->in);
	conn_set_state(c, CONN_LINGER, LINGER_US);
}

void conn_progress(struct conn *c)
{
	bool more = true;

	if (c->in_progress || c->state == CONN_CLOSED)
		return;
	c->in_progress = true;
	while (more && !c->peer_gone && c->state != CONN_CLOSED) {
		if (c->close_after && buf_len(&c->out) == 0)
			break;
		more = conn_take_input(c);
		if (!more && c->tls != NULL && wants_input(c) && tls_pending(c->tls)) {
			conn_read_some(c);
			more = true;
		}
		conn_flush(c);
	}
	c->in_progress = false;
	if (c->peer_gone)
		conn_close(c);
	else
		tell_drained(c);
	if (c->close_after && buf_len(&c->out) == 0 && c->state == CONN_WORK)
		linger(c);
	if (conn_is_last(c) && c->state == CONN_IDLE && buf_len(&c->out) == 0)
		conn_close(c);
	conn_update(c);
}

static void conn_event(void *arg, uint32_t events)
{
	struct conn *c = arg;

	if ((events & (EPOLLERR | EPOLLHUP)) != 0 ||
	    ((events & EPOLLRDHUP) != 0 && !wants_input(c) && !c->close_after)) {
		conn_close(c);
		return;
	}
	if ((events & (EPOLLIN | EPOLLRDHUP)) != 0) {
		c->in_progress = true;
		conn_read_some(c);
		c->in_progress = false;
	}
	if ((events & EPOLLOUT) != 0)
		conn_flush(c);
	conn_progress(c);
}

/* --- birth ------------------------------------------------------------------------------------ */

void conn_new(struct gate *g, struct listener *l, int fd, const char *peer)
{
	struct conn *c = calloc(1, sizeof(*c));
	int one = 1;

	if (c == NULL) {
		(void)close(fd);
		return;
	}
	c->g = g;
	c->listener = l;
	c->fd = fd;
	buf_init(&c->in, IN_MAX);
	buf_init(&c->out, OUT_MAX);
	(void)snprintf(c->peer, sizeof(c->peer), "%s", peer);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (l->tls != NULL)
		c->tls = tls_new(l->tls, fd);
	if ((l->tls != NULL && c->tls == NULL) ||
	    loop_watch(&g->loop, &c->watch, fd, EPOLLIN | EPOLLRDHUP, conn_event, c) < 0) {
		tls_free(c->tls);
		(void)close(fd);
		free(c);
		return;
	}
	link_conn(c);
	g->nconns++;
	l->conns++;
	g->ninside += l->inside;
	/* The first head has to come at once. */
	conn_set_state(c, CONN_IDLE, config_u64(&g->config, CONF_HEADER_TIMEOUT));
	conn_update(c);
}

bool conns_make_room(struct gate *g)
{
	enum { LOOK = 256 };
	struct conn *c = g->conns_tail;

	for (unsigned int i = 0; i < LOOK && c != NULL; i++, c = c->prev)
		if ((c->state == CONN_IDLE || c->state == CONN_HEAD || c->state == CONN_LINGER) &&
		    buf_len(&c->out) == 0) {
			conn_close(c);
			return true;
		}
	return false;
}

void conns_leave(struct gate *g, const struct listener *l)
{
	struct conn *next;

	for (struct conn *c = g->conns; c != NULL; c = next) {
		next = c->next;
		if (c->listener == l && c->state == CONN_IDLE && buf_len(&c->out) == 0)
			conn_close(c);
	}
}

void conns_drain(struct gate *g)
{
	struct conn *next;

	for (struct conn *c = g->conns; c != NULL; c = next) {
		next = c->next;
		if (c->state == CONN_IDLE && buf_len(&c->out) == 0)
			conn_close(c);
		else if (c->req != NULL && c->req->stop != NULL)
			c->req->stop(c->req);
	}
}
