/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCP server's core, with two owners who share it. Input: steps, each of one byte that says what happens, and what that takes:
 *
 *   0-3  a message: a byte of flags (below), with HEADERS a byte of length and lines of headers, then two bytes of length and the text. In
 *        it, the byte 1 stands for the state that was said last
 *   4    GET, 5 DELETE: a byte of flags
 *   6    a client leaves: a byte that says which one
 *   7    a byte: a call that takes its time is answered, a list or a resource has changed, time passes
 *
 * Claims: every message is answered once, or under way; what is said is one line of JSON, and an answer has the id of its request; nobody is
 * told what is another owner's; what is counted is there. In the end nothing is left, and every function has answered or was told not to.
 */
#include "mcp/mcp.h"

#include <stdbool.h>
#include <strings.h>

#include "base/own.h"
#include "fuzz_input.h"

enum {
	OWNER = 1 << 0,      /* the second one */
	NO_HEADERS = 1 << 1, /* of a transport that has none */
	SESSION = 3 << 2,    /* none, the owner's first, the owner's last, the other's last */
	DEAF = 1 << 4,       /* takes no stream */
	HEADERS = 1 << 5,    /* lines of headers follow */
	MODERN = 1 << 6,     /* the header of the version */
	AGREE = 1 << 7,      /* headers that agree with the message */
	LINKS_MAX = 64,
	STATE_TEXT = 8192,
};

static const char *const owners[] = { "owner-a", "owner-b" };
static struct mcp_server server;
static struct link *links[LINKS_MAX]; /* that have not ended */
static unsigned int nlinks;
static struct mcp_call *later[LINKS_MAX];
static unsigned int nlater;
static int nsubscribed;
static char sessions[2][2][MCP_SESSION_ID]; /* of each owner: the first, the last */
static char state[STATE_TEXT];
static bool may_name; /* the input names owners itself */

struct link {
	struct mcp_link link; /* its first member */
	unsigned int owner;
	bool deaf;
	char *id; /* of the request, as JSON; NULL: it had none */
};

/* --- the table -------------------------------------------------------------------------------- */

static void forget(const struct mcp_call *c)
{
	for (unsigned int i = 0; i < nlater; i++)
		if (later[i] == c) {
			later[i] = later[--nlater];
			return;
		}
	MUST(!"a call that does not wait was cancelled");
}

static void run_now(struct mcp_call *c)
{
	const struct jsonr_node *n = mcp_arg(c, "text", JSONR_STRING);

	mcp_progress(c, 1, 2, "on the way");
	mcp_log(c, MCP_ERROR, "l", "{}");
	mcp_textf(c, false, "%s %s", (const char *)c->owner, n != NULL ? n->string : "");
}

static void on_cancel(struct mcp_call *c)
{
	forget(c);
}

static void run_later(struct mcp_call *c)
{
	MUST(nlater < LINKS_MAX);
	later[nlater++] = c;
	c->cancel = on_cancel;
}

static void answer_one(unsigned int i)
{
	struct mcp_call *c = later[i];

	later[i] = later[--nlater];
	c->cancel = NULL;
	run_now(c);
}

/* Takes what others wait for with it. */
static void cancel_all(struct mcp_call *c)
{
	forget(c);
	while (nlater > 0)
		answer_one(0);
}

static void run_entangled(struct mcp_call *c)
{
	run_later(c);
	c->cancel = cancel_all;
}

static void run_ask(struct mcp_call *c)
{
	const struct mcp_input *a, *b;

	if (c->state != NULL)
		MUST(strcmp(c->state, c->owner) == 0);
	mcp_state(c, c->owner);
	a = mcp_input(c, "a", "elicitation/create", "{\"message\":\"a?\"}");
	b = mcp_input(c, "b", "roots/list", "{}");
	if (a == NULL || b == NULL)
		return;
	MUST(a->refused || a->answer->type == JSONR_OBJECT);
	MUST(b->refused || b->answer->type == JSONR_OBJECT);
	if (mcp_input(c, "c", "roots/list", "{}") != NULL)
		run_later(c);
}

