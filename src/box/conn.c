// SPDX-License-Identifier: Apache-2.0
/*
 * The stream to the gate.
 *
 * Frames in are handled as they complete. Frames out come from two places: the reply buffer
 * (unnumbered: HELLO, INPUT_ACK, REFUSED) and the rings of the jobs. A ring's bytes are sent from
 * one frame boundary to another before another source has its turn, so that frames never mix. A
 * gate that breaks the protocol loses its connection; the box goes on and waits for the next.
 *
 * A gate may die between two words to its clients and its box. What it had sent counts all the
 * same, for a client may have been told of it: a stream is read to its end before it is closed,
 * also when nothing can be sent on it any more, and also when the next gate is there already.
 */
#include "box/init.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/msg.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
	TURN_BYTES =
		128 * 1024,   /* of one job; then another has its turn, or this one may be paused */
	FLUSH_MAX = 4,        /* sends in a row; then the gate is heard: it may want a pause */
	LAST_READS = 64,      /* of a gate that was replaced: more than a socket holds */
	AGAIN_US = 10 * 1000, /* there was no memory: the box has used all of its own */
};

static void reply_put(struct init *in, uint16_t type, uint64_t id, uint64_t number, const void *p,
		      size_t n)
{
	if (in->gate_fd < 0 || in->gate_deaf)
		return;
	if (in->reply_at > 0) {
		in->reply_len -= in->reply_at;
		(void)memmove(in->reply, in->reply + in->reply_at, in->reply_len);
		in->reply_at = 0;
	}
	if (sizeof(in->reply) - in->reply_len < FRAME_HEADER + n) {
		conn_close(in); /* a gate that asks for ever and never reads */
		return;
	}
	frame_put_header(in->reply + in->reply_len, type, 0, id, number, n);
	if (n > 0)
		(void)memcpy(in->reply + in->reply_len + FRAME_HEADER, p, n);
	in->reply_len += FRAME_HEADER + n;
}

void conn_refuse(struct init *in, uint64_t id, int error, const char *why)
{
	uint8_t body[256];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, (uint32_t)error);
	msg_put_str(&m, why);
	if (!m.failed)
		reply_put(in, FRAME_REFUSED, id, 0, body, m.len);
}

void conn_ready(struct init *in, const struct job *j)
{
	if (in->gate_hello)
		reply_put(in, FRAME_READY, j->id, 0, NULL, 0);
}

void conn_input_ack(struct init *in, const struct job *j)
{
	reply_put(in, FRAME_INPUT_ACK, j->id, j->in_taken, NULL, 0);
}

void conn_close(struct init *in)
{
	if (in->gate_fd < 0)
		return;
	watch_del(in, in->gate_fd);
	fd_close(&in->gate_fd);
	in->gate_hello = in->gate_deaf = false;
	in->flush_again_us = 0;
	in->in_len = 0;
	in->reply_len = in->reply_at = 0;
	in->sending = -1;
	jobs_forsake(in);
}

static int handle_hello(struct init *in, const struct frame *f)
{
	struct msg_in m;
	uint32_t version, oldest;

	msg_in_init(&m, f->payload, f->len);
	version = msg_get_u32(&m);
	oldest = msg_get_u32(&m);
	(void)msg_get_u64(&m);
	if (msg_end(&m) < 0 || version < BOX_PROTO_OLDEST || oldest > BOX_PROTO_VERSION)
		return -EPROTO;
	in->gate_hello = true;
	for (unsigned int i = 0; i < JOBS_MAX; i++)
		if (in->jobs[i].state == JOB_RUNNING && in->jobs[i].in_buf != NULL &&
		    !in->jobs[i].forsaken) {
			/* A gate that took over goes on where the last one stopped: behind what was received. */
			reply_put(in, FRAME_INPUT_ACK, in->jobs[i].id, in->jobs[i].in_received,
				  NULL, 0);
			conn_input_ack(in, &in->jobs[i]);
		}
	return 0;
}

static int handle(struct init *in, const struct frame *f)
{
	if (!in->gate_hello)
		return f->type == FRAME_HELLO ? handle_hello(in, f) : -EPROTO;
	switch (f->type) {
	case FRAME_RUN:
		job_run(in, f);
		return 0;
	case FRAME_GO:
		job_go(in, f);
		return 0;
	case FRAME_INPUT:
		job_input(in, f);
		return 0;
	case FRAME_INPUT_END:
		job_input_end(in, f);
		return 0;
	case FRAME_TELL:
		cell_tell(in, f);
		return 0;
	case FRAME_SIGNAL:
		job_signal(in, f);
		return 0;
	case FRAME_RESIZE:
		job_resize(in, f);
		return 0;
	case FRAME_ACK:
		job_ack(in, f);
		return 0;
	case FRAME_PAUSE:
		job_pause(in, f);
		return 0;
	case FRAME_CLOCK:
		job_clock(in, f);
		return 0;
	case FRAME_LIMITS:
		return jobs_limit(in, f);
	default:
		return -EPROTO;
	}
}

