/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/fields.c: request bodies through tables. */
#include "wire/fields.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

#include "test_help.h"

/* --- a table like that of a dialect ------------------------------------------------------------------------- */

struct file {
	struct field_str path, file_id, content, content_base64;
};

struct sub {
	int64_t a;
	struct field_str b;
};

struct request {
	struct field_str code, input, name;
	int64_t timeout_ms, opt;
	bool opt_set, interactive, strict, sub_set;
	struct field_list files, pair;
	struct sub sub;
};

#define AT(s, member) offsetof(struct s, member)

/* clang-format off */
static const struct field file_rows[] = {
	{ "path", FIELD_STRING, FIELD_REQUIRED, 0, FIELD_NO_MAX, 0, AT(file, path), .doc = "where" },
	{ "file_id", FIELD_STRING, FIELD_ONE_OF, 0, FIELD_NO_MAX, 0, AT(file, file_id), .doc = "one that was sent before" },
	{ "content", FIELD_STRING, FIELD_ONE_OF, 0, FIELD_NO_MAX, 0, AT(file, content), .doc = "its text" },
	{ "content_base64", FIELD_BASE64, FIELD_ONE_OF | FIELD_NULLABLE, 0, FIELD_NO_MAX, 0, AT(file, content_base64), .doc = "its bytes" },
};
static const struct fields files_table = { "File", file_rows, ARRAY_LEN(file_rows), sizeof(struct file), 0 };

static const struct field sub_rows[] = {
	{ "a", FIELD_INT, FIELD_REQUIRED, -3, FIELD_NO_MAX, 0, AT(sub, a), .doc = "a number" },
	{ "b", FIELD_STRING, 0, 0, 1, 0, AT(sub, b), .doc = "a letter", .text = "x" },
};
static const struct fields sub_table = { "Sub", sub_rows, ARRAY_LEN(sub_rows), sizeof(struct sub), 0 };

static const struct field request_rows[] = {
	{ "code", FIELD_STRING, FIELD_REQUIRED, 0, FIELD_NO_MAX, 0, AT(request, code), .doc = "Python source" },
	{ "stdin", FIELD_STRING, FIELD_NULLABLE, 0, FIELD_NO_MAX, 0, AT(request, input), .doc = "what it reads" },
	{ "timeout_ms", FIELD_INT, 0, 1, FIELD_NO_MAX, 2000, AT(request, timeout_ms), .doc = "how long it may take" },
	{ "last_line_interactive", FIELD_BOOL_LENIENT, 0, 0, 0, true, AT(request, interactive), .doc = "print the last value" },
	{ "files", FIELD_LIST, 0, 0, 3, 0, AT(request, files), .doc = "put there first", .sub = &files_table },
	{ "name", FIELD_STRING, 0, 2, 5, 0, AT(request, name), .doc = "a name", .text = "abc" },
	{ "opt", FIELD_INT, FIELD_NULLABLE, 1, 10, 0, AT(request, opt), .doc = "perhaps", .set_at = AT(request, opt_set) },
	{ "strict", FIELD_BOOL, 0, 0, 0, false, AT(request, strict), .doc = "yes or no" },
	{ "sub", FIELD_OBJECT, FIELD_NULLABLE, 0, 0, 0, AT(request, sub), .doc = "more", .sub = &sub_table, .set_at = AT(request, sub_set) },
	{ "pair", FIELD_LIST, 0, 1, 1, 0, AT(request, pair), .doc = "exactly one", .sub = &files_table },
};
static const struct fields request_table = { "Request", request_rows, ARRAY_LEN(request_rows), sizeof(struct request), 0 };

/* --- and one like our own ----------------------------------------------------------------------------------- */

struct inner {
	struct field_str s;
};

struct closed {
	int64_t a;
	struct field_list f;
};

static const struct field inner_rows[] = {
	{ "s", FIELD_STRING, FIELD_REQUIRED, 0, FIELD_NO_MAX, 0, AT(inner, s), .doc = "a text" },
};
static const struct fields inner_table = { "Inner", inner_rows, ARRAY_LEN(inner_rows), sizeof(struct inner), FIELDS_CLOSED };

static const struct field closed_rows[] = {
	{ "a", FIELD_INT, FIELD_REQUIRED, FIELD_NO_MIN, FIELD_NO_MAX, 0, AT(closed, a), .doc = "a number" },
	{ "f", FIELD_LIST, 0, 0, 1000, 0, AT(closed, f), .doc = "some more", .sub = &inner_table },
};
static const struct fields closed_table = { "Closed", closed_rows, ARRAY_LEN(closed_rows), sizeof(struct closed), FIELDS_CLOSED };
/* clang-format on */

/* --- helpers ------------------------------------------------------------------------------------------------- */

/* A body that was read, with everything that must be given back. */
struct body {
	char *text;
	struct jsonr doc;
	struct jsonr_error why;
	struct field_errors errs;
	struct fields_block mem;
	int rc;
};

/* The text has ` for ". Reads it as the gate does: what is no JSON becomes a problem, too. */
static struct body *take(const struct fields *table, const char *text, void *out)
{
	struct body *b = calloc(1, sizeof(*b));
	size_t n = strlen(text);

	CHECK(b != NULL);
	b->text = malloc(n > 0 ? n
			       : 1); /* exactly as large: the sanitizer sees what is read beyond */
	CHECK(b->text != NULL);
	memcpy(b->text, text, n);
	for (size_t i = 0; i < n; i++)
		if (b->text[i] == '`')
			b->text[i] = '"';
	if (n > 0)
		b->rc = jsonr_parse(&b->doc, b->text, n, &b->why);
	if (b->rc < 0)
		field_errors_json(&b->errs, &b->why);
	else
		b->rc = fields_decode(table, &b->doc, out, &b->errs, &b->mem);
	return b;
}

static void give_back(struct body *b)
{
	fields_block_done(&b->mem);
	jsonr_done(&b->doc);
	free(b->text);
	free(b);
}

/* The answer to a body, with ` for ", to be freed. */
static char *answer(const struct fields *table, const char *text, bool own)
{
	static max_align_t out[64];
	struct body *b = take(table, text, out);
	struct json j;

	if (b->rc != -EINVAL)
		test_fail(__FILE__, __LINE__, "'%s' is not refused: %d", text, b->rc);
	CHECK(b->errs.n > 0);
	json_init(&j);
	if (own)
		field_errors_own(&b->errs, "r1", &j);
	else
		field_errors_fastapi(&b->errs, &b->doc, &j);
	CHECK(!j.failed);
	give_back(b);
	for (size_t i = 0; i < j.len; i++)
		if (j.buf[i] == '"')
			j.buf[i] = '`';
	return j.buf;
}

/* --- FastAPI's answers, as FastAPI 0.162 with pydantic 2.14 gave them to these bodies ------------------------ */

