// SPDX-License-Identifier: Apache-2.0
/*
 * The session of a client of the older era: made by its initialize, named in a header from then on, ended with us. What the server has
 * to tell outside of answers comes on a stream of its own, which is opened again when it ends.
 */
#include "cli/mcp.h"

#include "base/clock.h"
#include "cli/say.h"

#include <stdio.h>
#include <string.h>

enum {
	SILENCE_MS = 60000, /* the server writes a comment every 15 seconds */
	PAUSE_MIN_MS = 1000,
	PAUSE_MAX_MS = 30000,
	END_MS = 5000,
};

static bool has_session(const struct bridge *b)
{
	return b->version[0] != '\0';
}

void bridge_session_name(struct bridge *b, struct http_slice id)
{
	if (has_session(b))
		bridge_session_end(b); /* a second one: the first is not needed any more */
	b->session[0] = '\0';
	if (id.n == 0 || id.n >= sizeof(b->session))
		return;
	for (size_t i = 0; i < id.n; i++)
		if (id.p[i] <= ' ' || id.p[i] > '~')
			return;
	(void)memcpy(b->session, id.p, id.n);
	b->session[id.n] = '\0';
}

void bridge_session_begin(struct bridge *b, const char *version)
{
	for (const char *c = version; *c != '\0'; c++)
		if (*c <= ' ' || *c > '~')
			return;
	(void)snprintf(b->version, sizeof(b->version), "%s", version);
}

void bridge_session_headers(const struct bridge *b, struct exchange *x)
{
	if (b->session[0] != '\0')
		exchange_header(x, "Mcp-Session-Id", b->session);
	if (b->version[0] != '\0')
		exchange_header(x, "MCP-Protocol-Version", b->version);
}

/* --- what the server tells ------------------------------------------------------------------------ */

static void hear_later(struct bridge *b)
{
	b->hear = NULL;
	sse_restart(&b->hear_sse);
	b->hear_us = clock_us() + b->hear_pause_ms * US_PER_MS;
	b->hear_pause_ms =
		b->hear_pause_ms * 2 < PAUSE_MAX_MS ? b->hear_pause_ms * 2 : PAUSE_MAX_MS;
}

static int on_head(struct exchange *x)
{
	struct bridge *b = x->arg;

	if (x->answer.status == 200 && exchange_says(x, "Content-Type", "text/event-stream")) {
		b->hear_pause_ms = PAUSE_MIN_MS;
		return 0;
	}
	hear_later(b);
	/* It has nothing to tell, or does not know us any more: requests say so. */
	if (x->answer.status >= 400 && x->answer.status < 500)
		b->hear_us = UINT64_MAX;
	return 1;
}

static int on_event(void *arg, struct sse_event *e)
{
	return bridge_take_event(arg, NULL, e->data, e->n);
}

static int on_body(struct exchange *x, const char *p, size_t n)
{
	struct bridge *b = x->arg;

	if (sse_feed(&b->hear_sse, p, n, on_event, b) == 0)
		return 0;
	say("the server sent a message that is too long");
	hear_later(b);
	return 1;
}

static void on_end(struct exchange *x, const struct err *e)
{
	bridge_heard(x->arg, e);
	hear_later(x->arg);
}

void bridge_session_hear(struct bridge *b)
{
	if (!has_session(b) || b->session[0] == '\0' || b->hear != NULL)
		return;
	b->hear_pause_ms = PAUSE_MIN_MS;
	b->hear_us = clock_us();
}

void bridge_session_tick(struct bridge *b, uint64_t *deadline_us)
{
	static const struct exchange_ops ops = { .head = on_head, .body = on_body, .end = on_end };

	if (b->hear == NULL && clock_us() >= b->hear_us) {
		b->hear_us = UINT64_MAX;
		b->hear = exchange_new(&b->all, "GET", "/mcp", &ops, b);
		if (b->hear == NULL) {
			hear_later(b);
		} else {
			bridge_headers(b, b->hear);
			bridge_session_headers(b, b->hear);
			b->hear->answer_ms = SILENCE_MS;
			exchange_start(b->hear);
		}
	}
	if (b->hear == NULL && b->hear_us < *deadline_us)
		*deadline_us = b->hear_us;
}

/* --- its end -------------------------------------------------------------------------------------- */

static void on_ended(struct exchange *x, const struct err *e)
{
	(void)x, (void)e; /* the server ends what nobody uses */
}

void bridge_session_end(struct bridge *b)
{
	static const struct exchange_ops ops = { .end = on_ended };
	struct exchange *x;

	b->hear_us = UINT64_MAX;
	if (b->hear != NULL)
		exchange_drop(b->hear);
	b->hear = NULL;
	x = b->session[0] != '\0' ? exchange_new(&b->all, "DELETE", "/mcp", &ops, b) : NULL;
	if (x != NULL) {
		bridge_session_headers(b, x);
		x->answer_ms = END_MS;
		exchange_start(x);
	}
	b->session[0] = b->version[0] = '\0';
}
