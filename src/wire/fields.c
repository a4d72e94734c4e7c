// SPDX-License-Identifier: Apache-2.0
/*
 * Reading a document by a table. The members of an object are looked up once, in the order of the
 * text; then the rows are gone through in theirs, which is the order in which problems are told.
 * Work stops with the problem after the last one that is told: a body full of them costs no more.
 */
#include "wire/fields.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/own.h"

struct fields_chunk {
	struct fields_chunk *next;
	max_align_t bytes[];
};

struct decoder {
	const struct jsonr *doc;
	struct field_errors *errs;
	struct fields_block *mem;
	struct field_step path[FIELD_PATH_MAX];
	unsigned int depth;
};

/* --- problems --------------------------------------------------------------------------------- */

static void add(struct field_errors *errs, const struct field_step *path, unsigned int depth,
		struct field_problem p)
{
	if (errs->n == FIELD_ERRORS_MAX) {
		errs->more = true;
		return;
	}
	p.depth = depth;
	(void)memcpy(p.path, path, depth * sizeof(*path));
	errs->v[errs->n++] = p;
}

static void refuse(struct decoder *x, enum field_fault fault, const struct jsonr_node *input)
{
	add(x->errs, x->path, x->depth, (struct field_problem){ .fault = fault, .input = input });
}

static void refuse_bound(struct decoder *x, enum field_fault fault, const struct jsonr_node *input,
			 int64_t bound)
{
	add(x->errs, x->path, x->depth,
	    (struct field_problem){ .fault = fault, .input = input, .bound = bound });
}

void field_errors_json(struct field_errors *errs, const struct jsonr_error *e)
{
	struct field_step at = { .index = e->chars };

	errs->n = 0;
	errs->more = false;
	add(errs, &at, 1,
	    (struct field_problem){
		    .fault = FAULT_JSON, .bound = (int64_t)e->offset, .why = e->why });
}

static const struct jsonr_node *find(const struct jsonr *doc, const struct field_step *path,
				     unsigned int depth)
{
	const struct jsonr_node *n = jsonr_root(doc);

	for (unsigned int i = 0; i < depth; i++) {
		if (path[i].key != NULL) {
			n = jsonr_get(doc, n, path[i].key);
			continue;
		}
		n = jsonr_first(doc, n);
		for (size_t k = 0; k < path[i].index; k++)
			n = jsonr_next(doc, n);
	}
	return n;
}

void field_errors_value(struct field_errors *errs, const struct jsonr *doc,
			const struct field_step *path, unsigned int depth, const char *why)
{
	assert(depth <= FIELD_PATH_MAX);
	add(errs, path, depth,
	    (struct field_problem){
		    .fault = FAULT_VALUE, .input = find(doc, path, depth), .why = why });
}

/* Where refuse() says that it is. Tables are ours: fields_check() has seen that they fit. */
static void enter(struct decoder *x, const char *key, size_t index)
{
	assert(x->depth < FIELD_PATH_MAX);
	x->path[x->depth++] = (struct field_step){ .key = key, .index = index };
}

static void leave(struct decoder *x)
{
	x->depth--;
}

/* --- memory ----------------------------------------------------------------------------------- */

static void *allocate(struct fields_block *mem, size_t n, size_t size)
{
	struct fields_chunk *chunk;
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes) ||
	    __builtin_add_overflow(bytes, sizeof(*chunk), &bytes))
		return NULL;
	chunk = calloc(1, bytes);
	if (chunk == NULL)
		return NULL;
	chunk->next = mem->chunks;
	mem->chunks = chunk;
	return chunk->bytes;
}

void fields_block_done(struct fields_block *mem)
{
	while (mem->chunks != NULL) {
		struct fields_chunk *next = mem->chunks->next;

		free(mem->chunks);
		mem->chunks = next;
	}
}

/* --- members ---------------------------------------------------------------------------------- */

static void *member(void *out, size_t at)
{
	return (char *)out + at;
}

static void put_int(void *out, const struct field *row, int64_t v)
{
	(void)memcpy(member(out, row->at), &v, sizeof(v));
}

static void put_bool(void *out, size_t at, bool v)
{
	(void)memcpy(member(out, at), &v, sizeof(v));
}

static void put_str(void *out, const struct field *row, struct field_str v)
{
	(void)memcpy(member(out, row->at), &v, sizeof(v));
}

static void put_list(void *out, const struct field *row, struct field_list v)
{
	(void)memcpy(member(out, row->at), &v, sizeof(v));
}

