// SPDX-License-Identifier: Apache-2.0
/* A field of a class: its type, its default, its bounds, and what is said about it. */
#include "mcp/gen_impl.h"

#include "base/own.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* --- bounds ----------------------------------------------------------------------------------------------- */

static bool to_double(struct json_text t, double *ret)
{
	char text[64];

	if (json_text_kind(t) != '0' || t.n >= sizeof(text))
		return false;
	(void)snprintf(text, sizeof(text), "%.*s", (int)t.n, t.p);
	*ret = strtod(text, NULL);
	return isfinite(*ret);
}

/* A number for bounds of int or float, in text; false: there is none that both versions of pydantic take. */
static bool bound_text(struct json_text t, bool integer, char *text, size_t size)
{
	int64_t v;
	double d;

	if (!to_double(t, &d))
		return false;
	if (json_text_i64(t, &v))
		(void)snprintf(text, size, "%lld", (long long)v);
	else if (!integer)
		(void)snprintf(text, size, "%.*s", (int)t.n, t.p);
	else if (d > -1e15 && d < 1e15 && (double)(int64_t)d == d)
		(void)snprintf(text, size, "%lld", (long long)d);
	else
		return false;
	return true;
}

static void put_argument(struct json *args, const char *name, const char *text)
{
	put_text(args, ", ");
	put_text(args, name);
	put_text(args, "=");
	put_text(args, text);
}

/* A lower or an upper bound: one of them, as pydantic wants it. In old schemas, the second keyword says what the first one means. */
static void put_bound(const struct schema *s, enum gen_keyword with, enum gen_keyword without,
		      const char *names[2], bool integer, struct json *args)
{
	char text[64];

	if (bound_text(keyword(s, without), integer, text, sizeof(text)))
		put_argument(args, names[1], text);
	else if (bound_text(keyword(s, with), integer, text, sizeof(text)))
		put_argument(args, names[json_is(keyword(s, without), "true")], text);
}

static void put_number(const struct schema *s, bool integer, struct json *args)
{
	char text[64];
	double d;

	put_bound(s, KW_MINIMUM, KW_ABOVE, (const char *[2]){ "ge", "gt" }, integer, args);
	put_bound(s, KW_MAXIMUM, KW_BELOW, (const char *[2]){ "le", "lt" }, integer, args);
	if (bound_text(keyword(s, KW_MULTIPLE_OF), integer, text, sizeof(text)) &&
	    to_double(keyword(s, KW_MULTIPLE_OF), &d) && d > 0)
		put_argument(args, "multiple_of", text);
}

static void put_count(const struct schema *s, enum gen_keyword k, const char *name,
		      struct json *args)
{
	int64_t v;
	char text[24];

	if (!json_text_i64(keyword(s, k), &v) || v < 0 || v > INT32_MAX)
		return;
	(void)snprintf(text, sizeof(text), "%lld", (long long)v);
	put_argument(args, name, text);
}

static void put_pattern(struct gen *g, const struct schema *s, struct json *args)
{
	struct json_text pattern = keyword_of(s, KW_PATTERN, '"');

	if (!is_there(pattern) || !gen_take(g, pattern.n))
		return;
	put_argument(args, "pattern", "");
	(void)gen_value(args, pattern);
}

/* pydantic 1 bounds lists in a list as well, and none of what it has yet to find. */
static bool can_bound(const struct type *t)
{
	if (t->kind == TYPE_LIST)
		return !t->forward && !t->text.failed && strstr(t->text.buf + 1, "List[") == NULL;
	return t->kind == TYPE_INT || t->kind == TYPE_FLOAT || t->kind == TYPE_STR;
}

static void put_bounds(struct gen *g, const struct type *t, struct json *args)
{
	struct schema s;

	if (!can_bound(t))
		return;
	schema_read(g, t->from, &s);
	if (t->kind == TYPE_INT || t->kind == TYPE_FLOAT) {
		put_number(&s, t->kind == TYPE_INT, args);
	} else if (t->kind == TYPE_LIST) {
		put_count(&s, KW_MIN_ITEMS, "min_items", args);
		put_count(&s, KW_MAX_ITEMS, "max_items", args);
	} else {
		put_count(&s, KW_MIN_LENGTH, "min_length", args);
		put_count(&s, KW_MAX_LENGTH, "max_length", args);
		put_pattern(g, &s, args);
	}
}

/* --- default ------------------------------------------------------------------------------------------------ */

/* Whether a value can be the default of a field of that type, which pydantic does not look at. */
static bool is_fitting(struct gen *g, const struct type *t, struct json_text v)
{
	char kind = json_text_kind(v);
	int64_t i;
	double d;

	switch (t->kind) {
	case TYPE_STR:
		return kind == '"';
	case TYPE_BOOL:
		return kind == 't';
	case TYPE_INT:
		return json_text_i64(v, &i);
	case TYPE_FLOAT:
		return to_double(v, &d);
	case TYPE_LIST:
		return kind == '[' && !t->classes;
	case TYPE_DICT:
		return kind == '{' && !t->classes;
	case TYPE_LITERAL:
	case TYPE_ENUM:
		return gen_enum_has(g, t->from, v);
	case TYPE_ANY:
		return kind != '0' || to_double(v, &d);
	case TYPE_NONE:
	case TYPE_TUPLE:
	case TYPE_UNION:
	case TYPE_MODEL:
		return false;
	}
	return false;
}

static void put_default(struct gen *g, const struct type *t, struct json_text v, struct json *out)
{
	size_t before = out->len;

	if (!is_there(v) || json_text_kind(v) == 'n' || !is_fitting(g, t, v) || !gen_take(g, v.n)) {
		put_text(out, "None");
		return;
	}
	if (t->kind == TYPE_ENUM) {
		json_raw(out, t->text.buf, t->text.len);
		put_text(out, "(");
	}
	if (!gen_value(out, v)) {
		out->len = before;
		put_text(out, "None");
	} else if (t->kind == TYPE_ENUM) {
		put_text(out, ")");
	}
}

/* --- all of it ------------------------------------------------------------------------------------------------ */

void gen_field(struct gen *g, const struct field *f, struct json *out)
{
	OWN(json_done) struct json args;
	bool open = f->type.kind == TYPE_ANY || f->type.kind == TYPE_NONE || f->type.null;
	struct schema s;

	json_init(&args);
	schema_read(g, f->schema, &s);
	if (strcmp(f->key, f->name) != 0) {
		put_argument(&args, "alias", "");
		gen_literal(&args, f->key, strlen(f->key));
	}
	put_bounds(g, &f->type, &args);
	put_text(out, "    ");
	put_text(out, f->name);
	put_text(out, ": ");
	type_put(&f->type, /* optional= */ !f->required, out);
	/* pydantic 1 takes one that may be None for one that may be left out, unless it is told */
	if (args.len > 0 || (f->required && open)) {
		put_text(out, " = Field(");
		if (f->required)
			put_text(out, "...");
		else
			put_default(g, &f->type, keyword(&s, KW_DEFAULT), out);
		json_raw(out, args.buf, args.len);
		put_text(out, ")");
	} else if (!f->required) {
		put_text(out, " = ");
		put_default(g, &f->type, keyword(&s, KW_DEFAULT), out);
	}
	put_text(out, "\n");
	gen_doc(g, keyword(&s, KW_DESCRIPTION), out);
	g->failed |= args.failed;
}
