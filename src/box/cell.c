// SPDX-License-Identifier: Apache-2.0
/*
 * Kernels and their cells.
 *
 * A kernel is a job whose process listens to packets (kernel/README.md). A cell is a job without a
 * process: its input goes to the kernel as a request, with the write ends of two pipes; its output is
 * what comes out of these and what the kernel says about it, in one ring and in the order in which it
 * happened. It ends with the kernel's reply, or with the kernel.
 *
 * A packet from the kernel waits in `packet` until what its cell had printed before is in the ring,
 * and there is room for the packet behind it. Meanwhile the channel is not read: a kernel that says
 * more than anybody acknowledges waits, as a program does that prints too much. What was printed
 * before is what is in the pipes while the packet is still in the channel: a kernel prints nothing
 * until its packet was taken from there.
 *
 * A cell that has ended lingers: threads, tasks and children that it started still write. It is given
 * up when the pipes are at their end, when its place or its descriptors are needed, or with its kernel.
 *
 * Should: ignore what a kernel says out of turn; user code may say anything there.
 * Must not: let a kernel reach a job that is not its own cell.
 */
#include "box/init.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#define GRACE_US \
	(2 * US_PER_S) /* from the interrupt of a cell whose time is over to the kernel's end */
#define SYNC_MAX 32    /* bytes of a SYNC, which are sent back */
#define AGAIN_US (20 * US_PER_MS) /* after a packet for which there was no memory */
#define NUDGE_US \
	(5 * US_PER_MS) /* from an interrupt to the first nudge; 20 times as long to the other */
#define NUDGES 2

bool cell_lingers(const struct job *j)
{
	return j->state == JOB_TOLD && j->cell != NULL && j->cell->kernel != NULL;
}

bool cell_held(const struct job *j)
{
	const struct job *k = j->cell != NULL ? j->cell->kernel : j;

	return k != NULL && k->kernel != NULL && k->kernel->to == j;
}

static void lent_close(struct cell *c)
{
	for (unsigned int i = 0; i < ARRAY_LEN(c->lent_fd); i++)
		fd_close(&c->lent_fd[i]);
}

static void kernel_watch(struct init *in, struct job *k)
{
	const struct kernel *n = k->kernel;
	uint32_t events = (n->to == NULL ? EPOLLIN : 0) | (n->blocked ? EPOLLOUT : 0);

	channel_watch(in, k, k->state == JOB_RUNNING ? events : 0);
}

/* Without its channel a kernel is of no use, and whoever waits for a cell should not have to for long. */
static void kernel_lost(struct init *in, struct job *k)
{
	channel_close(in, k);
	if (k->state == JOB_RUNNING)
		job_kill(k, SIGKILL);
}

/* --- a cell begins -------------------------------------------------------------------------- */

static struct job *find_kernel(struct init *in, const char *text)
{
	uint64_t id;
	struct job *k = str_to_u64(text, UINT64_MAX, &id) == 0 ? job_find(in, id) : NULL;

	return k != NULL && k->kernel != NULL && k->state == JOB_RUNNING ? k : NULL;
}

int cell_open(struct init *in, struct job *c, const struct job_spec *spec)
{
	struct job *k = find_kernel(in, spec->argv[0]);
	int r;

	if (c->id == 0)
		return -EINVAL; /* in packets that is the kernel itself */
	if (k == NULL)
		return -ESRCH;
	if (!k->went)
		return -EAGAIN;
	if (k->kernel->cell != NULL)
		return -EBUSY;
	c->cell = malloc(sizeof(*c->cell));
	if (c->cell == NULL)
		return -ENOMEM;
	*c->cell = (struct cell){ .lent_fd = { -1, -1, -1 }, .timeout_us = spec->timeout_us };
	r = pipe_open(&c->out[0].fd, &c->cell->lent_fd[0], true);
	if (r == 0)
		r = pipe_open(&c->out[1].fd, &c->cell->lent_fd[1], true);
	c->cell->copies = (spec->flags & JOB_COPIES) != 0;
	if (r < 0)
		return r;
	c->cell->kernel = k;
	k->kernel->cell = c;
	c->pid = k->pid;
	return 0;
}

