// SPDX-License-Identifier: Apache-2.0
/* A table as JSON Schema, and what a table must be like. */
#include "wire/fields.h"

#include <string.h>

static const char *const type_str[] = {
	[FIELD_STRING] = "string", [FIELD_BASE64] = "string",        [FIELD_INT] = "integer",
	[FIELD_BOOL] = "boolean",  [FIELD_BOOL_LENIENT] = "boolean", [FIELD_OBJECT] = "object",
	[FIELD_LIST] = "array",    [FIELD_STRINGS] = "array",        [FIELD_MAP] = "object",
	[FIELD_MILLI] = "number",
};

_Static_assert(sizeof(type_str) / sizeof(type_str[0]) == FIELD_TYPE_MAX, "a name per type");

/* --- the schema ------------------------------------------------------------------------------- */

/* Above `from` a minimum says something. */
static void write_bounds(const struct field *row, struct json *j, const char *min, const char *max,
			 int64_t from)
{
	if (row->min > from)
		json_i64(j, min, row->min);
	if (row->max != FIELD_NO_MAX)
		json_i64(j, max, row->max);
}

/* What an absent one reads as. A number that could not be given stands for null. */
static void write_default(const struct field *row, struct json *j)
{
	bool nullable = (row->flags & FIELD_NULLABLE) != 0;

	if ((row->flags & (FIELD_REQUIRED | FIELD_ONE_OF)) != 0)
		return;
	switch (row->type) {
	case FIELD_STRING:
	case FIELD_BASE64:
		if (row->text != NULL)
			json_str(j, "default", row->text);
		else if (nullable)
			json_null(j, "default");
		break;
	case FIELD_INT:
		if (nullable && (row->def < row->min || row->def > row->max))
			json_null(j, "default");
		else
			json_i64(j, "default", row->def);
		break;
	case FIELD_MILLI:
		if (nullable && (row->def < row->min || row->def > row->max))
			json_null(j, "default");
		else
			json_milli(j, "default", (uint64_t)row->def);
		break;
	case FIELD_BOOL:
	case FIELD_BOOL_LENIENT:
		json_bool(j, "default", row->def != 0);
		break;
	case FIELD_LIST:
	case FIELD_STRINGS:
		json_open(j, "default", '[');
		json_close(j, ']');
		break;
	case FIELD_OBJECT:
	case FIELD_MAP:
		if (nullable)
			json_null(j, "default");
		break;
	case FIELD_TYPE_MAX:
		break;
	}
}

static void write_members(const struct fields *table, struct json *j);

static void write_words(const char *words, struct json *j)
{
	json_open(j, "enum", '[');
	while (*words != '\0') {
		size_t n = strcspn(words, " ");

		json_bytes(j, NULL, words, n);
		words += n + (words[n] == ' ');
	}
	json_close(j, ']');
}

/* What the elements of a list of texts, or the members of a map, are. */
static void write_texts(struct json *j, const char *key)
{
	json_open(j, key, '{');
	json_str(j, "type", "string");
	json_close(j, '}');
}

static void write_milli_bounds(const struct field *row, struct json *j)
{
	json_milli(j, "minimum", (uint64_t)row->min);
	if (row->max != FIELD_NO_MAX)
		json_milli(j, "maximum", (uint64_t)row->max);
}

static void write_type(const struct field *row, struct json *j)
{
	if ((row->flags & (FIELD_NULLABLE | FIELD_OR_BOOL)) == 0) {
		json_str(j, "type", type_str[row->type]);
		return;
	}
	json_open(j, "type", '[');
	json_str(j, NULL, type_str[row->type]);
	if ((row->flags & FIELD_OR_BOOL) != 0)
		json_str(j, NULL, "boolean");
	if ((row->flags & FIELD_NULLABLE) != 0)
		json_str(j, NULL, "null");
	json_close(j, ']');
}

/* What may stand for an object of this table: the first row of each type. */
static void write_value(const struct fields *table, enum field_type type, struct json *j)
{
	for (size_t i = 0; i < table->n; i++) {
		const struct field *row = &table->rows[i];

		if (row->type != type)
			continue;
		json_open(j, NULL, '{');
		json_str(j, "type", type_str[type]);
		json_str(j, "description", row->doc);
		if (type == FIELD_INT)
			write_bounds(row, j, "minimum", "maximum", FIELD_NO_MIN);
		else
			write_bounds(row, j, "minLength", "maxLength", 0);
		json_close(j, '}');
		return;
	}
}

