// SPDX-License-Identifier: Apache-2.0
/*
 * Bytes from one side to the other, through a pipe and without a copy (splice). A pipe is there only while it has something in it: most connections
 * are idle most of the time, and two more descriptors for each would be many.
 */
#include "egress/egress.h"

#include "base/own.h"

#include <fcntl.h>
#include <sys/socket.h>

enum {
	AT_ONCE = 256 * 1024,
	A_TURN = 1024 * 1024, /* then it is others' turn */
	SPARE_MAX = 64,
	LARGE_MAX =
		128, /* pipes of more than the usual size: the system allows 64 MiB of them to a user */
};

struct pipes {
	int spare[SPARE_MAX][2];
	unsigned int nspare, nlarge;
};

int pipes_start(struct egress *e)
{
	e->pipes = calloc(1, sizeof(*e->pipes));
	return e->pipes == NULL ? -ENOMEM : 0;
}

static int take_pipe(struct egress *e, int ret[2])
{
	struct pipes *p = e->pipes;

	if (p->nspare > 0) {
		p->nspare--;
		ret[0] = p->spare[p->nspare][0];
		ret[1] = p->spare[p->nspare][1];
		return 0;
	}
	if (pipe2(ret, O_CLOEXEC | O_NONBLOCK) < 0) {
		ret[0] = ret[1] = -1;
		return -errno;
	}
	if (!bounds_may_go_on(e, ret[1])) {
		fd_close(&ret[0]);
		fd_close(&ret[1]);
		return -EMFILE;
	}
	if (p->nlarge < LARGE_MAX && fcntl(ret[1], F_SETPIPE_SZ, AT_ONCE) > 0)
		p->nlarge++;
	return 0;
}

/* One that is empty. */
static void give_pipe(struct pipes *p, int pipe[2])
{
	if (p->nspare < SPARE_MAX) {
		p->spare[p->nspare][0] = fd_take(&pipe[0]);
		p->spare[p->nspare][1] = fd_take(&pipe[1]);
		p->nspare++;
		return;
	}
	if (fcntl(pipe[1], F_GETPIPE_SZ) == AT_ONCE)
		p->nlarge--;
	fd_close(&pipe[0]);
	fd_close(&pipe[1]);
}

/* Into the pipe. 1: something came, 0: nothing now, or nothing more. */
static int fill(struct egress *e, struct relay *r, uint64_t most)
{
	ssize_t n;
	int failed;

	if (r->ended)
		return 0;
	if (r->pipe[0] < 0) {
		failed = take_pipe(e, r->pipe);
		if (failed < 0)
			return failed;
	}
	n = splice(r->from, NULL, r->pipe[1], NULL, most < AT_ONCE ? (size_t)most : AT_ONCE,
		   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
	if (n > 0) {
		r->in_pipe += (size_t)n;
		return 1;
	}
	if (n == 0) {
		r->ended = true;
		return 0;
	}
	return errno == EAGAIN || errno == EINTR ? 0 : -errno;
}

/* Out of it. 1: it is empty, 0: the other side takes no more now. */
static int empty(struct relay *r)
{
	while (r->in_pipe > 0) {
		ssize_t n = splice(r->pipe[0], NULL, r->to, NULL, r->in_pipe,
				   SPLICE_F_MOVE | SPLICE_F_NONBLOCK);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		if (n == 0)
			return -EPIPE;
		r->in_pipe -= (size_t)n;
		r->bytes += (uint64_t)n;
	}
	return 1;
}

int relay_step(struct egress *e, struct relay *r, uint64_t most)
{
	uint64_t until = r->bytes + r->in_pipe + (most < A_TURN ? most : A_TURN);
	int came = 1, out = 1;

	while (came > 0 && out > 0) {
		out = empty(r);
		if (out > 0)
			came = r->bytes < until ? fill(e, r, until - r->bytes) : 0;
	}
	if (out < 0 || came < 0)
		return out < 0 ? out : came;
	if (r->in_pipe > 0)
		return 0;
	if (r->pipe[0] >= 0)
		give_pipe(e->pipes, r->pipe);
	if (r->ended && !r->shut) {
		r->shut = true;
		(void)shutdown(r->to, SHUT_WR);
	}
	return 0;
}

void relay_done(struct egress *e, struct relay *r)
{
	if (r->pipe[0] < 0)
		return;
	if (fcntl(r->pipe[1], F_GETPIPE_SZ) == AT_ONCE)
		e->pipes->nlarge--;
	fd_close(&r->pipe[0]); /* there is something in it */
	fd_close(&r->pipe[1]);
}

bool relay_wants_read(const struct relay *r)
{
	return !r->ended && r->in_pipe == 0;
}

bool relay_wants_write(const struct relay *r)
{
	return r->in_pipe > 0;
}

bool relay_is_over(const struct relay *r)
{
	return r->shut;
}
