/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/mcp: messages in, messages out, of both eras, with a table of the test's own; and src/gate/mcp_http.c, where links are requests
 * of HTTP. A link goes with its end: whoever touches it then is seen by the sanitizer.
 */
#include "mcp/mcp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "test_gate_http.h"
#include "test_help.h"

#define META    "io.modelcontextprotocol/"
#define KNOWN   "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
#define HOUR_US (3600ull * 1000 * 1000)

enum { SENT_MAX = 16, LATER_MAX = MCP_CALLS_MAX };

static struct mcp_server server;
static const char alice[] = "alice", bob[] = "bob";
static uint64_t now_us;

/* --- a table ------------------------------------------------------------------------------------------------- */

static struct mcp_call *later[LATER_MAX]; /* that were not answered yet */
static unsigned int nlater, ncancelled, nover, nasked;
static int nsubscribed;

static void run_now(struct mcp_call *c)
{
	const struct jsonr_node *n = mcp_arg(c, "text", JSONR_STRING);

	mcp_textf(c, false, "now %s", n != NULL ? n->string : "");
}

static void forget(const struct mcp_call *c)
{
	for (unsigned int i = 0; i < nlater; i++)
		if (later[i] == c)
			later[i] = later[--nlater];
}

static void on_cancel(struct mcp_call *c)
{
	ncancelled++;
	forget(c);
}

static void run_later(struct mcp_call *c)
{
	CHECK(nlater < LATER_MAX);
	later[nlater++] = c;
	c->cancel = on_cancel;
}

/* The latest of those that wait. */
static void answer_later(void)
{
	struct mcp_call *c = later[--nlater];

	mcp_textf(c, false, "later");
}

/* With one of them, what all of them wait for is over. */
static void on_cancel_all(struct mcp_call *c)
{
	ncancelled++;
	forget(c);
	while (nlater > 0)
		answer_later();
}

static void run_entangled(struct mcp_call *c)
{
	run_later(c);
	c->cancel = on_cancel_all;
}

/* Ends what others wait for, then its own. */
static void run_finish(struct mcp_call *c)
{
	while (nlater > 0)
		answer_later();
	mcp_textf(c, false, "finished");
}

static const char *answer_text(const struct mcp_input *in)
{
	const struct jsonr_node *n = jsonr_get(in->doc, in->answer, "text");

	return n != NULL && n->type == JSONR_STRING ? n->string : "refused";
}

static void run_ask(struct mcp_call *c)
{
	const struct mcp_input *a, *b;

	mcp_state(c, "asked");
	a = mcp_input(c, "a", "elicitation/create", "{\"message\":\"a?\"}");
	b = mcp_input(c, "b", "sampling/createMessage", "{\"message\":\"b?\"}");
	if (a != NULL && b != NULL)
		mcp_textf(c, false, "%s, %s, %s", c->state != NULL ? c->state : "no state",
			  answer_text(a), answer_text(b));
}

/* One question after the other; then it takes its time. */
static void run_rounds(struct mcp_call *c)
{
	bool second = c->state != NULL && strcmp(c->state, "second") == 0;

	if (!second && mcp_input(c, "first", "roots/list", "{}") == NULL) {
		mcp_state(c, "first");
		return;
	}
	if (mcp_input(c, "second", "roots/list", "{}") == NULL)
		mcp_state(c, "second");
	else
		run_later(c);
}

static void run_loud(struct mcp_call *c)
{
	mcp_progress(c, 500, 1000, "half");
	mcp_log(c, MCP_DEBUG, NULL, "\"debug\"");
	mcp_log(c, MCP_INFO, "l", "\"info\"");
	mcp_log(c, MCP_ERROR, NULL, "{\"an\":\"error\"}");
	mcp_textf(c, true, "loud");
}

static const struct mcp_tool tools[] = {
	{ .name = "now", .doc = "d", .input = "{}", .run = run_now },
	{ .name = "later", .doc = "d", .input = "{}", .run = run_later },
	{ .name = "entangled", .doc = "d", .input = "{}", .run = run_entangled },
	{ .name = "finish", .doc = "d", .input = "{}", .run = run_finish },
	{ .name = "ask", .doc = "d", .input = "{}", .run = run_ask },
	{ .name = "ask2", .doc = "d", .input = "{}", .run = run_ask },
	{ .name = "rounds", .doc = "d", .input = "{}", .run = run_rounds },
	{ .name = "loud", .doc = "d", .input = "{}", .run = run_loud },
	{ .name = "here",
	  .doc = "d",
	  .input = "{}",
	  .header_param = "text",
	  .header = "Text",
	  .run = run_now },
	{ .name = "needs", .doc = "d", .input = "{}", .capability = "sampling", .run = run_now },
};

static void run_prompt(struct mcp_call *c)
{
	struct json j;

	if (mcp_arg(c, "ask", JSONR_STRING) != NULL &&
	    mcp_input(c, "p", "roots/list", "{}") == NULL)
		return;
	mcp_result_begin(c, &j);
	json_open(&j, "messages", '[');
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static const struct mcp_argument prompt_args[] = { { "who", "d", true }, { "ask", "d", false } };
static const struct mcp_prompt prompts[] = {
	{ .name = "hello", .doc = "d", .args = prompt_args, .nargs = 2, .run = run_prompt },
};
static const struct mcp_template templates[] = { { "t", "x:{t}", "d", NULL } };

static void list_all(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "resources", '[');
	json_close(&j, ']');
	json_str(&j, "nextCursor", c->cursor);
	mcp_result_end(c, &j);
}

static void read_one(struct mcp_call *c)
{
	struct json j;

	if (strcmp(c->uri, "x:ask") == 0 && mcp_input(c, "r", "roots/list", "{}") == NULL)
		return;
	if (strncmp(c->uri, "x:", 2) != 0) {
		mcp_no_resource(c);
		return;
	}
	mcp_result_begin(c, &j);
	json_open(&j, "contents", '[');
	json_close(&j, ']');
	mcp_result_end(c, &j);
}

static void complete(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "completion", '{');
	json_close(&j, '}');
	mcp_result_end(c, &j);
}

static bool subscribe(struct mcp_server *s, const void *owner, const char *uri)
{
	(void)s;
	CHECK(owner != NULL);
	nsubscribed += strncmp(uri, "x:", 2) == 0;
	return strncmp(uri, "x:", 2) == 0;
}

static void unsubscribe(struct mcp_server *s, const void *owner, const char *uri)
{
	(void)s;
	CHECK(owner != NULL && strncmp(uri, "x:", 2) == 0);
	nsubscribed--;
}

/* By the letter behind "x:"; what is not there takes a moment. */
static int settled['z' + 1];

static int subscribed(struct mcp_server *s, const void *owner, const char *uri)
{
	(void)s;
	CHECK(owner != NULL);
	return settled[(unsigned char)uri[2]];
}

static void session_over(struct mcp_session *se)
{
	/* Nobody is told any more, and nobody finds it. */
	CHECK_EQ_INT(se->nuris, 0);
	for (const struct mcp_session *i = server.sessions; i != NULL; i = i->next)
		CHECK(i != se);
	nover++;
}

static bool session_known(struct mcp_server *s, const void *owner, const char *id)
{
	(void)s;
	nasked++;
	return owner == alice && strcmp(id, KNOWN) == 0;
}

static const struct mcp_table table = {
	.name = "test",
	.title = "Test",
	.version = "1",
	.instructions = "none",
	.tools = tools,
	.ntools = ARRAY_LEN(tools),
	.prompts = prompts,
	.nprompts = ARRAY_LEN(prompts),
	.templates = templates,
	.ntemplates = ARRAY_LEN(templates),
	.tools_change = true,
	.prompts_change = true,
	.resources_change = true,
	.resources = list_all,
	.read = read_one,
	.complete = complete,
	.subscribe = subscribe,
	.unsubscribe = unsubscribe,
	.session_over = session_over,
	.session_known = session_known,
};

static void start(const struct mcp_table *t)
{
	uint8_t key[MCP_KEY] = { 1, 2, 3 };

	now_us = 48 * HOUR_US;
	mcp_init(&server, t, NULL, key);
}

/* --- a client ------------------------------------------------------------------------------------------------ */

/* What came by one link. */
struct peer {
	struct wire *wire; /* NULL: it has ended, or the client has left */
	bool deaf;         /* takes the last message only */
	unsigned int nsent, nends;
	char *sent[SENT_MAX];
	char *last;
	int status;
	char session[MCP_SESSION_ID];
};

struct wire {
	struct mcp_link link; /* its first member */
	struct peer *to;
};

static char *copy(const char *p, size_t n)
{
	char *text = malloc(n + 1);

	CHECK(text != NULL);
	if (n > 0)
		memcpy(text, p, n);
	text[n] = '\0';
	return text;
}

/* Everything that is said is one line of JSON. */
static char *copy_json(const char *p, size_t n)
{
	char *text = copy(p, n), *spoilt = copy(p, n);
	struct jsonr doc;

	CHECK(memchr(p, '\n', n) == NULL);
	CHECK_EQ_INT(jsonr_parse(&doc, spoilt, n, NULL), 0);
	jsonr_done(&doc);
	free(spoilt);
	return text;
}

static bool on_send(struct mcp_link *l, const char *p, size_t n, bool droppable)
{
	struct peer *to = ((struct wire *)l)->to;

	(void)droppable;
	CHECK_EQ_INT(to->nends, 0);
	if (to->deaf)
		return false;
	CHECK(to->nsent < SENT_MAX);
	to->sent[to->nsent++] = n > 0 ? copy_json(p, n) : copy("", 0);
	return true;
}

static void on_end(struct mcp_link *l, int status, const char *p, size_t n)
{
	struct wire *w = (struct wire *)l;

	CHECK(l->call == NULL);
	w->to->nends++;
	w->to->status = status;
	w->to->last = n > 0 ? copy_json(p, n) : copy("", 0);
	w->to->wire = NULL;
	free(w);
}

static void on_session(struct mcp_link *l, const char *id)
{
	CHECK_EQ_INT(strlen(id), MCP_SESSION_ID - 1);
	(void)snprintf(((struct wire *)l)->to->session, MCP_SESSION_ID, "%s", id);
}

static struct mcp_link *wire_new(struct peer *to)
{
	struct wire *w = calloc(1, sizeof(*w));

	CHECK(w != NULL);
	w->link = (struct mcp_link){ .send = on_send, .end = on_end, .session = on_session };
	w->to = to;
	to->wire = w;
	return &w->link;
}

static struct peer *peer_new(void)
{
	struct peer *p = calloc(1, sizeof(*p));

	CHECK(p != NULL);
	return p;
}

static void leave(struct peer *p)
{
	struct wire *w = p->wire;

	mcp_left(&w->link);
	CHECK(w->link.call == NULL);
	p->wire = NULL;
	free(w);
}

static void peer_free(struct peer *p)
{
	CHECK(p->nends <= 1);
	CHECK(p->wire == NULL);
	for (unsigned int i = 0; i < p->nsent; i++)
		free(p->sent[i]);
	free(p->last);
	free(p);
}

/* Headers: "Name: value" each. */
struct heads {
	const char *line[8];
};

static struct http_slice get_header(const void *arg, const char *name)
{
	const struct heads *h = arg;
	size_t n = strlen(name);

	for (unsigned int i = 0; i < ARRAY_LEN(h->line) && h->line[i] != NULL; i++)
		if (strncasecmp(h->line[i], name, n) == 0 && h->line[i][n] == ':')
			return (struct http_slice){ h->line[i] + n + 2,
						    strlen(h->line[i] + n + 2) };
	return (struct http_slice){ NULL, 0 };
}

