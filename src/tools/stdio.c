// SPDX-License-Identifier: Apache-2.0
/*
 * A server of MCP that is a program in a box of its own: lines of JSON over its standard input and output, which are frames on the stream
 * of that box's init.
 *
 * The box was made for it and is ended with it. What comes out of it is hostile: frames are read by wire/frame.h, and one that is none
 * ends the link.
 */
#include "tools/tools.h"

#include "base/own.h"
#include "tools/lines.h"
#include "wire/frame.h"
#include "wire/job.h"
#include "wire/msg.h"

#include "config.gen.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
	JOB = 1,
	OUT_MAX = 1024 * 1024,
	PIECE = 65536,
	UNASKED_MAX = 4 * 1024 * 1024, /* said while nobody has asked anything */
	ENV_MAX = 512,
};

struct boxed {
	struct toolway link; /* the first member */
	int fd;              /* -1: the box has gone */
	struct bytes frames; /* to init */
	struct bytes input;  /* messages that are not in frames yet */
	size_t nsent;        /* of frames */
	uint64_t unasked;
	uint64_t in_sent, in_taken, ack, acked;
	bool hello, started, ended, leaving;
	struct lines said;
	uint8_t in[FRAME_HEADER + FRAME_PAYLOAD_MAX];
	size_t in_len;
};

static const char *const environment[] = {
#define ENV(name, value) name "=" value,
#include "policy/environment.tbl"
#undef ENV
};

/* --- out ------------------------------------------------------------------------------------------ */

