// SPDX-License-Identifier: Apache-2.0
/* What the client says: requests with what goes along in each era, notifications, answers. */
#include "mcp/client_impl.h"

#include "base/own.h"

#include <errno.h>
#include <string.h>

/* What we can do: ask a person, by a form. */
static void put_capabilities(struct json *j, const char *key)
{
	json_open(j, key, '{');
	json_open(j, "elicitation", '{');
	json_close(j, '}');
	json_close(j, '}');
}

void mcpc_put_client(const struct mcpc *c, struct json *j, const char *info,
		     const char *capabilities)
{
	json_open(j, info, '{');
	json_str(j, "name", c->name);
	json_str(j, "version", c->version);
	json_close(j, '}');
	put_capabilities(j, capabilities);
}

static bool is_modern(const struct mcpc_request *r)
{
	return r->kind == MCPC_PROBE || r->kind == MCPC_PROBE_AGAIN || r->c->era == MCPC_ERA_MODERN;
}

static void put_meta(const struct mcpc_request *r, struct json *j)
{
	bool modern = is_modern(r);

	if (!modern && r->progress == NULL)
		return;
	json_open(j, "_meta", '{');
	if (modern) {
		json_str(j, MCPC_META "protocolVersion", MCPC_MODERN);
		mcpc_put_client(r->c, j, MCPC_META "clientInfo", MCPC_META "clientCapabilities");
	}
	if (r->progress != NULL)
		json_u64(j, "progressToken", r->id);
	json_close(j, '}');
}

static void put_members(struct json *j, const char *members)
{
	if (members == NULL || members[0] == '\0')
		return;
	json_value(j, NULL);
	json_raw(j, members, strlen(members));
}

static void put_request(const struct mcpc_request *r, struct json *j)
{
	json_open(j, NULL, '{');
	json_str(j, "jsonrpc", "2.0");
	json_u64(j, "id", r->id);
	json_str(j, "method", r->method);
	json_open(j, "params", '{');
	put_members(j, r->members);
	if (r->inputs != NULL) {
		json_value(j, "inputResponses");
		json_raw(j, r->inputs, strlen(r->inputs));
	}
	if (r->state != NULL) { /* as it came */
		json_value(j, "requestState");
		json_raw(j, r->state, strlen(r->state));
	}
	put_meta(r, j);
	json_close(j, '}');
	json_close(j, '}');
}

/* The arguments of a call, in the members that go out. */
static struct json_text arguments_of(const struct mcpc_request *r)
{
	struct json_walk w = { r->members, r->members + strlen(r->members) };
	struct json_text key, value;
	char name[16];

	while (json_walk_next(&w, &key, &value))
		if (json_text_str(key, name, sizeof(name)) && strcmp(name, "arguments") == 0)
			return value;
	return (struct json_text){ 0 };
}

static void put_headers(const struct mcpc_request *r, struct mcpc_headers *h)
{
	const struct mcpc *c = r->c;

	if (!c->way->http)
		return;
	if (!is_modern(r)) {
		if (c->spoken[0] != '\0')
			mcpc_headers_add(h, NULL, "MCP-Protocol-Version", c->spoken,
					 strlen(c->spoken));
		return;
	}
	mcpc_headers_add(h, NULL, "MCP-Protocol-Version", MCPC_MODERN, strlen(MCPC_MODERN));
	mcpc_headers_add(h, NULL, "Mcp-Method", r->method, strlen(r->method));
	if (r->named != NULL)
		mcpc_headers_add(h, NULL, "Mcp-Name", r->named, strlen(r->named));
	if (r->tool != NULL)
		mcpc_headers_params(h, r->tool->input, arguments_of(r));
}

/* Send what is in j, which is released. */
static int send_json(struct mcpc *c, struct json *j, struct mcpc_message *m, struct mcpc_headers *h)
{
	int r = -ENOMEM;

	if (!j->failed && !h->failed) {
		m->text = j->buf;
		m->n = j->len;
		m->headers = h->v;
		m->nheaders = h->n;
		r = c->way->send(c->way, m);
	}
	json_done(j);
	mcpc_headers_done(h);
	return r;
}

void mcpc_send_request(struct mcpc_request *r)
{
	struct mcpc *c = r->c;
	struct mcpc_headers h = { 0 };
	struct mcpc_message m = { .opens = r->kind == MCPC_INITIALIZE };
	struct json j;
	int rc;

	if (r->kind == MCPC_INITIALIZE && r->members == NULL) {
		mcpc_finish_failed(r, "no memory");
		return;
	}
	r->id = m.id = ++c->next_id;
	json_init(&j);
	put_request(r, &j);
	put_headers(r, &h);
	rc = send_json(c, &j, &m, &h);
	if (rc < 0)
		mcpc_lost(c, "cannot send to the server: %s", strerror(-rc));
}

/* Nothing is ended by a message that cannot be sent here: whoever waits will hear of it. */
static void send_quiet(struct mcpc *c, struct json *j, bool opened)
{
	struct mcpc_headers h = { 0 };
	struct mcpc_message m = { .opened = opened };

	if (c->way->http && c->spoken[0] != '\0')
		mcpc_headers_add(&h, NULL, "MCP-Protocol-Version", c->spoken, strlen(c->spoken));
	(void)send_json(c, j, &m, &h);
}

void mcpc_send_notification(struct mcpc *c, const char *method, const char *members, bool opened)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "jsonrpc", "2.0");
	json_str(&j, "method", method);
	if (members != NULL) {
		json_open(&j, "params", '{');
		put_members(&j, members);
		json_close(&j, '}');
	}
	json_close(&j, '}');
	send_quiet(c, &j, opened);
}

void mcpc_send_answer(struct mcpc *c, struct json_text id, const struct json *result, int64_t code,
		      const char *text)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "jsonrpc", "2.0");
	json_text_put(id, &j, "id");
	if (result != NULL) {
		json_value(&j, "result");
		json_raw(&j, result->buf, result->len);
	} else {
		json_open(&j, "error", '{');
		json_i64(&j, "code", code);
		json_str(&j, "message", text);
		json_close(&j, '}');
	}
	json_close(&j, '}');
	send_quiet(c, &j, false);
}
