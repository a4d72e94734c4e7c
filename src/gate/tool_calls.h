/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of tools from inside a box: what it may call, how often, and what the audit has of it. */
#pragma once

#include "gate/boxes.h"

/* Bytes of a call: a box may send several at once, and is not to have much of our memory. */
enum { TOOL_CALL_MAX = 2 * 1024 * 1024 };

/* POST /call and /run: of our own runtime, and as ipybox has it. */
void tool_call(struct req *r);
/* GET /tools: servers of which it may call something; with ?server= tools of one, with &module= Python for one of these. */
void tool_list(struct req *r);
/* POST /v1/boxes/{box_id}/tools: more of them, of a server that the operator has or of one of the client's own. */
void box_tools_post(struct req *r);
/* A server was registered with it through a gate before this one. */
void tool_server_kept(struct abox *a, const char *name, const char *params, size_t n);
/* Its socket for tools is there, or will never be. */
void tool_servers_open(struct abox *a);
/* The box ends, and servers that were registered with it. */
void tool_servers_end(struct abox *a);
/* GET /package: what the Python of all tools has in common. */
void tool_package(struct req *r);