static void put_defaults(const struct fields *table, void *out)
{
	(void)memset(out, 0, table->size);
	for (size_t i = 0; i < table->n; i++) {
		const struct field *row = &table->rows[i];

		switch (row->type) {
		case FIELD_STRING:
		case FIELD_BASE64:
			if (row->text != NULL)
				put_str(out, row,
					(struct field_str){ row->text, strlen(row->text), false });
			break;
		case FIELD_INT:
		case FIELD_MILLI:
			put_int(out, row, row->def);
			break;
		case FIELD_BOOL:
		case FIELD_BOOL_LENIENT:
			put_bool(out, row->at, row->def != 0);
			break;
		case FIELD_OBJECT:
			put_defaults(row->sub, member(out, row->at));
			break;
		case FIELD_LIST:
		case FIELD_STRINGS:
		case FIELD_MAP:
		case FIELD_TYPE_MAX:
			break;
		}
	}
}

static void put_null(const struct field *row, void *out)
{
	switch (row->type) {
	case FIELD_STRING:
	case FIELD_BASE64:
		put_str(out, row, (struct field_str){ 0 });
		break;
	case FIELD_INT:
	case FIELD_MILLI:
		put_int(out, row, 0);
		break;
	case FIELD_BOOL:
	case FIELD_BOOL_LENIENT:
		put_bool(out, row->at, false);
		break;
	case FIELD_OBJECT:
	case FIELD_LIST:
	case FIELD_STRINGS:
	case FIELD_MAP:
	case FIELD_TYPE_MAX:
		break; /* as absent */
	}
}

/* Whether a text is one of those, which a space separates. */
static bool is_word(const char *words, const struct jsonr_node *n)
{
	while (*words != '\0') {
		size_t len = strcspn(words, " ");

		if (len == n->len && memcmp(words, n->string, len) == 0)
			return true;
		words += len + (words[len] == ' ');
	}
	return false;
}

static void read_string(struct decoder *x, const struct field *row, const struct jsonr_node *n,
			void *out)
{
	if (n->type != JSONR_STRING)
		refuse(x, FAULT_NOT_STRING, n);
	else if (n->len < row->min)
		refuse_bound(x, FAULT_TOO_SHORT, n, row->min);
	else if (n->len > row->max)
		refuse_bound(x, FAULT_TOO_LONG, n, row->max);
	else if (row->words != NULL && !is_word(row->words, n))
		add(x->errs, x->path, x->depth,
		    (struct field_problem){
			    .fault = FAULT_NOT_WORD, .input = n, .why = row->words });
	else
		put_str(out, row, (struct field_str){ n->string, n->len, true });
}

static void read_int(struct decoder *x, const struct field *row, const struct jsonr_node *n,
		     void *out)
{
	if (n->type != JSONR_INT)
		refuse(x, FAULT_NOT_INT, n);
	else if (n->integer < row->min)
		refuse_bound(x, FAULT_TOO_SMALL, n, row->min);
	else if (n->integer > row->max)
		refuse_bound(x, FAULT_TOO_LARGE, n, row->max);
	else
		put_int(out, row, n->integer);
}

/* Thousandths, rounded to the nearest; what a double cannot say of them nobody meant. */
static void read_milli(struct decoder *x, const struct field *row, const struct jsonr_node *n,
		       void *out)
{
	const double above = 9e15;
	double v = n->type == JSONR_INT ? (double)n->integer : n->real;
	int64_t milli;

	if (n->type != JSONR_INT && n->type != JSONR_REAL) {
		refuse(x, FAULT_NOT_NUMBER, n);
		return;
	}
	milli = v > above    ? INT64_MAX
		: v < -above ? INT64_MIN
			     : (int64_t)(v * 1000 + (v < 0 ? -0.5 : 0.5));
	if (milli < row->min || milli > row->max)
		add(x->errs, x->path, x->depth,
		    (struct field_problem){ .fault = milli < row->min ? FAULT_TOO_SMALL
								      : FAULT_TOO_LARGE,
					    .input = n,
					    .bound = milli < row->min ? row->min : row->max,
					    .milli = true });
	else
		put_int(out, row, milli);
}

/* 0 or 1; or the fault, negative. A real that is an integer is taken, and refused, like one. */
static int number_to_bool(const struct jsonr_node *n)
{
	const double above = 9223372036854775808.0;
	int64_t v = n->integer;

	if (n->type == JSONR_REAL) {
		if (!(n->real > -above && n->real < above) || (double)(int64_t)n->real != n->real)
			return -FAULT_NOT_BOOL;
		v = (int64_t)n->real;
	}
	return v == 0 || v == 1 ? (int)v : -FAULT_UNCLEAR_BOOL;
}

static int string_to_bool(const struct jsonr_node *n)
{
	static const char *const words[2][6] = { { "0", "off", "f", "false", "n", "no" },
						 { "1", "on", "t", "true", "y", "yes" } };

	for (int v = 0; v < 2; v++)
		for (size_t i = 0; i < ARRAY_LEN(words[v]); i++)
			if (strcasecmp(n->string, words[v][i]) == 0)
				return v;
	return -FAULT_UNCLEAR_BOOL;
}

