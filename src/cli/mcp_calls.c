// SPDX-License-Identifier: Apache-2.0
/*
 * Messages of the client: what each is, which headers it travels with, and when it is sent.
 *
 * Of a message only that much is looked at: whether it wants an answer, of which era it is, what its headers repeat, and whether it
 * is about the box or about files of this machine. Whether it is right the server says.
 */
#include "cli/mcp.h"

#include "base/base64.h"
#include "base/own.h"
#include "cli/say.h"

#include <stdio.h>
#include <string.h>

enum { QUICK_MS = 60000 }; /* how long the server may take for what starts nothing */

/* --- taking one apart ----------------------------------------------------------------------------- */

static bool is_blank(const char *p, size_t n)
{
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\r'))
		n--;
	return n == 0;
}

static struct json_text member(struct json_text object, const char *key)
{
	struct json_member m = { .key = key };

	json_text_find(object, &m, 1);
	return m.value;
}

/* A string, to be freed; NULL: it is none. */
static char *text_of(struct json_text t)
{
	char *s = json_text_kind(t) == '"' ? malloc(t.n + 1) : NULL;

	if (s != NULL && !json_text_str(t, s, t.n + 1)) {
		free(s);
		s = NULL;
	}
	return s;
}

/* The id of a request, as JSON. false: it is none. */
static bool take_id(struct json_text t, char id[BRIDGE_ID_MAX])
{
	struct json j;
	bool ok;

	if (json_text_kind(t) != '"' && json_text_kind(t) != '0')
		return false;
	json_init(&j);
	json_text_put(t, &j, NULL);
	ok = !j.failed && j.len < BRIDGE_ID_MAX;
	(void)snprintf(id, BRIDGE_ID_MAX, "%.*s", ok ? (int)j.len : 0, ok ? j.buf : "");
	json_done(&j);
	return ok;
}

/* What needs the box. Who only asks what there is does not get one. */
static bool needs_box(const char *method, struct json_text params)
{
	struct json_walk uris;
	struct json_text key, value;

	if (strcmp(method, "tools/call") == 0)
		return true;
	if (strncmp(method, "resources/", 10) == 0)
		return strcmp(method, "resources/templates/list") != 0;
	if (strcmp(method, "subscriptions/listen") != 0)
		return false;
	uris = json_walk(member(member(params, "notifications"), "resourceSubscriptions"));
	return json_walk_next(&uris, &key, &value);
}

static void look_into(struct pending *p, struct json_text params)
{
	static const char *const named[][2] = { { "tools/call", "name" },
						{ "prompts/get", "name" },
						{ "resources/read", "uri" } };
	struct json_text version = member(member(params, "_meta"), BRIDGE_META_VERSION);

	p->modern = json_text_kind(version) != '\0' || strcmp(p->method, "server/discover") == 0;
	if (!json_text_str(version, p->version, sizeof(p->version)))
		p->version[0] = '\0';
	for (unsigned int i = 0; i < ARRAY_LEN(named); i++)
		if (strcmp(p->method, named[i][0]) == 0)
			p->name = text_of(member(params, named[i][1]));
	p->is_list = strcmp(p->method, "tools/list") == 0;
	p->is_initialize = !p->modern && strcmp(p->method, "initialize") == 0;
	p->is_initialized = !p->modern && strcmp(p->method, "notifications/initialized") == 0;
	p->needs_box = p->id[0] != '\0' && needs_box(p->method, params);
}

/* --- all of them ---------------------------------------------------------------------------------- */

static struct pending *pending_new(struct bridge *b, char *text, size_t n)
{
	struct pending *p = calloc(1, sizeof(*p));

	if (p == NULL) {
		free(text);
		return NULL;
	}
	p->b = b;
	p->text = text;
	p->n = n;
	bytes_init(&p->body, BRIDGE_ANSWER_MAX);
	sse_init(&p->sse, BRIDGE_ANSWER_MAX);
	*b->last = p;
	b->last = &p->next;
	b->npending++;
	return p;
}

void pending_free(struct pending *p)
{
	struct bridge *b = p->b;
	struct pending **at = &b->pending;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (b->last == &p->next)
		b->last = at;
	b->npending--;
	if (p->x != NULL)
		exchange_drop(p->x);
	bridge_transfer_free(p);
	bytes_done(&p->body);
	sse_done(&p->sse);
	free(p->text);
	free(p->method);
	free(p->name);
	free(p);
}

void bridge_fail_for_box(struct bridge *b, const char *text)
{
	for (struct pending *p = b->pending, *next; p != NULL; p = next) {
		next = p->next;
		if (!p->needs_box || p->x != NULL)
			continue;
		bridge_error(b, p->id, BRIDGE_INTERNAL, "there is no box: %s", text);
		pending_free(p);
	}
}

/* --- lines ---------------------------------------------------------------------------------------- */

