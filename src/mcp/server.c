// SPDX-License-Identifier: Apache-2.0
/* A message of a client: what it is, of which era, whether its headers agree with it, and who answers. */
#include "mcp/impl.h"

#include "base/base64.h"
#include "base/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- methods ---------------------------------------------------------------------------------- */

static bool has_nothing(const struct mcp_table *t)
{
	(void)t;
	return true;
}

static bool has_tools(const struct mcp_table *t)
{
	return t->ntools > 0;
}

static bool has_prompts(const struct mcp_table *t)
{
	return t->nprompts > 0;
}

static bool has_resources(const struct mcp_table *t)
{
	return t->read != NULL;
}

static bool has_completion(const struct mcp_table *t)
{
	return t->complete != NULL;
}

bool table_has_subscriptions(const struct mcp_table *t)
{
	return t->subscribe != NULL;
}

bool table_has_changes(const struct mcp_table *t)
{
	return t->tools_change || t->prompts_change || t->resources_change || t->subscribe != NULL;
}

#define NOTHING       has_nothing
#define TOOLS         has_tools
#define PROMPTS       has_prompts
#define RESOURCES     has_resources
#define COMPLETION    has_completion
#define SUBSCRIPTIONS table_has_subscriptions
#define CHANGES       table_has_changes

static const struct mcp_method methods[] = {
#define METHOD(name, eras, needs, named, keep, run) \
	{ name, MCP_ERA_##eras, needs, named, keep, run },
#include "mcp/methods.tbl"
#undef METHOD
};

static const struct mcp_method *method_find(const struct mcp_table *t, const char *name,
					    enum mcp_era era)
{
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (strcmp(methods[i].name, name) == 0)
			return (methods[i].eras & era) != 0 && methods[i].there(t) ? &methods[i]
										   : NULL;
	return NULL;
}

const char *const mcp_legacy[] = { "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05", NULL };

bool mcp_is_legacy(const char *version)
{
	for (unsigned int i = 0; mcp_legacy[i] != NULL; i++)
		if (strcmp(mcp_legacy[i], version) == 0)
			return true;
	return false;
}

/* --- looking into a message ------------------------------------------------------------------- */

const struct jsonr_node *member(const struct jsonr *d, const struct jsonr_node *o, const char *key,
				enum jsonr_type type)
{
	const struct jsonr_node *n =
		o != NULL && o->type == JSONR_OBJECT ? jsonr_get(d, o, key) : NULL;

	return n != NULL && n->type == type ? n : NULL;
}

const char *member_text(const struct jsonr *d, const struct jsonr_node *o, const char *key)
{
	const struct jsonr_node *n = member(d, o, key, JSONR_STRING);

	return n != NULL ? n->string : NULL;
}

const struct jsonr_node *mcp_arg(const struct mcp_call *c, const char *name, enum jsonr_type type)
{
	return member(&c->doc, c->args, name, type);
}

/* An id as JSON. false: it is none. */
static bool take_id(const struct jsonr *d, const struct jsonr_node *n, char id[MCP_ID_MAX])
{
	struct json j;
	bool ok;

	if (n == NULL || (n->type != JSONR_STRING && n->type != JSONR_INT && n->type != JSONR_REAL))
		return false;
	json_init(&j);
	jsonr_write(d, n, &j, NULL);
	ok = !j.failed && j.len < MCP_ID_MAX;
	if (ok) {
		(void)memcpy(id, j.buf, j.len);
		id[j.len] = '\0';
	}
	json_done(&j);
	return ok;
}

static struct http_slice header(const struct mcp_envelope *env, const char *name)
{
	return env->header != NULL ? env->header(env->arg, name) : (struct http_slice){ NULL, 0 };
}

/* --- headers of the modern era ---------------------------------------------------------------- */

static bool slice_is(struct http_slice s, const char *text)
{
	return s.p != NULL && s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

/* Whether a header says this, plainly or as =?base64?…?=. */
static bool header_says(struct http_slice s, const char *text)
{
	static const char before[] = "=?base64?", after[] = "?=";
	const size_t nbefore = sizeof(before) - 1, nafter = sizeof(after) - 1;
	size_t n, want = strlen(text);
	uint8_t *bytes;
	bool same;

	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
		s.p++;
		s.n--;
	}
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	if (s.n < nbefore + nafter || memcmp(s.p, before, nbefore) != 0 ||
	    memcmp(s.p + s.n - nafter, after, nafter) != 0)
		return slice_is(s, text);
	n = s.n - nbefore - nafter;
	bytes = malloc(BASE64_BYTES_MAX(n) + 1);
	same = bytes != NULL && base64_decode(s.p + nbefore, n, bytes, &n) == 0 && n == want &&
	       memcmp(bytes, text, n) == 0;
	free(bytes);
	return same;
}

static bool check_header(struct mcp_call *c, const struct mcp_envelope *env, const char *name,
			 const char *want)
{
	struct http_slice s = header(env, name);

	if (env->header == NULL || (s.p != NULL && header_says(s, want)))
		return true;
	mcp_error(c, MCP_HEADER_MISMATCH, NULL,
		  s.p == NULL ? "the header %s is missing"
			      : "the header %s does not say what the message does",
		  name);
	return false;
}

/* A parameter of a tool that is repeated in a header. */
static bool check_parameter(struct mcp_call *c, const struct mcp_envelope *env)
{
	const char *name = member_text(&c->doc, c->params, "name");
	const struct jsonr_node *args = member(&c->doc, c->params, "arguments", JSONR_OBJECT);
	const struct mcp_table *t = c->s->table;

	for (unsigned int i = 0; name != NULL && i < t->ntools; i++) {
		const struct mcp_tool *tool = &t->tools[i];
		const char *value;
		char full[64];

		if (strcmp(tool->name, name) != 0 || tool->header == NULL)
			continue;
		(void)snprintf(full, sizeof(full), "Mcp-Param-%s", tool->header);
		value = member_text(&c->doc, args, tool->header_param);
		if (value != NULL)
			return check_header(c, env, full, value);
		if (env->header == NULL || header(env, full).p == NULL)
			return true;
		mcp_error(c, MCP_HEADER_MISMATCH, NULL,
			  "the header %s is there, and its parameter is not", full);
		return false;
	}
	return true;
}

/* --- the modern era --------------------------------------------------------------------------- */

static void refuse_version(struct mcp_call *c, const char *requested)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "supported", '[');
	json_str(&j, NULL, MCP_MODERN);
	json_close(&j, ']');
	json_str(&j, "requested", requested);
	json_close(&j, '}');
	json_raw(&j, "", 1);
	mcp_error(c, MCP_NO_VERSION, j.failed ? NULL : j.buf,
		  "this version of the protocol is not spoken here");
	json_done(&j);
}

