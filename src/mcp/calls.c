// SPDX-License-Identifier: Apache-2.0
/* Calls of the table's functions: tools, prompts, resources, completion. */
#include "mcp/impl.h"

#include <stdio.h>
#include <string.h>

/* The name of what is called. NULL: it was refused. */
static const char *take_name(struct mcp_call *c, const char *what)
{
	const char *name = member_text(&c->doc, c->params, "name");

	if (name == NULL)
		mcp_error(c, MCP_INVALID_PARAMS, NULL, "'name' must be a string: the name of a %s",
			  what);
	return name;
}

/* Arguments: an object, or nothing. false: refused. */
static bool take_args(struct mcp_call *c)
{
	const struct jsonr_node *args = jsonr_get(&c->doc, c->params, "arguments");

	if (args != NULL && args->type != JSONR_OBJECT && args->type != JSONR_NULL) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL, "'arguments' must be an object");
		return false;
	}
	c->args = args != NULL && args->type == JSONR_OBJECT ? args : NULL;
	return true;
}

static void refuse_capability(struct mcp_call *c, const char *name)
{
	char data[128];

	(void)snprintf(data, sizeof(data), "{\"requiredCapabilities\":{\"%s\":{}}}", name);
	mcp_error(c, MCP_NO_CAPABILITY, data, "the client cannot do '%s'", name);
}

void call_tool(struct mcp_call *c)
{
	const struct mcp_table *t = c->s->table;
	const char *name = take_name(c, "tool");

	if (name == NULL || !take_args(c))
		return;
	for (unsigned int i = 0; i < t->ntools; i++) {
		if (strcmp(t->tools[i].name, name) != 0)
			continue;
		if (t->tools[i].capability != NULL && !mcp_can(c, t->tools[i].capability)) {
			refuse_capability(c, t->tools[i].capability);
			return;
		}
		c->tool = &t->tools[i];
		c->tool->run(c);
		return;
	}
	mcp_error(c, MCP_INVALID_PARAMS, NULL, "there is no tool '%s'", name);
}

void call_prompt(struct mcp_call *c)
{
	const struct mcp_table *t = c->s->table;
	const char *name = take_name(c, "prompt");

	if (name == NULL || !take_args(c))
		return;
	for (unsigned int i = 0; i < t->nprompts; i++) {
		const struct mcp_prompt *p = &t->prompts[i];

		if (strcmp(p->name, name) != 0)
			continue;
		for (unsigned int k = 0; k < p->nargs; k++)
			if (p->args[k].required &&
			    mcp_arg(c, p->args[k].name, JSONR_STRING) == NULL) {
				mcp_error(c, MCP_INVALID_PARAMS, NULL,
					  "the argument '%s' must be a string", p->args[k].name);
				return;
			}
		c->prompt = p;
		p->run(c);
		return;
	}
	mcp_error(c, MCP_INVALID_PARAMS, NULL, "there is no prompt '%s'", name);
}

void call_read(struct mcp_call *c)
{
	c->uri = member_text(&c->doc, c->params, "uri");
	if (c->uri == NULL || strlen(c->uri) >= MCP_URI_MAX)
		mcp_error(c, MCP_INVALID_PARAMS, NULL,
			  "'uri' must be a string of less than %d bytes", MCP_URI_MAX);
	else
		c->s->table->read(c);
}

void call_complete(struct mcp_call *c)
{
	const struct jsonr_node *ref = member(&c->doc, c->params, "ref", JSONR_OBJECT);
	const struct jsonr_node *arg = member(&c->doc, c->params, "argument", JSONR_OBJECT);

	if (member_text(&c->doc, ref, "type") == NULL ||
	    member_text(&c->doc, arg, "name") == NULL || member_text(&c->doc, arg, "value") == NULL)
		mcp_error(c, MCP_INVALID_PARAMS, NULL,
			  "'ref' must have a type, 'argument' a name and a value");
	else
		c->s->table->complete(c);
}
