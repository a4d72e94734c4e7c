/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules of Python for the tools of a server. Input: one byte, whose lowest bit is the layout; then JSON: an array of tools, or a
 * tool, or a schema.
 *
 * Claims: names of modules are names of Python with small letters, no two of them alike. A tool that has one has a module.
 * That has printable ASCII in lines; it is the same when written again; it is bounded. Read by a second rule, that of
 * Python: a string ends in the line in which it begins. Outside of strings are the marks that the generator uses, no
 * comment but the first line, and words; one in front of a bracket that opens a call, a class or a subscript is one of a
 * few, or a class of the module; a line begins as one of the lines that there are.
 */
#include "mcp/gen.h"

#include <errno.h>

#include "base/own.h"

#include "fuzz_input.h"

/* What all of a module may be: head, classes and texts that are bounded each. */
enum { MODULE_MAX = 32 << 20 };

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

static void check_name(const char *name)
{
	MUST(*name != '\0' && (*name < '0' || *name > '9') && strlen(name) < GEN_NAME);
	for (const char *p = name; *p != '\0'; p++)
		MUST(is_word(*p) && (*p < 'A' || *p > 'Z'));
}

static bool begins(const char *line, const char *with)
{
	return strncmp(line, with, strlen(with)) == 0;
}

/* Whether the module has a class of that name. */
static bool has_class(const char *text, const char *name, size_t n)
{
	for (const char *p = text; (p = strstr(p, "\nclass ")) != NULL; p++)
		if (strncmp(p + 7, name, n) == 0 && p[7 + n] == '(')
			return true;
	return false;
}

/* A word in front of a bracket. */
static void check_opening(const char *text, const char *line, const char *at)
{
	static const char *const calls[] = {
		"Field",         "Arguments", "call",      "call_async", "run_sync", "model_dump",
		"model_rebuild", "run",       "run_async", "Dict",       "List",     "Literal",
		"Optional",      "Tuple",     "Union",     "mod"
	};
	const char *from = at;

	while (from > line && is_word(from[-1]))
		from--;
	if (from == at)
		return;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++)
		if (strlen(calls[i]) == (size_t)(at - from) &&
		    strncmp(calls[i], from, (size_t)(at - from)) == 0)
			return;
	MUST(has_class(text, from, (size_t)(at - from)));
}

/* How a line begins that has no string in front. */
static void check_begin(const char *line)
{
	static const char *const words[] = { "\n",
					     "from ",
					     "class ",
					     "def run(",
					     "def mod(",
					     "async def run_async(",
					     "run_async.__doc__ = run.__doc__\n",
					     "    return call(\"",
					     "    return await call_async(\"",
					     "    return run_sync(\"",
					     "    pass\n",
					     "    (\n",
					     "    )\n",
					     "        \"",
					     "    \"" };
	const char *p = line;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (begins(line, words[i]))
			return;
	/* a field, a member, or a class that is done */
	p += begins(line, "    ") ? 4 : 0;
	MUST(is_word(*p) && *p != '_' && (*p < '0' || *p > '9'));
	while (is_word(*p))
		p++;
	if (begins(line, "    "))
		MUST(begins(p, ": ") || begins(p, " = \""));
	else
		MUST(begins(p, ".model_rebuild()\n"));
}

static const char *check_string(const char *p)
{
	for (p++; *p != '"'; p++) {
		MUST(*p != '\n' && *p != '\0');
		if (*p == '\\') {
			p++;
			MUST(strchr("\"\\nxuU", *p) != NULL && *p != '\0');
		}
	}
	return p + 1;
}

static void check_module(const struct json *j)
{
	const char *line = strchr(j->buf, '\n') + 1, *p = line;

	MUST(j->buf[0] == '#' && j->len < MODULE_MAX && strlen(j->buf) == j->len);
	for (size_t i = 0; i < j->len; i++)
		MUST(j->buf[i] == '\n' || (j->buf[i] >= 0x20 && j->buf[i] < 0x7f));
	check_begin(line);
	while (*p != '\0') {
		if (*p == '"') {
			p = check_string(p);
			continue;
		}
		MUST(is_word(*p) || strchr(" .,:=()[]{}*/>-+\n", *p) != NULL);
		if (*p == '(' || *p == '[')
			check_opening(j->buf, line, p);
		if (*p++ == '\n') {
			line = p;
			if (*p != '\0')
				check_begin(line);
		}
	}
	MUST(p[-1] == '\n');
}

static void check_tool(enum gen_layout layout, struct json_text tool, bool named)
{
	struct json first, again;
	int rc;

	json_init(&first);
	json_init(&again);
	rc = gen_module(layout, "server", "mod", tool, &first);
	MUST(rc == 0 || (rc == -EINVAL && !named) || (rc == -E2BIG && tool.n > GEN_TOOL_MAX));
	if (rc == 0) {
		check_module(&first);
		MUST(gen_module(layout, "server", "mod", tool, &again) == 0);
		MUST(first.len == again.len && memcmp(first.buf, again.buf, first.len) == 0);
	}
	json_done(&first);
	json_done(&again);
}

static void check_tools(enum gen_layout layout, struct json_text tools)
{
	struct gen_names names;
	int rc = gen_names(tools, &names);

	MUST(rc == 0 || rc == -E2BIG);
	for (size_t i = 0; i < names.n; i++) {
		check_name(names.v[i].module);
		for (size_t k = 0; k < i; k++)
			MUST(strcmp(names.v[i].module, names.v[k].module) != 0);
		if (i < 4)
			check_tool(layout, names.v[i].tool, /* named= */ true);
	}
	gen_names_done(&names);
}

/* A schema, as that of a tool, both ways. */
static void check_schema(enum gen_layout layout, struct json_text schema)
{
	struct json_text tool;
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "name", "a tool");
	json_text_put(schema, &j, "inputSchema");
	json_text_put(schema, &j, "outputSchema");
	json_close(&j, '}');
	if (json_text_read(j.buf, j.len, &tool) == 0) /* it may be too deep now */
		check_tool(layout, tool, /* named= */ true);
	json_done(&j);
}

static void check_package(struct json_text params)
{
	struct json j;
	int rc;

	json_init(&j);
	rc = gen_package(params, &j);
	MUST(rc == 0 || rc == -E2BIG);
	for (size_t i = 0; i < j.len; i++)
		MUST(j.buf[i] == '\n' || (j.buf[i] >= 0x20 && j.buf[i] < 0x7f));
	json_done(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum gen_layout layout;
	struct json_text t;
	char *copy;

	if (size == 0)
		return 0;
	layout = data[0] & 1 ? GEN_IPYBOX : GEN_MCPTOOLS;
	copy = (char *)exact_copy(data + 1, size - 1);
	if (json_text_read(copy, size - 1, &t) == 0) {
		if (json_text_kind(t) == '[') {
			check_tools(layout, t);
		} else {
			check_tool(layout, t, /* named= */ false);
			check_schema(layout, t);
		}
		check_package(t);
	}
	free(copy);
	return 0;
}