/* Forget a packet for it, too. */
static void detach(struct job *c)
{
	struct job *k = c->cell->kernel;

	if (k != NULL && k->kernel->cell == c) {
		k->kernel->cell = NULL;
		k->kernel->blocked = false;
		k->kernel->again_us = 0;
	}
	if (k != NULL && k->kernel->to == c)
		k->kernel->to = NULL;
	c->cell->kernel = NULL;
}

void cell_free(struct job *c)
{
	if (c->cell == NULL)
		return;
	detach(c);
	lent_close(c->cell);
	free(c->cell);
	c->cell = NULL;
}

/* --- to the kernel -------------------------------------------------------------------------- */

/* What its kernel used since the cell was asked; its largest size is that of all its life. */
static void measure(struct job *c)
{
	uint64_t now = usage_cpu_us(c->pid),
		 used = now > c->cell->cpu_us ? now - c->cell->cpu_us : 0;

	usage_set(&c->usage, used, usage_peak_kib(c->pid));
}

void cell_asked(struct job *c)
{
	c->cell->cpu_us = usage_cpu_us(c->pid);
	c->started_us = clock_us();
	c->deadline_us = job_deadline(c->started_us, c->cell->timeout_us);
}

/* What the keeper sends comes by another socket, and may come later than what the gate says behind it. */
static bool has_all(struct init *in, struct cell *c)
{
	if (c->copies && c->lent_fd[2] < 0)
		c->lent_fd[2] = fd_take(&in->copy_fd);
	return !c->copies || c->lent_fd[2] >= 0;
}

void cells_look(struct init *in)
{
	for (unsigned int i = 0; i < JOBS_MAX; i++) {
		struct job *j = &in->jobs[i];

		if (j->state == JOB_RUNNING && j->cell != NULL && j->cell->copies)
			input_feed(in, j);
	}
}

/* The next packet of the request. */
static int send_part(struct job *c)
{
	bool fits = c->in_len <= CHANNEL_PAYLOAD_MAX;
	bool last = c->in_end && fits, first = c->cell->lent_fd[0] >= 0;
	size_t lent = first ? 2 + (size_t)(c->cell->lent_fd[2] >= 0) : 0;
	size_t part = fits ? c->in_len : CHANNEL_PAYLOAD_MAX;
	int r = channel_send(c->cell->kernel, CHANNEL_RUN, last ? 0 : CHANNEL_MORE, c->id,
			     c->in_buf + c->in_at, part, c->cell->lent_fd, lent);

	if (r < 0)
		return r;
	lent_close(c->cell); /* whose they are now: their end is to be seen */
	c->in_at += part;
	c->in_len -= part;
	c->in_taken += part;
	c->cell->asked = last;
	return 0;
}

/* Whole packets, but for the last: the window of the input is larger than a packet. */
void cell_feed(struct init *in, struct job *c)
{
	struct job *k = c->cell->kernel;
	int r = 0;

	if (c->state != JOB_RUNNING || k == NULL || k->channel_fd < 0 ||
	    (c->cell->lent_fd[0] >= 0 && !has_all(in, c->cell)))
		return;
	while (r == 0 && !c->cell->asked && (c->in_end || c->in_len >= CHANNEL_PAYLOAD_MAX))
		r = send_part(c);
	k->kernel->blocked = r == -EAGAIN;
	k->kernel->again_us = 0;
	/* Too many descriptors in flight is what processes of the box can bring about, too. */
	if (r == -ENOBUFS || r == -ENOMEM || r == -ETOOMANYREFS || r == -EINTR)
		k->kernel->again_us = clock_us() + AGAIN_US;
	else if (r < 0 && r != -EAGAIN)
		kernel_lost(in, k);
	kernel_watch(in, k);
}

