/* SPDX-License-Identifier: Apache-2.0 */
/* A server for tests of src/mcp/client*.c: what is sent to it is kept, and what it says is said. */
#ifndef GLOVEBOX_TESTS_UNIT_TEST_MCP_CLIENT_H
#define GLOVEBOX_TESTS_UNIT_TEST_MCP_CLIENT_H

#include "base/own.h"
#include "mcp/client.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "test_help.h"

enum { SENT_MAX = 64 };

struct peer {
	struct mcpc_way way; /* the first member */
	struct mcpc c;
	char *sent[SENT_MAX]; /* messages */
	char headers[4096];   /* of the last one */
	uint64_t ids[SENT_MAX];
	unsigned int n, ndropped, ntold;
	uint64_t dropped;
	bool accept, cannot_send;
};

static inline int on_send(struct mcpc_way *w, const struct mcpc_message *m)
{
	struct peer *p = (struct peer *)w;
	struct json_text t;
	size_t at = 0;

	if (p->cannot_send)
		return -EPIPE;
	CHECK(p->n < SENT_MAX);
	CHECK_EQ_INT(json_text_read(m->text, m->n, &t), 0);
	CHECK(memchr(m->text, '\n', m->n) == NULL);
	CHECK(p->way.http || m->nheaders == 0);
	p->ids[p->n] = m->id;
	p->sent[p->n++] = strndup(m->text, m->n);
	p->headers[0] = '\0';
	for (unsigned int i = 0; i < m->nheaders; i++)
		at += (size_t)snprintf(p->headers + at, sizeof(p->headers) - at, "%s: %s\n",
				       m->headers[i].name, m->headers[i].value);
	return 0;
}

static inline void on_drop(struct mcpc_way *w, uint64_t id)
{
	struct peer *p = (struct peer *)w;

	p->dropped = id;
	p->ndropped++;
}

static inline bool on_elicit(struct mcpc_way *w, struct json_text params, struct json *j)
{
	return ((struct peer *)w)->accept && mcpc_elicit_defaults(params, j);
}

static inline void on_told(struct mcpc_way *w, const char *method, struct json_text params)
{
	(void)method, (void)params;
	((struct peer *)w)->ntold++;
}

static inline void open_peer(struct peer *p, bool http, const struct mcpc_bounds *b)
{
	struct mcpc_bounds usual;

	mcpc_bounds_init(&usual);
	*p = (struct peer){ .way = { .http = http,
				     .send = on_send,
				     .drop = on_drop,
				     .elicit = on_elicit,
				     .told = on_told } };
	mcpc_init(&p->c, &p->way, b != NULL ? b : &usual, "test", "1");
}

static inline void close_peer(struct peer *p)
{
	mcpc_done(&p->c);
	CHECK_EQ_INT(p->c.nrequests, 0);
	for (unsigned int i = 0; i < p->n; i++)
		free(p->sent[i]);
}

static inline const char *last(const struct peer *p)
{
	return p->n > 0 ? p->sent[p->n - 1] : "";
}

/* --- requests that count how often they end -------------------------------------------------------- */

struct counted {
	struct mcpc_request r; /* the first member */
	unsigned int ends, steps;
};

static inline void on_done(struct mcpc_request *r)
{
	((struct counted *)r)->ends++;
}

static inline void on_progress(struct mcpc_request *r, struct json_text params)
{
	(void)params;
	((struct counted *)r)->steps++;
}

static inline void fresh(struct counted *q)
{
	*q = (struct counted){ .r = { .done = on_done, .deadline_us = UINT64_MAX } };
}

/* The server says this; %llu in it is the id of the last message. */
static inline void say(struct peer *p, const char *text)
{
	char *with = NULL;
	const char *at = strstr(text, "ID");

	if (at == NULL) {
		mcpc_take(&p->c, 0, text, strlen(text), 1);
		return;
	}
	CHECK(asprintf(&with, "%.*s%llu%s", (int)(at - text), text,
		       (unsigned long long)p->ids[p->n - 1], at + 2) > 0);
	mcpc_take(&p->c, p->ids[p->n - 1], with, strlen(with), 1);
	free(with);
}

static inline void say_result(struct peer *p, const char *result)
{
	char *text = NULL;

	CHECK(asprintf(&text, "{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":%s}", result) > 0);
	say(p, text);
	free(text);
}

static inline void say_error(struct peer *p, int code, const char *more)
{
	char text[256];

	(void)snprintf(
		text, sizeof(text),
		"{\"jsonrpc\":\"2.0\",\"id\":ID,\"error\":{\"code\":%d,\"message\":\"no\"%s}}",
		code, more);
	say(p, text);
}

#define TOOL(name) "{\"name\":\"" name "\",\"inputSchema\":{\"type\":\"object\"}}"
#define DISCOVERED                                                               \
	"{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],"   \
	"\"capabilities\":{},\"_meta\":{\"io.modelcontextprotocol/serverInfo\":" \
	"{\"name\":\"s\",\"version\":\"2\"}}}"
#define INITIALIZED(version)                                        \
	"{\"protocolVersion\":\"" version "\",\"capabilities\":{}," \
	"\"serverInfo\":{\"name\":\"old\",\"version\":\"1\"}}"

static inline void connect_modern(struct peer *p)
{
	struct counted q;

	fresh(&q);
	mcpc_connect(&p->c, &q.r, 1);
	say_result(p, DISCOVERED);
	CHECK_EQ_INT(q.r.outcome, MCPC_DONE);
	mcpc_request_done(&q.r);
}

static inline void connect_legacy(struct peer *p)
{
	struct counted q;

	fresh(&q);
	mcpc_connect(&p->c, &q.r, 1);
	say_error(p, -32601, "");
	say_result(p, INITIALIZED("2025-11-25"));
	CHECK_EQ_INT(q.r.outcome, MCPC_DONE);
	mcpc_request_done(&q.r);
}

static inline void call(struct peer *p, struct counted *q, const char *args)
{
	struct json_text t = { 0 };

	fresh(q);
	if (args != NULL)
		CHECK_EQ_INT(json_text_read(args, strlen(args), &t), 0);
	mcpc_call(&p->c, &q->r, "tool", t, NULL, 1);
}

#endif