static void flush(struct boxed *b)
{
	while (b->fd >= 0 && b->nsent < b->frames.n) {
		ssize_t n = send(b->fd, b->frames.p + b->nsent, b->frames.n - b->nsent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break; /* what it has said before is read to its end */
		b->nsent += (size_t)n;
	}
	b->nsent = 0;
	bytes_clear(&b->frames);
}

static void put_frame(struct boxed *b, uint16_t type, uint64_t number, const void *p, size_t n)
{
	uint8_t header[FRAME_HEADER];

	frame_put_header(header, type, 0, type == FRAME_HELLO ? 0 : JOB, number, n);
	bytes_put(&b->frames, header, sizeof(header));
	bytes_put(&b->frames, p, n);
	if (b->frames.failed)
		mcpc_lost(&b->link.client, "the box of the server does not take what it is sent");
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* As much of the messages as the program may have before it. */
static void push(struct boxed *b)
{
	size_t at = 0, window = job_window(JOB_EXEC);

	while (at < b->input.n && b->in_sent - b->in_taken < window) {
		size_t room = window - (size_t)(b->in_sent - b->in_taken);
		size_t n = least(least(b->input.n - at, room), PIECE);

		put_frame(b, FRAME_INPUT, b->in_sent, b->input.p + at, n);
		b->in_sent += n;
		at += n;
	}
	if (at > 0)
		bytes_splice(&b->input, 0, at, NULL, 0);
	flush(b);
}

static int send_message(struct mcpc_way *w, const struct mcpc_message *m)
{
	struct boxed *b = (struct boxed *)w;

	bytes_put(&b->input, m->text, m->n);
	bytes_put(&b->input, "\n", 1);
	if (b->input.failed || b->fd < 0)
		return -ENOBUFS;
	push(b);
	return 0;
}

static bool is_idle(const struct toolway *l)
{
	const struct boxed *b = (const struct boxed *)l;

	return b->fd < 0 || b->ended || (!b->leaving && b->input.n == 0 && b->nsent >= b->frames.n);
}

static void leave(struct toolway *l)
{
	struct boxed *b = (struct boxed *)l;

	if (b->leaving)
		return;
	b->leaving = true;
	bytes_clear(&b->input);
	put_frame(b, FRAME_INPUT_END, b->in_sent, NULL, 0);
	flush(b);
}

/* --- in ------------------------------------------------------------------------------------------- */

static void broke(struct boxed *b, const char *how)
{
	mcpc_lost(&b->link.client, "the box of the server broke the protocol: %s", how);
	fd_close(&b->fd);
}

static void take_hello(struct boxed *b, const struct frame *f)
{
	if (b->hello || !frame_hello_fits(f))
		broke(b, "its hello");
	b->hello = true;
}

static void take_exit(struct boxed *b, const struct frame *f)
{
	struct job_exit x;

	b->ended = true;
	if (job_exit_decode(f->payload, f->len, &x) < 0)
		broke(b, "a malformed exit");
	else if (x.how == JOB_FAILED)
		mcpc_lost(&b->link.client, "the server cannot be started: %s: %s", x.stage,
			  strerrordesc_np(x.code) != NULL ? strerrordesc_np(x.code) : "?");
	else
		mcpc_lost(&b->link.client, "the server has ended, by %s %d",
			  x.how == JOB_EXITED ? "status" : "signal", x.code);
}

static void take_refusal(struct boxed *b, const struct frame *f)
{
	char why[256];
	struct msg_in in;

	if (b->started)
		return; /* input that crossed its end */
	msg_in_init(&in, f->payload, f->len);
	(void)msg_get_u32(&in);
	(void)msg_get_str(&in, why, sizeof(why));
	b->ended = true;
	mcpc_lost(&b->link.client, "the server cannot be started: %s",
		  msg_end(&in) == 0 ? why : "refused");
}

/* A server that talks to itself takes processor time from others, and is ended. */
static void take_output(struct boxed *b, const struct frame *f, uint64_t now_us)
{
	struct mcpc *c = &b->link.client;

	b->link.heard_us = now_us;
	b->unasked = c->nrequests == 0 ? b->unasked + f->len : 0;
	if (b->unasked > UNASKED_MAX)
		mcpc_lost(c, "the server says much that nobody has asked for");
	else if (f->flags == 1)
		lines_take(&b->said, c, f->payload, f->len, now_us);
	else
		lines_words(&b->said, f->payload, f->len);
}

static void take_frame(struct boxed *b, const struct frame *f, uint64_t now_us)
{
	if (f->type == FRAME_HELLO) {
		take_hello(b, f);
		return;
	}
	if (!b->hello || f->id != JOB) {
		broke(b, "a frame out of place");
		return;
	}
	if (f->number > b->ack && f->type != FRAME_INPUT_ACK)
		b->ack = f->number;
	switch (f->type) {
	case FRAME_STARTED:
		b->started = true;
		break;
	case FRAME_OUTPUT:
		take_output(b, f, now_us);
		break;
	case FRAME_INPUT_ACK:
		if (f->number > b->in_sent)
			broke(b, "input taken that was never sent");
		else
			b->in_taken = f->number;
		break;
	case FRAME_EXIT:
		take_exit(b, f);
		break;
	case FRAME_REFUSED:
		take_refusal(b, f);
		break;
	default:
		broke(b, "a frame out of place");
	}
}

static void take_frames(struct boxed *b, uint64_t now_us)
{
	size_t at = 0;

	while (b->fd >= 0 && !b->ended) {
		struct frame f;
		ptrdiff_t n = frame_parse(b->in + at, b->in_len - at, FRAME_FROM_BOX, &f);

		if (n < 0)
			broke(b, "a malformed frame");
		if (n <= 0)
			break;
		take_frame(b, &f, now_us);
		at += (size_t)n;
	}
	b->in_len -= at;
	(void)memmove(b->in, b->in + at, b->in_len);
	if (b->ack > b->acked && b->fd >= 0) {
		b->acked = b->ack;
		put_frame(b, FRAME_ACK, b->ack, NULL, 0);
	}
	push(b);
}

static void pull(struct boxed *b, uint64_t now_us)
{
	ssize_t n = recv(b->fd, b->in + b->in_len, sizeof(b->in) - b->in_len, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		fd_close(&b->fd);
		mcpc_lost(&b->link.client, "the box of the server has ended");
		return;
	}
	b->in_len += (size_t)n;
	take_frames(b, now_us);
}

static unsigned int wait_for(struct toolway *l, struct pollfd *p, uint64_t *deadline_us)
{
	const struct boxed *b = (const struct boxed *)l;

	(void)deadline_us;
	p[0] = (struct pollfd){
		.fd = b->fd,
		.events = (short)(b->nsent < b->frames.n ? POLLIN | POLLOUT : POLLIN),
	};
	return 1;
}

static void step(struct toolway *l, const struct pollfd *p, unsigned int n, uint64_t now_us)
{
	struct boxed *b = (struct boxed *)l;

	(void)n;
	if ((p[0].revents & POLLOUT) != 0)
		flush(b);
	if ((p[0].revents & ~POLLOUT) != 0 && b->fd >= 0)
		pull(b, now_us);
}

static void end(struct toolway *l)
{
	struct boxed *b = (struct boxed *)l;

	fd_close(&b->fd);
	bytes_done(&b->frames);
	bytes_done(&b->input);
	lines_done(&b->said);
	free(b);
}

/* --- the beginning ---------------------------------------------------------------------------------- */

static void put_hello(struct boxed *b)
{
	uint8_t body[FRAME_HELLO_BYTES];

	frame_put_hello(body);
	put_frame(b, FRAME_HELLO, 0, body, sizeof(body));
}

/* A variable of the server's takes the place of one of ours. */
static void put_environment(const struct spec *s, const char **v)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < ARRAY_LEN(environment); i++) {
		size_t len = strcspn(environment[i], "=") + 1;
		bool theirs = false;

		for (char *const *e = s->env; e != NULL && *e != NULL; e++)
			theirs = theirs || strncmp(*e, environment[i], len) == 0;
		if (!theirs)
			v[n++] = environment[i];
	}
	for (char *const *e = s->env; e != NULL && *e != NULL && n + 1 < ENV_MAX; e++)
		v[n++] = *e;
	v[n] = NULL;
}