static struct mcp_envelope envelope(const void *owner, const struct heads *h)
{
	return (struct mcp_envelope){
		.owner = owner, .now_us = now_us, .header = get_header, .arg = h
	};
}

/* "`" is '"'. */
static char *unquote(char *text)
{
	for (char *p = text; *p != '\0'; p++)
		if (*p == '`')
			*p = '"';
	return text;
}

static void tell_text(struct peer *p, const void *owner, const struct heads *h, const char *text)
{
	struct mcp_envelope env = envelope(owner, h);
	size_t n = strlen(text);
	char *exact = malloc(n > 0 ? n : 1); /* without a NUL */

	CHECK(exact != NULL);
	if (n > 0) // NOLINTNEXTLINE(bugprone-not-null-terminated-result): so it comes from a client
		memcpy(exact, text, n);
	mcp_take(&server, &env, wire_new(p), exact, n);
}

__attribute__((format(printf, 4, 5))) static void tell(struct peer *p, const void *owner,
						       const struct heads *h, const char *fmt, ...)
{
	static char text[32768];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tell_text(p, owner, h, unquote(text));
}

static bool has(const char *text, const char *what)
{
	char want[1024];

	(void)snprintf(want, sizeof(want), "%s", what);
	return text != NULL && strstr(text, unquote(want)) != NULL;
}

#define CHECK_HAS(text, what)                                                      \
	do {                                                                       \
		if (!has(text, what))                                              \
			test_fail(__FILE__, __LINE__, "no %s in\n%s", what, text); \
		test_count();                                                      \
	} while (0)

/* The link has ended, once, with this status and text in it. */
static void check_end(int line, struct peer *p, int status, const char *what)
{
	if (p->nends != 1 || p->status != status || !has(p->last, what))
		test_fail(__FILE__, line, "%u ends, %d, no %s in\n%s", p->nends, p->status, what,
			  p->last != NULL ? p->last : "nothing");
	test_count();
	peer_free(p);
}

#define CHECK_END(p, status, what) check_end(__LINE__, p, status, what)

static struct peer *request_as(const void *owner, const char *session, const char *id,
			       const char *method, const char *params)
{
	struct peer *p = peer_new();
	struct heads h = { { NULL } };
	char line[64];

	(void)snprintf(line, sizeof(line), "Mcp-Session-Id: %s", session);
	h.line[0] = line;
	tell(p, owner, &h, "{`jsonrpc`:`2.0`,`id`:%s,`method`:`%s`%s%s}", id, method,
	     params[0] != '\0' ? ",`params`:" : "", params);
	return p;
}

/* Of alice, who asks with id 1. */
static struct peer *request(const char *session, const char *method, const char *params)
{
	return request_as(alice, session, "1", method, params);
}

static struct peer *tool_call(const char *session, const char *id, const char *name)
{
	char params[128];

	(void)snprintf(params, sizeof(params), "{`name`:`%s`}", name);
	return request_as(alice, session, id, "tools/call", params);
}

/* A message that has no answer. */
static void note(const void *owner, const char *session, int status, const char *members)
{
	struct peer *p = peer_new();
	struct heads h = { { NULL } };
	char line[64];

	(void)snprintf(line, sizeof(line), "Mcp-Session-Id: %s", session);
	h.line[0] = line;
	tell(p, owner, &h, "{`jsonrpc`:`2.0`,%s}", members);
	CHECK_END(p, status, "");
}

static void make_session(const void *owner, const char *capabilities, char id[MCP_SESSION_ID])
{
	struct peer *p = peer_new();

	tell(p, owner, &(struct heads){ 0 },
	     "{`jsonrpc`:`2.0`,`id`:0,`method`:`initialize`,`params`:{`protocolVersion`:"
	     "`2025-11-25`,`capabilities`:%s,`clientInfo`:{`name`:`c`,`version`:`1`}}}",
	     capabilities);
	memcpy(id, p->session, MCP_SESSION_ID);
	CHECK_EQ_INT(strlen(id), MCP_SESSION_ID - 1);
	CHECK_END(p, 200, "`protocolVersion`:`2025-11-25`");
}

static struct peer *hear(const void *owner, const char *session)
{
	struct peer *p = peer_new();
	char line[64];
	struct heads h = { { line } };
	struct mcp_envelope env = envelope(owner, &h);

	(void)snprintf(line, sizeof(line), "Mcp-Session-Id: %s", session);
	mcp_hear(&server, &env, wire_new(p));
	return p;
}

static int end_session(const void *owner, const char *session)
{
	char line[64];
	struct heads h = { { line } };
	struct mcp_envelope env = envelope(owner, &h);

	(void)snprintf(line, sizeof(line), "Mcp-Session-Id: %s", session);
	return mcp_end_session(&server, &env);
}

/* A modern request with the headers that it must have; name: "" for none. More of params begins with a comma. */
static struct peer *modern_as(const void *owner, bool deaf, const char *method, const char *name,
			      const char *more)
{
	struct peer *p = peer_new();
	char of[64], named[128];
	struct heads h = { { "MCP-Protocol-Version: " MCP_MODERN, of, named } };

	p->deaf = deaf;
	(void)snprintf(of, sizeof(of), "Mcp-Method: %s", method);
	(void)snprintf(named, sizeof(named), "Mcp-Name: %s", name);
	tell(p, owner, &h,
	     "{`jsonrpc`:`2.0`,`id`:`m`,`method`:`%s`,`params`:{`_meta`:{`" META
	     "protocolVersion`:`" MCP_MODERN "`,`" META
	     "clientCapabilities`:{`elicitation`:{}}}%s}}",
	     method, more);
	return p;
}

static struct peer *modern(const char *method, const char *name, const char *more)
{
	return modern_as(alice, false, method, name, more);
}

/* Nothing is left of anything. */
static void stop(void)
{
	mcp_done(&server);
	CHECK(server.calls == NULL && server.sessions == NULL);
	CHECK_EQ_INT(server.ncalls, 0);
	CHECK_EQ_INT(server.nsessions, 0);
	CHECK_EQ_INT(server.nlisteners, 0);
	CHECK_EQ_INT(nsubscribed, 0);
	CHECK_EQ_INT(nlater, 0);
}

/* --- messages ------------------------------------------------------------------------------------------------ */

#define DEEP8 "[[[[[[[["
#define END8  "]]]]]]]]"
#define X64   "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define X253  X64 X64 X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define PING  "`jsonrpc`:`2.0`,`method`:`ping`"

TEST(mcp_what_is_no_message_is_refused)
{
	static const struct {
		const char *text, *code, *id;
	} rows[] = {
		{ "", "-32700", "null" },
		{ " ", "-32700", "null" },
		{ "{", "-32700", "null" },
		{ "{" PING ",`id`:1,`id`:1}", "-32700", "null" },
		{ "{" PING ",`id`:99999999999999999999}", "-32700", "null" },
		{ "{" PING ",`id`:1,`params`:{`x`:`\\u0000`}}", "-32700", "null" },
		{ "{" PING ",`id`:1,`params`:" DEEP8 DEEP8 DEEP8 DEEP8 END8 END8 END8 END8 "}",
		  "-32700", "null" },
		{ "null", "-32600", "null" },
		{ "5", "-32600", "null" },
		{ "`x`", "-32600", "null" },
		{ "[]", "-32600", "null" },
		{ "[{" PING ",`id`:1}]", "-32600", "null" },
		{ "{}", "-32600", "null" },
		{ "{`id`:1,`method`:`ping`}", "-32600", "1" },
		{ "{`jsonrpc`:2.0,`id`:1,`method`:`ping`}", "-32600", "1" },
		{ "{`jsonrpc`:`1.0`,`id`:1,`method`:`ping`}", "-32600", "1" },
		{ "{" PING ",`id`:null}", "-32600", "null" },
		{ "{" PING ",`id`:true}", "-32600", "null" },
		{ "{" PING ",`id`:{}}", "-32600", "null" },
		{ "{" PING ",`id`:[1]}", "-32600", "null" },
		{ "{" PING ",`id`:`" X253 "x`}", "-32600", "null" },
		{ "{`jsonrpc`:`2.0`,`id`:1}", "-32600", "1" },
		{ "{`jsonrpc`:`2.0`,`id`:1,`method`:5}", "-32600", "1" },
		{ "{`jsonrpc`:`2.0`,`result`:{}}", "-32600", "null" },
	};
	char session[MCP_SESSION_ID], line[64], want[128];
	struct heads h = { { line } };

	start(&table);
	make_session(alice, "{}", session);
	(void)snprintf(line, sizeof(line), "Mcp-Session-Id: %s", session);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct peer *p = peer_new();

		tell(p, alice, &h, "%s", rows[i].text);
		(void)snprintf(want, sizeof(want), "`id`:%s,`error`:{`code`:%s,", rows[i].id,
			       rows[i].code);
		CHECK_END(p, 400, want);
	}
	stop();
}

TEST(mcp_ids_come_back_as_they_were)
{
	static const char *const ids[] = {
		"0",  "7",   "-7",  "9007199254740993", "1.5",    "-9223372036854775808",
		"``", "`x`", "`1`", "`a\\\\b\\`c`",     "`gb-1`", "`" X253 "`",
	};
	char session[MCP_SESSION_ID], want[512];

	start(&table);
	make_session(alice, "{}", session);
	for (size_t i = 0; i < ARRAY_LEN(ids); i++) {
		(void)snprintf(want, sizeof(want), "`id`:%s,`result`:{}", ids[i]);
		CHECK_END(request_as(alice, session, ids[i], "ping", ""), 200, want);
		(void)snprintf(want, sizeof(want), "`id`:%s,`error`:{`code`:-32601", ids[i]);
		CHECK_END(request_as(alice, session, ids[i], "pong", ""), 200, want);
	}
	stop();
}

/* --- what methods take --------------------------------------------------------------------------------------- */

