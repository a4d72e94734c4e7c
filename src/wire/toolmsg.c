// SPDX-License-Identifier: Apache-2.0
#include "wire/toolmsg.h"

#include "base/own.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { READ_SIZE = 128 * 1024, KEEP = 1024 * 1024 /* of an empty queue's memory */ };

static const struct toolmsg_row rows[] = {
	[TOOLMSG_NONE] = { 0 },
#define TOOLMSG(id, dir, min, max, fds, doc) [TOOLMSG_##id] = { #id, dir, min, max, fds },
#include "wire/toolmsg.tbl"
#undef TOOLMSG
};

const struct toolmsg_row *toolmsg_row(unsigned int type)
{
	return type > TOOLMSG_NONE && type < TOOLMSG_TYPE_MAX ? &rows[type] : NULL;
}

ptrdiff_t toolmsg_parse(const uint8_t *buf, size_t len, unsigned int dir, struct toolmsg *m)
{
	const struct toolmsg_row *row;
	struct msg_in in;
	size_t body;
	uint16_t zero;

	if (len < TOOLMSG_HEADER)
		return 0;
	msg_in_init(&in, buf, TOOLMSG_HEADER);
	body = msg_get_u32(&in);
	m->type = msg_get_u16(&in);
	zero = msg_get_u16(&in);
	m->id = msg_get_u64(&in);
	m->fd = -1;
	row = toolmsg_row(m->type);
	if (row == NULL || zero != 0 || (row->dir & dir) == 0 || body < row->min || body > row->max)
		return -EPROTO;
	if (len - TOOLMSG_HEADER < body)
		return 0;
	m->body = buf + TOOLMSG_HEADER;
	m->len = body;
	return (ptrdiff_t)(TOOLMSG_HEADER + body);
}

/* --- the stream --------------------------------------------------------------------------------- */

void toolmsg_open(struct toolmsg_stream *s, int fd)
{
	*s = (struct toolmsg_stream){ .fd = fd };
}

void toolmsg_close(struct toolmsg_stream *s)
{
	for (unsigned int i = 0; i < s->nfds_out; i++)
		(void)close(s->fds_out[i].fd);
	for (unsigned int i = 0; i < s->nfds_in; i++)
		(void)close(s->fds_in[i]);
	fd_close(&s->fd);
	free(s->out);
	free(s->in);
	*s = (struct toolmsg_stream){ .fd = -1 };
}

/* Room for n bytes behind *end: what lies before *at is moved over, then it grows. 0 or -ENOMEM. */
static int make_room(uint8_t **p, size_t *at, size_t *end, size_t *cap, size_t n)
{
	size_t held = *end - *at, want = *cap > 0 ? *cap : 4096;
	uint8_t *grown;

	if (*cap - *end >= n)
		return 0;
	if (held > 0 && *at > 0)
		(void)memmove(*p, *p + *at, held);
	*at = 0;
	*end = held;
	while (want - held < n)
		want *= 2;
	if (want == *cap)
		return 0;
	grown = realloc(*p, want);
	if (grown == NULL)
		return -ENOMEM;
	*p = grown;
	*cap = want;
	return 0;
}

/* An empty queue that was large gives its memory back. */
static void shrink(uint8_t **p, size_t *at, size_t *end, size_t *cap)
{
	if (*at != *end)
		return;
	*at = *end = 0;
	if (*cap > KEEP) {
		free(*p);
		*p = NULL;
		*cap = 0;
	}
}

int toolmsg_put(struct toolmsg_stream *s, uint16_t type, uint64_t id, const void *head,
		size_t nhead, const void *body, size_t nbody, int fd)
{
	const struct toolmsg_row *row = toolmsg_row(type);
	size_t n = TOOLMSG_HEADER + nhead + nbody;
	own_fd mine = fd;
	struct msg_out m;
	int r;

	if (s->fd < 0)
		return -EPIPE;
	if (row == NULL || nhead + nbody < row->min || nhead + nbody > row->max ||
	    row->fds != (fd >= 0 ? 1u : 0u))
		return -EMSGSIZE;
	if (toolmsg_queued(s) + n > TOOLMSG_QUEUE || (fd >= 0 && s->nfds_out == TOOLMSG_FDS))
		return -ENOBUFS;
	r = make_room(&s->out, &s->out_at, &s->out_end, &s->out_cap, n);
	if (r < 0)
		return r;
	if (fd >= 0) {
		s->fds_out[s->nfds_out].at = s->sent + toolmsg_queued(s);
		s->fds_out[s->nfds_out++].fd = fd_take(&mine);
	}
	msg_out_init(&m, s->out + s->out_end, TOOLMSG_HEADER);
	msg_put_u32(&m, (uint32_t)(nhead + nbody));
	msg_put_u16(&m, type);
	msg_put_u16(&m, 0);
	msg_put_u64(&m, id);
	if (nhead > 0)
		(void)memcpy(s->out + s->out_end + TOOLMSG_HEADER, head, nhead);
	if (nbody > 0)
		(void)memcpy(s->out + s->out_end + TOOLMSG_HEADER + nhead, body, nbody);
	s->out_end += n;
	return 0;
}