void bridge_refuse_line(struct bridge *b, int error)
{
	if (error == -E2BIG)
		bridge_error(b, "null", BRIDGE_INVALID_REQUEST,
			     "a message has at most %d bytes: this one was not read", LINES_MAX);
	else
		bridge_error(b, "null", BRIDGE_INTERNAL, "out of memory");
}

/* The client does not want an answer any more. Whether the server has to be told. */
static bool take_cancelled(struct bridge *b, struct json_text params)
{
	char id[BRIDGE_ID_MAX];
	struct pending *p = b->pending;

	if (!take_id(member(params, "requestId"), id))
		return b->version[0] != '\0';
	while (p != NULL && (strcmp(p->id, id) != 0 || p->is_initialize))
		p = p->next;
	if (p == NULL)
		return b->version[0] != '\0';
	/* In the modern era to close the connection is to cancel; of what was not sent the server does not know. */
	if (p->modern || p->transfer != NULL || p->x == NULL) {
		pending_free(p);
		return false;
	}
	p->unwanted = true;
	return true;
}

/* What has a method. false: that was all. */
static bool take_call(struct pending *p, struct json_text params)
{
	struct bridge *b = p->b;

	if (p->id[0] == '\0') {
		if (strcmp(p->method, "notifications/cancelled") == 0)
			return take_cancelled(b, params);
		return true;
	}
	if (p->is_initialize)
		b->initializing = true;
	if (strcmp(p->method, "tools/call") == 0 && p->name != NULL && bridge_is_own_tool(p->name))
		return bridge_transfer_take(p, strcmp(p->name, "upload_file") == 0,
					    member(params, "arguments"));
	return true;
}

/* Of a request, a notification or an answer; false: it is none of them, and was answered. */
static bool take_message(struct pending *p, struct json_text root)
{
	struct json_member m[] = { { .key = "id" },
				   { .key = "method" },
				   { .key = "params" },
				   { .key = "result" },
				   { .key = "error" } };
	bool has_id;

	json_text_find(root, m, ARRAY_LEN(m));
	has_id = json_text_kind(m[0].value) != '\0';
	if (json_text_kind(root) != '{' || (has_id && !take_id(m[0].value, p->id))) {
		bridge_error(p->b, "null", BRIDGE_INVALID_REQUEST,
			     "a message is one object, and its id a number or a string of less "
			     "than %d bytes",
			     BRIDGE_ID_MAX);
		return false;
	}
	p->method = text_of(m[1].value);
	if (p->method != NULL) {
		look_into(p, m[2].value);
		return take_call(p, m[2].value);
	}
	if (has_id && (json_text_kind(m[3].value) != '\0' || json_text_kind(m[4].value) != '\0')) {
		p->id[0] = '\0'; /* an answer to a question of the server's */
		return true;
	}
	bridge_error(p->b, has_id ? p->id : "null", BRIDGE_INVALID_REQUEST,
		     "a message has a 'method', or an 'id' and a 'result' or 'error'");
	return false;
}

void bridge_take_line(struct bridge *b, char *text, size_t n)
{
	struct json_text root;
	struct pending *p;

	if (is_blank(text, n)) {
		free(text);
		return;
	}
	if (json_text_read(text, n, &root) < 0) {
		free(text);
		bridge_error(b, "null", BRIDGE_PARSE_ERROR, "this line is not JSON");
		return;
	}
	p = pending_new(b, text, n);
	if (p == NULL)
		bridge_error(b, "null", BRIDGE_INTERNAL, "out of memory");
	else if (!take_message(p, root))
		pending_free(p);
}

/* --- headers -------------------------------------------------------------------------------------- */

