/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket on an upgraded connection: frames by wslay, bytes by conn.c.
 *
 * What a client sends is hostile; wslay refuses what the protocol forbids with the right code, and a message over its
 * maximum with 1009. Who does not answer is noticed by a ping every half minute.
 */
#pragma once

#include "base/loop.h"
#include "gate/req.h"

#include <stdbool.h>

struct ws;

enum { WS_ACCEPT = 32 }; /* with its NUL */

/* What answers the key of an upgrade request (RFC 6455, 4.2.2): it and a fixed text, hashed. 0 or -errno. */
int ws_accept_key(struct http_slice key, char text[WS_ACCEPT]);

struct ws_ops {
	/* A whole message. */
	void (*message)(void *arg, bool binary, const uint8_t *p, size_t n);
	void (*drained)(void *arg); /* room for more; may be NULL */
	void (*closed)(void *arg);  /* by either side: the last call */
};

/* Answer an upgrade request (route flag ROUTE_WS). NULL: no memory, and the request was answered. */
struct ws *ws_accept(struct req *r, size_t message_max, const struct ws_ops *ops, void *arg);
/* The same, and say which of the protocols that the client offered is spoken. NULL: none. */
struct ws *ws_accept_as(struct req *r, const char *protocol, size_t message_max,
			const struct ws_ops *ops, void *arg);
/* Queue a message. */
void ws_send(struct ws *w, bool binary, const void *p, size_t n);
/* How many bytes it was given so far, with their frames, and how many of them have left; also in closed(). */
uint64_t ws_written(const struct ws *w);
uint64_t ws_sent(const struct ws *w);
/* How many bytes wait to be sent: stop at REQ_HIGH. */
size_t ws_queued(const struct ws *w);
/* Say goodbye; closed() follows. */
void ws_close(struct ws *w, uint16_t code, const char *why);