static const struct {
	const char *method, *name, *params, *says;
} params_rows[] = {
	{ "tools/call", "", "`x`:1", "-32602" },
	{ "tools/call", "", "`name`:5", "-32602" },
	{ "tools/call", "", "`name`:null", "-32602" },
	{ "tools/call", "nobody", "`name`:`nobody`", "-32602" },
	{ "tools/call", "Now", "`name`:`Now`", "-32602" },
	{ "tools/call", "now", "`name`:`now`,`arguments`:[]", "-32602" },
	{ "tools/call", "now", "`name`:`now`,`arguments`:`{}`", "-32602" },
	{ "tools/call", "now", "`name`:`now`,`arguments`:null", "`text`:`now `" },
	{ "tools/call", "now", "`name`:`now`", "`text`:`now `" },
	{ "tools/call", "now", "`name`:`now`,`arguments`:{`text`:`x`}", "`text`:`now x`" },
	{ "tools/call", "now", "`name`:`now`,`arguments`:{`text`:5}", "`text`:`now `" },
	{ "tools/call", "needs", "`name`:`needs`", "`requiredCapabilities`:{`sampling`:{}}" },
	{ "prompts/get", "", "`arguments`:{}", "-32602" },
	{ "prompts/get", "nobody", "`name`:`nobody`", "-32602" },
	{ "prompts/get", "hello", "`name`:`hello`", "-32602" },
	{ "prompts/get", "hello", "`name`:`hello`,`arguments`:{`who`:5}", "-32602" },
	{ "prompts/get", "hello", "`name`:`hello`,`arguments`:`who`", "-32602" },
	{ "prompts/get", "hello", "`name`:`hello`,`arguments`:{`who`:`x`}", "`messages`:[]" },
	{ "resources/read", "", "`name`:`x:`", "-32602" },
	{ "resources/read", "", "`uri`:{}", "-32602" },
	{ "resources/read", "y:", "`uri`:`y:`", "`data`:{`uri`:`y:`}" },
	{ "resources/read", "x:", "`uri`:`x:`", "`contents`:[]" },
	{ "completion/complete", "", "`ref`:{`type`:`x`}", "-32602" },
	{ "completion/complete", "", "`ref`:`x`,`argument`:{`name`:`n`,`value`:`v`}", "-32602" },
	{ "completion/complete", "", "`ref`:{`type`:1},`argument`:{`name`:`n`,`value`:`v`}",
	  "-32602" },
	{ "completion/complete", "", "`ref`:{`type`:`x`},`argument`:{`name`:`n`,`value`:1}",
	  "-32602" },
	{ "completion/complete", "", "`ref`:{`type`:`x`},`argument`:{`name`:`n`,`value`:`v`}",
	  "`completion`:{}" },
	{ "resources/list", "", "`cursor`:5", "-32602" },
	{ "resources/list", "", "`cursor`:null", "`nextCursor`:``" },
	{ "resources/list", "", "`cursor`:`any`", "`nextCursor`:`any`" },
	{ "resources/templates/list", "", "`cursor`:null", "`uriTemplate`:`x:{t}`" },
	{ "prompts/list", "", "`x`:1", "`arguments`:[{`name`:`who`" },
	{ "nothing/at/all", "", "`x`:1", "-32601" },
};

TEST(mcp_params_are_checked_in_both_eras)
{
	char session[MCP_SESSION_ID], text[256];

	start(&table);
	make_session(alice, "{}", session);
	for (size_t i = 0; i < ARRAY_LEN(params_rows); i++) {
		struct peer *p;

		(void)snprintf(text, sizeof(text), "{%s}", params_rows[i].params);
		CHECK_END(request(session, params_rows[i].method, text), 200, params_rows[i].says);
		(void)snprintf(text, sizeof(text), ",%s", params_rows[i].params);
		p = modern(params_rows[i].method, params_rows[i].name, text);
		CHECK(strstr(p->last, "\"result\"") == NULL ||
		      strstr(p->last, "\"resultType\":\"complete\"") != NULL);
		CHECK_END(p, p->status, params_rows[i].says);
	}
	stop();
}

TEST(mcp_params_that_are_no_object_are_refused)
{
	static const char *const bad[] = { "[]", "5", "`x`", "true", "null" };
	static const struct heads head = { { "MCP-Protocol-Version: " MCP_MODERN,
					     "Mcp-Method: tools/list" } };
	char session[MCP_SESSION_ID];

	start(&table);
	make_session(alice, "{}", session);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct peer *p = peer_new();

		CHECK_END(request(session, "tools/list", bad[i]), 200, "-32602");
		tell(p, alice, &head, "{`jsonrpc`:`2.0`,`id`:1,`method`:`tools/list`,`params`:%s}",
		     bad[i]);
		CHECK_END(p, 400, "-32602");
	}
	stop();
}

TEST(mcp_of_a_session_levels_and_subscriptions_are_checked)
{
	static const struct {
		const char *method, *params, *says;
	} rows[] = {
		{ "logging/setLevel", "{}", "-32602" },
		{ "logging/setLevel", "{`level`:1}", "-32602" },
		{ "logging/setLevel", "{`level`:`loud`}", "-32602" },
		{ "logging/setLevel", "{`level`:`emergency`}", "`result`:{}" },
		{ "resources/subscribe", "{}", "-32602" },
		{ "resources/subscribe", "{`uri`:[]}", "-32602" },
		{ "resources/subscribe", "{`uri`:`y:`}", "-32002" },
		{ "resources/subscribe", "{`uri`:`x:`}", "`result`:{}" },
		{ "resources/subscribe", "{`uri`:`x:`}", "`result`:{}" }, /* counts once */
		{ "resources/unsubscribe", "{`uri`:5}", "-32602" },
		{ "resources/unsubscribe", "{`uri`:`x:`}", "`result`:{}" },
		{ "resources/unsubscribe", "{`uri`:`x:`}", "`result`:{}" },
	};
	char session[MCP_SESSION_ID], text[MCP_URI_MAX + 64];
	unsigned int n = 0;

	start(&table);
	make_session(alice, "{}", session);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		CHECK_END(request(session, rows[i].method, rows[i].params), 200, rows[i].says);
	CHECK_EQ_INT(nsubscribed, 0);
	for (unsigned int len = MCP_URI_MAX - 1; len <= MCP_URI_MAX; len++) {
		(void)snprintf(text, sizeof(text), "{`uri`:`x:%0*d`}", (int)len - 2, 0);
		CHECK_END(request(session, "resources/subscribe", text), 200,
			  len < MCP_URI_MAX ? "`result`:{}" : "-32602");
	}
	CHECK_EQ_INT(nsubscribed, 1);
	while (n < MCP_SUBSCRIPTIONS_MAX - 1) {
		(void)snprintf(text, sizeof(text), "{`uri`:`x:%u`}", n++);
		CHECK_END(request(session, "resources/subscribe", text), 200, "`result`:{}");
	}
	CHECK_END(request(session, "resources/subscribe", "{`uri`:`x:more`}"), 200, "-32602");
	CHECK_EQ_INT(nsubscribed, MCP_SUBSCRIPTIONS_MAX);
	stop();
}

/* --- pages --------------------------------------------------------------------------------------------------- */

TEST(mcp_lists_come_page_by_page)
{
	enum { N = 2 * MCP_PAGE + 1 };
	static const char *const bad[] = { "``",
					   "`0`",
					   "`50 `",
					   "` 50`",
					   "`50x`",
					   "`+50`",
					   "`-50`",
					   "`51`",
					   "`150`",
					   "`4294967346`",
					   "`18446744073709551666`",
					   "50",
					   "[]",
					   "true" };
	static struct mcp_tool many[N];
	static char names[N][8];
	struct mcp_table t = table;
	char session[MCP_SESSION_ID], params[64], want[64];

	for (unsigned int i = 0; i < N; i++) {
		many[i] = tools[0];
		(void)snprintf(names[i], sizeof(names[i]), "t%u", i);
		many[i].name = names[i];
	}
	t.tools = many;
	t.ntools = N;
	start(&t);
	make_session(alice, "{}", session);
	for (unsigned int at = 0; at < N; at += MCP_PAGE) {
		unsigned int end = at + MCP_PAGE < N ? at + MCP_PAGE : N;
		struct peer *p;

		(void)snprintf(params, sizeof(params), at > 0 ? "{`cursor`:`%u`}" : "{}", at);
		p = request(session, "tools/list", params);
		for (unsigned int i = 0; i < N; i++) {
			(void)snprintf(want, sizeof(want), "`name`:`t%u`", i);
			CHECK_EQ_INT(has(p->last, want), i >= at && i < end);
		}
		(void)snprintf(want, sizeof(want), "`nextCursor`:`%u`", end);
		CHECK_EQ_INT(has(p->last, want), end < N);
		CHECK_END(p, 200, "`tools`:[");
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		(void)snprintf(params, sizeof(params), "{`cursor`:%s}", bad[i]);
		CHECK_END(request(session, "tools/list", params), 200, "-32602");
	}
	/* The last page was full: there is no other. */
	t.ntools = MCP_PAGE;
	CHECK_END(request(session, "tools/list", "{`cursor`:`50`}"), 200, "-32602");
	stop();
}

/* --- headers of the modern era ------------------------------------------------------------------------------- */

#define V       "MCP-Protocol-Version: " MCP_MODERN
#define MM(m)   "Mcp-Method: " m
#define MN(n)   "Mcp-Name: " n
#define OK_CAN  "`" META "clientCapabilities`:{}"
#define OK_META "`" META "protocolVersion`:`" MCP_MODERN "`," OK_CAN

TEST(mcp_a_modern_request_agrees_with_its_headers)
{
	static const struct {
		struct heads h;
		const char *method, *meta, *params;
		int status;
		const char *says;
	} rows[] = {
		/* clang-format off */
		/* Versions and capabilities. */
		{ { { V, MM("tools/list") } }, "tools/list", OK_META, "", 200, "`tools`:[" },
		{ { { "MCP-Protocol-Version: \t" MCP_MODERN " ", MM("tools/list") } }, "tools/list", OK_META, "", 200, "`tools`:[" },
		{ { { MM("tools/list") } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { "MCP-Protocol-Version: 2025-11-25", MM("tools/list") } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { V, MM("tools/list") } }, "tools/list", "`" META "protocolVersion`:`2025-11-25`," OK_CAN, "", 400, "-32020" },
		{ { { "MCP-Protocol-Version: 2027-01-01", MM("tools/list") } }, "tools/list", "`" META "protocolVersion`:`2027-01-01`," OK_CAN, "", 400, "`code`:-32022" },
		{ { { V, MM("tools/list") } }, "tools/list", OK_CAN, "", 400, "-32602" },
		{ { { V, MM("tools/list") } }, "tools/list", "`" META "protocolVersion`:1," OK_CAN, "", 400, "-32602" },
		{ { { V, MM("tools/list") } }, "tools/list", "`" META "protocolVersion`:`" MCP_MODERN "`", "", 400, "-32602" },
		{ { { V, MM("tools/list") } }, "tools/list", "`" META "protocolVersion`:`" MCP_MODERN "`,`" META "clientCapabilities`:[]", "", 400, "-32602" },
		{ { { MM("server/discover") } }, "server/discover", "`x`:1", "", 400, "-32602" },
		{ { { V, MM("server/discover") } }, "server/discover", OK_META, "", 200, "`supportedVersions`:[`" MCP_MODERN "`]" },
		/* Methods: those of before are not known. */
		{ { { V } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { V, MM("tools/List") } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { V, MM("tools/call") } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { V, MM("") } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { V, MM("=?base64?dG9vbHMvbGlzdA==?=") } }, "tools/list", OK_META, "", 200, "`tools`:[" },
		{ { { V, MM("=?base64?dG9vbHMvbGlzdA?=") } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { V, MM("=?base64?dG9vbHMvbGlzdB==?=") } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { V, MM("=?base64?" "?=") } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { V, MM("=?base64?=") } }, "tools/list", OK_META, "", 400, "-32020" },
		{ { { V, MM("initialize") } }, "initialize", OK_META, "", 404, "-32601" },
		{ { { V, MM("ping") } }, "ping", OK_META, "", 404, "-32601" },
		{ { { V, MM("logging/setLevel") } }, "logging/setLevel", OK_META, "", 404, "-32601" },
		{ { { V, MM("resources/subscribe") } }, "resources/subscribe", OK_META, "", 404, "-32601" },
		/* Names. */
		{ { { V, MM("tools/call"), MN("now") } }, "tools/call", OK_META, ",`name`:`now`", 200, "`text`:`now `" },
		{ { { V, MM("tools/call") } }, "tools/call", OK_META, ",`name`:`now`", 400, "-32020" },
		{ { { V, MM("tools/call"), MN("later") } }, "tools/call", OK_META, ",`name`:`now`", 400, "-32020" },
		{ { { V, MM("tools/call"), MN("=?base64?bm93?=") } }, "tools/call", OK_META, ",`name`:`now`", 200, "`text`:`now `" },
		{ { { V, MM("tools/call"), MN("=?base64?bm93eA==?=") } }, "tools/call", OK_META, ",`name`:`now`", 400, "-32020" },
		{ { { V, MM("resources/read"), MN("x:") } }, "resources/read", OK_META, ",`uri`:`x:y`", 400, "-32020" },
		/* A parameter that is repeated. */
		{ { { V, MM("tools/call"), MN("here"), "Mcp-Param-Text: a" } }, "tools/call", OK_META, ",`name`:`here`,`arguments`:{`text`:`a`}", 200, "`text`:`now a`" },
		{ { { V, MM("tools/call"), MN("here"), "Mcp-Param-Text: =?base64?YQ==?=" } }, "tools/call", OK_META, ",`name`:`here`,`arguments`:{`text`:`a`}", 200, "`text`:`now a`" },
		{ { { V, MM("tools/call"), MN("here"), "Mcp-Param-Text: b" } }, "tools/call", OK_META, ",`name`:`here`,`arguments`:{`text`:`a`}", 400, "-32020" },
		{ { { V, MM("tools/call"), MN("here") } }, "tools/call", OK_META, ",`name`:`here`,`arguments`:{`text`:`a`}", 400, "-32020" },
		{ { { V, MM("tools/call"), MN("here"), "Mcp-Param-Text: a" } }, "tools/call", OK_META, ",`name`:`here`,`arguments`:{}", 400, "-32020" },
		{ { { V, MM("tools/call"), MN("here"), "Mcp-Param-Text: a" } }, "tools/call", OK_META, ",`name`:`here`,`arguments`:[`text`]", 400, "-32020" },
		{ { { V, MM("tools/call"), MN("here") } }, "tools/call", OK_META, ",`name`:`here`", 200, "`text`:`now `" },
		/* clang-format on */
	};

	start(&table);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct peer *p = peer_new();

		tell(p, alice, &rows[i].h,
		     "{`jsonrpc`:`2.0`,`id`:%zu,`method`:`%s`,`params`:{`_meta`:{%s}%s}}", i,
		     rows[i].method, rows[i].meta, rows[i].params);
		CHECK_END(p, rows[i].status, rows[i].says);
	}
	stop();
}

