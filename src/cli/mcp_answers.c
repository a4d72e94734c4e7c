// SPDX-License-Identifier: Apache-2.0
/*
 * Messages for the client. Whatever the server sends is looked through and written anew: what is not one object of JSON does not get
 * out. Three kinds are also changed: the list of tools has ours at its end, an error without an id gets that of the request it
 * came for, and of an initialize the version is kept.
 */
#include "cli/mcp.h"

#include "base/own.h"
#include "cli/say.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- our own -------------------------------------------------------------------------------------- */

static void put_raw(struct json *j, const char *key, const char *text)
{
	json_value(j, key);
	json_raw(j, text, strlen(text));
	j->comma = true;
}

static void begin(struct json *j, const char *id)
{
	json_init(j);
	json_open(j, NULL, '{');
	json_str(j, "jsonrpc", "2.0");
	put_raw(j, "id", id[0] != '\0' ? id : "null");
}

/* A message that is written goes on its way. */
static void send_out(struct bridge *b, struct json *j)
{
	if (j->failed) {
		say("out of memory for an answer");
		b->out.broken = true; /* nobody is to wait for it for ever */
	} else {
		lines_out_put(&b->out, j->buf, j->len);
	}
	json_done(j);
}

void bridge_error(struct bridge *b, const char *id, int code, const char *fmt, ...)
{
	char text[ERR_TEXT + 64];
	struct json j;
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	begin(&j, id);
	json_open(&j, "error", '{');
	json_i64(&j, "code", code);
	json_str(&j, "message", text);
	json_close(&j, '}');
	json_close(&j, '}');
	send_out(b, &j);
}