static const struct {
	const char *body, *detail;
} fastapi[] = {
	{ "", "{`type`:`missing`,`loc`:[`body`],`msg`:`Field required`,`input`:null}" },
	{ "null", "{`type`:`model_attributes_type`,`loc`:[`body`],`msg`:`Input should be a valid "
		  "dictionary or object to extract fields from`,`input`:null}" },
	{ "[]", "{`type`:`model_attributes_type`,`loc`:[`body`],`msg`:`Input should be a valid "
		"dictionary or object to extract fields from`,`input`:[]}" },
	{ "`x`", "{`type`:`model_attributes_type`,`loc`:[`body`],`msg`:`Input should be a valid "
		 "dictionary or object to extract fields from`,`input`:`x`}" },
	{ "1", "{`type`:`model_attributes_type`,`loc`:[`body`],`msg`:`Input should be a valid "
	       "dictionary or object to extract fields from`,`input`:1}" },
	{ "true", "{`type`:`model_attributes_type`,`loc`:[`body`],`msg`:`Input should be a valid "
		  "dictionary or object to extract fields from`,`input`:true}" },
	{ "{}", "{`type`:`missing`,`loc`:[`body`,`code`],`msg`:`Field required`,`input`:{}}" },
	{ "{`code`:1}", "{`type`:`string_type`,`loc`:[`body`,`code`],`msg`:`Input should be a "
			"valid string`,`input`:1}" },
	{ "{`code`:null}", "{`type`:`string_type`,`loc`:[`body`,`code`],`msg`:`Input should be a "
			   "valid string`,`input`:null}" },
	{ "{`code`:[]}", "{`type`:`string_type`,`loc`:[`body`,`code`],`msg`:`Input should be a "
			 "valid string`,`input`:[]}" },
	{ "{`code`:true}", "{`type`:`string_type`,`loc`:[`body`,`code`],`msg`:`Input should be a "
			   "valid string`,`input`:true}" },
	{ "{`code`:`a`,`stdin`:1}", "{`type`:`string_type`,`loc`:[`body`,`stdin`],`msg`:`Input "
				    "should be a valid string`,`input`:1}" },
	{ "{`code`:`a`,`timeout_ms`:true}", "{`type`:`int_type`,`loc`:[`body`,`timeout_ms`],`msg`:`"
					    "Input should be a valid integer`,`input`:true}" },
	{ "{`code`:`a`,`timeout_ms`:1.0}", "{`type`:`int_type`,`loc`:[`body`,`timeout_ms`],`msg`:`"
					   "Input should be a valid integer`,`input`:1.0}" },
	{ "{`code`:`a`,`timeout_ms`:`1`}", "{`type`:`int_type`,`loc`:[`body`,`timeout_ms`],`msg`:`"
					   "Input should be a valid integer`,`input`:`1`}" },
	{ "{`code`:`a`,`timeout_ms`:0}",
	  "{`type`:`greater_than_equal`,`loc`:[`body`,`timeout_ms`],`msg`:`Input should be greater "
	  "than or equal to 1`,`input`:0,`ctx`:{`ge`:1}}" },
	{ "{`code`:`a`,`timeout_ms`:-9223372036854775808}",
	  "{`type`:`greater_than_equal`,`loc`:[`body`,`timeout_ms`],`msg`:`Input should be greater "
	  "than or equal to 1`,`input`:-9223372036854775808,`ctx`:{`ge`:1}}" },
	{ "{`code`:`a`,`timeout_ms`:null}", "{`type`:`int_type`,`loc`:[`body`,`timeout_ms`],`msg`:`"
					    "Input should be a valid integer`,`input`:null}" },
	{ "{`code`:`a`,`timeout_ms`:1e5}", "{`type`:`int_type`,`loc`:[`body`,`timeout_ms`],`msg`:`"
					   "Input should be a valid integer`,`input`:100000.0}" },
	{ "{`code`:`a`,`last_line_interactive`:2}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:2}" },
	{ "{`code`:`a`,`last_line_interactive`:-1}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:-1}" },
	{ "{`code`:`a`,`last_line_interactive`:0.5}",
	  "{`type`:`bool_type`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean`,`input`:0.5}" },
	{ "{`code`:`a`,`last_line_interactive`:2.0}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:2.0}" },
	{ "{`code`:`a`,`last_line_interactive`:1e300}",
	  "{`type`:`bool_type`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean`,`input`:1e+300}" },
	{ "{`code`:`a`,`last_line_interactive`:9223372036854774784.0}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:9.223372036854775e+18}" },
	{ "{`code`:`a`,`last_line_interactive`:9223372036854775808.0}",
	  "{`type`:`bool_type`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean`,`input`:9.223372036854776e+18}" },
	{ "{`code`:`a`,`last_line_interactive`:-9223372036854775808.0}",
	  "{`type`:`bool_type`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean`,`input`:-9.223372036854776e+18}" },
	{ "{`code`:`a`,`last_line_interactive`:9223372036854775807}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:9223372036854775807}" },
	{ "{`code`:`a`,`last_line_interactive`:`2`}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:`2`}" },
	{ "{`code`:`a`,`last_line_interactive`:``}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:``}" },
	{ "{`code`:`a`,`last_line_interactive`:` true`}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:` true`}" },
	{ "{`code`:`a`,`last_line_interactive`:`true `}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:`true `}" },
	{ "{`code`:`a`,`last_line_interactive`:`1.0`}",
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:`1.0`}" },
	{ "{`code`:`a`,`last_line_interactive`:null}",
	  "{`type`:`bool_type`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean`,`input`:null}" },
	{ "{`code`:`a`,`last_line_interactive`:[]}",
	  "{`type`:`bool_type`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean`,`input`:[]}" },
	{ "{`code`:`a`,`last_line_interactive`:{}}",
	  "{`type`:`bool_type`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean`,`input`:{}}" },
	{ "{`code`:`a`,`files`:null}", "{`type`:`list_type`,`loc`:[`body`,`files`],`msg`:`Input "
				       "should be a valid list`,`input`:null}" },
	{ "{`code`:`a`,`files`:{}}", "{`type`:`list_type`,`loc`:[`body`,`files`],`msg`:`Input "
				     "should be a valid list`,`input`:{}}" },
	{ "{`code`:`a`,`files`:`ab`}", "{`type`:`list_type`,`loc`:[`body`,`files`],`msg`:`Input "
				       "should be a valid list`,`input`:`ab`}" },
	{ "{`code`:`a`,`files`:[1]}",
	  "{`type`:`model_attributes_type`,`loc`:[`body`,`files`,0],`msg`:`Input should be a valid "
	  "dictionary or object to extract fields from`,`input`:1}" },
	{ "{`code`:`a`,`files`:[null,`x`,[]]}",
	  "{`type`:`model_attributes_type`,`loc`:[`body`,`files`,0],`msg`:`Input should be a valid "
	  "dictionary or object to extract fields from`,`input`:null},"
	  "{`type`:`model_attributes_type`,`loc`:[`body`,`files`,1],`msg`:`Input should be a valid "
	  "dictionary or object to extract fields from`,`input`:`x`},"
	  "{`type`:`model_attributes_type`,`loc`:[`body`,`files`,2],`msg`:`Input should be a valid "
	  "dictionary or object to extract fields from`,`input`:[]}" },
	{ "{`code`:`a`,`files`:[{}]}",
	  "{`type`:`missing`,`loc`:[`body`,`files`,0,`path`],`msg`:`Field required`,`input`:{}},"
	  "{`type`:`missing`,`loc`:[`body`,`files`,0,`file_id`],`msg`:`Field "
	  "required`,`input`:{}}" },
	{ "{`code`:`a`,`files`:[{`path`:1,`file_id`:2},{`path`:`p`}]}",
	  "{`type`:`string_type`,`loc`:[`body`,`files`,0,`path`],`msg`:`Input should be a valid "
	  "string`,`input`:1},"
	  "{`type`:`string_type`,`loc`:[`body`,`files`,0,`file_id`],`msg`:`Input should be a valid "
	  "string`,`input`:2},"
	  "{`type`:`missing`,`loc`:[`body`,`files`,1,`file_id`],`msg`:`Field "
	  "required`,`input`:{`path`:`p`}}" },
	{ "{`code`:`a`,`files`:[{`file_id`:`f`}]}",
	  "{`type`:`missing`,`loc`:[`body`,`files`,0,`path`],`msg`:`Field "
	  "required`,`input`:{`file_id`:`f`}}" },
	{ "{`code`:`a`,`files`:[1,2,3,4]}",
	  "{`type`:`too_long`,`loc`:[`body`,`files`],`msg`:`List should have at most 3 items after "
	  "validation, not "
	  "4`,`input`:[1,2,3,4],`ctx`:{`field_type`:`List`,`max_length`:3,`actual_length`:4}}" },
	{ "{`code`:`a`,`pair`:[]}",
	  "{`type`:`too_short`,`loc`:[`body`,`pair`],`msg`:`List should have at least 1 item after "
	  "validation, not "
	  "0`,`input`:[],`ctx`:{`field_type`:`List`,`min_length`:1,`actual_length`:0}}" },
	{ "{`code`:`a`,`pair`:[1,2]}",
	  "{`type`:`too_long`,`loc`:[`body`,`pair`],`msg`:`List should have at most 1 item after "
	  "validation, not "
	  "2`,`input`:[1,2],`ctx`:{`field_type`:`List`,`max_length`:1,`actual_length`:2}}" },
	{ "{`code`:`a`,`name`:`a`}",
	  "{`type`:`string_too_short`,`loc`:[`body`,`name`],`msg`:`String should have at least 2 "
	  "characters`,`input`:`a`,`ctx`:{`min_length`:2}}" },
	{ "{`code`:`a`,`name`:`abcdef`}",
	  "{`type`:`string_too_long`,`loc`:[`body`,`name`],`msg`:`String should have at most 5 "
	  "characters`,`input`:`abcdef`,`ctx`:{`max_length`:5}}" },
	{ "{`code`:`a`,`name`:``}",
	  "{`type`:`string_too_short`,`loc`:[`body`,`name`],`msg`:`String should have at least 2 "
	  "characters`,`input`:``,`ctx`:{`min_length`:2}}" },
	{ "{`code`:`a`,`opt`:0}",
	  "{`type`:`greater_than_equal`,`loc`:[`body`,`opt`],`msg`:`Input should be greater than "
	  "or equal to 1`,`input`:0,`ctx`:{`ge`:1}}" },
	{ "{`code`:`a`,`opt`:11}",
	  "{`type`:`less_than_equal`,`loc`:[`body`,`opt`],`msg`:`Input should be less than or "
	  "equal to 10`,`input`:11,`ctx`:{`le`:10}}" },
	{ "{`code`:`a`,`opt`:`x`}", "{`type`:`int_type`,`loc`:[`body`,`opt`],`msg`:`Input should "
				    "be a valid integer`,`input`:`x`}" },
	{ "{`code`:`a`,`opt`:true}", "{`type`:`int_type`,`loc`:[`body`,`opt`],`msg`:`Input should "
				     "be a valid integer`,`input`:true}" },
	{ "{`code`:`a`,`strict`:1}", "{`type`:`bool_type`,`loc`:[`body`,`strict`],`msg`:`Input "
				     "should be a valid boolean`,`input`:1}" },
	{ "{`code`:`a`,`strict`:`true`}", "{`type`:`bool_type`,`loc`:[`body`,`strict`],`msg`:`"
					  "Input should be a valid boolean`,`input`:`true`}" },
	{ "{`code`:`a`,`strict`:null}", "{`type`:`bool_type`,`loc`:[`body`,`strict`],`msg`:`Input "
					"should be a valid boolean`,`input`:null}" },
	{ "{`code`:`a`,`sub`:1}",
	  "{`type`:`model_attributes_type`,`loc`:[`body`,`sub`],`msg`:`Input should be a valid "
	  "dictionary or object to extract fields from`,`input`:1}" },
	{ "{`code`:`a`,`sub`:{`a`:`x`}}", "{`type`:`int_type`,`loc`:[`body`,`sub`,`a`],`msg`:`"
					  "Input should be a valid integer`,`input`:`x`}" },
	{ "{`code`:`a`,`sub`:{}}",
	  "{`type`:`missing`,`loc`:[`body`,`sub`,`a`],`msg`:`Field required`,`input`:{}}" },
	{ "{`code`:`a`,`sub`:{`a`:-4,`b`:`xy`}}",
	  "{`type`:`greater_than_equal`,`loc`:[`body`,`sub`,`a`],`msg`:`Input should be greater "
	  "than or equal to -3`,`input`:-4,`ctx`:{`ge`:-3}},"
	  "{`type`:`string_too_long`,`loc`:[`body`,`sub`,`b`],`msg`:`String should have at most 1 "
	  "character`,`input`:`xy`,`ctx`:{`max_length`:1}}" },
	{ "{`timeout_ms`:`x`,`code`:1}", "{`type`:`string_type`,`loc`:[`body`,`code`],`msg`:`Input "
					 "should be a valid string`,`input`:1},"
					 "{`type`:`int_type`,`loc`:[`body`,`timeout_ms`],`msg`:`"
					 "Input should be a valid integer`,`input`:`x`}" },
	{ "{`zzz`:1,`files`:[{`path`:[1.5,-0.0,1e22,1e-7,100000.0,123456789012345680.0,0.0001,null,"
	  "true]}]}",
	  "{`type`:`missing`,`loc`:[`body`,`code`],`msg`:`Field "
	  "required`,`input`:{`zzz`:1,`files`:[{`path`:[1.5,-0.0,1e+22,1e-07,100000.0,1."
	  "2345678901234568e+17,0.0001,null,true]}]}},"
	  "{`type`:`string_type`,`loc`:[`body`,`files`,0,`path`],`msg`:`Input should be a valid "
	  "string`,`input`:[1.5,-0.0,1e+22,1e-07,100000.0,1.2345678901234568e+17,0.0001,null,true]}"
	  ","
	  "{`type`:`missing`,`loc`:[`body`,`files`,0,`file_id`],`msg`:`Field "
	  "required`,`input`:{`path`:[1.5,-0.0,1e+22,1e-07,100000.0,1.2345678901234568e+17,0.0001,"
	  "null,true]}}" },
	{ "{`stdin`:5,`timeout_ms`:0,`last_line_interactive`:`maybe`,`files`:5,`name`:5,`opt`:5.5,`"
	  "sub`:[],`pair`:7}",
	  "{`type`:`missing`,`loc`:[`body`,`code`],`msg`:`Field "
	  "required`,`input`:{`stdin`:5,`timeout_ms`:0,`last_line_interactive`:`maybe`,`files`:5,`"
	  "name`:5,`opt`:5.5,`sub`:[],`pair`:7}},"
	  "{`type`:`string_type`,`loc`:[`body`,`stdin`],`msg`:`Input should be a valid "
	  "string`,`input`:5},"
	  "{`type`:`greater_than_equal`,`loc`:[`body`,`timeout_ms`],`msg`:`Input should be greater "
	  "than or equal to 1`,`input`:0,`ctx`:{`ge`:1}},"
	  "{`type`:`bool_parsing`,`loc`:[`body`,`last_line_interactive`],`msg`:`Input should be a "
	  "valid boolean, unable to interpret input`,`input`:`maybe`},"
	  "{`type`:`list_type`,`loc`:[`body`,`files`],`msg`:`Input should be a valid "
	  "list`,`input`:5},"
	  "{`type`:`string_type`,`loc`:[`body`,`name`],`msg`:`Input should be a valid "
	  "string`,`input`:5},"
	  "{`type`:`int_type`,`loc`:[`body`,`opt`],`msg`:`Input should be a valid "
	  "integer`,`input`:5.5},"
	  "{`type`:`model_attributes_type`,`loc`:[`body`,`sub`],`msg`:`Input should be a valid "
	  "dictionary or object to extract fields from`,`input`:[]},"
	  "{`type`:`list_type`,`loc`:[`body`,`pair`],`msg`:`Input should be a valid "
	  "list`,`input`:7}" },
};

