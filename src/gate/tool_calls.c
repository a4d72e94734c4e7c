// SPDX-License-Identifier: Apache-2.0
/*
 * Calls of tools by HTTP over a box's own socket: as our runtime has them (POST /call), and as ipybox's (POST /run, /approve). Whose call it is
 * need not be said, and cannot be said wrongly.
 */
#include "gate/tool_calls.h"

#include "base/own.h"
#include "gate/ports.h"
#include "gate/tool_approvals.h"
#include "gate/tool_link.h"
#include "gate/tool_rules.h"
#include "gate/tool_runs.h"
#include "wire/json_text.h"

#include <string.h>

/* clang-format off */
static const struct {
	int status;
	const char *type;
} outcomes[TOOL_OUTCOME_MAX] = {
	[TOOL_DONE] = { 200, "done" },
	[TOOL_REFUSED] = { 502, "refused" },
	[TOOL_FAILED] = { 502, "failed" },
	[TOOL_TIMED_OUT] = { 504, "timeout" },
	[TOOL_UNKNOWN] = { 404, "unknown" },
	[TOOL_BUSY] = { 429, "busy" },
};
/* clang-format on */

/* --- the call itself ------------------------------------------------------------------------------------- */

static void on_result(void *arg, enum tool_outcome how, uint64_t code, const char *text, size_t n)
{
	struct tool_run *t = arg;

	if (how == TOOL_DONE)
		tool_run_done(t, text, n);
	else
		tool_run_failed(t, outcomes[how].status, outcomes[how].type, code, text, n);
}

static void call(struct tool_run *t)
{
	static const char busy[] = "too much is asked at once", none[] = "there is no such server";
	struct gate *g = t->a->g;

	if (strlen(t->server) > TOOL_SERVER_MAX) { /* a URL, say */
		tool_run_failed(t, 404, "unknown", 0, none, sizeof(none) - 1);
		return;
	}
	t->under_way = tools_call(g, t->a->id, t->server, t->tool, t->arguments, t->narguments,
				  config_u64(&g->config, CONF_TOOL_TIMEOUT), on_result, t);
	if (t->under_way == NULL)
		tool_run_failed(t, 429, "busy", 0, busy, sizeof(busy) - 1);
}

static void stop(struct tool_run *t)
{
	tools_cancel(t->under_way);
}

/* --- answers: our own -------------------------------------------------------------------------------------- */

static void put_error(struct req *r, int status, const char *type, uint64_t code, const char *text,
		      size_t n)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_bytes(&j, "error", text, n);
	json_str(&j, "type", type);
	if (code != 0)
		json_i64(&j, "code", (int64_t)code);
	json_close(&j, '}');
	req_json(r, status, &j);
}

static void own_failed(struct tool_run *t, int status, const char *type, uint64_t code,
		       const char *text, size_t n)
{
	put_error(t->r, status, type, code, text, n);
}

static void own_done(struct tool_run *t, const char *text, size_t n)
{
	static const char bad[] = "the result is no JSON";
	struct json_text result;
	struct json j;

	if (json_text_read(text, n, &result) < 0) {
		t->shape->failed(t, 502, "failed", 0, bad, sizeof(bad) - 1);
		return;
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	json_text_put(result, &j, "result");
	json_close(&j, '}');
	req_json(t->r, 200, &j);
}

/* --- answers: as ipybox has them -------------------------------------------------------------------------- */

static void ipy_failed(struct tool_run *t, int status, const char *type, uint64_t code,
		       const char *text, size_t n)
{
	(void)status;
	put_error(t->r, 200, strcmp(type, "not_answered") == 0 ? "timeout" : type, code, text, n);
}

/* The texts of a result, if it has nothing else. */
static bool put_texts(struct json_text content, struct json *j, const char *key)
{
	struct json_walk w = json_walk(content);
	struct json_text none, one;
	bool first = true;

	while (json_walk_next(&w, &none, &one)) {
		struct json_member m = { .key = "type" };
		char type[16];

		json_text_find(one, &m, 1);
		if (!json_text_str(m.value, type, sizeof(type)) || strcmp(type, "text") != 0)
			return false;
	}
	json_value(j, key);
	json_raw(j, "\"", 1);
	w = json_walk(content);
	while (json_walk_next(&w, &none, &one)) {
		struct json_member m = { .key = "text" };

		json_text_find(one, &m, 1);
		if (!first)
			json_raw(j, "\\n", 2);
		first = false;
		if (json_text_kind(m.value) == '"')
			json_text_put_chars(m.value, j);
	}
	json_raw(j, "\"", 1);
	j->comma = true;
	return true;
}

/* The structured result, or the text, or the content. */
static void ipy_done(struct tool_run *t, const char *text, size_t n)
{
	struct json_member m[] = { { .key = "content" },
				   { .key = "structuredContent" },
				   { .key = "isError" } };
	const char *key = "result";
	struct json_text result;
	struct json j;

	if (json_text_read(text, n, &result) < 0) {
		ipy_failed(t, 502, "failed", 0, "the result is no JSON", 21);
		return;
	}
	json_text_find(result, m, ARRAY_LEN(m));
	if (json_text_kind(m[2].value) == 't' && m[2].value.p[0] == 't')
		key = "error";
	json_init(&j);
	json_open(&j, NULL, '{');
	if (key[0] == 'r' && json_text_kind(m[1].value) == '{')
		json_text_put(m[1].value, &j, key);
	else if (!put_texts(m[0].value, &j, key))
		json_text_put(m[0].value, &j, key);
	json_close(&j, '}');
	req_json(t->r, 200, &j);
}

static void put_approved(struct req *r, bool approved)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_bool(&j, "approved", approved);
	json_close(&j, '}');
	req_json(r, 200, &j);
}

