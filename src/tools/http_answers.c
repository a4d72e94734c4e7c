// SPDX-License-Identifier: Apache-2.0
/* What comes of answers of a server of MCP: messages, sessions, streams that end and go on, refusals. */
#include "tools/http.h"

#include "base/clock.h"
#include "base/own.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* --- where the old transport takes messages ------------------------------------------------------- */

static bool is_target(const char *s)
{
	for (; *s != '\0'; s++)
		if (*s <= ' ' || *s > '~' || *s == '#')
			return false;
	return true;
}

/* A reference, from where the stream is. false: it leads elsewhere, or is none. */
static bool find_target(const struct http *h, const char *said, char target[HTTP_TARGET])
{
	size_t base = strcspn(h->target, "?");
	struct endpoint at;
	const char *rest;
	bool secure;
	int n;

	if (!is_target(said) || said[0] == '\0' || strncmp(said, "//", 2) == 0)
		return false;
	if (said[0] == '/') {
		n = snprintf(target, HTTP_TARGET, "%s", said);
	} else if (strcspn(said, ":") < strcspn(said, "/?")) { /* a whole URL */
		if (endpoint_of_any_url(said, &at, &rest, &secure) < 0 || secure != h->secure ||
		    !endpoint_is(&at, &h->at))
			return false;
		n = snprintf(target, HTTP_TARGET, "%s%s", rest[0] == '/' ? "" : "/", rest);
	} else {
		while (base > 0 && h->target[base - 1] != '/')
			base--;
		n = snprintf(target, HTTP_TARGET, "%.*s%s", (int)base, h->target, said);
	}
	return n < HTTP_TARGET;
}

static void take_endpoint(struct http *h, const char *said)
{
	char target[HTTP_TARGET];

	if (h->post_target[0] != '\0')
		return; /* it has said so before */
	if (find_target(h, said, target))
		(void)memcpy(h->post_target, target, sizeof(target));
	else
		mcpc_lost(&h->link.client,
			  "the server wants messages sent to '%.200s', which is not itself", said);
}

/* --- events --------------------------------------------------------------------------------------- */

static int on_event(void *arg, struct sse_event *e)
{
	struct post *p = arg;
	struct http *h = p->h;

	p->tries = 0;
	if (h->old && p->kind == POST_STANDING && strcmp(e->name, "endpoint") == 0)
		take_endpoint(h, e->data);
	else if (strcmp(e->name, "message") == 0 && e->n > 0)
		mcpc_take(&h->link.client, p->id, e->data, e->n, clock_us());
	return p->over || h->link.client.broken[0] != '\0' ? 1 : 0;
}

static uint64_t retry_us(const struct post *p)
{
	uint64_t ms = p->x.sse.retry_ms != 0 ? p->x.sse.retry_ms : HTTP_RETRY_MS;

	ms = ms < HTTP_RETRY_MIN_MS ? HTTP_RETRY_MIN_MS : ms;
	return (ms < HTTP_RETRY_MAX_MS ? ms : HTTP_RETRY_MAX_MS) * US_PER_MS;
}

/* --- the GET stream ------------------------------------------------------------------------------- */

static void standing_over(struct post *p, uint64_t now_us)
{
	struct http *h = p->h;

	h->barred_us = 0;
	if (h->old) {
		p->over = true;
		if (p->has_head && !p->x.is_stream)
			mcpc_lost(&h->link.client,
				  "%s answers with status %d, and no stream of events", h->shown,
				  p->x.answer.status);
		else
			mcpc_lost(&h->link.client, "the stream of %s has ended%s%s", h->shown,
				  p->x.why[0] != '\0' ? ": " : "", p->x.why);
		return;
	}
	/* Who has none, or none any more, need not have one. */
	if ((p->has_head && !p->x.is_stream) || p->x.body.failed ||
	    ++p->tries > HTTP_STANDING_TRIES) {
		p->over = true;
		return;
	}
	p->again_us = now_us + retry_us(p);
}

static void standing_start(struct http *h, uint64_t now_us)
{
	struct post *p = http_post_new(h, POST_STANDING);

	if (p == NULL)
		return;
	h->barred_us = now_us + HTTP_STANDING_WAIT_US;
	http_get(h, p);
}

/* --- answers to messages -------------------------------------------------------------------------- */

static void take_session(struct post *p)
{
	struct http_slice s = http_answer_get(&p->x.answer, "Mcp-Session-Id");
	struct http *h = p->h;

	if (s.n == 0)
		return;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= ' ' || s.p[i] > '~' || s.n >= sizeof(h->session)) {
			mcpc_lost(&h->link.client, "the server names a session that can be none");
			return;
		}
	(void)memcpy(h->session, s.p, s.n);
	h->session[s.n] = '\0';
}

/* Refused because of its session, which has expired or went with the server's last start. The protocol has 404 for it, many servers say 400; both have done nothing. */
static bool is_forgotten(const struct post *p)
{
	int status = p->x.answer.status;

	return p->kind == POST_MESSAGE && p->h->session[0] != '\0' && !p->opens &&
	       (status == 404 || status == 400);
}