static void check_fastapi(const struct fields *table, const char *body, const char *detail)
{
	own_free char *got = answer(table, body, false);
	char want[4096];

	(void)snprintf(want, sizeof(want), "{`detail`:[%s]}", detail);
	CHECK_STR(got, want);
}

TEST(fields_answer_as_fastapi_does)
{
	for (size_t i = 0; i < ARRAY_LEN(fastapi); i++)
		check_fastapi(&request_table, fastapi[i].body, fastapi[i].detail);
}

static const struct {
	const char *body;
	int offset;
	const char *error;
} fastapi_json[] = {
	{ "  ", 2, "Expecting value" },
	{ "{`code`:`a`,}", 12, "Expecting property name enclosed in double quotes" },
	{ "{`code`:", 8, "Expecting value" },
	{ "{", 1, "Expecting property name enclosed in double quotes" },
	{ "{`code`:`a`} x", 13, "Extra data" },
	{ "{'code':1}", 1, "Expecting property name enclosed in double quotes" },
	{ "{`code`:`a\nb`}", 10, "Invalid control character at" },
	{ "nul", 0, "Expecting value" },
	{ "[1,]", 3, "Expecting value" },
	{ "{`code` `a`}", 8, "Expecting ':' delimiter" },
	{ "{`a`:1 `b`:2}", 7, "Expecting ',' delimiter" },
	{ "{1:2}", 1, "Expecting property name enclosed in double quotes" },
	{ "{`a`:`\\x`}", 6, "Invalid \\\\escape" },
	{ "{`a`:`\\u12`}", 7, "Invalid \\\\uXXXX escape" },
	{ "{`a`:01}", 6, "Expecting ',' delimiter" },
	{ "{`a`:-}", 5, "Expecting value" },
	{ "{`a`:1.}", 6, "Expecting ',' delimiter" },
	{ "`abc", 0, "Unterminated string starting at" },
	{ "[`\303\251`,]", 5, "Expecting value" },
	{ "[1 2]", 3, "Expecting ',' delimiter" },
	{ "`\303\251\\", 0, "Unterminated string starting at" },
	{ "`\303\251\t`", 2, "Invalid control character at" },
	{ "// x\n1", 0, "Expecting value" },
	{ "[1,,2]", 3, "Expecting value" },
	{ "{`\303\251`:`\346\274\242` 1}", 9, "Expecting ',' delimiter" },
};

TEST(fields_answer_as_fastapi_does_to_what_is_no_json)
{
	for (size_t i = 0; i < ARRAY_LEN(fastapi_json); i++) {
		char want[512];

		(void)snprintf(want, sizeof(want),
			       "{`type`:`json_invalid`,`loc`:[`body`,%d],"
			       "`msg`:`JSON decode error`,`input`:{},`ctx`:{`error`:`%s`}}",
			       fastapi_json[i].offset, fastapi_json[i].error);
		check_fastapi(&request_table, fastapi_json[i].body, want);
	}
}

