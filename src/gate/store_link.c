// SPDX-License-Identifier: Apache-2.0
#include "gate/store_link.h"

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "gate/gate.h"

#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

enum { QUEUE_MAX = 8 * 1024 * 1024, PIPE_BYTES = 1024 * 1024 };

struct store_out {
	struct store_out *next;
	uint16_t type;
	uint64_t request;
	int fd; /* owned here */
	size_t len;
	uint8_t body[];
};

static void lost(struct store_link *s)
{
	/* The keeper starts both of us anew. */
	loop_unwatch(&s->g->loop, &s->watch);
	s->g->loop.stop = true;
}

static void send_waiting(struct store_link *s)
{
	while (s->first != NULL) {
		struct store_out *o = s->first;
		int r = chan_send(s->fd, o->type, o->request, o->body, o->len,
				  o->fd >= 0 ? &o->fd : NULL, o->fd >= 0 ? 1 : 0);

		if (r == -EAGAIN)
			break;
		if (r < 0) {
			lost(s);
			break;
		}
		s->first = o->next;
		s->queued -= o->len;
		fd_close(&o->fd);
		free(o);
	}
	loop_change(&s->g->loop, &s->watch, s->first != NULL ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static int send_later(struct store_link *s, uint16_t op, uint64_t request, const void *body,
		      size_t len, int fd)
{
	struct store_out *o;

	if (s->queued + len > QUEUE_MAX)
		return -EBUSY;
	o = malloc(sizeof(*o) + len);
	if (o == NULL)
		return -ENOMEM;
	*o = (struct store_out){ .type = op, .request = request, .len = len, .fd = -1 };
	if (fd >= 0)
		o->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0 && o->fd < 0) {
		free(o);
		return -EMFILE;
	}
	if (len > 0)
		(void)memcpy(o->body, body, len);
	if (s->first == NULL)
		s->first = o;
	else
		s->last->next = o;
	s->last = o;
	s->queued += len;
	loop_change(&s->g->loop, &s->watch, EPOLLIN | EPOLLOUT);
	return 0;
}

int64_t store_ask(struct store_link *s, uint16_t op, const void *body, size_t len, int fd,
		  store_fn fn, void *arg)
{
	uint64_t request = s->next_request + 1;
	int r = -EAGAIN;

	if (s->waiting >= STORE_CALLS - 1)
		return -EBUSY;
	while (s->calls[request % STORE_CALLS].request != 0)
		request++;
	if (s->first == NULL)
		r = chan_send(s->fd, op, request, body, len, fd >= 0 ? &fd : NULL, fd >= 0 ? 1 : 0);
	if (r == -EAGAIN)
		r = send_later(s, op, request, body, len, fd);
	if (r < 0)
		return r;
	s->next_request = request;
	s->calls[request % STORE_CALLS] =
		(struct store_call){ .request = request, .fn = fn, .arg = arg };
	s->waiting++;
	return (int64_t)request;
}

int64_t store_ask_name(struct store_link *s, uint16_t op, const char *tenant, const char *id,
		       store_fn fn, void *arg)
{
	uint8_t body[256];
	struct store_name n = { 0 };
	ptrdiff_t len;

	(void)snprintf(n.tenant, sizeof(n.tenant), "%s", tenant);
	(void)snprintf(n.id, sizeof(n.id), "%s", id);
	len = store_name_encode(&n, body, sizeof(body));
	return len < 0 ? len : store_ask(s, op, body, (size_t)len, -1, fn, arg);
}

void store_forget(struct store_link *s, const void *arg)
{
	for (unsigned int i = 0; i < STORE_CALLS; i++)
		if (s->calls[i].request != 0 && s->calls[i].arg == arg)
			s->calls[i].fn = NULL;
}

static void forget_request(struct store_link *s, uint64_t request)
{
	struct store_call *c = &s->calls[request % STORE_CALLS];

	if (c->request == request) {
		c->request = 0;
		s->waiting--;
	}
}

static void answer(struct store_link *s, struct chan_msg *m)
{
	struct store_call *c = &s->calls[m->request % STORE_CALLS];
	struct store_call call = *c;
	struct store_failure f = { .reason = STORE_BROKEN };

	if (m->request == 0 || c->request != m->request) {
		chan_msg_close(m);
		return;
	}
	c->request = 0;
	s->waiting--;
	if (call.fn == NULL || m->type != STORE_OK) {
		if (m->type == STORE_FAILED)
			(void)store_failure_decode(m->body, m->len, &f);
		chan_msg_close(m);
		if (call.fn != NULL)
			call.fn(call.arg, NULL, &f);
		return;
	}
	call.fn(call.arg, m, NULL);
}

static void on_event(void *arg, uint32_t events)
{
	static struct chan_msg m;
	struct store_link *s = arg;

	if ((events & EPOLLOUT) != 0)
		send_waiting(s);
	for (unsigned int i = 0; i < 64 && s->watch.fn != NULL; i++) {
		int r = chan_recv(s->fd, &m);

		if (r == -EAGAIN || r == -EINTR)
			return;
		if (r <= 0) {
			lost(s);
			return;
		}
		answer(s, &m);
	}
}

int store_link_start(struct gate *g, struct store_link *s, int fd, struct err *e)
{
	int r;

	s->g = g;
	s->fd = fd;
	(void)io_set_nonblock(fd, 1);
	r = loop_watch(&g->loop, &s->watch, fd, EPOLLIN, on_event, s);
	return r < 0 ? err_set(e, ERR_SYS, -r, "watch the store") : 0;
}

/* --- uploads ---------------------------------------------------------------------------------- */

static void upload_close(struct store_upload *u)
{
	loop_unwatch(&u->g->loop, &u->watch);
	fd_close(&u->fd);
}

static void upload_end(struct store_upload *u, const struct store_meta *meta,
		       const struct store_failure *f)
{
	upload_close(u);
	if (u->over)
		return;
	u->over = true;
	u->done(u->arg, meta, f);
}

/* The store could not take it to its end. Told when the caller has come to the end, too. */
static void on_put_failed(void *arg, struct chan_msg *m, const struct store_failure *f)
{
	struct store_upload *u = arg;

	if (m != NULL)
		chan_msg_close(m);
	u->put = 0;
	u->failed = true;
	if (f != NULL)
		u->failure = *f;
	upload_close(u);
	if (u->want != NULL && !u->over)
		u->want(u->arg);
}

static void on_writable(void *arg, uint32_t events)
{
	struct store_upload *u = arg;

	(void)events;
	loop_change(&u->g->loop, &u->watch, 0);
	if (u->want != NULL)
		u->want(u->arg);
}

int store_upload_start(struct gate *g, struct store_upload *u, const struct store_put *p,
		       void (*want)(void *arg),
		       void (*done)(void *arg, const struct store_meta *meta,
				    const struct store_failure *f),
		       void *arg)
{
	uint8_t body[2048];
	ptrdiff_t len = store_put_encode(p, body, sizeof(body));
	own_fd theirs = -1;
	int64_t request;
	int pair[2], r;

	*u = (struct store_upload){ .g = g, .fd = -1, .want = want, .done = done, .arg = arg };
	if (len < 0)
		return (int)len;
	if (pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	theirs = pair[0];
	u->fd = pair[1];
	(void)fcntl(u->fd, F_SETPIPE_SZ, PIPE_BYTES);
	r = loop_watch(&g->loop, &u->watch, u->fd, 0, on_writable, u);
	if (r < 0) {
		upload_close(u);
		return r;
	}
	request = store_ask(&g->store, STORE_OP_PUT, body, (size_t)len, theirs, on_put_failed, u);
	if (request < 0) {
		upload_close(u);
		return (int)request;
	}
	u->put = (uint64_t)request;
	return 0;
}

size_t store_upload_write(struct store_upload *u, const void *p, size_t n)
{
	size_t at = 0;

	if (u->failed || u->fd < 0)
		return n;
	while (at < n) {
		ssize_t w = write(u->fd, (const char *)p + at, n - at);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN) {
			loop_change(&u->g->loop, &u->watch, EPOLLOUT);
			break;
		}
		if (w < 0) { /* the store closed its end: its word is on the way */
			upload_close(u);
			return n;
		}
		at += (size_t)w;
		u->bytes += (uint64_t)w;
	}
	return at;
}

static void on_commit(void *arg, struct chan_msg *m, const struct store_failure *f)
{
	struct store_upload *u = arg;
	struct store_meta meta;

	if (u->put != 0)
		forget_request(&u->g->store, u->put);
	u->put = 0;
	if (m != NULL && store_meta_decode(m->body, m->len, &meta) == 0) {
		chan_msg_close(m);
		upload_end(u, &meta, NULL);
		return;
	}
	if (m != NULL)
		chan_msg_close(m);
	upload_end(u, NULL, f != NULL ? f : &u->failure);
}

static void end_later(void *arg)
{
	struct store_upload *u = arg;

	upload_end(u, NULL, &u->failure);
}

void store_upload_commit(struct store_upload *u)
{
	struct store_commit c = { .put = u->put, .size = u->bytes };
	uint8_t body[16];
	ptrdiff_t len = store_commit_encode(&c, body, sizeof(body));

	if (u->committing)
		return;
	u->committing = true;
	upload_close(u);
	if (u->failed) {
		end_later(u);
		return;
	}
	if (store_ask(&u->g->store, STORE_OP_COMMIT, body, (size_t)len, -1, on_commit, u) < 0) {
		u->failure = (struct store_failure){ .reason = STORE_BUSY };
		end_later(u);
	}
}

void store_upload_abort(struct store_upload *u)
{
	uint8_t body[8];
	ptrdiff_t len;

	if (u->g == NULL || u->over)
		return;
	u->over = true;
	upload_close(u);
	store_forget(&u->g->store, u);
	if (u->put == 0)
		return;
	forget_request(&u->g->store, u->put);
	len = store_abort_encode(u->put, body, sizeof(body));
	(void)store_ask(&u->g->store, STORE_OP_ABORT, body, (size_t)len, -1, NULL, NULL);
}
