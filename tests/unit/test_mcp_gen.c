/* SPDX-License-Identifier: Apache-2.0 */
/* src/mcp/gen_*.c: modules of Python for the tools of a server. What they do in Python is for tests/mcp/test_gen.py. */
#include "mcp/gen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/own.h"

#include "test_help.h"

/* In front of a fence. */
static struct json_text read_text(struct fence *f, const char *text, size_t n)
{
	struct json_text t = { NULL, 0 };

	*f = fence_open(n);
	CHECK_EQ_INT(json_text_read((const char *)fence_copy(f, text, n), n, &t), 0);
	return t;
}

/* The module of a tool; to be freed. */
static char *module_of(enum gen_layout layout, const char *text)
{
	struct fence f;
	struct json_text t = read_text(&f, text, strlen(text));
	struct json j;

	json_init(&j);
	CHECK_EQ_INT(gen_module(layout, "srv", "mod", t, &j), 0);
	fence_close(&f);
	return j.buf;
}

static void check_has(const char *schema, const char *want)
{
	char text[4096];
	own_free char *got = NULL;

	(void)snprintf(text, sizeof(text), "{\"name\":\"t\",\"inputSchema\":%s}", schema);
	got = module_of(GEN_MCPTOOLS, text);
	if (strstr(got, want) == NULL)
		test_fail(__FILE__, __LINE__, "no '%s' in\n%s", want, got);
	test_count();
}

/* A property, and its line. */
static void check_field(const char *schema, const char *want)
{
	char text[2048], line[1024];

	(void)snprintf(text, sizeof(text), "{\"properties\":{\"x\":%s}}", schema);
	(void)snprintf(line, sizeof(line), "\n    x: %s\n", want);
	check_has(text, line);
}

static int try_module(const char *module, const char *text, size_t n)
{
	struct fence f;
	struct json_text t = read_text(&f, text, n);
	struct json j;
	int rc;

	json_init(&j);
	rc = gen_module(GEN_MCPTOOLS, "srv", module, t, &j);
	json_done(&j);
	fence_close(&f);
	return rc;
}

TEST(gen_module_for_mcptools)
{
	own_free char *got =
		module_of(GEN_MCPTOOLS, "{\"name\":\"Do-it\",\"title\":\"T\",\"description\":"
					"\"one\\ntwo\",\"inputSchema\":{\"type\":"
					"\"object\",\"properties\":{\"from\":{\"type\":\"string\","
					"\"description\":\"where\"},"
					"\"n\":{\"type\":\"integer\",\"minimum\":0,\"default\":3}},"
					"\"required\":[\"from\"]},"
					"\"outputSchema\":{\"type\":\"object\",\"properties\":{"
					"\"ok\":{\"type\":\"boolean\"}},"
					"\"required\":[\"ok\"],\"additionalProperties\":false}}");

	CHECK_STR(got,
		  "# Made by Glovebox from what an MCP server says about a tool.\n"
		  "from enum import Enum\n"
		  "from typing import Any, Dict, List, Literal, Optional, Tuple, Union\n"
		  "\n"
		  "from mcptools._runtime import call, call_async\n"
		  "\n"
		  "from . import Arguments, BaseModel, Field\n"
		  "\n"
		  "\n"
		  "class Params(BaseModel):\n"
		  "    from_: str = Field(..., alias=\"from\")\n"
		  "    \"where\"\n"
		  "    n: Optional[int] = Field(3, ge=0)\n"
		  "\n"
		  "\n"
		  "class Result(BaseModel, extra=\"forbid\"):\n"
		  "    ok: bool\n"
		  "\n"
		  "\n"
		  "def run(params: Optional[Params] = None, /, **fields: Any) -> Result:\n"
		  "    (\n"
		  "        \"one\\n\"\n"
		  "        \"two\"\n"
		  "    )\n"
		  "    return call(\"srv\", \"Do-it\", Arguments(Params, params, fields), Result)\n"
		  "\n"
		  "\n"
		  "async def run_async(params: Optional[Params] = None, /, **fields: Any) -> "
		  "Result:\n"
		  "    return await call_async(\"srv\", \"Do-it\", Arguments(Params, params, "
		  "fields), Result)\n"
		  "\n"
		  "\n"
		  "run_async.__doc__ = run.__doc__\n");
}