/* extra="forbid" */
static const struct {
	const char *body, *detail;
} fastapi_closed[] = {
	{ "{`a`:1,`b`:2}", "{`type`:`extra_forbidden`,`loc`:[`body`,`b`],`msg`:`Extra inputs are "
			   "not permitted`,`input`:2}" },
	{ "{`b`:2,`a`:`x`,`c`:3}", "{`type`:`int_type`,`loc`:[`body`,`a`],`msg`:`Input should be a "
				   "valid integer`,`input`:`x`},"
				   "{`type`:`extra_forbidden`,`loc`:[`body`,`b`],`msg`:`Extra "
				   "inputs are not permitted`,`input`:2},"
				   "{`type`:`extra_forbidden`,`loc`:[`body`,`c`],`msg`:`Extra "
				   "inputs are not permitted`,`input`:3}" },
	{ "{`a`:1,`f`:[{`s`:`x`,`t`:{`k`:[]}},{`u`:1}]}",
	  "{`type`:`extra_forbidden`,`loc`:[`body`,`f`,0,`t`],`msg`:`Extra inputs are not "
	  "permitted`,`input`:{`k`:[]}},"
	  "{`type`:`missing`,`loc`:[`body`,`f`,1,`s`],`msg`:`Field required`,`input`:{`u`:1}},"
	  "{`type`:`extra_forbidden`,`loc`:[`body`,`f`,1,`u`],`msg`:`Extra inputs are not "
	  "permitted`,`input`:1}" },
	{ "{`A`:1}", "{`type`:`missing`,`loc`:[`body`,`a`],`msg`:`Field required`,`input`:{`A`:1}},"
		     "{`type`:`extra_forbidden`,`loc`:[`body`,`A`],`msg`:`Extra inputs are not "
		     "permitted`,`input`:1}" },
	{ "{``:1,`a`:1}", "{`type`:`extra_forbidden`,`loc`:[`body`,``],`msg`:`Extra inputs are not "
			  "permitted`,`input`:1}" },
};

TEST(fields_answer_as_fastapi_does_to_unknown_keys)
{
	for (size_t i = 0; i < ARRAY_LEN(fastapi_closed); i++)
		check_fastapi(&closed_table, fastapi_closed[i].body, fastapi_closed[i].detail);
}

TEST(fields_answer_to_alternatives)
{
	check_fastapi(
		&request_table, "{`code`:``,`files`:[{`path`:`p`,`file_id`:`f`,`content`:`c`}]}",
		"{`type`:`value_error`,`loc`:[`body`,`files`,0],`msg`:`Value error, there must "
		"be exactly one of 'file_id', 'content', 'content_base64'`,"
		"`input`:{`path`:`p`,`file_id`:`f`,`content`:`c`},`ctx`:{`error`:{}}}");
	/* Only one of them may be null, and null is none. */
	check_fastapi(&request_table, "{`code`:``,`files`:[{`path`:`p`,`content_base64`:null}]}",
		      "{`type`:`missing`,`loc`:[`body`,`files`,0,`file_id`],`msg`:`Field required`,"
		      "`input`:{`path`:`p`,`content_base64`:null}}");
	check_fastapi(&request_table, "{`code`:``,`files`:[{`path`:`p`,`content`:null}]}",
		      "{`type`:`string_type`,`loc`:[`body`,`files`,0,`content`],"
		      "`msg`:`Input should be a valid string`,`input`:null}");
	/* A type that is wrong is told before that they are too many. */
	check_fastapi(&request_table, "{`code`:``,`files`:[{`path`:1,`content`:``,`file_id`:``}]}",
		      "{`type`:`string_type`,`loc`:[`body`,`files`,0,`path`],"
		      "`msg`:`Input should be a valid string`,`input`:1}");
}

/* --- our own answers ------------------------------------------------------------------------------------------ */

static const struct {
	const char *body, *code, *field, *message;
} own[] = {
	{ "", "invalid_field", NULL, "the body is required" },
	{ "[]", "invalid_field", NULL, "the body must be an object" },
	{ "{`a`:1", "invalid_json", NULL,
	  "the body is not JSON, at byte 6: expecting ',' delimiter" },
	{ "{`a`:1,`a`:1}", "invalid_json", NULL, "the body is not JSON, at byte 7: duplicate key" },
	{ "{`\303\251` 1}", "invalid_json", NULL,
	  "the body is not JSON, at byte 6: expecting ':' delimiter" },
	{ "{}", "invalid_field", "code", "'code' is required" },
	{ "{`code`:1,`stdin`:1}", "invalid_field", "code", "'code' must be a string" },
	{ "{`code`:``,`timeout_ms`:1.0}", "invalid_field", "timeout_ms",
	  "'timeout_ms' must be an integer" },
	{ "{`code`:``,`timeout_ms`:0}", "invalid_field", "timeout_ms",
	  "'timeout_ms' must be at least 1" },
	{ "{`code`:``,`opt`:11}", "invalid_field", "opt", "'opt' must be at most 10" },
	{ "{`code`:``,`name`:`a`}", "invalid_field", "name", "'name' must have at least 2 bytes" },
	{ "{`code`:``,`name`:`abc\342\202\254`}", "invalid_field", "name",
	  "'name' must have at most 5 bytes" },
	{ "{`code`:``,`sub`:{`a`:0,`b`:`xy`}}", "invalid_field", "sub.b",
	  "'sub.b' must have at most 1 byte" },
	{ "{`code`:``,`strict`:`true`}", "invalid_field", "strict",
	  "'strict' must be true or false" },
	{ "{`code`:``,`last_line_interactive`:`maybe`}", "invalid_field", "last_line_interactive",
	  "'last_line_interactive' must be true or false" },
	{ "{`code`:``,`files`:{}}", "invalid_field", "files", "'files' must be a list" },
	{ "{`code`:``,`files`:[{`path`:``,`content`:``},7]}", "invalid_field", "files[1]",
	  "'files[1]' must be an object" },
	{ "{`code`:``,`files`:[{`content`:``}]}", "invalid_field", "files[0].path",
	  "'files[0].path' is required" },
	{ "{`code`:``,`files`:[{`path`:``}]}", "invalid_field", "files[0]",
	  "'files[0]' must have exactly one of 'file_id', 'content', 'content_base64'" },
	{ "{`code`:``,`files`:[{`path`:``,`content`:``,`content_base64`:``}]}", "invalid_field",
	  "files[0]",
	  "'files[0]' must have exactly one of 'file_id', 'content', 'content_base64'" },
	{ "{`code`:``,`files`:[1,2,3,4]}", "invalid_field", "files",
	  "'files' must have at most 3 elements" },
	{ "{`code`:``,`pair`:[]}", "invalid_field", "pair", "'pair' must have at least 1 element" },
};

static void check_own(const struct fields *table, const char *body, const char *code,
		      const char *field, const char *message)
{
	own_free char *got = answer(table, body, true);
	const char *mark = field != NULL ? "`" : "";
	char want[4096];

	(void)snprintf(want, sizeof(want),
		       "{`error`:{`code`:`%s`,`message`:`%s`,`field`:%s%s%s,`hint`:null,"
		       "`request_id`:`r1`}}",
		       code, message, mark, field != NULL ? field : "null", mark);
	CHECK_STR(got, want);
}

TEST(fields_answer_in_our_own_words)
{
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		check_own(&request_table, own[i].body, own[i].code, own[i].field, own[i].message);
	check_own(&closed_table, "{`a`:1,`b`:2}", "unknown_field", "b", "'b' is not a known field");
	check_own(&closed_table, "{`a`:1,`f`:[{`s`:``,`t`:2}]}", "unknown_field", "f[0].t",
		  "'f[0].t' is not a known field");
	check_own(&closed_table, "{`a`:1,``:2}", "unknown_field", NULL, "'' is not a known field");
}

TEST(fields_answer_without_a_request_id)
{
	struct field_errors errs = { 0 };
	struct jsonr_error e = { .offset = 3, .chars = 3, .why = "extra data" };
	struct json j;

	field_errors_json(&errs, &e);
	json_init(&j);
	field_errors_own(&errs, NULL, &j);
	CHECK_STR(j.buf,
		  "{\"error\":{\"code\":\"invalid_json\",\"message\":\"the body is not JSON, at "
		  "byte 3: extra data\",\"field\":null,\"hint\":null,\"request_id\":null}}");
	json_done(&j);
}