TEST(mcp_where_there_are_no_headers_none_are_missed)
{
	struct mcp_envelope env = { .owner = alice };
	struct peer *p = peer_new();
	char text[] = "{`jsonrpc`:`2.0`,`id`:1,`method`:`tools/call`,`params`:{`name`:`here`,"
		      "`arguments`:{`text`:`a`},`_meta`:{" OK_META "}}}";

	start(&table);
	mcp_take(&server, &env, wire_new(p), strdup(unquote(text)), strlen(text));
	CHECK_END(p, 200, "`text`:`now a`");
	stop();
}

TEST(mcp_a_capability_is_an_object)
{
	static const struct {
		const char *can;
		bool is;
	} rows[] = { { "{`sampling`:{}}", true },     { "{`sampling`:{`tools`:{}}}", true },
		     { "{`sampling`:null}", false },  { "{`sampling`:false}", false },
		     { "{`elicitation`:{}}", false }, { "{}", false } };
	static const struct heads h = { { V, MM("tools/call"), MN("needs") } };
	char session[MCP_SESSION_ID];

	start(&table);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *want = rows[i].is ? "`text`:`now `" : "-32021";
		struct peer *p = peer_new();

		make_session(alice, rows[i].can, session);
		CHECK_END(tool_call(session, "1", "needs"), 200, want);
		tell(p, alice, &h,
		     "{`jsonrpc`:`2.0`,`id`:1,`method`:`tools/call`,`params`:{`name`:`needs`,"
		     "`_meta`:{`" META "protocolVersion`:`" MCP_MODERN "`,`" META
		     "clientCapabilities`:%s}}}",
		     rows[i].can);
		CHECK_END(p, rows[i].is ? 200 : 400, want);
	}
	stop();
}

/* --- sessions ------------------------------------------------------------------------------------------------ */

TEST(mcp_a_session_speaks_a_version_of_its_era)
{
	static const char *const rows[][2] = {
		{ "2025-11-25", "2025-11-25" }, { "2025-06-18", "2025-06-18" },
		{ "2025-03-26", "2025-03-26" }, { "2024-11-05", "2024-11-05" },
		{ "2024-10-07", "2025-11-25" }, { MCP_MODERN, "2025-11-25" },
		{ "", "2025-11-25" },           { "2025-11-25x", "2025-11-25" },
	};
	static const char *const bad[] = {
		"", ",`params`:{}", ",`params`:{`protocolVersion`:1,`capabilities`:{}}",
		",`params`:{`protocolVersion`:`2025-11-25`}",
		",`params`:{`protocolVersion`:`2025-11-25`,`capabilities`:[]}"
	};
	static const struct heads none = { { NULL } };
	char want[64];

	start(&table);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct peer *p = peer_new();

		tell(p, alice, &none,
		     "{`jsonrpc`:`2.0`,`id`:1,`method`:`initialize`,`params`:{"
		     "`protocolVersion`:`%s`,`capabilities`:{},`clientInfo`:5}}",
		     rows[i][0]);
		(void)snprintf(want, sizeof(want), "`protocolVersion`:`%s`", rows[i][1]);
		CHECK_EQ_INT(strlen(p->session), MCP_SESSION_ID - 1);
		CHECK_END(p, 200, want);
	}
	CHECK_EQ_INT(server.nsessions, ARRAY_LEN(rows));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct peer *p = peer_new();

		tell(p, alice, &none, "{`jsonrpc`:`2.0`,`id`:1,`method`:`initialize`%s}", bad[i]);
		CHECK_STR(p->session, "");
		CHECK_END(p, 200, "-32602");
	}
	CHECK_EQ_INT(server.nsessions, ARRAY_LEN(rows));
	stop();
	CHECK_EQ_INT(nover, ARRAY_LEN(rows));
}

TEST(mcp_a_request_names_a_session_that_there_is)
{
	char session[MCP_SESSION_ID], line[64];
	struct heads h = { { line, "MCP-Protocol-Version: 1999-01-01" } };
	struct peer *p = peer_new();

	start(&table);
	make_session(alice, "{}", session);
	CHECK_END(request("", "ping", ""), 400, "`id`:1,`error`:{`code`:-32600");
	CHECK_END(request("x", "ping", ""), 404, "`id`:1,`error`:{`code`:-32600");
	CHECK_END(request(session, "ping", ""), 200, "`result`:{}");
	(void)snprintf(line, sizeof(line), "Mcp-Session-Id: %s", session);
	tell(p, alice, &h, "{`jsonrpc`:`2.0`,`id`:1,`method`:`ping`}");
	CHECK_END(p, 400, "-32600");
	/* Neither a part of its name, nor more than it. */
	(void)snprintf(line, sizeof(line), "%sx", session);
	CHECK_END(request(line, "ping", ""), 404, "-32600");
	(void)snprintf(line, sizeof(line), "%.31s", session);
	CHECK_END(request(line, "ping", ""), 404, "-32600");
	note(alice, "", 400, "`method`:`notifications/initialized`");
	note(alice, "x", 404, "`method`:`notifications/initialized`");
	note(alice, session, 202, "`method`:`notifications/initialized`,`params`:[]");
	CHECK_EQ_INT(end_session(alice, ""), 400);
	CHECK_EQ_INT(end_session(alice, "x"), 404);
	CHECK_EQ_INT(end_session(alice, session), 204);
	CHECK_EQ_INT(end_session(alice, session), 404);
	CHECK_END(request(session, "ping", ""), 404, "-32600");
	CHECK_EQ_INT(nover, 1);
	stop();
}

TEST(mcp_a_session_of_before_is_made_again_for_who_had_it)
{
	start(&table);
	CHECK_END(request_as(bob, KNOWN, "1", "ping", ""), 404, "-32600");
	CHECK_EQ_INT(nasked, 1);
	CHECK_END(request(KNOWN, "ping", ""), 200, "`result`:{}");
	CHECK_END(request(KNOWN, "ping", ""), 200, "`result`:{}");
	CHECK_EQ_INT(nasked, 2); /* from then on it is one */
	CHECK_EQ_INT(server.nsessions, 1);
	CHECK_END(request_as(bob, KNOWN, "1", "ping", ""), 404, "-32600");
	stop();
}

TEST(mcp_for_others_a_session_does_not_exist)
{
	char session[MCP_SESSION_ID], bobs[MCP_SESSION_ID];
	struct peer *call, *asks, *stream, *stranger;

	start(&table);
	make_session(alice, "{}", session);
	make_session(bob, "{}", bobs);
	call = tool_call(session, "5", "later");
	asks = tool_call(session, "6", "ask");
	stream = hear(alice, session);
	CHECK_END(request(session, "resources/subscribe", "{`uri`:`x:`}"), 200, "`result`:{}");
	CHECK_EQ_INT(asks->nsent, 2);

	CHECK_END(request_as(bob, session, "1", "ping", ""), 404, "-32600");
	CHECK_EQ_INT(end_session(bob, session), 404);
	CHECK_END(hear(bob, session), 404, "");
	note(bob, session, 404, "`method`:`notifications/cancelled`,`params`:{`requestId`:5}");
	note(bob, bobs, 202, "`method`:`notifications/cancelled`,`params`:{`requestId`:5}");
	note(bob, session, 404, "`id`:`gb-1`,`result`:{`text`:`bob`}");
	note(bob, bobs, 202, "`id`:`gb-1`,`result`:{`text`:`bob`}");
	note(bob, bobs, 202, "`id`:`gb-2`,`result`:{`text`:`bob`}");
	CHECK(call->wire != NULL && asks->wire != NULL && stream->wire != NULL);
	CHECK_EQ_INT(ncancelled, 0);

	/* Nor is one told what is about the other. */
	stranger = hear(bob, bobs);
	mcp_changed(&server, alice, MCP_TOOLS);
	mcp_updated(&server, bob, "x:");
	mcp_updated(&server, alice, "x:");
	CHECK_EQ_INT(stranger->nsent, 1); /* that it has begun */
	CHECK_EQ_INT(stream->nsent, 3);
	CHECK_HAS(stream->sent[1], "notifications/tools/list_changed");
	CHECK_HAS(stream->sent[2],
		  "`method`:`notifications/resources/updated`,`params`:{`uri`:`x:`");
	mcp_changed(&server, NULL, MCP_PROMPTS);
	CHECK_EQ_INT(stranger->nsent, 2);
	CHECK_EQ_INT(stream->nsent, 4);

	answer_later();
	CHECK_END(call, 200, "`id`:5,`result`:{`content`:[{`type`:`text`,`text`:`later`");
	leave(asks);
	peer_free(asks);
	stop();
	CHECK_END(stream, 200, "");
	CHECK_END(stranger, 200, "");
}

