// SPDX-License-Identifier: Apache-2.0
/*
 * Headers that repeat what a message says, and parameters of a tool that its schema wants repeated (x-mcp-header).
 *
 * The rules are strict, and a tool that breaks one is not used: the name is a token of HTTP and there once in any case; the
 * parameter is a string, an integer or a boolean; it is reached from the root by `properties` alone.
 */
#include "mcp/client_impl.h"

#include "base/base64.h"
#include "base/own.h"

#include <stdio.h>
#include <string.h>

#define ANNOTATION "x-mcp-header"

enum { HEADER_NAME = 64, PARAMS_MAX = MCPC_HEADERS_MAX - 4 };

/* --- values --------------------------------------------------------------------------------------- */

static bool is_plain(const char *p, size_t n)
{
	static const char before[] = "=?base64?";

	if (n == 0 || p[0] == ' ' || p[n - 1] == ' ')
		return false;
	for (size_t i = 0; i < n; i++)
		if (p[i] < ' ' || p[i] > '~')
			return false;
	return n < sizeof(before) - 1 || memcmp(p, before, sizeof(before) - 1) != 0;
}

char *mcpc_header_value(const char *p, size_t n)
{
	bool plain = is_plain(p, n);
	char *text = malloc(plain ? n + 1 : BASE64_TEXT_LEN(n) + 12);
	size_t at = 0;

	if (text == NULL)
		return NULL;
	if (plain) {
		(void)memcpy(text, p, n);
		text[n] = '\0';
		return text;
	}
	(void)memcpy(text, "=?base64?", 9);
	at = 9 + base64_encode((const uint8_t *)p, n, text + 9);
	(void)memcpy(text + at, "?=", 3);
	return text;
}

void mcpc_headers_add(struct mcpc_headers *h, const char *prefix, const char *name,
		      const char *value, size_t n)
{
	char *text = mcpc_header_value(value, n), *full = NULL;

	if (prefix != NULL && asprintf(&full, "%s%s", prefix, name) < 0)
		full = NULL;
	if (text == NULL || (prefix != NULL && full == NULL) || h->n == MCPC_HEADERS_MAX) {
		free(text);
		free(full);
		h->failed = true;
		return;
	}
	h->v[h->n++] = (struct mcpc_header){ prefix != NULL ? full : name, text };
	h->own[h->nowned++] = text;
	h->own[h->nowned++] = full;
}

void mcpc_headers_done(struct mcpc_headers *h)
{
	for (unsigned int i = 0; i < h->nowned; i++)
		free(h->own[i]);
	*h = (struct mcpc_headers){ 0 };
}

/* --- schemas -------------------------------------------------------------------------------------- */

/* What a walk over a schema is for: to check it, or to write what it says of these arguments. */
struct visit {
	char names[PARAMS_MAX][HEADER_NAME];
	unsigned int n;
	char *why; /* NULL: it was checked before */
	struct mcpc_headers *h;
};

static bool broken(struct visit *v, const char *rule)
{
	if (v->why != NULL)
		(void)snprintf(v->why, MCPC_ERROR, "'" ANNOTATION "' %s", rule);
	return false;
}

static bool is_token(const char *s)
{
	for (; *s != '\0'; s++)
		if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
		      (*s >= '0' && *s <= '9') || strchr("!#$%&'*+-.^_`|~", *s) != NULL))
			return false;
	return true;
}

/* The header of one parameter. */
static void put_header(struct visit *v, const char *name, struct json_text value)
{
	char *text;

	switch (json_text_kind(value)) {
	case '"':
		text = malloc(value.n + 1);
		if (text == NULL)
			v->h->failed = true;
		else if (json_text_str(value, text, value.n + 1))
			mcpc_headers_add(v->h, "Mcp-Param-", name, text, strlen(text));
		free(text);
		break;
	case '0':
	case 't':
		mcpc_headers_add(v->h, "Mcp-Param-", name, value.p, value.n);
		break;
	default: /* there is none, or it is what no header can say */
		break;
	}
}

static bool visit_annotation(struct visit *v, struct json_text annotation, struct json_text type,
			     struct json_text value, bool reachable)
{
	char name[HEADER_NAME], kind[16];