/* Whether it is as a modern request must be. false: it was refused. */
static bool check_modern(struct mcp_call *c, const struct mcp_envelope *env, const char *method)
{
	const char *version = member_text(&c->doc, c->meta, META_PREFIX "protocolVersion");
	const char *level = member_text(&c->doc, c->meta, META_PREFIX "logLevel");
	const char *named;

	c->capabilities = member(&c->doc, c->meta, META_PREFIX "clientCapabilities", JSONR_OBJECT);
	if (version == NULL || c->capabilities == NULL) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL, "params._meta has no '%s%s'", META_PREFIX,
			  version == NULL ? "protocolVersion" : "clientCapabilities");
		return false;
	}
	if (!check_header(c, env, "MCP-Protocol-Version", version))
		return false;
	if (strcmp(version, MCP_MODERN) != 0) {
		refuse_version(c, version);
		return false;
	}
	if (!check_header(c, env, "Mcp-Method", method))
		return false;
	c->method = method_find(c->s->table, method, MCP_ERA_MODERN);
	if (c->method == NULL) {
		mcp_error(c, MCP_NO_METHOD, NULL, "there is no method '%s'", method);
		return false;
	}
	named = c->method->named != NULL ? member_text(&c->doc, c->params, c->method->named) : NULL;
	if (named != NULL && !check_header(c, env, "Mcp-Name", named))
		return false;
	if (strcmp(method, "tools/call") == 0 && !check_parameter(c, env))
		return false;
	c->level = level != NULL ? level_named(level) : MCP_SILENT;
	return inputs_take(c) == 0;
}

/* --- calls ------------------------------------------------------------------------------------ */