TEST(mcp_with_a_session_all_that_is_under_way_ends_once)
{
	static const char *const names[] = { "later", "entangled", "ask", "later" };
	struct peer *p[ARRAY_LEN(names)], *stream, *other;
	char session[MCP_SESSION_ID], others[MCP_SESSION_ID];

	start(&table);
	make_session(alice, "{}", others);
	make_session(alice, "{}", session);
	other = tool_call(others, "1", "ask");
	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		p[i] = tool_call(session, "1", names[i]);
	stream = hear(alice, session);
	CHECK_END(request(session, "resources/subscribe", "{`uri`:`x:`}"), 200, "`result`:{}");
	CHECK_EQ_INT(server.ncalls, ARRAY_LEN(names) + 2);
	CHECK_EQ_INT(end_session(alice, session), 204);
	/* The last one is cancelled; then the entangled one, which answers the first. */
	CHECK_EQ_INT(ncancelled, 2);
	CHECK_END(p[0], 200, "`text`:`later`");
	CHECK_END(p[1], 200, "the session has ended");
	CHECK_END(p[2], 200, "the session has ended");
	CHECK_END(p[3], 200, "the session has ended");
	CHECK_END(stream, 200, "");
	CHECK_EQ_INT(nover, 1);
	CHECK_EQ_INT(nsubscribed, 0);
	CHECK_EQ_INT(server.ncalls, 1);
	leave(other);
	peer_free(other);
	stop();
}

/* The order in which calls are looked at is not promised: whichever comes first answers the others. */
TEST(mcp_a_cancelled_call_may_answer_others_of_its_session)
{
	struct peer *p[4];
	char session[MCP_SESSION_ID];
	unsigned int answered = 0;

	start(&table);
	make_session(alice, "{}", session);
	for (unsigned int i = 0; i < ARRAY_LEN(p); i++)
		p[i] = tool_call(session, "1", "entangled");
	CHECK_EQ_INT(end_session(alice, session), 204);
	CHECK_EQ_INT(ncancelled, 1);
	for (unsigned int i = 0; i < ARRAY_LEN(p); i++) {
		answered += has(p[i]->last, "`text`:`later`");
		CHECK_END(p[i], 200, "`id`:1,");
	}
	CHECK_EQ_INT(answered, ARRAY_LEN(p) - 1);
	stop();
}

TEST(mcp_who_has_too_many_sessions_loses_the_oldest)
{
	enum { N = MCP_SESSIONS_MAX / 8 };
	static char sessions[N + 1][MCP_SESSION_ID];
	char bobs[MCP_SESSION_ID];
	struct peer *call;

	start(&table);
	make_session(bob, "{}", bobs);
	for (unsigned int i = 0; i < N; i++) {
		now_us++;
		make_session(alice, "{}", sessions[i]);
	}
	CHECK_EQ_INT(nover, 0);
	now_us++;
	call = tool_call(sessions[1], "1", "later");
	CHECK_END(request(sessions[0], "ping", ""), 200, "");
	now_us++;
	CHECK_END(request(sessions[1], "ping", ""), 200, ""); /* sessions[2] is the oldest now */
	make_session(alice, "{}", sessions[N]);
	CHECK_EQ_INT(nover, 1);
	CHECK_EQ_INT(server.nsessions, N + 1);
	CHECK_END(request(sessions[2], "ping", ""), 404, "");
	CHECK_END(request(sessions[0], "ping", ""), 200, "");
	CHECK_END(request(sessions[N], "ping", ""), 200, "");
	CHECK(call->wire != NULL);

	/* After a day without use, all of them but the one that is used. */
	now_us += 23 * HOUR_US;
	CHECK_END(request_as(bob, bobs, "1", "ping", ""), 200, "");
	now_us += 2 * HOUR_US;
	make_session(alice, "{}", sessions[N]);
	CHECK_EQ_INT(server.nsessions, 2);
	CHECK_EQ_INT(ncancelled, 1);
	CHECK_END(call, 200, "the session has ended");
	CHECK_END(request_as(bob, bobs, "1", "ping", ""), 200, "");
	stop();
}

/* --- calls --------------------------------------------------------------------------------------------------- */

TEST(mcp_a_call_is_cancelled_by_its_id)
{
	static const char *const others[] = { "6",  "`5`",  "5.0",
					      "-5", "null", "[5]",
					      "{}", "``",   "`" X253 X253 "`" };
	char session[MCP_SESSION_ID], second[MCP_SESSION_ID], text[1024];
	struct peer *call, *stream;

	start(&table);
	make_session(alice, "{}", session);
	make_session(alice, "{}", second);
	call = tool_call(session, "5", "later");
	stream = hear(alice, session);
	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		(void)snprintf(text, sizeof(text),
			       "`method`:`notifications/cancelled`,`params`:{`requestId`:%s}",
			       others[i]);
		note(alice, session, 202, text);
	}
	note(alice, session, 202, "`method`:`notifications/cancelled`");
	note(alice, session, 202, "`method`:`notifications/cancelled`,`params`:[5]");
	note(alice, second, 202, "`method`:`notifications/cancelled`,`params`:{`requestId`:5}");
	CHECK_EQ_INT(ncancelled, 0);
	CHECK(call->wire != NULL && stream->wire != NULL);
	note(alice, session, 202, "`method`:`notifications/cancelled`,`params`:{`requestId`:5}");
	CHECK_EQ_INT(ncancelled, 1);
	CHECK_STR(call->last, "");
	CHECK_END(call, 202, "");
	note(alice, session, 202, "`method`:`notifications/cancelled`,`params`:{`requestId`:5}");
	CHECK_EQ_INT(ncancelled, 1);

	/* One that waits for the client has no function to tell. */
	call = tool_call(session, "5", "ask");
	note(alice, session, 202, "`method`:`notifications/cancelled`,`params`:{`requestId`:5}");
	CHECK_EQ_INT(ncancelled, 1);
	CHECK_END(call, 202, "");
	leave(stream);
	peer_free(stream);
	stop();
}

TEST(mcp_one_cancel_is_one_call_when_ids_are_used_twice)
{
	char session[MCP_SESSION_ID];
	struct peer *a, *b;

	start(&table);
	make_session(alice, "{}", session);
	a = tool_call(session, "5", "later");
	b = tool_call(session, "5", "later");
	note(alice, session, 202, "`method`:`notifications/cancelled`,`params`:{`requestId`:5}");
	CHECK_EQ_INT(a->nends + b->nends, 1);
	CHECK_EQ_INT(ncancelled, 1);
	note(alice, session, 202, "`method`:`notifications/cancelled`,`params`:{`requestId`:5}");
	CHECK_EQ_INT(ncancelled, 2);
	CHECK_END(a, 202, "");
	CHECK_END(b, 202, "");
	stop();
}

TEST(mcp_who_leaves_is_not_answered)
{
	char session[MCP_SESSION_ID];
	struct peer *p[3];

	start(&table);
	make_session(alice, "{}", session);
	p[0] = tool_call(session, "1", "later");
	p[1] = modern("tools/call", "later", ",`name`:`later`");
	p[2] = tool_call(session, "1", "ask");
	for (unsigned int i = 0; i < ARRAY_LEN(p); i++) {
		leave(p[i]);
		CHECK_EQ_INT(p[i]->nends, 0);
		peer_free(p[i]);
	}
	CHECK_EQ_INT(ncancelled, 2);
	CHECK_EQ_INT(server.ncalls, 0);
	note(alice, session, 202, "`id`:`gb-1`,`result`:{}"); /* nobody asks any more */
	stop();
}

TEST(mcp_the_end_of_the_server_is_the_end_of_all)
{
	char session[MCP_SESSION_ID];
	struct peer *old, *new, *stream, *listener;

	start(&table);
	make_session(alice, "{}", session);
	old = tool_call(session, "1", "later");
	new = modern("tools/call", "later", ",`name`:`later`");
	stream = hear(alice, session);
	listener = modern("subscriptions/listen", "",
			  ",`notifications`:{`resourceSubscriptions`:[`x:`]}");
	stop();
	CHECK_EQ_INT(ncancelled, 2);
	CHECK_END(old, 200, "the session has ended");
	CHECK_END(stream, 200, "");
	CHECK_END(new, 503, "");
	CHECK_END(listener, 503, "");
}

TEST(mcp_one_owner_cannot_take_all_calls)
{
	enum { N = MCP_CALLS_MAX / 8 };
	static struct peer *p[N];
	struct peer *stream;
	char session[MCP_SESSION_ID], bobs[MCP_SESSION_ID];

	start(&table);
	make_session(alice, "{}", session);
	make_session(bob, "{}", bobs);
	stream = hear(alice, session); /* who only listens takes nothing from them */
	for (unsigned int i = 0; i < N; i++) {
		p[i] = tool_call(session, "1", "later");
		CHECK_EQ_INT(p[i]->nends, 0);
	}
	CHECK_END(tool_call(session, "`x`", "later"), 503, "`id`:`x`,`error`:{`code`:-32603");
	CHECK_END(modern("tools/call", "now", ",`name`:`now`"), 503, "-32603");
	CHECK_END(request_as(bob, bobs, "1", "ping", ""), 200, "`result`:{}");
	note(alice, session, 202, "`method`:`notifications/cancelled`,`params`:{`requestId`:1}");
	CHECK_END(request(session, "ping", ""), 200, "`result`:{}");
	CHECK_EQ_INT(end_session(alice, session), 204);
	for (unsigned int i = 0; i < N; i++)
		CHECK_END(p[i], p[i]->status, "");
	CHECK_END(stream, 200, "");
	CHECK_EQ_INT(ncancelled, N);
	stop();
}

/* Owners are whoever: the bound of all is reached by many. */
TEST(mcp_calls_of_all_owners_are_bounded)
{
	static struct peer *p[MCP_CALLS_MAX];
	static char owners[9][8];

	start(&table);
	for (unsigned int i = 0; i < MCP_CALLS_MAX; i++) {
		p[i] = modern_as(owners[i % 8], false, "tools/call", "later", ",`name`:`later`");
		CHECK_EQ_INT(p[i]->nends, 0);
	}
	CHECK_END(modern_as(owners[8], false, "tools/call", "now", ",`name`:`now`"), 503, "-32603");
	leave(p[0]);
	CHECK_END(modern_as(owners[8], false, "tools/call", "now", ",`name`:`now`"), 200, "now");
	for (unsigned int i = 1; i < MCP_CALLS_MAX; i++)
		leave(p[i]);
	for (unsigned int i = 0; i < MCP_CALLS_MAX; i++)
		peer_free(p[i]);
	stop();
}

TEST(mcp_progress_and_logs_go_to_who_asked_for_them)
{
	static const struct {
		const char *params;
		unsigned int sent;
		const char *first;
	} rows[] = {
		{ "{`name`:`loud`}", 2, "`params`:{`level`:`info`,`logger`:`l`,`data`:`info`}" },
		{ "{`name`:`loud`,`_meta`:{`progressToken`:`t`}}", 3,
		  "`params`:{`progressToken`:`t`,`progress`:0.500,`total`:1.000,`message`:`half`"
		  "}" },
		{ "{`name`:`loud`,`_meta`:{`progressToken`:-3}}", 3, "`progressToken`:-3," },
		{ "{`name`:`loud`,`_meta`:{`progressToken`:1.5}}", 2, "`info`" },
		{ "{`name`:`loud`,`_meta`:{`progressToken`:{}}}", 2, "`info`" },
		{ "{`name`:`loud`,`_meta`:[]}", 2, "`info`" },
	};
	static const char *const levels[][2] = { { "debug", "3" },
						 { "info", "2" },
						 { "error", "1" },
						 { "emergency", "0" },
						 { "loud", "0" } };
	char session[MCP_SESSION_ID], line[256];
	struct peer *p;

	start(&table);
	make_session(alice, "{}", session);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		p = request(session, "tools/call", rows[i].params);
		CHECK_EQ_INT(p->nsent, rows[i].sent);
		CHECK_HAS(p->sent[0], rows[i].first);
		CHECK_END(p, 200, "`isError`:true");
	}
	CHECK_END(request(session, "logging/setLevel", "{`level`:`error`}"), 200, "");
	p = tool_call(session, "1", "loud");
	CHECK_EQ_INT(p->nsent, 1);
	CHECK_END(p, 200, "`isError`:true");
	/* Who takes no stream gets the answer all the same. */
	p = modern_as(alice, true, "tools/call", "loud", ",`name`:`loud`");
	CHECK_END(p, 200, "`isError`:true");
	/* In the modern era nothing is said that was not asked for. */
	for (size_t i = 0; i < ARRAY_LEN(levels); i++) {
		static const struct heads h = { { V, MM("tools/call"), MN("loud") } };

		p = peer_new();
		(void)snprintf(line, sizeof(line), "`" META "logLevel`:`%s`", levels[i][0]);
		tell(p, alice, &h,
		     "{`jsonrpc`:`2.0`,`id`:1,`method`:`tools/call`,`params`:{`name`:`loud`,"
		     "`_meta`:{" OK_META ",%s}}}",
		     line);
		CHECK_EQ_INT(p->nsent, levels[i][1][0] - '0');
		CHECK_END(p, 200, "`isError`:true");
	}
	p = modern("tools/call", "loud", ",`name`:`loud`");
	CHECK_EQ_INT(p->nsent, 0);
	CHECK_END(p, 200, "`isError`:true");
	stop();
}

