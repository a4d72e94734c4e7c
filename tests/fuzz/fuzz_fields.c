/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request bodies through a table. Input: the body.
 *
 * Claims: it is taken exactly if it keeps the rules that are written a second time below, and then every member is
 * what the document has; otherwise both answers are JSON, bounded, and name as many problems as were found; what is
 * written again and read again gives the same answer. The same table refuses unknown keys, and only those, when it
 * is closed.
 */
#include "wire/fields.h"

#include <errno.h>
#include <stdbool.h>

#include "base/own.h"

#include "fuzz_input.h"

enum { FILES_MAX = 3, PATH_MAX_ = 6, LEVEL_MAX = 9, WORDS_MAX = 3, PAIRS_MAX = 2 };

struct file {
	struct field_str path, id, text;
};

struct box {
	int64_t level;
	struct field_str name;
};

struct request {
	struct field_str code, input;
	int64_t level;
	bool level_set, lax, strict, box_set;
	struct field_list files, argv, env;
	int64_t cpus;
	struct field_str mode;
	struct box box;
};

#define AT(s, member) offsetof(struct s, member)

/* clang-format off */
static const struct field file_rows[] = {
	{ "path", FIELD_STRING, FIELD_REQUIRED, 1, PATH_MAX_, 0, AT(file, path), .doc = "x" },
	{ "id", FIELD_STRING, FIELD_ONE_OF, 0, FIELD_NO_MAX, 0, AT(file, id), .doc = "x" },
	{ "text", FIELD_BASE64, FIELD_ONE_OF | FIELD_NULLABLE, 0, FIELD_NO_MAX, 0, AT(file, text), .doc = "x" },
};
static const struct fields file_table = { "File", file_rows, ARRAY_LEN(file_rows), sizeof(struct file), 0 };

static const struct field box_rows[] = {
	{ "level", FIELD_INT, 0, -LEVEL_MAX, LEVEL_MAX, 1, AT(box, level), .doc = "x" },
	{ "name", FIELD_STRING, 0, 0, FIELD_NO_MAX, 0, AT(box, name), .doc = "x", .text = "none" },
};
static const struct fields box_table = { "Box", box_rows, ARRAY_LEN(box_rows), sizeof(struct box), FIELDS_CLOSED };

static const struct field rows[] = {
	{ "code", FIELD_STRING, FIELD_REQUIRED, 0, FIELD_NO_MAX, 0, AT(request, code), .doc = "x" },
	{ "stdin", FIELD_STRING, FIELD_NULLABLE, 0, FIELD_NO_MAX, 0, AT(request, input), .doc = "x" },
	{ "level", FIELD_INT, FIELD_NULLABLE, 1, LEVEL_MAX, 0, AT(request, level), .doc = "x", .set_at = AT(request, level_set) },
	{ "lax", FIELD_BOOL_LENIENT, 0, 0, 0, true, AT(request, lax), .doc = "x" },
	{ "strict", FIELD_BOOL, 0, 0, 0, false, AT(request, strict), .doc = "x" },
	{ "files", FIELD_LIST, 0, 0, FILES_MAX, 0, AT(request, files), .doc = "x", .sub = &file_table },
	{ "box", FIELD_OBJECT, 0, 0, 0, 0, AT(request, box), .doc = "x", .sub = &box_table, .set_at = AT(request, box_set) },
	{ "argv", FIELD_STRINGS, 0, 1, WORDS_MAX, 0, AT(request, argv), .doc = "x" },
	{ "env", FIELD_MAP, 0, 0, PAIRS_MAX, 0, AT(request, env), .doc = "x" },
	{ "cpus", FIELD_MILLI, 0, 10, 2500, 1500, AT(request, cpus), .doc = "x" },
	{ "mode", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, AT(request, mode), .doc = "x", .text = "slow", .words = "slow fast" },
};
static const struct fields open_table = { "Request", rows, ARRAY_LEN(rows), sizeof(struct request), 0 };
static const struct fields closed_table = { "Request", rows, ARRAY_LEN(rows), sizeof(struct request), FIELDS_CLOSED };
/* clang-format on */

