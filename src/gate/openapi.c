// SPDX-License-Identifier: Apache-2.0
/*
 * /openapi.json: the table of routes, the tables by which request bodies are checked, and those of
 * openapi.h, which say what is answered. OpenAPI 3.1: its schemas are JSON Schema 2020-12.
 */
#include "gate/openapi.h"
#include "gate/ci.h"
#include "gate/meta.h"

#include "base/own.h"
#include "config.gen.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 128 };

/* --- schemas --------------------------------------------------------------------------------- */

static void write_ref_to(struct json *j, const char *schema, size_t n)
{
	char ref[NAME_MAX_LEN + 32];

	(void)snprintf(ref, sizeof(ref), "#/components/schemas/%.*s", (int)n, schema);
	json_str(j, "$ref", ref);
}

static void write_ref(struct json *j, const char *schema)
{
	write_ref_to(j, schema, strlen(schema));
}

/* One of these schemas, or null where a '?' is behind them. */
static void write_any_of(struct json *j, const char *schemas)
{
	json_open(j, "anyOf", '[');
	while (*schemas != '\0' && *schemas != '?') {
		size_t n = strcspn(schemas, " ?");

		json_open(j, NULL, '{');
		write_ref_to(j, schemas, n);
		json_close(j, '}');
		schemas += n;
		schemas += *schemas == ' ';
	}
	if (*schemas == '?') {
		json_open(j, NULL, '{');
		json_str(j, "type", "null");
		json_close(j, '}');
	}
	json_close(j, ']');
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
	if (isupper((unsigned char)*type) && strpbrk(type, " ?") != NULL) {
		write_any_of(j, type);
	} else if (isupper((unsigned char)*type)) {
		write_ref(j, type);
	} else if (strchr(type, ' ') == NULL) {
		json_str(j, "type", type);
	} else {
		json_open(j, "type", '[');
		write_words(j, type);
		json_close(j, ']');
	}
}

static void write_member(struct json *j, const struct api_member *m)
{
	bool list = (m->flags & MEMBER_LIST) != 0;

	json_open(j, m->name, '{');
	if ((m->flags & (MEMBER_LIST | MEMBER_MAP)) != 0) {
		json_str(j, "type", list ? "array" : "object");
		json_open(j, list ? "items" : "additionalProperties", '{');
		write_type(j, m->type);
		json_close(j, '}');
	} else {
		write_type(j, m->type);
	}
	if (m->words != NULL) {
		json_open(j, "enum", '[');
		write_words(j, m->words);
		if (strstr(m->type, "null") != NULL)
			json_null(j, NULL);
		json_close(j, ']');
	}
	json_str(j, "description", m->doc);
	json_close(j, '}');
}

/* An object of n members. What it is a second time, if that is not NULL, is beside them as `result`. */
static void write_object(struct json *j, const char *name, const struct api_member *rows, size_t n,
			 const char *again)
{
	const struct api_member result = {
		name, "result", again, 0, NULL, "the same once more, for older clients"
	};

	json_open(j, name, '{');
	json_str(j, "type", "object");
	json_open(j, "properties", '{');
	for (size_t i = 0; i < n; i++)
		write_member(j, &rows[i]);
	if (again != NULL)
		write_member(j, &result);
	json_close(j, '}');
	json_open(j, "required", '[');
	for (size_t i = 0; i < n; i++)
		if ((rows[i].flags & MEMBER_OPTIONAL) == 0)
			json_str(j, NULL, rows[i].name);
	if (again != NULL)
		json_str(j, NULL, result.name);
	json_close(j, ']');
	json_close(j, '}');
}

/* The schema whose rows begin here, and its answer; returns how many they are. */
static size_t write_schema(struct json *j, const struct api_member *first, size_t max)
{
	char answer[NAME_MAX_LEN];
	size_t n = 0;

	while (n < max && strcmp(first[n].schema, first->schema) == 0)
		n++;
	write_object(j, first->schema, first, n, NULL);
	for (unsigned int i = 0; i < api_ntwice; i++)
		if (strcmp(api_twice[i], first->schema) == 0) {
			(void)snprintf(answer, sizeof(answer), "%sAnswer", first->schema);
			write_object(j, answer, first, n, first->schema);
		}
	return n;
}