/* --- what is asked of the client: the legacy era ------------------------------------------------------------- */

/* The id of a question that was sent. */
static const char *question(const char *text)
{
	static char id[32];

	CHECK_EQ_INT(sscanf(text, "{\"jsonrpc\":\"2.0\",\"id\":\"%31[^\"]\"", id), 1);
	return id;
}

static void reply(const char *session, const char *text, const char *what)
{
	char members[256];

	(void)snprintf(members, sizeof(members), "`id`:`%s`,%s", question(text), what);
	note(alice, session, 202, members);
}

TEST(mcp_a_call_goes_on_when_all_its_questions_are_answered)
{
	static const struct {
		const char *b, *says;
	} rows[] = {
		{ "`result`:{`text`:`B`}", "`text`:`asked, A, B`" },
		{ "`result`:{`x`:[1,2.5,null,{`y`:`\\u00e9`}]}", "`text`:`asked, A, refused`" },
		{ "`error`:{`code`:-1,`message`:`no`}", "`text`:`asked, A, refused`" },
		{ "`result`:null", "`text`:`asked, A, refused`" },
		{ "`result`:[`B`]", "`text`:`asked, A, refused`" },
		{ "`result`:`B`", "`text`:`asked, A, refused`" },
	};
	char session[MCP_SESSION_ID], text[64];

	start(&table);
	make_session(alice, "{}", session);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct peer *p = tool_call(session, "1", "ask");

		CHECK_EQ_INT(p->nsent, 2);
		CHECK_HAS(p->sent[0], "`method`:`elicitation/create`,`params`:{`message`:`a?`}");
		CHECK_HAS(p->sent[1], "`method`:`sampling/createMessage`,`params`:{");
		reply(session, p->sent[1], rows[i].b);
		reply(session, p->sent[1], "`result`:{`text`:`again`}");
		note(alice, session, 202, "`id`:``,`result`:{`text`:`x`}");
		note(alice, session, 202, "`id`:1,`result`:{`text`:`x`}");
		CHECK_EQ_INT(p->nends, 0);
		(void)snprintf(text, sizeof(text), "%s", question(p->sent[0]));
		reply(session, p->sent[0], "`result`:{`text`:`A`}");
		CHECK_EQ_INT(p->nsent, 2);
		CHECK_END(p, 200, rows[i].says);
	}
	stop();
}

TEST(mcp_answers_of_another_session_do_not_count)
{
	char session[MCP_SESSION_ID], second[MCP_SESSION_ID];
	struct peer *p;

	start(&table);
	make_session(alice, "{}", session);
	make_session(alice, "{}", second);
	p = tool_call(session, "1", "ask");
	reply(second, p->sent[0], "`result`:{`text`:`x`}");
	reply(second, p->sent[1], "`result`:{`text`:`x`}");
	CHECK_EQ_INT(p->nends, 0);
	reply(session, p->sent[0], "`result`:{`text`:`A`}");
	reply(session, p->sent[1], "`result`:{`text`:`B`}");
	CHECK_END(p, 200, "`text`:`asked, A, B`");
	stop();
}

TEST(mcp_round_by_round_with_a_state_in_the_legacy_era)
{
	char session[MCP_SESSION_ID];
	struct peer *p;

	start(&table);
	make_session(alice, "{}", session);
	for (unsigned int i = 0; i < 2; i++) {
		p = tool_call(session, "1", "rounds");
		CHECK_EQ_INT(p->nsent, 1);
		reply(session, p->sent[0], "`result`:{}");
		CHECK_EQ_INT(p->nsent, 2);
		reply(session, p->sent[0], "`result`:{}");
		CHECK_EQ_INT(nlater, 0);
		reply(session, p->sent[1], "`result`:{}");
		CHECK_EQ_INT(nlater, 1);
		CHECK_STR(later[0]->state, "second");
		reply(session, p->sent[1], "`result`:{}");
		CHECK_EQ_INT(nlater, 1); /* it was not called again */
		if (i == 0) {
			answer_later();
			CHECK_END(p, 200, "`text`:`later`");
		} else {
			CHECK_EQ_INT(end_session(alice, session), 204);
			CHECK_END(p, 200, "the session has ended");
		}
	}
	stop();
}

TEST(mcp_who_takes_no_stream_cannot_be_asked)
{
	char session[MCP_SESSION_ID], line[64];
	struct heads h = { { line } };
	struct peer *p = peer_new();

	start(&table);
	make_session(alice, "{}", session);
	(void)snprintf(line, sizeof(line), "Mcp-Session-Id: %s", session);
	p->deaf = true;
	tell(p, alice, &h,
	     "{`jsonrpc`:`2.0`,`id`:1,`method`:`tools/call`,`params`:{`name`:`ask`}}");
	CHECK_END(p, 200, "-32603");
	CHECK_EQ_INT(server.ncalls, 0);
	stop();
}

/* --- the modern era ------------------------------------------------------------------------------------------ */

/* The state in an answer. */
static void take_state(const struct peer *p, char *state, size_t n)
{
	const char *at = strstr(p->last, "\"requestState\":\"");

	CHECK(at != NULL);
	(void)snprintf(state, n, "%.*s", (int)strcspn(at + 16, "\""), at + 16);
}

#define BOTH ",`inputResponses`:{`a`:{`text`:`A`},`b`:{`text`:`B`}}"

static struct peer *with_state(const void *owner, const char *tool, const char *state,
			       const char *responses)
{
	char more[8192];

	(void)snprintf(more, sizeof(more), ",`name`:`%s`,`requestState`:`%s`%s", tool, state,
		       responses);
	return modern_as(owner, false, "tools/call", tool, more);
}

TEST(mcp_a_question_is_the_answer_and_its_state_comes_back)
{
	static const struct {
		const char *responses, *says;
	} rows[] = {
		{ BOTH, "`text`:`asked, A, B`" },
		{ ",`inputResponses`:{`a`:{},`b`:{},`c`:{}}", "`text`:`asked, refused, refused`" },
		{ "", "`resultType`:`input_required`,`inputRequests`:{`a`:{`method`:" },
		{ ",`inputResponses`:{}", "`inputRequests`:{`a`:{`method`:" },
		{ ",`inputResponses`:{`a`:{}}", "`inputRequests`:{`b`:{`method`:" },
		{ ",`inputResponses`:{`a`:{},`b`:null}", "`inputRequests`:{`b`:{`method`:" },
		{ ",`inputResponses`:{`a`:{},`b`:`B`}", "`inputRequests`:{`b`:{`method`:" },
		{ ",`inputResponses`:[]", "-32602" },
		{ ",`inputResponses`:null", "-32602" },
	};
	struct peer *p;
	char state[4096];

	start(&table);
	p = modern("tools/call", "ask", ",`name`:`ask`");
	take_state(p, state, sizeof(state));
	CHECK_EQ_INT(p->nsent, 0);
	CHECK_HAS(p->last, "`inputRequests`:{`a`:{`method`:`elicitation/create`,`params`:{"
			   "`message`:`a?`}},`b`:{`method`:");
	CHECK_END(p, 200, "`resultType`:`input_required`");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		CHECK_END(with_state(alice, "ask", state, rows[i].responses), 200, rows[i].says);
	CHECK_END(modern("tools/call", "ask", ",`name`:`ask`" BOTH), 200,
		  "`text`:`no state, A, B`");
	CHECK_END(
		modern("prompts/get", "hello", ",`name`:`hello`,`arguments`:{`who`:`x`,`ask`:`x`}"),
		200, "`inputRequests`:{`p`:");
	CHECK_END(modern("resources/read", "x:ask", ",`uri`:`x:ask`"), 200,
		  "`inputRequests`:{`r`:");
	CHECK_END(modern("resources/read", "x:ask", ",`uri`:`x:ask`,`inputResponses`:{`r`:{}}"),
		  200, "`contents`:[]");
	CHECK_EQ_INT(server.ncalls, 0);
	stop();
}

TEST(mcp_a_state_is_for_who_got_it_and_for_what)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	static const char *const types[] = { "5", "null", "{}", "[`x`]", "true" };
	struct peer *p;
	char state[4096], other[4096], more[128];
	size_t n;

	start(&table);
	p = modern("tools/call", "ask", ",`name`:`ask`");
	take_state(p, state, sizeof(state));
	peer_free(p);
	n = strlen(state);
	CHECK_END(with_state(bob, "ask", state, BOTH), 200, "-32602");
	CHECK_END(with_state(alice, "ask2", state, BOTH), 200, "-32602");
	/* Every character counts, and every length but one. */
	for (size_t i = 0; i < n; i++) {
		const char *at = strchr(alphabet, state[i]);

		memcpy(other, state, n + 1);
		other[i] = at != NULL ? alphabet[(size_t)(at - alphabet) ^ 1] : 'A';
		CHECK_END(with_state(alice, "ask", other, BOTH), 200, "-32602");
		memcpy(other, state, n + 1);
		other[i] = '\0';
		CHECK_END(with_state(alice, "ask", other, BOTH), 200, "-32602");
	}
	for (unsigned int i = 1; i <= 4; i++) {
		(void)snprintf(other, sizeof(other), "%s%.*s", state, (int)i, "AAAA");
		CHECK_END(with_state(alice, "ask", other, BOTH), 200, "-32602");
	}
	memset(other, 'A', sizeof(other));
	other[sizeof(other) - 1] = '\0';
	for (size_t len = sizeof(other) - 8; len < sizeof(other); len++) {
		other[len] = '\0';
		CHECK_END(with_state(alice, "ask", other, BOTH), 200, "-32602");
		other[len] = 'A';
	}
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		(void)snprintf(more, sizeof(more), ",`name`:`ask`,`requestState`:%s", types[i]);
		CHECK_END(modern("tools/call", "ask", more), 200, "-32602");
	}
	now_us += HOUR_US;
	CHECK_END(with_state(alice, "ask", state, BOTH), 200, "`text`:`asked, A, B`");
	now_us++;
	CHECK_END(with_state(alice, "ask", state, BOTH), 200, "-32602");
	/* Another server has another key. */
	now_us--;
	server.key[MCP_KEY - 1] ^= 1;
	CHECK_END(with_state(alice, "ask", state, BOTH), 200, "-32602");
	stop();
}

