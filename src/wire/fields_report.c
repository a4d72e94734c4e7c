// SPDX-License-Identifier: Apache-2.0
/*
 * Problems of a body, told in two shapes. The words of the first are pydantic's, letter by letter:
 * there are clients that compare them. One table has both.
 */
#include "wire/fields.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"

/* A text goes on with the bound and the unit where there are any. */
static const struct {
	const char *type, *msg, *unit, *ctx;
	const char *own, *own_unit;
} words[] = {
	[FAULT_JSON] = { .type = "json_invalid", .msg = "JSON decode error" },
	[FAULT_MISSING] = { .type = "missing", .msg = "Field required", .own = "is required" },
	[FAULT_NOT_STRING] = { .type = "string_type",
			       .msg = "Input should be a valid string",
			       .own = "must be a string" },
	[FAULT_NOT_INT] = { .type = "int_type",
			    .msg = "Input should be a valid integer",
			    .own = "must be an integer" },
	[FAULT_NOT_NUMBER] = { .type = "float_type",
			       .msg = "Input should be a valid number",
			       .own = "must be a number" },
	[FAULT_NOT_BOOL] = { .type = "bool_type",
			     .msg = "Input should be a valid boolean",
			     .own = "must be true or false" },
	[FAULT_UNCLEAR_BOOL] = { .type = "bool_parsing",
				 .msg = "Input should be a valid boolean, unable to interpret "
					"input",
				 .own = "must be true or false" },
	[FAULT_NOT_LIST] = { .type = "list_type",
			     .msg = "Input should be a valid list",
			     .own = "must be a list" },
	[FAULT_NOT_OBJECT] = { .type = "model_attributes_type",
			       .msg = "Input should be a valid dictionary or object to extract "
				      "fields from",
			       .own = "must be an object" },
	[FAULT_NOT_VALUE] = { .type = "model_attributes_type",
			      .msg = "Input should be a valid dictionary or object to extract "
				     "fields from",
			      .own = "must be an object, or a value that stands for one" },
	[FAULT_TOO_SMALL] = { .type = "greater_than_equal",
			      .msg = "Input should be greater than or equal to ",
			      .ctx = "ge",
			      .own = "must be at least " },
	[FAULT_TOO_LARGE] = { .type = "less_than_equal",
			      .msg = "Input should be less than or equal to ",
			      .ctx = "le",
			      .own = "must be at most " },
	[FAULT_TOO_SHORT] = { .type = "string_too_short",
			      .msg = "String should have at least ",
			      .unit = "character",
			      .ctx = "min_length",
			      .own = "must have at least ",
			      .own_unit = "byte" },
	[FAULT_TOO_LONG] = { .type = "string_too_long",
			     .msg = "String should have at most ",
			     .unit = "character",
			     .ctx = "max_length",
			     .own = "must have at most ",
			     .own_unit = "byte" },
	[FAULT_TOO_FEW] = { .type = "too_short",
			    .msg = "List should have at least ",
			    .unit = "item",
			    .ctx = "min_length",
			    .own = "must have at least ",
			    .own_unit = "element" },
	[FAULT_TOO_MANY] = { .type = "too_long",
			     .msg = "List should have at most ",
			     .unit = "item",
			     .ctx = "max_length",
			     .own = "must have at most ",
			     .own_unit = "element" },
	[FAULT_NOT_WORD] = { .type = "literal_error",
			     .msg = "Input should be ",
			     .own = "must be " },
	[FAULT_NOT_ONE] = { .type = "value_error",
			    .msg = "Value error, there must be ",
			    .own = "must have " },
	[FAULT_UNKNOWN] = { .type = "extra_forbidden",
			    .msg = "Extra inputs are not permitted",
			    .own = "is not a known field" },
	[FAULT_VALUE] = { .type = "value_error", .msg = "Value error, ", .own = "is refused: " },
};

_Static_assert(ARRAY_LEN(words) == FAULT_MAX, "a row per fault");