void call_free(struct mcp_call *c)
{
	struct mcp_server *s = c->s;

	c->link->call = NULL;
	if (c->prev != NULL)
		c->prev->next = c->next;
	else if (s->calls == c)
		s->calls = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	s->ncalls--;
	listen_over(c);
	inputs_done(c);
	jsonr_done(&c->doc);
	free(c->text);
	free(c->state);
	free(c->next_state);
	c->over = c->inside;
	if (!c->inside)
		free(c);
}

void call_step(struct mcp_call *c)
{
	c->nwanted = 0;
	c->inside = true;
	if (c->tool != NULL)
		c->tool->run(c);
	else if (c->prompt != NULL)
		c->prompt->run(c);
	else
		c->method->run(c);
	c->inside = false;
	if (c->over) /* it was answered; its link may be gone, too */
		free(c);
	else if (c->nwanted > 0)
		inputs_ask(c);
}

unsigned int calls_of(const struct mcp_server *s, const void *owner, bool listens)
{
	unsigned int n = 0;

	for (const struct mcp_call *c = s->calls; c != NULL; c = c->next)
		n += c->owner == owner && c->listens == listens;
	return n;
}

struct mcp_call *call_new(struct mcp_server *s, const struct mcp_envelope *env, struct mcp_link *l)
{
	struct mcp_call *c;

	if (s->ncalls >= MCP_CALLS_MAX || calls_of(s, env->owner, false) >= MCP_CALLS_MAX / 8)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return NULL;
	c->s = s;
	c->link = l;
	c->owner = env->owner;
	c->now_us = env->now_us;
	(void)snprintf(c->context, sizeof(c->context), "%.*s", (int)env->context.n,
		       env->context.p != NULL ? env->context.p : "");
	c->level = MCP_SILENT;
	l->call = c;
	c->next = s->calls;
	if (s->calls != NULL)
		s->calls->prev = c;
	s->calls = c;
	s->ncalls++;
	return c;
}

static void on_cancelled(struct mcp_server *s, const struct mcp_session *se, const struct jsonr *d,
			 const struct jsonr_node *params)
{
	char id[MCP_ID_MAX];

	if (!take_id(d, jsonr_get(d, params, "requestId"), id))
		return;
	for (struct mcp_call *c = s->calls; c != NULL; c = c->next)
		if (c->session == se && se != NULL && strcmp(c->id, id) == 0) {
			struct mcp_link *l = c->link;

			mcp_left(l);
			l->end(l, 202, NULL, 0); /* no answer: the client does not want any */
			return;
		}
}

/* What needs no answer: a notification, or the answer to a question of ours. */
static void take_quiet(struct mcp_server *s, const struct mcp_envelope *env, struct mcp_link *l,
		       const struct jsonr *d, const char *method)
{
	const struct jsonr_node *root = jsonr_root(d);
	const struct jsonr_node *params = member(d, root, "params", JSONR_OBJECT);
	bool modern = member(d, member(d, params, "_meta", JSONR_OBJECT),
			     META_PREFIX "protocolVersion", JSONR_STRING) != NULL ||
		      slice_is(header(env, "MCP-Protocol-Version"), MCP_MODERN);
	struct mcp_session *se = NULL;
	int status;

	if (!modern) {
		se = session_find(s, env, &status);
		if (se == NULL) {
			link_refuse(l, status, "null", MCP_INVALID_REQUEST, NULL, "%s",
				    status == 404
					    ? "there is no such session"
					    : "the header Mcp-Session-Id is missing, or one of "
					      "another version");
			return;
		}
	}
	if (method == NULL)
		(void)inputs_answer(s, se, d, root);
	else if (strcmp(method, "notifications/cancelled") == 0 && params != NULL)
		on_cancelled(s, se, d, params);
	l->end(l, 202, NULL, 0);
}