TEST(fields_answer_to_what_the_caller_finds)
{
	static const struct field_step path[] = { { .key = "files" },
						  { .index = 1 },
						  { .key = "content_base64" } };
	static const struct field_step nowhere[] = { { .key = "files" }, { .index = 9 } };
	struct request r = { 0 };
	struct body *b = take(&request_table,
			      "{`code`:``,`files`:[{`path`:`a`,`content`:``},"
			      "{`path`:`b`,`content_base64`:`!`}]}",
			      &r);
	struct json j;

	CHECK_EQ_INT(b->rc, 0);
	field_errors_value(&b->errs, &b->doc, path, ARRAY_LEN(path), "not base64");
	field_errors_value(&b->errs, &b->doc, nowhere, ARRAY_LEN(nowhere), "gone");
	json_init(&j);
	field_errors_fastapi(&b->errs, &b->doc, &j);
	CHECK_STR(j.buf, "{\"detail\":[{\"type\":\"value_error\",\"loc\":[\"body\",\"files\",1,"
			 "\"content_base64\"],\"msg\":\"Value error, not base64\",\"input\":\"!\","
			 "\"ctx\":{\"error\":{}}},{\"type\":\"value_error\",\"loc\":[\"body\","
			 "\"files\",9],\"msg\":\"Value error, gone\",\"input\":null,"
			 "\"ctx\":{\"error\":{}}}]}");
	json_done(&j);
	field_errors_own(&b->errs, "x", &j);
	CHECK(strstr(j.buf, "\"'files[1].content_base64' is refused: not base64\"") != NULL);
	json_done(&j);
	give_back(b);
}

/* --- what is read ---------------------------------------------------------------------------------------------- */

TEST(fields_reads_defaults)
{
	struct request r = { 0 };
	struct body *b;

	memset(&r, 0x5a, sizeof(r));
	b = take(&request_table, "{`code`:`x`,`unknown`:{`a`:[1]},`CODE`:1}", &r);
	CHECK_EQ_INT(b->rc, 0);
	CHECK(b->errs.n == 0 && !b->errs.more && b->mem.chunks == NULL);
	CHECK_STR(r.code.p, "x");
	CHECK(r.code.n == 1 && r.code.set);
	CHECK(r.input.p == NULL && r.input.n == 0 && !r.input.set);
	CHECK_EQ_INT(r.timeout_ms, 2000);
	CHECK(r.interactive && !r.strict);
	CHECK(r.files.v == NULL && r.files.n == 0 && r.pair.n == 0);
	CHECK_STR(r.name.p, "abc");
	CHECK(r.name.n == 3 && !r.name.set);
	CHECK(r.opt == 0 && !r.opt_set);
	CHECK(!r.sub_set && r.sub.a == 0);
	CHECK_STR(r.sub.b.p, "x");
	give_back(b);
}

TEST(fields_reads_values)
{
	struct request r = { 0 };
	const struct file *f;
	struct body *b = take(&request_table,
			      "{`pair`:[{`path`:`q`,`content`:`t`}],`sub`:{`a`:-3},`strict`:true,"
			      "`opt`:10,`name`:`abcde`,`files`:[{`path`:`a`,`file_id`:`1`},"
			      "{`content_base64`:`aGk=`,`path`:`b`},{`path`:`c`,`content`:``,"
			      "`content_base64`:null}],`last_line_interactive`:`OFF`,"
			      "`timeout_ms`:9223372036854775807,`stdin`:`in`,`code`:`a\\nb`}",
			      &r);

	CHECK_EQ_INT(b->rc, 0);
	CHECK_STR(r.code.p, "a\nb");
	CHECK_EQ_INT(r.code.n, 3);
	CHECK_STR(r.input.p, "in");
	CHECK(r.input.set);
	CHECK_EQ_INT(r.timeout_ms, INT64_MAX);
	CHECK(!r.interactive && r.strict);
	CHECK_STR(r.name.p, "abcde");
	CHECK(r.name.set);
	CHECK(r.opt == 10 && r.opt_set);
	CHECK(r.sub_set && r.sub.a == -3);
	CHECK_STR(r.sub.b.p, "x");
	CHECK_EQ_INT(r.files.n, 3);
	f = r.files.v;
	CHECK_STR(f[0].path.p, "a");
	CHECK_STR(f[0].file_id.p, "1");
	CHECK(f[0].file_id.set && !f[0].content.set && !f[0].content_base64.set);
	CHECK_STR(f[1].content_base64.p, "aGk=");
	CHECK(f[1].content_base64.n == 4 && !f[1].file_id.set);
	CHECK(f[2].content.set && f[2].content.n == 0 && f[2].content_base64.p == NULL);
	CHECK_EQ_INT(r.pair.n, 1);
	CHECK_STR(((const struct file *)r.pair.v)->content.p, "t");
	give_back(b);
}

/* null is no default: it reads as nothing at all. */
TEST(fields_reads_null_as_nothing)
{
	struct rows {
		struct field_str s;
		int64_t i;
		bool b, i_set, o_set;
		struct field_list l;
		struct sub o;
	} r = { 0 };
	/* clang-format off */
	static const struct field rows[] = {
		{ "s", FIELD_STRING, FIELD_NULLABLE, 0, 9, 0, AT(rows, s), .doc = "x", .text = "text" },
		{ "i", FIELD_INT, FIELD_NULLABLE, 1, 9, 5, AT(rows, i), .doc = "x", .set_at = AT(rows, i_set) },
		{ "b", FIELD_BOOL, FIELD_NULLABLE, 0, 0, true, AT(rows, b), .doc = "x" },
		{ "l", FIELD_LIST, FIELD_NULLABLE | FIELD_REQUIRED, 1, 9, 0, AT(rows, l), .doc = "x", .sub = &sub_table },
		{ "o", FIELD_OBJECT, FIELD_NULLABLE, 0, 0, 0, AT(rows, o), .doc = "x", .sub = &sub_table, .set_at = AT(rows, o_set) },
	};
	/* clang-format on */
	static const struct fields table = { "T", rows, ARRAY_LEN(rows), sizeof(r), 0 };
	struct body *b = take(&table, "{`s`:null,`i`:null,`b`:null,`l`:null,`o`:null}", &r);

	CHECK_STR(fields_check(&table), NULL);
	CHECK_EQ_INT(b->rc, 0);
	CHECK(r.s.p == NULL && !r.s.set && r.i == 0 && !r.i_set && !r.b);
	CHECK(r.l.v == NULL && r.l.n == 0 && !r.o_set);
	give_back(b);
	b = take(&table, "{`l`:null}", &r);
	CHECK_EQ_INT(b->rc, 0);
	CHECK(strcmp(r.s.p, "text") == 0 && !r.s.set && r.i == 5 && !r.i_set && r.b);
	give_back(b);
	b = take(&table, "{}", &r); /* may be null, but must be there */
	CHECK_EQ_INT(b->rc, -EINVAL);
	CHECK_EQ_INT(b->errs.v[0].fault, FAULT_MISSING);
	give_back(b);
}

TEST(fields_takes_a_lenient_bool_as_pydantic_does)
{
	static const char *const words[2][20] = {
		{ "false", "0", "-0", "0.0", "-0.0", "0e5", "`false`", "`False`", "`FALSE`", "`f`",
		  "`F`", "`no`", "`No`", "`n`", "`N`", "`off`", "`OFF`", "`0`", "`f\\u0061lse`" },
		{ "true", "1", "1.0", "1e0", "10e-1", "`true`", "`TRUE`", "`tRuE`", "`t`", "`T`",
		  "`yes`", "`YES`", "`y`", "`Y`", "`on`", "`On`", "`1`", "`tru\\u0065`" },
	};

	for (size_t v = 0; v < 2; v++) {
		for (size_t i = 0; i < 20 && words[v][i] != NULL; i++) {
			char text[80];
			struct request r = { 0 };
			struct body *b;

			(void)snprintf(text, sizeof(text), "{`code`:``,`last_line_interactive`:%s}",
				       words[v][i]);
			b = take(&request_table, text, &r);
			CHECK_EQ_INT(b->rc, 0);
			CHECK_EQ_INT(r.interactive, v);
			give_back(b);
		}
	}
}

/* --- bounds -------------------------------------------------------------------------------------------------- */

