// SPDX-License-Identifier: Apache-2.0
/* MCP's streamable HTTP: a request is a link of the core; its answer is one JSON text, or a stream of events if there is more to say. */
#include "gate/mcp.h"

#include "base/own.h"
#include "gate/gate.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { COMMENT_US = 15 * 1000 * 1000 };

struct mcp_http {
	struct mcp_link link; /* its first member */
	struct gate *g;
	struct req *r;
	bool streams; /* the client takes events */
	bool begun;   /* they have begun */
	bool ended;   /* all is said */
	struct timer comment;
	struct deferred deferred;
};

static void close_request(struct mcp_http *h)
{
	struct req *r = h->r;

	h->r = NULL;
	if (r != NULL)
		req_end(r);
}

static void http_free(void *arg)
{
	close_request(arg);
	free(arg);
}

static void http_end(struct mcp_http *h)
{
	if (h->ended)
		return;
	h->ended = true;
	timer_clear(&h->g->loop, &h->comment);
	loop_defer(&h->g->loop, &h->deferred, http_free, h);
}

static void on_comment(void *arg)
{
	struct mcp_http *h = arg;

	(void)timer_set(&h->g->loop, &h->comment, h->g->loop.now_us + COMMENT_US, on_comment, h);
	if (req_queued(h->r) == 0)
		(void)req_write(h->r, ": still there\n\n", 15);
}

static void begin(struct mcp_http *h)
{
	h->begun = true;
	req_header(h->r, "Cache-Control", "no-store");
	req_header(h->r, "X-Accel-Buffering", "no");
	req_begin(h->r, 200, "text/event-stream", -1);
	(void)timer_set(&h->g->loop, &h->comment, h->g->loop.now_us + COMMENT_US, on_comment, h);
}

static void write_event(struct mcp_http *h, const char *p, size_t n)
{
	(void)req_write(h->r, "event: message\ndata: ", 21);
	(void)req_write(h->r, p, n);
	(void)req_write(h->r, "\n\n", 2);
}

static bool on_send(struct mcp_link *l, const char *p, size_t n, bool droppable)
{
	struct mcp_http *h = (struct mcp_http *)l;

	if (!h->streams)
		return false;
	if (!h->begun)
		begin(h);
	if (n > 0 && (!droppable || req_queued(h->r) < REQ_HIGH))
		write_event(h, p, n);
	return true;
}

/* All is said at once. But with the end of a request the next one of its connection begins, which may be about the session or the call
 * that somebody is busy with: unless this is about the request that is being taken, it ends with the turn. */
static void on_end(struct mcp_link *l, int status, const char *p, size_t n)
{
	struct mcp_http *h = (struct mcp_http *)l;
	struct req *r = h->r;

	if (!h->begun) {
		if (status == 405)
			req_header(r, "Allow", "POST");
		req_begin(r, status, n > 0 ? "application/json" : NULL, (int64_t)n);
		(void)req_write(r, p, n);
	} else if (n > 0) {
		write_event(h, p, n);
	}
	http_end(h);
	if (r->conn->in_progress)
		close_request(h);
}

static void on_session(struct mcp_link *l, const char *id)
{
	req_header(((struct mcp_http *)l)->r, "Mcp-Session-Id", "%s", id);
}

static void on_gone(struct req *r)
{
	struct mcp_http *h = r->work;

	mcp_left(&h->link);
	h->r = NULL;
	http_end(h);
}

/* The server stops: who only listens is sent away. */
static void on_stop(struct req *r)
{
	struct mcp_http *h = r->work;

	if (h->link.call == NULL || !h->link.call->listens)
		return;
	mcp_left(&h->link);
	on_end(&h->link, 503, NULL, 0);
}

static struct http_slice get_header(const void *arg, const char *name)
{
	return req_get(arg, name);
}

const struct req *mcp_http_req(const struct mcp_call *c)
{
	return ((const struct mcp_http *)c->link)->r;
}

static struct mcp_envelope envelope(const struct req *r)
{
	return (struct mcp_envelope){ .owner = r->tenant,
				      .now_us = r->g->loop.now_us,
				      .context = req_get(r, "Glovebox-Box"),
				      .header = get_header,
				      .arg = r };
}

static bool takes_events(const struct req *r)
{
	struct http_slice accept = req_get(r, "Accept");

	return accept.p != NULL && (memmem(accept.p, accept.n, "text/event-stream", 17) != NULL ||
				    memmem(accept.p, accept.n, "*/*", 3) != NULL);
}

static bool is_json(struct http_slice type)
{
	static const char json[] = "application/json";
	const size_t n = sizeof(json) - 1;

	return type.n >= n && strncasecmp(type.p, json, n) == 0 &&
	       (type.n == n || strchr("; \t", type.p[n]) != NULL);
}

static struct mcp_http *http_new(struct req *r)
{
	struct mcp_http *h = calloc(1, sizeof(*h));

	if (h == NULL) {
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
		return NULL;
	}
	h->link.send = on_send;
	h->link.end = on_end;
	h->link.session = on_session;
	h->g = r->g;
	h->r = r;
	h->streams = takes_events(r);
	r->work = h;
	r->gone = on_gone;
	r->stop = on_stop;
	return h;
}

void mcp_http_post(struct req *r)
{
	struct mcp_envelope env = envelope(r);
	size_t n = r->body_len;
	struct mcp_http *h;
	char *text;

	if (!is_json(req_get(r, "Content-Type"))) {
		req_refuse(r, 415, "unsupported_media_type", "Content-Type",
			   "a message is application/json");
		return;
	}
	h = http_new(r);
	if (h == NULL)
		return;
	text = r->body != NULL ? r->body : strdup("");
	r->body = NULL;
	r->body_len = r->body_cap = 0;
	mcp_take(&r->g->mcp, &env, &h->link, text, n);
}

void mcp_http_get(struct req *r)
{
	struct mcp_envelope env = envelope(r);
	struct mcp_http *h = http_new(r);

	if (h == NULL)
		return;
	if (r->head_only) /* nobody would read what a session is told */
		on_end(&h->link, 405, NULL, 0);
	else if (!h->streams)
		on_end(&h->link, 406, NULL, 0);
	else
		mcp_hear(&r->g->mcp, &env, &h->link);
}

void mcp_http_delete(struct req *r)
{
	struct mcp_envelope env = envelope(r);
	int status = mcp_end_session(&r->g->mcp, &env);

	if (status == 204)
		req_reply(r, 204, NULL, "", 0);
	else
		req_refuse(r, status, status == 404 ? "not_found" : "invalid_field",
			   "Mcp-Session-Id",
			   status == 404 ? "there is no such session"
					 : "the header Mcp-Session-Id is missing");
}
