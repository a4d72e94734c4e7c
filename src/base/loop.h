/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The event loop: descriptors, timers, and things to be freed when nobody can be looking at them.
 *
 * A watch or timer is part of the object that it belongs to. An object that ends inside a callback
 * takes its watches off and defers its own destruction: events of the same turn that still name it
 * find a watch without a function and pass over it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

struct watch {
	int fd; /* -1: not watched */
	uint32_t events;
	void (*fn)(void *arg, uint32_t events);
	void *arg;
};

struct timer {
	uint64_t at_us;
	size_t place; /* in the heap, from 1; 0: not set */
	void (*fn)(void *arg);
	void *arg;
};

struct deferred {
	struct deferred *next;
	void (*fn)(void *arg);
	void *arg;
};

struct loop {
	int epoll_fd;
	uint64_t now_us; /* at the start of this turn */
	struct timer **heap;
	size_t ntimers, cap;
	struct deferred *deferred;
	void (*each_turn)(void *arg); /* before every wait */
	void *arg;
	bool stop;
};

/* 0 or -errno. */
int loop_init(struct loop *l);

/* Watch a descriptor (not owned). Events may be 0: errors and hang-ups are reported all the same,
 * once each. 0 or -errno. */
int loop_watch(struct loop *l, struct watch *w, int fd, uint32_t events,
	       void (*fn)(void *arg, uint32_t events), void *arg);
void loop_change(struct loop *l, struct watch *w, uint32_t events);
void loop_unwatch(struct loop *l, struct watch *w);

/* Set or move a timer. It is off when its function is called. 0 or -ENOMEM. */
int timer_set(struct loop *l, struct timer *t, uint64_t at_us, void (*fn)(void *arg), void *arg);
void timer_clear(struct loop *l, struct timer *t);
/* In the next turn, behind what has come meanwhile: for whoever has more to do than is good for others. */
int timer_soon(struct loop *l, struct timer *t, void (*fn)(void *arg), void *arg);

/* Call fn at the end of this turn. d belongs to the loop until then. */
void loop_defer(struct loop *l, struct deferred *d, void (*fn)(void *arg), void *arg);

/* Until l->stop. */
void loop_run(struct loop *l);