TEST(fields_tells_so_many_problems)
{
	for (size_t n = FIELD_ERRORS_MAX - 1; n <= FIELD_ERRORS_MAX + 2; n++) {
		struct json j;
		struct closed c;
		struct body *b;

		json_init(&j);
		json_open(&j, NULL, '{');
		json_i64(&j, "a", 1);
		json_open(&j, "f", '[');
		for (size_t i = 0; i < n; i++)
			json_i64(&j, NULL, 1);
		json_close(&j, ']');
		json_close(&j, '}');
		b = take(&closed_table, j.buf, &c);
		CHECK_EQ_INT(b->rc, -EINVAL);
		CHECK_EQ_INT(b->errs.n, n < FIELD_ERRORS_MAX ? n : FIELD_ERRORS_MAX);
		CHECK_EQ_INT(b->errs.more, n > FIELD_ERRORS_MAX);
		for (size_t i = 0; i < b->errs.n; i++) {
			const struct field_problem *p = &b->errs.v[i];

			CHECK_EQ_INT(p->fault, FAULT_NOT_OBJECT);
			CHECK_EQ_INT(p->depth, 2);
			CHECK_STR(p->path[0].key, "f");
			CHECK(p->path[1].key == NULL && p->path[1].index == i);
			CHECK_EQ_INT(p->input->integer, 1);
		}
		give_back(b);
		json_done(&j);
	}
}

/* Unknown keys may be long, and many: the answer is not. */
TEST(fields_answers_are_bounded)
{
	enum { KEY = 100000, KEYS = 30 };
	own_free char *key = malloc(KEY + 1);
	struct closed c;
	struct json j, out;
	struct body *b;

	CHECK(key != NULL);
	memset(key, 'k', KEY);
	key[KEY] = '\0';
	json_init(&j);
	json_open(&j, NULL, '{');
	for (int i = 0; i < KEYS; i++) {
		key[0] = (char)('A' + i);
		json_bytes(&j, key, key, KEY);
	}
	json_close(&j, '}');
	b = take(&closed_table, j.buf, &c);
	CHECK_EQ_INT(b->rc, -EINVAL);
	CHECK_EQ_INT(b->errs.n, FIELD_ERRORS_MAX);
	json_init(&out);
	field_errors_fastapi(&b->errs, &b->doc, &out);
	CHECK(out.len < FIELD_ERRORS_MAX * 800);
	json_done(&out);
	b->errs.v[0] = b->errs.v[1]; /* the first was that 'a' is missing */
	field_errors_own(&b->errs, "r", &out);
	CHECK(out.len < 800);
	json_done(&out);
	give_back(b);
	json_done(&j);
}

TEST(fields_reads_long_lists)
{
	struct json j;
	struct closed c;
	struct body *b;

	for (int n = 999; n <= 1001; n++) {
		json_init(&j);
		json_open(&j, NULL, '{');
		json_i64(&j, "a", n);
		json_open(&j, "f", '[');
		for (int i = 0; i < n; i++) {
			char s[16];

			(void)snprintf(s, sizeof(s), "%d", i);
			json_open(&j, NULL, '{');
			json_str(&j, "s", s);
			json_close(&j, '}');
		}
		json_close(&j, ']');
		json_close(&j, '}');
		b = take(&closed_table, j.buf, &c);
		CHECK_EQ_INT(b->rc, n <= 1000 ? 0 : -EINVAL);
		if (n <= 1000) {
			const struct inner *v = c.f.v;

			CHECK_EQ_INT(c.f.n, n);
			for (int i = 0; i < n; i++)
				CHECK_EQ_INT(strtol(v[i].s.p, NULL, 10), i);
		}
		give_back(b);
		json_done(&j);
	}
}

/* --- the schema ------------------------------------------------------------------------------------------------ */

static void check_schema(const struct fields *table, const char *want)
{
	struct jsonr d;
	struct json j;

	json_init(&j);
	fields_schema(table, &j, NULL);
	for (size_t i = 0; i < j.len; i++)
		if (j.buf[i] == '"')
			j.buf[i] = '`';
	CHECK_STR(j.buf, want);
	for (size_t i = 0; i < j.len; i++)
		if (j.buf[i] == '`')
			j.buf[i] = '"';
	CHECK_EQ_INT(jsonr_parse(&d, j.buf, j.len, NULL), 0);
	jsonr_done(&d);
	json_done(&j);
}

#define FILE_SCHEMA                                                                                \
	"{`type`:`object`,`title`:`File`,`properties`:{"                                           \
	"`path`:{`type`:`string`,`description`:`where`},"                                          \
	"`file_id`:{`type`:`string`,`description`:`one that was sent before`},"                    \
	"`content`:{`type`:`string`,`description`:`its text`},"                                    \
	"`content_base64`:{`type`:[`string`,`null`],`description`:`its bytes`,"                    \
	"`contentEncoding`:`base64`}},`required`:[`path`],"                                        \
	"`oneOf`:[{`required`:[`file_id`]},{`required`:[`content`]},{`required`:[`content_base64`" \
	"]}]}"

TEST(fields_writes_its_schema)
{
	check_schema(
		&request_table,
		"{`type`:`object`,`title`:`Request`,`properties`:{"
		"`code`:{`type`:`string`,`description`:`Python source`},"
		"`stdin`:{`type`:[`string`,`null`],`description`:`what it reads`,`default`:null},"
		"`timeout_ms`:{`type`:`integer`,`description`:`how long it may take`,`minimum`:1,"
		"`default`:2000},"
		"`last_line_interactive`:{`type`:`boolean`,`description`:`print the last value`,"
		"`default`:true},"
		"`files`:{`type`:`array`,`description`:`put there first`,`maxItems`:3,"
		"`items`:" FILE_SCHEMA ",`default`:[]},"
		"`name`:{`type`:`string`,`description`:`a name`,`minLength`:2,`maxLength`:5,"
		"`default`:`abc`},"
		"`opt`:{`type`:[`integer`,`null`],`description`:`perhaps`,`minimum`:1,"
		"`maximum`:10,`default`:null},"
		"`strict`:{`type`:`boolean`,`description`:`yes or no`,`default`:false},"
		"`sub`:{`type`:[`object`,`null`],`description`:`more`,`properties`:{"
		"`a`:{`type`:`integer`,`description`:`a number`,`minimum`:-3},"
		"`b`:{`type`:`string`,`description`:`a letter`,`maxLength`:1,`default`:`x`}},"
		"`required`:[`a`],`default`:null},"
		"`pair`:{`type`:`array`,`description`:`exactly one`,`minItems`:1,`maxItems`:1,"
		"`items`:" FILE_SCHEMA ",`default`:[]}},"
		"`required`:[`code`]}");
	check_schema(&closed_table,
		     "{`type`:`object`,`title`:`Closed`,`properties`:{"
		     "`a`:{`type`:`integer`,`description`:`a number`},"
		     "`f`:{`type`:`array`,`description`:`some more`,`maxItems`:1000,`items`:"
		     "{`type`:`object`,`title`:`Inner`,`properties`:{`s`:{`type`:`string`,"
		     "`description`:`a text`}},`required`:[`s`],`additionalProperties`:false},"
		     "`default`:[]}},`required`:[`a`],`additionalProperties`:false}");
}

/* --- texts, maps, parts of a number, words ---------------------------------------------------------------------- */

struct texts {
	struct field_list argv, env;
	int64_t cpus;
	bool cpus_set, env_set;
	struct field_str mode;
};

/* clang-format off */
static const struct field texts_rows[] = {
	{ "argv", FIELD_STRINGS, 0, 1, 3, 0, AT(texts, argv), .doc = "words" },
	{ "env", FIELD_MAP, FIELD_NULLABLE, 0, 2, 0, AT(texts, env), .doc = "pairs", .set_at = AT(texts, env_set) },
	{ "cpus", FIELD_MILLI, 0, 10, 2500, 1500, AT(texts, cpus), .doc = "how many", .set_at = AT(texts, cpus_set) },
	{ "mode", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, AT(texts, mode), .doc = "which", .text = "slow", .words = "slow fast" },
};
static const struct fields texts_table = { "Texts", texts_rows, ARRAY_LEN(texts_rows), sizeof(struct texts), FIELDS_CLOSED };
/* clang-format on */

TEST(fields_reads_texts_and_maps)
{
	struct texts t = { 0 };
	struct body *b =
		take(&texts_table,
		     "{`argv`:[`a`,``,`b c`],`env`:{`K`:`v`,`L`:``},`cpus`:0.5,`mode`:`fast`}", &t);
	const struct field_str *argv = t.argv.v;
	const struct field_pair *env = t.env.v;

	CHECK_EQ_INT(b->rc, 0);
	CHECK_EQ_INT(t.argv.n, 3);
	CHECK_STR(argv[0].p, "a");
	CHECK_EQ_INT(argv[1].n, 0);
	CHECK_STR(argv[2].p, "b c");
	CHECK(t.env_set);
	CHECK_EQ_INT(t.env.n, 2);
	CHECK_STR(env[0].key.p, "K");
	CHECK_STR(env[0].value.p, "v");
	CHECK_STR(env[1].key.p, "L");
	CHECK_EQ_INT(env[1].value.n, 0);
	CHECK(t.cpus_set);
	CHECK_EQ_INT(t.cpus, 500);
	CHECK_STR(t.mode.p, "fast");
	give_back(b);
	b = take(&texts_table, "{`env`:null}", &t);
	CHECK_EQ_INT(b->rc, 0);
	CHECK_EQ_INT(t.argv.n + t.env.n, 0);
	CHECK(!t.env_set && !t.cpus_set);
	CHECK_EQ_INT(t.cpus, 1500);
	CHECK_STR(t.mode.p, "slow");
	give_back(b);
}

