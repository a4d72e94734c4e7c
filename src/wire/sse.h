/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server-sent events, for our own clients: bytes in, whole events out.
 *
 * Lines end with LF or CR LF. Fields that are not known are passed over, comments too. An event of more than the
 * given bytes is refused; what is held is never more than that. Pieces give the same events as the whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SSE_NAME = 32, SSE_ID = 256 };

struct sse_event {
	char name[SSE_NAME]; /* "message" where none was said; a longer one is cut */
	uint64_t id;         /* 0: none, or no number */
	char *data;          /* may be changed; ends in a NUL */
	size_t n;
};

struct sse {
	char *line, *data;
	size_t nline, line_cap, ndata, data_cap, max;
	char name[SSE_NAME];
	uint64_t id;
	bool has_data;
	/* What a new connection begins with: the id of the last event, whatever it is, fit for a header; "": none, or one that is
	 * not. How long to wait before; 0: it was not said. */
	char last_id[SSE_ID], next_id[SSE_ID];
	uint64_t retry_ms;
};

void sse_init(struct sse *s, size_t max);
void sse_done(struct sse *s);

/* What begins a new connection: half an event of the last one is dropped. */
void sse_restart(struct sse *s);

/* Each event is given to fn; what it returns but 0 ends it. 0, that, -E2BIG or -ENOMEM. */
int sse_feed(struct sse *s, const char *p, size_t n, int (*fn)(void *arg, struct sse_event *e),
	     void *arg);
