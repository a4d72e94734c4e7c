/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RayAI's way to call tools, on the socket that a box has for that: a length of 4 bytes, the highest first, and JSON, {"url", "tool", "arguments"}; one call for a
 * connection, answered in the same framing. What is called is no server of MCP but whatever takes a POST of {"tool", "arguments"} at that URL, which has to be one of rayai_url
 * and of the box's own list, byte by byte.
 */
#pragma once

#include "gate/boxes.h"

/* A connection that began with a 0, which no request of HTTP does. From here on the request is ours. */
void ray_begin(struct req *r);

extern const struct route ray_route;