TEST(fields_reads_parts_of_a_number)
{
	static const struct {
		const char *text;
		int64_t milli; /* -1: refused */
	} rows[] = {
		{ "1", 1000 },    { "2.5", 2500 },  { "0.01", 10 },     { "0.0101", 10 },
		{ "0.0106", 11 }, { "2.501", -1 },  { "0.009", -1 },    { "-1", -1 },
		{ "1e300", -1 },  { "-1e300", -1 }, { "`1`", -1 },      { "true", -1 },
		{ "9e18", -1 },   { "0", -1 },      { "1.9999", 2000 }, { "[1]", -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char body[64];
		struct texts t;
		struct body *b;

		(void)snprintf(body, sizeof(body), "{`cpus`:%s}", rows[i].text);
		b = take(&texts_table, body, &t);
		CHECK_EQ_INT(b->rc, rows[i].milli < 0 ? -EINVAL : 0);
		if (b->rc == 0)
			CHECK_EQ_INT(t.cpus, rows[i].milli);
		give_back(b);
	}
}

TEST(fields_answer_to_texts_and_maps)
{
	static const struct {
		const char *body, *field, *message;
	} rows[] = {
		{ "{`argv`:`a`}", "argv", "'argv' must be a list" },
		{ "{`argv`:[]}", "argv", "'argv' must have at least 1 element" },
		{ "{`argv`:[`a`,`b`,`c`,`d`]}", "argv", "'argv' must have at most 3 elements" },
		{ "{`argv`:[`a`,1]}", "argv[1]", "'argv[1]' must be a string" },
		{ "{`env`:[]}", "env", "'env' must be an object" },
		{ "{`env`:{`a`:`1`,`b`:`2`,`c`:`3`}}", "env",
		  "'env' must have at most 2 elements" },
		{ "{`env`:{`a`:null}}", "env.a", "'env.a' must be a string" },
		{ "{`cpus`:`1`}", "cpus", "'cpus' must be a number" },
		{ "{`cpus`:9}", "cpus", "'cpus' must be at most 2.5" },
		{ "{`cpus`:0}", "cpus", "'cpus' must be at least 0.01" },
		{ "{`mode`:`fas`}", "mode", "'mode' must be 'slow' or 'fast'" },
		{ "{`mode`:``}", "mode", "'mode' must be 'slow' or 'fast'" },
		{ "{`mode`:`slow fast`}", "mode", "'mode' must be 'slow' or 'fast'" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		check_own(&texts_table, rows[i].body, "invalid_field", rows[i].field,
			  rows[i].message);
	check_fastapi(&texts_table, "{`cpus`:9}",
		      "{`type`:`less_than_equal`,`loc`:[`body`,`cpus`],"
		      "`msg`:`Input should be less than or equal to 2.5`,`input`:9,"
		      "`ctx`:{`le`:2.500}}");
}

TEST(fields_writes_the_schema_of_texts_and_maps)
{
	check_schema(&texts_table,
		     "{`type`:`object`,`title`:`Texts`,`properties`:{"
		     "`argv`:{`type`:`array`,`description`:`words`,`minItems`:1,`maxItems`:3,"
		     "`items`:{`type`:`string`},`default`:[]},"
		     "`env`:{`type`:[`object`,`null`],`description`:`pairs`,`maxProperties`:2,"
		     "`additionalProperties`:{`type`:`string`},`default`:null},"
		     "`cpus`:{`type`:`number`,`description`:`how many`,`minimum`:0.010,"
		     "`maximum`:2.500,`default`:1.500},"
		     "`mode`:{`type`:`string`,`description`:`which`,`enum`:[`slow`,`fast`],"
		     "`default`:`slow`}},`additionalProperties`:false}");
}

/* --- an object, or true ------------------------------------------------------------------------------------------ */

struct either {
	int64_t first;
	struct sub o;
	bool o_set;
};

static const struct field number_row = {
	"a", FIELD_INT, 0, 0, 9, 4, AT(sub, a), .doc = "a number"
};
static const struct fields number_table = { "Number", &number_row, 1, sizeof(struct sub),
					    FIELDS_CLOSED };
static const struct field either_row = { "o",
					 FIELD_OBJECT,
					 FIELD_NULLABLE | FIELD_OR_BOOL,
					 0,
					 0,
					 0,
					 AT(either, o),
					 .doc = "one, or true",
					 .sub = &number_table,
					 .set_at = AT(either, o_set) };
static const struct fields either_table = { "Either", &either_row, 1, sizeof(struct either),
					    FIELDS_CLOSED };

TEST(fields_reads_true_for_an_object)
{
	static const struct {
		const char *text;
		int rc;
		bool set;
		int64_t a;
	} rows[] = {
		{ "{}", 0, false, 4 },
		{ "{`o`:null}", 0, false, 4 },
		{ "{`o`:false}", 0, false, 4 },
		{ "{`o`:true}", 0, true, 4 },
		{ "{`o`:{}}", 0, true, 4 },
		{ "{`o`:{`a`:7}}", 0, true, 7 },
		{ "{`o`:{`a`:10}}", -EINVAL, false, 0 },
		{ "{`o`:{`b`:1}}", -EINVAL, false, 0 },
		{ "{`o`:1}", -EINVAL, false, 0 },
		{ "{`o`:`true`}", -EINVAL, false, 0 },
	};

	CHECK_STR(fields_check(&either_table), NULL);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct either out;
		struct body *b = take(&either_table, rows[i].text, &out);

		CHECK_EQ_INT(b->rc, rows[i].rc);
		if (b->rc == 0) {
			CHECK_EQ_INT(out.o_set, rows[i].set);
			CHECK_EQ_INT(out.o.a, rows[i].a);
		}
		give_back(b);
	}
	check_schema(&either_table,
		     "{`type`:`object`,`title`:`Either`,`properties`:{"
		     "`o`:{`type`:[`object`,`boolean`,`null`],`description`:`one, or true`,"
		     "`properties`:{`a`:{`type`:`integer`,`description`:`a number`,`minimum`:0,"
		     "`maximum`:9,`default`:4}},`additionalProperties`:false,`default`:null}},"
		     "`additionalProperties`:false}");
}

/* --- a value that stands for an object --------------------------------------------------------------------------- */

struct short_form {
	struct field_str name, other;
	int64_t number;
	bool flag;
};

struct short_forms {
	struct field_list v;
};

/* clang-format off */
static const struct field short_rows[] = {
	{ "flag", FIELD_BOOL, 0, 0, 0, true, AT(short_form, flag), .doc = "yes or no" },
	{ "name", FIELD_STRING, FIELD_ONE_OF, 1, 3, 0, AT(short_form, name), .doc = "a name" },
	{ "other", FIELD_STRING, FIELD_ONE_OF, 1, 9, 0, AT(short_form, other), .doc = "another one" },
	{ "number", FIELD_INT, 0, 0, 9, 4, AT(short_form, number), .doc = "a number" },
};
static const struct fields short_table = { "Short", short_rows, ARRAY_LEN(short_rows), sizeof(struct short_form), FIELDS_CLOSED | FIELDS_OR_VALUE };
/* clang-format on */

static const struct field shorts_row = {
	"v", FIELD_LIST, 0, 0, 9, 0, AT(short_forms, v), .doc = "some", .sub = &short_table
};
static const struct fields shorts_table = { "Shorts", &shorts_row, 1, sizeof(struct short_forms),
					    FIELDS_CLOSED };

TEST(fields_reads_values_that_stand_for_objects)
{
	struct short_forms out = { 0 };
	struct body *b =
		take(&shorts_table, "{`v`:[`ab`,7,{`other`:`x`,`number`:2,`flag`:false}]}", &out);
	const struct short_form *v = out.v.v;

	CHECK_EQ_INT(b->rc, 0);
	CHECK_EQ_INT(out.v.n, 3);
	CHECK_STR(v[0].name.p, "ab");
	CHECK(v[0].name.set && !v[0].other.set && v[0].flag && v[0].number == 4);
	CHECK(!v[1].name.set && v[1].number == 7);
	CHECK_STR(v[2].other.p, "x");
	CHECK(v[2].number == 2 && !v[2].flag);
	give_back(b);
}

TEST(fields_answer_to_values_that_stand_for_nothing)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{ "{`v`:[`a`,``]}", "'v[1]' must have at least 1 byte" },
		{ "{`v`:[`abcd`]}", "'v[0]' must have at most 3 bytes" },
		{ "{`v`:[10]}", "'v[0]' must be at most 9" },
		{ "{`v`:[1.5]}", "'v[0]' must be an object, or a value that stands for one" },
		{ "{`v`:[true]}", "'v[0]' must be an object, or a value that stands for one" },
		{ "{`v`:[null]}", "'v[0]' must be an object, or a value that stands for one" },
		{ "{`v`:[[]]}", "'v[0]' must be an object, or a value that stands for one" },
		{ "{`v`:`a`}", "'v' must be a list" },
		{ "{`v`:[{}]}", "'v[0]' must have exactly one of 'name', 'other'" },
		{ "{`v`:[{`name`:`a`,`x`:1}]}", "'v[0].x' is not a known field" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct short_forms out;
		struct body *b = take(&shorts_table, rows[i].text, &out);
		struct json j;

		CHECK_EQ_INT(b->rc, -EINVAL);
		json_init(&j);
		field_errors_own(&b->errs, NULL, &j);
		json_raw(&j, "", 1);
		if (strstr(j.buf, rows[i].message) == NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", rows[i].text, j.buf);
		json_done(&j);
		give_back(b);
	}
}

TEST(fields_writes_the_schema_of_values_that_stand_for_objects)
{
	CHECK_STR(fields_check(&shorts_table), NULL);
	check_schema(&shorts_table,
		     "{`type`:`object`,`title`:`Shorts`,`properties`:{"
		     "`v`:{`type`:`array`,`description`:`some`,`maxItems`:9,`items`:{`anyOf`:["
		     "{`type`:`string`,`description`:`a name`,`minLength`:1,`maxLength`:3},"
		     "{`type`:`integer`,`description`:`a number`,`minimum`:0,`maximum`:9},"
		     "{`type`:`object`,`title`:`Short`,`properties`:{"
		     "`flag`:{`type`:`boolean`,`description`:`yes or no`,`default`:true},"
		     "`name`:{`type`:`string`,`description`:`a name`,`minLength`:1,`maxLength`:3},"
		     "`other`:{`type`:`string`,`description`:`another one`,`minLength`:1,"
		     "`maxLength`:9},"
		     "`number`:{`type`:`integer`,`description`:`a number`,`minimum`:0,`maximum`:9,"
		     "`default`:4}},"
		     "`oneOf`:[{`required`:[`name`]},{`required`:[`other`]}],"
		     "`additionalProperties`:false}]},`default`:[]}},"
		     "`additionalProperties`:false}");
}

/* --- the tables themselves ------------------------------------------------------------------------------------- */

TEST(fields_tables_of_this_file_are_right)
{
	CHECK_STR(fields_check(&request_table), NULL);
	CHECK_STR(fields_check(&closed_table), NULL);
	CHECK_STR(fields_check(&texts_table), NULL);
}

static const struct field leaf_row = { "x", FIELD_INT, 0, 0, 1, 0, 0, .doc = "x" };
static const struct fields leaf = { "T", &leaf_row, 1, 64, 0 };

static struct field list_of(const struct fields *sub)
{
	return (struct field){ "x", FIELD_LIST, 0, 0, 1, 0, 0, .doc = "x", .sub = sub };
}

TEST(fields_check_sees_tables_that_are_too_deep)
{
	struct field rows[4];
	struct fields tables[4];

	for (size_t i = 0; i < 4; i++) {
		rows[i] = list_of(i == 0 ? &leaf : &tables[i - 1]);
		tables[i] = (struct fields){ "T", &rows[i], 1, 64, 0 };
	}
	CHECK_STR(fields_check(&tables[2]), NULL);
	CHECK_STR(fields_check(&tables[3]), "tables too deep inside each other");
	/* Seven steps fit, and what is at their end can be told. */
	rows[0].type = FIELD_OBJECT;
	rows[0].max = 0;
	CHECK_STR(fields_check(&tables[3]), NULL);
}

TEST(fields_check_sees_what_is_wrong_with_a_table)
{
	static const struct field good = { "x", FIELD_INT, 0, 0, 9, 5, 0, .doc = "x" };
	static const struct {
		const char *why;
		struct field row;
	} rows[] = {
		{ "a name", { "", FIELD_INT, 0, 0, 9, 5, 0, .doc = "x" } },
		{ "a line", { "y", FIELD_INT, 0, 0, 9, 5, 0, .doc = "" } },
		{ "a line", { "y", FIELD_INT, 0, 0, 9, 5, 0, .doc = "x\ny" } },
		{ "a type", { "y", FIELD_TYPE_MAX, 0, 0, 9, 5, 0, .doc = "x" } },
		{ "twice", { "x", FIELD_INT, 0, 0, 9, 5, 0, .doc = "x" } },
		{ "range", { "y", FIELD_INT, 0, 10, 9, 10, 0, .doc = "x" } },
		{ "default", { "y", FIELD_INT, 0, 1, 9, 0, 0, .doc = "x" } },
		{ "default", { "y", FIELD_INT, 0, 1, 9, 10, 0, .doc = "x" } },
		{ "length", { "y", FIELD_STRING, 0, -9, -1, 0, 0, .doc = "x" } },
		{ "length", { "y", FIELD_STRING, 0, 5, 4, 0, 0, .doc = "x" } },
		{ "elements",
		  { "y", FIELD_LIST, 0, 0, FIELD_NO_MAX, 0, 0, .doc = "x", .sub = &leaf } },
		{ "elements", { "y", FIELD_STRINGS, 0, 3, 2, 0, 0, .doc = "x" } },
		{ "elements", { "y", FIELD_MAP, 0, 0, FIELD_NO_MAX, 0, 0, .doc = "x" } },
		{ "below zero", { "y", FIELD_MILLI, 0, -1, 9, 0, 0, .doc = "x" } },
		{ "column", { "y", FIELD_STRINGS, 0, 0, 9, 0, 0, .doc = "x", .set_at = 8 } },
		{ "column", { "y", FIELD_MAP, 0, 0, 9, 1, 0, .doc = "x" } },
		{ "column", { "y", FIELD_INT, 0, 0, 9, 1, 0, .doc = "x", .words = "a" } },
		{ "bounds", { "y", FIELD_BOOL, 0, 0, 1, 0, 0, .doc = "x" } },
		{ "sub-table", { "y", FIELD_LIST, 0, 0, 9, 0, 0, .doc = "x" } },
		{ "sub-table", { "y", FIELD_INT, 0, 0, 9, 0, 0, .doc = "x", .sub = &leaf } },
		{ "outside", { "y", FIELD_INT, 0, 0, 9, 5, 57, .doc = "x" } },
		{ "outside", { "y", FIELD_STRING, 0, 0, 9, 0, 48, .doc = "x" } },
		{ "outside", { "y", FIELD_INT, 0, 0, 9, 5, 0, .doc = "x", .set_at = 64 } },
		{ "column", { "y", FIELD_STRING, 0, 0, 9, 0, 0, .doc = "x", .set_at = 8 } },
		{ "column", { "y", FIELD_STRING, 0, 0, 9, 1, 0, .doc = "x" } },
		{ "column", { "y", FIELD_INT, 0, 0, 9, 1, 0, .doc = "x", .text = "1" } },
		{ "flag", { "y", FIELD_INT, FIELD_OR_BOOL, 0, 9, 0, 0, .doc = "x" } },
		{ "alternative",
		  { "y", FIELD_INT, FIELD_ONE_OF | FIELD_REQUIRED, 0, 9, 0, 0, .doc = "x" } },
		{ "alternative", { "y", FIELD_INT, FIELD_ONE_OF, 0, 9, 0, 0, .doc = "x" } },
	};
	struct field many[FIELDS_ROWS_MAX + 1];
	struct fields table = { "T", many, 2, 64, 0 };

	many[0] = good;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *why;

		many[1] = rows[i].row;
		why = fields_check(&table);
		if (why == NULL || strstr(why, rows[i].why) == NULL)
			test_fail(__FILE__, __LINE__, "row %zu: '%s', wanted '%s'", i,
				  why != NULL ? why : "", rows[i].why);
		test_count();
	}
	table.n = 1;
	CHECK_STR(fields_check(&table), NULL);
	table.n = 0;
	CHECK(fields_check(&table) != NULL);
	for (size_t i = 0; i < ARRAY_LEN(many); i++)
		many[i] = good;
	table.n = ARRAY_LEN(many);
	CHECK(fields_check(&table) != NULL);
}
