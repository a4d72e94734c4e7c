// SPDX-License-Identifier: Apache-2.0
#include "base/loop.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>

enum { EVENTS = 256, FIRST_TIMERS = 256 };

int loop_init(struct loop *l)
{
	*l = (struct loop){ .epoll_fd = epoll_create1(EPOLL_CLOEXEC), .now_us = clock_us() };
	return l->epoll_fd < 0 ? -errno : 0;
}

/* --- descriptors ------------------------------------------------------------------------------ */

/* A hang-up of a descriptor that is paused would otherwise come every turn. */
static uint32_t mask(uint32_t events)
{
	return events != 0 ? events : EPOLLET;
}

int loop_watch(struct loop *l, struct watch *w, int fd, uint32_t events,
	       void (*fn)(void *arg, uint32_t events), void *arg)
{
	struct epoll_event e = { .events = mask(events), .data.ptr = w };

	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		return -errno;
	*w = (struct watch){ .fd = fd, .events = events, .fn = fn, .arg = arg };
	return 0;
}

void loop_change(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event e = { .events = mask(events), .data.ptr = w };

	if (w->fn == NULL || w->events == events)
		return;
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, w->fd, &e) == 0)
		w->events = events;
}

void loop_unwatch(struct loop *l, struct watch *w)
{
	if (w->fn == NULL)
		return;
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	w->fn = NULL;
	w->fd = -1;
}

/* --- timers: a binary heap, the earliest on top --------------------------------------------------- */

static void place(struct loop *l, size_t at, struct timer *t)
{
	l->heap[at] = t;
	t->place = at;
}

static void sift_up(struct loop *l, size_t at)
{
	struct timer *t = l->heap[at];

	for (; at > 1 && l->heap[at / 2]->at_us > t->at_us; at /= 2)
		place(l, at, l->heap[at / 2]);
	place(l, at, t);
}

static void sift_down(struct loop *l, size_t at)
{
	struct timer *t = l->heap[at];

	for (;;) {
		size_t child = at * 2;

		if (child > l->ntimers)
			break;
		if (child < l->ntimers && l->heap[child + 1]->at_us < l->heap[child]->at_us)
			child++;
		if (l->heap[child]->at_us >= t->at_us)
			break;
		place(l, at, l->heap[child]);
		at = child;
	}
	place(l, at, t);
}

int timer_set(struct loop *l, struct timer *t, uint64_t at_us, void (*fn)(void *arg), void *arg)
{
	t->fn = fn;
	t->arg = arg;
	if (t->place != 0) {
		bool later = at_us > t->at_us;

		t->at_us = at_us;
		if (later)
			sift_down(l, t->place);
		else
			sift_up(l, t->place);
		return 0;
	}
	if (l->ntimers + 1 >= l->cap) {
		size_t cap = l->cap == 0 ? FIRST_TIMERS : l->cap * 2;
		struct timer **heap = reallocarray(l->heap, cap, sizeof(struct timer *));

		if (heap == NULL)
			return -ENOMEM;
		l->heap = heap;
		l->cap = cap;
	}
	t->at_us = at_us;
	place(l, ++l->ntimers, t);
	sift_up(l, l->ntimers);
	return 0;
}

void timer_clear(struct loop *l, struct timer *t)
{
	size_t at = t->place;
	struct timer *last;

	if (at == 0)
		return;
	t->place = 0;
	last = l->heap[l->ntimers--];
	if (last == t)
		return;
	place(l, at, last);
	sift_up(l, at);
	sift_down(l, last->place);
}

int timer_soon(struct loop *l, struct timer *t, void (*fn)(void *arg), void *arg)
{
	return timer_set(l, t, l->now_us + 1, fn, arg); /* later than this turn */
}

static void run_timers(struct loop *l)
{
	while (l->ntimers > 0 && l->heap[1]->at_us <= l->now_us) {
		struct timer *t = l->heap[1];

		timer_clear(l, t);
		t->fn(t->arg);
	}
}

/* --- the turn ----------------------------------------------------------------------------------- */

void loop_defer(struct loop *l, struct deferred *d, void (*fn)(void *arg), void *arg)
{
	*d = (struct deferred){ .next = l->deferred, .fn = fn, .arg = arg };
	l->deferred = d;
}

static void run_deferred(struct loop *l)
{
	while (l->deferred != NULL) {
		struct deferred *d = l->deferred;

		l->deferred = d->next;
		d->fn(d->arg);
	}
}

void loop_run(struct loop *l)
{
	while (!l->stop) {
		struct epoll_event events[EVENTS];
		int n;

		run_timers(l);
		run_deferred(l);
		if (l->each_turn != NULL)
			l->each_turn(l->arg);
		run_deferred(l);
		if (l->stop)
			break;
		n = epoll_wait(l->epoll_fd, events, EVENTS,
			       clock_poll_ms(l->ntimers > 0 ? l->heap[1]->at_us : UINT64_MAX));
		l->now_us = clock_us();
		for (int i = 0; i < n; i++) {
			struct watch *w = events[i].data.ptr;

			if (w->fn != NULL)
				w->fn(w->arg, events[i].events);
		}
	}
}
