// SPDX-License-Identifier: Apache-2.0
/*
 * One job at a time over a box's stream.
 *
 * Writing to init may block: init never stops reading. Reading waits in poll(2) together with the
 * keeper's channel, standard input and the interrupt descriptor.
 */
#include "cli/box_client.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "wire/msg.h"

#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

enum { INPUT_WINDOW = 65536 };

struct run {
	struct box_client *b;
	const struct job_io *io;
	uint64_t id;
	uint64_t sent, taken; /* of standard input */
	bool in_done;         /* no more to send */
	bool started;
	uint64_t ack; /* number to acknowledge */
	bool ended;
	struct job_exit *x;
	struct err *e;
};

static int broke(struct err *e, const char *how)
{
	return err_set(e, ERR_PROTO, 0, "the box broke the protocol: %s", how);
}

static int send_all(int fd, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n > 0) {
		ssize_t w = send(fd, at, n, MSG_NOSIGNAL);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

static int send_frame(struct box_client *b, uint16_t type, uint64_t id, uint64_t number,
		      const void *p, size_t n, struct err *e)
{
	uint8_t header[FRAME_HEADER];
	int r;

	frame_put_header(header, type, 0, id, number, n);
	r = send_all(b->fd, header, sizeof(header));
	if (r == 0 && n > 0)
		r = send_all(b->fd, p, n);
	/* A box that is gone is reported by the keeper, with the reason. */
	return r < 0 && r != -EPIPE && r != -ECONNRESET
		       ? err_set(e, ERR_SYS, -r, "write to the box")
		       : 0;
}

/* --- frames from the box ---------------------------------------------------------------------- */

static int handle_refused(struct run *r, const struct frame *f)
{
	char why[256];
	struct msg_in m;
	int error;

	msg_in_init(&m, f->payload, f->len);
	error = (int)msg_get_u32(&m);
	(void)msg_get_str(&m, why, sizeof(why));
	if (msg_end(&m) < 0)
		return broke(r->e, "a malformed refusal");
	return err_set(r->e, ERR_SYS, error, "%s", why);
}

static int handle(struct run *r, const struct frame *f)
{
	int rc;

	if (f->id < r->id)
		return 0; /* a late word about an earlier job */
	if (f->id != r->id)
		return broke(r->e, "a frame of a job that does not exist");
	switch (f->type) {
	case FRAME_OUTPUT:
		if (f->flags < 1 || f->flags > 2)
			return broke(r->e, "an unknown stream");
		r->ack = f->number;
		rc = r->io->out != NULL ? r->io->out(r->io->arg, f->flags, f->payload, f->len) : 0;
		return rc < 0 ? err_set(r->e, ERR_INPUT, -rc, "write output") : 0;
	case FRAME_STARTED:
		r->ack = f->number;
		r->started = true;
		return 0;
	case FRAME_EXIT:
		r->ack = f->number;
		r->ended = true;
		return job_exit_decode(f->payload, f->len, r->x) < 0
			       ? broke(r->e, "a malformed exit")
			       : 0;
	case FRAME_INPUT_ACK:
		if (f->number > r->sent)
			return broke(r->e, "input acknowledged that was never sent");
		r->taken = f->number;
		return 0;
	case FRAME_REFUSED:
		/* Input or a signal that crossed the job's end is refused, too. */
		return r->started ? 0 : handle_refused(r, f);
	default:
		return broke(r->e, "a frame out of place");
	}
}

static int handle_all(struct run *r)
{
	struct box_client *b = r->b;
	size_t at = 0;

	while (!r->ended) {
		struct frame f;
		ptrdiff_t n = frame_parse(b->in + at, b->in_len - at, FRAME_FROM_BOX, &f);

		if (n == 0)
			break;
		if (n < 0)
			return broke(r->e, "a malformed frame");
		if (handle(r, &f) < 0)
			return -1;
		at += (size_t)n;
	}
	b->in_len -= at;
	(void)memmove(b->in, b->in + at, b->in_len);
	return 0;
}

/* 1: something came, 0: end of stream, -1. */
static int receive(struct box_client *b, struct err *e)
{
	ssize_t n = recv(b->fd, b->in + b->in_len, sizeof(b->in) - b->in_len, 0);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 1;
	if (n < 0 && errno != ECONNRESET)
		return err_set(e, ERR_SYS, errno, "read from the box");
	if (n <= 0)
		return 0;
	b->in_len += (size_t)n;
	return 1;
}

/* --- input ---------------------------------------------------------------------------------- */

static bool wants_input(const struct run *r)
{
	return !r->in_done && r->sent - r->taken < INPUT_WINDOW;
}

static int send_input(struct run *r)
{
	size_t room = INPUT_WINDOW - (size_t)(r->sent - r->taken);
	uint8_t buf[16384];
	const uint8_t *p = buf;
	ssize_t n;

	if (r->io->in_fd >= 0) {
		n = read(r->io->in_fd, buf, room < sizeof(buf) ? room : sizeof(buf));
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			return 0;
		if (n < 0)
			return err_set(r->e, ERR_INPUT, errno, "read standard input");
	} else {
		size_t left = r->io->in_len - (size_t)r->sent;

		p = r->io->in_buf + r->sent;
		n = (ssize_t)(left < room ? left : room);
	}
	if (n == 0) {
		r->in_done = true;
		return send_frame(r->b, FRAME_INPUT_END, r->id, r->sent, NULL, 0, r->e);
	}
	if (send_frame(r->b, FRAME_INPUT, r->id, r->sent, p, (size_t)n, r->e) < 0)
		return -1;
	r->sent += (uint64_t)n;
	return 0;
}

/* --- signals -------------------------------------------------------------------------------- */

static int send_signal(struct run *r, uint32_t sig, uint32_t scope)
{
	uint8_t body[8];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, sig);
	msg_put_u32(&m, scope);
	return send_frame(r->b, FRAME_SIGNAL, r->id, 0, body, m.len, r->e);
}

