/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed Python clients for the tools of an MCP server, as text: a package per server, a module per tool.
 *
 * What a server says of its tools is hostile. Whatever it is, what comes out is Python of a known shape: classes, fields,
 * constants and the functions that call the tool. Every string is written by one function, as an ASCII literal; names
 * are made of [A-Za-z0-9_]; no comment has foreign text in it. Characters that are none, halves of surrogate pairs and
 * bytes that are no UTF-8, are U+FFFD.
 *
 * A schema never fails: what cannot be said in Python is Any, and so is what goes beyond a bound. A $ref is followed
 * within its schema only. Time and memory are bounded, whatever the schema refers to.
 *
 * The modules are for Python 3.9 and later, with pydantic 1 or 2: the package has what makes these alike.
 */
#pragma once

#include "wire/json_text.h"

enum {
	GEN_NAME = 64,            /* bytes of a Python name, with its NUL */
	GEN_TOOL_MAX = 1 << 20,   /* bytes of the text of a tool */
	GEN_TOOL_NAME_MAX = 1024, /* bytes of its name */
	GEN_TOOLS_MAX = 1024,     /* tools of a server */
	GEN_PARAMS_MAX = 1 << 16, /* bytes of the parameters of a server */
};

enum gen_layout {
	/* mcptools/SERVER/TOOL.py: Params, Result if there is an output schema, run() and run_async(), which take a Params or its
	 * fields. They need mcptools._runtime: call(server, tool, arguments, result) and call_async(), where server and tool
	 * are names as they were, arguments is a dict that can be JSON, and result a class with model_validate(), or None. */
	GEN_MCPTOOLS,
	/* SERVER/TOOL.py as ipybox 0.6 has it: Params, and a function with the name of the module. They need
	 * ipybox.mcp.run: run_sync(tool, arguments, server_params). */
	GEN_IPYBOX,
};

/* The name of a module for a text: what is none of [A-Za-z0-9_] is '_', letters are small; no keyword. */
void gen_module_name(const char *p, size_t n, char ret[GEN_NAME]);

struct gen_named {
	struct json_text tool; /* within the text that was given */
	char module[GEN_NAME];
};

struct gen_names {
	struct gen_named *v;
	size_t n;
};

/* The tools of an array of them, in their order, and what their modules are called: no two alike, and the same for the
 * same tools. One whose name is that of a module already keeps it. Left out are tools without a name that can be used, and
 * all but the first of several with one name. 0, -EINVAL: no array; -E2BIG, -ENOMEM. */
int gen_names(struct json_text tools, struct gen_names *ret);
void gen_names_done(struct gen_names *names);

/* Write the module of a tool, an object as in a result of tools/list, behind what is there. server: its name, any bytes.
 * 0, -EINVAL: no object, no name that can be used, or module is no name; -E2BIG, -ENOMEM. */
int gen_module(enum gen_layout layout, const char *server, const char *module,
	       struct json_text tool, struct json *out);

/* Write the __init__.py of a package behind what is there. params: what SERVER_PARAMS becomes, or none. 0, -E2BIG, -ENOMEM. */
int gen_package(struct json_text params, struct json *out);