TEST(gen_module_for_ipybox)
{
	own_free char *got = module_of(
		GEN_IPYBOX,
		"{\"name\":\"tool-1\",\"inputSchema\":{\"properties\":{\"s\":{\"type\":\"string\"},"
		"\"n\":"
		"{\"type\":\"number\"},\"b\":{\"type\":\"boolean\"}},\"required\":[\"s\",\"n\"]},"
		"\"outputSchema\":{}}");

	CHECK_STR(got, "# Made by Glovebox from what an MCP server says about a tool.\n"
		       "from enum import Enum\n"
		       "from typing import Any, Dict, List, Literal, Optional, Tuple, Union\n"
		       "\n"
		       "from ipybox.mcp.run import run_sync\n"
		       "\n"
		       "from . import SERVER_PARAMS, BaseModel, Field\n"
		       "\n"
		       "\n"
		       "class Params(BaseModel):\n"
		       "    s: str\n"
		       "    n: float\n"
		       "    b: Optional[bool] = None\n"
		       "\n"
		       "\n"
		       "def mod(params: Params) -> str:\n"
		       "    return run_sync(\"tool-1\", params.model_dump(exclude_none=True), "
		       "SERVER_PARAMS)\n");
}

TEST(gen_types)
{
	check_field("{}", "Any = None");
	check_field("true", "Any = None");
	check_field("false", "Any = None");
	check_field("7", "Any = None");
	check_field("{\"type\":\"string\"}", "Optional[str] = None");
	check_field("{\"type\":\"null\"}", "None = None");
	check_field("{\"type\":\"any\"}", "Any = None");
	check_field("{\"type\":[\"string\",\"null\"]}", "Optional[str] = None");
	check_field("{\"type\":[\"string\",\"integer\",\"string\"]}",
		    "Optional[Union[int, str]] = None");
	check_field("{\"type\":\"array\"}", "Optional[List[Any]] = None");
	check_field("{\"items\":{\"type\":\"number\"}}", "Optional[List[float]] = None");
	check_field("{\"type\":\"object\"}", "Optional[Dict[str, Any]] = None");
	check_field("{\"additionalProperties\":{\"type\":\"number\"}}",
		    "Optional[Dict[str, float]] = None");
	check_field("{\"prefixItems\":[{\"type\":\"string\"},{}],\"items\":false}",
		    "Optional[Tuple[str, Any]] = None");
	check_field("{\"prefixItems\":[{\"type\":\"string\"}],\"minItems\":0}",
		    "Optional[List[Any]] = Field(None, min_items=0)");
	check_field("{\"const\":\"a\\\"b\"}", "Optional[Literal[\"a\\\"b\"]] = None");
	check_field("{\"const\":1.5}", "Any = None");
	check_field("{\"enum\":[1,\"a\",true,null]}", "Optional[Literal[1, \"a\", True]] = None");
	check_field("{\"enum\":[]}", "Any = None");
	check_field("{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}",
		    "Optional[str] = None");
	check_field("{\"anyOf\":[{\"type\":\"string\"},{}]}", "Any = None");
	check_field("{\"type\":\"string\",\"anyOf\":[{\"format\":\"a\"},{\"format\":\"b\"}]}",
		    "Optional[str] = None");
	check_field("{\"$ref\":\"#/properties/x\"}", "Any = None");
	check_field("{\"$ref\":\"https://example.com/\"}", "Any = None");
	check_field("{\"$ref\":\"#\"}", "Optional[\"Params\"] = None");
	check_field("{\"enum\":[\"a b\",\"c\"],\"default\":\"c\"}", "Optional[X] = X(\"c\")");
	check_field("{\"enum\":[\"a b\",\"c\"],\"default\":\"d\"}", "Optional[X] = None");
	check_field(
		"{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"y\":{}}}}",
		"Optional[List[XItem]] = None");
}

