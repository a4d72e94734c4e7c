// SPDX-License-Identifier: Apache-2.0
/* Requests from their beginning to their end. */
#include "mcp/client_impl.h"

#include "base/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void mcpc_bounds_init(struct mcpc_bounds *b)
{
	*b = (struct mcpc_bounds){
		.message_bytes = 64u << 20,
		.list_bytes = 8u << 20,
		.list_pages = 256,
		.list_tools = 4096,
		.rounds = 16,
		.strays = 1000,
		.requests = 256,
		.probe_us = 5000000,
	};
}

void mcpc_init(struct mcpc *c, struct mcpc_way *way, const struct mcpc_bounds *b, const char *name,
	       const char *version)
{
	*c = (struct mcpc){ .way = way, .bounds = *b, .name = name, .version = version };
}

void mcpc_done(struct mcpc *c)
{
	mcpc_lost(c, "the connection was closed");
}

/* --- a request ------------------------------------------------------------------------------------ */

static void forget(struct mcpc_request *r)
{
	own_free_p(&r->members);
	own_free_p(&r->named);
	own_free_p(&r->inputs);
	own_free_p(&r->state);
	own_free_p(&r->cursors);
	r->tool = NULL;
}

void mcpc_request_done(struct mcpc_request *r)
{
	own_free_p(&r->text);
	r->result = r->data = (struct json_text){ 0 };
	mcpc_tools_done(&r->tools);
}

static bool is_connecting(const struct mcpc_request *r)
{
	return r->kind <= MCPC_INITIALIZE;
}

bool mcpc_begin(struct mcpc *c, struct mcpc_request *r, enum mcpc_kind kind, const char *method)
{
	r->outcome = MCPC_PENDING;
	r->code = 0;
	r->error[0] = '\0';
	r->text = NULL;
	r->result = r->data = (struct json_text){ 0 };
	r->tools = (struct mcpc_tools){ 0 };
	r->c = c;
	r->kind = (int)kind;
	r->method = method;
	r->id = 0;
	r->probe_us = UINT64_MAX;
	r->members = r->named = r->inputs = r->state = NULL;
	r->tool = NULL;
	r->rounds = r->pages = 0;
	r->cursors = NULL;
	r->prev = NULL;
	r->next = c->requests;
	if (r->next != NULL)
		r->next->prev = r;
	c->requests = r;
	c->nrequests++;
	if (c->broken[0] != '\0')
		mcpc_finish_failed(r, "%s", c->broken);
	else if (c->nrequests > c->bounds.requests)
		mcpc_finish_failed(r, "more than %u requests are under way", c->bounds.requests);
	else if (!is_connecting(r) && c->era == MCPC_ERA_NONE)
		mcpc_finish_failed(r, "there is no connection yet");
	else
		return true;
	return false;
}

void mcpc_finish(struct mcpc_request *r, enum mcpc_outcome outcome)
{
	if (r->prev != NULL)
		r->prev->next = r->next;
	else
		r->c->requests = r->next;
	if (r->next != NULL)
		r->next->prev = r->prev;
	r->c->nrequests--;
	r->prev = r->next = NULL;
	r->id = 0;
	forget(r);
	if (outcome != MCPC_DONE)
		mcpc_tools_done(&r->tools);
	r->outcome = outcome;
	r->done(r);
}

void mcpc_finish_failed(struct mcpc_request *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(r->error, sizeof(r->error), fmt, ap);
	va_end(ap);
	mcpc_finish(r, MCPC_FAILED);
}

bool mcpc_keep(struct mcpc_request *r, struct json_text t, struct json_text *ret)
{
	free(r->text);
	r->text = mcpc_copy(t.p, t.n);
	if (r->text == NULL) {
		mcpc_finish_failed(r, "no memory for an answer of %zu bytes", t.n);
		return false;
	}
	*ret = (struct json_text){ r->text, t.n };
	return true;
}

char *mcpc_copy(const char *p, size_t n)
{
	char *to = malloc(n + 1);

	if (to != NULL && n > 0)
		(void)memcpy(to, p, n);
	if (to != NULL)
		to[n] = '\0';
	return to;
}