/* The form of an upload; in a box it may say where to. */
static void write_form(struct json *j, const char *name, bool in_box)
{
	json_open(j, name, '{');
	json_str(j, "type", "object");
	json_open(j, "properties", '{');
	json_open(j, "file", '{');
	json_str(j, "type", "string");
	json_str(j, "format", "binary");
	json_str(j, "contentMediaType", "application/octet-stream");
	json_str(j, "description", "the file, with its name");
	json_close(j, '}');
	if (in_box) {
		json_open(j, "path", '{');
		json_str(j, "type", "string");
		json_str(j, "description",
			 "before the file, where the path of the call does not say it: "
			 "where it is to be; its name unless said");
		json_close(j, '}');
	}
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
	write_form(j, "UploadRequest", /* in_box= */ false);
	write_form(j, "FileForm", /* in_box= */ true);
	for (size_t i = 0; i < api_nmembers;)
		i += write_schema(j, &api_members[i], api_nmembers - i);
	json_close(j, '}');
}

/* --- operations ------------------------------------------------------------------------------ */

static bool has_field(const struct fields *table, const char *name)
{
	for (size_t i = 0; table != NULL && i < table->n; i++)
		if (strcmp(table->rows[i].name, name) == 0 || has_field(table->rows[i].sub, name))
			return true;
	return false;
}

static bool answers(const struct route *r, const char *what)
{
	return r->answer != NULL && strcmp(r->answer, what) == 0;
}

/* The events of a run's log. */
static bool answers_log(const struct route *r)
{
	return answers(r, "command events") || answers(r, "cell events");
}

/* Whether a row is about this part of a route's path. */
static bool is_part(const struct api_param *p, const struct route *r, const char *name, size_t n)
{
	return strcmp(p->in, "path") == 0 && strlen(p->name) == n &&
	       memcmp(p->name, name, n) == 0 &&
	       (p->route == NULL || strncmp(r->path, p->route, strlen(p->route)) == 0);
}

/* The row about a part of a path. */
static unsigned int find_param(const struct route *r, const char *name, size_t n)
{
	unsigned int i = 0;

	while (i < api_nparams && !is_part(&api_params[i], r, name, n))
		i++;
	return i;
}

/* What a path is made of, here: {path*} is a parameter like others, and a rest may be several. */
static void make_path(const struct route *r, char path[NAME_MAX_LEN])
{
	const char *rest = NULL, *told = NULL;
	size_t n = 0;

	for (unsigned int i = 0; i < api_nrests && rest == NULL; i++) {
		rest = strstr(r->path, api_rests[i].part);
		told = api_rests[i].told;
	}
	for (const char *p = r->path; *p != '\0' && p != rest && n < NAME_MAX_LEN - 1; p++)
		if (*p != '*')
			path[n++] = *p;
	(void)snprintf(path + n, NAME_MAX_LEN - n, "%s", rest != NULL ? told : "");
}

/* Whether "METHOD path" is this route. */
static bool is_route(const struct route *r, const char *text)
{
	size_t n = strlen(r->method);

	return strncmp(text, r->method, n) == 0 && text[n] == ' ' &&
	       strcmp(text + n + 1, r->path) == 0;
}

/* Whether a header or a part of the query means something to a route. */
static bool has_param(const struct route *r, unsigned int i)
{
	bool key = strcmp(api_params[i].name, "Idempotency-Key") == 0;

	if (api_params[i].route != NULL)
		return is_route(r, api_params[i].route);
	if (strcmp(api_params[i].in, "header") != 0)
		return false;
	if (answers(r, "events"))
		return true;
	return key ? (r->flags & ROUTE_IDEMPOTENT) != 0
		   : answers_log(r) || (r->flags & ROUTE_RUN) != 0;
}

static bool has_params(const struct route *r)
{
	for (unsigned int i = 0; i < api_nparams; i++)
		if (has_param(r, i))
			return true;
	return strchr(r->path, '{') != NULL;
}