static void handle_all(struct init *in)
{
	size_t at = 0;

	while (in->gate_fd >= 0) {
		struct frame f;
		ptrdiff_t n = frame_parse(in->in + at, in->in_len - at, FRAME_TO_BOX, &f);

		if (n == 0)
			break;
		if (n < 0 || handle(in, &f) < 0) {
			conn_close(in);
			return;
		}
		at += (size_t)n;
	}
	if (in->gate_fd < 0 || at == 0)
		return;
	in->in_len -= at;
	(void)memmove(in->in, in->in + at, in->in_len);
}

/* Whether something came. */
static bool receive(struct init *in)
{
	ssize_t n =
		recv(in->gate_fd, in->in + in->in_len, sizeof(in->in) - in->in_len, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		conn_close(in);
	if (n <= 0)
		return false;
	in->in_len += (size_t)n;
	handle_all(in);
	return true;
}

static void fall_silent(struct init *in)
{
	in->gate_deaf = true;
	in->sending = -1;
	in->reply_len = in->reply_at = 0;
}

/* What a gate had sent before another one came. */
static void hear_the_last(struct init *in)
{
	if (in->gate_fd < 0)
		return;
	fall_silent(in);
	for (int n = 0; n < LAST_READS && in->gate_fd >= 0; n++)
		if (!receive(in))
			break;
}

/* The next job with something to send, after the one that was served last. */
static int next_sender(const struct init *in)
{
	for (int i = 1; i <= JOBS_MAX; i++) {
		int slot = (in->last_sender + i) % JOBS_MAX;
		const struct job *j = &in->jobs[slot];

		if (j->state != JOB_FREE && !j->paused && !j->forsaken &&
		    j->ring.sent < j->ring.head)
			return slot;
	}
	return -1;
}

static ssize_t send_pieces(int fd, struct iovec *iov, int n)
{
	struct msghdr mh = { .msg_iov = iov };

	mh.msg_iovlen = (__typeof__(mh.msg_iovlen))n;
	return sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* One send. 1: go on, 0: nothing to send, -errno. */
static int send_some(struct init *in)
{
	struct iovec iov[2];
	ssize_t n;

	if (in->sending < 0 && in->reply_at < in->reply_len) {
		iov[0].iov_base = in->reply + in->reply_at;
		iov[0].iov_len = in->reply_len - in->reply_at;
		n = send_pieces(in->gate_fd, iov, 1);
		if (n < 0)
			return -errno;
		in->reply_at += (size_t)n;
		if (in->reply_at == in->reply_len)
			in->reply_at = in->reply_len = 0;
		return 1;
	}
	if (in->sending < 0) {
		if (!in->gate_hello)
			return 0;
		in->sending = next_sender(in);
		if (in->sending < 0)
			return 0;
		in->send_end = ring_pause(&in->jobs[in->sending].ring, TURN_BYTES);
	}
	n = send_pieces(in->gate_fd, iov,
			ring_unsent(&in->jobs[in->sending].ring, in->send_end, iov));
	if (n < 0)
		return -errno;
	in->jobs[in->sending].ring.sent += (uint64_t)n;
	if (in->jobs[in->sending].ring.sent == in->send_end) {
		in->last_sender = in->sending;
		in->sending = -1;
	}
	return 1;
}

void conn_flush(struct init *in)
{
	int r = 1;
	bool blocked;

	for (int n = 0; n < FLUSH_MAX && in->gate_fd >= 0 && !in->gate_deaf && r > 0; n++)
		r = send_some(in);
	if (in->gate_fd < 0)
		return;
	in->flush_again_us = r == -ENOBUFS || r == -ENOMEM ? clock_us() + AGAIN_US : 0;
	if (r < 0 && r != -EAGAIN && r != -EINTR && in->flush_again_us == 0) {
		fall_silent(in);                      /* and receive() finds its end */
		(void)shutdown(in->gate_fd, SHUT_WR); /* which a gate that lives makes now */
	}
	blocked = !in->gate_deaf && (r == -EAGAIN || r > 0);
	if (blocked != in->gate_watches_write) {
		watch_del(in, in->gate_fd);
		(void)watch_add(in, in->gate_fd, WATCH_GATE, 0,
				blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
		in->gate_watches_write = blocked;
	}
}

void conn_event(struct init *in, uint32_t events)
{
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && in->gate_fd >= 0)
		(void)receive(in);
}

void conn_open(struct init *in, int fd)
{
	uint8_t body[16];
	struct msg_out m;

	hear_the_last(in);
	conn_close(in);
	in->gate_fd = fd;
	in->gate_watches_write = false;
	(void)watch_add(in, fd, WATCH_GATE, 0, EPOLLIN);
	for (unsigned int i = 0; i < JOBS_MAX; i++)
		if (in->jobs[i].state != JOB_FREE) {
			ring_rewind(&in->jobs[i].ring);
			in->jobs[i].paused = false;
		}
	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, BOX_PROTO_VERSION);
	msg_put_u32(&m, BOX_PROTO_OLDEST);
	msg_put_u64(&m, 0);
	reply_put(in, FRAME_HELLO, 0, 0, body, m.len);
	conn_flush(in);
}
