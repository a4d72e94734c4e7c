// SPDX-License-Identifier: Apache-2.0
#include "gate/store_link.h"

#include "base/own.h"
#include "gate/gate.h"

#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>

enum { QUEUE_MAX = 8 * 1024 * 1024, PIPE_BYTES = 1024 * 1024 };

int64_t store_ask(struct store_link *s, uint16_t op, const void *body, size_t len, int fd,
		  store_fn fn, void *arg)
{
	return call_ask(&s->link, op, body, len, fd, (call_fn)fn, arg);
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
	call_redirect(&s->link, arg, NULL, NULL);
}

static void answer(void *arg, struct chan_msg *m)
{
	struct store_link *s = arg;
	struct store_failure f = { .reason = STORE_BROKEN };
	struct call call;
	store_fn fn;

	if (!call_answered(&s->link, m, &call))
		return;
	fn = (store_fn)call.fn;
	if (m->type == STORE_OK) {
		fn(call.arg, m, NULL);
		return;
	}
	if (m->type == STORE_FAILED)
		(void)store_failure_decode(m->body, m->len, &f);
	chan_msg_close(m);
	fn(call.arg, NULL, &f);
}

int store_link_start(struct gate *g, struct store_link *s, int fd, struct err *e)
{
	s->link = (struct call_link){ .calls = s->calls,
				      .ncalls = STORE_CALLS,
				      .queued_max = QUEUE_MAX,
				      .received = answer,
				      .arg = s };
	return call_start(g, &s->link, fd, "store", e);
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
		call_forget(&u->g->store.link, u->put);
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
	call_forget(&u->g->store.link, u->put);
	len = store_abort_encode(u->put, body, sizeof(body));
	(void)store_ask(&u->g->store, STORE_OP_ABORT, body, (size_t)len, -1, NULL, NULL);
}
