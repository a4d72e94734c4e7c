// SPDX-License-Identifier: Apache-2.0
/* Foreign names as names of Python, no two of them alike. */
#include "mcp/gen_impl.h"

#include "base/own.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const keywords[] = {
	"False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
	"class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
	"from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
	"or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield",
};

static const char *const reserved[] = {
	/* in both versions of pydantic, and what the package adds */
	"Config",
	"construct",
	"copy",
	"dict",
	"fields",
	"from_orm",
	"json",
	"parse_file",
	"parse_obj",
	"parse_raw",
	"schema",
	"schema_json",
	"update_forward_refs",
	"validate",
	"model_computed_fields",
	"model_config",
	"model_construct",
	"model_copy",
	"model_dump",
	"model_dump_json",
	"model_extra",
	"model_fields",
	"model_fields_set",
	"model_json_schema",
	"model_nulls",
	"model_parametrized_name",
	"model_post_init",
	"model_rebuild",
	"model_validate",
	"model_validate_json",
	"model_validate_strings",
	/* what fields are declared with: a field of that name would be in the way of those behind it */
	"Any",
	"BaseModel",
	"Dict",
	"Enum",
	"Field",
	"List",
	"Literal",
	"Optional",
	"Tuple",
	"Union",
	"bool",
	"float",
	"int",
	"str",
	/* of every class */
	"mro",
};

static bool is_among(const char *const *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

void gen_reserve(struct taken *t)
{
	static const char *const more[] = {
		"Arguments", "False", "None", "Params", "Result", "True"
	};

	for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
		taken_add(t, reserved[i]);
	for (size_t i = 0; i < ARRAY_LEN(more); i++)
		taken_add(t, more[i]);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_small(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_letter(char c)
{
	return is_small(c) || (c >= 'A' && c <= 'Z');
}

bool gen_is_name(const char *s)
{
	if (*s == '\0' || is_digit(*s) || strlen(s) >= GEN_NAME)
		return false;
	for (const char *p = s; *p != '\0'; p++)
		if (!is_letter(*p) && !is_digit(*p) && *p != '_')
			return false;
	return !is_among(keywords, ARRAY_LEN(keywords), s);
}

/* One character for each; ret has room for size with a NUL. */
static void replace(const char *p, size_t n, char *ret, size_t size)
{
	size_t at = 0;

	while (n > 0 && at + 1 < size) {
		uint32_t c = 0;
		size_t len = utf8_next((const unsigned char *)p, n, &c);

		if (len == 0)
			len = utf8_bad((const unsigned char *)p, n);
		ret[at++] = len == 1 && (is_letter(*p) || is_digit(*p)) ? *p : '_';
		p += len;
		n -= len;
	}
	ret[at] = '\0';
}

void gen_name_other(char name[GEN_NAME])
{
	size_t n = strlen(name);

	if (n + 1 == GEN_NAME)
		n--;
	name[n] = '_';
	name[n + 1] = '\0';
}

void gen_name(const char *p, size_t n, const char *prefix, char ret[GEN_NAME])
{
	char text[GEN_NAME];
	const char *from = text;

	replace(p, n, text, sizeof(text));
	while (*from == '_')
		from++;
	if (is_letter(*from))
		(void)snprintf(ret, GEN_NAME, "%s", from);
	else
		(void)snprintf(ret, GEN_NAME, "%s%s%.40s", prefix, *from != '\0' ? "_" : "", from);
	if (is_among(keywords, ARRAY_LEN(keywords), ret))
		gen_name_other(ret);
}

void gen_class_name(const char *p, size_t n, char ret[GEN_NAME])
{
	char text[GEN_NAME];
	size_t at = 0;

	gen_name(p, n, "model", text);
	for (size_t i = 0; text[i] != '\0'; i++) {
		bool begins = i == 0 || text[i - 1] == '_';

		if (text[i] != '_')
			ret[at++] = (char)(begins && is_small(text[i]) ? text[i] - 32 : text[i]);
	}
	ret[at] = '\0';
}

void gen_module_name(const char *p, size_t n, char ret[GEN_NAME])
{
	/* what a module imports for its function; what Python takes for the package; its own word for a module that is run */
	static const char *const modules[] = { "run_sync", "__init__", "__main__" };
	char text[GEN_NAME];

	replace(p, n, text, sizeof(text));
	for (char *c = text; *c != '\0'; c++)
		if (is_letter(*c))
			*c |= 0x20;
	if (*text == '\0' || is_digit(*text))
		(void)snprintf(ret, GEN_NAME, "_%.*s", GEN_NAME - 2, text);
	else
		(void)snprintf(ret, GEN_NAME, "%s", text);
	if (is_among(keywords, ARRAY_LEN(keywords), ret) ||
	    is_among(modules, ARRAY_LEN(modules), ret))
		gen_name_other(ret);
}

/* --- no two alike --------------------------------------------------------------------------------- */

static uint64_t hash_of(const char *p, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (unsigned char)p[i]) * 0x100000001b3u;
	return h;
}

void taken_done(struct taken *t)
{
	free(t->hashes);
	*t = (struct taken){ 0 };
}

static bool has_hash(const struct taken *t, uint64_t hash)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->hashes[i] == hash)
			return true;
	return false;
}