/* Whether a route of Sandbox Runtime is about a file. */
static bool has_place(const struct route *r)
{
	char path[NAME_MAX_LEN];

	make_path(r, path);
	return strstr(path, "{path}") != NULL || r->body == BODY_STREAM ||
	       has_field(r->in, "filename") || has_field(r->in, "savename");
}

static unsigned int sandbox_traits_of(const struct route *r)
{
	unsigned int t = TRAIT_SANDBOX;

	if (r->in != NULL)
		t |= TRAIT_SANDBOX_JSON;
	if (strchr(r->path, '{') != NULL)
		t |= TRAIT_SESSION;
	if ((t & TRAIT_SESSION) != 0)
		t |= TRAIT_USES;
	if (r->body == BODY_STREAM)
		t |= TRAIT_WRITE;
	if (answers(r, "bytes") || answers(r, "shown"))
		t |= TRAIT_RANGE;
	if (answers(r, "SandboxSessionAnswer"))
		t |= TRAIT_MAKES;
	if (has_place(r))
		t |= TRAIT_PLACE;
	return t;
}

static unsigned int traits_of(const struct route *r)
{
	unsigned int t = TRAIT_ANY;

	if (r->shape == SHAPE_DETAIL)
		t |= TRAIT_DETAIL;
	if (r->shape == SHAPE_SANDBOX)
		t |= sandbox_traits_of(r);
	if (strcmp(r->path, SE_HANDLER) == 0)
		t |= TRAIT_HANDLER;
	if ((r->flags & ROUTE_OPEN) == 0)
		t |= TRAIT_GUARDED;
	if (r->body != BODY_NONE)
		t |= TRAIT_BODY;
	if (strchr(r->path, '{') != NULL || has_field(r->in, "file_id"))
		t |= TRAIT_NAMES;
	if (r->in != NULL && strcmp(r->method, "POST") == 0 && r->status != 204 &&
	    r->shape != SHAPE_SANDBOX && !answers(r, "ApprovalAnswer") &&
	    !answers(r, "PublishedPort") && !answers(r, "EnvironmentBuild"))
		t |= TRAIT_RUNS;
	if (strncmp(r->path, "/v1/environments", 16) == 0 && strcmp(r->method, "GET") != 0)
		t |= TRAIT_STATE;
	if (answers(r, "PublishedPort") && r->in != NULL)
		t |= TRAIT_PORTS;
	if (answers(r, "ToolServer"))
		t |= TRAIT_TOOLS;
	if (answers(r, "events"))
		t |= TRAIT_EVENTS;
	if (answers(r, "Health"))
		t |= TRAIT_HEALTH;
	if ((r->flags & ROUTE_IDEMPOTENT) != 0)
		t |= TRAIT_KEY;
	if (strstr(r->path, "{box_id}") != NULL)
		t |= TRAIT_BOX;
	if ((t & TRAIT_BOX) != 0 && !(answers(r, "Box") && strcmp(r->method, "GET") == 0))
		t |= TRAIT_STATE;
	if (strstr(r->path, "/stdin") != NULL)
		t |= TRAIT_INPUT;
	if (r->in != NULL || (r->body == BODY_STREAM && strcmp(r->method, "POST") == 0))
		t |= TRAIT_TYPED;
	if (strncmp(r->path, BOX_FILES, strlen(BOX_FILES)) == 0 ||
	    strcmp(r->path, BOX_WATCH) == 0 || strcmp(r->path, BOX_ARCHIVE) == 0)
		t |= TRAIT_FILES;
	if ((t & TRAIT_FILES) != 0 && r->body == BODY_STREAM && strcmp(r->path, BOX_ARCHIVE) != 0)
		t |= TRAIT_WRITE;
	if (is_route(r, "GET " BOX_FILE))
		t |= TRAIT_RANGE;
	for (unsigned int i = 0; i < api_nparams; i++)
		if (strcmp(api_params[i].in, "query") == 0 && has_param(r, i))
			t |= TRAIT_QUERY;
	return t;
}

