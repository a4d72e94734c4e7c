// SPDX-License-Identifier: Apache-2.0
/*
 * Parameters that a tool wants repeated in a header of HTTP (x-mcp-header in its schema): what the list of tools said about them is
 * kept, for clients on this side know nothing of headers.
 */
#include "cli/mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS_MAX = 256, NAME_MAX_LEN = 128 };

struct bridge_param {
	struct bridge_param *next;
	char tool[NAME_MAX_LEN], param[NAME_MAX_LEN], header[NAME_MAX_LEN];
};

static struct json_text member(struct json_text object, const char *key)
{
	struct json_member m = { .key = key };

	json_text_find(object, &m, 1);
	return m.value;
}

/* What may stand behind "Mcp-Param-". */
static bool is_header(const char *s)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";

	return s[0] != '\0' && s[strspn(s, plain)] == '\0';
}

static void forget(struct bridge *b, const char *tool)
{
	for (struct bridge_param **at = &b->params; *at != NULL;) {
		struct bridge_param *one = *at;

		if (tool != NULL && strcmp(one->tool, tool) != 0) {
			at = &one->next;
			continue;
		}
		*at = one->next;
		b->nparams--;
		free(one);
	}
}

void bridge_params_done(struct bridge *b)
{
	forget(b, NULL);
}

void bridge_params_learn(struct bridge *b, struct json_text tool)
{
	struct json_walk w = json_walk(member(member(tool, "inputSchema"), "properties"));
	struct bridge_param one = { 0 }, *kept;
	struct json_text key, schema;

	if (!json_text_str(member(tool, "name"), one.tool, sizeof(one.tool)))
		return;
	forget(b, one.tool);
	while (b->nparams < PARAMS_MAX && json_walk_next(&w, &key, &schema)) {
		if (!json_text_str(member(schema, "x-mcp-header"), one.header,
				   sizeof(one.header)) ||
		    !json_text_str(key, one.param, sizeof(one.param)) || !is_header(one.header))
			continue;
		kept = malloc(sizeof(*kept));
		if (kept == NULL)
			return;
		*kept = one;
		kept->next = b->params;
		b->params = kept;
		b->nparams++;
	}
}

/* As a header has it: a text, a number, true or false. NULL: it is nothing for a header. */
static char *text_of(struct json_text value)
{
	char kind = json_text_kind(value), *text;

	if (kind != '"' && kind != '0' && kind != 't')
		return NULL;
	text = malloc(value.n + 1);
	if (text == NULL)
		return NULL;
	(void)memcpy(text, value.p, value.n);
	text[value.n] = '\0';
	if (kind != '"' || json_text_str(value, text, value.n + 1))
		return text;
	free(text);
	return NULL;
}

static void put(struct exchange *x, const struct bridge_param *one, struct json_text value)
{
	char name[NAME_MAX_LEN + 16], *text = text_of(value);

	(void)snprintf(name, sizeof(name), "Mcp-Param-%s", one->header);
	if (text != NULL)
		bridge_put_text(x, name, text);
	free(text);
}

void bridge_params_put(const struct pending *p, struct exchange *x)
{
	struct json_text root = { NULL, 0 };

	for (const struct bridge_param *one = p->b->params; one != NULL && p->name != NULL;
	     one = one->next) {
		if (strcmp(one->tool, p->name) != 0)
			continue;
		if (root.p == NULL && json_text_read(p->text, p->n, &root) < 0)
			return;
		put(x, one, member(member(member(root, "params"), "arguments"), one->param));
	}
}