static void read_bool(struct decoder *x, const struct field *row, const struct jsonr_node *n,
		      void *out)
{
	int v = -FAULT_NOT_BOOL;

	if (n->type == JSONR_BOOL)
		v = n->boolean ? 1 : 0;
	else if (row->type == FIELD_BOOL_LENIENT && n->type == JSONR_STRING)
		v = string_to_bool(n);
	else if (row->type == FIELD_BOOL_LENIENT && (n->type == JSONR_INT || n->type == JSONR_REAL))
		v = number_to_bool(n);
	if (v < 0)
		refuse(x, (enum field_fault) - v, n);
	else
		put_bool(out, row->at, v != 0);
}

/* --- containers ------------------------------------------------------------------------------- */

static int read_object(struct decoder *x, const struct fields *table, const struct jsonr_node *n,
		       void *out);

/* Whether a container has as many elements as it may. */
static bool has_length(struct decoder *x, const struct field *row, const struct jsonr_node *n)
{
	bool few = n->len < row->min;

	if (!few && n->len <= row->max)
		return true;
	refuse_bound(x, few ? FAULT_TOO_FEW : FAULT_TOO_MANY, n, few ? row->min : row->max);
	return false;
}

/* FIELD_STRINGS and FIELD_MAP. */
static int read_texts(struct decoder *x, const struct field *row, const struct jsonr_node *n,
		      void *out)
{
	bool map = row->type == FIELD_MAP;
	size_t size = map ? sizeof(struct field_pair) : sizeof(struct field_str);
	struct field_list list = { 0 };

	if (n->type != (map ? JSONR_OBJECT : JSONR_ARRAY)) {
		refuse(x, map ? FAULT_NOT_OBJECT : FAULT_NOT_LIST, n);
		return 0;
	}
	if (!has_length(x, row, n) || n->len == 0)
		return 0;
	list.v = allocate(x->mem, n->len, size);
	if (list.v == NULL)
		return -ENOMEM;
	for (const struct jsonr_node *c = jsonr_first(x->doc, n); c != NULL && !x->errs->more;
	     c = jsonr_next(x->doc, c)) {
		struct field_pair pair = { .key = { c->key, c->key_len, true } };

		enter(x, c->key, list.n);
		if (c->type != JSONR_STRING)
			refuse(x, FAULT_NOT_STRING, c);
		else
			pair.value = (struct field_str){ c->string, c->len, true };
		leave(x);
		(void)memcpy(member(list.v, list.n * size),
			     map ? (const void *)&pair : (const void *)&pair.value, size);
		list.n++;
	}
	put_list(out, row, list);
	return 0;
}

static int read_member(struct decoder *x, const struct field *row, const struct jsonr_node *n,
		       void *out);

/* An element of a list. */
static int read_element(struct decoder *x, const struct fields *table, const struct jsonr_node *n,
			void *out)
{
	if ((table->flags & FIELDS_OR_VALUE) == 0 || n->type == JSONR_OBJECT)
		return read_object(x, table, n, out);
	put_defaults(table, out);
	for (size_t i = 0; i < table->n; i++) {
		const struct field *row = &table->rows[i];

		if ((n->type == JSONR_STRING && row->type == FIELD_STRING) ||
		    (n->type == JSONR_INT && row->type == FIELD_INT))
			return read_member(x, row, n, out);
	}
	refuse(x, FAULT_NOT_VALUE, n);
	return 0;
}

static int read_list(struct decoder *x, const struct field *row, const struct jsonr_node *n,
		     void *out)
{
	struct field_list list = { 0 };
	int rc = 0;

	if (n->type != JSONR_ARRAY) {
		refuse(x, FAULT_NOT_LIST, n);
		return 0;
	}
	if (!has_length(x, row, n) || n->len == 0)
		return 0;
	list.v = allocate(x->mem, n->len, row->sub->size);
	if (list.v == NULL)
		return -ENOMEM;
	for (const struct jsonr_node *c = jsonr_first(x->doc, n);
	     c != NULL && rc == 0 && !x->errs->more; c = jsonr_next(x->doc, c)) {
		enter(x, NULL, list.n);
		rc = read_element(x, row->sub, c, member(list.v, list.n * row->sub->size));
		leave(x);
		list.n++;
	}
	put_list(out, row, list);
	return rc;
}

