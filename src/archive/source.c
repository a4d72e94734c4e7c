// SPDX-License-Identifier: Apache-2.0
#include "archive/source.h"

#include "base/own.h"

#include <poll.h>
#include <string.h>

void source_init(struct source *s, int fd, int stop_fd)
{
	*s = (struct source){ .fd = fd, .stop_fd = stop_fd };
	s->at = s->buf;
	tar_guard_init(&s->guard);
}

void source_done(struct source *s)
{
	if (s->gzip)
		(void)inflateEnd(&s->z);
}

static int fail(struct source *s, int error, const char *why)
{
	s->error = error;
	s->why = why;
	return -1;
}

/* Bytes of standard input: how many, 0 at its end, -1. Being asked to stop comes first. */
static ssize_t read_some(struct source *s, void *p, size_t n)
{
	struct pollfd fds[] = { { .fd = s->stop_fd, .events = POLLIN },
				{ .fd = s->fd, .events = POLLIN } };
	ssize_t got;

	if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
		return fail(s, errno, strerror(errno));
	if (fds[0].revents != 0)
		return fail(s, EINTR, "asked to stop");
	do
		got = read(s->fd, p, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? fail(s, errno, strerror(errno)) : got;
}

/* Behind the end of a stream: another one, or zeros up to the end of the input. */
static int between_streams(struct source *s)
{
	while (s->z.avail_in > 0 && s->z.next_in[0] == 0) {
		s->padded = true;
		s->z.next_in++;
		s->z.avail_in--;
	}
	if (s->z.avail_in == 0)
		return 0;
	if (s->padded || s->z.next_in[0] != 0x1f)
		return fail(s, EBADMSG, "bytes behind the end of the archive");
	s->between = false;
	return inflateReset(&s->z) == Z_OK ? 0 : fail(s, ENOMEM, "no memory to decompress");
}

static ssize_t inflate_some(struct source *s, uint8_t *p, size_t n)
{
	s->z.next_out = p;
	s->z.avail_out = (unsigned int)n;
	while (s->z.avail_out == n) {
		ssize_t got = 1;
		int r;

		if (s->z.avail_in == 0) {
			got = read_some(s, s->in, sizeof(s->in));
			if (got < 0)
				return -1;
			s->z.next_in = s->in;
			s->z.avail_in = (unsigned int)got;
		}
		if (got == 0)
			return s->between ? 0 : fail(s, EBADMSG, "the archive is cut");
		if (s->between && between_streams(s) < 0)
			return -1;
		if (s->between)
			continue;
		r = inflate(&s->z, Z_NO_FLUSH);
		s->between = r == Z_STREAM_END;
		if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
			return fail(s, r == Z_MEM_ERROR ? ENOMEM : EBADMSG,
				    "its compression is damaged");
	}
	return (ssize_t)(n - s->z.avail_out);
}

/* What the archive begins with decides. */
static int begin(struct source *s)
{
	ssize_t got = 1;
	size_t n = 0;

	while (n < 2 && got > 0) {
		got = read_some(s, s->in + n, sizeof(s->in) - n);
		if (got < 0)
			return -1;
		n += (size_t)got;
	}
	s->begun = true;
	if (n < 2 || s->in[0] != 0x1f || s->in[1] != 0x8b) {
		(void)memcpy(s->buf, s->in, n);
		s->n = n;
		return 0;
	}
	if (inflateInit2(&s->z, 15 + 16) != Z_OK) /* the largest window, gzip's form only */
		return fail(s, ENOMEM, "no memory to decompress");
	s->gzip = true;
	s->z.next_in = s->in;
	s->z.avail_in = (unsigned int)n;
	return 0;
}

/* Have as much as the guard wants to see at once, if there is so much. */
static int fill(struct source *s)
{
	size_t wants = tar_guard_wants(&s->guard);

	if (!s->begun && begin(s) < 0)
		return -1;
	if (s->n >= wants || s->over)
		return 0;
	(void)memmove(s->buf, s->at, s->n);
	s->at = s->buf;
	while (s->n < wants) {
		uint8_t *to = s->buf + s->n;
		size_t room = sizeof(s->buf) - s->n;
		ssize_t got = s->gzip ? inflate_some(s, to, room) : read_some(s, to, room);

		if (got < 0)
			return -1;
		s->over = got == 0;
		if (s->over)
			break;
		s->n += (size_t)got;
	}
	return 0;
}

ssize_t source_piece(struct source *s, const void **ret)
{
	ptrdiff_t n;

	if (s->error != 0 || fill(s) < 0)
		return -1;
	if (s->n < tar_guard_wants(&s->guard)) {
		if (tar_guard_end(&s->guard, s->n, &s->why) < 0)
			return fail(s, EBADMSG, s->why);
		return 0;
	}
	n = tar_guard_take(&s->guard, s->at, s->n, &s->why);
	if (n < 0)
		return fail(s, EBADMSG, s->why);
	*ret = s->at;
	s->at += n;
	s->n -= (size_t)n;
	return n;
}

int source_rest(struct source *s)
{
	const void *p;
	ssize_t n;

	do
		n = source_piece(s, &p);
	while (n > 0);
	return (int)n;
}
