// SPDX-License-Identifier: Apache-2.0
#include "gate/tool_ray.h"

#include "base/own.h"
#include "gate/ports.h"
#include "gate/tool_runs.h"
#include "gate/way.h"
#include "wire/json_text.h"

#include <stdio.h>
#include <string.h>

enum { LENGTH = 4, MESSAGE_MAX = 2 * 1024 * 1024, ANSWER_MAX = 10 * 1024 * 1024, TIME_S = 30 };

const struct route ray_route = { .method = "POST",
				 .path = "/tmp/mcp.sock",
				 .body = BODY_STREAM,
				 .flags = ROUTE_HIDDEN | ROUTE_TOOLS,
				 .status = 200,
				 .doc = "RayAI: call a tool" };

/* --- answers ------------------------------------------------------------------------------------------- */

static void send_framed(struct req *r, struct json *j)
{
	uint8_t length[LENGTH] = { (uint8_t)(j->len >> 24), (uint8_t)(j->len >> 16),
				   (uint8_t)(j->len >> 8), (uint8_t)j->len };

	if (!j->failed && req_write(r, length, sizeof(length)) == 0)
		(void)req_write(r, j->buf, j->len);
	json_done(j);
	req_end(r);
}

static void send_error(struct req *r, const char *text, size_t n, const struct texts *allowed)
{
	const char *rule, *value;
	size_t at = 0;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_bytes(&j, "error", text, n);
	if (allowed != NULL) {
		json_open(&j, "allowed_urls", '[');
		while (texts_next(allowed, &at, &rule, &value))
			if (strstr(rule, "://") != NULL && strcmp(value, "allow") == 0)
				json_str(&j, NULL, rule);
		json_close(&j, ']');
	}
	json_close(&j, '}');
	send_framed(r, &j);
}