static void run_large_state(struct mcp_call *c)
{
	static char large[MCP_STATE_MAX + 1];

	memset(large, 's', MCP_STATE_MAX);
	if (c->state != NULL) {
		mcp_textf(c, false, "%s", strcmp(c->state, large) == 0 ? "same" : "another");
		return;
	}
	mcp_state(c, large);
	(void)mcp_input(c, "a", "roots/list", "{}");
}

TEST(mcp_the_largest_state_comes_back)
{
	static const struct mcp_tool large = {
		.name = "large", .doc = "d", .input = "{}", .run = run_large_state
	};
	struct mcp_table t = table;
	static char state[8192];
	struct peer *p;

	t.tools = &large;
	t.ntools = 1;
	start(&t);
	p = modern("tools/call", "large", ",`name`:`large`");
	take_state(p, state, sizeof(state));
	peer_free(p);
	CHECK(strlen(state) < 8000);
	CHECK_END(with_state(alice, "large", state, ""), 200, "`text`:`same`");
	stop();
}

TEST(mcp_round_by_round_with_a_state_in_the_modern_era)
{
	struct peer *p;
	char state[4096];

	start(&table);
	p = modern("tools/call", "rounds", ",`name`:`rounds`");
	take_state(p, state, sizeof(state));
	CHECK_END(p, 200, "`inputRequests`:{`first`:");
	p = with_state(alice, "rounds", state, ",`inputResponses`:{`first`:{}}");
	take_state(p, state, sizeof(state));
	CHECK_END(p, 200, "`inputRequests`:{`second`:");
	p = with_state(alice, "rounds", state, ",`inputResponses`:{`second`:{}}");
	CHECK_EQ_INT(nlater, 1);
	answer_later();
	CHECK_END(p, 200, "`resultType`:`complete`");
	stop();
}

TEST(mcp_notifications_and_answers_of_the_modern_era_need_no_session)
{
	static const struct heads h = { { V } };
	static const char *const rows[] = {
		"`method`:`notifications/cancelled`,`params`:{`requestId`:`m`}",
		"`method`:`notifications/initialized`", "`id`:`gb-1`,`result`:{}", "`method`:`x`"
	};
	struct peer *call;

	start(&table);
	call = modern("tools/call", "later", ",`name`:`later`");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct peer *p = peer_new();

		tell(p, alice, &h, "{`jsonrpc`:`2.0`,%s}", rows[i]);
		CHECK_STR(p->last, "");
		CHECK_END(p, 202, "");
	}
	/* An id says nothing about whose request it is: leaving is how a call is cancelled. */
	CHECK(call->wire != NULL);
	leave(call);
	peer_free(call);
	stop();
}

/* --- who wants to hear --------------------------------------------------------------------------------------- */

TEST(mcp_the_newer_stream_of_a_session_counts)
{
	char session[MCP_SESSION_ID];
	struct peer *a, *b;

	start(&table);
	make_session(alice, "{}", session);
	CHECK_END(hear(alice, ""), 405, "");
	CHECK_END(hear(alice, "x"), 404, "");
	a = hear(alice, session);
	CHECK_EQ_INT(a->nsent, 1);
	CHECK_STR(a->sent[0], "");
	b = hear(alice, session);
	CHECK_EQ_INT(server.nlisteners, 1);
	CHECK_END(a, 200, "");
	mcp_changed(&server, alice, MCP_RESOURCES);
	CHECK_EQ_INT(b->nsent, 2);
	leave(b);
	peer_free(b);
	CHECK_EQ_INT(server.nlisteners, 0);
	mcp_changed(&server, alice, MCP_TOOLS);
	b = hear(alice, session);
	CHECK_EQ_INT(end_session(alice, session), 204);
	CHECK_END(b, 200, "");
	stop();
}

TEST(mcp_a_listener_hears_what_it_asked_for)
{
	struct peer *p, *q;
	char more[512];

	start(&table);
	p = modern("subscriptions/listen", "",
		   ",`notifications`:{`toolsListChanged`:true,`promptsListChanged`:1,"
		   "`resourceSubscriptions`:[`x:a`,5,`y:`,`x:b`,`x:a`]}");
	q = modern_as(bob, false, "subscriptions/listen", "",
		      ",`notifications`:{`promptsListChanged`:true,`resourcesListChanged`:true}");
	CHECK_EQ_INT(nsubscribed, 3);
	CHECK_HAS(p->sent[0], "notifications/subscriptions/acknowledged");
	CHECK_HAS(p->sent[0],
		  "`notifications`:{`toolsListChanged`:true,`resourceSubscriptions`:[`x:a`,`x:b`,");
	CHECK_HAS(p->sent[0], "`_meta`:{`" META "subscriptionId`:`m`}");
	CHECK_HAS(q->sent[0],
		  "`notifications`:{`promptsListChanged`:true,`resourcesListChanged`:true}");
	mcp_changed(&server, NULL, MCP_TOOLS);
	mcp_changed(&server, NULL, MCP_PROMPTS);
	mcp_changed(&server, alice, MCP_RESOURCES);
	mcp_updated(&server, alice, "x:b");
	mcp_updated(&server, alice, "x:c");
	mcp_updated(&server, bob, "x:a");
	CHECK_EQ_INT(p->nsent, 3);
	CHECK_HAS(p->sent[1],
		  "tools/list_changed`,`params`:{`_meta`:{`" META "subscriptionId`:`m`");
	CHECK_HAS(p->sent[2], "`uri`:`x:b`,`_meta`:{`" META "subscriptionId`:`m`");
	CHECK_EQ_INT(q->nsent, 2);
	CHECK_HAS(q->sent[1], "prompts/list_changed");
	leave(p);
	leave(q);
	peer_free(p);
	peer_free(q);
	CHECK_EQ_INT(nsubscribed, 0);
	CHECK_EQ_INT(server.nlisteners, 0);

	CHECK_END(modern("subscriptions/listen", "", ""), 200, "-32602");
	CHECK_END(modern("subscriptions/listen", "", ",`notifications`:[]"), 200, "-32602");
	CHECK_END(modern_as(alice, true, "subscriptions/listen", "",
			    ",`notifications`:{`resourceSubscriptions`:[`x:a`]}"),
		  200, "-32600");
	CHECK_EQ_INT(nsubscribed, 0);
	/* More than there may be are left off. */
	(void)snprintf(more, sizeof(more), ",`notifications`:{`resourceSubscriptions`:[`x:`%.*s]}",
		       70 * 5,
		       ",`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`"
		       ",`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`"
		       ",`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`"
		       ",`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`"
		       ",`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`,`x:`");
	p = modern("subscriptions/listen", "", more);
	CHECK_EQ_INT(nsubscribed, MCP_SUBSCRIPTIONS_MAX);
	stop();
	CHECK_END(p, 503, "");
}

TEST(mcp_a_subscription_is_told_of_when_it_holds)
{
	struct mcp_table slow = table;
	char session[MCP_SESSION_ID];
	struct peer *a, *b, *p;

	slow.subscribed = subscribed;
	memset(settled, 0, sizeof(settled));
	start(&slow);
	make_session(alice, "{}", session);
	a = request(session, "resources/subscribe", "{`uri`:`x:a`}");
	b = request(session, "resources/subscribe", "{`uri`:`x:b`}");
	p = modern("subscriptions/listen", "",
		   ",`notifications`:{`toolsListChanged`:true,`resourceSubscriptions`:[`x:a`,`x:b`,"
		   "`x:c`]}");
	CHECK_EQ_INT(a->nends + b->nends + p->nsent, 0);
	settled['a'] = 1;
	mcp_settled(&server, bob, "x:a");
	CHECK_EQ_INT(a->nends, 0); /* not theirs */
	mcp_settled(&server, alice, "x:a");
	CHECK_END(a, 200, "`result`:{}");
	CHECK_EQ_INT(b->nends + p->nsent, 0);
	mcp_updated(&server, alice,
		    "x:a"); /* nobody has been told that he would hear of it: later */
	settled['b'] = -1;
	mcp_settled(&server, alice, "x:b");
	CHECK_END(b, 200, "-32002");
	CHECK_EQ_INT(p->nsent, 0);
	settled['c'] = 1;
	mcp_settled(&server, alice, "x:c");
	CHECK_EQ_INT(p->nsent, 4);
	CHECK_HAS(p->sent[0], "`resourceSubscriptions`:[`x:a`,`x:c`]");
	CHECK_HAS(p->sent[1], "`uri`:`x:a`");
	CHECK_HAS(p->sent[2], "`uri`:`x:c`");
	CHECK_HAS(p->sent[3], "tools/list_changed");
	mcp_settled(&server, alice, "x:c");
	CHECK_EQ_INT(p->nsent, 4);
	CHECK_EQ_INT(nsubscribed, 3); /* a, and a and c of the listener */
	leave(p);
	peer_free(p);
	CHECK_EQ_INT(nsubscribed, 1);
	/* Who leaves before is not waited for. */
	p = request(session, "resources/subscribe", "{`uri`:`x:d`}");
	leave(p);
	peer_free(p);
	settled['d'] = 1;
	mcp_settled(&server, alice, "x:d");
	CHECK_EQ_INT(end_session(alice, session), 204);
	CHECK_EQ_INT(nsubscribed, 0);
	stop();
}

TEST(mcp_one_owner_cannot_take_all_listeners)
{
	enum { N = MCP_LISTENERS_MAX / 2 };
	static struct peer *p[2 * N];
	char session[MCP_SESSION_ID];
	static const char carol[] = "carol";

	start(&table);
	make_session(alice, "{}", session);
	p[0] = hear(alice, session);
	for (unsigned int i = 1; i < N; i++)
		p[i] = modern("subscriptions/listen", "", ",`notifications`:{}");
	CHECK_END(modern("subscriptions/listen", "", ",`notifications`:{}"), 200, "-32603");
	/* Whose stream is replaced has room for it. */
	p[N] = hear(alice, session);
	CHECK_EQ_INT(p[N]->nends, 0);
	CHECK_END(p[0], 200, "");
	p[0] = p[N];
	for (unsigned int i = N; i < 2 * N; i++)
		p[i] = modern_as(bob, false, "subscriptions/listen", "", ",`notifications`:{}");
	CHECK_EQ_INT(server.nlisteners, MCP_LISTENERS_MAX);
	CHECK_END(modern_as(carol, false, "subscriptions/listen", "", ",`notifications`:{}"), 200,
		  "-32603");
	make_session(carol, "{}", session);
	CHECK_END(hear(carol, session), 503, "");
	stop();
	for (unsigned int i = 0; i < 2 * N; i++)
		CHECK_END(p[i], p[i]->status, "");
}

/* --- as requests of HTTP -------------------------------------------------------------------------------------- */

static void http_open(void)
{
	uint8_t key[MCP_KEY] = { 1 };
	struct mcp_table *t = malloc(sizeof(*t));

	CHECK(t != NULL);
	*t = table;
	t->session_known = NULL; /* these two look at the server above */
	t->session_over = NULL;
	gate_open();
	mcp_init(&g.mcp, t, NULL, key);
}

static void http_close(void)
{
	turn();
	CHECK_EQ_INT(g.nconns, 0);
	CHECK(g.mcp.calls == NULL);
	CHECK_EQ_INT(g.mcp.ncalls, 0);
	CHECK_EQ_INT(nlater, 0);
	mcp_done(&g.mcp);
	free((void *)(uintptr_t)g.mcp.table);
	gate_close();
}

