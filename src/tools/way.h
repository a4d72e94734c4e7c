/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of MCP and the way to it: the client of src/mcp and a transport, without a loop. Whoever has one waits in poll(2) for what
 * wait() names, and calls step(). Nothing here waits.
 *
 * http.c has both kinds of HTTP, stdio.c a program in a box; src/cli has a program of this machine. What the server says is foreign, and bounded.
 */
#pragma once

#include "base/err.h"
#include "mcp/client.h"

#include <poll.h>

enum { MCP_POLL_MAX = 72, MCP_PLACE_HEADERS = 32 };

/* Where a server is. It and its texts live as long as the link. */
struct mcp_place {
	char *const *argv; /* a program; NULL: a URL */
	char *const *
		env; /* NAME=VALUE, in addition to those that it has anyway; ends in NULL; may be NULL */
	bool verbose; /* its standard error is ours; otherwise its end is shown if it fails */
	const char *url;
	bool old;                               /* the HTTP+SSE of 2024-11-05 */
	const char *headers[MCP_PLACE_HEADERS]; /* "Name: value", see mcp_header_check() */
	unsigned int nheaders;
};

struct toolway;

struct mcp_transport {
	/* What to wait for: how many, MCP_POLL_MAX at most; *deadline_us is lowered to when to come back anyway. */
	unsigned int (*wait)(struct toolway *l, struct pollfd *p, uint64_t *deadline_us);
	/* Something has come, or the time is there. The same descriptors in the same order. */
	void (*step)(struct toolway *l, const struct pollfd *p, unsigned int n, uint64_t now_us);
	/* Whether all that was sent is on its way; after leave(), whether the server has heard of it. */
	bool (*is_idle)(const struct toolway *l);
	/* Begin an orderly end; nothing is asked from here on. May be NULL. */
	void (*leave)(struct toolway *l);
	/* l is released. */
	void (*end)(struct toolway *l);
	/* What the server has said besides, for a person; may be NULL. */
	void (*last_words)(const struct toolway *l);
};

/* The first member of a transport. */
struct toolway {
	struct mcpc_way way; /* the first member */
	struct mcpc client;
	const struct mcp_transport *transport;
	void *arg;         /* the caller's */
	uint64_t heard_us; /* when a program said something last */
	bool undone; /* of the request that ends just now: refused with its session, which the server has forgotten */
};

struct dialer;

/* A server that is spoken to by HTTP, over connections of d, which is done with when the link ends, or was not made. NULL: e. */
struct toolway *toolway_http_open(const struct mcp_place *p, const struct mcpc_bounds *b,
				  struct dialer *d, struct err *e);

/* "Name: value" as it may go into a request. */
bool mcp_header_check(const char *text);
