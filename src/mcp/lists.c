// SPDX-License-Identifier: Apache-2.0
/* What there is: tools, prompts, resources, page by page; and what the server can do. */
#include "mcp/impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_tool(struct json *j, const struct mcp_table *t, unsigned int i)
{
	const struct mcp_tool *tool = &t->tools[i];

	json_str(j, "name", tool->name);
	if (tool->title != NULL)
		json_str(j, "title", tool->title);
	json_str(j, "description", tool->doc);
	put_json(j, "inputSchema", tool->input);
	if (tool->output != NULL)
		put_json(j, "outputSchema", tool->output);
	if (tool->annotations != NULL) {
		json_open(j, "annotations", '{');
		json_raw(j, tool->annotations, strlen(tool->annotations));
		json_close(j, '}');
	}
}

static void put_prompt(struct json *j, const struct mcp_table *t, unsigned int i)
{
	const struct mcp_prompt *p = &t->prompts[i];

	json_str(j, "name", p->name);
	if (p->title != NULL)
		json_str(j, "title", p->title);
	json_str(j, "description", p->doc);
	json_open(j, "arguments", '[');
	for (unsigned int k = 0; k < p->nargs; k++) {
		json_open(j, NULL, '{');
		json_str(j, "name", p->args[k].name);
		json_str(j, "description", p->args[k].doc);
		json_bool(j, "required", p->args[k].required);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_template(struct json *j, const struct mcp_table *t, unsigned int i)
{
	const struct mcp_template *u = &t->templates[i];

	json_str(j, "name", u->name);
	json_str(j, "uriTemplate", u->uri);
	json_str(j, "description", u->doc);
	if (u->mime != NULL)
		json_str(j, "mimeType", u->mime);
}

/* A cursor is the number of the first one of a page. */
static bool take_cursor(const struct mcp_call *c, unsigned int n, unsigned int *ret)
{
	const struct jsonr_node *cursor = jsonr_get(&c->doc, c->params, "cursor");
	unsigned long at;
	char *end;

	*ret = 0;
	if (cursor == NULL || cursor->type == JSONR_NULL)
		return true;
	if (cursor->type != JSONR_STRING || cursor->string[0] < '1' || cursor->string[0] > '9')
		return false;
	at = strtoul(cursor->string, &end, 10);
	if (*end != '\0' || at >= n || at % MCP_PAGE != 0)
		return false;
	*ret = (unsigned int)at;
	return true;
}

static void list(struct mcp_call *c, const char *key, unsigned int n,
		 void (*put)(struct json *j, const struct mcp_table *t, unsigned int i))
{
	unsigned int at;
	struct json j;

	if (!take_cursor(c, n, &at)) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL,
			  "there is no such page: begin without 'cursor'");
		return;
	}
	mcp_result_begin(c, &j);
	json_open(&j, key, '[');
	for (unsigned int i = at; i < n && i < at + MCP_PAGE; i++) {
		json_open(&j, NULL, '{');
		put(&j, c->s->table, i);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	if (at + MCP_PAGE < n) {
		char next[16];

		(void)snprintf(next, sizeof(next), "%u", at + MCP_PAGE);
		json_str(&j, "nextCursor", next);
	}
	mcp_result_end(c, &j);
}

void list_tools(struct mcp_call *c)
{
	list(c, "tools", c->s->table->ntools, put_tool);
}

void list_prompts(struct mcp_call *c)
{
	list(c, "prompts", c->s->table->nprompts, put_prompt);
}

void list_templates(struct mcp_call *c)
{
	list(c, "resourceTemplates", c->s->table->ntemplates, put_template);
}

void list_resources(struct mcp_call *c)
{
	const struct jsonr_node *cursor = jsonr_get(&c->doc, c->params, "cursor");

	if (cursor != NULL && cursor->type != JSONR_STRING && cursor->type != JSONR_NULL) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL, "'cursor' must be a string");
		return;
	}
	c->cursor = cursor != NULL && cursor->type == JSONR_STRING ? cursor->string : "";
	c->s->table->resources(c);
}

void list_discover(struct mcp_call *c)
{
	struct json j;

	mcp_result_begin(c, &j);
	json_open(&j, "supportedVersions", '[');
	json_str(&j, NULL, MCP_MODERN);
	json_close(&j, ']');
	put_capabilities(c, &j);
	if (c->s->table->instructions != NULL)
		json_str(&j, "instructions", c->s->table->instructions);
	mcp_result_end(c, &j);
}
