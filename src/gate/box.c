// SPDX-License-Identifier: Apache-2.0
#include "gate/box.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "gate/box_net.h"
#include "gate/boxes.h"
#include "gate/gate.h"
#include "gate/genv.h"
#include "wire/msg.h"
#include "wire/rlimits.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
	OUT_MAX = 40 * 1024 * 1024,
	INPUT_PIECE = 65536,
	FLUSH_AT = 65536,
	SILENT_US = 10 * 1000 * 1000,
};

/* --- frames to the box ------------------------------------------------------------------------ */

static void box_event(void *arg, uint32_t events);

static void flush(struct gbox *b)
{
	aboxes_save(b->g); /* first: the next gate knows what it was sent */
	while (buf_len(&b->out) > 0) {
		ssize_t n = send(b->fd, buf_head(&b->out), buf_len(&b->out),
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n <= 0) { /* it is gone: the keeper says why */
			buf_done(&b->out);
			break;
		}
		buf_take(&b->out, (size_t)n);
	}
	loop_change(&b->g->loop, &b->watch, buf_len(&b->out) > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static int send_flagged(struct gbox *b, uint16_t type, uint16_t flags, uint64_t id, uint64_t number,
			const void *p, size_t n)
{
	uint8_t header[FRAME_HEADER];

	if (b->fd < 0)
		return -EPIPE;
	if (buf_room(&b->out) < FRAME_HEADER + n)
		return -ENOBUFS;
	frame_put_header(header, type, flags, id, number, n);
	if (buf_put(&b->out, header, sizeof(header)) < 0 || buf_put(&b->out, p, n) < 0)
		return -ENOMEM;
	if (buf_len(&b->out) >= FLUSH_AT) {
		flush(b);
		return 0;
	}
	if (!b->dirty) { /* what one turn has to say goes in one piece */
		b->dirty = true;
		b->next_dirty = b->g->dirty_boxes;
		b->g->dirty_boxes = b;
	}
	b->g->unsaid = b->g->unsaid || (type != FRAME_ACK && type != FRAME_PAUSE);
	return 0;
}

static int send_frame(struct gbox *b, uint16_t type, uint64_t id, uint64_t number, const void *p,
		      size_t n)
{
	return send_flagged(b, type, 0, id, number, p, n);
}

void gboxes_flush(struct gate *g)
{
	g->unsaid = false;
	while (g->dirty_boxes != NULL) {
		struct gbox *b = g->dirty_boxes;

		g->dirty_boxes = b->next_dirty;
		b->dirty = false;
		if (b->fd >= 0)
			flush(b);
	}
}

static int send_hello(struct gbox *b)
{
	uint8_t body[FRAME_HELLO_BYTES];

	frame_put_hello(body);
	return send_frame(b, FRAME_HELLO, 0, 0, body, sizeof(body));
}

/* --- the end of a box --------------------------------------------------------------------------- */

static void gbox_free(void *arg)
{
	struct gbox *b = arg;

	buf_done(&b->out);
	free(b->part);
	free(b->request);
	free(b);
}

static void release(struct gbox *b)
{
	if (b->freed)
		return;
	b->freed = true;
	box_net_gone(b);
	for (struct gbox **at = &b->g->dirty_boxes; b->dirty && *at != NULL;
	     at = &(*at)->next_dirty)
		if (*at == b) {
			*at = b->next_dirty;
			b->dirty = false;
			break;
		}
	if (b->prev != NULL)
		b->prev->next = b->next;
	else
		b->g->boxes = b->next;
	if (b->next != NULL)
		b->next->prev = b->prev;
	b->g->nboxes--;
	genv_give(b->env);
	timer_clear(&b->g->loop, &b->handed);
	loop_defer(&b->g->loop, &b->deferred, gbox_free, b);
}

static void close_stream(struct gbox *b)
{
	timer_clear(&b->g->loop, &b->silent);
	loop_unwatch(&b->g->loop, &b->watch);
	fd_close(&b->fd);
}

static void forget_jobs(struct gbox *b)
{
	while (b->jobs != NULL) {
		struct gjob *j = b->jobs;

		b->jobs = j->next;
		j->box = NULL;
		if (j->ops->lost != NULL)
			j->ops->lost(j->arg);
	}
}

/* The box has ended without our asking. Jobs are not told one by one: the owner is. */
static void tell_gone(struct gbox *b, enum box_end why, const struct box_figures *f)
{
	if (b->ended)
		return;
	b->ended = true;
	close_stream(b);
	forget_jobs(b);
	if (b->ops->gone != NULL)
		b->ops->gone(b->arg, why, f);
}

static void on_ended(void *arg, struct chan_msg *m, const struct err *e)
{
	struct gbox *b = arg;
	struct box_figures f = { 0 };

	(void)e;
	if (m != NULL) {
		(void)box_figures_decode(m->body, m->len, &f);
		chan_msg_close(m);
	}
	if (b->on_end != NULL)
		b->on_end(b->end_arg, m != NULL ? &f : NULL);
	release(b);
}

static void ask_end(struct gbox *b)
{
	if (keeper_ask_box(&b->g->keeper, OP_BOX_END, b->id, on_ended, b) < 0)
		on_ended(b, NULL, NULL);
}

void gbox_end(struct gbox *b, void (*done)(void *arg, const struct box_figures *f), void *arg)
{
	b->ended = true;
	b->on_end = done;
	b->end_arg = arg;
	timer_clear(&b->g->loop, &b->handed);
	close_stream(b);
	forget_jobs(b);
	if (!b->making) /* else on_made() goes on from here */
		ask_end(b);
}

/* On its way to somebody who has not heard of it yet: it will be another one. */
static void spoil(struct gbox *b)
{
	b->bad = true;
	close_stream(b);
}

void gboxes_gone(struct gate *g, uint64_t id, enum gone_why why, const struct box_figures *f)
{
	for (struct gbox *b = g->boxes; b != NULL; b = b->next)
		if (b->id == id && !b->ended) {
			if (b->handing) {
				spoil(b);
				return;
			}
			tell_gone(b, why == GONE_DEADLINE ? BOX_END_DEADLINE : BOX_END_INIT, f);
			if (!b->making)
				release(b);
			return;
		}
}

void gboxes_refused(struct gate *g, uint64_t id, const char *call)
{
	struct gbox *b = g->boxes;

	while (b != NULL && b->id != id)
		b = b->next;
	if (b != NULL && b->ops->refused != NULL &&
	    (!b->ended || (b->on_end != NULL && b->end_arg == b->arg)))
		b->ops->refused(b->arg, call);
	else
		audit(g, "syscall_refused", NULL, "syscall", call, NULL);
}

/* What no init of ours says. */
static void broke(struct gbox *b, const char *how)
{
	if (b->ended)
		return;
	log_line(&b->g->log, LOG_WARN, "box_broke_protocol", log_u64("box", b->id),
		 log_str("how", how));
	if (b->handing) {
		spoil(b);
		return;
	}
	tell_gone(b, BOX_END_BROKEN, NULL);
	(void)keeper_ask_box(&b->g->keeper, OP_BOX_END, b->id, NULL, NULL);
	release(b);
}

/* --- frames from the box ------------------------------------------------------------------------ */

static struct gjob *find_job(const struct gbox *b, uint64_t id)
{
	struct gjob *j = b->jobs;

	while (j != NULL && j->id != id)
		j = j->next;
	return j;
}

static void unlink_job(struct gjob *j)
{
	struct gjob **at;

	if (j->box == NULL)
		return;
	for (at = &j->box->jobs; *at != NULL; at = &(*at)->next)
		if (*at == j) {
			*at = j->next;
			break;
		}
	j->box = NULL;
}

static void feed_memory(struct gjob *j)
{
	while (j->box != NULL && j->in_open && j->in != NULL && j->in_sent < j->in_len) {
		size_t n = gjob_input(j, j->in + j->in_sent, j->in_len - (size_t)j->in_sent);

		if (n == 0)
			return;
	}
	if (j->in != NULL && j->in_sent == j->in_len)
		gjob_input_end(j);
}

static void handle_hello(struct gbox *b, const struct frame *f)
{
	if (b->hello || !frame_hello_fits(f))
		broke(b, "its hello");
	else
		b->hello = true;
}

static void handle_refused(struct gjob *j, const struct frame *f)
{
	char why[256];
	struct msg_in in;
	int error;

	if (j->started)
		return; /* input or a signal that crossed the job's end */
	msg_in_init(&in, f->payload, f->len);
	error = (int)msg_get_u32(&in);
	(void)msg_get_str(&in, why, sizeof(why));
	if (j->adopted && (error == ESRCH || error == EINVAL || error == ENOTTY))
		return; /* the same, of a job whose start another gate saw */
	unlink_job(j);
	j->ops->failed(j->arg, error, why);
}

static void handle_exit(struct gbox *b, struct gjob *j, const struct frame *f)
{
	struct job_exit x;

	if (job_exit_decode(f->payload, f->len, &x) < 0) {
		broke(b, "a malformed exit");
		return;
	}
	j->told_end = true;
	j->in_open = false;
	j->ops->ended(j->arg, &x, f->number); /* acknowledged by its owner */
}

/* Output and messages. Behind its end only a cell says anything. */
static void handle_said(struct gbox *b, struct gjob *j, const struct frame *f)
{
	bool late = (f->flags & FRAME_LATE) != 0, text = f->type == FRAME_OUTPUT;
	unsigned int flags = f->flags & ~(unsigned int)FRAME_LATE;

	if (late && !j->told_end && j->adopted) { /* its refusal may come later */
		j->ops->failed(j->arg, EALREADY, "another gate had its end");
		return;
	}
	if (late != j->told_end || (text && (flags < 1 || flags > 2)) ||
	    (!text && (flags & ~(unsigned int)(FRAME_MORE | FRAME_END)) != 0))
		broke(b, "an output out of place");
	else if (text)
		j->ops->output(j->arg, f->number, flags, f->payload, f->len);
	else if (j->ops->message != NULL)
		j->ops->message(j->arg, f->number, flags, f->payload, f->len);
	else
		gjob_ack(j, f->number);
}

/* Init has said where the input of a job is, and there may be room for more. */
static void heard_place(struct gjob *j)
{
	j->in_known = true;
	if (j->in != NULL)
		feed_memory(j);
	else if (j->in_open && j->ops->want != NULL)
		j->ops->want(j->arg);
}

static void handle(struct gbox *b, const struct frame *f)
{
	struct gjob *j;
	bool numbered = f->type == FRAME_OUTPUT || f->type == FRAME_MESSAGE ||
			f->type == FRAME_STARTED || f->type == FRAME_EXIT;

	if (f->type == FRAME_HELLO) {
		handle_hello(b, f);
		return;
	}
	j = find_job(b, f->id);
	if (j == NULL) { /* of a job that nobody wants: let it go on */
		if (numbered)
			(void)send_frame(b, FRAME_ACK, f->id, f->number, NULL, 0);
		return;
	}
	if (numbered && f->number <= j->last)
		return;
	if (numbered)
		j->last = f->number;
	switch (f->type) {
	case FRAME_STARTED:
		j->started = true;
		gjob_ack(j, f->number);
		if (j->adopted && !j->in_known) /* nobody had begun it */
			heard_place(j);
		break;
	case FRAME_READY:
		if (j->ops->ready != NULL)
			j->ops->ready(j->arg);
		break;
	case FRAME_OUTPUT:
	case FRAME_MESSAGE:
		handle_said(b, j, f);
		break;
	case FRAME_EXIT:
		if (j->told_end)
			broke(b, "two ends of a job");
		else
			handle_exit(b, j, f);
		break;
	case FRAME_INPUT_ACK:
		if (j->adopted && f->number > j->in_sent) /* what the other gate had sent */
			j->in_sent = f->number;
		if (f->number > j->in_sent) {
			broke(b, "input taken that was never sent");
			break;
		}
		j->in_taken = f->number;
		heard_place(j);
		break;
	case FRAME_REFUSED:
		handle_refused(j, f);
		break;
	default:
		broke(b, "a frame out of place");
	}
}

/* Whole frames of p; how many bytes they took. */
static size_t handle_all(struct gbox *b, const uint8_t *p, size_t n)
{
	size_t at = 0;

	while (!b->ended) {
		struct frame f;
		ptrdiff_t used = frame_parse(p + at, n - at, FRAME_FROM_BOX, &f);

		if (used == 0)
			break;
		if (used < 0) {
			broke(b, "a malformed frame");
			break;
		}
		handle(b, &f);
		at += (size_t)used;
	}
	return at;
}

static void on_silent(void *arg)
{
	broke(arg, "it closed its stream");
}

/* Frames are read into the gate's own space; only the beginning of one that is not complete is kept. */
static void receive(struct gbox *b)
{
	static uint8_t space[2 * (FRAME_HEADER + FRAME_PAYLOAD_MAX)];
	size_t have = b->part_len, used;
	ssize_t n;

	if (have > 0)
		(void)memcpy(space, b->part, have);
	n = recv(b->fd, space + have, sizeof(space) - have, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) { /* the keeper's word about it is on the way, unless its init lives on */
		close_stream(b);
		if (timer_set(&b->g->loop, &b->silent, b->g->loop.now_us + SILENT_US, on_silent,
			      b) < 0)
			on_silent(b);
		return;
	}
	have += (size_t)n;
	used = handle_all(b, space, have);
	if (b->ended)
		return;
	b->part_len = 0;
	if (used == have) {
		free(b->part);
		b->part = NULL;
		return;
	}
	if (b->part == NULL)
		b->part = malloc(FRAME_HEADER + FRAME_PAYLOAD_MAX);
	if (b->part == NULL) {
		broke(b, "no memory for its frame");
		return;
	}
	b->part_len = have - used;
	(void)memcpy(b->part, space + used, b->part_len);
}

static void box_event(void *arg, uint32_t events)
{
	struct gbox *b = arg;

	if ((events & EPOLLOUT) != 0)
		flush(b);
	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && b->fd >= 0)
		receive(b);
}

/* --- birth -------------------------------------------------------------------------------------- */

static struct gbox *make(struct gate *g, uint32_t env, const struct gbox_ops *ops, void *arg,
			 struct err *e)
{
	struct genv *v = genv_by_id(g, env);
	struct gbox *b = v != NULL ? calloc(1, sizeof(*b)) : NULL;

	if (v == NULL) {
		(void)err_set(e, ERR_INPUT, 0, "its environment is not there any more");
		return NULL;
	}
	if (b == NULL) {
		(void)err_set(e, ERR_SYS, ENOMEM, "make a box");
		return NULL;
	}
	b->g = g;
	b->env = v;
	genv_take(v);
	b->ops = ops;
	b->arg = arg;
	b->fd = -1;
	b->making = true;
	b->cwd = box_workdir(0);
	b->next_job = clock_us(); /* of another gate were earlier ones: no id is used twice */
	buf_init(&b->out, OUT_MAX);
	b->next = g->boxes;
	if (b->next != NULL)
		b->next->prev = b;
	g->boxes = b;
	g->nboxes++;
	return b;
}

static void fail(struct gbox *b, const struct err *e)
{
	if (b->id != 0) /* of another gate, and of no use to this one */
		(void)keeper_ask_box(&b->g->keeper, OP_BOX_END, b->id, NULL, NULL);
	b->ended = true;
	b->ops->failed(b->arg, e);
	release(b);
}

static void on_made(void *arg, struct chan_msg *m, const struct err *e);

/* What the keeper is asked for, kept in case that it has to be asked again. 0 or -errno. */
static int keep_request(struct gbox *b, const struct box_request *q)
{
	static uint8_t body[8192];
	ptrdiff_t n = box_request_encode(q, body, sizeof(body));

	if (n < 0)
		return (int)n;
	free(b->request);
	b->request = malloc((size_t)n);
	if (b->request == NULL)
		return -ENOMEM;
	(void)memcpy(b->request, body, (size_t)n);
	b->request_len = (size_t)n;
	return 0;
}

static int ask_new(struct gbox *b)
{
	b->making = true;
	return keeper_ask(&b->g->keeper, OP_BOX_NEW, b->request, b->request_len, on_made, b);
}

/* A member of the pool has made room. */
static void on_room(void *arg, const struct box_figures *f)
{
	struct gbox *b = arg;
	struct err e;
	int r = b->ended ? -ECANCELED : ask_new(b);

	(void)f;
	if (r < 0) {
		(void)err_set(&e, ERR_SYS, -r, "ask the keeper");
		on_made(b, NULL, &e);
	}
}

/* Whether another box fewer could help. */
static bool is_scarce(const struct err *e)
{
	static const int errors[] = { ENOMEM, EAGAIN, ENOSPC, EMFILE, ENFILE };

	for (unsigned int i = 0; i < ARRAY_LEN(errors); i++)
		if (e->sys == errors[i])
			return true;
	return e->kind == ERR_LIMIT;
}

/* The same box without an image. 0 or -errno. */
static int cool(struct gbox *b)
{
	static struct box_request q;
	struct err e;

	if (box_request_decode(b->request, b->request_len, &q, &e) < 0 || q.image == 0 ||
	    (q.flags & (BOX_SPARE | BOX_FREEZES)) != 0)
		return -EINVAL;
	q.image = 0;
	return keep_request(b, &q);
}

/* Boxes that nobody has asked for must not stand in the way of one that somebody waits for; and an image that was made
 * anew meanwhile is not missed: a cold start is a start, too. */
static bool try_again(struct gbox *b, const struct err *e)
{
	if (b->ended || b->request == NULL)
		return false;
	if (e->sys == ESTALE)
		return cool(b) == 0 && ask_new(b) == 0;
	if (b->retried || !is_scarce(e))
		return false;
	b->retried = true;
	return pool_yield(b->g, on_room, b);
}

/* The answer to BOX_NEW or BOX_ATTACH. */
static void on_made(void *arg, struct chan_msg *m, const struct err *e)
{
	struct gbox *b = arg;
	struct err own;

	if (m == NULL && try_again(b, e))
		return;
	free(b->request);
	b->request = NULL;
	b->making = false;
	if (m == NULL && b->ended) {
		on_ended(b, NULL, NULL);
		return;
	}
	if (m == NULL) {
		fail(b, e);
		return;
	}
	if (m->nfds != 1 || box_info_decode(m->body, m->len, &b->info) < 0) {
		chan_msg_close(m);
		(void)err_set(&own, ERR_PROTO, 0, "the keeper's answer is malformed");
		if (b->ended)
			on_ended(b, NULL, NULL);
		else
			fail(b, &own);
		return;
	}
	b->id = b->info.box;
	if (b->ended) { /* gbox_end() came first */
		chan_msg_close(m);
		ask_end(b);
		return;
	}
	b->fd = m->fds[0];
	if (loop_watch(&b->g->loop, &b->watch, b->fd, EPOLLIN, box_event, b) < 0 ||
	    send_hello(b) < 0) {
		(void)err_set(&own, ERR_SYS, ENOMEM, "watch a box");
		close_stream(b);
		fail(b, &own);
		return;
	}
	b->ops->ready(b->arg, b);
}

struct gbox *gbox_new(struct gate *g, const struct box_request *q, const struct gbox_ops *ops,
		      void *arg, struct err *e)
{
	struct gbox *b = make(g, q->env, ops, arg, e);
	int r;

	if (b == NULL)
		return NULL;
	b->cwd = box_workdir(q->flags);
	b->owner.counted.box = UINT64_MAX; /* nobody has counted before us */
	r = keep_request(b, q);
	if (r == 0)
		r = ask_new(b);
	if (r < 0) {
		if (r == -EMSGSIZE)
			(void)err_set(e, ERR_INPUT, 0, "the mounts of this box are too long");
		else
			(void)err_set(e, ERR_SYS, -r, "ask the keeper");
		release(b);
		return NULL;
	}
	/* What nobody waits for takes no other's place. */
	b->retried = (q->flags & (BOX_SPARE | BOX_FREEZES)) != 0;
	return b;
}

int gbox_give_stream(struct gbox *b)
{
	int fd = b->fd;

	loop_unwatch(&b->g->loop, &b->watch);
	buf_done(&b->out);
	buf_init(&b->out, OUT_MAX);
	b->fd = -1;
	return fd;
}

struct gbox *gbox_adopt(struct gate *g, const struct box_info *info, const struct gbox_ops *ops,
			void *arg, struct err *e)
{
	struct gbox *b = make(g, info->env, ops, arg, e);
	int r;

	if (b == NULL)
		return NULL;
	b->id = info->box;
	b->info = *info;
	r = keeper_ask_box(&g->keeper, OP_BOX_ATTACH, b->id, on_made, b);
	if (r < 0) {
		(void)err_set(e, ERR_SYS, -r, "ask the keeper");
		release(b);
		return NULL;
	}
	return b;
}

/* --- from the pool ------------------------------------------------------------------------------ */

/* A box in place of this one, for the same owner. */
static void replace(struct gbox *b)
{
	static struct box_request q;
	struct err e;
	int r = -ENOMEM;

	b->g->pool.replaced++;
	(void)keeper_ask_box(&b->g->keeper, OP_BOX_END, b->id, NULL, NULL);
	close_stream(b);
	forget_jobs(b);
	buf_done(&b->out);
	buf_init(&b->out, OUT_MAX);
	free(b->part);
	b->part = NULL;
	b->part_len = 0;
	b->id = 0;
	b->hello = b->bad = b->made_ahead = b->retried = false;
	if (b->request != NULL && box_request_decode(b->request, b->request_len, &q, &e) == 0) {
		if (!warm_has(b->g, q.image))
			q.image = 0; /* made anew meanwhile: a cold start is a start, too */
		r = keep_request(b, &q);
	}
	if (r == 0)
		r = ask_new(b);
	if (r < 0) {
		(void)err_set(&e, ERR_SYS, -r, "ask the keeper");
		on_made(b, NULL, &e);
	}
}

static void on_handed(void *arg)
{
	struct gbox *b = arg;

	b->handing = false;
	if (b->bad || b->fd < 0) {
		replace(b);
		return;
	}
	free(b->request);
	b->request = NULL;
	b->ops->ready(b->arg, b);
}

/* The answer to BOX_LIMITS. Of a box that could not be changed nothing is left, or nothing that is of use. */
static void on_limited(void *arg, struct chan_msg *m, const struct err *e)
{
	struct gbox *b = arg;

	b->making = false;
	if (m != NULL)
		chan_msg_close(m);
	if (b->ended) { /* gbox_end() came first */
		ask_end(b);
		return;
	}
	if (m == NULL) {
		log_line(&b->g->log, LOG_WARN, "hand_out_failed", log_str("why", e->text));
		spoil(b);
	}
	on_handed(b);
}

static int ask_limits(struct gbox *b, const struct limits *l)
{
	uint8_t body[256];
	ptrdiff_t n = box_limits_encode(b->id, l, body, sizeof(body));

	return n < 0 ? (int)n
		     : keeper_ask(&b->g->keeper, OP_BOX_LIMITS, body, (size_t)n, on_limited, b);
}

int gbox_hand_out(struct gbox *b, const struct limits *has, const struct box_request *q,
		  const struct gbox_ops *ops, void *arg)
{
	uint8_t body[RLIMITS_BYTES];
	ptrdiff_t n = rlimits_encode(&q->limits, body, sizeof(body));
	int r = n < 0 ? (int)n : keep_request(b, q);

	/* What init has to see to; it hears of that before it hears of any program. */
	if (r == 0)
		r = send_frame(b, FRAME_LIMITS, 0, 0, body, (size_t)n);
	if (r == 0 && memcmp(has, &q->limits, sizeof(*has)) != 0) {
		r = ask_limits(b, &q->limits);
		b->making = r == 0;
	} else if (r == 0) {
		r = timer_set(&b->g->loop, &b->handed, b->g->loop.now_us, on_handed, b);
	}
	if (r < 0)
		return r;
	b->ops = ops;
	b->arg = arg;
	b->handing = b->made_ahead = true;
	return 0;
}

/* --- jobs --------------------------------------------------------------------------------------- */

int gjob_start(struct gbox *b, struct gjob *j, uint64_t id, const struct job_spec *spec,
	       const struct gjob_ops *ops, void *arg)
{
	static uint8_t body[FRAME_PAYLOAD_MAX];
	ptrdiff_t n = job_spec_encode(spec, body, sizeof(body));
	int r;

	if (n < 0)
		return -E2BIG;
	if (id == 0)
		id = ++b->next_job;
	*j = (struct gjob){ .box = b, .next = b->jobs, .ops = ops, .arg = arg, .id = id };
	j->in_open = (spec->flags & (JOB_STDIN | JOB_PTY)) != 0;
	j->window = job_window(spec->kind);
	r = send_frame(b, FRAME_RUN, id, 0, body, (size_t)n);
	if (r < 0) {
		j->box = NULL;
		return r;
	}
	b->jobs = j;
	return 0;
}

bool gjob_listens(const struct gjob *j)
{
	return !j->adopted || j->in_known;
}

size_t gjob_input(struct gjob *j, const void *p, size_t n)
{
	size_t at = 0;

	while (j->box != NULL && j->in_open && gjob_listens(j) && at < n &&
	       j->in_sent - j->in_taken < j->window) {
		size_t room = j->window - (size_t)(j->in_sent - j->in_taken), part = n - at;

		if (part > room)
			part = room;
		if (part > INPUT_PIECE)
			part = INPUT_PIECE;
		if (send_frame(j->box, FRAME_INPUT, j->id, j->in_sent, (const char *)p + at, part) <
		    0)
			break;
		j->in_sent += part;
		at += part;
	}
	return j->box == NULL || !j->in_open ? n : at;
}

int gjob_go(struct gjob *j, uint64_t timeout_us, uint64_t output_max, const void *p, size_t n)
{
	static uint8_t body[16 + JOB_GO_MAX];
	struct msg_out m;

	if (j->box == NULL)
		return -EPIPE;
	if (n > JOB_GO_MAX)
		return -E2BIG;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, timeout_us);
	msg_put_u64(&m, output_max);
	(void)memcpy(body + m.len, p, n);
	return send_frame(j->box, FRAME_GO, j->id, 0, body, m.len + n);
}