enum { TEXT = 1024 };

/* A text of bounded length, built piece by piece; what does not fit is left off. */
struct text {
	char s[TEXT];
	size_t n;
};

static void put(struct text *t, const char *s)
{
	size_t len = jsonr_cut(s, strlen(s), TEXT - 1 - t->n);

	(void)memcpy(t->s + t->n, s, len);
	t->n += len;
	t->s[t->n] = '\0';
}

static void put_number(struct text *t, int64_t v)
{
	char digits[24];

	(void)snprintf(digits, sizeof(digits), "%lld", (long long)v);
	put(t, digits);
}

static void put_bound(struct text *t, const struct field_problem *p)
{
	char fraction[8];

	if (!p->milli) {
		put_number(t, p->bound);
		return;
	}
	put_number(t, p->bound / 1000);
	if (p->bound % 1000 == 0)
		return;
	(void)snprintf(fraction, sizeof(fraction), ".%03d", (int)(p->bound % 1000));
	while (fraction[strlen(fraction) - 1] == '0')
		fraction[strlen(fraction) - 1] = '\0';
	put(t, fraction);
}

/* "'a' or 'b'" */
static void put_any_of(struct text *t, const char *list)
{
	const char *before = "'";

	while (*list != '\0') {
		char word[64];
		size_t n = strcspn(list, " ");

		(void)snprintf(word, sizeof(word), "%.*s", (int)n, list);
		put(t, before);
		put(t, word);
		put(t, "'");
		before = " or '";
		list += n + (list[n] == ' ');
	}
}

/* "exactly one of 'a', 'b'" */
static void put_choices(struct text *t, const struct fields *table)
{
	const char *before = "exactly one of '";

	for (size_t i = 0; i < table->n; i++) {
		if ((table->rows[i].flags & FIELD_ONE_OF) == 0)
			continue;
		put(t, before);
		put(t, table->rows[i].name);
		put(t, "'");
		before = ", '";
	}
}

static void put_words(struct text *t, const struct field_problem *p, const char *start,
		      const char *unit)
{
	put(t, start);
	if (words[p->fault].ctx != NULL)
		put_bound(t, p);
	if (unit != NULL) {
		put(t, " ");
		put(t, unit);
		put(t, p->bound == 1 ? "" : "s");
	}
	if (p->fault == FAULT_NOT_ONE)
		put_choices(t, p->table);
	if (p->fault == FAULT_NOT_WORD)
		put_any_of(t, p->why);
	if (p->fault == FAULT_VALUE)
		put(t, p->why);
}

/* --- FastAPI ---------------------------------------------------------------------------------- */

static void write_loc(const struct field_problem *p, struct json *j)
{
	json_open(j, "loc", '[');
	json_str(j, NULL, "body");
	for (unsigned int i = 0; i < p->depth; i++) {
		const char *key = p->path[i].key;

		if (key != NULL)
			json_bytes(j, NULL, key, jsonr_cut(key, strlen(key), JSONR_ECHO_STRING));
		else
			json_u64(j, NULL, p->path[i].index);
	}
	json_close(j, ']');
}

/* Python's readers begin their words with a capital. */
static void write_why(const char *why, struct json *j)
{
	struct text t = { .n = 0 };

	put(&t, why);
	t.s[0] = (char)toupper((unsigned char)t.s[0]);
	json_str(j, "error", t.s);
}

static void write_ctx(const struct field_problem *p, struct json *j)
{
	bool list = p->fault == FAULT_TOO_FEW || p->fault == FAULT_TOO_MANY;
	bool error = p->fault == FAULT_NOT_ONE || p->fault == FAULT_VALUE;

	if (words[p->fault].ctx == NULL && !error && p->fault != FAULT_JSON)
		return;
	json_open(j, "ctx", '{');
	if (list)
		json_str(j, "field_type", "List");
	if (words[p->fault].ctx != NULL && p->milli)
		json_milli(j, words[p->fault].ctx, (uint64_t)p->bound);
	else if (words[p->fault].ctx != NULL)
		json_i64(j, words[p->fault].ctx, p->bound);
	if (list)
		json_u64(j, "actual_length", p->input->len);
	if (error) {
		json_open(j, "error", '{');
		json_close(j, '}');
	}
	if (p->fault == FAULT_JSON)
		write_why(p->why, j);
	json_close(j, '}');
}