static struct mcpc_request *find(const struct mcpc *c, uint64_t id)
{
	struct mcpc_request *r = id != 0 ? c->requests : NULL;

	while (r != NULL && r->id != id)
		r = r->next;
	return r;
}

bool mcpc_is_open(const struct mcpc *c, uint64_t id)
{
	return find(c, id) != NULL;
}

/* --- answers -------------------------------------------------------------------------------------- */

static void refused(struct mcpc_request *r, struct json_text error)
{
	struct json_member m[] = { { .key = "code" }, { .key = "message" }, { .key = "data" } };
	char text[MCPC_ERROR - 64];

	json_text_find(error, m, ARRAY_LEN(m));
	if (json_text_kind(error) != '{' || !json_text_i64(m[0].value, &r->code)) {
		mcpc_finish_failed(r, "the answer to '%s' is an error without a code", r->method);
		return;
	}
	mcpc_cut(m[1].value, text, sizeof(text));
	(void)snprintf(r->error, sizeof(r->error), "%s (%lld)",
		       text[0] != '\0' ? text : "the server refuses, and does not say why",
		       (long long)r->code);
	if (json_text_kind(m[2].value) == '\0' || mcpc_keep(r, m[2].value, &r->data))
		mcpc_finish(r, MCPC_REFUSED);
}

/* Whether a result of the modern era is a whole one; if not, something else has come of it. */
static bool is_complete(struct mcpc_request *r, struct json_text result)
{
	struct json_member type = { .key = "resultType" };
	char text[64];

	json_text_find(result, &type, 1);
	if (r->c->era != MCPC_ERA_MODERN || json_text_kind(type.value) == '\0')
		return true;
	mcpc_cut(type.value, text, sizeof(text));
	if (strcmp(text, "complete") == 0)
		return true;
	if (strcmp(text, "input_required") == 0)
		mcpc_input_required(r, result);
	else
		mcpc_finish_failed(
			r, "the result is of the type '%s', which this client does not know", text);
	return false;
}

static void called(struct mcpc_request *r, struct json_text result)
{
	struct json_member m[] = { { .key = "content" },
				   { .key = "structuredContent" },
				   { .key = "isError" } };
	char kind;

	json_text_find(result, m, ARRAY_LEN(m));
	kind = json_text_kind(m[0].value);
	if (kind != '[' && (kind != '\0' || json_text_kind(m[1].value) == '\0')) {
		mcpc_finish_failed(r,
				   "the answer is no result of a tool: it has no list 'content'");
		return;
	}
	kind = json_text_kind(m[2].value);
	if (kind != '\0' && kind != 't') {
		mcpc_finish_failed(
			r,
			"the answer is no result of a tool: 'isError' is neither true nor false");
		return;
	}
	if (mcpc_keep(r, result, &r->result))
		mcpc_finish(r, MCPC_DONE);
}

void mcpc_answered(struct mcpc_request *r, struct json_text result, struct json_text error,
		   uint64_t now_us)
{
	bool is_error = json_text_kind(error) != '\0' && json_text_kind(error) != 'n';

	if (r->kind == MCPC_PROBE || r->kind == MCPC_PROBE_AGAIN)
		mcpc_probe_answered(r, result, error, now_us);
	else if (is_error)
		refused(r, error);
	else if (json_text_kind(result) != '{')
		mcpc_finish_failed(r, "the answer to '%s' is no object", r->method);
	else if (r->kind == MCPC_INITIALIZE)
		mcpc_initialize_answered(r, result);
	else if (!is_complete(r, result))
		return;
	else if (r->kind == MCPC_LIST)
		mcpc_list_page(r, result, now_us);
	else if (r->kind == MCPC_CALL)
		called(r, result);
	else if (mcpc_keep(r, result, &r->result))
		mcpc_finish(r, MCPC_DONE);
}

/* --- asking --------------------------------------------------------------------------------------- */

void mcpc_list(struct mcpc *c, struct mcpc_request *r, uint64_t now_us)
{
	(void)now_us;
	if (mcpc_begin(c, r, MCPC_LIST, "tools/list"))
		mcpc_send_request(r);
}