/* --- the rules, a second time ----------------------------------------------------------------------------------- */

typedef const struct jsonr_node *node;

static bool is_null(node n)
{
	return n != NULL && n->type == JSONR_NULL;
}

static bool same(const struct field_str *s, node n)
{
	if (n == NULL || is_null(n))
		return !s->set;
	return s->set && s->p == n->string && s->n == n->len;
}

/* No keys but those that are listed. */
static bool only(const struct jsonr *d, node object, const struct fields *t)
{
	for (node c = jsonr_first(d, object); c != NULL; c = jsonr_next(d, c)) {
		bool known = false;

		for (size_t i = 0; i < t->n; i++)
			known |= strcmp(t->rows[i].name, c->key) == 0;
		if (!known)
			return false;
	}
	return true;
}

static bool file_is_right(const struct jsonr *d, node f)
{
	node path = jsonr_get(d, f, "path"), id = jsonr_get(d, f, "id"),
	     text = jsonr_get(d, f, "text");

	if (f->type != JSONR_OBJECT || path == NULL || path->type != JSONR_STRING ||
	    path->len < 1 || path->len > PATH_MAX_)
		return false;
	if (is_null(text))
		text = NULL;
	if (id != NULL && text == NULL)
		return id->type == JSONR_STRING;
	return id == NULL && text != NULL && text->type == JSONR_STRING;
}

static bool files_are_right(const struct jsonr *d, node files)
{
	if (files == NULL)
		return true;
	if (files->type != JSONR_ARRAY || files->len > FILES_MAX)
		return false;
	for (node c = jsonr_first(d, files); c != NULL; c = jsonr_next(d, c))
		if (!file_is_right(d, c))
			return false;
	return true;
}

static bool in_range(node n, int64_t min)
{
	return n->type == JSONR_INT && n->integer >= min && n->integer <= LEVEL_MAX;
}

static bool box_is_right(const struct jsonr *d, node box)
{
	node level = jsonr_get(d, box, "level"), name = jsonr_get(d, box, "name");

	if (box == NULL)
		return true;
	return box->type == JSONR_OBJECT && (level == NULL || in_range(level, -LEVEL_MAX)) &&
	       (name == NULL || name->type == JSONR_STRING) && only(d, box, &box_table);
}

static bool argv_is_right(const struct jsonr *d, node argv)
{
	if (argv == NULL)
		return true;
	if (argv->type != JSONR_ARRAY || argv->len < 1 || argv->len > WORDS_MAX)
		return false;
	for (node c = jsonr_first(d, argv); c != NULL; c = jsonr_next(d, c))
		if (c->type != JSONR_STRING)
			return false;
	return true;
}

static bool env_is_right(const struct jsonr *d, node env)
{
	if (env == NULL)
		return true;
	if (env->type != JSONR_OBJECT || env->len > PAIRS_MAX)
		return false;
	for (node c = jsonr_first(d, env); c != NULL; c = jsonr_next(d, c))
		if (c->type != JSONR_STRING)
			return false;
	return true;
}

/* Thousandths, or -1. Half of one more or less is the same: what lies just outside of the bounds may be taken. */
static int64_t milli(node n)
{
	double v = n->type == JSONR_INT ? (double)n->integer : n->real;

	if ((n->type != JSONR_INT && n->type != JSONR_REAL) || !(v > 0 && v < 3))
		return -1;
	v = v * 1000 + 0.5;
	return v >= 10 && v < 2501 ? (int64_t)v : -1;
}

static bool mode_is_right(node n)
{
	return n == NULL || (n->type == JSONR_STRING &&
			     (strcmp(n->string, "slow") == 0 || strcmp(n->string, "fast") == 0));
}

