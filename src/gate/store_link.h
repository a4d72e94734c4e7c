/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's side of the store's channel, and contents on their way to and from it. */
#pragma once

#include "gate/call.h"
#include "wire/store.h"

struct gate;

/* m: the answer, its descriptors are the receiver's; or NULL, and f says why there is none. */
typedef void (*store_fn)(void *arg, struct chan_msg *m, const struct store_failure *f);

enum { STORE_CALLS = 4096 };

struct store_link {
	struct call_link link;
	struct call calls[STORE_CALLS];
};

int store_link_start(struct gate *g, struct store_link *s, int fd, struct err *e);

/* Ask; a descriptor (-1: none) that is sent along stays the caller's. The request's number, or -errno: fn is not
 * called. */
int64_t store_ask(struct store_link *s, uint16_t op, const void *body, size_t len, int fd,
		  store_fn fn, void *arg);
int64_t store_ask_name(struct store_link *s, uint16_t op, const char *tenant, const char *id,
		       store_fn fn, void *arg);
void store_forget(struct store_link *s, const void *arg);

/* --- a content on its way in ---
 *
 * Bytes are written to a pipe that the store reads. store_upload_write() takes what fits; want() is called when more
 * does. done() is the last call: meta, or why not. */
struct store_upload {
	struct gate *g;
	struct watch watch;
	int fd;
	uint64_t put, bytes;
	bool over; /* nothing more is to be called */
	struct store_failure failure;
	bool failed, committing;
	void (*want)(void *arg);
	void (*done)(void *arg, const struct store_meta *meta, const struct store_failure *f);
	void *arg;
};

/* 0 or -errno; done() is not called then. */
int store_upload_start(struct gate *g, struct store_upload *u, const struct store_put *p,
		       void (*want)(void *arg),
		       void (*done)(void *arg, const struct store_meta *meta,
				    const struct store_failure *f),
		       void *arg);
/* How many bytes were taken. A failed one swallows everything; the end says why. */
size_t store_upload_write(struct store_upload *u, const void *p, size_t n);
/* That was all. */
void store_upload_commit(struct store_upload *u);
/* Forget it; done() is not called. */
void store_upload_abort(struct store_upload *u);