void mcpc_ask(struct mcpc *c, struct mcpc_request *r, const char *method, const char *members,
	      size_t n, const char *named, uint64_t now_us)
{
	(void)now_us;
	if (!mcpc_begin(c, r, MCPC_OTHER, method))
		return;
	r->members = mcpc_copy(members, n);
	r->named = named != NULL ? strdup(named) : NULL;
	if (r->members == NULL || (named != NULL && r->named == NULL))
		mcpc_finish_failed(r, "no memory");
	else
		mcpc_send_request(r);
}

void mcpc_call(struct mcpc *c, struct mcpc_request *r, const char *name, struct json_text arguments,
	       const struct mcpc_tool *tool, uint64_t now_us)
{
	struct json j;

	(void)now_us;
	if (!mcpc_begin(c, r, MCPC_CALL, "tools/call"))
		return;
	json_init(&j);
	json_str(&j, "name", name);
	if (json_text_kind(arguments) == '{')
		json_text_put(arguments, &j, "arguments");
	else
		json_raw(&j, ",\"arguments\":{}", 15);
	r->named = strdup(name);
	r->tool = tool;
	if (j.failed)
		json_done(&j);
	r->members = j.buf;
	if (r->members == NULL || r->named == NULL)
		mcpc_finish_failed(r, "no memory");
	else
		mcpc_send_request(r);
}

/* Nobody waits for it any more: the server hears of it. */
static void leave(struct mcpc_request *r, const char *reason)
{
	struct mcpc *c = r->c;
	struct json j;

	if (r->id == 0)
		return;
	if (!is_connecting(r) && (c->era == MCPC_ERA_LEGACY || !c->way->http)) {
		json_init(&j);
		json_u64(&j, "requestId", r->id);
		json_str(&j, "reason", reason);
		if (!j.failed)
			mcpc_send_notification(c, "notifications/cancelled", j.buf, false);
		json_done(&j);
	}
	if (c->way->drop != NULL)
		c->way->drop(c->way, r->id);
}

void mcpc_cancel(struct mcpc_request *r, const char *reason, uint64_t now_us)
{
	(void)now_us;
	if (r->outcome != MCPC_PENDING)
		return;
	leave(r, reason);
	(void)snprintf(r->error, sizeof(r->error), "%s", reason);
	mcpc_finish(r, MCPC_CANCELLED);
}

/* --- failures and time ---------------------------------------------------------------------------- */

void mcpc_fail(struct mcpc *c, uint64_t id, bool final, uint64_t now_us, const char *fmt, ...)
{
	struct mcpc_request *r = find(c, id);
	char text[MCPC_ERROR];
	va_list ap;

	(void)now_us;
	if (r == NULL)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (!final && (r->kind == MCPC_PROBE || r->kind == MCPC_PROBE_AGAIN))
		mcpc_fall_back(r);
	else
		mcpc_finish_failed(r, "%s", text);
}

void mcpc_lost(struct mcpc *c, const char *fmt, ...)
{
	va_list ap;

	if (c->broken[0] == '\0') {
		va_start(ap, fmt);
		(void)vsnprintf(c->broken, sizeof(c->broken), fmt, ap);
		va_end(ap);
	}
	while (c->requests != NULL)
		mcpc_finish_failed(c->requests, "%s", c->broken);
}

uint64_t mcpc_deadline(const struct mcpc *c)
{
	uint64_t first = UINT64_MAX;

	for (const struct mcpc_request *r = c->requests; r != NULL; r = r->next) {
		uint64_t own = r->deadline_us < r->probe_us ? r->deadline_us : r->probe_us;

		first = own < first ? own : first;
	}
	return first;
}

/* One that is late. false: there is none. */
static bool tick_one(struct mcpc *c, uint64_t now_us)
{
	for (struct mcpc_request *r = c->requests; r != NULL; r = r->next) {
		if (now_us >= r->deadline_us) {
			leave(r, "no answer in time");
			mcpc_finish_failed(r, "no answer to '%s' in time", r->method);
			return true;
		}
		if (now_us >= r->probe_us) {
			mcpc_fall_back(r);
			return true;
		}
	}
	return false;
}

void mcpc_tick(struct mcpc *c, uint64_t now_us)
{
	while (tick_one(c, now_us))
		;
}