	if (!reachable)
		return broken(v, "stands where no parameter is");
	if (!json_text_str(annotation, name, sizeof(name)) || name[0] == '\0')
		return broken(v, "is no name, or a long one");
	if (!is_token(name))
		return broken(v, "has a character that no name of a header has");
	if (!json_text_str(type, kind, sizeof(kind)) ||
	    (strcmp(kind, "string") != 0 && strcmp(kind, "integer") != 0 &&
	     strcmp(kind, "boolean") != 0))
		return broken(v, "is for strings, integers and booleans only");
	for (unsigned int i = 0; i < v->n; i++)
		if (strcasecmp(v->names[i], name) == 0)
			return broken(v, "names one header twice");
	if (v->n == PARAMS_MAX)
		return broken(v, "is there too often");
	(void)memcpy(v->names[v->n++], name, sizeof(name));
	if (v->h != NULL)
		put_header(v, name, value);
	return true;
}

/* The member of an object by a key that is written in another text, where it may be escaped in another way. */
static struct json_text member_named(struct json_text object, struct json_text key)
{
	struct json_walk w = json_walk(object);
	struct json_text k, value, found = { 0 };
	size_t size = key.n + 1;
	char *both = json_text_kind(object) == '{' ? malloc(2 * size) : NULL;

	if (both != NULL && json_text_str(key, both, size))
		while (json_walk_next(&w, &k, &value))
			if (json_text_str(k, both + size, size) && strcmp(both, both + size) == 0)
				found = value;
	free(both);
	return found;
}

static bool visit_schema(struct visit *v, struct json_text schema, struct json_text value,
			 bool reachable, bool root);

/* Each member of an object, or element of an array, is a schema. */
static bool visit_each(struct visit *v, struct json_text all, struct json_text values,
		       bool reachable)
{
	struct json_walk w = json_walk(all);
	struct json_text key, one;

	while (json_walk_next(&w, &key, &one)) {
		struct json_text value = { 0 };

		if (v->h != NULL && key.p != NULL)
			value = member_named(values, key);
		if (!visit_schema(v, one, value, reachable, false))
			return false;
	}
	return true;
}

/* Members that have schemas in them in which there may be no annotation; below the others is none, but data. */
static const struct {
	const char *name;
	bool named; /* it is an object of schemas */
} elsewhere[] = {
	{ "items", false },
	{ "prefixItems", false },
	{ "contains", false },
	{ "additionalProperties", false },
	{ "unevaluatedItems", false },
	{ "unevaluatedProperties", false },
	{ "propertyNames", false },
	{ "patternProperties", true },
	{ "dependentSchemas", true },
	{ "oneOf", false },
	{ "anyOf", false },
	{ "allOf", false },
	{ "not", false },
	{ "if", false },
	{ "then", false },
	{ "else", false },
	{ "$defs", true },
	{ "definitions", true },
};

static bool visit_elsewhere(struct visit *v, const char *name, struct json_text t)
{
	for (unsigned int i = 0; i < ARRAY_LEN(elsewhere); i++) {
		if (strcmp(elsewhere[i].name, name) != 0)
			continue;
		if (elsewhere[i].named || json_text_kind(t) == '[')
			return visit_each(v, t, (struct json_text){ 0 }, false);
		return visit_schema(v, t, (struct json_text){ 0 }, false, false);
	}
	return true;
}

/* As deep as a text may be that json_text_read() takes. */
static bool visit_schema(struct visit *v, struct json_text schema, struct json_text value,
			 bool reachable, bool root)
{
	struct json_member m[] = { { .key = ANNOTATION },
				   { .key = "type" },
				   { .key = "properties" } };
	struct json_walk w = json_walk(schema);
	struct json_text key, one;
	char name[32];

	if (json_text_kind(schema) != '{')
		return true;
	json_text_find(schema, m, ARRAY_LEN(m));
	if (json_text_kind(m[0].value) != '\0' &&
	    !visit_annotation(v, m[0].value, m[1].value, value, reachable && !root))
		return false;
	if (json_text_kind(m[2].value) == '{' && !visit_each(v, m[2].value, value, reachable))
		return false;
	while (v->h == NULL && json_walk_next(&w, &key, &one))
		if (json_text_str(key, name, sizeof(name)) && !visit_elsewhere(v, name, one))
			return false;
	return true;
}

bool mcpc_headers_check(struct json_text schema, char why[MCPC_ERROR])
{
	struct visit v = { .why = why };

	why[0] = '\0';
	return visit_schema(&v, schema, (struct json_text){ 0 }, true, true);
}

void mcpc_headers_params(struct mcpc_headers *h, struct json_text schema,
			 struct json_text arguments)
{
	struct visit v = { .h = h };

	(void)visit_schema(&v, schema, arguments, true, true);
}