static int read_member(struct decoder *x, const struct field *row, const struct jsonr_node *n,
		       void *out)
{
	int rc = 0;

	if (n->type == JSONR_NULL && (row->flags & FIELD_NULLABLE) != 0) {
		put_null(row, out);
		return 0;
	}
	if (n->type == JSONR_BOOL && (row->flags & FIELD_OR_BOOL) != 0) {
		put_bool(out, row->set_at, n->boolean); /* its members have their defaults */
		return 0;
	}
	switch (row->type) {
	case FIELD_STRING:
	case FIELD_BASE64:
		read_string(x, row, n, out);
		break;
	case FIELD_INT:
		read_int(x, row, n, out);
		break;
	case FIELD_MILLI:
		read_milli(x, row, n, out);
		break;
	case FIELD_BOOL:
	case FIELD_BOOL_LENIENT:
		read_bool(x, row, n, out);
		break;
	case FIELD_OBJECT:
		rc = read_object(x, row->sub, n, member(out, row->at));
		break;
	case FIELD_LIST:
		rc = read_list(x, row, n, out);
		break;
	case FIELD_STRINGS:
	case FIELD_MAP:
		rc = read_texts(x, row, n, out);
		break;
	case FIELD_TYPE_MAX:
		break;
	}
	if (row->set_at != 0)
		put_bool(out, row->set_at, true);
	return rc;
}

static size_t row_of(const struct fields *table, const struct jsonr_node *n)
{
	size_t i;

	for (i = 0; i < table->n; i++)
		if (strcmp(table->rows[i].name, n->key) == 0)
			break;
	return i;
}

/* How many of the alternatives are given; a null that is allowed is none. */
static size_t count_given(const struct fields *table, const struct jsonr_node *const found[])
{
	size_t given = 0;

	for (size_t i = 0; i < table->n; i++) {
		const struct field *row = &table->rows[i];

		if ((row->flags & FIELD_ONE_OF) != 0 && found[i] != NULL &&
		    (found[i]->type != JSONR_NULL || (row->flags & FIELD_NULLABLE) == 0))
			given++;
	}
	return given;
}

static int read_rows(struct decoder *x, const struct fields *table, const struct jsonr_node *n,
		     const struct jsonr_node *const found[], void *out)
{
	size_t given = count_given(table, found), before = x->errs->n;
	bool told = false; /* where none of the alternatives is given, the first one is missed */
	int rc = 0;

	for (size_t i = 0; i < table->n && rc == 0 && !x->errs->more; i++) {
		const struct field *row = &table->rows[i];
		bool one_of = (row->flags & FIELD_ONE_OF) != 0;

		enter(x, row->name, 0);
		if (one_of && given == 0 && !told)
			add(x->errs, x->path, x->depth,
			    (struct field_problem){
				    .fault = FAULT_MISSING, .input = n, .table = table });
		else if (found[i] != NULL)
			rc = read_member(x, row, found[i], out);
		else if ((row->flags & FIELD_REQUIRED) != 0)
			refuse(x, FAULT_MISSING, n);
		told = told || one_of;
		leave(x);
	}
	if (rc == 0 && given > 1 && x->errs->n == before)
		add(x->errs, x->path, x->depth,
		    (struct field_problem){ .fault = FAULT_NOT_ONE, .input = n, .table = table });
	return rc;
}

static int read_object(struct decoder *x, const struct fields *table, const struct jsonr_node *n,
		       void *out)
{
	const struct jsonr_node *found[FIELDS_ROWS_MAX] = { 0 };
	int rc;

	assert(table->n <= FIELDS_ROWS_MAX);
	put_defaults(table, out);
	if (n->type != JSONR_OBJECT) {
		refuse(x, FAULT_NOT_OBJECT, n);
		return 0;
	}
	for (const struct jsonr_node *c = jsonr_first(x->doc, n); c; c = jsonr_next(x->doc, c)) {
		size_t i = row_of(table, c);

		if (i < table->n)
			found[i] = c;
	}
	rc = read_rows(x, table, n, found, out);
	if (rc < 0 || (table->flags & FIELDS_CLOSED) == 0)
		return rc;
	for (const struct jsonr_node *c = jsonr_first(x->doc, n); c != NULL && !x->errs->more;
	     c = jsonr_next(x->doc, c)) {
		if (row_of(table, c) < table->n)
			continue;
		enter(x, c->key, 0);
		refuse(x, FAULT_UNKNOWN, c);
		leave(x);
	}
	return 0;
}

int fields_decode(const struct fields *table, const struct jsonr *doc, void *out,
		  struct field_errors *errs, struct fields_block *mem)
{
	struct decoder x = { .doc = doc, .errs = errs, .mem = mem };
	const struct jsonr_node *root = jsonr_root(doc);
	int rc = 0;

	errs->n = 0;
	errs->more = false;
	if (root == NULL)
		refuse(&x, FAULT_MISSING, NULL);
	else
		rc = read_object(&x, table, root, out);
	if (rc < 0)
		return rc;
	return errs->n > 0 ? -EINVAL : 0;
}