TEST(gen_fields)
{
	check_field("{\"type\":\"integer\",\"minimum\":1,\"maximum\":9.0}",
		    "Optional[int] = Field(None, ge=1, le=9)");
	check_field("{\"type\":\"integer\",\"minimum\":1.5}", "Optional[int] = None");
	check_field("{\"type\":\"number\",\"exclusiveMinimum\":0.1,\"minimum\":0}",
		    "Optional[float] = Field(None, gt=0.1)");
	check_field("{\"type\":\"number\",\"exclusiveMinimum\":true,\"minimum\":0}",
		    "Optional[float] = Field(None, gt=0)");
	check_field("{\"type\":\"number\",\"maximum\":1e999,\"multipleOf\":0}",
		    "Optional[float] = None");
	check_field("{\"type\":\"string\",\"maxLength\":3,\"minLength\":-1,\"pattern\":\"\\\"\"}",
		    "Optional[str] = Field(None, max_length=3, pattern=\"\\\"\")");
	check_field("{\"type\":\"array\",\"minItems\":1}",
		    "Optional[List[Any]] = Field(None, min_items=1)");
	check_field("{\"type\":\"boolean\",\"default\":true,\"minimum\":1}",
		    "Optional[bool] = True");
	check_field("{\"type\":\"boolean\",\"default\":1}", "Optional[bool] = None");
	check_field("{\"default\":{\"a\":[null,\"\\u0000\"]}}", "Any = {\"a\": [None, \"\\x00\"]}");
	check_field("{\"default\":[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]}", "Any = None");
}

TEST(gen_names_of_fields)
{
	check_has("{\"properties\":{\"a-b\":{},\"a_b\":{}}}",
		  "    a_b_2: Any = Field(None, alias=\"a-b\")\n    a_b: Any = None\n");
	check_has("{\"properties\":{\"__x\":{}}}", "    x: Any = Field(None, alias=\"__x\")\n");
	check_has("{\"properties\":{\"\":{}}}", "    field: Any = Field(None, alias=\"\")\n");
	check_has("{\"properties\":{\"1\":{}}}", "    field_1: Any = Field(None, alias=\"1\")\n");
	check_has("{\"properties\":{\"dict\":{}}}",
		  "    dict_: Any = Field(None, alias=\"dict\")\n");
	check_has("{\"properties\":{\"str\":{}}}", "    str_: Any = Field(None, alias=\"str\")\n");
	check_has("{\"properties\":{\"x\":1,\"x\":{\"type\":\"string\"}}}",
		  ":\n    x: Optional[str] = None\n");
	check_has("{\"properties\":{\"Item\":{\"properties\":{\"a\":{}}}}}",
		  "    Item_: Optional[Item] = Field(None, alias=\"Item\")\n");
	check_has("{\"properties\":{\"\\u0000\":{}}}", "class Params(BaseModel):\n    pass\n");
}

/* Every byte and the like, in a description: it stays within its quotes. */
TEST(gen_literals_are_ascii)
{
	own_free char *got =
		module_of(GEN_IPYBOX, "{\"name\":\"\\\"\\\\\\u0000\\r\\t\x7f\xc3\xa9\\u202e"
				      "\\u2028\\ud83d\\ude00\\ud800\xff\\udb40\\udc01'\"}");

	CHECK(strstr(got, "run_sync(\"\\\"\\\\\\x00\\x0d\\x09\\x7f\\xe9\\u202e\\u2028\\U0001f600"
			  "\\ufffd\\ufffd\\U000e0001'\", ") != NULL);
}

TEST(gen_module_refuses_what_is_no_tool)
{
	static const char *const bad[] = { "[]", "7", "{}", "{\"name\":7}", "{\"name\":\"\"}" };
	static const char *const names[] = { "", "1a", "a-b", "a b", "\xc3\xa9", "import" };
	struct json big;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_EQ_INT(try_module("mod", bad[i], strlen(bad[i])), -EINVAL);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		CHECK_EQ_INT(try_module(names[i], "{\"name\":\"a\"}", 12), -EINVAL);
	CHECK_EQ_INT(try_module("mod", "{\"name\":\"a\"}", 12), 0);
	json_init(&big);
	json_raw(&big, "{\"name\":\"", 9);
	for (size_t i = 0; i <= GEN_TOOL_MAX; i++)
		json_raw(&big, "x", 1);
	json_raw(&big, "\"}", 2);
	CHECK_EQ_INT(try_module("mod", big.buf, big.len), -E2BIG);
	json_done(&big);
}

