// SPDX-License-Identifier: Apache-2.0
/*
 * What goes into a job and what comes out of it.
 *
 * Output is read when there is room for it in the ring. Some things come behind what was printed
 * before them, the EXIT of a job and a message of its kernel: what is in the pipes at that moment is
 * marked, and is read first. It is counted in bytes, and a pipe that is empty has none left: user code
 * that is root of its box can open a pipe of ours for reading, and take away what was counted.
 *
 * A program that prints line by line would have each of them carried on its own, by four processes. What it prints is read
 * at once, but not again before a millisecond has passed: what comes meanwhile is one piece. That is for one stream: what
 * comes on the other ends it, so their order is as good as it was. And not for terminals, where somebody looks at it, and
 * which hold so little that nothing would be gained.
 */
#include "box/init.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define COLLECT_US US_PER_MS
#define FEW        4096  /* bytes: as many at once need not be collected */
#define PTY_MAX    16384 /* a terminal does not tell how much it has: 4 KiB, and 8 behind that */

/* --- descriptors ---------------------------------------------------------------------------- */

static void out_close(struct init *in, struct out_stream *s)
{
	if (s->fd >= 0 && s->watched)
		watch_del(in, s->fd);
	s->watched = false;
	s->left = 0;
	s->later_us = 0;
	fd_close(&s->fd);
}

void streams_close(struct init *in, struct job *j)
{
	out_close(in, &j->out[0]);
	out_close(in, &j->out[1]);
}

void input_close(struct init *in, struct job *j)
{
	if (j->in_fd >= 0 && j->in_watched)
		watch_del(in, j->in_fd);
	j->in_watched = false;
	if (j->in_fd >= 0 && j->link != LINK_NONE) /* the other half has a descriptor of its own */
		(void)shutdown(j->in_fd, SHUT_WR);
	fd_close(&j->in_fd);
}

static bool wants_output(const struct job *j)
{
	if (cell_held(j))
		return false;
	return (j->state == JOB_TOLD && !cell_lingers(j)) || ring_has_room(&j->ring);
}

/* A pipe that hung up is reported whatever is asked for, so "not now" means out of the set. */
void streams_watch(struct init *in, struct job *j)
{
	bool room = wants_output(j);

	for (unsigned int i = 0; i < 2; i++) {
		struct out_stream *s = &j->out[i];
		bool want = s->fd >= 0 && room && s->later_us == 0;

		if (want && !s->watched &&
		    watch_add(in, s->fd, i == 0 ? WATCH_OUT : WATCH_ERR, job_slot(in, j), EPOLLIN) <
			    0) {
			want = false; /* no memory, or too many of them: then by looking */
			s->later_us = clock_us() + COLLECT_US;
		} else if (!want && s->watched && s->fd >= 0) {
			watch_del(in, s->fd);
		}
		s->watched = want;
	}
	if (j->in_fd >= 0) {
		bool want = j->in_len > 0;

		if (want && !j->in_watched)
			(void)watch_add(in, j->in_fd, WATCH_IN, job_slot(in, j), EPOLLOUT);
		else if (!want && j->in_watched)
			watch_del(in, j->in_fd);
		j->in_watched = want;
	}
}

/* --- output --------------------------------------------------------------------------------- */

/* Read and drop. The count, 0 at the end, -errno. */
static ssize_t discard(int fd, size_t max)
{
	static uint8_t sink[RING_READ_MAX];
	ssize_t n = read(fd, sink, max < sizeof(sink) ? max : sizeof(sink));

	return n < 0 ? -errno : n;
}

/* Whether what arrives now was printed after the job's end, by a daemon. */
static bool is_over(const struct job *j, const struct out_stream *s)
{
	return (j->state == JOB_TOLD && !cell_lingers(j)) ||
	       (j->state == JOB_ENDED && !job_reads_to_end(j) && s->left == 0);
}

/* One read of at most max bytes into the ring, or into nowhere beyond output_max. */
static ssize_t read_stream(struct job *j, unsigned int i, size_t max)
{
	uint16_t flags = (uint16_t)((i + 1) | (cell_lingers(j) ? FRAME_LATE : 0));
	struct out_stream *s = &j->out[i];
	bool full = j->output_max != 0 && s->kept >= j->output_max;
	ssize_t n;

	if (j->output_max != 0 && !full && j->output_max - s->kept < max)
		max = (size_t)(j->output_max - s->kept);
	n = full ? discard(s->fd, max)
		 : ring_read_from(&j->ring, s->fd, FRAME_OUTPUT, flags, j->id, max);
	if (n <= 0)
		return n;
	s->total += (uint64_t)n;
	s->left -= (uint64_t)n < s->left ? (uint64_t)n : s->left;
	if (full)
		s->cut = true;
	else
		s->kept += (uint64_t)n;
	return n;
}

void streams_mark(struct job *j)
{
	for (unsigned int i = 0; i < 2; i++) {
		int left = 0;

		if (j->out[i].fd < 0 || ioctl(j->out[i].fd, FIONREAD, &left) < 0 || left < 0)
			left = 0;
		else if ((j->flags & JOB_PTY) != 0)
			left = PTY_MAX;
		j->out[i].left = (uint64_t)left;
		j->out[i].later_us = 0;
	}
}

bool streams_behind(const struct job *j)
{
	return j->out[0].left > 0 || j->out[1].left > 0;
}