static bool is_plain(const char *s)
{
	size_t n = strlen(s);

	if (n == 0 || s[0] == ' ' || s[n - 1] == ' ' || strncmp(s, "=?base64?", 9) == 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~')
			return false;
	return true;
}

void bridge_put_text(struct exchange *x, const char *name, const char *text)
{
	own_free char *coded = NULL;
	size_t n = strlen(text);

	if (is_plain(text)) {
		exchange_header(x, name, text);
		return;
	}
	coded = malloc(BASE64_TEXT_LEN(n) + 16);
	if (coded == NULL)
		return; /* the server says that it is missing */
	(void)memcpy(coded, "=?base64?", 9);
	n = 9 + base64_encode((const uint8_t *)text, n, coded + 9);
	(void)memcpy(coded + n, "?=", 3);
	exchange_header(x, name, coded);
}

void bridge_headers(const struct bridge *b, struct exchange *x)
{
	exchange_header(x, "Accept", "application/json, text/event-stream");
	if (b->box_state == BRIDGE_BOX_THERE)
		exchange_header(x, "Glovebox-Box", b->box);
}

static void put_headers(struct pending *p, struct exchange *x)
{
	struct bridge *b = p->b;

	bridge_headers(b, x);
	if (p->modern) {
		if (p->version[0] != '\0')
			bridge_put_text(x, "MCP-Protocol-Version", p->version);
		bridge_put_text(x, "Mcp-Method", p->method);
		if (p->name != NULL)
			bridge_put_text(x, "Mcp-Name", p->name);
		if (strcmp(p->method, "tools/call") == 0)
			bridge_params_put(p, x);
	} else if (!p->is_initialize) {
		bridge_session_headers(b, x);
	}
}

/* --- what comes back ------------------------------------------------------------------------------ */

/* It has come to its end: what was not answered is, now. */
static void finish(struct pending *p, struct exchange *x, const struct err *e)
{
	struct bridge *b = p->b;
	char text[512];

	p->x = NULL;
	if (e == NULL && p->trouble == NULL && !p->streams && p->id[0] != '\0')
		(void)bridge_take_event(b, p, p->body.p, p->body.n);
	if (e != NULL)
		(void)snprintf(text, sizeof(text), "%s", e->text);
	else if (p->trouble != NULL && x->answer.status < 400)
		(void)snprintf(text, sizeof(text), "the server sent %s", p->trouble);
	else
		bridge_refusal(x, &p->body, text, sizeof(text));
	if (p->id[0] != '\0' && !p->answered && !p->unwanted)
		bridge_error(b, p->id, BRIDGE_INTERNAL, "%s", text);
	else if (p->id[0] == '\0' && e == NULL && x->answer.status >= 400)
		say("%s was not taken: %s", p->method != NULL ? p->method : "an answer", text);
	bridge_heard(b, e);
	if (p->is_initialize)
		b->initializing = false;
	if (p->is_initialized && e == NULL)
		bridge_session_hear(b);
	pending_free(p);
}

static int on_head(struct exchange *x)
{
	struct pending *p = x->arg;

	p->streams =
		x->answer.status == 200 && exchange_says(x, "Content-Type", "text/event-stream");
	if (p->is_initialize && x->answer.status == 200)
		bridge_session_name(p->b, http_answer_get(&x->answer, "Mcp-Session-Id"));
	return 0;
}

static int on_event(void *arg, struct sse_event *e)
{
	struct pending *p = arg;

	return bridge_take_event(p->b, p, e->data, e->n);
}

static int on_body(struct exchange *x, const char *text, size_t n)
{
	struct pending *p = x->arg;

	if (!p->streams)
		bytes_put(&p->body, text, n);
	else if (sse_feed(&p->sse, text, n, on_event, p) < 0)
		p->body.failed = true;
	if (!p->body.failed)
		return 0;
	p->trouble = "a message that is too long";
	finish(p, x, NULL);
	return 1;
}

static void on_end(struct exchange *x, const struct err *e)
{
	finish(x->arg, x, e);
}

/* --- sending -------------------------------------------------------------------------------------- */

static void start(struct pending *p)
{
	static const struct exchange_ops ops = { .head = on_head, .body = on_body, .end = on_end };
	struct bridge *b = p->b;
	struct exchange *x;

	if (p->transfer != NULL) {
		bridge_transfer_start(p);
		return;
	}
	x = exchange_new(&b->all, "POST", "/mcp", &ops, p);
	if (x == NULL) {
		if (p->id[0] != '\0')
			bridge_error(b, p->id, BRIDGE_INTERNAL, "out of memory");
		if (p->is_initialize)
			b->initializing = false;
		pending_free(p);
		return;
	}
	put_headers(p, x);
	exchange_body(x, "application/json", p->text, p->n);
	p->text = NULL;
	x->answer_ms = p->id[0] == '\0' || p->is_initialize ? QUICK_MS : 0;
	p->x = x;
	exchange_start(x);
}

/* What wants no answer has room of its own: it may be what all the others wait for. */
void bridge_go(struct bridge *b)
{
	unsigned int room[2] = { BRIDGE_CONNECTIONS_MAX, BRIDGE_QUIET_MAX };
	bool wanted = false;

	for (const struct pending *p = b->pending; p != NULL; p = p->next)
		if (p->x != NULL)
			room[p->id[0] == '\0']--;
	for (struct pending *p = b->pending, *next; p != NULL; p = next) {
		bool quiet = p->id[0] == '\0';

		next = p->next;
		if (p->x != NULL || room[quiet] == 0)
			continue;
		wanted |= p->needs_box;
		if (p->needs_box && b->box_state != BRIDGE_BOX_THERE)
			continue;
		room[quiet]--;
		start(p);
	}
	if (wanted)
		bridge_box_want(b);
}

bool bridge_is_awaited(const struct bridge *b)
{
	for (const struct pending *p = b->pending; p != NULL; p = p->next)
		if (p->method == NULL || strcmp(p->method, "subscriptions/listen") != 0)
			return true;
	return false;
}
