// SPDX-License-Identifier: Apache-2.0
/*
 * What the server says. A message is an answer to something of ours, a question, or a notification; whatever else comes, and
 * whatever belongs to nobody, is counted and passed over, until there is too much of it.
 */
#include "mcp/client_impl.h"

#include "base/own.h"

#include <string.h>

enum { ID_MAX = 256, METHOD_MAX = 128 };

struct said {
	struct json_text id, method, params, result, error;
};

/* It is for nobody. */
static void stray(struct mcpc *c, const char *what)
{
	if (++c->strays > c->bounds.strays)
		mcpc_lost(c, "the server sends too much that is for nobody, at last %s", what);
}

/* --- answers -------------------------------------------------------------------------------------- */

/* Which of ours it answers. An error without an id is about the only thing that it can be about. */
static struct mcpc_request *answered(const struct mcpc *c, uint64_t of, const struct said *m)
{
	char kind = json_text_kind(m->id);
	struct mcpc_request *r = c->requests;
	int64_t id;

	if (json_text_i64(m->id, &id) && id > 0)
		of = (uint64_t)id;
	else if ((kind != '\0' && kind != 'n') || json_text_kind(m->error) != '{')
		return NULL;
	else if (of == 0)
		return c->nrequests == 1 ? r : NULL;
	while (r != NULL && r->id != of)
		r = r->next;
	return r;
}

static void take_answer(struct mcpc *c, uint64_t of, const struct said *m, uint64_t now_us)
{
	struct mcpc_request *r = answered(c, of, m);

	if (r == NULL || r->id == 0)
		stray(c, "an answer to nothing that was asked");
	else if (json_text_kind(m->result) != '\0' && json_text_kind(m->error) == '{')
		mcpc_finish_failed(r, "the answer to '%s' is both a result and an error",
				   r->method);
	else
		mcpc_answered(r, m->result, m->error, now_us);
}

/* --- notifications -------------------------------------------------------------------------------- */

static void take_progress(struct mcpc *c, struct json_text params)
{
	struct json_member token = { .key = "progressToken" };
	struct mcpc_request *r = c->requests;
	int64_t id;

	json_text_find(params, &token, 1);
	if (!json_text_i64(token.value, &id))
		id = 0;
	while (r != NULL && (id <= 0 || r->id != (uint64_t)id || r->progress == NULL))
		r = r->next;
	if (r != NULL)
		r->progress(r, params);
}

static void take_notification(struct mcpc *c, const char *method, struct json_text params)
{
	if (strcmp(method, "notifications/progress") == 0)
		take_progress(c, params);
	else if (c->way->told != NULL)
		c->way->told(c->way, method, params);
}

/* --- messages ------------------------------------------------------------------------------------- */

static bool is_id(struct json_text id)
{
	char kind = json_text_kind(id);

	return (kind == '"' || kind == '0') && id.n < ID_MAX;
}

static void take_object(struct mcpc *c, uint64_t of, struct json_text t, uint64_t now_us)
{
	struct json_member m[] = { { .key = "jsonrpc" }, { .key = "id" },     { .key = "method" },
				   { .key = "params" },  { .key = "result" }, { .key = "error" } };
	char version[8], method[METHOD_MAX];
	struct said s;

	json_text_find(t, m, ARRAY_LEN(m));
	s = (struct said){ m[1].value, m[2].value, m[3].value, m[4].value, m[5].value };
	if (json_text_kind(t) != '{' || !json_text_str(m[0].value, version, sizeof(version)) ||
	    strcmp(version, "2.0") != 0) {
		stray(c, "what is no message of JSON-RPC 2.0");
	} else if (json_text_kind(s.method) == '\0') {
		if (json_text_kind(s.result) != '\0' || json_text_kind(s.error) != '\0')
			take_answer(c, of, &s, now_us);
		else
			stray(c, "a message that is neither an answer nor a question");
	} else if (!json_text_str(s.method, method, sizeof(method))) {
		stray(c, "a message whose method is none");
	} else if (json_text_kind(s.id) == '\0') {
		take_notification(c, method, s.params);
	} else if (!is_id(s.id)) {
		stray(c, "a question whose id is none");
	} else if (c->era == MCPC_ERA_MODERN) {
		stray(c, "a question, which this version of the protocol does not have");
	} else {
		mcpc_question(c, s.id, method, s.params);
	}
}

void mcpc_take(struct mcpc *c, uint64_t of, const char *p, size_t n, uint64_t now_us)
{
	struct json_text t, key, value;
	struct json_walk w;

	if (c->broken[0] != '\0')
		return;
	if (n > c->bounds.message_bytes) {
		mcpc_lost(c, "the server sends a message of more than %zu bytes",
			  c->bounds.message_bytes);
		return;
	}
	if (json_text_read(p, n, &t) < 0) {
		stray(c, "what is not JSON");
		return;
	}
	if (json_text_kind(t) != '[') {
		take_object(c, of, t, now_us);
		return;
	}
	if (strcmp(c->spoken, "2025-03-26") != 0) { /* the only one that has batches */
		stray(c, "a list of messages, which this version of the protocol does not have");
		return;
	}
	for (w = json_walk(t); c->broken[0] == '\0' && json_walk_next(&w, &key, &value);)
		take_object(c, of, value, now_us);
}
