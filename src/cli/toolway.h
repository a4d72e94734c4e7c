/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of MCP and the way to it: the client of src/mcp and one of three transports, in a loop of poll(2).
 *
 * toolway_stdio.c has the program that is started, toolway_http.c both kinds of HTTP. What the server says is foreign: bounded, and shown
 * by say() and show functions only.
 */
#pragma once

#include "base/err.h"
#include "mcp/client.h"

#include <poll.h>

enum { MCP_POLL_MAX = 72, MCP_PLACE_HEADERS = 32 };

/* Where a server is. It and its texts live as long as the link. */
struct mcp_place {
	char *const *argv; /* a program; NULL: a URL */
	char *const *env;  /* NAME=VALUE, in addition to ours; ends in NULL; may be NULL */
	bool verbose;      /* its standard error is ours; otherwise its end is shown if it fails */
	const char *url;
	bool old;                               /* the HTTP+SSE of 2024-11-05 */
	const char *headers[MCP_PLACE_HEADERS]; /* "Name: value", see mcp_header_check() */
	unsigned int nheaders;
};

struct toolway;

struct mcp_transport {
	/* What to wait for: how many; *deadline_us is lowered to when to come back anyway. */
	unsigned int (*wait)(struct toolway *l, struct pollfd *p, uint64_t *deadline_us);
	/* Something has come, or the time is there. The same descriptors in the same order. */
	void (*step)(struct toolway *l, const struct pollfd *p, unsigned int n, uint64_t now_us);
	/* Whether all that was sent is on its way. */
	bool (*is_idle)(const struct toolway *l);
	/* An orderly end; takes a few seconds at most. l is released. */
	void (*end)(struct toolway *l);
	/* What the server has said besides, for a person; may be NULL. */
	void (*last_words)(const struct toolway *l);
};

/* The first member of a transport. */
struct toolway {
	struct mcpc_way way; /* the first member */
	struct mcpc client;
	const struct mcp_transport *transport;
	void *arg; /* the caller's */
};

/* Make a link, and begin to speak. bounds NULL: the usual ones. NULL: e. elicit, told: as in struct mcpc_way, set before the first
 * request. */
struct toolway *toolway_open(const struct mcp_place *p, const struct mcpc_bounds *bounds,
			     struct err *e);
/* Ends it in order; a signal that came before does not stop this. NULL is none. */
void toolway_close(struct toolway *l);

/* Wait until a request that was started has ended. SIGINT and what ends us cancel it. */
void toolway_await(struct toolway *l, struct mcpc_request *r);
/* One turn of the loop, until_us at the latest. false: a signal came. */
bool toolway_turn(struct toolway *l, uint64_t until_us, bool heed_signals);
/* For a request that is waited for: done() has nothing to do. */
void toolway_nothing(struct mcpc_request *r);

/* "Name: value" as it may go into a request. */
bool mcp_header_check(const char *text);

/* --- the transports ------------------------------------------------------------------------------- */

struct toolway *toolway_stdio_open(const struct mcp_place *p, const struct mcpc_bounds *b,
				   struct err *e);
struct toolway *toolway_http_open(const struct mcp_place *p, const struct mcpc_bounds *b,
				  struct err *e);
