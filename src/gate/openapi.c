// SPDX-License-Identifier: Apache-2.0
/*
 * /openapi.json: the table of routes, the tables by which request bodies are checked, and the
 * tables here, which say what is answered. OpenAPI 3.1: its schemas are JSON Schema 2020-12.
 */
#include "gate/ci.h"
#include "gate/meta.h"

#include "base/own.h"
#include "config.gen.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 128 };

/* --- what is answered ------------------------------------------------------------------------ */

enum member_flags {
	MEMBER_LIST = 1u << 0,     /* a list of these */
	MEMBER_OPTIONAL = 1u << 1, /* not always there */
};

/* A member of an object. Rows of one schema stand together. */
struct member {
	const char *schema, *name;
	const char *type; /* JSON's types, or the name of a schema */
	unsigned int flags;
	const char *words; /* the only ones that there are, or NULL */
	const char *doc;
};

/* clang-format off */
static const struct member members[] = {
	{ "Health", "status", "string", 0, "ok error", "whether boxes can be made" },
	{ "Health", "message", "string null", 0, NULL, "why not" },
	{ "Health", "version", "string", 0, NULL, "level of the Code Interpreter dialect" },
	{ "Health", "executor_backend", "string", 0, NULL, "how boxes are made" },
	{ "Health", "network_isolation", "string", 0, NULL, "what a box has of a network" },
	{ "Health", "glovebox_version", "string", 0, NULL, "version of this program" },
	{ "Health", "no_auth", "boolean", MEMBER_OPTIONAL, NULL, "there, and true, when everybody may ask" },
	{ "Health", "missing_layers", "string", MEMBER_LIST, NULL, "isolation that this machine cannot give" },
	{ "Health", "warm", "string", MEMBER_LIST, NULL, "images that programs are started from" },

	{ "WorkspaceFile", "path", "string", 0, NULL, "where in the workspace" },
	{ "WorkspaceFile", "kind", "string", 0, "file directory", "what it is" },
	{ "WorkspaceFile", "file_id", "string null", 0, NULL, "under which the store has it" },

	{ "ExecuteResponse", "stdout", "string", 0, NULL, "what the program wrote" },
	{ "ExecuteResponse", "stderr", "string", 0, NULL, "what it wrote of errors" },
	{ "ExecuteResponse", "exit_code", "integer null", 0, NULL, "128 and the signal where one ended it; null when time was up" },
	{ "ExecuteResponse", "timed_out", "boolean", 0, NULL, "whether time was up" },
	{ "ExecuteResponse", "duration_ms", "integer", 0, NULL, "from the request to the end, files included" },
	{ "ExecuteResponse", "files", "WorkspaceFile", MEMBER_LIST, NULL, "new ones and changed ones" },

	{ "OutputEvent", "stream", "string", 0, "stdout stderr", "on which it was written" },
	{ "OutputEvent", "data", "string", 0, NULL, "what was written, in whole characters" },
	{ "ResultEvent", "exit_code", "integer null", 0, NULL, "128 and the signal where one ended it; null when time was up" },
	{ "ResultEvent", "timed_out", "boolean", 0, NULL, "whether time was up" },
	{ "ResultEvent", "duration_ms", "integer", 0, NULL, "from the request to the end, files included" },
	{ "ResultEvent", "files", "WorkspaceFile", MEMBER_LIST, NULL, "new ones and changed ones" },
	{ "ErrorEvent", "message", "string", 0, NULL, "why there will be no result" },
	{ "GapEvent", "from", "integer", 0, NULL, "number of the first event that is held no longer" },
	{ "GapEvent", "to", "integer", 0, NULL, "number of the last one" },

	{ "UploadResponse", "file_id", "string", 0, NULL, "under which the store has it" },
	{ "UploadResponse", "filename", "string", 0, NULL, "as the client named it" },
	{ "UploadResponse", "size_bytes", "integer", 0, NULL, "how large it is" },

	{ "StoredFile", "file_id", "string", 0, NULL, "under which the store has it" },
	{ "StoredFile", "filename", "string", 0, NULL, "as it was named" },
	{ "StoredFile", "size_bytes", "integer", 0, NULL, "how large it is" },
	{ "StoredFile", "upload_time", "number", 0, NULL, "when it came, in seconds since 1970" },
	{ "FileList", "files", "StoredFile", MEMBER_LIST, NULL, "in no particular order" },

	{ "SessionResponse", "session_id", "string", 0, NULL, "for the other calls" },
	{ "SessionResponse", "expires_at", "number", 0, NULL, "when it ends by itself, in seconds since 1970" },

	{ "BashResponse", "stdout", "string", 0, NULL, "what the command wrote" },
	{ "BashResponse", "stderr", "string", 0, NULL, "what it wrote of errors" },
	{ "BashResponse", "exit_code", "integer null", 0, NULL, "128 and the signal where one ended it; null when time was up" },
	{ "BashResponse", "timed_out", "boolean", 0, NULL, "whether time was up" },
	{ "BashResponse", "duration_ms", "integer", 0, NULL, "how long it took" },

	{ "DetailError", "detail", "string", 0, NULL, "what is wrong" },
	{ "ValidationProblem", "type", "string", 0, NULL, "what kind of problem" },
	{ "ValidationProblem", "loc", "string integer", MEMBER_LIST, NULL, "the way to what is wrong: \"body\", keys, indices" },
	{ "ValidationProblem", "msg", "string", 0, NULL, "what is wrong with it" },
	{ "ValidationProblem", "input", "", 0, NULL, "what was sent there" },
	{ "ValidationProblem", "ctx", "object", MEMBER_OPTIONAL, NULL, "the bound that it broke, and the like" },
	{ "ValidationError", "detail", "ValidationProblem", MEMBER_LIST, NULL, "at least one" },

	{ "ErrorBody", "code", "string", 0, NULL, "for programs" },
	{ "ErrorBody", "message", "string", 0, NULL, "for people" },
	{ "ErrorBody", "field", "string null", 0, NULL, "the part of the request that it is about" },
	{ "ErrorBody", "hint", "string null", 0, NULL, "what to do" },
	{ "ErrorBody", "request_id", "string", 0, NULL, "as in X-Request-Id and in the log" },
	{ "Error", "error", "ErrorBody", 0, NULL, "what is wrong" },
};