static int put_job(struct boxed *b, const struct spec *s, struct err *e)
{
	static uint8_t body[FRAME_PAYLOAD_MAX];
	const char *env[ENV_MAX];
	struct job_spec job = { .kind = JOB_EXEC,
				.flags = JOB_STDIN | JOB_ATTENDED | JOB_PROMPT,
				.cwd = s->cwd != NULL ? s->cwd : "/workspace",
				.argv = (const char *const *)s->argv,
				.envp = env };
	ptrdiff_t n;

	put_environment(s, env);
	n = job_spec_encode(&job, body, sizeof(body));
	if (n < 0)
		return err_set(e, ERR_INPUT, E2BIG, "arguments and environment of the server");
	put_frame(b, FRAME_RUN, 0, body, (size_t)n);
	(void)memset(body, 0, (size_t)n); /* secrets may be in it */
	return 0;
}

struct toolway *toolway_box_open(const struct spec *s, const struct mcpc_bounds *bounds, int fd,
				 struct err *e)
{
	static const struct mcp_transport transport = { wait_for, step, is_idle, leave, end, NULL };
	struct boxed *b = calloc(1, sizeof(*b));

	if (b == NULL) {
		(void)close(fd);
		(void)err_set(e, ERR_SYS, ENOMEM, "start a server");
		return NULL;
	}
	b->fd = fd;
	b->link.transport = &transport;
	b->link.way.send = send_message;
	bytes_init(&b->frames, OUT_MAX);
	bytes_init(&b->input, bounds->message_bytes);
	lines_init(&b->said, bounds->message_bytes);
	mcpc_init(&b->link.client, &b->link.way, bounds, "glovebox", GLOVEBOX_VERSION);
	put_hello(b);
	if (put_job(b, s, e) < 0) {
		end(&b->link);
		return NULL;
	}
	flush(b);
	return &b->link;
}
