// SPDX-License-Identifier: Apache-2.0
/*
 * What a schema means as a type of Python.
 *
 * A schema that is a class (gen_models.c, gen_enums.c) is known by where it is: whoever refers to it again gets its name, in
 * quotes as long as it is not written. Another one that is met inside itself is Any.
 */
#include "mcp/gen_impl.h"

#include "base/own.h"

#include <stdio.h>

void type_done(struct type *t)
{
	json_done(&t->text);
}

void type_set(struct type *t, enum type_kind kind, const char *text)
{
	bool failed = t->text.failed;

	json_done(&t->text);
	t->text.failed = failed; /* then it stays without a text, and the module is refused */
	put_text(&t->text, text);
	t->kind = kind;
	if (kind == TYPE_ANY)
		t->forward = t->classes = false;
}

void type_put(const struct type *t, bool optional, struct json *out)
{
	bool null = (t->null || optional) && t->kind != TYPE_ANY && t->kind != TYPE_NONE;

	if (null)
		put_text(out, "Optional[");
	json_raw(out, t->text.buf, t->text.len);
	if (null)
		put_text(out, "]");
}

static void set_class(struct gen *g, const struct gen_class *c, struct type *t)
{
	char text[GEN_NAME + 2];

	(void)snprintf(text, sizeof(text), c->done ? "%s" : "\"%s\"", c->name);
	type_set(t, c->kind == CLASS_ENUM ? TYPE_ENUM : TYPE_MODEL, text);
	t->null = c->null;
	t->classes = true;
	t->forward = !c->done;
	g->forward |= !c->done;
}

/* A type within another one. */
static void put_inner(struct type *t, const struct type *inner)
{
	type_put(inner, /* optional= */ false, &t->text);
	t->forward |= inner->forward;
	t->classes |= inner->classes;
	t->text.failed |= inner->text.failed;
}

static void hint_more(const char *hint, const char *more, char ret[GEN_NAME])
{
	(void)snprintf(ret, GEN_NAME, "%.40s_%s", hint, more);
}

/* --- containers ------------------------------------------------------------------------------------- */

static void set_dict(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	OWN(type_done) struct type value = { 0 };
	char name[GEN_NAME];

	hint_more(hint, "value", name);
	gen_type(g, keyword_of(s, KW_MORE_PROPERTIES, '{'), name, &value);
	type_set(ret, TYPE_DICT, "Dict[str, ");
	put_inner(ret, &value);
	put_text(&ret->text, "]");
}

static bool has_members(struct json_text t)
{
	return json_text_kind(t) == '{' && json_count(t, 1) > 0;
}

static void set_model(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	struct gen_class *c = gen_class_new(g, s->text.p, CLASS_MODEL, hint);

	if (c == NULL) {
		type_set(ret, TYPE_DICT, "Dict[str, Any]");
		return;
	}
	gen_model(g, s, c, /* alternatives= */ false);
	set_class(g, c, ret);
}

static void set_object(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	if (has_members(keyword(s, KW_PROPERTIES)))
		set_model(g, s, hint, ret);
	else
		set_dict(g, s, hint, ret);
}

/* Whether a keyword leaves room for n elements and no others. */
static bool is_exactly(struct json_text t, size_t n)
{
	int64_t v;

	return !is_there(t) || (json_text_i64(t, &v) && v == (int64_t)n);
}

static bool is_nothing(struct json_text t)
{
	return !is_there(t) || json_is(t, "false");
}

/* The elements of a tuple; none if it is open at its end, or not one. */
static struct json_text tuple_of(const struct schema *s)
{
	struct json_text prefix = keyword_of(s, KW_PREFIX_ITEMS, '['), more = keyword(s, KW_ITEMS);
	size_t n;

	if (!is_there(prefix)) {
		prefix = keyword_of(s, KW_ITEMS, '[');
		more = keyword(s, KW_MORE_ITEMS);
	}
	n = json_count(prefix, GEN_TUPLE + 1);
	if (n == 0 || n > GEN_TUPLE || !is_nothing(more) ||
	    !is_exactly(keyword(s, KW_MIN_ITEMS), n) || !is_exactly(keyword(s, KW_MAX_ITEMS), n))
		return (struct json_text){ NULL, 0 };
	return prefix;
}

