/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking over a channel without waiting, as the links to keeper and store have it in common: a table of who waits
 * for which answer, and a queue of what the socket did not take.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"
#include "wire/chan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gate;

/* A function of the link's own type, which alone knows how to call it: cast there and back. */
typedef void (*call_fn)(void);

struct call {
	uint64_t request; /* 0: free */
	call_fn fn;       /* NULL: nobody wants to know */
	void *arg;
};

struct call_out;

struct call_link {
	struct gate *g;
	struct watch watch;
	int fd;
	uint64_t next_request;
	struct call *calls; /* by request modulo ncalls */
	unsigned int ncalls, waiting;
	struct call_out *first, *last; /* not sent yet */
	size_t queued, queued_max;     /* bytes */
	/* A message came; its descriptors are the receiver's. */
	void (*received)(void *arg, struct chan_msg *m);
	void *arg;
};

/* Begin. The link has set calls, ncalls, queued_max, received and arg. `name` is for the error. 0 or -1. */
int call_start(struct gate *g, struct call_link *l, int fd, const char *name, struct err *e);

/* Ask; a descriptor (-1: none) that is sent along stays the caller's. The request's number, or -errno: fn will not
 * be called. */
int64_t call_ask(struct call_link *l, uint16_t op, const void *body, size_t len, int fd, call_fn fn,
		 void *arg);

/* Take whoever waits for this answer out of the table. false: nobody does, and the message was closed. */
bool call_answered(struct call_link *l, struct chan_msg *m, struct call *ret);

/* Whoever asked with this arg is gone: the answers are for others. */
void call_redirect(struct call_link *l, const void *arg, call_fn to, void *to_arg);
/* No answer to this request will come. */
void call_forget(struct call_link *l, uint64_t request);
