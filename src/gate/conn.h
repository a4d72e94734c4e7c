/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection of a client.
 *
 *   IDLE     between requests; idle_timeout
 *   HEAD     a head is coming in; header_timeout from its first byte, whatever comes in between
 *   BODY     a body is coming in; body_timeout between two pieces
 *   WORK     a handler has the request. Nothing is read; the other side's leaving is noticed
 *   RAW      upgraded: bytes go to the handler as they come
 *   LINGER   the last answer was sent though the client may still be sending: read and drop for a moment, so
 *            that the answer is not destroyed by a reset
 *
 * Whatever is queued for sending must move within write_timeout.
 */
#pragma once

#include "base/loop.h"
#include "gate/buf.h"
#include "gate/req.h"

struct listener;
struct tls;

enum conn_state { CONN_IDLE, CONN_HEAD, CONN_BODY, CONN_WORK, CONN_RAW, CONN_LINGER, CONN_CLOSED };

struct conn {
	struct gate *g;
	struct listener *listener;
	struct conn *prev, *next;
	enum conn_state state;
	int fd;
	struct watch watch;
	struct timer timer;
	struct deferred deferred;
	struct tls *tls;
	struct buf in, out;
	size_t scanned;       /* of a head that is coming in */
	uint64_t deadline_us; /* of the state; UINT64_MAX: none */
	uint64_t write_us;    /* when the last bytes left, or were queued on an empty queue */
	uint64_t out_total, sent_total;
	struct req *req; /* HEAD to WORK */
	uint64_t body_left;
	struct http_chunks chunks;
	bool body_stalled; /* the handler takes no more for now */
	bool close_after;  /* the answer that is being sent is the last one */
	bool in_progress;  /* guards conn_progress() against itself */
	bool peer_gone;
	bool was_high; /* the queue was full when it was last written to */
	char peer[64];
};

/* Take over an accepted descriptor. */
void conn_new(struct gate *g, struct listener *l, int fd, const char *peer);
/* Close the connection that has been idle for the longest. false: there is none. */
bool conns_make_room(struct gate *g);
/* No further request: idle ones close, busy ones after their answer. */
void conns_drain(struct gate *g);
/* The same for those that came in by this listener. */
void conns_leave(struct gate *g, const struct listener *l);
