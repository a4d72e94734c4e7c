/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tools of MCP servers a box may call: rules 'server' and 'server/tool', and those whose calls somebody has to allow first ('*': all).
 * Names are compared byte by byte, as the server says them. A rule may also be a URL of rayai_url, see tool_ray.h.
 */
#pragma once

#include "gate/boxes.h"

enum { TOOL_RULES_MAX = 256, TOOL_RULE = 65 + 256, TOOL_SERVER_MAX = 64 };

/* Rules of a request, behind those that are there. 0, or -1: answered. */
int tool_rules_take(struct req *r, const char *field, const struct field_list *list, bool asks,
		    struct texts *t);
/* As members of an answer. */
void tool_rules_put(const struct texts *t, struct json *j);

/* Whether it may be called. */
bool tool_rules_allow(const struct texts *t, const char *server, const char *tool);
/* Whether any tool of this server may be. */
bool tool_rules_name(const struct texts *t, const char *server);
/* Whether all of them may be. */
bool tool_rules_whole(const struct texts *t, const char *server);
/* Whether it can be the name of a server. */
bool tool_rules_is_server(const char *name);
/* Whether there is a URL among them. */
bool tool_rules_url(const struct texts *t);
/* Whether somebody has to allow it. */
bool tool_rules_ask(const struct texts *t, const char *server, const char *tool);