/* 0, 1, or -1 for neither. */
static int lax_bool(node n)
{
	static const char yes[] = " 1 t true y yes on ", no[] = " 0 f false n no off ";
	char word[8];

	switch (n->type) {
	case JSONR_BOOL:
		return n->boolean;
	case JSONR_INT:
		return n->integer == 0 ? 0 : n->integer == 1 ? 1 : -1;
	case JSONR_REAL:
		return n->real == 0 ? 0 : n->real == 1 ? 1 : -1;
	case JSONR_STRING:
		if (n->len == 0 || n->len > 5 || strchr(n->string, ' ') != NULL)
			return -1;
		(void)snprintf(word, sizeof(word), " %s ", n->string);
		for (char *c = word; *c != '\0'; c++)
			if (*c >= 'A' && *c <= 'Z')
				*c = (char)(*c + 32);
		return strstr(yes, word) != NULL ? 1 : strstr(no, word) != NULL ? 0 : -1;
	case JSONR_NULL:
	case JSONR_ARRAY:
	case JSONR_OBJECT:
		break;
	}
	return -1;
}

static bool is_right(const struct jsonr *d, node root)
{
	node code = jsonr_get(d, root, "code"), in = jsonr_get(d, root, "stdin"),
	     level = jsonr_get(d, root, "level"), lax = jsonr_get(d, root, "lax"),
	     strict = jsonr_get(d, root, "strict");

	return root->type == JSONR_OBJECT && code != NULL && code->type == JSONR_STRING &&
	       (in == NULL || is_null(in) || in->type == JSONR_STRING) &&
	       (level == NULL || is_null(level) || in_range(level, 1)) &&
	       (lax == NULL || lax_bool(lax) >= 0) &&
	       (strict == NULL || strict->type == JSONR_BOOL) &&
	       files_are_right(d, jsonr_get(d, root, "files")) &&
	       box_is_right(d, jsonr_get(d, root, "box")) &&
	       argv_is_right(d, jsonr_get(d, root, "argv")) &&
	       env_is_right(d, jsonr_get(d, root, "env")) &&
	       (jsonr_get(d, root, "cpus") == NULL || milli(jsonr_get(d, root, "cpus")) >= 0) &&
	       mode_is_right(jsonr_get(d, root, "mode"));
}

static void check_texts(const struct jsonr *d, node root, const struct request *r)
{
	node argv = jsonr_get(d, root, "argv"), env = jsonr_get(d, root, "env"),
	     cpus = jsonr_get(d, root, "cpus"), mode = jsonr_get(d, root, "mode");
	const struct field_str *word = r->argv.v;
	const struct field_pair *pair = r->env.v;

	MUST(r->argv.n == (argv != NULL ? argv->len : 0));
	for (node c = jsonr_first(d, argv); c != NULL; c = jsonr_next(d, c), word++)
		MUST(same(word, c));
	MUST(r->env.n == (env != NULL ? env->len : 0));
	for (node c = jsonr_first(d, env); c != NULL; c = jsonr_next(d, c), pair++)
		MUST(same(&pair->value, c) && pair->key.p == c->key && pair->key.n == c->key_len);
	MUST(r->cpus == (cpus != NULL ? milli(cpus) : 1500));
	MUST(same(&r->mode, mode) && r->mode.p != NULL);
}

static void check_request(const struct jsonr *d, node root, const struct request *r)
{
	node level = jsonr_get(d, root, "level"), lax = jsonr_get(d, root, "lax"),
	     strict = jsonr_get(d, root, "strict"), files = jsonr_get(d, root, "files"),
	     box = jsonr_get(d, root, "box");
	const struct file *f = r->files.v;

	MUST(same(&r->code, jsonr_get(d, root, "code")));
	MUST(same(&r->input, jsonr_get(d, root, "stdin")));
	MUST(r->level_set == (level != NULL && !is_null(level)));
	MUST(r->level == (r->level_set ? level->integer : 0));
	MUST(r->lax == (lax == NULL || lax_bool(lax) == 1));
	MUST(r->strict == (strict != NULL && strict->boolean));
	MUST(r->files.n == (files != NULL ? files->len : 0));
	for (node c = jsonr_first(d, files); c != NULL; c = jsonr_next(d, c), f++)
		MUST(same(&f->path, jsonr_get(d, c, "path")) &&
		     same(&f->id, jsonr_get(d, c, "id")) &&
		     same(&f->text, jsonr_get(d, c, "text")));
	check_texts(d, root, r);
	MUST(r->box_set == (box != NULL));
	level = jsonr_get(d, box, "level");
	MUST(r->box.level == (level != NULL ? level->integer : 1));
	MUST(same(&r->box.name, jsonr_get(d, box, "name")) && r->box.name.p != NULL);
}

