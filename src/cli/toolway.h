/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of MCP and the way to it (tools/way.h), in a loop of poll(2) that hears signals.
 *
 * toolway_stdio.c has the program that is started, toolway_dial.c connections for HTTP. What the server says is foreign: bounded, and shown
 * by say() and show functions only.
 */
#pragma once

#include "tools/way.h"

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

/* --- the transports ------------------------------------------------------------------------------- */

struct toolway *toolway_stdio_open(const struct mcp_place *p, const struct mcpc_bounds *b,
				   struct err *e);

struct dialer;
/* Connections from this machine, by whatever its resolver says. NULL: no memory. */
struct dialer *toolway_dialer(void);