static void set_tuple(struct gen *g, struct json_text items, const char *hint, struct type *ret)
{
	struct json_walk w = json_walk(items);
	struct json_text key, item;
	bool first = true;

	type_set(ret, TYPE_TUPLE, "Tuple[");
	while (json_walk_next(&w, &key, &item)) {
		OWN(type_done) struct type inner = { 0 };

		gen_type(g, item, hint, &inner);
		if (!first)
			put_text(&ret->text, ", ");
		first = false;
		put_inner(ret, &inner);
	}
	put_text(&ret->text, "]");
}

static void set_array(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	struct json_text tuple = tuple_of(s), items = keyword_of(s, KW_ITEMS, '{');
	OWN(type_done) struct type inner = { 0 };
	char name[GEN_NAME];

	hint_more(hint, "item", name);
	if (is_there(tuple)) {
		set_tuple(g, tuple, name, ret);
		return;
	}
	if (is_there(keyword(s, KW_PREFIX_ITEMS)))
		items = (struct json_text){ NULL, 0 }; /* those behind the first ones */
	gen_type(g, items, name, &inner);
	if (inner.kind == TYPE_NONE) /* which pydantic 1 takes for that of the list */
		type_set(&inner, TYPE_ANY, "Any");
	type_set(ret, TYPE_LIST, "List[");
	put_inner(ret, &inner);
	put_text(&ret->text, "]");
}

/* --- unions ------------------------------------------------------------------------------------------- */

struct part {
	struct json text;
	enum type_kind kind;
};

struct parts {
	struct type *ret;
	size_t n;
	struct part v[GEN_UNION];
	bool any, twice;
};

static bool has_part(const struct parts *u, const struct json *text)
{
	for (size_t i = 0; i < u->n; i++)
		if (u->v[i].text.len == text->len &&
		    memcmp(u->v[i].text.buf, text->buf, text->len) == 0)
			return true;
	return false;
}

/* What it was is gone then. */
static void add_part(struct parts *u, struct type *part)
{
	struct type *ret = u->ret;

	ret->null |= part->null || part->kind == TYPE_NONE;
	ret->text.failed |= part->text.failed;
	if (part->kind == TYPE_ANY || u->n == GEN_UNION || part->text.failed) {
		u->any = true;
	} else if (has_part(u, &part->text)) {
		u->twice = true;
	} else if (part->kind != TYPE_NONE) {
		u->v[u->n++] = (struct part){ part->text, part->kind };
		json_init(&part->text);
		ret->from = part->from;
		ret->forward |= part->forward;
		ret->classes |= part->classes;
	}
}

/* Where it matters, the first that something can be made into is taken: an enum is a text, a list can be a tuple, and what has no
 * members an object without any. */
static const enum type_kind union_order[] = { TYPE_INT,     TYPE_FLOAT, TYPE_BOOL,  TYPE_STR,
					      TYPE_LITERAL, TYPE_ENUM,  TYPE_TUPLE, TYPE_LIST,
					      TYPE_UNION,   TYPE_MODEL, TYPE_DICT };

static void put_parts(const struct parts *u, struct json *out)
{
	bool first = true;

	put_text(out, "Union[");
	for (size_t k = 0; k < ARRAY_LEN(union_order); k++) {
		for (size_t i = 0; i < u->n; i++) {
			if (u->v[i].kind != union_order[k])
				continue;
			if (!first)
				put_text(out, ", ");
			first = false;
			json_raw(out, u->v[i].text.buf, u->v[i].text.len);
		}
	}
	put_text(out, "]");
}

static void end_parts(struct parts *u)
{
	struct type *ret = u->ret;

	if (u->any) {
		type_set(ret, TYPE_ANY, "Any");
	} else if (u->n == 0) {
		type_set(ret, ret->null ? TYPE_NONE : TYPE_ANY, ret->null ? "None" : "Any");
	} else if (u->n == 1) {
		type_set(ret, u->v[0].kind, u->v[0].text.buf);
	} else {
		type_set(ret, TYPE_UNION, "");
		put_parts(u, &ret->text);
	}
	if (u->twice)
		ret->from =
			(struct json_text){ NULL, 0 }; /* whichever it is bounds only one of them */
	for (size_t i = 0; i < u->n; i++)
		json_done(&u->v[i].text);
}