void bridge_tool_result(struct bridge *b, struct pending *p, const char *text)
{
	struct json j;

	begin(&j, p->id);
	json_open(&j, "result", '{');
	if (p->modern)
		json_str(&j, "resultType", "complete");
	json_open(&j, "content", '[');
	if (text != NULL) {
		json_open(&j, NULL, '{');
		json_str(&j, "type", "text");
		json_str(&j, "text", text);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	if (text != NULL)
		json_bool(&j, "isError", true);
	json_close(&j, '}');
	json_close(&j, '}');
	p->answered = true;
	send_out(b, &j);
}

/* --- the list of tools ---------------------------------------------------------------------------- */

static const struct {
	const char *name, *definition;
} own_tools[] = {
	{ "upload_file",
	  "{\"name\":\"upload_file\",\"title\":\"Upload a file\",\"description\":\"Copy a file of "
	  "the user's machine into the sandbox. It must lie in a directory that the user has "
	  "allowed.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"relpath\":{\"type\":"
	  "\"string\",\"description\":\"Path in the sandbox, relative to its working "
	  "directory\"},\"local_path\":{\"type\":\"string\",\"description\":\"Absolute path of the "
	  "file on the user's machine\"}},\"required\":[\"relpath\",\"local_path\"]},"
	  "\"annotations\":{\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":"
	  "true,\"openWorldHint\":false}}" },
	{ "download_file",
	  "{\"name\":\"download_file\",\"title\":\"Download a file\",\"description\":\"Copy a file "
	  "of the sandbox to the user's machine, into a directory that the user has allowed. "
	  "Directories on the way are made.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{"
	  "\"relpath\":{\"type\":\"string\",\"description\":\"Path in the sandbox, relative to its "
	  "working directory\"},\"local_path\":{\"type\":\"string\",\"description\":\"Absolute "
	  "path that the copy gets on the user's "
	  "machine\"}},\"required\":[\"relpath\",\"local_path\"]},\"annotations\":{"
	  "\"readOnlyHint\":false,\"destructiveHint\":true,\"idempotentHint\":true,"
	  "\"openWorldHint\":false}}" },
};

bool bridge_is_own_tool(const char *name)
{
	for (unsigned int i = 0; i < ARRAY_LEN(own_tools); i++)
		if (strcmp(own_tools[i].name, name) == 0)
			return true;
	return false;
}

static bool is_own(struct json_text tool)
{
	struct json_member m = { .key = "name" };
	char name[64];

	json_text_find(tool, &m, 1);
	return json_text_str(m.value, name, sizeof(name)) && bridge_is_own_tool(name);
}

static void put_tools(struct bridge *b, struct json *j, struct json_text tools, bool last)
{
	struct json_walk w = json_walk(tools);
	struct json_text key, tool;

	json_open(j, NULL, '[');
	while (json_walk_next(&w, &key, &tool)) {
		if (is_own(tool))
			continue;
		json_text_put(tool, j, NULL);
		bridge_params_learn(b, tool);
	}
	for (unsigned int i = 0; i < ARRAY_LEN(own_tools) && last; i++)
		put_raw(j, NULL, own_tools[i].definition);
	json_close(j, ']');
}

/* The result of tools/list: to its last page belong ours. */
static void put_list(struct bridge *b, struct json *j, struct json_text result)
{
	struct json_member next = { .key = "nextCursor" };
	struct json_walk w = json_walk(result);
	struct json_text key, value;

	json_text_find(result, &next, 1);
	json_open(j, "result", '{');
	while (json_walk_next(&w, &key, &value)) {
		char name[8];

		json_text_put_key(key, j);
		if (json_text_str(key, name, sizeof(name)) && strcmp(name, "tools") == 0)
			put_tools(b, j, value, json_text_kind(next.value) != '"');
		else
			json_text_put(value, j, NULL);
	}
	json_close(j, '}');
}

/* --- the server's --------------------------------------------------------------------------------- */

enum { JSONRPC, ID, METHOD, RESULT, ERROR, MEMBERS };

static void take_version(struct bridge *b, struct json_text result)
{
	struct json_member m = { .key = "protocolVersion" };
	char version[BRIDGE_VERSION_MAX];

	json_text_find(result, &m, 1);
	if (json_text_str(m.value, version, sizeof(version)))
		bridge_session_begin(b, version);
}

static void put_answer(struct json *j, struct pending *p, struct json_text root,
		       const struct json_member *m)
{
	bool has_id = json_text_kind(m[ID].value) == '"' || json_text_kind(m[ID].value) == '0';
	bool is_result = json_text_kind(m[RESULT].value) == '{';

	if (p->is_initialize && is_result)
		take_version(p->b, m[RESULT].value);
	if (has_id && !(p->is_list && is_result)) {
		json_init(j);
		json_text_put(root, j, NULL);
		return;
	}
	begin(j, p->id);
	if (p->is_list && is_result)
		put_list(p->b, j, m[RESULT].value);
	else if (is_result)
		json_text_put(m[RESULT].value, j, "result");
	else
		json_text_put(m[ERROR].value, j, "error");
	json_close(j, '}');
}

static int refuse(struct pending *p, const char *what)
{
	if (p != NULL)
		p->trouble = what; /* who asked is told, if nothing better comes */
	say("the server sent %s", what);
	return 0;
}

int bridge_take_event(struct bridge *b, struct pending *p, const char *text, size_t n)
{
	struct json_member m[MEMBERS] = { { .key = "jsonrpc" },
					  { .key = "id" },
					  { .key = "method" },
					  { .key = "result" },
					  { .key = "error" } };
	struct json_text root;
	struct json j;

	if (n == 0)
		return 0;
	if (json_text_read(text, n, &root) < 0)
		return refuse(p, "something that is not JSON");
	json_text_find(root, m, MEMBERS);
	if (json_text_kind(m[JSONRPC].value) != '"') {
		/* Of a refusal that is not MCP's its status tells more. */
		return p != NULL && !p->streams ? 0 : refuse(p, "something that is no message");
	}
	if (json_text_kind(m[METHOD].value) != '\0') {
		json_init(&j);
		json_text_put(root, &j, NULL);
	} else if (p == NULL || p->answered || p->id[0] == '\0') {
		return refuse(p, "an answer that nobody waits for");
	} else {
		put_answer(&j, p, root, m);
		p->answered = true;
	}
	send_out(b, &j);
	return 0;
}

/* --- refusals of HTTP ----------------------------------------------------------------------------- */

void bridge_refusal(const struct exchange *x, const struct bytes *body, char *text, size_t size)
{
	struct json_member error = { .key = "error" };
	struct json_member m[] = { { .key = "message" }, { .key = "hint" } };
	char message[300] = "", hint[200] = "";
	struct json_text root;

	if (body->n > 0 && json_text_read(body->p, body->n, &root) == 0) {
		json_text_find(root, &error, 1);
		json_text_find(error.value, m, ARRAY_LEN(m));
		if (!json_text_str(m[0].value, message, sizeof(message)))
			message[0] = '\0';
		if (!json_text_str(m[1].value, hint, sizeof(hint)))
			hint[0] = '\0';
	}
	if (x->answer.status == 401)
		(void)snprintf(hint, sizeof(hint),
			       "give a token by --token-file FILE or GLOVEBOX_TOKEN");
	if (message[0] == '\0')
		(void)snprintf(text, size,
			       "the server answered with status %d and said nothing%s%s",
			       x->answer.status, hint[0] != '\0' ? ": " : "", hint);
	else
		(void)snprintf(text, size, "%s%s%s", message, hint[0] != '\0' ? "; " : "", hint);
}
