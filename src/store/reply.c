// SPDX-License-Identifier: Apache-2.0
/*
 * Answers to the gate. The socket takes them at once, as a rule. If the gate is slow they wait
 * here, and no request is read meanwhile: so their number is bounded by one turn of requests and
 * what the open transfers may still say.
 */
#include "store/store.h"

#include "base/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { ANSWERS_MAX = 4 * STORE_PUTS_MAX };

/* The gate's socket: read it, or only wait until it can be written. */
static void watch_gate(struct store *s, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = (uint64_t)WATCH_GATE << 56 };

	(void)epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, s->gate_fd, &ev);
}

static void keep_answer(struct store *s, uint16_t type, uint64_t request, const void *body,
			size_t len, const int *fd)
{
	struct answer *a = NULL;

	if (s->nanswers < ANSWERS_MAX)
		a = malloc(sizeof(*a) + len);
	if (a == NULL) {
		s->ended = true; /* a gate that waits for ever is worse than a new one */
		return;
	}
	*a = (struct answer){ .type = type, .request = request, .fd = -1, .len = len };
	if (len > 0)
		(void)memcpy(a->body, body, len);
	if (fd != NULL) {
		a->fd = dup(*fd);
		if (a->fd < 0)
			s->ended = true;
	}
	if (s->answers == NULL) {
		s->answers_end = &s->answers;
		watch_gate(s, EPOLLOUT);
	}
	*s->answers_end = a;
	s->answers_end = &a->next;
	s->nanswers++;
}

static void reply(struct store *s, uint16_t type, uint64_t request, const void *body, size_t len,
		  const int *fd)
{
	int r = -EAGAIN;

	if (s->ended)
		return;
	if (s->answers == NULL)
		r = chan_send(s->gate_fd, type, request, body, len, fd, fd != NULL ? 1 : 0);
	if (r == -EAGAIN)
		keep_answer(s, type, request, body, len, fd);
	else if (r < 0)
		s->ended = true;
}

static void drop_first(struct store *s)
{
	struct answer *a = s->answers;

	s->answers = a->next;
	s->nanswers--;
	fd_close(&a->fd);
	free(a);
}

void reply_flush(struct store *s)
{
	while (s->answers != NULL) {
		const struct answer *a = s->answers;
		int r = chan_send(s->gate_fd, a->type, a->request, a->body, a->len, &a->fd,
				  a->fd >= 0 ? 1 : 0);

		if (r == -EAGAIN)
			return;
		if (r < 0) {
			s->ended = true;
			return;
		}
		drop_first(s);
	}
	watch_gate(s, EPOLLIN);
}

void reply_done(struct store *s)
{
	while (s->answers != NULL)
		drop_first(s);
}

void reply_ok(struct store *s, uint64_t request, const void *body, size_t len, const int *fd)
{
	reply(s, STORE_OK, request, body, len, fd);
}

void reply_meta(struct store *s, uint64_t request, const struct store_meta *m, const int *fd)
{
	uint8_t body[sizeof(*m) + 32];
	ptrdiff_t n = store_meta_encode(m, body, sizeof(body));

	if (n > 0)
		reply_ok(s, request, body, (size_t)n, fd);
}

void reply_failure(struct store *s, uint64_t request, const struct store_failure *f)
{
	uint8_t body[sizeof(*f) + 16];
	ptrdiff_t n = store_failure_encode(f, body, sizeof(body));

	if (n > 0)
		reply(s, STORE_FAILED, request, body, (size_t)n, NULL);
}

void reply_failed(struct store *s, uint64_t request, enum store_reason reason, const char *fmt, ...)
{
	struct store_failure f = { .reason = reason };
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f.text, sizeof(f.text), fmt, ap);
	va_end(ap);
	reply_failure(s, request, &f);
}

void failure_set(struct store_failure *f, int err, const char *what)
{
	int sys = err < 0 ? -err : err;

	switch (sys) {
	case ENOENT:
		f->reason = STORE_NOT_FOUND;
		break;
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		f->reason = STORE_FULL;
		break;
	case EBUSY:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		f->reason = STORE_BUSY;
		break;
	default:
		f->reason = STORE_BROKEN;
	}
	(void)snprintf(f->text, sizeof(f->text), "%s: %s", what, strerror(sys));
}