TEST(gen_module_writes_behind_what_is_there)
{
	struct json_text t = { NULL, 0 };
	struct json j;

	CHECK_EQ_INT(json_text_read("{\"name\":\"a\"}", 12, &t), 0);
	json_init(&j);
	json_raw(&j, "before\n", 7);
	CHECK_EQ_INT(gen_module(GEN_MCPTOOLS, "s", "m", t, &j), 0);
	CHECK(strncmp(j.buf, "before\n# Made", 13) == 0);
	json_done(&j);
}

/* --- names of modules ----------------------------------------------------------------------------------- */

TEST(gen_module_names)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "tool-1", "tool_1" },
		{ "Read.File", "read_file" },
		{ "", "_" },
		{ "1", "_1" },
		{ "_x", "_x" },
		{ "class", "class_" },
		{ "Class", "class_" },
		{ "__init__", "__init___" },
		{ "run_sync", "run_sync_" },
		{ "\xc3\xa9", "_" },
		{ "a\xff"
		  "b",
		  "a_b" },
		{ "../../x", "______x" },
	};
	char name[GEN_NAME], text[200];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		gen_module_name(rows[i].text, strlen(rows[i].text), name);
		CHECK_STR(name, rows[i].want);
	}
	for (size_t n = 0; n < sizeof(text); n++) {
		(void)memset(text, '1', sizeof(text));
		gen_module_name(text, n, name);
		CHECK(strlen(name) < GEN_NAME && name[0] == '_');
	}
}

static void check_names(const char *tools, const char *want)
{
	struct gen_names names;
	struct fence f;
	struct json j;

	json_init(&j);
	CHECK_EQ_INT(gen_names(read_text(&f, tools, strlen(tools)), &names), 0);
	for (size_t i = 0; i < names.n; i++) {
		json_raw(&j, " ", 1);
		json_raw(&j, names.v[i].module, strlen(names.v[i].module));
	}
	CHECK_STR(j.buf != NULL ? j.buf : "", want);
	json_done(&j);
	gen_names_done(&names);
	fence_close(&f);
}

TEST(gen_names_are_not_alike)
{
	check_names("[]", "");
	check_names(
		"[{\"name\":\"a-b\"},{\"name\":\"a.b\"},{\"name\":\"a_b\"},{\"name\":\"a_b_2\"}]",
		" a_b_3 a_b_4 a_b a_b_2");
	check_names(
		"[{\"name\":\"a\"},{\"name\":\"\\u0061\"},{\"name\":\"A\"},{},7,{\"name\":null}]",
		" a a_2");
	check_names("[{\"name\":\"import\"},{\"name\":\"import_\"}]", " import__2 import_");
}