static void set_union(struct gen *g, struct json_text schemas, const char *hint, struct type *ret)
{
	struct parts u = { .ret = ret };
	struct json_walk w = json_walk(schemas);
	struct json_text key, one;

	while (!u.any && json_walk_next(&w, &key, &one)) {
		OWN(type_done) struct type part = { 0 };

		gen_type(g, one, hint, &part);
		add_part(&u, &part);
	}
	end_parts(&u);
}

/* --- by its type ------------------------------------------------------------------------------------ */

static const struct {
	const char *name, *text;
	enum type_kind kind;
} simple[] = {
	{ "string", "str", TYPE_STR },  { "number", "float", TYPE_FLOAT },
	{ "integer", "int", TYPE_INT }, { "boolean", "bool", TYPE_BOOL },
	{ "null", "None", TYPE_NONE },
};

/* alone: and no other type is. */
static void set_named(struct gen *g, const struct schema *s, struct json_text name,
		      const char *hint, bool alone, struct type *ret)
{
	type_set(ret, TYPE_ANY, "Any");
	for (size_t i = 0; i < ARRAY_LEN(simple); i++)
		if (json_says(name, simple[i].name))
			type_set(ret, simple[i].kind, simple[i].text);
	if (json_says(name, "array"))
		set_array(g, s, hint, ret);
	else if (json_says(name, "object") && alone)
		set_object(g, s, hint, ret);
	else if (json_says(name, "object"))
		type_set(ret, TYPE_DICT,
			 "Dict[str, Any]"); /* a class would stand for all of them */
	ret->from = s->text;
}

/* Whether a list of types has one beside null. */
static bool is_alone(struct json_text types)
{
	struct json_walk w = json_walk(types);
	struct json_text key, one;
	size_t n = 0;

	while (n < 2 && json_walk_next(&w, &key, &one))
		n += !json_says(one, "null");
	return n == 1;
}

static void set_types(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	struct json_text types = keyword(s, KW_TYPE), key, one;
	struct parts u = { .ret = ret };
	struct json_walk w = json_walk(types);
	bool alone = is_alone(types);

	while (!u.any && json_walk_next(&w, &key, &one)) {
		OWN(type_done) struct type part = { 0 };

		set_named(g, s, one, hint, alone, &part);
		add_part(&u, &part);
	}
	end_parts(&u);
}

static void set_by_type(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	struct json_text type = keyword(s, KW_TYPE);

	if (json_text_kind(type) == '[') {
		set_types(g, s, hint, ret);
	} else if (is_there(type)) {
		set_named(g, s, type, hint, /* alone= */ true, ret);
	} else if (is_there(keyword(s, KW_ITEMS)) || is_there(keyword(s, KW_PREFIX_ITEMS))) {
		set_array(g, s, hint, ret);
		ret->from = s->text;
	} else if (json_text_kind(keyword(s, KW_MORE_PROPERTIES)) == '{') {
		set_dict(g, s, hint, ret);
	} else {
		type_set(ret, TYPE_ANY, "Any");
	}
}

/* --- allOf -------------------------------------------------------------------------------------------- */

enum part_kind { PART_NOTHING, PART_OBJECT, PART_OTHER };

/* What a part of an allOf adds: properties, nothing that a type could say, or something else. */
static enum part_kind part_kind(struct gen *g, struct json_text t, unsigned int depth)
{
	struct schema s;
	struct json_walk w;
	struct json_text key, one;
	enum part_kind kind = PART_NOTHING, inner;

	schema_follow(g, t, &s);
	if (has_members(keyword(&s, KW_PROPERTIES)))
		return PART_OBJECT;
	if (is_there(keyword(&s, KW_CONST)) || is_there(keyword(&s, KW_ENUM)) ||
	    is_there(keyword(&s, KW_ANY_OF)) || is_there(keyword(&s, KW_ONE_OF)) || depth > 4)
		return PART_OTHER;
	w = json_walk(keyword_of(&s, KW_ALL_OF, '['));
	while (kind != PART_OTHER && json_walk_next(&w, &key, &one)) {
		inner = part_kind(g, one, depth + 1);
		if (inner != PART_NOTHING)
			kind = inner;
	}
	if (kind != PART_NOTHING)
		return kind;
	if (json_says(keyword(&s, KW_TYPE), "object"))
		return json_text_kind(keyword(&s, KW_MORE_PROPERTIES)) == '{' ? PART_OTHER
									      : PART_NOTHING;
	return is_there(keyword(&s, KW_TYPE)) ? PART_OTHER : PART_NOTHING;
}

