/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a connection share; for others there are gate/conn.h and gate/req.h. */
#pragma once

#include "gate/conn.h"

#include <errno.h>
#include <sys/types.h>

/* --- conn.c --- */

/* Change the state, with a time in which something has to happen; 0: none. */
void conn_set_state(struct conn *c, enum conn_state state, uint64_t timeout_us);
/* Watch for what the state wants. */
void conn_update(struct conn *c);
/* Go on as far as is possible without waiting. */
void conn_progress(struct conn *c);
/* It was used last, so it is closed last for want of room. */
void conn_touch(struct conn *c);
/* The request is done with; the connection goes on. */
void conn_finish(struct conn *c);
void conn_close(struct conn *c);
/* Close it, but not now: whoever calls may be looking at the request. */
void conn_hang_up(struct conn *c);

/* Whether no further request is taken behind this one. */
bool conn_is_last(const struct conn *c);

/* Whether the request's body was read to its end. */
static inline bool conn_body_is_read(const struct conn *c)
{
	return c->state == CONN_WORK;
}

static inline bool conn_is_retry(ssize_t r)
{
	return r == -EAGAIN || r == -EINTR;
}

/* --- conn_read.c --- */

/* Receive once, if the state wants anything. A client that has left sets peer_gone. */
void conn_read_some(struct conn *c);
/* Go on with what was received and not used. Whether anything happened. */
bool conn_take_input(struct conn *c);

/* --- conn_write.c --- */

/* Queue bytes. 0 or -1: they were not taken, and peer_gone is set if it is not closed yet. */
int conn_queue(struct conn *c, const void *p, size_t n);
/* Send what there is. What cannot be sent any more sets peer_gone. */
void conn_flush(struct conn *c);
