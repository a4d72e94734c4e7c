// SPDX-License-Identifier: Apache-2.0
#include "cli/mcp_lines.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- in ------------------------------------------------------------------------------------------- */

void lines_in_init(struct lines_in *in, int fd, size_t max)
{
	in->fd = fd;
	in->at = in->n = 0;
	in->max = max;
	in->skipping = in->ended = false;
	bytes_init(&in->line, max);
}

void lines_in_done(struct lines_in *in)
{
	bytes_done(&in->line);
}

bool lines_in_has(const struct lines_in *in)
{
	return in->at < in->n || (in->ended && (in->line.n > 0 || in->skipping));
}

void lines_in_fill(struct lines_in *in)
{
	ssize_t n = read(in->fd, in->buf, sizeof(in->buf));

	in->at = 0;
	in->n = n > 0 ? (size_t)n : 0;
	in->ended = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

/* The line belongs to the caller. */
static int hand_over(struct lines_in *in, char **ret, size_t *ret_n)
{
	bytes_put(&in->line, "", 0); /* an empty one, too, is a text */
	if (in->line.failed || in->line.p == NULL)
		return -ENOMEM;
	*ret = in->line.p;
	*ret_n = in->line.n;
	if (*ret_n > 0 && in->line.p[*ret_n - 1] == '\r')
		in->line.p[--*ret_n] = '\0';
	bytes_init(&in->line, in->max);
	return 1;
}

int lines_in_next(struct lines_in *in, char **ret, size_t *ret_n)
{
	const char *from = in->buf + in->at;
	size_t left = in->n - in->at, n;
	const char *end = memchr(from, '\n', left);
	bool whole = end != NULL || in->ended;

	n = end != NULL ? (size_t)(end - from) : left;
	in->at += n + (end != NULL);
	if (in->skipping) {
		in->skipping = !whole;
		return end != NULL && in->at < in->n ? lines_in_next(in, ret, ret_n) : 0;
	}
	if (n > in->max - in->line.n) {
		bytes_done(&in->line);
		in->skipping = !whole;
		return -E2BIG;
	}
	bytes_put(&in->line, from, n);
	if (in->line.failed) {
		bytes_done(&in->line);
		in->skipping = !whole;
		return -ENOMEM;
	}
	if (end == NULL && (!in->ended || in->line.n == 0))
		return 0;
	return hand_over(in, ret, ret_n);
}

/* --- out ------------------------------------------------------------------------------------------ */

void lines_out_init(struct lines_out *out, int fd)
{
	out->fd = fd;
	out->at = 0;
	out->broken = false;
	bytes_init(&out->q, SIZE_MAX / 4); /* who puts looks at lines_out_waits() */
}

void lines_out_done(struct lines_out *out)
{
	bytes_done(&out->q);
}

size_t lines_out_waits(const struct lines_out *out)
{
	return out->q.n - out->at;
}

void lines_out_put(struct lines_out *out, const char *p, size_t n)
{
	if (out->broken)
		return;
	if (out->at > 0) { /* what was written makes room */
		bytes_splice(&out->q, 0, out->at, NULL, 0);
		out->at = 0;
	}
	bytes_put(&out->q, p, n);
	bytes_put(&out->q, "\n", 1);
	out->broken = out->q.failed; /* half a line is worse than none */
}

void lines_out_flush(struct lines_out *out)
{
	size_t n = lines_out_waits(out);
	ssize_t w;

	if (n == 0 || out->broken)
		return;
	w = write(out->fd, out->q.p + out->at, n < PIPE_BUF ? n : PIPE_BUF);
	if (w < 0 && errno != EINTR && errno != EAGAIN)
		out->broken = true;
	out->at += w > 0 ? (size_t)w : 0;
	if (out->at == out->q.n) {
		out->at = 0;
		if (out->q.cap > LINES_READ)
			bytes_done(&out->q); /* a large answer does not stay */
		else
			bytes_clear(&out->q);
	}
}
