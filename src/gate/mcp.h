/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MCP over HTTP: /mcp is the core of src/mcp behind this server's connections, with this server's tools.
 *
 *   mcp_http.c    POST, GET, DELETE /mcp: a request is a link, as one answer or as a stream of events
 *   mcp_table.c   what there is
 *   mcp_work.c    a call: which box it is about, and what is asked of the own API for it
 *   mcp_run.c     tools that run something: cells and commands; and boxes themselves
 *   mcp_register.c  MCP servers for code in a box
 *   mcp_files.c   files of a box, as tools
 *   mcp_resources.c  the same as resources; completion
 *   mcp_reading.c    what both read
 *   mcp_watch.c   which of them have changed
 */
#pragma once

#include "gate/req.h"
#include "mcp/mcp.h"

struct err;

/* Begin, with the server's own table. 0 or -1. */
int mcp_start(struct gate *g, struct err *e);

/* The request behind a call. */
const struct req *mcp_http_req(const struct mcp_call *c);

/* --- handlers --- */

void mcp_http_post(struct req *r);
void mcp_http_get(struct req *r);
void mcp_http_delete(struct req *r);
