/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of a tool from inside a box, whatever it came in: may this box call that, so often, does somebody have to allow it; and what the audit
 * has of it. How it is made and answered is its shape's: tool_calls.c has those of HTTP, tool_ray.c that of RayAI.
 */
#pragma once

#include "gate/boxes.h"
#include "wire/json_text.h"

struct tool_run;

struct tool_shape {
	/* It may be made: make it. tool_run_done() or tool_run_failed() follows. */
	void (*call)(struct tool_run *t);
	/* Nobody wants to know any more. */
	void (*stop)(struct tool_run *t);
	/* Answers. type: what went wrong, in a word. */
	void (*done)(struct tool_run *t, const char *text, size_t n);
	void (*failed)(struct tool_run *t, int status, const char *type, uint64_t code,
		       const char *text, size_t n);
	bool asks_only; /* nothing is called: whether it may be is what is asked */
};

struct tool_run {
	struct tool_run *next; /* of its box */
	struct abox *a;
	struct req *r;
	const struct tool_shape *shape;
	void *under_way;           /* of the shape; NULL: not called yet */
	struct approval *approval; /* it waits for somebody */
	struct timer slow;         /* or for its turn */
	char server[512];          /* its name, or a URL */
	char tool[256];
	uint64_t began_us;
	char *arguments; /* one line of JSON */
	size_t narguments;
};

/* One of the box that the request came from. NULL: as many as may be are under way. */
struct tool_run *tool_run_new(struct req *r, struct abox *a, const struct tool_shape *shape);
/* Server and tool are known: go on. The arguments are an object, or none. */
void tool_run_go(struct tool_run *t, struct json_text arguments);

/* What came of it; the request is answered, and t is released. */
void tool_run_done(struct tool_run *t, const char *text, size_t n);
void tool_run_failed(struct tool_run *t, int status, const char *type, uint64_t code,
		     const char *text, size_t n);
/* The same, of what never came so far that the audit would have it. */
void tool_run_refused(struct tool_run *t, int status, const char *type, const char *text);
/* How many requests of a box there may be in a second: 0, or how long until there may be another, in microseconds. */
uint64_t tool_runs_wait(struct abox *a);
/* Their box ends. */
void tool_runs_end(struct abox *a);