TEST(gen_names_are_bounded)
{
	struct gen_names names;
	struct json_text t = { NULL, 0 };
	struct json j;

	CHECK_EQ_INT(json_text_read("{}", 2, &t), 0);
	CHECK_EQ_INT(gen_names(t, &names), -EINVAL);
	CHECK(names.v == NULL && names.n == 0);
	json_init(&j);
	json_open(&j, NULL, '[');
	for (unsigned int i = 0; i < GEN_TOOLS_MAX; i++) {
		json_open(&j, NULL, '{');
		json_u64(&j, "inputSchema", i);
		json_bytes(&j, "name",
			   "-------------------------------------------------------"
			   "-------------------------------------------------------"
			   "--------------------------------------------------------",
			   1 + i % 160);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	CHECK_EQ_INT(json_text_read(j.buf, j.len, &t), 0);
	CHECK_EQ_INT(gen_names(t, &names), 0);
	CHECK_EQ_INT(names.n, 160);
	for (size_t i = 0; i < names.n; i++)
		for (size_t k = 0; k < i; k++)
			CHECK(strcmp(names.v[i].module, names.v[k].module) != 0);
	gen_names_done(&names);
	json_done(&j);
	json_init(&j);
	json_open(&j, NULL, '[');
	for (unsigned int i = 0; i <= GEN_TOOLS_MAX; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "t%u", i);
		json_open(&j, NULL, '{');
		json_str(&j, "name", name);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	CHECK_EQ_INT(json_text_read(j.buf, j.len, &t), 0);
	CHECK_EQ_INT(gen_names(t, &names), -E2BIG);
	CHECK(names.v == NULL);
	json_done(&j);
}

/* --- packages ----------------------------------------------------------------------------------------------- */

static char *package_of(const char *params, int want)
{
	struct json_text t = { NULL, 0 };
	struct json j;

	if (params != NULL)
		CHECK_EQ_INT(json_text_read(params, strlen(params), &t), 0);
	json_init(&j);
	CHECK_EQ_INT(gen_package(t, &j), want);
	return j.buf;
}

TEST(gen_package_has_what_modules_import)
{
	own_free char *plain = package_of(NULL, 0), *deep = NULL,
		      *with = package_of(
			      "{\"command\":\"a\\\"\\nb\",\"args\":[1,true,null],\"env\":{}}", 0);

	CHECK(strstr(plain, "SERVER_PARAMS") == NULL);
	CHECK(strstr(plain, "\ndef Arguments(") != NULL);
	CHECK(strstr(plain, "\ndef Field(") != NULL);
	CHECK(strstr(plain, "\n    class BaseModel(") != NULL);
	CHECK(strncmp(with, plain, strlen(plain)) == 0);
	CHECK_STR(with + strlen(plain),
		  "\n\nSERVER_PARAMS = {\"command\": \"a\\\"\\nb\", \"args\": [1, True, None], "
		  "\"env\": {}}\n");
	deep = package_of("[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]", -E2BIG);
	CHECK(deep != NULL);
}

/* --- whatever it is --------------------------------------------------------------------------------------- */

static void check_ascii(const struct json *j)
{
	for (size_t i = 0; i < j->len; i++)
		if (j->buf[i] != '\n' && (j->buf[i] < 0x20 || j->buf[i] > 0x7e))
			test_fail(__FILE__, __LINE__, "byte %d at %zu", j->buf[i], i);
	test_count();
}

/* A schema of which bytes are changed, as long as it is JSON. */
TEST(gen_takes_whatever_is_json)
{
	static const char good[] =
		"{\"name\":\"t\",\"inputSchema\":{\"$defs\":{\"a\":{\"enum\":[\"x\",\"y\"]},\"b\":{"
		"\"properties\":{"
		"\"c\":{\"$ref\":\"#/$defs/"
		"b\"}},\"required\":[\"c\"]}},\"properties\":{\"p\":{\"$ref\":\"#/$defs/a\"},"
		"\"q\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
		"b\"},{\"type\":\"null\"},{\"type\":\"array\",\"items\":{"
		"\"type\":\"string\",\"pattern\":\"a\"}}]},\"r\":{\"allOf\":[{\"$ref\":\"#/$defs/"
		"b\"},{\"properties\":{"
		"\"d\":{\"type\":\"integer\",\"minimum\":1,\"default\":2}}}]}},\"required\":[\"p\"]"
		"}}";
	static const char bytes[] = "{}[]\",:0123456789abcdefpqrtnull$#/\\ -.eE\x80\xff\xc3";
	struct fence f = fence_open(sizeof(good));
	uint64_t state = 42;
	unsigned int taken = 0;

	for (unsigned int i = 0; i < 20000; i++) {
		char text[sizeof(good)];
		struct json_text t;
		struct json j;
		size_t n = sizeof(good) - 1;

		(void)memcpy(text, good, sizeof(good));
		for (unsigned int k = 0; k <= rnd_below(&state, 3); k++)
			text[rnd_below(&state, (uint32_t)n)] =
				bytes[rnd_below(&state, sizeof(bytes) - 1)];
		if (json_text_read((const char *)fence_copy(&f, text, n), n, &t) < 0)
			continue;
		json_init(&j);
		if (gen_module(i % 2 ? GEN_MCPTOOLS : GEN_IPYBOX, "s", "m", t, &j) == 0) {
			check_ascii(&j);
			taken++;
		}
		json_done(&j);
	}
	CHECK(taken > 1000);
	fence_close(&f);
}