/* What can be said without the rest of the answer. */
static void judge_head(struct post *p, uint64_t now_us)
{
	struct http_slice to = http_answer_get(&p->x.answer, "Location");
	struct http *h = p->h;
	struct mcpc *c = &h->link.client;
	int status = p->x.answer.status;

	h->answered = p->has_head = true;
	if (p->kind == POST_STANDING) {
		h->barred_us = 0;
		if (!p->x.is_stream)
			standing_over(p, now_us);
		return;
	}
	if (p->opens && status == 200)
		take_session(p);
	if (status >= 300 && status < 400)
		mcpc_fail(c, p->id, true, now_us,
			  "the server redirects to '%.*s', which is not followed",
			  (int)(to.n < 200 ? to.n : 200), to.p);
	else if (status == 401 || status == 403)
		mcpc_fail(c, p->id, true, now_us, "the server refuses: status %d, who asks is %s",
			  status, status == 401 ? "not known" : "not allowed to");
	else if (status == 404 && is_forgotten(p))
		mcpc_fail(c, p->id, true, now_us,
			  "the session is over, says the server (status 404)");
}

/* Its stream has ended, or all of it is there. */
static void message_over(struct post *p, int r, uint64_t now_us)
{
	struct http *h = p->h;
	struct mcpc *c = &h->link.client;
	bool may_resume = p->has_head && p->x.is_stream && c->era == MCPC_ERA_LEGACY &&
			  r != -E2BIG && p->x.sse.last_id[0] != '\0';

	if (r == 1 && p->id != 0 && !p->x.is_stream && p->x.body.n > 0 &&
	    (fetch_is_type(&p->x, "application/json") || p->x.answer.status >= 400))
		mcpc_take(c, p->id, p->x.body.p, p->x.body.n, now_us);
	if (p->opened && !h->old && !p->over)
		standing_start(h, now_us);
	if (p->over || !mcpc_is_open(c, p->id) || (h->old && r == 1 && p->x.answer.status < 300)) {
		p->over = true;
		return;
	}
	if (may_resume) {
		p->kind = POST_RESUME;
		p->again_us = now_us + retry_us(p);
		return;
	}
	p->over = true;
	if (r == -E2BIG)
		mcpc_fail(c, p->id, true, now_us, "the answer has more than %zu bytes",
			  c->bounds.message_bytes);
	else if (r < 0)
		mcpc_fail(c, p->id, p->x.answer.status == 0, now_us, "%s: %s", h->shown, p->x.why);
	else if (p->x.is_stream)
		mcpc_fail(c, p->id, false, now_us, "the stream of the answer has ended without it");
	else if (p->x.answer.status < 300)
		mcpc_fail(c, p->id, false, now_us,
			  "what was answered is no answer to this request");
	else
		mcpc_fail(c, p->id, false, now_us, "the server answers with status %d",
			  p->x.answer.status);
}

/* The GET that was to bring the rest was refused, or lost. */
static void resume_over(struct post *p, int r, uint64_t now_us)
{
	struct mcpc *c = &p->h->link.client;

	if (p->over || !mcpc_is_open(c, p->id)) {
		p->over = true;
	} else if (r != -E2BIG && (!p->has_head || p->x.is_stream) &&
		   ++p->tries <= HTTP_STANDING_TRIES) {
		p->again_us = now_us + retry_us(p);
	} else {
		p->over = true;
		mcpc_fail(c, p->id, true, now_us, "the rest of the answer cannot be had: status %d",
			  p->x.answer.status);
	}
}

/* --- one turn ------------------------------------------------------------------------------------- */

static void over(struct post *p, int r, uint64_t now_us)
{
	struct http *h = p->h;

	if (p->kind == POST_LEAVE) {
		p->over = true;
		return;
	}
	/* Nobody is there at all. */
	if (r < 0 && !h->answered && !p->over)
		mcpc_lost(&h->link.client, "%s: %s", h->shown, p->x.why);
	if (p->kind == POST_STANDING)
		standing_over(p, now_us);
	else if (p->kind == POST_RESUME)
		resume_over(p, r, now_us);
	else
		message_over(p, r, now_us);
	if (p->again_us != UINT64_MAX) /* until then there is nothing to wait for */
		fd_close(&p->x.fd);
}

void http_post_step(struct post *p, uint64_t now_us)
{
	int r = fetch_step(&p->x, on_event, p);

	p->h->link.undone = fetch_has_head(&p->x) && is_forgotten(p);
	if (p->kind == POST_LEAVE && fetch_has_head(&p->x))
		p->over = true;
	else if (!p->has_head && fetch_has_head(&p->x) && r != -EPROTO)
		judge_head(p, now_us);
	if (r != 0 && !p->over)
		over(p, r, now_us);
	p->h->link.undone = false;
}

void http_post_failed(struct post *p, uint64_t now_us)
{
	over(p, -ECONNREFUSED, now_us);
}