/* "post_v1_sessions_session_id_bash" */
static void make_id(const struct route *r, char id[NAME_MAX_LEN])
{
	char path[NAME_MAX_LEN];
	size_t n = 0;

	make_path(r, path);
	for (const char *p = r->method; *p != '\0' && n < NAME_MAX_LEN - 1; p++)
		id[n++] = (char)tolower((unsigned char)*p);
	for (const char *p = path; *p != '\0' && n < NAME_MAX_LEN - 1; p++)
		if (strchr("{}", *p) == NULL)
			id[n++] = isalnum((unsigned char)*p) ? *p : '_';
	id[n] = '\0';
}

/* The group of a route: "files" of /v1/files/{file_id}. */
static struct http_slice tag_of(const struct route *r)
{
	static const char server[] = "server", sandbox[] = "sandbox-runtime";

	if (strncmp(r->path, SE_ROOT "/", strlen(SE_ROOT) + 1) == 0)
		return (struct http_slice){ sandbox, sizeof(sandbox) - 1 };
	if (strncmp(r->path, "/v1/", 4) != 0)
		return (struct http_slice){ server, sizeof(server) - 1 };
	return (struct http_slice){ r->path + 4, strcspn(r->path + 4, "/") };
}

static void write_param(struct json *j, const char *in, const char *name, size_t n, unsigned int i)
{
	json_open(j, NULL, '{');
	json_bytes(j, "name", name, n);
	json_str(j, "in", in);
	json_bool(j, "required", strcmp(in, "path") == 0);
	if (i < api_nparams)
		json_str(j, "description", api_params[i].doc);
	json_open(j, "schema", '{');
	json_str(j, "type", i < api_nparams ? api_params[i].type : "string");
	json_close(j, '}');
	json_close(j, '}');
}

static void write_params(struct json *j, const struct route *r)
{
	char path[NAME_MAX_LEN];

	make_path(r, path);
	json_open(j, "parameters", '[');
	for (const char *p = strchr(path, '{'); p != NULL; p = strchr(p + 1, '{')) {
		size_t n = strcspn(p + 1, "}");

		write_param(j, "path", p + 1, n, find_param(r, p + 1, n));
	}
	for (unsigned int i = 0; i < api_nparams; i++)
		if (has_param(r, i))
			write_param(j, api_params[i].in, api_params[i].name,
				    strlen(api_params[i].name), i);
	json_close(j, ']');
}

static void write_example(struct json *j, const char *schema)
{
	unsigned int i = 0;

	while (i < api_nexamples && strcmp(api_examples[i].schema, schema) != 0)
		i++;
	if (i == api_nexamples)
		return;
	json_open(j, "example", '{');
	for (; i < api_nexamples && strcmp(api_examples[i].schema, schema) == 0; i++)
		json_str(j, api_examples[i].name, api_examples[i].text);
	json_close(j, '}');
}

/* A body of one type; schema NULL: bytes. */
static void write_body_as(struct json *j, const char *media, const char *schema)
{
	json_open(j, media, '{');
	if (schema != NULL) {
		json_open(j, "schema", '{');
		write_ref(j, schema);
		json_close(j, '}');
		write_example(j, schema);
	}
	json_close(j, '}');
}

static bool is_body_required(const struct route *r)
{
	bool required = r->shape != SHAPE_OWN || is_route(r, "POST " BOX_FILES);

	if (answers(r, "SandboxSessionAnswer") || answers(r, "SandboxCleanupAnswer"))
		required = false;
	for (size_t i = 0; r->in != NULL && i < r->in->n; i++)
		required |= (r->in->rows[i].flags & (FIELD_REQUIRED | FIELD_ONE_OF)) != 0;
	return required;
}

static void write_body(struct json *j, const struct route *r)
{
	bool other = false;

	json_open(j, "requestBody", '{');
	json_bool(j, "required", is_body_required(r));
	json_open(j, "content", '{');
	for (unsigned int i = 0; i < api_nbodies; i++)
		if (is_route(r, api_bodies[i].route)) {
			write_body_as(j, api_bodies[i].media, api_bodies[i].schema);
			other = true;
		}
	if (r->in != NULL)
		write_body_as(j, "application/json", r->in->name);
	else if (!other)
		write_body_as(j, "multipart/form-data", "UploadRequest");
	json_close(j, '}');
	json_close(j, '}');
}

