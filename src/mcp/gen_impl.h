/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the generator share. */
#pragma once

#include "mcp/gen.h"

#include <string.h>

enum {
	GEN_DEPTH = 24,            /* schemas in schemas */
	GEN_CLASSES = 200,         /* of a module */
	GEN_FIELDS = 512,          /* of a class */
	GEN_FIELDS_ALL = 4096,     /* of a module */
	GEN_FIELD_NAME = 256,      /* bytes of the name of a property, with its NUL */
	GEN_ENUM = 256,            /* values of an enum */
	GEN_UNION = 32,            /* members of a union */
	GEN_TUPLE = 32,            /* and of a tuple */
	GEN_TYPE_TEXT = 4096,      /* bytes of a type */
	GEN_VALUE_DEPTH = 16,      /* containers in containers of a constant */
	GEN_LOOKED_AT = 1 << 26,   /* bytes that may be walked over for one module, and */
	GEN_SCHEMA_COST = 1 << 10, /* what else a schema counts for */
	GEN_REFS = 256,            /* $refs that are remembered */
	GEN_FOREIGN = 1 << 21,     /* bytes of texts and constants that may be taken over into it */
};

static inline void put_text(struct json *j, const char *text)
{
	json_raw(j, text, strlen(text));
}

static inline bool is_there(struct json_text t)
{
	return t.p != NULL;
}

struct gen;

/* --- gen_text.c --- */

/* The characters of a string as UTF-8; NUL is one of them. 0, -EINVAL: it is none; -ENOMEM. ret is to be released in any case. */
int gen_decode(struct json_text t, struct json *ret);
/* Write a text as a literal. There is no other way from foreign text into a module but names. */
void gen_literal(struct json *out, const char *p, size_t n);
/* Write a text about what stands before it, as a statement; nothing where there is none. */
void gen_doc(struct gen *g, struct json_text doc, struct json *out);
/* Write a value as a constant. false: it is too deep, and something of it is written. */
bool gen_value(struct json *out, struct json_text v);

/* --- gen_names.c --- */

/* Names that are taken. */
struct taken {
	uint64_t *hashes;
	size_t n, cap;
	bool failed;
};

void taken_done(struct taken *t);
bool taken_has(const struct taken *t, const char *name);
void taken_add(struct taken *t, const char *name);
/* Take a name, or one that begins like it and is free. separator: between it and a number. */
void taken_find(struct taken *t, const char *separator, char name[GEN_NAME]);

/* Whether it is a name of Python, and no keyword. */
bool gen_is_name(const char *s);
/* A name for a text: what is none of [A-Za-z0-9_] is '_'; one that could not begin with a letter begins with prefix. No keyword. */
void gen_name(const char *p, size_t n, const char *prefix, char ret[GEN_NAME]);
/* Another one, that has an underscore at its end. */
void gen_name_other(char name[GEN_NAME]);
/* The same in CamelCase, for a class. */
void gen_class_name(const char *p, size_t n, char ret[GEN_NAME]);
/* Take those that neither a class nor a field must have, since pydantic, or the types of fields, use them. */
void gen_reserve(struct taken *t);

/* --- gen_schema.c --- */

#define GEN_KEYWORDS(KEYWORD)                            \
	KEYWORD(REF, "$ref")                             \
	KEYWORD(TYPE, "type")                            \
	KEYWORD(DESCRIPTION, "description")              \
	KEYWORD(CONST, "const")                          \
	KEYWORD(ENUM, "enum")                            \
	KEYWORD(ALL_OF, "allOf")                         \
	KEYWORD(ANY_OF, "anyOf")                         \
	KEYWORD(ONE_OF, "oneOf")                         \
	KEYWORD(NULLABLE, "nullable")                    \
	KEYWORD(PROPERTIES, "properties")                \
	KEYWORD(PATTERN_PROPERTIES, "patternProperties") \
	KEYWORD(MORE_PROPERTIES, "additionalProperties") \
	KEYWORD(REQUIRED, "required")                    \
	KEYWORD(ITEMS, "items")                          \
	KEYWORD(PREFIX_ITEMS, "prefixItems")             \
	KEYWORD(MORE_ITEMS, "additionalItems")           \
	KEYWORD(DEFAULT, "default")                      \
	KEYWORD(MINIMUM, "minimum")                      \
	KEYWORD(MAXIMUM, "maximum")                      \
	KEYWORD(ABOVE, "exclusiveMinimum")               \
	KEYWORD(BELOW, "exclusiveMaximum")               \
	KEYWORD(MULTIPLE_OF, "multipleOf")               \
	KEYWORD(MIN_LENGTH, "minLength")                 \
	KEYWORD(MAX_LENGTH, "maxLength")                 \
	KEYWORD(PATTERN, "pattern")                      \
	KEYWORD(MIN_ITEMS, "minItems")                   \
	KEYWORD(MAX_ITEMS, "maxItems")