uint64_t kernel_again(struct init *in, struct job *k, uint64_t now)
{
	struct kernel *n = k->kernel;

	if (n->again_us == 0 || n->cell == NULL)
		return UINT64_MAX;
	if (n->again_us <= now)
		input_feed(in, n->cell);
	return n->again_us == 0 ? UINT64_MAX : n->again_us;
}

void cell_tell(struct init *in, const struct frame *f)
{
	uint8_t flags = (f->flags & FRAME_NO_INPUT) != 0 ? CHANNEL_END_OF_INPUT : 0;
	struct job *c = job_find(in, f->id);
	int r;

	if (c == NULL || c->cell == NULL || c->state != JOB_RUNNING || !c->cell->asked) {
		conn_refuse(in, f->id, ESRCH, "no such cell, or it does not run");
		return;
	}
	if (f->number != 0 && f->number <= c->cell->told)
		return; /* said again, by a gate that took over */
	r = channel_send(c->cell->kernel, CHANNEL_STDIN, flags, c->id, f->payload, f->len, NULL, 0);
	if (r < 0)
		conn_refuse(in, f->id, -r, "the kernel does not listen");
	else if (f->number != 0)
		c->cell->told = f->number;
}

void cell_signal(struct init *in, struct job *c, int sig)
{
	struct job *k = c->cell->kernel;

	if (k == NULL || k->state != JOB_RUNNING)
		return; /* its end is on the way */
	if (c->in_end || sig != SIGINT) {
		/* A kernel that has the request may not listen to signals yet: it looks for this when it does. */
		if (sig == SIGINT)
			(void)channel_send(k, CHANNEL_INTERRUPT, 0, c->id, NULL, 0, NULL, 0);
		(void)kill(k->pid, sig);
		if (sig == SIGINT) {
			c->cell->nudges = 0;
			c->cell->nudge_us = clock_us() + NUDGE_US;
		}
		return;
	}
	/* The kernel waits for the rest of the request, perhaps because a gate died over it: a cut one
	 * is answered by an error, and the kernel is free again. */
	c->in_end = true;
	input_feed(in, c);
}

/* Python looks for signals between its own steps. One that comes after such a look and before a system call that waits is
 * noticed when that call ends, and that may be never. SIGURG, for which a kernel has a handler that does nothing, ends it;
 * one that has been interrupted by then goes on where it is, as Python's own calls do. Who has no handler ignores it. */
uint64_t cell_nudge(struct job *c, uint64_t now)
{
	struct cell *own = c->cell;

	if (own->nudge_us == 0 || own->kernel == NULL || own->kernel->state != JOB_RUNNING)
		return UINT64_MAX;
	if (own->nudge_us <= now) {
		(void)kill(own->kernel->pid, SIGURG);
		own->nudge_us = ++own->nudges < NUDGES ? now + 20 * NUDGE_US : 0;
	}
	return own->nudge_us == 0 ? UINT64_MAX : own->nudge_us;
}

void cell_expired(struct init *in, struct job *c)
{
	struct job *k = c->cell->kernel;

	if (!c->timed_out) {
		c->timed_out = true;
		c->deadline_us = clock_us() + GRACE_US;
		cell_signal(in, c, SIGINT);
		return;
	}
	c->deadline_us = UINT64_MAX;
	if (k != NULL && k->state == JOB_RUNNING)
		job_kill(k, SIGKILL);
}

/* --- a cell ends ---------------------------------------------------------------------------- */

void cell_shut(struct init *in, struct job *c)
{
	struct job *k = c->cell->kernel;

	streams_close(in, c);
	detach(c);
	if (k != NULL)
		kernel_watch(in, k);
	if (c->ring.tail == c->ring.head)
		job_done(in, c);
}