static void approve_done(struct tool_run *t, const char *text, size_t n)
{
	(void)text;
	(void)n;
	put_approved(t->r, true);
}

static void approve_failed(struct tool_run *t, int status, const char *type, uint64_t code,
			   const char *text, size_t n)
{
	if (strcmp(type, "rejected") == 0)
		put_approved(t->r, false);
	else
		ipy_failed(t, status, type, code, text, n);
}

/* --- requests -------------------------------------------------------------------------------------------- */

struct names {
	const char *server, *tool, *arguments;
};

static const struct names own_names = { "server", "tool", "arguments" };
static const struct names ipy_names = { "server_name", "tool_name", "tool_args" };

/* Server, tool and arguments of a body. NULL, or what is wrong. */
static const char *take_names(struct tool_run *t, const struct names *names,
			      struct json_text *arguments)
{
	struct json_member m[] = { { .key = names->server },
				   { .key = names->tool },
				   { .key = names->arguments } };
	const struct req *r = t->r;
	struct json_text all;
	char kind;

	if (json_text_read(r->body != NULL ? r->body : "", r->body_len, &all) < 0 ||
	    json_text_kind(all) != '{')
		return "the body is no JSON object";
	json_text_find(all, m, ARRAY_LEN(m));
	if (!json_text_str(m[0].value, t->server, sizeof(t->server)))
		return "the name of the server is missing, or is none";
	if (!json_text_str(m[1].value, t->tool, sizeof(t->tool)) || t->tool[0] == '\0')
		return "the name of the tool is missing, or is none";
	*arguments = m[2].value;
	kind = json_text_kind(*arguments);
	return kind == '{' || kind == '\0' || kind == 'n' ? NULL : "the arguments are no object";
}

static void begin(struct req *r, const struct tool_shape *shape, const struct names *names)
{
	static const char many[] = "too many calls are under way";
	struct json_text arguments;
	struct tool_run *t;
	struct abox *a;
	const char *wrong;

	if (req_box(r, &a) < 0)
		return;
	t = tool_run_new(r, a, shape);
	if (t == NULL) {
		put_error(r, 429, "busy", 0, many, sizeof(many) - 1);
		return;
	}
	wrong = take_names(t, names, &arguments);
	if (wrong != NULL)
		tool_run_refused(t, 400, "invalid", wrong);
	else
		tool_run_go(t, arguments);
}

void tool_call(struct req *r)
{
	static const struct tool_shape own = { call, stop, own_done, own_failed, false };
	static const struct tool_shape ipybox = { call, stop, ipy_done, ipy_failed, false };
	bool is_own = strcmp(r->route->path, "/call") == 0;

	begin(r, is_own ? &own : &ipybox, is_own ? &own_names : &ipy_names);
}

void ipy_approve(struct req *r)
{
	static const struct tool_shape shape = { call, stop, approve_done, approve_failed, true };

	begin(r, &shape, &ipy_names);
}
