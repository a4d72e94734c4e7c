// SPDX-License-Identifier: Apache-2.0
/*
 * Which refused system calls the programs of a box tried: the keeper is the listener of the box's filter.
 *
 * Every call that policy/syscalls.tbl has as TOLD waits until it is answered here, with EPERM. What was
 * heard, once per box and call, goes into a queue that the gate asks for when EVENT_REFUSED says that there is
 * something.
 *
 * Should: answer one call per turn and box; slow down a box that goes on and on, which costs the keeper more than the box.
 * Must not: let a call through; wait; close the listener while a process of the box lives (see seccomp in the table).
 */
#include "keeper/keeper.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/msg.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

enum {
	AT_ONCE = 256,                  /* calls of a box that are answered without delay */
	PAUSE_US = 10 * (int)US_PER_MS, /* between two, from then on */
};

static void note(struct keeper *k, uint64_t box, uint32_t number)
{
	if (k->nrefusals == REFUSALS_MAX)
		return;
	k->refusals[k->nrefusals++] = (struct refused_call){ .box = box, .number = number };
	if (!k->refusals_told)
		ops_tell(k, EVENT_REFUSED, 0, NULL, 0, NULL);
	k->refusals_told = true;
}

void refusals_listen(struct keeper *k, struct box *b, int fd)
{
	b->refusals_fd = fd;
	b->refusals_resume_us = UINT64_MAX;
	keeper_watch(k, fd, WATCH_REFUSALS + b->number);
}

void refusals_deaf(struct keeper *k, const struct box *b)
{
	note(k, b->id, REFUSAL_DEAF);
}

static void watch(struct keeper *k, const struct box *b, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.u64 = WATCH_REFUSALS + b->number };

	(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_MOD, b->refusals_fd, &ev);
}

static void pause_box(struct keeper *k, struct box *b)
{
	watch(k, b, 0);
	b->refusals_resume_us = clock_us() + PAUSE_US;
}

/* Once per box and call. */
static void heard(struct keeper *k, struct box *b, int number)
{
	unsigned int n = (unsigned int)number, bit = n % 64;

	if (n >= REFUSAL_CALLS || (b->refused[n / 64] & UINT64_C(1) << bit) != 0)
		return;
	b->refused[n / 64] |= UINT64_C(1) << bit;
	note(k, b->id, n);
}

void refusals_event(struct keeper *k, struct box *b)
{
	struct pollfd p = { .fd = b->refusals_fd, .events = POLLIN };
	struct seccomp_notif call = { 0 };
	struct seccomp_notif_resp answer = { .error = -EPERM };

	/* Asking for a call waits for one; so see that there is one. One whose process has ended meanwhile is ENOENT. */
	if (poll(&p, 1, 0) < 1 || (p.revents & POLLIN) == 0) {
		if ((p.revents & (POLLHUP | POLLERR)) != 0)
			(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, b->refusals_fd, NULL);
		return;
	}
	if (k->nrefusals == REFUSALS_MAX) { /* until the gate has asked */
		pause_box(k, b);
		return;
	}
	if (ioctl(b->refusals_fd, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0)
		return;
	heard(k, b, call.data.nr);
	answer.id = call.id;
	(void)ioctl(b->refusals_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	if (b->refusals_answered++ >= AT_ONCE)
		pause_box(k, b);
}

uint64_t refusals_turn(struct keeper *k, struct box *b, uint64_t now)
{
	if (b->refusals_fd < 0)
		return UINT64_MAX;
	if (b->refusals_resume_us <= now) {
		b->refusals_resume_us = UINT64_MAX;
		watch(k, b, EPOLLIN);
	}
	return b->refusals_resume_us;
}

size_t refusals_take(struct keeper *k, void *body, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, body, cap);
	for (unsigned int i = 0; i < k->nrefusals; i++) {
		msg_put_u64(&m, k->refusals[i].box);
		msg_put_u32(&m, k->refusals[i].number);
	}
	k->nrefusals = 0;
	k->refusals_told = false;
	return m.len;
}

void refusals_new_gate(struct keeper *k)
{
	k->refusals_told = k->nrefusals > 0;
	if (k->refusals_told)
		ops_tell(k, EVENT_REFUSED, 0, NULL, 0, NULL);
}
