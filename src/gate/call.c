// SPDX-License-Identifier: Apache-2.0
#include "gate/call.h"

#include "base/io.h"
#include "base/own.h"
#include "gate/gate.h"

#include <fcntl.h>
#include <string.h>

/* A message that the socket did not take. Keeper and store always read; this is for bursts. */
struct call_out {
	struct call_out *next;
	uint16_t type;
	uint64_t request;
	int fd; /* owned here */
	size_t len;
	uint8_t body[];
};

static void lost(struct call_link *l)
{
	/* Without the keeper there is nothing to do, and nobody to do it for; without the store, the keeper
	 * starts both of us anew. */
	loop_unwatch(&l->g->loop, &l->watch);
	l->g->loop.stop = true;
}

/* --- asking ----------------------------------------------------------------------------------- */

static int send_now(const struct call_link *l, uint16_t op, uint64_t request, const void *body,
		    size_t len, int fd)
{
	return chan_send(l->fd, op, request, body, len, fd >= 0 ? &fd : NULL, fd >= 0 ? 1 : 0);
}

static void send_waiting(struct call_link *l)
{
	while (l->first != NULL) {
		struct call_out *o = l->first;
		int r = send_now(l, o->type, o->request, o->body, o->len, o->fd);

		if (r == -EAGAIN)
			break;
		if (r < 0) {
			lost(l);
			break;
		}
		l->first = o->next;
		l->queued -= o->len;
		fd_close(&o->fd);
		free(o);
	}
	loop_change(&l->g->loop, &l->watch, l->first != NULL ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static int send_later(struct call_link *l, uint16_t op, uint64_t request, const void *body,
		      size_t len, int fd)
{
	struct call_out *o;

	if (l->queued + len > l->queued_max)
		return -EBUSY;
	o = malloc(sizeof(*o) + len);
	if (o == NULL)
		return -ENOMEM;
	*o = (struct call_out){ .type = op, .request = request, .len = len, .fd = -1 };
	if (fd >= 0)
		o->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && o->fd < 0) {
		free(o);
		return -EMFILE;
	}
	if (len > 0)
		(void)memcpy(o->body, body, len);
	if (l->first == NULL)
		l->first = o;
	else
		l->last->next = o;
	l->last = o;
	l->queued += len;
	loop_change(&l->g->loop, &l->watch, EPOLLIN | EPOLLOUT);
	return 0;
}

int64_t call_ask(struct call_link *l, uint16_t op, const void *body, size_t len, int fd, call_fn fn,
		 void *arg)
{
	uint64_t request = l->next_request + 1;
	int r = -EAGAIN;

	if (l->waiting == l->ncalls)
		return -EBUSY;
	while (l->calls[request % l->ncalls].request != 0)
		request++;
	if (l->first == NULL)
		r = send_now(l, op, request, body, len, fd);
	if (r == -EAGAIN)
		r = send_later(l, op, request, body, len, fd);
	if (r < 0)
		return r;
	l->next_request = request;
	l->calls[request % l->ncalls] = (struct call){ .request = request, .fn = fn, .arg = arg };
	l->waiting++;
	return (int64_t)request;
}

/* --- answers ---------------------------------------------------------------------------------- */

void call_redirect(struct call_link *l, const void *arg, call_fn to, void *to_arg)
{
	for (unsigned int i = 0; i < l->ncalls && l->waiting > 0; i++)
		if (l->calls[i].request != 0 && l->calls[i].arg == arg) {
			l->calls[i].fn = to;
			l->calls[i].arg = to_arg;
		}
}

void call_forget(struct call_link *l, uint64_t request)
{
	struct call *c = &l->calls[request % l->ncalls];

	if (c->request == request) {
		c->request = 0;
		l->waiting--;
	}
}

bool call_answered(struct call_link *l, struct chan_msg *m, struct call *ret)
{
	*ret = l->calls[m->request % l->ncalls];
	if (m->request == 0 || ret->request != m->request) {
		chan_msg_close(m);
		return false;
	}
	call_forget(l, m->request);
	if (ret->fn == NULL)
		chan_msg_close(m);
	return ret->fn != NULL;
}

static void on_event(void *arg, uint32_t events)
{
	static struct chan_msg m;
	struct call_link *l = arg;

	if ((events & EPOLLOUT) != 0)
		send_waiting(l);
	for (unsigned int i = 0; i < 64 && l->watch.fn != NULL; i++) {
		int r = chan_recv(l->fd, &m);

		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r <= 0) {
			lost(l);
			return;
		}
		l->received(l->arg, &m);
	}
}

int call_start(struct gate *g, struct call_link *l, int fd, const char *name, struct err *e)
{
	int r;

	l->g = g;
	l->fd = fd;
	(void)io_set_nonblock(fd, 1);
	r = loop_watch(&g->loop, &l->watch, fd, EPOLLIN, on_event, l);
	return r < 0 ? err_set(e, ERR_SYS, -r, "watch the %s", name) : 0;
}