/* Answers that are no JSON. */
static const struct {
	const char *answer, *media;
} plain[] = {
	{ "events", "text/event-stream" },
	{ "bytes", "application/octet-stream" },
	{ "text", "text/plain" },
};

static const struct {
	const char *event, *schema;
} events[] = {
	{ "output", "OutputEvent" },
	{ "result", "ResultEvent" },
	{ "error", "ErrorEvent" },
	{ "gap", "GapEvent" },
};

/* What a route is like: decides in which ways it can refuse. */
enum trait {
	TRAIT_ANY = 1u << 0,
	TRAIT_GUARDED = 1u << 1, /* looks at token, Host and Origin */
	TRAIT_BODY = 1u << 2,
	TRAIT_NAMES = 1u << 3, /* path or body holds the id of something */
	TRAIT_RUNS = 1u << 4,
	TRAIT_EVENTS = 1u << 5,
	TRAIT_HEALTH = 1u << 6, /* says why in its own words */
};

static const struct refusal {
	int status;
	unsigned int traits; /* one of these */
	bool later;          /* says when to try again; nothing was run */
	const char *doc;
} refusals[] = {
	{ 400, TRAIT_BODY, false, "the body cannot be read at all" },
	{ 401, TRAIT_GUARDED, false, "a token is needed, or this one is not known" },
	{ 403, TRAIT_GUARDED, false, "a page of another origin asks, or a proxy without a token" },
	{ 404, TRAIT_NAMES, false, "nothing of yours has this id" },
	{ 409, TRAIT_EVENTS, false, "the Idempotency-Key was used with another body" },
	{ 410, TRAIT_EVENTS, false, "a run to go on with (Last-Event-ID) is not held any more" },
	{ 413, TRAIT_BODY, false, "the body, or the file in it, is too large" },
	{ 415, TRAIT_BODY, false, "the body is of another type" },
	{ 421, TRAIT_GUARDED, false, "the Host is not one of this server's" },
	{ 422, TRAIT_BODY, false, "a value is missing or cannot be taken" },
	{ 429, TRAIT_RUNS, true, "as many programs as may are running" },
	{ 500, TRAIT_RUNS, false, "the box was lost" },
	{ 503, TRAIT_ANY, true, "there is no room, or a part of the server is not there" },
};

