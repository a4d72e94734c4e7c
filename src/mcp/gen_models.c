// SPDX-License-Identifier: Apache-2.0
/* Objects as classes: their properties, and those that allOf adds. What they contain is written before them. */
#include "mcp/gen_impl.h"

#include <stdio.h>
#include <stdlib.h>

struct gen_class *gen_class_new(struct gen *g, const char *at, enum class_kind kind,
				const char *hint)
{
	struct gen_class *c = &g->classes[g->nclasses];

	if (g->nclasses >= GEN_CLASSES)
		return NULL;
	g->nclasses++;
	*c = (struct gen_class){ .at = at, .kind = kind };
	gen_class_name(hint, strlen(hint), c->name);
	taken_find(&g->names, "", c->name);
	return c;
}

struct fields {
	struct field *v;
	size_t n;
	bool open; /* there is more than these */
};

static struct field *find_field(struct fields *all, const char *key)
{
	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->v[i].key, key) == 0)
			return &all->v[i];
	return NULL;
}

/* One more; those before first are of another schema, and stay as they are. */
static void add_field(struct gen *g, struct fields *all, size_t first, const char *key,
		      struct json_text schema)
{
	struct field *f = find_field(all, key);

	if (f != NULL) {
		if ((size_t)(f - all->v) >= first)
			f->schema = schema; /* twice in one object: the last one counts */
		return;
	}
	if (all->n == GEN_FIELDS || g->nfields == GEN_FIELDS_ALL) {
		all->open = true;
		return;
	}
	g->nfields++;
	f = &all->v[all->n++];
	*f = (struct field){ .schema = schema };
	(void)snprintf(f->key, sizeof(f->key), "%s", key);
}

static void add_properties(struct gen *g, const struct schema *s, struct fields *all)
{
	struct json_walk w = json_walk(keyword_of(s, KW_PROPERTIES, '{'));
	struct json_text key, value;
	char name[GEN_FIELD_NAME];
	size_t first = all->n;

	while (json_walk_next(&w, &key, &value)) {
		if (gen_look(g, 64 + 8 * all->n) && json_text_str(key, name, sizeof(name)))
			add_field(g, all, first, name, value);
		else
			all->open = true;
	}
}

static void mark_required(struct gen *g, const struct schema *s, struct fields *all)
{
	struct json_walk w = json_walk(keyword_of(s, KW_REQUIRED, '['));
	struct json_text key, value;
	char name[GEN_FIELD_NAME];

	while (json_walk_next(&w, &key, &value)) {
		struct field *f = NULL;

		if (gen_look(g, 64 + 8 * all->n) && json_text_str(value, name, sizeof(name)))
			f = find_field(all, name);
		if (f != NULL)
			f->required = true;
	}
}

static void collect(struct gen *g, const struct schema *s, bool alternatives, unsigned int depth,
		    struct fields *all);

/* The fields of other schemas, required by who is. */
static void collect_of(struct gen *g, struct json_text schemas, bool required, unsigned int depth,
		       struct fields *all)
{
	struct json_walk w = json_walk(schemas);
	struct json_text key, one;

	all->open |= json_text_kind(schemas) == '[';
	while (depth < GEN_DEPTH && json_walk_next(&w, &key, &one)) {
		struct schema s;

		schema_follow(g, one, &s);
		if (!required)
			s.kw[KW_REQUIRED].value = (struct json_text){ NULL, 0 };
		collect(g, &s, /* alternatives= */ !required, depth + 1, all);
	}
}

static void collect(struct gen *g, const struct schema *s, bool alternatives, unsigned int depth,
		    struct fields *all)
{
	add_properties(g, s, all);
	collect_of(g, keyword(s, KW_ALL_OF), /* required= */ true, depth, all);
	all->open |= is_there(keyword(s, KW_ANY_OF)) || is_there(keyword(s, KW_ONE_OF));
	if (alternatives) {
		collect_of(g, keyword(s, KW_ANY_OF), /* required= */ false, depth, all);
		collect_of(g, keyword(s, KW_ONE_OF), /* required= */ false, depth, all);
	}
	mark_required(g, s, all);
}

/* --- names ---------------------------------------------------------------------------------------------- */

/* Whether a field can be called as its property is. */
static bool is_free(const struct gen *g, const char *key)
{
	return gen_is_name(key) && key[0] != '_' && !taken_has(&g->names, key);
}

/* Those that can be called as they are, are: so a name is never that of another property. */
static void name_fields(struct gen *g, struct fields *all)
{
	struct taken names = { 0 };

	for (size_t i = 0; i < all->n; i++) {
		struct field *f = &all->v[i];

		if (is_free(g, f->key)) {
			(void)memcpy(f->name, f->key, strlen(f->key) + 1);
			taken_add(&names, f->name);
		}
	}
	for (size_t i = 0; i < all->n; i++) {
		struct field *f = &all->v[i];

		if (f->name[0] != '\0')
			continue;
		gen_name(f->key, strlen(f->key), "field", f->name);
		if (!is_free(g, f->name))
			gen_name_other(f->name);
		taken_find(&names, "_", f->name);
	}
	g->failed |= names.failed;
	taken_done(&names);
}

/* --- the class ------------------------------------------------------------------------------------------ */

static bool is_closed(const struct schema *s, const struct fields *all)
{
	return json_is(keyword(s, KW_MORE_PROPERTIES), "false") && !all->open &&
	       !is_there(keyword(s, KW_PATTERN_PROPERTIES));
}

static void put_class(struct gen *g, const struct schema *s, const struct gen_class *c,
		      const struct fields *all)
{
	struct json *out = g->out;

	put_text(out, "\n\nclass ");
	put_text(out, c->name);
	put_text(out, is_closed(s, all) ? "(BaseModel, extra=\"forbid\"):\n" : "(BaseModel):\n");
	gen_doc(g, keyword(s, KW_DESCRIPTION), out);
	if (all->n == 0)
		put_text(out, "    pass\n");
	for (size_t i = 0; i < all->n; i++)
		gen_field(g, &all->v[i], out);
}

void gen_model(struct gen *g, const struct schema *s, struct gen_class *c, bool alternatives)
{
	struct fields all = { .v = calloc(GEN_FIELDS, sizeof(*all.v)) };

	if (all.v == NULL) {
		g->failed = true;
		return;
	}
	collect(g, s, alternatives, 0, &all);
	for (size_t i = 0; i < all.n; i++)
		gen_type(g, all.v[i].schema, all.v[i].key, &all.v[i].type);
	name_fields(g, &all);
	put_class(g, s, c, &all);
	c->done = true;
	for (size_t i = 0; i < all.n; i++)
		type_done(&all.v[i].type);
	free(all.v);
}