/* A request as bytes; headers end in line breaks. */
static size_t put_request(char *to, size_t n, const char *line, const char *headers,
			  const char *body)
{
	char text[4096];

	(void)snprintf(text, sizeof(text), "%s", body);
	return (size_t)snprintf(to, n,
				"%s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s",
				line, headers, strlen(text), unquote(text));
}

#define JSON   "Content-Type: application/json\r\n"
#define EVENTS "Accept: application/json, text/event-stream\r\n"

static void http_send(int c, const char *line, const char *session, const char *headers,
		      const char *body)
{
	char text[8192], all[512];
	size_t n;

	(void)snprintf(all, sizeof(all), "%s%s%s%s", headers,
		       session[0] != '\0' ? "Mcp-Session-Id: " : "", session,
		       session[0] != '\0' ? "\r\n" : "");
	n = put_request(text, sizeof(text), line, all, body);
	CHECK_EQ_INT(send(c, text, n, 0), n);
}

static void http_session(int c, char session[MCP_SESSION_ID])
{
	const char *at;

	http_send(c, "POST /mcp", "", JSON EVENTS,
		  "{`jsonrpc`:`2.0`,`id`:0,`method`:`initialize`,`params`:{`protocolVersion`:"
		  "`2025-11-25`,`capabilities`:{}}}");
	CHECK_EQ_INT(heard(c), 200);
	at = strstr(answer, "Mcp-Session-Id: ");
	CHECK(at != NULL);
	(void)snprintf(session, MCP_SESSION_ID, "%.32s", at + 16);
}

#define CALL(name) "{`jsonrpc`:`2.0`,`id`:7,`method`:`tools/call`,`params`:{`name`:`" name "`}}"
#define CANCEL     "{`jsonrpc`:`2.0`,`method`:`notifications/cancelled`,`params`:{`requestId`:7}}"

TEST(mcp_http_answers_with_one_text_or_with_events)
{
	char session[MCP_SESSION_ID];
	int c, other;

	http_open();
	c = client();
	other = client();
	http_session(c, session);
	CHECK_SAYS("Content-Type: application/json");
	http_send(c, "POST /mcp", session, JSON, CALL("now"));
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("Content-Type: application/json");
	CHECK_SAYS("`text`:`now `");
	http_send(c, "POST /mcp", session, JSON EVENTS, CALL("loud"));
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("Content-Type: text/event-stream");
	CHECK_SAYS("event: message\ndata: ");
	CHECK_SAYS("{`jsonrpc`:`2.0`,`method`:`notifications/message`");
	CHECK_SAYS("`isError`:true}}");
	CHECK_SAYS("\r\n0\r\n\r\n");
	http_send(c, "POST /mcp", session, JSON EVENTS, CALL("later"));
	CHECK_EQ_INT(heard(c), 0);
	answer_later();
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`text`:`later`");
	http_send(c, "POST /mcp", session, JSON EVENTS, CALL("later"));
	CHECK_EQ_INT(heard(c), 0);
	http_send(other, "POST /mcp", session, JSON EVENTS, CANCEL);
	CHECK_EQ_INT(heard(other), 202);
	CHECK_EQ_INT(heard(c), 202);
	CHECK_EQ_INT(ncancelled, 1);
	http_send(c, "POST /mcp", "", JSON EVENTS, "");
	CHECK_EQ_INT(heard(c), 400);
	CHECK_SAYS("`code`:-32700");
	(void)close(c);
	(void)close(other);
	http_close();
}

TEST(mcp_http_looks_at_types_and_methods)
{
	static const struct {
		const char *line, *headers;
		int status;
	} rows[] = {
		{ "POST /mcp", JSON, 200 },
		{ "POST /mcp", "Content-Type: Application/JSON; charset=utf-8\r\n", 200 },
		{ "POST /mcp", "Content-Type: application/json ;charset=utf-8\r\n", 200 },
		{ "POST /mcp", "Content-Type: application/jsonl\r\n", 415 },
		{ "POST /mcp", "Content-Type: application/json-patch+json\r\n", 415 },
		{ "POST /mcp", "Content-Type: text/plain\r\n", 415 },
		{ "POST /mcp", "", 415 },
		{ "GET /mcp", "", 406 },
		{ "GET /mcp", "Accept: application/json\r\n", 406 },
		{ "HEAD /mcp", EVENTS, 405 },
		{ "PUT /mcp", JSON, 405 },
	};
	char session[MCP_SESSION_ID];
	int c, stream;

	http_open();
	c = client();
	stream = client();
	http_session(c, session);
	http_send(stream, "GET /mcp", session, EVENTS, "");
	CHECK_EQ_INT(heard(stream), 200);
	CHECK_SAYS("Content-Type: text/event-stream");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int status;

		http_send(c, rows[i].line, session, rows[i].headers,
			  strncmp(rows[i].line, "POST", 4) == 0 ? CALL("now") : "");
		status = heard(c);
		if (status != rows[i].status)
			test_fail(__FILE__, __LINE__, "%s %s: %d", rows[i].line, rows[i].headers,
				  status);
	}
	/* None of them has taken its stream away. */
	mcp_changed(&g.mcp, NULL, MCP_TOOLS);
	CHECK_EQ_INT(g.mcp.nlisteners, 1);
	(void)heard(stream);
	CHECK_SAYS("tools/list_changed");
	http_send(c, "GET /mcp", "", EVENTS, "");
	CHECK_EQ_INT(heard(c), 405);
	http_send(c, "DELETE /mcp", "", "", "");
	CHECK_EQ_INT(heard(c), 400);
	http_send(c, "DELETE /mcp", session, "", "");
	CHECK_EQ_INT(heard(c), 204);
	(void)heard(stream);
	CHECK_SAYS("0\r\n\r\n");
	http_send(c, "DELETE /mcp", session, "", "");
	CHECK_EQ_INT(heard(c), 404);
	(void)close(c);
	(void)close(stream);
	http_close();
}

/* Two requests in one piece: the second is begun with the end of the first, which somebody else brings about. */
static void send_both(int c, const char *session, const char *first, const char *headers,
		      const char *body, const char *second)
{
	char text[8192], all[256];
	size_t n;

	(void)snprintf(all, sizeof(all), "%sMcp-Session-Id: %s\r\n", headers, session);
	n = put_request(text, sizeof(text), first, all, body);
	n += put_request(text + n, sizeof(text) - n, second, all,
			 strncmp(second, "POST", 4) == 0 ? CANCEL : "");
	CHECK_EQ_INT(send(c, text, n, 0), n);
	turn();
}

TEST(mcp_http_the_end_of_a_session_may_bring_its_next_end)
{
	static const char *const seconds[] = { "DELETE /mcp", "POST /mcp", "GET /mcp" };
	char session[MCP_SESSION_ID];
	int calls[3], streams[2], c;

	for (size_t i = 0; i < ARRAY_LEN(seconds); i++) {
		http_open();
		c = client();
		http_session(c, session);
		for (unsigned int k = 0; k < ARRAY_LEN(calls); k++) {
			calls[k] = client();
			send_both(calls[k], session, "POST /mcp", JSON EVENTS, CALL("later"),
				  seconds[i]);
		}
		/* The second stream ends the first, and what stands behind that is taken. */
		for (unsigned int k = 0; k < ARRAY_LEN(streams); k++) {
			streams[k] = client();
			send_both(streams[k], session, "GET /mcp", JSON EVENTS, "", seconds[i]);
		}
		turn();
		http_send(c, "DELETE /mcp", session, "", "");
		(void)heard(c);
		turn();
		CHECK(g.mcp.sessions == NULL);
		CHECK(g.mcp.calls == NULL);
		for (unsigned int k = 0; k < ARRAY_LEN(calls); k++) {
			(void)heard(calls[k]);
			/* One answer each, and the second is about a session that there is not, or its own end. */
			CHECK(strncmp(answer, "HTTP/1.1 20", 11) == 0);
			CHECK(strstr(answer + 1, "HTTP/1.1 ") != NULL);
			(void)close(calls[k]);
		}
		for (unsigned int k = 0; k < ARRAY_LEN(streams); k++)
			(void)close(streams[k]);
		(void)close(c);
		http_close();
	}
}

TEST(mcp_http_a_call_is_not_cancelled_in_the_middle_of_its_function)
{
	static const char *const seconds[] = { "POST /mcp", "DELETE /mcp" };
	char session[MCP_SESSION_ID];
	int c, other;

	for (size_t i = 0; i < ARRAY_LEN(seconds); i++) {
		http_open();
		c = client();
		other = client();
		http_session(c, session);
		/* Behind a call that waits: what is about the call that ends it. Both have the same id, and one is over by then. */
		send_both(other, session, "POST /mcp", JSON EVENTS, CALL("later"), seconds[i]);
		http_send(c, "POST /mcp", session, JSON EVENTS, CALL("finish"));
		CHECK_EQ_INT(heard(c), 200);
		CHECK_SAYS("`text`:`finished`");
		CHECK_EQ_INT(heard(other), 200);
		CHECK_SAYS("`text`:`later`");
		CHECK_SAYS(i == 0 ? "HTTP/1.1 202 " : "HTTP/1.1 204 ");
		CHECK_EQ_INT(ncancelled, 0);
		(void)close(c);
		(void)close(other);
		http_close();
	}
}

TEST(mcp_http_who_leaves_with_the_end_of_his_call_is_let_go_once)
{
	char session[MCP_SESSION_ID];
	int c, other;

	http_open();
	c = client();
	other = client();
	http_session(c, session);
	http_send(c, "POST /mcp", session, JSON EVENTS, CALL("later"));
	turn();
	CHECK_EQ_INT(nlater, 1);
	/* Both in one turn: the call ends, and its connection does. */
	http_send(other, "POST /mcp", session, JSON EVENTS, CANCEL);
	(void)close(c);
	CHECK_EQ_INT(heard(other), 202);
	CHECK_EQ_INT(ncancelled, 1);
	CHECK_EQ_INT(g.nconns, 1);
	/* And the other way round. */
	c = client();
	http_send(c, "POST /mcp", session, JSON EVENTS, CALL("ask"));
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("`method`:`elicitation/create`");
	(void)close(c);
	http_send(other, "POST /mcp", session, JSON EVENTS,
		  "{`jsonrpc`:`2.0`,`id`:`gb-1`,`result`:{}}");
	CHECK_EQ_INT(heard(other), 202);
	CHECK(g.mcp.calls == NULL);
	(void)close(other);
	http_close();
}

TEST(mcp_http_a_server_that_stops_sends_listeners_away)
{
	char session[MCP_SESSION_ID];
	int c, stream;

	http_open();
	c = client();
	stream = client();
	http_session(c, session);
	http_send(stream, "GET /mcp", session, EVENTS, "");
	CHECK_EQ_INT(heard(stream), 200);
	http_send(c, "POST /mcp", session, JSON EVENTS, CALL("later"));
	CHECK_EQ_INT(heard(c), 0);
	g.stopping = true;
	conns_drain(&g);
	CHECK_EQ_INT(g.mcp.nlisteners, 0);
	CHECK_EQ_INT(nlater, 1);
	(void)heard(stream);
	CHECK_SAYS("0\r\n\r\n");
	answer_later();
	CHECK_EQ_INT(heard(c), 200);
	CHECK_SAYS("Connection: close");
	(void)close(c);
	(void)close(stream);
	http_close();
}