#define GEN_KEYWORD_ID(id, name) KW_##id,
enum gen_keyword { GEN_KEYWORDS(GEN_KEYWORD_ID) KW_MAX };
#undef GEN_KEYWORD_ID

struct schema {
	struct json_text text;
	struct json_member kw[KW_MAX];
};

/* A $ref, what it means, and the last word of it. */
struct ref {
	const char *root;
	struct json_text from, to;
	char word[GEN_NAME];
};

enum class_kind { CLASS_MODEL, CLASS_ENUM };

struct gen_class {
	const char *at; /* where its schema is */
	enum class_kind kind;
	bool done; /* it is written: before, it is a name in quotes */
	bool null; /* its schema takes null, too */
	char name[GEN_NAME];
};

struct gen {
	struct json *out;                          /* classes, as soon as they are whole */
	struct json_text root;                     /* where a $ref begins */
	struct taken names;                        /* of classes; those that are reserved, too */
	struct gen_class classes[GEN_CLASSES + 2]; /* Params and Result have their place */
	size_t nclasses, nfields;
	struct ref refs[GEN_REFS];
	size_t nrefs;
	const char *open[GEN_DEPTH]; /* schemas that are being looked at */
	unsigned int depth;
	size_t looked_at, foreign; /* how much more may be */
	bool forward;              /* a class was named before it was there */
	bool failed;               /* no memory */
};

/* Whether so much more may be walked over, or taken over. */
bool gen_look(struct gen *g, size_t n);
bool gen_take(struct gen *g, size_t n);

static inline struct json_text keyword(const struct schema *s, enum gen_keyword k)
{
	return s->kw[k].value;
}

/* A keyword, if its value is of that kind. */
struct json_text keyword_of(const struct schema *s, enum gen_keyword k, char kind);
bool json_is(struct json_text t, const char *word);
/* Whether a value is that string. */
bool json_says(struct json_text t, const char *text);

/* Take a schema apart; what is no object has no keywords. */
void schema_read(struct gen *g, struct json_text t, struct schema *ret);
/* What a $ref means, and the last word of it; none if it is elsewhere or nowhere. */
struct json_text schema_ref(struct gen *g, struct json_text ref, char word[GEN_FIELD_NAME]);
/* The schema at the end of its $refs. */
void schema_follow(struct gen *g, struct json_text t, struct schema *ret);
/* How many elements an array has, up to max. */
size_t json_count(struct json_text t, size_t max);

/* --- gen_types.c --- */

enum type_kind {
	TYPE_ANY,
	TYPE_NONE,
	TYPE_BOOL,
	TYPE_INT,
	TYPE_FLOAT,
	TYPE_STR,
	TYPE_LIST,
	TYPE_DICT,
	TYPE_LITERAL,
	TYPE_ENUM,
	TYPE_TUPLE,
	TYPE_UNION,
	TYPE_MODEL,
};

struct type {
	struct json text;
	enum type_kind kind;
	bool null;             /* None as well */
	bool forward;          /* it has a class in it that is not there yet */
	bool classes;          /* it has a class in it */
	struct json_text from; /* the schema of it: what bounds it, or its values */
};

void type_done(struct type *t);
void type_set(struct type *t, enum type_kind kind, const char *text);
/* Write it; optional: with None in any case. */
void type_put(const struct type *t, bool optional, struct json *out);
/* What a schema means. hint: what a class of it would be named after. */
void gen_type(struct gen *g, struct json_text schema, const char *hint, struct type *ret);

/* --- gen_enums.c --- */

void gen_enum(struct gen *g, const struct schema *s, const char *hint, struct type *ret);
void gen_const(struct gen *g, const struct schema *s, struct type *ret);
/* Whether a value is among those of a schema with enum or const. */
bool gen_enum_has(struct gen *g, struct json_text schema, struct json_text value);

/* --- gen_models.c --- */

/* A class for a schema: a name is found for it, and it is known from now on. NULL: there are too many. */
struct gen_class *gen_class_new(struct gen *g, const char *at, enum class_kind kind,
				const char *hint);
/* Write the class of an object with properties, its own or those of its allOf. alternatives: those of anyOf and oneOf, too. */
void gen_model(struct gen *g, const struct schema *s, struct gen_class *c, bool alternatives);

/* --- gen_fields.c --- */

struct field {
	char key[GEN_FIELD_NAME]; /* as it was */
	char name[GEN_NAME];
	bool required;
	struct json_text schema;
	struct type type;
};

/* Write a field of a class. */
void gen_field(struct gen *g, const struct field *f, struct json *out);