static int send_size(struct run *r)
{
	struct winsize w;
	uint8_t body[4];
	struct msg_out m;

	if (ioctl(r->io->in_fd, TIOCGWINSZ, &w) < 0)
		return 0;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u16(&m, w.ws_row);
	msg_put_u16(&m, w.ws_col);
	return send_frame(r->b, FRAME_RESIZE, r->id, 0, body, m.len, r->e);
}

static int handle_interrupt(struct run *r)
{
	int sig = r->io->interrupt != NULL ? r->io->interrupt(r->io->arg) : 0;

	if (sig < 0)
		return err_set(r->e, ERR_INPUT, EINTR, "ended");
	if (sig == 28 /* SIGWINCH */)
		return r->io->tty ? send_size(r) : 0;
	return sig > 0 ? send_signal(r, (uint32_t)sig, 0) : 0;
}

/* --- the loop ------------------------------------------------------------------------------- */

static int box_gone(struct run *r)
{
	/* The keeper says why; its word is on the way. */
	while (!r->b->keeper->box_gone)
		if (keeper_event(r->b->keeper, r->e) < 0)
			return -1;
	return err_set(r->e, ERR_SYS, EPIPE, "the box is gone");
}

static int turn(struct run *r)
{
	enum { BOX, KEEPER, INPUT, SIGNALS, N };
	struct pollfd p[N] = {
		[BOX] = { .fd = r->b->fd, .events = POLLIN },
		[KEEPER] = { .fd = r->b->keeper->fd, .events = POLLIN },
		[INPUT] = { .fd = r->io->in_fd >= 0 && wants_input(r) ? r->io->in_fd : -1,
			    .events = POLLIN },
		[SIGNALS] = { .fd = r->io->interrupt_fd, .events = POLLIN },
	};
	int rc;

	if (handle_interrupt(r) < 0)
		return -1;
	while (r->io->in_fd < 0 && wants_input(r))
		if (send_input(r) < 0)
			return -1;
	if (poll(p, N, -1) < 0)
		return errno == EINTR ? 0 : err_set(r->e, ERR_SYS, errno, "wait");
	if (p[INPUT].revents != 0 && send_input(r) < 0)
		return -1;
	if (p[BOX].revents != 0) {
		rc = receive(r->b, r->e);
		if (rc < 0)
			return -1;
		if (handle_all(r) < 0)
			return -1;
		if (rc == 0 && !r->ended)
			return box_gone(r);
	} else if (p[KEEPER].revents != 0) {
		if (keeper_event(r->b->keeper, r->e) < 0)
			return -1;
		/* What the box had sent before it went is still in the stream. */
	}
	return 0;
}

int box_run(struct box_client *b, const struct job_spec *spec, const struct job_io *io,
	    struct job_exit *x, struct err *e)
{
	static uint8_t body[FRAME_PAYLOAD_MAX];
	struct run r = { .b = b, .io = io, .id = ++b->next_job, .x = x, .e = e };
	ptrdiff_t n = job_spec_encode(spec, body, sizeof(body));
	uint64_t acked = 0;

	if (n < 0)
		return err_set(e, ERR_INPUT, E2BIG, "arguments and environment");
	r.in_done = (spec->flags & (JOB_STDIN | JOB_PTY)) == 0;
	if (send_frame(b, FRAME_RUN, r.id, 0, body, (size_t)n, e) < 0)
		return -1;
	while (!r.ended) {
		if (turn(&r) < 0)
			return -1;
		if (r.ack > acked && send_frame(b, FRAME_ACK, r.id, r.ack, NULL, 0, e) < 0)
			return -1;
		acked = r.ack;
	}
	return 0;
}

int box_open(struct box_client *b, int fd, struct keeper_client *k, struct err *e)
{
	uint8_t body[FRAME_HELLO_BYTES];
	struct frame f;
	struct msg_in in;
	ptrdiff_t n;
	uint32_t version, oldest;

	b->fd = fd;
	b->keeper = k;
	b->in_len = 0;
	b->next_job = 0;
	frame_put_hello(body);
	if (send_frame(b, FRAME_HELLO, 0, 0, body, sizeof(body), e) < 0)
		return -1;
	while ((n = frame_parse(b->in, b->in_len, FRAME_FROM_BOX, &f)) == 0) {
		int rc = receive(b, e);

		if (rc <= 0)
			return rc < 0 ? -1 : err_set(e, ERR_SYS, EPIPE, "the box is gone");
	}
	if (n < 0 || f.type != FRAME_HELLO)
		return broke(e, "no hello");
	msg_in_init(&in, f.payload, f.len);
	version = msg_get_u32(&in);
	oldest = msg_get_u32(&in);
	(void)msg_get_u64(&in);
	if (msg_end(&in) < 0 || version < BOX_PROTO_OLDEST || oldest > BOX_PROTO_VERSION)
		return err_set(e, ERR_PROTO, 0,
			       "the box's init speaks protocol %u to %u, we %d to %d", oldest,
			       version, BOX_PROTO_OLDEST, BOX_PROTO_VERSION);
	b->in_len -= (size_t)n;
	(void)memmove(b->in, b->in + n, b->in_len);
	return 0;
}

void box_close(struct box_client *b)
{
	fd_close(&b->fd);
}