/* What the data of each event is; nothing in OpenAPI says that. */
static void write_events(struct json *j, const char *answer)
{
	json_open(j, "x-events", '{');
	for (unsigned int i = 0; i < api_nevents; i++) {
		if (strcmp(api_events[i].answer, answer) != 0)
			continue;
		json_open(j, api_events[i].event, '{');
		write_ref(j, api_events[i].schema);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void write_media(struct json *j, const char *answer)
{
	const char *media = "application/json";
	bool json = true;

	for (unsigned int i = 0; i < api_nplains; i++)
		if (strcmp(api_plains[i].answer, answer) == 0) {
			media = api_plains[i].media;
			json = false;
		}
	json_open(j, media, '{');
	if (json || strncmp(media, "text/", 5) == 0) { /* bytes have no schema */
		json_open(j, "schema", '{');
		write_type(j, json ? answer : "string");
		json_close(j, '}');
	}
	if (strstr(answer, "events") != NULL)
		write_events(j, answer);
	json_close(j, '}');
}

static void write_content(struct json *j, const char *answer)
{
	if (answer == NULL)
		return;
	json_open(j, "content", '{');
	write_media(j, answer);
	json_close(j, '}');
}

static void open_response(struct json *j, int status, const char *doc)
{
	char key[12];

	(void)snprintf(key, sizeof(key), "%d", status);
	json_open(j, key, '{');
	json_str(j, "description", doc);
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

/* The schemas of a refusal. */
static const char *refused_as(unsigned int traits, int status)
{
	const struct api_refused *f = api_refused;

	while ((f->traits & traits) == 0 || (f->status != 0 && f->status != status))
		f++;
	return f->schemas;
}

static void write_refusals(struct json *j, unsigned int traits)
{
	int last = 0;

	for (unsigned int i = 0; i < api_nrefusals; i++) {
		const struct api_refusal *f = &api_refusals[i];

		if (f->status == last || (f->traits & traits) == 0)
			continue;
		open_response(j, f->status, f->doc);
		if (f->later)
			write_later(j);
		write_content(j, refused_as(traits, f->status));
		json_close(j, '}');
		last = f->status;
	}
}

/* All bodies of the status that a route is about. */
static void write_contents(struct json *j, const struct route *r)
{
	json_open(j, "content", '{');
	write_media(j, r->answer);
	if ((r->flags & ROUTE_RUN) != 0)
		write_media(j, answers(r, "Cell") ? "cell events" : "command events");
	for (unsigned int i = 0; i < api_nmores; i++)
		if (api_mores[i].status == r->status && is_route(r, api_mores[i].route))
			write_media(j, api_mores[i].answer);
	json_close(j, '}');
}

static void write_more(struct json *j, const struct route *r)
{
	for (unsigned int i = 0; i < api_nmores; i++) {
		if (api_mores[i].status == r->status || !is_route(r, api_mores[i].route))
			continue;
		open_response(j, api_mores[i].status, api_mores[i].doc);
		write_content(j, api_mores[i].answer);
		json_close(j, '}');
	}
}

static void write_responses(struct json *j, const struct route *r)
{
	json_open(j, "responses", '{');
	if (r->status < 400) { /* else it is refused always */
		open_response(j, r->status, r->status == 204 ? "done" : r->doc);
		if (r->answer != NULL)
			write_contents(j, r);
		json_close(j, '}');
	}
	write_more(j, r);
	if ((r->flags & ROUTE_RUN) != 0) {
		open_response(j, 202, "it runs; with `detach`");
		write_content(j, r->answer);
		json_close(j, '}');
	}
	if (answers_log(r)) {
		open_response(j, 204, "there are no further events");
		json_close(j, '}');
	}
	write_refusals(j, traits_of(r));
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
	if (has_params(r))
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
	char path[NAME_MAX_LEN];

	json_open(j, "paths", '{');
	for (unsigned int i = 0; i < nroutes; i++) {
		if (!is_told(&routes[i]) || is_begun(i))
			continue;
		make_path(&routes[i], path);
		json_open(j, path, '{');
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