static void add_hash(struct taken *t, uint64_t hash)
{
	if (t->n == t->cap) {
		size_t cap = t->cap * 2 + 16;
		uint64_t *more = reallocarray(t->hashes, cap, sizeof(*more));

		if (more == NULL) {
			t->failed = true;
			return;
		}
		t->hashes = more;
		t->cap = cap;
	}
	t->hashes[t->n++] = hash;
}

bool taken_has(const struct taken *t, const char *name)
{
	return has_hash(t, hash_of(name, strlen(name)));
}

void taken_add(struct taken *t, const char *name)
{
	add_hash(t, hash_of(name, strlen(name)));
}

void taken_find(struct taken *t, const char *separator, char name[GEN_NAME])
{
	char base[GEN_NAME - 12];
	size_t number = 2;

	(void)snprintf(base, sizeof(base), "%.*s", (int)sizeof(base) - 1, name);
	while (!t->failed && taken_has(t, name)) {
		(void)snprintf(name, GEN_NAME, "%s%s%zu", base, separator, number);
		/* a few small ones, then one that hardly anybody has */
		number = number == 9 && t->n > 9 ? t->n : number + 1;
	}
	taken_add(t, name);
}

/* --- modules of a server -------------------------------------------------------------------------- */

/* The name of a tool. */
static int tool_name(struct json_text tool, struct json *ret)
{
	struct json_member m[] = { { .key = "name" } };
	int rc;

	json_text_find(tool, m, 1);
	rc = gen_decode(m[0].value, ret);
	if (rc == 0 && (ret->len == 0 || ret->len > GEN_TOOL_NAME_MAX))
		rc = -EINVAL;
	return rc;
}

/* The tools that have a name, each once. */
static int take_tools(struct json_text tools, struct gen_names *ret, struct taken *seen)
{
	struct json_walk w = json_walk(tools);
	struct json_text key, tool;
	int rc = 0;

	while (rc == 0 && json_walk_next(&w, &key, &tool)) {
		OWN(json_done) struct json name;
		uint64_t hash;

		rc = tool_name(tool, &name);
		if (rc == -EINVAL) {
			rc = 0;
			continue;
		}
		hash = hash_of(name.buf, name.len);
		if (rc == 0 && !has_hash(seen, hash)) {
			if (ret->n == GEN_TOOLS_MAX)
				return -E2BIG;
			add_hash(seen, hash);
			ret->v[ret->n].tool = tool;
			gen_module_name(name.buf, name.len, ret->v[ret->n].module);
			ret->n++;
		}
	}
	return rc == 0 && seen->failed ? -ENOMEM : rc;
}

/* Whether the name of a module is just that of its tool. */
static bool is_same(const struct gen_named *one)
{
	OWN(json_done) struct json name;

	return tool_name(one->tool, &name) == 0 && name.len == strlen(one->module) &&
	       memcmp(name.buf, one->module, name.len) == 0;
}

static int find_modules(struct gen_names *names)
{
	struct taken modules = { 0 };
	int rc;

	for (size_t i = 0; i < names->n; i++)
		if (is_same(&names->v[i]))
			taken_add(&modules, names->v[i].module);
	for (size_t i = 0; i < names->n; i++)
		if (!is_same(&names->v[i]))
			taken_find(&modules, "_", names->v[i].module);
	rc = modules.failed ? -ENOMEM : 0;
	taken_done(&modules);
	return rc;
}

int gen_names(struct json_text tools, struct gen_names *ret)
{
	struct taken seen = { 0 };
	int rc;

	*ret = (struct gen_names){ 0 };
	if (json_text_kind(tools) != '[')
		return -EINVAL;
	ret->v = calloc(GEN_TOOLS_MAX, sizeof(*ret->v));
	if (ret->v == NULL)
		return -ENOMEM;
	rc = take_tools(tools, ret, &seen);
	if (rc == 0)
		rc = find_modules(ret);
	taken_done(&seen);
	if (rc < 0)
		gen_names_done(ret);
	return rc;
}

void gen_names_done(struct gen_names *names)
{
	free(names->v);
	*names = (struct gen_names){ 0 };
}