static void write_items(const struct fields *table, struct json *j)
{
	if ((table->flags & FIELDS_OR_VALUE) == 0) {
		fields_schema(table, j, "items");
		return;
	}
	json_open(j, "items", '{');
	json_open(j, "anyOf", '[');
	write_value(table, FIELD_STRING, j);
	write_value(table, FIELD_INT, j);
	fields_schema(table, j, NULL);
	json_close(j, ']');
	json_close(j, '}');
}

static void write_row(const struct field *row, struct json *j)
{
	json_open(j, row->name, '{');
	write_type(row, j);
	json_str(j, "description", row->doc);
	if (row->type == FIELD_BASE64)
		json_str(j, "contentEncoding", "base64");
	switch (row->type) {
	case FIELD_STRING:
	case FIELD_BASE64:
		write_bounds(row, j, "minLength", "maxLength", 0);
		if (row->words != NULL)
			write_words(row->words, j);
		break;
	case FIELD_INT:
		write_bounds(row, j, "minimum", "maximum", FIELD_NO_MIN);
		break;
	case FIELD_LIST:
		write_bounds(row, j, "minItems", "maxItems", 0);
		write_items(row->sub, j);
		break;
	case FIELD_STRINGS:
		write_bounds(row, j, "minItems", "maxItems", 0);
		write_texts(j, "items");
		break;
	case FIELD_MAP:
		write_bounds(row, j, "minProperties", "maxProperties", 0);
		write_texts(j, "additionalProperties");
		break;
	case FIELD_MILLI:
		write_milli_bounds(row, j);
		break;
	case FIELD_OBJECT:
		write_members(row->sub, j);
		break;
	case FIELD_BOOL:
	case FIELD_BOOL_LENIENT:
	case FIELD_TYPE_MAX:
		break;
	}
	write_default(row, j);
	json_close(j, '}');
}

static bool has_rows(const struct fields *table, unsigned int flag)
{
	for (size_t i = 0; i < table->n; i++)
		if ((table->rows[i].flags & flag) != 0)
			return true;
	return false;
}

static void write_required(const struct fields *table, struct json *j)
{
	json_open(j, "required", '[');
	for (size_t i = 0; i < table->n; i++)
		if ((table->rows[i].flags & FIELD_REQUIRED) != 0)
			json_str(j, NULL, table->rows[i].name);
	json_close(j, ']');
}