void streams_pump(struct init *in, struct job *j)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct out_stream *s = &j->out[i];

		while (s->left > 0 && ring_has_room(&j->ring)) {
			size_t max = s->left < RING_READ_MAX ? (size_t)s->left : RING_READ_MAX;
			ssize_t n = read_stream(j, i, max);

			if (n > 0 || n == -EINTR)
				continue;
			s->left = 0;
			if (n != -EAGAIN) /* a terminal ends with EIO */
				out_close(in, s);
		}
	}
}

static void take(struct init *in, struct job *j, unsigned int i)
{
	struct out_stream *s = &j->out[i];
	ssize_t n;

	if (is_over(j, s))
		n = discard(s->fd, RING_READ_MAX);
	else if (j->state == JOB_ENDED && !job_reads_to_end(j))
		n = -EAGAIN; /* no more than what was marked, and job_settle() does that */
	else
		n = read_stream(j, i, RING_READ_MAX);
	s->later_us = 0;
	j->drop_from = n > 0 && n < FEW ? i + 1 : 0;
	if (n > 0)
		j->drop_us = clock_us();
	if (n == -ECONNREFUSED && link_refused(in, j))
		return;
	if (n <= 0 && n != -EAGAIN && n != -EINTR)
		out_close(in, s);
}

/* Whether it prints a little again and again, and nobody waits for its end. */
static bool drips(const struct job *j, unsigned int i)
{
	return j->drop_from == i + 1 && (j->flags & (JOB_PTY | JOB_PROMPT)) == 0 &&
	       (j->state == JOB_RUNNING || cell_lingers(j)) && clock_us() < j->drop_us + COLLECT_US;
}

void out_event(struct init *in, struct job *j, unsigned int i)
{
	struct out_stream *s = &j->out[i], *other = &j->out[1 - i];

	if (s->fd < 0 || !wants_output(j))
		return;
	if (drips(j, i)) {
		s->later_us = j->drop_us + COLLECT_US;
		streams_watch(in, j);
		return;
	}
	if (other->later_us != 0 && other->fd >= 0) /* it has what was printed before */
		take(in, j, 1 - i);
	if (wants_output(j))
		take(in, j, i);
	job_settle(in, j);
}

uint64_t streams_due(struct init *in, struct job *j, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (unsigned int i = 0; i < 2 && j->state != JOB_FREE; i++) {
		struct out_stream *s = &j->out[i];

		if (s->later_us != 0 && s->later_us <= now) {
			s->later_us = 0;
			if (s->fd >= 0 && wants_output(j))
				take(in, j, i);
			if (s->fd >= 0 && drips(j, i)) /* without being watched in between */
				s->later_us = j->drop_us + COLLECT_US;
			job_settle(in, j);
		}
		if (s->later_us != 0 && s->later_us < next)
			next = s->later_us;
	}
	return next;
}

/* --- input ---------------------------------------------------------------------------------- */

static void feed_pipe(struct init *in, struct job *j)
{
	while (j->in_fd >= 0 && j->in_len > 0) {
		ssize_t n = write(j->in_fd, j->in_buf + j->in_at, j->in_len);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n < 0 && errno == ECONNREFUSED && link_refused(in, j))
			break;
		if (n < 0) { /* nobody reads any more: take the rest and forget it */
			j->in_taken += j->in_len;
			j->in_len = 0;
			input_close(in, j);
			break;
		}
		j->in_at += (size_t)n;
		j->in_len -= (size_t)n;
		j->in_taken += (uint64_t)n;
	}
	if (j->in_len == 0 && j->in_end && j->in_fd >= 0) {
		static const char eot = 4;

		if ((j->flags & JOB_PTY) != 0)
			(void)!write(j->in_fd, &eot, 1);
		input_close(in, j);
	}
}

void input_feed(struct init *in, struct job *j)
{
	if (j->cell != NULL)
		cell_feed(in, j);
	else
		feed_pipe(in, j);
	if (j->in_len == 0)
		j->in_at = 0;
	conn_input_ack(in, j);
	if (j->link != LINK_NONE && j->out[0].fd < 0)
		job_settle(in, j);
	else
		streams_watch(in, j);
}

void job_input(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);
	const uint8_t *p = f->payload;
	size_t n = f->len;

	/* Behind its end: what it said itself is on the way, and would be overtaken by a refusal. */
	if (j != NULL && j->state != JOB_RUNNING)
		return;
	if (j == NULL || j->in_buf == NULL) {
		conn_refuse(in, f->id, ESRCH, "no such job, or it takes no input");
		return;
	}
	/* A gate that took over may repeat what its predecessor had sent. */
	if (f->number < j->in_received) {
		uint64_t known = j->in_received - f->number;

		if (known >= n)
			return;
		p += known;
		n -= (size_t)known;
	}
	if (f->number > j->in_received || n > j->in_cap - j->in_len || j->in_end) {
		conn_refuse(in, f->id, EINVAL, "input beyond the window or after its end");
		return;
	}
	if (j->in_at > 0) {
		(void)memmove(j->in_buf, j->in_buf + j->in_at, j->in_len);
		j->in_at = 0;
	}
	(void)memcpy(j->in_buf + j->in_len, p, n);
	j->in_len += n;
	j->in_received += n;
	if (j->in_fd < 0 && j->cell == NULL) { /* closed by the reader: swallowed */
		j->in_taken += j->in_len;
		j->in_len = 0;
	}
	input_feed(in, j);
}

void job_input_end(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);

	if (j == NULL || j->in_buf == NULL || j->state != JOB_RUNNING)
		return;
	if (f->number != j->in_received) {
		conn_refuse(in, f->id, EINVAL, "end of input at another place than its bytes");
		return;
	}
	if (j->cell != NULL && !j->in_end)
		cell_asked(j);
	j->in_end = true;
	input_feed(in, j);
}