/* The oldest cell that lingers, of kernel k or of all: first of those that are acknowledged. */
static struct job *oldest(struct init *in, const struct job *k, unsigned int *count)
{
	struct job *found[2] = { NULL, NULL };

	*count = 0;
	for (unsigned int i = 0; i < JOBS_MAX; i++) {
		struct job *c = &in->jobs[i];
		struct job **f = &found[c->ring.tail < c->ring.head];

		if (!cell_lingers(c) || (k != NULL && c->cell->kernel != k))
			continue;
		++*count;
		if (*f == NULL || c->order < (*f)->order)
			*f = c;
	}
	return found[0] != NULL ? found[0] : found[1];
}

bool cell_shut_oldest(struct init *in)
{
	unsigned int count;
	struct job *c = oldest(in, NULL, &count);

	if (c != NULL)
		cell_shut(in, c);
	return c != NULL;
}

/* The reply is in the ring. */
static void replied(struct init *in, struct job *c)
{
	struct job *k = c->cell->kernel, *victim;
	unsigned int count;

	k->kernel->cell = NULL;
	k->kernel->blocked = false;
	k->kernel->again_us = 0;
	lent_close(c->cell);
	c->ended_us = clock_us();
	measure(c);
	job_tell_exit(in, c);
	victim = oldest(in, k, &count);
	if (victim != NULL && count > CELLS_LINGER_MAX) {
		streams_mark(victim);
		streams_pump(in, victim);
		cell_shut(in, victim);
	}
}

/* What its cells printed before the kernel's end is theirs; nothing is after it. */
static void orphan(struct init *in, struct job *k)
{
	for (unsigned int i = 0; i < JOBS_MAX; i++) {
		struct job *c = &in->jobs[i];

		if (c->state == JOB_FREE || c->cell == NULL || c->cell->kernel != k)
			continue;
		streams_mark(c);
		streams_pump(in, c);
		detach(c);
		if (c->state == JOB_RUNNING) {
			lent_close(c->cell);
			c->state = JOB_ENDED;
			c->cell->died = true;
			c->status = k->status;
			c->exec_errno = k->exec_errno;
			(void)memcpy(c->exec_stage, k->exec_stage, sizeof(c->exec_stage));
			c->ended_us = k->ended_us;
			c->usage = k->usage;
			c->deadline_us = UINT64_MAX;
		} else {
			streams_close(in, c);
		}
		job_settle(in, c);
	}
}

/* --- from the kernel ------------------------------------------------------------------------ */

struct packet_head {
	uint8_t type, flags;
	uint64_t cell;
};

static struct packet_head head_of(const struct kernel *n)
{
	struct packet_head h;
	struct msg_in m;

	msg_in_init(&m, n->packet, CHANNEL_HEADER);
	h.type = msg_get_u8(&m);
	h.flags = msg_get_u8(&m);
	(void)msg_get_u16(&m);
	(void)msg_get_u32(&m);
	h.cell = msg_get_u64(&m);
	return h;
}

/* Whose packet it is; NULL: nobody's, or out of turn. */
static struct job *receiver(struct init *in, struct job *k, const struct packet_head *h)
{
	struct job *c;

	if (h->type == CHANNEL_READY)
		return k->went && !k->begun ? k : NULL;
	if (h->type != CHANNEL_MESSAGE && h->type != CHANNEL_END)
		return NULL;
	c = job_find(in, h->cell);
	if (c == NULL || c->cell == NULL || c->cell->kernel != k ||
	    (h->type == CHANNEL_END && c->state != JOB_RUNNING))
		return NULL;
	return c;
}