static void write_problem(const struct field_problem *p, const struct jsonr *doc, struct json *j)
{
	struct text msg = { .n = 0 };

	put_words(&msg, p, words[p->fault].msg, words[p->fault].unit);
	if (p->fault == FAULT_TOO_FEW || p->fault == FAULT_TOO_MANY) {
		put(&msg, " after validation, not ");
		put_number(&msg, p->input->len);
	}
	json_open(j, NULL, '{');
	json_str(j, "type", words[p->fault].type);
	write_loc(p, j);
	json_str(j, "msg", msg.s);
	if (p->fault == FAULT_JSON) {
		json_open(j, "input", '{');
		json_close(j, '}');
	} else {
		jsonr_echo(doc, p->input, j, "input");
	}
	write_ctx(p, j);
	json_close(j, '}');
}

void field_errors_fastapi(const struct field_errors *errs, const struct jsonr *doc, struct json *j)
{
	assert(errs->n > 0);
	json_open(j, NULL, '{');
	json_open(j, "detail", '[');
	for (size_t i = 0; i < errs->n; i++)
		write_problem(&errs->v[i], doc, j);
	json_close(j, ']');
	json_close(j, '}');
}

/* --- our own ---------------------------------------------------------------------------------- */

/* "files[0].path", cut where it is long: an unknown key may have any length. */
static void put_path(struct text *t, const struct field_problem *p)
{
	for (unsigned int i = 0; i < p->depth; i++) {
		if (p->path[i].key != NULL) {
			put(t, i > 0 ? "." : "");
			put(t, p->path[i].key);
		} else {
			put(t, "[");
			put_number(t, (int64_t)p->path[i].index);
			put(t, "]");
		}
	}
	t->n = jsonr_cut(t->s, t->n, FIELD_PATH_TEXT);
	t->s[t->n] = '\0';
}

static void put_message(struct text *t, const struct field_problem *p, const char *field)
{
	if (p->fault == FAULT_JSON) {
		put(t, "the body is not JSON, at byte ");
		put_number(t, p->bound);
		put(t, ": ");
		put(t, p->why);
		return;
	}
	put(t, p->depth > 0 ? "'" : "the body");
	put(t, field);
	put(t, p->depth > 0 ? "' " : " ");
	put_words(t, p, words[p->fault].own, words[p->fault].own_unit);
}

void field_errors_own(const struct field_errors *errs, const char *request_id, struct json *j)
{
	struct text field = { .n = 0 }, message = { .n = 0 };
	struct field_problem p;

	assert(errs->n > 0);
	p = errs->v[0];
	if (p.fault == FAULT_MISSING && p.table != NULL) {
		p.fault = FAULT_NOT_ONE;
		p.depth--;
	}
	if (p.fault != FAULT_JSON)
		put_path(&field, &p);
	put_message(&message, &p, field.s);
	json_open(j, NULL, '{');
	json_open(j, "error", '{');
	json_str(j, "code",
		 p.fault == FAULT_JSON      ? "invalid_json"
		 : p.fault == FAULT_UNKNOWN ? "unknown_field"
					    : "invalid_field");
	json_str(j, "message", message.s);
	if (field.n > 0)
		json_str(j, "field", field.s);
	else
		json_null(j, "field");
	json_null(j, "hint");
	if (request_id != NULL)
		json_str(j, "request_id", request_id);
	else
		json_null(j, "request_id");
	json_close(j, '}');
	json_close(j, '}');
}