/* What stands in a path, or in a header of a route that answers with events. */
static const struct {
	const char *name, *in, *doc;
} params[] = {
	{ "file_id", "path", "as the upload or the run that made the file said" },
	{ "session_id", "path", "as its creation said" },
	{ "Idempotency-Key", "header", "a run with a key outlives its connection for a while; the same request goes on with it" },
	{ "Last-Event-ID", "header", "the id of the last event that was seen: go on behind it" },
};

/* A body to begin with. */
static const struct {
	const char *schema, *name, *text;
} examples[] = {
	{ "ExecuteRequest", "code", "print(6 * 7)" },
	{ "BashRequest", "cmd", "python3 --version" },
};
/* clang-format on */

/* --- schemas --------------------------------------------------------------------------------- */

static void write_ref(struct json *j, const char *schema)
{
	char ref[NAME_MAX_LEN];

	(void)snprintf(ref, sizeof(ref), "#/components/schemas/%s", schema);
	json_str(j, "$ref", ref);
}

/* Each word of a text. */
static void write_words(struct json *j, const char *words)
{
	while (*words != '\0') {
		size_t n = strcspn(words, " ");

		json_bytes(j, NULL, words, n);
		words += n;
		words += *words == ' ';
	}
}

static void write_type(struct json *j, const char *type)
{
	if (*type == '\0')
		return; /* anything */
	if (isupper((unsigned char)*type)) {
		write_ref(j, type);
	} else if (strchr(type, ' ') == NULL) {
		json_str(j, "type", type);
	} else {
		json_open(j, "type", '[');
		write_words(j, type);
		json_close(j, ']');
	}
}

static void write_member(struct json *j, const struct member *m)
{
	json_open(j, m->name, '{');
	if ((m->flags & MEMBER_LIST) != 0) {
		json_str(j, "type", "array");
		json_open(j, "items", '{');
		write_type(j, m->type);
		json_close(j, '}');
	} else {
		write_type(j, m->type);
	}
	if (m->words != NULL) {
		json_open(j, "enum", '[');
		write_words(j, m->words);
		json_close(j, ']');
	}
	json_str(j, "description", m->doc);
	json_close(j, '}');
}

/* The schema whose rows begin here; returns how many they are. */
static size_t write_schema(struct json *j, const struct member *first, size_t max)
{
	size_t n = 0;

	while (n < max && strcmp(first[n].schema, first->schema) == 0)
		n++;
	json_open(j, first->schema, '{');
	json_str(j, "type", "object");
	json_open(j, "properties", '{');
	for (size_t i = 0; i < n; i++)
		write_member(j, &first[i]);
	json_close(j, '}');
	json_open(j, "required", '[');
	for (size_t i = 0; i < n; i++)
		if ((first[i].flags & MEMBER_OPTIONAL) == 0)
			json_str(j, NULL, first[i].name);
	json_close(j, ']');
	json_close(j, '}');
	return n;
}

/* The form of an upload. */
static void write_upload(struct json *j)
{
	json_open(j, "UploadRequest", '{');
	json_str(j, "type", "object");
	json_open(j, "properties", '{');
	json_open(j, "file", '{');
	json_str(j, "type", "string");
	json_str(j, "format", "binary");
	json_str(j, "contentMediaType", "application/octet-stream");
	json_str(j, "description", "the file, with its name");
	json_close(j, '}');
	json_close(j, '}');
	json_open(j, "required", '[');
	json_str(j, NULL, "file");
	json_close(j, ']');
	json_close(j, '}');
}