static void take_request(struct mcp_call *c, const struct mcp_envelope *env, const char *method)
{
	const struct jsonr_node *root = jsonr_root(&c->doc);
	struct http_slice version = header(env, "MCP-Protocol-Version");
	const char *legacy = NULL;
	int status;

	c->modern = slice_is(version, MCP_MODERN);
	c->params = jsonr_get(&c->doc, root, "params");
	if (c->params != NULL && c->params->type != JSONR_OBJECT) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL, "'params' must be an object");
		return;
	}
	c->meta = member(&c->doc, c->params, "_meta", JSONR_OBJECT);
	c->progress = jsonr_get(&c->doc, c->meta, "progressToken");
	for (unsigned int i = 0; mcp_legacy[i] != NULL; i++)
		if (slice_is(version, mcp_legacy[i]))
			legacy = mcp_legacy[i];
	c->modern |= jsonr_get(&c->doc, c->meta, META_PREFIX "protocolVersion") != NULL ||
		     strcmp(method, "server/discover") == 0;
	if (c->modern) {
		if (check_modern(c, env, method))
			call_step(c);
		return;
	}
	c->method = method_find(c->s->table, method, MCP_ERA_LEGACY);
	if (strcmp(method, "initialize") == 0) {
		call_step(c);
		return;
	}
	if (version.p != NULL && legacy == NULL) {
		link_refuse(c->link, 400, c->id, MCP_INVALID_REQUEST, NULL,
			    "this version of the protocol is not spoken here");
		return;
	}
	c->session = session_find(c->s, env, &status);
	if (c->session == NULL)
		link_refuse(c->link, status, c->id, MCP_INVALID_REQUEST, NULL, "%s",
			    status == 404
				    ? "there is no such session"
				    : "the header Mcp-Session-Id is missing: initialize first");
	else if (c->method == NULL)
		mcp_error(c, MCP_NO_METHOD, NULL, "there is no method '%s'", method);
	else {
		c->level = c->session->level;
		call_step(c);
	}
}

void mcp_take(struct mcp_server *s, const struct mcp_envelope *env, struct mcp_link *l, char *text,
	      size_t n)
{
	const struct jsonr_node *root;
	struct jsonr_error e;
	struct jsonr doc;
	const char *method, *version;
	char id[MCP_ID_MAX] = "";
	struct mcp_call *c;
	bool has_id;

	l->call = NULL;
	if (jsonr_parse(&doc, text, n, &e) < 0) {
		free(text);
		link_refuse(l, 400, "null", MCP_PARSE_ERROR, NULL, "this is not JSON: %s, byte %zu",
			    e.why, e.offset);
		return;
	}
	root = jsonr_root(&doc);
	version = member_text(&doc, root, "jsonrpc");
	method = member_text(&doc, root, "method");
	has_id = root->type == JSONR_OBJECT && take_id(&doc, jsonr_get(&doc, root, "id"), id);
	if (version == NULL || strcmp(version, "2.0") != 0 ||
	    (method == NULL && (!has_id || (jsonr_get(&doc, root, "result") == NULL &&
					    jsonr_get(&doc, root, "error") == NULL))) ||
	    (!has_id && jsonr_get(&doc, root, "id") != NULL)) {
		link_refuse(l, 400, has_id ? id : "null", MCP_INVALID_REQUEST, NULL, "%s",
			    root->type == JSONR_ARRAY ? "batches are not taken"
						      : "this is no message of JSON-RPC 2.0");
	} else if (method == NULL || !has_id) {
		take_quiet(s, env, l, &doc, method);
	} else {
		c = call_new(s, env, l);
		if (c != NULL) {
			(void)memcpy(c->id, id, sizeof(c->id));
			c->doc = doc;
			c->text = text;
			take_request(c, env, method);
			return;
		}
		link_refuse(l, 503, id, MCP_INTERNAL, NULL, "too much is under way");
	}
	jsonr_done(&doc);
	free(text);
}

void call_cancel(struct mcp_call *c)
{
	void (*cancel)(struct mcp_call *c) = c->cancel;

	c->cancel = NULL;
	if (cancel != NULL)
		cancel(c);
}

void mcp_left(struct mcp_link *l)
{
	struct mcp_call *c = l->call;

	if (c == NULL)
		return;
	call_cancel(c);
	call_free(c);
}

void mcp_init(struct mcp_server *s, const struct mcp_table *table, void *arg,
	      const uint8_t key[MCP_KEY])
{
	(void)memset(s, 0, sizeof(*s));
	s->table = table;
	s->arg = arg;
	(void)memcpy(s->key, key, MCP_KEY);
}

void mcp_done(struct mcp_server *s)
{
	while (s->sessions != NULL)
		mcp_session_end(s->sessions);
	while (s->calls != NULL) {
		struct mcp_link *l = s->calls->link;

		mcp_left(l);
		l->end(l, 503, NULL, 0);
	}
}