void gjob_give(struct gjob *from, struct gjob *to, const struct gjob_ops *ops, void *arg)
{
	*to = *from;
	to->ops = ops;
	to->arg = arg;
	for (struct gjob **at = &to->box->jobs; *at != NULL; at = &(*at)->next)
		if (*at == from) {
			*at = to;
			break;
		}
	from->box = NULL;
}

void gjob_input_end(struct gjob *j)
{
	if (j->box == NULL || !j->in_open)
		return;
	j->in_open = false;
	(void)send_frame(j->box, FRAME_INPUT_END, j->id, j->in_sent, NULL, 0);
}

void gjob_input_all(struct gjob *j, const void *p, size_t n)
{
	j->in = p;
	j->in_len = n;
	feed_memory(j);
}

void gjob_pause(struct gjob *j, bool on)
{
	if (j->box != NULL)
		(void)send_frame(j->box, FRAME_PAUSE, j->id, on, NULL, 0);
}

void gjob_clock(struct gjob *j, bool on)
{
	if (j->box != NULL)
		(void)send_frame(j->box, FRAME_CLOCK, j->id, on, NULL, 0);
}

void gjob_signal(struct gjob *j, int sig, unsigned int scope)
{
	uint8_t body[8];
	struct msg_out m;

	if (j->box == NULL)
		return;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u32(&m, (uint32_t)sig);
	msg_put_u32(&m, scope);
	(void)send_frame(j->box, FRAME_SIGNAL, j->id, 0, body, m.len);
}