static const struct mcp_tool tools[] = {
	{ .name = "now", .doc = "d", .input = "{}", .run = run_now },
	{ .name = "later", .doc = "d", .input = "{}", .run = run_later },
	{ .name = "all", .doc = "d", .input = "{}", .run = run_entangled },
	{ .name = "ask", .doc = "d", .input = "{}", .run = run_ask },
	{ .name = "need",
	  .doc = "d",
	  .input = "{}",
	  .capability = "sampling",
	  .header_param = "text",
	  .header = "Text",
	  .run = run_now },
};
static const struct mcp_argument args[] = { { "who", "d", true } };
static const struct mcp_prompt prompts[] = {
	{ .name = "ask", .doc = "d", .args = args, .nargs = 1, .run = run_ask },
};

static void answer_empty(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	mcp_result_end(c, &j);
}

static void read_one(struct mcp_call *c)
{
	MUST(strlen(c->uri) < MCP_URI_MAX);
	if (c->uri[0] == 'x')
		answer_empty(c);
	else if (c->uri[0] == 'a')
		run_ask(c);
	else
		mcp_no_resource(c);
}

static bool subscribe(struct mcp_server *s, const void *owner, const char *uri)
{
	(void)s;
	MUST(owner == owners[0] || owner == owners[1]);
	nsubscribed += uri[0] == 'x';
	return uri[0] == 'x';
}

static void unsubscribe(struct mcp_server *s, const void *owner, const char *uri)
{
	(void)s;
	MUST(uri[0] == 'x' && (owner == owners[0] || owner == owners[1]));
	nsubscribed--;
	MUST(nsubscribed >= 0);
}

static const struct mcp_table table = {
	.name = "fuzz",
	.version = "1",
	.tools = tools,
	.ntools = ARRAY_LEN(tools),
	.prompts = prompts,
	.nprompts = ARRAY_LEN(prompts),
	.tools_change = true,
	.resources_change = true,
	.resources = answer_empty,
	.read = read_one,
	.complete = answer_empty,
	.subscribe = subscribe,
	.unsubscribe = unsubscribe,
};

/* --- links ------------------------------------------------------------------------------------ */

static void write_id(const struct jsonr *doc, const struct jsonr_node *id, struct json *j)
{
	json_init(j);
	if (id != NULL)
		jsonr_write(doc, id, j, NULL);
	json_raw(j, "", 1);
	MUST(!j->failed);
}

static void keep_state(const struct jsonr *doc, const struct jsonr_node *result)
{
	const struct jsonr_node *n = jsonr_get(doc, result, "requestState");

	if (n == NULL)
		return;
	MUST(n->type == JSONR_STRING && n->len < STATE_TEXT);
	memcpy(state, n->string, n->len + 1);
}

/* What is said: a notification or a question, or the answer. */
static void check_text(const struct link *l, const char *p, size_t n, bool last)
{
	char *text = (char *)exact_copy(p, n);
	const struct jsonr_node *root, *id;
	struct jsonr doc;
	struct json j;

	MUST(memchr(p, '\n', n) == NULL);
	MUST(may_name || memmem(p, n, owners[!l->owner], strlen(owners[0])) == NULL);
	MUST(jsonr_parse(&doc, text, n, NULL) == 0);
	root = jsonr_root(&doc);
	MUST(root->type == JSONR_OBJECT && jsonr_get(&doc, root, "jsonrpc") != NULL);
	id = jsonr_get(&doc, root, "id");
	MUST((jsonr_get(&doc, root, "method") != NULL) == !last);
	if (last) {
		MUST((jsonr_get(&doc, root, "result") != NULL) !=
		     (jsonr_get(&doc, root, "error") != NULL));
		MUST(id != NULL);
		write_id(&doc, id, &j);
		MUST(id->type == JSONR_NULL || (l->id != NULL && strcmp(l->id, j.buf) == 0));
		json_done(&j);
		keep_state(&doc, jsonr_get(&doc, root, "result"));
	}
	jsonr_done(&doc);
	free(text);
}

static void link_free(struct link *l)
{
	for (unsigned int i = 0; i < nlinks; i++)
		if (links[i] == l) {
			links[i] = links[--nlinks];
			free(l->id);
			free(l);
			return;
		}
	MUST(!"a link has ended twice");
}

static bool on_send(struct mcp_link *ml, const char *p, size_t n, bool droppable)
{
	struct link *l = (struct link *)ml;

	(void)droppable;
	MUST(ml->call != NULL);
	if (l->deaf)
		return false;
	if (n > 0)
		check_text(l, p, n, false);
	return true;
}

static void on_end(struct mcp_link *ml, int status, const char *p, size_t n)
{
	static const int known[] = { 200, 202, 400, 404, 405, 503 };
	bool is_known = false;

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		is_known |= known[i] == status;
	MUST(is_known && ml->call == NULL);
	if (n > 0)
		check_text((struct link *)ml, p, n, true);
	link_free((struct link *)ml);
}