static bool is_told(const struct route *r)
{
	return (r->flags & ROUTE_HIDDEN) == 0;
}

/* Whether a route before this one has the same body. */
static bool is_known(unsigned int at)
{
	for (unsigned int i = 0; i < at; i++)
		if (is_told(&routes[i]) && routes[i].in == routes[at].in)
			return true;
	return false;
}

static void write_schemas(struct json *j)
{
	json_open(j, "schemas", '{');
	for (unsigned int i = 0; i < nroutes; i++)
		if (is_told(&routes[i]) && routes[i].in != NULL && !is_known(i))
			fields_schema(routes[i].in, j, routes[i].in->name);
	write_upload(j);
	for (size_t i = 0; i < ARRAY_LEN(members);)
		i += write_schema(j, &members[i], ARRAY_LEN(members) - i);
	json_close(j, '}');
}

/* --- operations ------------------------------------------------------------------------------ */

static bool has_id(const struct fields *table)
{
	for (size_t i = 0; table != NULL && i < table->n; i++)
		if (strcmp(table->rows[i].name, "file_id") == 0 || has_id(table->rows[i].sub))
			return true;
	return false;
}

static bool answers(const struct route *r, const char *what)
{
	return r->answer != NULL && strcmp(r->answer, what) == 0;
}

static unsigned int traits_of(const struct route *r)
{
	unsigned int t = TRAIT_ANY;

	if ((r->flags & ROUTE_OPEN) == 0)
		t |= TRAIT_GUARDED;
	if (r->body != BODY_NONE)
		t |= TRAIT_BODY;
	if (strchr(r->path, '{') != NULL || has_id(r->in))
		t |= TRAIT_NAMES;
	if (r->in != NULL)
		t |= TRAIT_RUNS;
	if (answers(r, "events"))
		t |= TRAIT_EVENTS;
	if (answers(r, "Health"))
		t |= TRAIT_HEALTH;
	return t;
}

/* "post_v1_sessions_session_id_bash" */
static void make_id(const struct route *r, char id[NAME_MAX_LEN])
{
	size_t n = 0;

	for (const char *p = r->method; *p != '\0' && n < NAME_MAX_LEN - 1; p++)
		id[n++] = (char)tolower((unsigned char)*p);
	for (const char *p = r->path; *p != '\0' && n < NAME_MAX_LEN - 1; p++)
		if (*p != '{' && *p != '}')
			id[n++] = isalnum((unsigned char)*p) ? *p : '_';
	id[n] = '\0';
}

/* The group of a route: "files" of /v1/files/{file_id}. */
static struct http_slice tag_of(const struct route *r)
{
	static const char server[] = "server";

	if (strncmp(r->path, "/v1/", 4) != 0)
		return (struct http_slice){ server, sizeof(server) - 1 };
	return (struct http_slice){ r->path + 4, strcspn(r->path + 4, "/") };
}

static void write_param(struct json *j, const char *in, const char *name, size_t n)
{
	json_open(j, NULL, '{');
	json_bytes(j, "name", name, n);
	json_str(j, "in", in);
	json_bool(j, "required", strcmp(in, "path") == 0);
	for (unsigned int i = 0; i < ARRAY_LEN(params); i++)
		if (strlen(params[i].name) == n && memcmp(params[i].name, name, n) == 0)
			json_str(j, "description", params[i].doc);
	json_open(j, "schema", '{');
	json_str(j, "type", "string");
	json_close(j, '}');
	json_close(j, '}');
}