static void write_one_of(const struct fields *table, struct json *j)
{
	json_open(j, "oneOf", '[');
	for (size_t i = 0; i < table->n; i++) {
		if ((table->rows[i].flags & FIELD_ONE_OF) == 0)
			continue;
		json_open(j, NULL, '{');
		json_open(j, "required", '[');
		json_str(j, NULL, table->rows[i].name);
		json_close(j, ']');
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* All of an object's schema but its type. */
static void write_members(const struct fields *table, struct json *j)
{
	json_open(j, "properties", '{');
	for (size_t i = 0; i < table->n; i++)
		write_row(&table->rows[i], j);
	json_close(j, '}');
	if (has_rows(table, FIELD_REQUIRED))
		write_required(table, j);
	if (has_rows(table, FIELD_ONE_OF))
		write_one_of(table, j);
	if ((table->flags & FIELDS_CLOSED) != 0)
		json_bool(j, "additionalProperties", false);
}

void fields_schema(const struct fields *table, struct json *j, const char *key)
{
	json_open(j, key, '{');
	json_str(j, "type", "object");
	json_str(j, "title", table->name);
	write_members(table, j);
	json_close(j, '}');
}

/* --- the table itself ------------------------------------------------------------------------- */

static size_t size_of(const struct field *row)
{
	switch (row->type) {
	case FIELD_STRING:
	case FIELD_BASE64:
		return sizeof(struct field_str);
	case FIELD_INT:
	case FIELD_MILLI:
		return sizeof(int64_t);
	case FIELD_BOOL:
	case FIELD_BOOL_LENIENT:
		return sizeof(bool);
	case FIELD_OBJECT:
		return row->sub != NULL ? row->sub->size : 0;
	case FIELD_LIST:
	case FIELD_STRINGS:
	case FIELD_MAP:
		return sizeof(struct field_list);
	case FIELD_TYPE_MAX:
		break;
	}
	return 0;
}

static const char *check_bounds(const struct field *row)
{
	bool optional = (row->flags & (FIELD_REQUIRED | FIELD_NULLABLE)) == 0;

	switch (row->type) {
	case FIELD_STRING:
	case FIELD_BASE64:
		if (row->max < 0 || row->max < row->min)
			return "a length that cannot be";
		break;
	case FIELD_MILLI:
	case FIELD_INT:
		if (row->type == FIELD_MILLI && row->min < 0)
			return "thousandths below zero";
		if (row->max < row->min)
			return "a range that is empty";
		if (optional && (row->def < row->min || row->def > row->max))
			return "a default that could not be given";
		break;
	case FIELD_LIST:
	case FIELD_STRINGS:
	case FIELD_MAP:
		if (row->max < 0 || row->max < row->min || row->max > JSONR_NODES_MAX)
			return "a number of elements that cannot be";
		break;
	case FIELD_BOOL:
	case FIELD_BOOL_LENIENT:
	case FIELD_OBJECT:
	case FIELD_TYPE_MAX:
		if (row->min != 0 || row->max != 0)
			return "bounds of what has none";
		break;
	}
	return NULL;
}

static const char *check_table(const struct fields *table, unsigned int depth);

static const char *check_row(const struct fields *table, const struct field *row,
			     unsigned int depth)
{
	bool container = row->type == FIELD_OBJECT || row->type == FIELD_LIST;
	bool string = row->type == FIELD_STRING || row->type == FIELD_BASE64;
	const char *wrong;

	if (row->name == NULL || row->name[0] == '\0')
		return "a row without a name";
	if (row->doc == NULL || row->doc[0] == '\0' || strchr(row->doc, '\n') != NULL)
		return "a row without a line of text";
	if ((unsigned int)row->type >= FIELD_TYPE_MAX)
		return "a type that does not exist";
	if ((row->sub != NULL) != container)
		return "a sub-table where none belongs, or none where one does";
	if (row->at + size_of(row) > table->size || row->set_at >= table->size)
		return "a member outside the struct";
	if ((row->set_at != 0 &&
	     (string || row->type == FIELD_LIST || row->type == FIELD_STRINGS)) ||
	    (row->text != NULL && !string) || (row->words != NULL && row->type != FIELD_STRING) ||
	    (row->def != 0 &&
	     (string || container || row->type == FIELD_STRINGS || row->type == FIELD_MAP)))
		return "a column that this type does not have";
	if ((row->flags & FIELD_OR_BOOL) != 0 &&
	    (row->type != FIELD_OBJECT || row->set_at == 0 || (row->flags & FIELD_REQUIRED) != 0))
		return "a flag that this row cannot have";
	if ((row->flags & FIELD_REQUIRED) != 0 && (row->flags & FIELD_ONE_OF) != 0)
		return "a row that is required and an alternative";
	wrong = check_bounds(row);
	if (wrong == NULL && depth + 1 >= FIELD_PATH_MAX &&
	    (row->type == FIELD_STRINGS || row->type == FIELD_MAP))
		wrong = "tables too deep inside each other";
	if (wrong != NULL || !container)
		return wrong;
	return check_table(row->sub, depth + (row->type == FIELD_LIST ? 2 : 1));
}

/* depth: steps of the path to an object of this table. */
static const char *check_table(const struct fields *table, unsigned int depth)
{
	size_t alternatives = 0;

	if (table->name == NULL || table->n == 0 || table->n > FIELDS_ROWS_MAX || table->size == 0)
		return "a table without a name, without rows, with too many, or without a struct";
	if (depth >= FIELD_PATH_MAX)
		return "tables too deep inside each other";
	for (size_t i = 0; i < table->n; i++) {
		const char *wrong = check_row(table, &table->rows[i], depth);

		if (wrong != NULL)
			return wrong;
		for (size_t k = 0; k < i; k++)
			if (strcmp(table->rows[i].name, table->rows[k].name) == 0)
				return "a name that is there twice";
		alternatives += (table->rows[i].flags & FIELD_ONE_OF) != 0;
	}
	return alternatives == 1 ? "one alternative" : NULL;
}

const char *fields_check(const struct fields *table)
{
	return check_table(table, 0);
}