static void on_session(struct mcp_link *ml, const char *id)
{
	unsigned int owner = ((struct link *)ml)->owner;

	MUST(strlen(id) == MCP_SESSION_ID - 1);
	memcpy(sessions[owner][1], id, MCP_SESSION_ID);
	if (sessions[owner][0][0] == '\0')
		memcpy(sessions[owner][0], id, MCP_SESSION_ID);
}

static struct mcp_link *link_new(uint8_t flags, char *id)
{
	struct link *l = calloc(1, sizeof(*l));

	MUST(l != NULL);
	l->link = (struct mcp_link){ .send = on_send, .end = on_end, .session = on_session };
	l->owner = (flags & OWNER) != 0;
	l->deaf = (flags & DEAF) != 0;
	l->id = id;
	links[nlinks++] = l;
	return &l->link;
}

/* --- headers ---------------------------------------------------------------------------------- */

struct heads {
	uint8_t flags;
	const uint8_t *lines;
	size_t n;
	char *method, *name; /* of the message, or NULL */
	char session[MCP_SESSION_ID];
};

static struct http_slice text_slice(const char *text)
{
	return (struct http_slice){ text, text != NULL ? strlen(text) : 0 };
}

static struct http_slice find_line(const struct heads *h, const char *name)
{
	const char *p = (const char *)h->lines, *end = p + h->n;
	size_t n = strlen(name);

	while (p < end) {
		const char *line = memchr(p, '\n', (size_t)(end - p));

		line = line != NULL ? line : end;
		if ((size_t)(line - p) > n && strncasecmp(p, name, n) == 0 && p[n] == ':')
			return (struct http_slice){ p + n + 1, (size_t)(line - p) - n - 1 };
		p = line < end ? line + 1 : end;
	}
	return (struct http_slice){ NULL, 0 };
}

static struct http_slice get_header(const void *arg, const char *name)
{
	const struct heads *h = arg;

	if (strcasecmp(name, "Mcp-Session-Id") == 0 && (h->flags & SESSION) != 0)
		return text_slice(h->session);
	if (strcasecmp(name, "MCP-Protocol-Version") == 0 && (h->flags & MODERN) != 0)
		return text_slice(MCP_MODERN);
	if (strcasecmp(name, "Mcp-Method") == 0 && (h->flags & AGREE) != 0)
		return text_slice(h->method);
	if (strcasecmp(name, "Mcp-Name") == 0 && (h->flags & AGREE) != 0)
		return text_slice(h->name);
	return find_line(h, name);
}

static void take_heads(struct input *in, struct heads *h)
{
	unsigned int owner, which;

	*h = (struct heads){ .flags = take_u8(in) };
	owner = (h->flags & OWNER) != 0;
	which = (unsigned int)(h->flags & SESSION) >> 2;
	if (which == 3)
		memcpy(h->session, sessions[!owner][1], MCP_SESSION_ID);
	else if (which > 0)
		memcpy(h->session, sessions[owner][which - 1], MCP_SESSION_ID);
	if ((h->flags & HEADERS) != 0) {
		size_t n = take_u8(in);

		h->lines = take_bytes(in, n, &h->n);
	}
}

static uint64_t now_us = 1;

static struct mcp_envelope envelope(const struct heads *h)
{
	return (struct mcp_envelope){
		.owner = owners[(h->flags & OWNER) != 0],
		.now_us = now_us,
		.header = (h->flags & NO_HEADERS) != 0 ? NULL : get_header,
		.arg = h,
	};
}

/* --- steps ------------------------------------------------------------------------------------ */

/* The text with the last state in its place. */
static char *expand(const uint8_t *p, size_t n, size_t *ret_n)
{
	struct json j;

	json_init(&j);
	for (size_t i = 0; i < n; i++) {
		const char *piece = p[i] == 1 ? state : (const char *)p + i;

		json_raw(&j, piece, p[i] == 1 ? strlen(state) : 1);
	}
	MUST(!j.failed);
	*ret_n = j.len;
	p = exact_copy(j.buf != NULL ? j.buf : "", j.len);
	json_done(&j);
	return (char *)(uintptr_t)p;
}

static char *copy_text(const struct jsonr_node *n)
{
	return n != NULL && n->type == JSONR_STRING ? strdup(n->string) : NULL;
}

