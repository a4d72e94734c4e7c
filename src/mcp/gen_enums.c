// SPDX-License-Identifier: Apache-2.0
/* Values that are listed: several strings are a class, anything else that can be is a Literal. */
#include "mcp/gen_impl.h"

#include "base/own.h"

/* What is among the values. */
struct listed {
	size_t n, strings;
	bool null, other; /* other: what no Literal can have */
};

/* Whether it is a number that is an int in Python. */
static bool is_integer(struct json_text t)
{
	return json_text_kind(t) == '0' && memchr(t.p, '.', t.n) == NULL &&
	       memchr(t.p, 'e', t.n) == NULL && memchr(t.p, 'E', t.n) == NULL;
}

static struct listed look_at(struct json_text values)
{
	struct json_walk w = json_walk(values);
	struct json_text key, v;
	struct listed l = { 0 };

	while (json_walk_next(&w, &key, &v)) {
		char kind = json_text_kind(v);

		if (kind == 'n') {
			l.null = true;
			continue;
		}
		l.n++;
		l.strings += kind == '"';
		l.other |= kind != '"' && kind != 't' && !is_integer(v);
	}
	return l;
}

static void set_literal(struct json_text values, struct type *ret)
{
	struct json_walk w = json_walk(values);
	struct json_text key, v;
	bool first = true;

	type_set(ret, TYPE_LITERAL, "Literal[");
	while (json_walk_next(&w, &key, &v)) {
		if (json_text_kind(v) == 'n')
			continue;
		if (!first)
			put_text(&ret->text, ", ");
		first = false;
		(void)gen_value(&ret->text, v);
	}
	put_text(&ret->text, "]");
}

static void put_member(struct json *out, struct taken *names, const char *p, size_t n)
{
	char name[GEN_NAME];

	gen_name(p, n, n > 0 ? "value" : "empty", name);
	taken_find(names, "_", name);
	put_text(out, "    ");
	put_text(out, name);
	put_text(out, " = ");
	gen_literal(out, p, n);
	put_text(out, "\n");
}

static void put_enum(struct gen *g, struct gen_class *c, struct json_text values)
{
	static const char *const refused[] = { "mro", "name", "value" };
	struct json_walk w = json_walk(values);
	struct taken names = { 0 };
	struct json_text key, v;

	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		taken_add(&names, refused[i]);
	put_text(g->out, "\n\nclass ");
	put_text(g->out, c->name);
	put_text(g->out, "(str, Enum):\n");
	while (json_walk_next(&w, &key, &v)) {
		OWN(json_done) struct json text;

		if (json_text_kind(v) == 'n')
			continue;
		g->failed |= gen_decode(v, &text) < 0;
		put_member(g->out, &names, text.buf, text.len);
	}
	g->failed |= names.failed;
	taken_done(&names);
	c->done = true;
}

void gen_enum(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	struct json_text values = keyword(s, KW_ENUM);
	struct listed l = look_at(values);
	struct gen_class *c = NULL;

	if (l.n == 0) {
		type_set(ret, l.null ? TYPE_NONE : TYPE_ANY, l.null ? "None" : "Any");
	} else if (l.other || l.n > GEN_ENUM || !gen_take(g, values.n)) {
		if (l.strings == l.n)
			type_set(ret, TYPE_STR, "str");
		else
			type_set(ret, TYPE_ANY, "Any");
	} else {
		if (l.strings == l.n && l.n > 1)
			c = gen_class_new(g, s->text.p, CLASS_ENUM, hint);
		if (c != NULL) {
			put_enum(g, c, values);
			type_set(ret, TYPE_ENUM, c->name);
			ret->classes = true;
		} else {
			set_literal(values, ret);
		}
		ret->from = s->text;
	}
	ret->null = l.null;
}

void gen_const(struct gen *g, const struct schema *s, struct type *ret)
{
	struct json_text v = keyword(s, KW_CONST);
	char kind = json_text_kind(v);

	if (kind == 'n') {
		type_set(ret, TYPE_NONE, "None");
	} else if ((kind == '"' || kind == 't' || is_integer(v)) && gen_take(g, v.n)) {
		type_set(ret, TYPE_LITERAL, "Literal[");
		(void)gen_value(&ret->text, v);
		put_text(&ret->text, "]");
		ret->from = s->text;
	} else {
		type_set(ret, TYPE_ANY, "Any");
	}
}

static bool is_same(struct json_text a, struct json_text b)
{
	OWN(json_done) struct json x, y;

	json_init(&x);
	json_init(&y);
	json_text_put(a, &x, NULL);
	json_text_put(b, &y, NULL);
	return !x.failed && !y.failed && x.len == y.len && memcmp(x.buf, y.buf, x.len) == 0;
}

bool gen_enum_has(struct gen *g, struct json_text schema, struct json_text value)
{
	struct json_text key, v;
	struct json_walk w;
	struct schema s;

	schema_read(g, schema, &s);
	if (is_there(keyword(&s, KW_CONST)))
		return is_same(keyword(&s, KW_CONST), value);
	w = json_walk(keyword(&s, KW_ENUM));
	while (json_walk_next(&w, &key, &v))
		if (is_same(v, value))
			return true;
	return false;
}