/* The next packet. Its length, 0 at the end, -errno. */
static ssize_t take_packet(struct init *in, struct job *k)
{
	struct kernel *n = k->kernel;
	struct packet_head h = { 0 };
	struct job *to = NULL;
	ssize_t len = channel_look(k);

	if (len >= CHANNEL_HEADER && (size_t)len <= sizeof(n->packet)) {
		h = head_of(n);
		to = receiver(in, k, &h);
	}
	if (to != NULL && to->state != JOB_ENDED)
		streams_mark(to);
	if (len > 0)
		len = channel_receive(k);
	if (len <= 0)
		return len;
	n->to = to;
	n->len = (size_t)len;
	if (h.type == CHANNEL_WAITING && !k->ready) {
		k->ready = true;
		kit_copied(in);
		conn_ready(in, k);
	}
	/* In packets of this size a kernel that does not read them harms only itself. */
	if (h.type == CHANNEL_SYNC && n->len <= CHANNEL_HEADER + SYNC_MAX)
		(void)channel_send(k, CHANNEL_SYNCED, 0, h.cell, n->packet + CHANNEL_HEADER,
				   n->len - CHANNEL_HEADER, NULL, 0);
	return len;
}

/* The packet that waits. False: it still does. */
static bool deliver(struct init *in, struct job *k)
{
	struct kernel *n = k->kernel;
	struct job *to = n->to;
	struct packet_head h = head_of(n);
	bool more = (h.flags & CHANNEL_MORE) != 0, end = h.type == CHANNEL_END;
	size_t len = n->len - CHANNEL_HEADER;
	int flags = (more ? FRAME_MORE : 0) | (end ? FRAME_END : 0) |
		    (cell_lingers(to) ? FRAME_LATE : 0);

	streams_pump(in, to);
	if (!streams_behind(to) && ring_fits(&to->ring, len)) {
		(void)ring_put(&to->ring, FRAME_MESSAGE, (uint16_t)flags, to->id,
			       n->packet + CHANNEL_HEADER, len);
		k->begun = k->begun || (to == k && !more);
		n->to = NULL;
		if (end && !more)
			replied(in, to);
	} else if (k->state != JOB_RUNNING && to->state == JOB_TOLD) {
		n->to = NULL; /* late, and the kernel is gone: its end does not wait for that */
	}
	if (to->state != JOB_FREE)
		streams_watch(in, to);
	return n->to == NULL;
}

/* What was in the channel when the kernel ended. */
static void take_rest(struct init *in, struct job *k)
{
	struct kernel *n = k->kernel;
	ssize_t got = take_packet(in, k);

	if (got <= 0 || (uint64_t)got > n->left)
		n->left = 0;
	else
		n->left -= (uint64_t)got;
}

void kernel_ended(struct job *k)
{
	int left = 0;

	if (k->channel_fd < 0 || ioctl(k->channel_fd, FIONREAD, &left) < 0 || left < 0)
		left = 0;
	k->kernel->left = (uint64_t)left;
	k->kernel->blocked = false;
	k->kernel->again_us = 0;
}

void kernel_settle(struct init *in, struct job *j)
{
	struct job *k = j->cell != NULL ? j->cell->kernel : j;
	struct kernel *n = k != NULL ? k->kernel : NULL;

	if (n == NULL || n->over)
		return;
	while (n->to == NULL || deliver(in, k)) {
		if (k->state == JOB_RUNNING || n->left == 0)
			break;
		take_rest(in, k);
	}
	kernel_watch(in, k);
	if (k->state == JOB_RUNNING || n->to != NULL)
		return;
	n->over = true;
	channel_close(in, k);
	orphan(in, k);
	if (j != k)
		job_settle(in, k); /* its EXIT waited for that */
}

void kernel_event(struct init *in, struct job *k)
{
	struct kernel *n = k->kernel;

	if (n->blocked && n->cell != NULL)
		input_feed(in, n->cell);
	if (n->to == NULL && k->channel_fd >= 0 && k->state == JOB_RUNNING) {
		ssize_t got = take_packet(in, k);

		if (got <= 0 && got != -EAGAIN && got != -EINTR)
			kernel_lost(in, k);
	}
	job_settle(in, k);
}
