/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request bodies through tables. A table says what the members of an object are called, of which
 * type and how large they may be, and where in a C struct they go; one function reads a document
 * into that struct, one writes the table as JSON Schema for /openapi.json. Nothing else looks into
 * a body.
 *
 * Problems are gathered, not only the first one, and are shown in two shapes: FastAPI's with the
 * types and words of pydantic 2, for dialects whose clients know those, and our own.
 *
 * What was read points into the document and its text: both must live as long as the struct.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/jsonr.h"

enum {
	FIELDS_ROWS_MAX = 32,  /* of a table */
	FIELD_PATH_MAX = 8,    /* keys and indices: three lists inside each other, and a member */
	FIELD_ERRORS_MAX = 16, /* problems of a body that are told */
	FIELD_PATH_TEXT = 256, /* "files[0].path" */
};

#define FIELD_NO_MIN INT64_MIN
#define FIELD_NO_MAX INT64_MAX

struct field_str {
	const char *p; /* ends in NUL and contains none; NULL for null and without a default */
	size_t n;
	bool set; /* the body has it, and not as null */
};

struct field_list {
	void *v; /* n structs of the sub-table, or of the type, in the fields_block */
	size_t n;
};

struct field_pair {
	struct field_str key, value;
};

enum field_type {
	FIELD_STRING, /* struct field_str */
	FIELD_BASE64, /* struct field_str: the text, whoever decodes it sees whether it is right */
	FIELD_INT,    /* int64_t; no true, no 1.0 */
	FIELD_BOOL,   /* bool; true or false */
	FIELD_BOOL_LENIENT, /* bool; also 0, 1.0, "yes", "OFF" and the like, as pydantic has it */
	FIELD_OBJECT,       /* the struct of the sub-table; its defaults where it is absent */
	FIELD_LIST,         /* struct field_list */
	FIELD_STRINGS,      /* struct field_list of struct field_str */
	FIELD_MAP,          /* struct field_list of struct field_pair: any keys, texts as values */
	FIELD_MILLI,        /* int64_t: thousandths of a number, which may have a fraction */
	FIELD_TYPE_MAX,
};

enum field_flags {
	FIELD_REQUIRED = 1u << 0,
	FIELD_NULLABLE = 1u << 1, /* null is allowed; it reads as 0, false, NULL, no elements */
	FIELD_ONE_OF = 1u << 2,   /* exactly one of the rows of the table with this flag is given */
	FIELD_OR_BOOL = 1u << 3,  /* OBJECT: true stands for one without members, false for none */
};

/* Written in this order up to `at`, and from there on by name: a row ends in .doc = "…". */
struct field {
	const char *name;
	enum field_type type;
	unsigned int flags;
	/* INT, MILLI: the value. STRING, BASE64: the length in bytes. LIST, STRINGS, MAP: the number
	 * of elements. */
	int64_t min, max;
	int64_t def; /* INT, MILLI, BOOL: what an absent one reads as */
	size_t at;   /* offset of the member */
	const char *doc;
	const struct fields *sub; /* OBJECT, LIST */
	const char *text;         /* STRING: what an absent one reads as, or NULL */
	/* Offset of a bool: the body has it, and not as null. 0: nobody wants to know; so it is
	 * never the first member. INT, MILLI, BOOL, OBJECT, MAP; the others say so themselves. */
	size_t set_at;
	const char
		*words; /* STRING: the only ones that are taken, separated by a space; NULL: any */
};

enum fields_flags {
	FIELDS_CLOSED = 1u << 0, /* a key that has no row is refused, not ignored */
	/* In a list: a text or an integer stands for an object whose only member is the first row of that type. */
	FIELDS_OR_VALUE = 1u << 1,
};

struct fields {
	const char *name; /* of the schema */
	const struct field *rows;
	size_t n;
	size_t size; /* of the struct */
	unsigned int flags;
};

/* --- problems --------------------------------------------------------------------------------- */

enum field_fault {
	FAULT_JSON, /* not JSON at all */
	FAULT_MISSING,
	FAULT_NOT_STRING,
	FAULT_NOT_INT,
	FAULT_NOT_NUMBER,
	FAULT_NOT_BOOL,
	FAULT_UNCLEAR_BOOL, /* of a type that could be one, but says something else */
	FAULT_NOT_LIST,
	FAULT_NOT_OBJECT,
	FAULT_NOT_VALUE, /* FIELDS_OR_VALUE: neither an object nor what may stand for one */
	FAULT_TOO_SMALL,
	FAULT_TOO_LARGE,
	FAULT_TOO_SHORT,
	FAULT_TOO_LONG,
	FAULT_TOO_FEW,
	FAULT_TOO_MANY,
	FAULT_NOT_WORD, /* none of the row's */
	FAULT_NOT_ONE,  /* more than one of the rows with FIELD_ONE_OF */
	FAULT_UNKNOWN,  /* no row has this key */
	FAULT_VALUE,    /* what the caller says */
	FAULT_MAX,
};

/* A key, or an index where that is NULL. */
struct field_step {
	const char *key;
	size_t index;
};

struct field_problem {
	enum field_fault fault;
	struct field_step path[FIELD_PATH_MAX];
	unsigned int depth;
	const struct jsonr_node *input; /* what is wrong; NULL when there is no body */
	int64_t bound;                  /* of TOO_… */
	bool milli;                     /* the bound is in thousandths */
	const struct fields *table;     /* of NOT_ONE, and of MISSING where another would do */
	const char *why;                /* of JSON, VALUE; of NOT_WORD the words */
};

struct field_errors {
	struct field_problem v[FIELD_ERRORS_MAX];
	size_t n;
	bool more; /* there were others, which nobody looked for */
};

/* Memory of the lists; begins as zeros. */
struct fields_block {
	struct fields_chunk *chunks;
};

/* --- calls ------------------------------------------------------------------------------------ */

/* Read the document into *out, which is set to the defaults first. A document without a root stands
 * for a body that is not there.
 *   -EINVAL  *errs says why, in the order of the rows; *out is not to be used
 *   -ENOMEM  likewise, *errs may be empty
 * In every case the caller ends *mem, after which lists are gone. */
int fields_decode(const struct fields *table, const struct jsonr *doc, void *out,
		  struct field_errors *errs, struct fields_block *mem);
void fields_block_done(struct fields_block *mem);

/* Make *errs say that the body is not JSON, as jsonr_parse() found. */
void field_errors_json(struct field_errors *errs, const struct jsonr_error *e);

/* Add a problem that only the caller can find: bad base64, a path that leads out. Lower case, no
 * full stop; the text is kept, not copied. */
void field_errors_value(struct field_errors *errs, const struct jsonr *doc,
			const struct field_step *path, unsigned int depth, const char *why);

/* {"detail":[{"type","loc","msg","input"[,"ctx"]}…]}. At least one problem. */
void field_errors_fastapi(const struct field_errors *errs, const struct jsonr *doc, struct json *j);

/* {"error":{"code","message","field","hint","request_id"}}, of the first problem. The code is
 * invalid_json, invalid_field or unknown_field. request_id may be NULL. */
void field_errors_own(const struct field_errors *errs, const char *request_id, struct json *j);

/* The table as a JSON Schema object (2020-12, that is, of OpenAPI 3.1). */
void fields_schema(const struct fields *table, struct json *j, const char *key);

/* What is wrong with a table, for a test; NULL for nothing. */
const char *fields_check(const struct fields *table);
