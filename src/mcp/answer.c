// SPDX-License-Identifier: Apache-2.0
/* What a client is told: results, errors, progress, logs. */
#include "mcp/impl.h"

#include "base/own.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERROR_TEXT = 512, KEEP_MS = 60000 };

/* --- messages --------------------------------------------------------------------------------- */

void put_json(struct json *j, const char *key, const char *text)
{
	json_value(j, key);
	json_raw(j, text, strlen(text));
	j->comma = true;
}

static void message_begin(struct json *j, const char *id)
{
	json_init(j);
	json_open(j, NULL, '{');
	json_str(j, "jsonrpc", "2.0");
	if (id != NULL)
		put_json(j, "id", id);
}

void notification_begin(struct json *j, const char *method)
{
	message_begin(j, NULL);
	json_str(j, "method", method);
	json_open(j, "params", '{');
}

void notification_end(struct json *j)
{
	json_close(j, '}');
	json_close(j, '}');
}

bool link_send(struct mcp_link *l, struct json *j, bool droppable)
{
	bool ok = l != NULL && !j->failed && l->send(l, j->buf, j->len, droppable);

	json_done(j);
	return ok;
}

/* The last message of a link; its call is gone then. */
static void link_end(struct mcp_link *l, int status, struct json *j)
{
	static const char none[] = "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32603,"
				   "\"message\":\"out of memory\"}}";

	if (l->call != NULL)
		call_free(l->call);
	if (j->failed)
		l->end(l, 503, none, sizeof(none) - 1);
	else
		l->end(l, status, j->buf, j->len);
	json_done(j);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void error_text(struct json *j, const char *id, enum mcp_code code, const char *data,
		       const char *text)
{
	message_begin(j, id);
	json_open(j, "error", '{');
	json_i64(j, "code", code);
	json_str(j, "message", text);
	if (data != NULL)
		put_json(j, "data", data);
	json_close(j, '}');
	json_close(j, '}');
}

void link_refuse(struct mcp_link *l, int status, const char *id, enum mcp_code code,
		 const char *data, const char *fmt, ...)
{
	char text[ERROR_TEXT];
	struct json j;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	error_text(&j, id, code, data, text);
	link_end(l, status, &j);
}

/* Only the modern era knows statuses for what is wrong with a request; what a function finds has none. */
static int status_of(const struct mcp_call *c, enum mcp_code code)
{
	if (!c->modern)
		return 200;
	if (code == MCP_NO_METHOD)
		return 404;
	if (code == MCP_HEADER_MISMATCH || code == MCP_NO_CAPABILITY || code == MCP_NO_VERSION)
		return 400;
	return code == MCP_INVALID_PARAMS && c->method == NULL ? 400 : 200;
}

void mcp_error(struct mcp_call *c, enum mcp_code code, const char *data, const char *fmt, ...)
{
	char text[ERROR_TEXT];
	struct json j;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	error_text(&j, c->id, code, data, text);
	link_end(c->link, status_of(c, code), &j);
}

void mcp_no_resource(struct mcp_call *c)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "uri", c->uri);
	json_close(&j, '}');
	json_raw(&j, "", 1);
	mcp_error(c, c->modern ? MCP_INVALID_PARAMS : MCP_NO_RESOURCE, j.failed ? NULL : j.buf,
		  "there is no such resource");
	json_done(&j);
}

/* --- results ---------------------------------------------------------------------------------- */

void put_server_info(const struct mcp_table *t, struct json *j, const char *key, bool title)
{
	json_open(j, key, '{');
	json_str(j, "name", t->name);
	if (title && t->title != NULL)
		json_str(j, "title", t->title);
	json_str(j, "version", t->version);
	json_close(j, '}');
}

void mcp_result_begin(struct mcp_call *c, struct json *j)
{
	message_begin(j, c->id);
	json_open(j, "result", '{');
	if (!c->modern)
		return;
	json_str(j, "resultType", c->nwanted > 0 && !c->inside ? "input_required" : "complete");
	if (c->method->keep) {
		json_u64(j, "ttlMs", strcmp(c->method->name, "resources/read") == 0 ? 0 : KEEP_MS);
		json_str(j, "cacheScope", "private");
	}
}

void mcp_result_end(struct mcp_call *c, struct json *j)
{
	if (c->modern) {
		json_open(j, "_meta", '{');
		put_server_info(c->s->table, j, META_PREFIX "serverInfo", true);
		json_close(j, '}');
	}
	json_close(j, '}');
	json_close(j, '}');
	link_end(c->link, 200, j);
}

void answer_nothing(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	mcp_result_end(c, &j);
}

void mcp_text(struct mcp_call *c, bool is_error, const char *p, size_t n)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "content", '[');
	json_open(&j, NULL, '{');
	json_str(&j, "type", "text");
	json_bytes(&j, "text", p, n);
	json_close(&j, '}');
	json_close(&j, ']');
	if (is_error)
		json_bool(&j, "isError", true);
	mcp_result_end(c, &j);
}

void mcp_textf(struct mcp_call *c, bool is_error, const char *fmt, ...)
{
	char text[ERROR_TEXT * 2];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mcp_text(c, is_error, text, strlen(text));
}

/* --- on the way ------------------------------------------------------------------------------- */

void mcp_progress(struct mcp_call *c, uint64_t done, uint64_t total, const char *text)
{
	struct json j;

	if (c->progress == NULL ||
	    (c->progress->type != JSONR_STRING && c->progress->type != JSONR_INT))
		return;
	notification_begin(&j, "notifications/progress");
	jsonr_write(&c->doc, c->progress, &j, "progressToken");
	json_milli(&j, "progress", done);
	if (total > 0)
		json_milli(&j, "total", total);
	/* The first version did not know it. */
	if (text != NULL && (c->modern || strcmp(c->session->version, "2024-11-05") != 0))
		json_str(&j, "message", text);
	notification_end(&j);
	(void)link_send(c->link, &j, true);
}

static const char *const levels[] = { "debug", "info",     "notice", "warning",
				      "error", "critical", "alert",  "emergency" };

enum mcp_level level_named(const char *name)
{
	unsigned int i = 0;

	while (i < ARRAY_LEN(levels) && strcmp(levels[i], name) != 0)
		i++;
	return (enum mcp_level)i;
}

void mcp_log(struct mcp_call *c, enum mcp_level level, const char *logger, const char *data)
{
	struct json j;

	if (level < c->level)
		return;
	notification_begin(&j, "notifications/message");
	json_str(&j, "level", levels[level]);
	if (logger != NULL)
		json_str(&j, "logger", logger);
	put_json(&j, "data", data);
	notification_end(&j);
	(void)link_send(c->link, &j, true);
}

/* --- capabilities ----------------------------------------------------------------------------- */

static void put_capability(struct json *j, const char *name, bool changes, bool subscribe)
{
	json_open(j, name, '{');
	if (changes)
		json_bool(j, "listChanged", true);
	if (subscribe)
		json_bool(j, "subscribe", true);
	json_close(j, '}');
}

void put_capabilities(const struct mcp_call *c, struct json *j)
{
	const struct mcp_table *t = c->s->table;

	json_open(j, "capabilities", '{');
	if (t->ntools > 0)
		put_capability(j, "tools", t->tools_change, false);
	if (t->nprompts > 0)
		put_capability(j, "prompts", t->prompts_change, false);
	if (t->read != NULL)
		put_capability(j, "resources", t->resources_change, t->subscribe != NULL);
	if (t->complete != NULL)
		put_capability(j, "completions", false, false);
	put_capability(j, "logging", false, false);
	json_close(j, '}');
}
