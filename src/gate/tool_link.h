/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's side of the tools process (src/tools): ask now, hear later.
 *
 * The process is started when somebody first asks, by the keeper. When it dies, what was asked of it fails, what was not sent yet goes to the next
 * one. It asks for boxes to run servers in; they are made here, and it alone speaks with their init.
 */
#pragma once

#include "base/loop.h"
#include "wire/toolmsg.h"

#include <stdbool.h>

struct gate;
struct tool_ask;
struct tool_box;

enum { TOOL_ASKS_MAX = 1024 };

struct tool_link {
	struct gate *g; /* NULL: never used */
	struct toolmsg_stream s;
	struct watch watch;
	struct timer again;
	bool asking; /* the keeper, for a stream */
	bool hello; /* of this stream: before it nothing is asked, for the one at its end may have died already */
	uint64_t next;
	struct tool_ask *asks; /* the oldest first */
	unsigned int nasks;
	struct tool_box *boxes;
};

/* What came of it: text is a result, or what went wrong. Never called before the function that asked returns. */
typedef void tool_fn(void *arg, enum tool_outcome how, uint64_t code, const char *text, size_t n);

/* Call a tool; arguments are a JSON object. owner: see toolmsg.tbl. NULL: there is no memory, or too much is asked; fn is not called. */
struct tool_ask *tools_call(struct gate *g, const char *owner, const char *server, const char *tool,
			    const char *arguments, size_t n, uint64_t timeout_us, tool_fn *fn,
			    void *arg);
/* The tools of a server, as a JSON array. */
struct tool_ask *tools_list(struct gate *g, const char *owner, const char *server,
			    uint64_t timeout_us, tool_fn *fn, void *arg);
/* From now on this owner has a server of that name; params: what it is, as JSON. */
struct tool_ask *tools_register(struct gate *g, const char *owner, const char *server,
				const char *params, size_t n, tool_fn *fn, void *arg);
/* The owner has gone. */
void tools_forget(struct gate *g, const char *owner);
/* Boxes of a gate that has died may call something: hear what was registered with them. */
void tools_resume(struct gate *g);
/* Nobody wants to know any more: fn is not called. */
void tools_cancel(struct tool_ask *a);
/* Say what was asked for in this turn. */
void tools_flush(struct gate *g);
