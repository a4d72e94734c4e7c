// SPDX-License-Identifier: Apache-2.0
/* The module of a tool: what it imports, its classes, and the functions that call the tool. */
#include "mcp/gen_impl.h"

#include "base/own.h"

#include <errno.h>
#include <stdlib.h>

static const char head[] = "# Made by Glovebox from what an MCP server says about a tool.\n"
			   "from enum import Enum\n"
			   "from typing import Any, Dict, List, Literal, Optional, Tuple, Union\n"
			   "\n";
static const char head_mcptools[] = "from mcptools._runtime import call, call_async\n"
				    "\n"
				    "from . import Arguments, BaseModel, Field\n";
static const char head_ipybox[] = "from ipybox.mcp.run import run_sync\n"
				  "\n"
				  "from . import SERVER_PARAMS, BaseModel, Field\n";

struct tool {
	struct json name;
	struct json_text title, doc, input, output;
};

static void tool_done(struct tool *t)
{
	json_done(&t->name);
}

static int tool_read(struct json_text text, struct tool *ret)
{
	struct json_member m[] = { { .key = "name" },
				   { .key = "title" },
				   { .key = "description" },
				   { .key = "inputSchema" },
				   { .key = "outputSchema" } };
	int rc;

	json_text_find(text, m, ARRAY_LEN(m));
	rc = gen_decode(m[0].value, &ret->name);
	if (rc == 0 && (ret->name.len == 0 || ret->name.len > GEN_TOOL_NAME_MAX))
		rc = -EINVAL;
	ret->title = m[1].value;
	ret->doc = m[2].value;
	ret->input = m[3].value;
	ret->output = m[4].value;
	return rc;
}

/* The class of a whole schema: an object whatever it says. */
static void put_root(struct gen *g, struct json_text schema, const char *name)
{
	struct gen_class *c = &g->classes[g->nclasses++];
	struct schema s;
	bool alternatives;

	g->root = schema;
	schema_follow(g, schema, &s);
	*c = (struct gen_class){ .at = s.text.p, .kind = CLASS_MODEL };
	(void)memcpy(c->name, name, strlen(name) + 1);
	alternatives = json_count(keyword_of(&s, KW_PROPERTIES, '{'), 1) == 0;
	gen_model(g, &s, c, alternatives);
}

/* Names in quotes mean something only when all classes are there. */
static void put_rebuild(const struct gen *g)
{
	if (!g->forward)
		return;
	put_text(g->out, "\n\n");
	for (size_t i = 0; i < g->nclasses; i++) {
		if (g->classes[i].kind != CLASS_MODEL)
			continue;
		put_text(g->out, g->classes[i].name);
		put_text(g->out, ".model_rebuild()\n");
	}
}

static void put_doc(struct gen *g, const struct tool *t)
{
	gen_doc(g, json_text_kind(t->doc) == '"' ? t->doc : t->title, g->out);
}

static void put_head(struct gen *g, const char *def, const char *result)
{
	put_text(g->out, def);
	put_text(g->out, "(params: Optional[Params] = None, /, **fields: Any) -> ");
	put_text(g->out, result);
	put_text(g->out, ":\n");
}

static void put_call(struct gen *g, const struct tool *t, const char *call, const char *server,
		     bool result)
{
	put_text(g->out, "    return ");
	put_text(g->out, call);
	put_text(g->out, "(");
	gen_literal(g->out, server, strlen(server));
	put_text(g->out, ", ");
	gen_literal(g->out, t->name.buf, t->name.len);
	put_text(g->out, ", Arguments(Params, params, fields), ");
	put_text(g->out, result ? "Result)\n" : "None)\n");
}

static void put_mcptools(struct gen *g, const struct tool *t, const char *server)
{
	bool result = json_text_kind(t->output) == '{';

	put_head(g, "\n\ndef run", result ? "Result" : "str");
	put_doc(g, t);
	put_call(g, t, "call", server, result);
	put_head(g, "\n\nasync def run_async", result ? "Result" : "str");
	put_call(g, t, "await call_async", server, result);
	put_text(g->out, "\n\nrun_async.__doc__ = run.__doc__\n");
}

static void put_ipybox(struct gen *g, const struct tool *t, const char *module)
{
	put_text(g->out, "\n\ndef ");
	put_text(g->out, module);
	put_text(g->out, "(params: Params) -> str:\n");
	put_doc(g, t);
	put_text(g->out, "    return run_sync(");
	gen_literal(g->out, t->name.buf, t->name.len);
	put_text(g->out, ", params.model_dump(exclude_none=True), SERVER_PARAMS)\n");
}

static void put_module(struct gen *g, enum gen_layout layout, const char *server,
		       const char *module, const struct tool *t)
{
	put_text(g->out, head);
	put_text(g->out, layout == GEN_MCPTOOLS ? head_mcptools : head_ipybox);
	put_root(g, t->input, "Params");
	if (layout == GEN_MCPTOOLS && json_text_kind(t->output) == '{')
		put_root(g, t->output, "Result");
	put_rebuild(g);
	if (layout == GEN_MCPTOOLS)
		put_mcptools(g, t, server);
	else
		put_ipybox(g, t, module);
}

int gen_module(enum gen_layout layout, const char *server, const char *module,
	       struct json_text tool, struct json *out)
{
	OWN(tool_done) struct tool t = { 0 };
	own_free struct gen *g = NULL;
	int rc;

	if (tool.n > GEN_TOOL_MAX)
		return -E2BIG;
	if (json_text_kind(tool) != '{' || !gen_is_name(module))
		return -EINVAL;
	rc = tool_read(tool, &t);
	if (rc < 0)
		return rc;
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return -ENOMEM;
	g->out = out;
	g->looked_at = GEN_LOOKED_AT;
	g->foreign = GEN_FOREIGN;
	gen_reserve(&g->names);
	put_module(g, layout, server, module, &t);
	rc = g->failed || g->names.failed || out->failed ? -ENOMEM : 0;
	taken_done(&g->names);
	return rc;
}