static void done(struct tool_run *t, const char *text, size_t n)
{
	struct json_text result;
	struct json j;

	if (json_text_read(text, n, &result) < 0) {
		send_error(t->r, "MCP server error: its answer is no JSON", 39, NULL);
		return;
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	json_text_put(result, &j, "result");
	json_close(&j, '}');
	send_framed(t->r, &j);
}

static void failed(struct tool_run *t, int status, const char *type, uint64_t code,
		   const char *text, size_t n)
{
	char blocked[sizeof(t->server) + 32];
	int len;

	(void)status;
	(void)code;
	if (strcmp(type, "denied") != 0) {
		send_error(t->r, text, n, NULL);
		return;
	}
	len = snprintf(blocked, sizeof(blocked), "URL not in allowlist: %s", t->server);
	send_error(t->r, blocked, (size_t)len, &t->a->tools);
}

/* --- the other side -------------------------------------------------------------------------------------- */

struct posting {
	struct tool_run *t;
	struct way_call *way;
	struct buf said;
	int status;
	struct deferred deferred;
};

static void posting_free(void *arg)
{
	struct posting *p = arg;

	buf_done(&p->said);
	free(p);
}

static void drop(struct posting *p)
{
	loop_defer(&p->t->a->g->loop, &p->deferred, posting_free, p);
}

static void fail(struct posting *p, const char *type, const char *text)
{
	struct tool_run *t = p->t;

	t->under_way = NULL;
	drop(p);
	tool_run_failed(t, 502, type, 0, text, strlen(text));
}

static void on_head(void *arg, const struct http_answer *a)
{
	((struct posting *)arg)->status = a->status;
}

static size_t on_body(void *arg, const char *bytes, size_t n)
{
	struct posting *p = arg;

	if (buf_put(&p->said, bytes, n) == 0)
		return n;
	way_close(p->way);
	fail(p, "too_large", "MCP server error: its answer is too large");
	return n;
}

static void on_end(void *arg)
{
	struct posting *p = arg;
	struct tool_run *t = p->t;
	char text[64];

	if (p->status >= 400) {
		(void)snprintf(text, sizeof(text), "MCP server error: status %d", p->status);
		fail(p, "refused", text);
		return;
	}
	t->under_way = NULL;
	drop(p);
	tool_run_done(t, buf_head(&p->said), buf_len(&p->said));
}

static void on_fail(void *arg, const char *why)
{
	struct posting *p = arg;
	char text[640];

	if (strcmp(why, "it takes too long") == 0) {
		(void)snprintf(text, sizeof(text), "Request timeout (%ds)", TIME_S);
		fail(p, "timeout", text);
		return;
	}
	if (p->status == 0)
		(void)snprintf(text, sizeof(text), "Cannot connect to MCP server: %s",
			       p->t->server);
	else
		(void)snprintf(text, sizeof(text), "MCP server error: %s", why);
	fail(p, "failed", text);
}

static void put_request(const struct tool_run *t, const struct endpoint *at, const char *rest,
			struct json *j)
{
	char host[ENDPOINT_HOST + 10], head[2048];
	size_t len = strlen(rest);
	struct json body;
	int n;

	if (len > 0 && rest[len - 1] == '/')
		len--;

	json_init(&body);
	json_open(&body, NULL, '{');
	json_str(&body, "tool", t->tool);
	json_value(&body, "arguments");
	json_raw(&body, t->arguments, t->narguments);
	body.comma = true;
	json_close(&body, '}');
	endpoint_text(at, host);
	n = snprintf(head, sizeof(head),
		     "POST %s%.*s/tools/call HTTP/1.1\r\nHost: %s\r\nContent-Type: "
		     "application/json\r\nAccept: application/json\r\nConnection: close\r\n"
		     "Content-Length: %zu\r\n\r\n",
		     len == 0 || rest[0] == '/' ? "" : "/", (int)len, rest, host, body.len);
	json_raw(j, head, (size_t)n);
	json_raw(j, body.buf, body.len);
	j->failed = j->failed || body.failed || n >= (int)sizeof(head);
	json_done(&body);
}

static void call(struct tool_run *t)
{
	static const struct way_ops ops = { on_head, on_body, on_end, on_fail };
	struct gate *g = t->a->g;
	struct posting *p = calloc(1, sizeof(*p));
	struct endpoint at;
	const char *rest;
	struct json j;
	int which = endpoint_of_url(t->server, &at, &rest) == 0 ? way_find(g, &at) : -1;

	json_init(&j);
	if (which >= 0)
		put_request(t, &at, rest, &j);
	if (p != NULL)
		buf_init(&p->said, ANSWER_MAX);
	if (p != NULL && which >= 0 && !j.failed) {
		p->t = t;
		p->way = way_ask(g, (unsigned int)which, j.buf, j.len,
				 g->loop.now_us + TIME_S * 1000000ull, &ops, p);
	} else {
		json_done(&j);
	}
	if (p != NULL && p->way != NULL) {
		t->under_way = p;
		return;
	}
	free(p);
	tool_run_refused(t, 502, "failed", "Unexpected error: there is no way to this URL");
}

static void stop(struct tool_run *t)
{
	struct posting *p = t->under_way;

	way_close(p->way);
	drop(p);
}

static const struct tool_shape shape = { call, stop, done, failed, false };

/* --- the request ----------------------------------------------------------------------------------------- */

struct ray {
	struct buf in;
};

static void ray_free(struct req *r)
{
	struct ray *y = r->work;

	r->work = NULL;
	r->gone = NULL;
	buf_done(&y->in);
	free(y);
}

static void refuse(struct req *r, const char *text)
{
	r->take_body = NULL;
	ray_free(r);
	send_error(r, text, strlen(text), NULL);
}

/* All of it is there. The text goes with the buffer that it lies in. */
static void take_message(struct req *r, const char *p, size_t n)
{
	struct json_member m[] = { { .key = "url" }, { .key = "tool" }, { .key = "arguments" } };
	struct ray *y = r->work;
	struct tool_run *t;
	struct json_text all;
	struct abox *a;

	if (json_text_read(p, n, &all) < 0 || json_text_kind(all) != '{') {
		refuse(r, "Invalid JSON: no object");
		return;
	}
	json_text_find(all, m, ARRAY_LEN(m));
	a = r->conn->listener->box;
	t = a != NULL && a->state == ABOX_READY ? tool_run_new(r, a, &shape) : NULL;
	if (t == NULL) {
		r->work = y;
		refuse(r, "Unexpected error: too many calls are under way");
		return;
	}
	r->take_body = NULL;
	r->conn->deadline_us = UINT64_MAX; /* from here on the call has its own */
	if (!json_text_str(m[0].value, t->server, sizeof(t->server)) || t->server[0] == '\0')
		tool_run_refused(t, 400, "invalid", "Missing 'url' in request");
	else if (!json_text_str(m[1].value, t->tool, sizeof(t->tool)) || t->tool[0] == '\0')
		tool_run_refused(t, 400, "invalid", "Missing 'tool' in request");
	else
		tool_run_go(t, m[2].value);
	buf_done(&y->in);
	free(y);
}

static ptrdiff_t take(struct req *r, const char *p, size_t n)
{
	struct ray *y = r->work;
	const uint8_t *head;
	char text[96];
	size_t length;

	if (buf_put(&y->in, p, n) < 0) {
		refuse(r, "Unexpected error: out of memory, or more than one message");
		return (ptrdiff_t)n;
	}
	if (buf_len(&y->in) < LENGTH)
		return (ptrdiff_t)n;
	head = (const uint8_t *)buf_head(&y->in);
	length = (size_t)head[0] << 24 | (size_t)head[1] << 16 | (size_t)head[2] << 8 | head[3];
	if (length > MESSAGE_MAX) {
		(void)snprintf(text, sizeof(text), "Message too large: %zu bytes (max: %d)", length,
			       MESSAGE_MAX);
		refuse(r, text);
	} else if (buf_len(&y->in) >= LENGTH + length) {
		take_message(r, buf_head(&y->in) + LENGTH, length);
	}
	return (ptrdiff_t)n;
}

void ray_begin(struct req *r)
{
	struct ray *y = calloc(1, sizeof(*y));

	if (y == NULL) {
		req_abort(r);
		return;
	}
	buf_init(&y->in, LENGTH + MESSAGE_MAX + 65536);
	r->work = y;
	r->gone = ray_free;
	r->take_body = take;
}