/* What of a message its headers repeat, and its id. */
static char *look(struct heads *h, const char *text, size_t n)
{
	char *spoilt = (char *)exact_copy(text, n), *id = NULL;
	const struct jsonr_node *params, *name;
	struct jsonr doc;
	struct json j;

	if (jsonr_parse(&doc, spoilt, n, NULL) == 0) {
		const struct jsonr_node *root = jsonr_root(&doc);

		params = jsonr_get(&doc, root, "params");
		name = jsonr_get(&doc, params, "name");
		h->method = copy_text(jsonr_get(&doc, root, "method"));
		h->name = copy_text(name != NULL ? name : jsonr_get(&doc, params, "uri"));
		if (jsonr_get(&doc, root, "id") != NULL) {
			write_id(&doc, jsonr_get(&doc, root, "id"), &j);
			id = j.buf;
		}
		jsonr_done(&doc);
	}
	free(spoilt);
	return id;
}

static void message(struct input *in)
{
	struct mcp_envelope env;
	struct heads h;
	const uint8_t *p;
	char *text, *id;
	size_t n;

	take_heads(in, &h);
	n = take_u16(in);
	p = take_bytes(in, n, &n);
	text = expand(p, n, &n);
	id = look(&h, text, n);
	env = envelope(&h);
	mcp_take(&server, &env, link_new(h.flags, id), text, n);
	free(h.method);
	free(h.name);
}

static void happen(uint8_t what)
{
	const char *owner = owners[what >> 7];

	switch (what & 7) {
	case 0:
		now_us += (uint64_t)(what >> 3) * 600 * 1000 * 1000;
		break;
	case 1:
		mcp_changed(&server, NULL, (enum mcp_list)((what >> 3) % 3));
		break;
	case 2:
		mcp_changed(&server, owner, (enum mcp_list)((what >> 3) % 3));
		break;
	case 3:
		mcp_updated(&server, owner, "x");
		break;
	default:
		if (nlater > 0)
			answer_one((unsigned int)(what >> 3) % nlater);
	}
}

static void leave(unsigned int i)
{
	struct link *l;

	if (nlinks == 0)
		return;
	l = links[i % nlinks];
	mcp_left(&l->link);
	MUST(l->link.call == NULL);
	link_free(l);
}

static void step(struct input *in)
{
	uint8_t op = take_u8(in) & 7;
	struct mcp_envelope env;
	struct heads h;
	int status;

	if (op == 6) {
		leave(take_u8(in));
	} else if (op == 7) {
		happen(take_u8(in));
	} else if (op == 5) {
		take_heads(in, &h);
		env = envelope(&h);
		status = mcp_end_session(&server, &env);
		MUST(status == 204 || status == 400 || status == 404);
		MUST((h.flags & SESSION) != SESSION || h.session[0] == '\0' || status != 204);
	} else if (op == 4) {
		take_heads(in, &h);
		env = envelope(&h);
		mcp_hear(&server, &env, link_new(h.flags, NULL));
	} else {
		message(in);
	}
}

static void check_counts(void)
{
	unsigned int ncalls = 0, nlisteners = 0, nsessions = 0;

	for (const struct mcp_call *c = server.calls; c != NULL; c = c->next) {
		MUST(c->link->call == c && c->s == &server);
		MUST(c->next == NULL || c->next->prev == c);
		MUST(c->session == NULL || c->session->owner == c->owner);
		ncalls++;
		nlisteners += c->listens;
	}
	for (const struct mcp_session *se = server.sessions; se != NULL; se = se->next) {
		MUST(se->hearing == NULL || se->hearing->session == se);
		nsessions++;
	}
	MUST(ncalls == server.ncalls && ncalls == nlinks);
	MUST(nlisteners == server.nlisteners && nsessions == server.nsessions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t key[MCP_KEY] = { 42 };
	struct input in = { data, size };

	may_name = memmem(data, size, "owner", 5) != NULL || memchr(data, '\\', size) != NULL;
	memset(sessions, 0, sizeof(sessions));
	state[0] = '\0';
	now_us = 1;
	mcp_init(&server, &table, NULL, key);
	while (in.n > 0 && nlinks < LINKS_MAX) {
		step(&in);
		check_counts();
	}
	mcp_done(&server);
	MUST(server.calls == NULL && server.sessions == NULL);
	MUST(nlinks == 0 && nlater == 0 && nsubscribed == 0);
	return 0;
}