static void write_params(struct json *j, const struct route *r)
{
	json_open(j, "parameters", '[');
	for (const char *p = strchr(r->path, '{'); p != NULL; p = strchr(p + 1, '{'))
		write_param(j, "path", p + 1, strcspn(p + 1, "}"));
	for (unsigned int i = 0; answers(r, "events") && i < ARRAY_LEN(params); i++)
		if (strcmp(params[i].in, "header") == 0)
			write_param(j, "header", params[i].name, strlen(params[i].name));
	json_close(j, ']');
}

static void write_example(struct json *j, const char *schema)
{
	for (unsigned int i = 0; i < ARRAY_LEN(examples); i++)
		if (strcmp(examples[i].schema, schema) == 0) {
			json_open(j, "example", '{');
			json_str(j, examples[i].name, examples[i].text);
			json_close(j, '}');
		}
}

static void write_body(struct json *j, const struct route *r)
{
	const char *schema = r->in != NULL ? r->in->name : "UploadRequest";

	json_open(j, "requestBody", '{');
	json_bool(j, "required", true);
	json_open(j, "content", '{');
	json_open(j, r->in != NULL ? "application/json" : "multipart/form-data", '{');
	json_open(j, "schema", '{');
	write_ref(j, schema);
	json_close(j, '}');
	write_example(j, schema);
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}

