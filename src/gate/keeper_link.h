/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's side of the keeper's channel: ask now, hear later. */
#pragma once

#include "gate/call.h"
#include "wire/ops.h"

struct gate;

/* m: the answer (REPLY_OK, its descriptors are the receiver's), or NULL with e saying why there is none. */
typedef void (*keeper_fn)(void *arg, struct chan_msg *m, const struct err *e);

enum { LINK_CALLS = 8192 };

struct keeper_link {
	struct call_link link;
	struct call calls[LINK_CALLS];
	void (*event)(struct gate *g,
		      struct chan_msg *m); /* EVENT_*; the descriptors are the receiver's */
};

int keeper_link_start(struct gate *g, struct keeper_link *k, int fd,
		      void (*event)(struct gate *g, struct chan_msg *m), struct err *e);

/* Ask. 0, or -errno: fn is not called. fn NULL: nobody wants to know. */
int keeper_ask(struct keeper_link *k, uint16_t op, const void *body, size_t len, keeper_fn fn,
	       void *arg);
int keeper_ask_box(struct keeper_link *k, uint16_t op, uint64_t box, keeper_fn fn, void *arg);

/* Whoever asked with this arg is gone: answers are dropped, and what was made by them is undone. */
void keeper_forget(struct keeper_link *k, const void *arg);