/* --- the answers ------------------------------------------------------------------------------------------------ */

static void check_json(struct json *j, size_t problems)
{
	struct jsonr d;
	node n;

	MUST(!j->failed && j->len < 64 * 1024 * (problems + 1));
	MUST(jsonr_parse(&d, j->buf, j->len, NULL) == 0);
	n = jsonr_get(&d, jsonr_root(&d), "detail");
	if (problems > 0)
		MUST(n->type == JSONR_ARRAY && n->len == problems);
	else
		MUST(jsonr_get(&d, jsonr_root(&d), "error")->len == 5);
	jsonr_done(&d);
	json_done(j);
}

static void check_answers(const struct field_errors *errs, const struct jsonr *d)
{
	struct json j;

	MUST(errs->n > 0 && errs->n <= FIELD_ERRORS_MAX);
	MUST(!errs->more || errs->n == FIELD_ERRORS_MAX);
	json_init(&j);
	field_errors_fastapi(errs, d, &j);
	check_json(&j, errs->n);
	field_errors_own(errs, "id", &j);
	check_json(&j, 0);
}

static int decode(const struct fields *table, const struct jsonr *d, struct field_errors *errs)
{
	struct fields_block mem = { 0 };
	struct request r;
	int rc;

	memset(&r, 0x5a, sizeof(r));
	rc = fields_decode(table, d, &r, errs, &mem);
	MUST(rc == 0 || rc == -EINVAL);
	if (rc == 0)
		check_request(d, jsonr_root(d), &r);
	else
		check_answers(errs, d);
	fields_block_done(&mem);
	return rc;
}

/* The same document from its own text: the same answer, or none again. */
static void check_again(const struct jsonr *d, const struct field_errors *errs)
{
	struct field_errors errs2;
	struct jsonr again;
	struct json j;

	json_init(&j);
	jsonr_write(d, jsonr_root(d), &j, NULL);
	MUST(!j.failed && jsonr_parse(&again, j.buf, j.len, NULL) == 0);
	MUST(decode(&open_table, &again, &errs2) == (errs->n > 0 ? -EINVAL : 0));
	MUST(errs2.n == errs->n && errs2.more == errs->more);
	for (size_t i = 0; i < errs->n; i++)
		MUST(errs->v[i].fault == errs2.v[i].fault && errs->v[i].depth == errs2.v[i].depth);
	jsonr_done(&again);
	json_done(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *copy = (char *)exact_copy(data, size);
	struct field_errors errs;
	struct jsonr_error why;
	struct jsonr d;
	int rc = jsonr_parse(&d, copy, size, &why);

	if (rc < 0) {
		field_errors_json(&errs, &why);
		check_answers(&errs, &d);
		MUST(decode(&open_table, &d, &errs) == -EINVAL); /* as no body */
		MUST(errs.n == 1 && errs.v[0].fault == FAULT_MISSING && errs.v[0].depth == 0);
	} else {
		bool right = is_right(&d, jsonr_root(&d));

		MUST((decode(&open_table, &d, &errs) == 0) == right);
		check_again(&d, &errs);
		right = right && only(&d, jsonr_root(&d), &closed_table);
		MUST((decode(&closed_table, &d, &errs) == 0) == right);
	}
	jsonr_done(&d);
	free(copy);
	return 0;
}