/* What the data of each event is; nothing in OpenAPI says that. */
static void write_events(struct json *j)
{
	json_open(j, "x-events", '{');
	for (unsigned int i = 0; i < ARRAY_LEN(events); i++) {
		json_open(j, events[i].event, '{');
		write_ref(j, events[i].schema);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void write_content(struct json *j, const char *answer)
{
	const char *media = "application/json";
	bool json = true;

	for (unsigned int i = 0; i < ARRAY_LEN(plain); i++)
		if (strcmp(plain[i].answer, answer) == 0) {
			media = plain[i].media;
			json = false;
		}
	json_open(j, "content", '{');
	json_open(j, media, '{');
	if (strcmp(answer, "bytes") != 0) { /* those have no schema */
		json_open(j, "schema", '{');
		write_type(j, json ? answer : "string");
		json_close(j, '}');
	}
	if (strcmp(answer, "events") == 0)
		write_events(j);
	json_close(j, '}');
	json_close(j, '}');
}

static void open_response(struct json *j, int status, const char *doc)
{
	char key[12];

	(void)snprintf(key, sizeof(key), "%d", status);
	json_open(j, key, '{');
	json_str(j, "description", doc);
}

/* Of 422: one text, or a list of problems. */
static void write_either(struct json *j)
{
	json_open(j, "content", '{');
	json_open(j, "application/json", '{');
	json_open(j, "schema", '{');
	json_open(j, "anyOf", '[');
	json_open(j, NULL, '{');
	write_ref(j, "ValidationError");
	json_close(j, '}');
	json_open(j, NULL, '{');
	write_ref(j, "DetailError");
	json_close(j, '}');
	json_close(j, ']');
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}

static void write_later(struct json *j)
{
	json_open(j, "headers", '{');
	json_open(j, "Retry-After", '{');
	json_str(j, "description", "seconds after which to try again");
	json_open(j, "schema", '{');
	json_str(j, "type", "integer");
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}

static void write_refusal(struct json *j, const struct route *r, const struct refusal *f)
{
	bool health = f->status == 503 && (traits_of(r) & TRAIT_HEALTH) != 0;

	open_response(j, f->status, health ? "boxes cannot be made" : f->doc);
	if (f->later && !health)
		write_later(j);
	if (health)
		write_content(j, "Health");
	else if (r->shape != SHAPE_DETAIL)
		write_content(j, "Error");
	else if (f->status == 422)
		write_either(j);
	else
		write_content(j, "DetailError");
	json_close(j, '}');
}

static void write_responses(struct json *j, const struct route *r)
{
	json_open(j, "responses", '{');
	open_response(j, r->status, r->status == 204 ? "done" : r->doc);
	if (r->answer != NULL)
		write_content(j, r->answer);
	json_close(j, '}');
	for (unsigned int i = 0; i < ARRAY_LEN(refusals); i++)
		if ((refusals[i].traits & traits_of(r)) != 0)
			write_refusal(j, r, &refusals[i]);
	json_close(j, '}');
}

static void write_operation(struct json *j, const struct route *r)
{
	struct http_slice tag = tag_of(r);
	char method[16] = "", id[NAME_MAX_LEN];

	for (size_t i = 0; i < sizeof(method) - 1 && r->method[i] != '\0'; i++)
		method[i] = (char)tolower((unsigned char)r->method[i]);
	make_id(r, id);
	json_open(j, method, '{');
	json_str(j, "operationId", id);
	json_str(j, "summary", r->doc);
	json_open(j, "tags", '[');
	json_bytes(j, NULL, tag.p, tag.n);
	json_close(j, ']');
	if ((r->flags & ROUTE_OPEN) != 0) {
		json_open(j, "security", '[');
		json_close(j, ']');
	}
	if (strchr(r->path, '{') != NULL || answers(r, "events"))
		write_params(j, r);
	if (r->body != BODY_NONE)
		write_body(j, r);
	write_responses(j, r);
	json_close(j, '}');
}

/* --- the document ---------------------------------------------------------------------------- */

/* Whether a route before this one has the same path. */
static bool is_begun(unsigned int at)
{
	for (unsigned int i = 0; i < at; i++)
		if (is_told(&routes[i]) && strcmp(routes[i].path, routes[at].path) == 0)
			return true;
	return false;
}

static void write_paths(struct json *j)
{
	json_open(j, "paths", '{');
	for (unsigned int i = 0; i < nroutes; i++) {
		if (!is_told(&routes[i]) || is_begun(i))
			continue;
		json_open(j, routes[i].path, '{');
		for (unsigned int k = i; k < nroutes; k++)
			if (is_told(&routes[k]) && strcmp(routes[k].path, routes[i].path) == 0)
				write_operation(j, &routes[k]);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void write_info(struct json *j)
{
	json_open(j, "info", '{');
	json_str(j, "title", "Glovebox");
	json_str(j, "version", GLOVEBOX_VERSION);
	json_str(j, "description", "runs untrusted code, each program in a sealed box of its own");
	json_open(j, "license", '{');
	json_str(j, "name", "Apache-2.0");
	json_str(j, "identifier", "Apache-2.0");
	json_close(j, '}');
	json_close(j, '}');
}

static void write_scheme(struct json *j, const char *name, const char *scheme, const char *doc)
{
	json_open(j, name, '{');
	json_str(j, "type", scheme != NULL ? "http" : "apiKey");
	if (scheme != NULL) {
		json_str(j, "scheme", scheme);
	} else {
		json_str(j, "in", "header");
		json_str(j, "name", "X-API-KEY");
	}
	json_str(j, "description", doc);
	json_close(j, '}');
}

/* None is needed where no token is configured, so none is one of the ways. */
static void write_security(struct json *j)
{
	static const char *const ways[] = { NULL, "bearer", "basic", "key" };

	json_open(j, "security", '[');
	for (unsigned int i = 0; i < ARRAY_LEN(ways); i++) {
		json_open(j, NULL, '{');
		if (ways[i] != NULL) {
			json_open(j, ways[i], '[');
			json_close(j, ']');
		}
		json_close(j, '}');
	}
	json_close(j, ']');
}

void openapi_write(struct json *j)
{
	json_init(j);
	json_open(j, NULL, '{');
	json_str(j, "openapi", "3.1.0");
	write_info(j);
	write_security(j);
	write_paths(j);
	json_open(j, "components", '{');
	write_schemas(j);
	json_open(j, "securitySchemes", '{');
	write_scheme(j, "bearer", "bearer", "the token");
	write_scheme(j, "basic", "basic", "the token as password, with any name");
	write_scheme(j, "key", NULL, "the token");
	json_close(j, '}');
	json_close(j, '}');
	json_close(j, '}');
}