void gbox_signal(struct gbox *b, int sig)
{
	struct gjob any = { .box = b };

	gjob_signal(&any, sig, 2);
}

int gjob_tell(struct gjob *j, const void *p, size_t n, bool end)
{
	if (j->box == NULL)
		return -EPIPE;
	if (n > CHANNEL_PAYLOAD_MAX)
		return -E2BIG;
	/* Of another gate were earlier ones: the numbers of this one are behind them. */
	if (j->told == 0)
		j->told = clock_us();
	return send_flagged(j->box, FRAME_TELL, end ? FRAME_NO_INPUT : 0, j->id, ++j->told, p, n);
}

void gjob_resize(struct gjob *j, uint16_t rows, uint16_t cols)
{
	uint8_t body[4];
	struct msg_out m;

	if (j->box == NULL)
		return;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u16(&m, rows);
	msg_put_u16(&m, cols);
	(void)send_frame(j->box, FRAME_RESIZE, j->id, 0, body, m.len);
}

void gjob_ack(struct gjob *j, uint64_t number)
{
	if (j->box == NULL)
		return;
	(void)send_frame(j->box, FRAME_ACK, j->id, number, NULL, 0);
	if (j->told_end && number >= j->last && !j->lingers)
		unlink_job(j);
}

void gjob_drop(struct gjob *j)
{
	if (j->box == NULL)
		return;
	/* What it said so far is taken; the rest is acknowledged as it comes. */
	if (j->last > 0)
		(void)send_frame(j->box, FRAME_ACK, j->id, j->last, NULL, 0);
	unlink_job(j);
}