static void set_all(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	struct json_walk w = json_walk(keyword(s, KW_ALL_OF));
	struct json_text key, one, only = { NULL, 0 };
	size_t objects = has_members(keyword(s, KW_PROPERTIES)), others = 0;
	bool own = objects > 0;

	while (json_walk_next(&w, &key, &one)) {
		enum part_kind kind = part_kind(g, one, 0);

		objects += kind == PART_OBJECT;
		others += kind == PART_OTHER;
		if (kind != PART_NOTHING)
			only = one;
	}
	if (!own && objects + others == 1)
		gen_type(g, only, hint, ret);
	else if (objects > 0 && (own || others == 0))
		set_model(g, s, hint, ret);
	else if (objects + others == 0)
		set_by_type(g, s, hint, ret);
	else
		type_set(ret, TYPE_ANY, "Any");
}

/* --- all of it ---------------------------------------------------------------------------------------- */

static void set_ref(struct gen *g, const struct schema *s, struct type *ret)
{
	char word[GEN_FIELD_NAME];
	struct json_text to = schema_ref(g, keyword(s, KW_REF), word);

	gen_type(g, to, word, ret);
}

static void set_any_of(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	bool any_of = is_there(keyword_of(s, KW_ANY_OF, '['));

	set_union(g, keyword(s, any_of ? KW_ANY_OF : KW_ONE_OF), hint, ret);
	if (ret->kind == TYPE_ANY) /* then they only add something to it */
		set_by_type(g, s, hint, ret);
}

static void set_schema(struct gen *g, const struct schema *s, const char *hint, struct type *ret)
{
	if (is_there(keyword(s, KW_REF)))
		set_ref(g, s, ret);
	else if (is_there(keyword(s, KW_CONST)))
		gen_const(g, s, ret);
	else if (is_there(keyword_of(s, KW_ENUM, '[')))
		gen_enum(g, s, hint, ret);
	else if (is_there(keyword_of(s, KW_ALL_OF, '[')))
		set_all(g, s, hint, ret);
	else if (has_members(keyword(s, KW_PROPERTIES)) &&
		 json_text_kind(keyword(s, KW_TYPE)) != '[')
		set_model(g, s, hint, ret);
	else if (is_there(keyword_of(s, KW_ANY_OF, '[')) || is_there(keyword_of(s, KW_ONE_OF, '[')))
		set_any_of(g, s, hint, ret);
	else
		set_by_type(g, s, hint, ret);
}

static struct gen_class *find_class(struct gen *g, const char *at)
{
	for (size_t i = 0; i < g->nclasses; i++)
		if (g->classes[i].at == at)
			return &g->classes[i];
	return NULL;
}

static bool is_open(const struct gen *g, const char *at)
{
	for (unsigned int i = 0; i < g->depth; i++)
		if (g->open[i] == at)
			return true;
	return false;
}

void gen_type(struct gen *g, struct json_text t, const char *hint, struct type *ret)
{
	struct gen_class *c = is_there(t) ? find_class(g, t.p) : NULL;
	struct schema s;

	type_set(ret, TYPE_ANY, "Any");
	if (c != NULL) {
		set_class(g, c, ret);
		ret->from = t;
		g->failed |= ret->text.failed;
		return;
	}
	if (json_text_kind(t) != '{' || g->depth == GEN_DEPTH || is_open(g, t.p))
		return;
	g->open[g->depth++] = t.p;
	schema_read(g, t, &s);
	set_schema(g, &s, hint, ret);
	g->depth--;
	if (json_is(keyword(&s, KW_NULLABLE), "true"))
		ret->null = true;
	if (ret->text.len > GEN_TYPE_TEXT)
		type_set(ret, TYPE_ANY, "Any");
	c = find_class(g, t.p);
	if (c != NULL)
		c->null = ret->null;
	g->failed |= ret->text.failed;
}