/* How much goes in one piece: a descriptor goes with the first byte of its own. */
static size_t piece(const struct toolmsg_stream *s)
{
	size_t n = toolmsg_queued(s);

	for (unsigned int i = 0; i < s->nfds_out; i++)
		if (s->fds_out[i].at > s->sent)
			return s->fds_out[i].at - s->sent < n ? (size_t)(s->fds_out[i].at - s->sent)
							      : n;
	return n;
}

static void sent_fd(struct toolmsg_stream *s)
{
	(void)close(s->fds_out[0].fd);
	s->nfds_out--;
	for (unsigned int i = 0; i < s->nfds_out; i++)
		s->fds_out[i] = s->fds_out[i + 1];
}

static ssize_t send_piece(struct toolmsg_stream *s, bool with_fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl;
	struct iovec iov = { .iov_base = s->out + s->out_at, .iov_len = piece(s) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (with_fd) {
		struct cmsghdr *c;

		(void)memset(&ctl, 0, sizeof(ctl));
		mh.msg_control = ctl.buf;
		mh.msg_controllen = sizeof(ctl.buf);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		(void)memcpy(CMSG_DATA(c), &s->fds_out[0].fd, sizeof(int));
	}
	return sendmsg(s->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int toolmsg_flush(struct toolmsg_stream *s)
{
	while (s->fd >= 0 && toolmsg_queued(s) > 0) {
		bool with_fd = s->nfds_out > 0 && s->fds_out[0].at == s->sent;
		ssize_t n = send_piece(s, with_fd);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n < 0)
			return -errno;
		if (with_fd)
			sent_fd(s);
		s->out_at += (size_t)n;
		s->sent += (uint64_t)n;
	}
	shrink(&s->out, &s->out_at, &s->out_end, &s->out_cap);
	return s->fd >= 0 ? 0 : -EPIPE;
}

/* Each is taken or closed: one that is neither is a leak. Whether there were no more than there may be. */
static bool take_fds(struct toolmsg_stream *s, struct msghdr *mh)
{
	bool fits = (mh->msg_flags & MSG_CTRUNC) == 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			(void)memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (s->nfds_in < TOOLMSG_FDS) {
				s->fds_in[s->nfds_in++] = fd;
			} else {
				(void)close(fd);
				fits = false;
			}
		}
	}
	return fits;
}

int toolmsg_fill(struct toolmsg_stream *s)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * TOOLMSG_FDS)];
	} ctl;
	struct iovec iov;
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = ctl.buf,
			     .msg_controllen = sizeof(ctl.buf) };
	ssize_t n;

	if (s->fd < 0)
		return -EPIPE;
	if (make_room(&s->in, &s->in_at, &s->in_end, &s->in_cap, READ_SIZE) < 0)
		return -ENOMEM;
	iov = (struct iovec){ .iov_base = s->in + s->in_end, .iov_len = s->in_cap - s->in_end };
	n = recvmsg(s->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!take_fds(s, &mh))
		return -EPROTO;
	if (n == 0)
		return -EPIPE;
	s->in_end += (size_t)n;
	return 1;
}

int toolmsg_next(struct toolmsg_stream *s, unsigned int dir, struct toolmsg *m)
{
	ptrdiff_t n = toolmsg_parse(s->in + s->in_at, s->in_end - s->in_at, dir, m);

	if (n < 0)
		return (int)n;
	if (n == 0) {
		shrink(&s->in, &s->in_at, &s->in_end, &s->in_cap);
		return 0;
	}
	if (rows[m->type].fds > 0) {
		if (s->nfds_in == 0)
			return -EPROTO;
		m->fd = s->fds_in[0];
		s->nfds_in--;
		for (unsigned int i = 0; i < s->nfds_in; i++)
			s->fds_in[i] = s->fds_in[i + 1];
	}
	s->in_at += (size_t)n;
	return 1;
}
