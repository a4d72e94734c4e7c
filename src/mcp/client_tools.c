// SPDX-License-Identifier: Apache-2.0
/*
 * The list of tools, page by page, each tool kept as it came. A server may name pages without end, or the same page twice: how many
 * there are, how many tools and how many bytes is bounded, and a cursor that came before ends it.
 */
#include "mcp/client_impl.h"

#include "base/own.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

void mcpc_tools_done(struct mcpc_tools *t)
{
	for (unsigned int i = 0; i < t->n; i++)
		free(t->v[i].text);
	free(t->v);
	t->v = NULL;
	t->n = 0;
	t->bytes = 0;
}

const struct mcpc_tool *mcpc_tool_find(const struct mcpc_tools *t, const char *name)
{
	for (unsigned int i = 0; i < t->n; i++)
		if (strcmp(t->v[i].name, name) == 0)
			return &t->v[i];
	return NULL;
}

/* A string, as much of it as fits; "" if it is none. */
void mcpc_cut(struct json_text t, char *buf, size_t size)
{
	char *whole;
	size_t n;

	buf[0] = '\0';
	if (json_text_kind(t) != '"' || json_text_str(t, buf, size))
		return;
	buf[0] = '\0';
	whole = malloc(t.n + 1);
	if (whole == NULL)
		return;
	if (json_text_str(t, whole, t.n + 1)) {
		n = strlen(whole);
		n = n < size ? n : size - 1;
		if (n > 0)
			n -= utf8_unfinished((const unsigned char *)whole, n);
		(void)memcpy(buf, whole, n);
		buf[n] = '\0';
	}
	free(whole);
}

/* --- one tool ------------------------------------------------------------------------------------- */

static void find_parts(struct mcpc_tool *tool)
{
	struct json_member m[] = { { .key = "title" },       { .key = "description" },
				   { .key = "inputSchema" }, { .key = "outputSchema" },
				   { .key = "annotations" }, { .key = "name" } };
	struct json_text t = { tool->text, tool->n };

	json_text_find(t, m, ARRAY_LEN(m));
	tool->title = m[0].value;
	tool->description = m[1].value;
	tool->input = m[2].value;
	tool->output = m[3].value;
	tool->annotations = m[4].value;
	if (!json_text_str(m[5].value, tool->name, sizeof(tool->name)))
		tool->name[0] = '\0';
}

/* Why a tool cannot be used; "": it can. */
static void check_tool(const struct mcpc_tools *all, const struct mcpc_tool *tool,
		       char why[MCPC_ERROR])
{
	char rule[MCPC_ERROR];

	why[0] = '\0';
	if (tool->name[0] == '\0')
		(void)snprintf(why, MCPC_ERROR, "a tool has no name, or one that is none");
	else if (json_text_kind(tool->input) != '{')
		(void)snprintf(why, MCPC_ERROR, "the tool '%s' has no schema for what it takes",
			       tool->name);
	else if (mcpc_tool_find(all, tool->name) != NULL)
		(void)snprintf(why, MCPC_ERROR, "the tool '%s' is there twice", tool->name);
	else if (!mcpc_headers_check(tool->input, rule))
		(void)snprintf(why, MCPC_ERROR, "the tool '%.100s': %.380s", tool->name, rule);
}

/* false: it has ended. */
static bool add_tool(struct mcpc_request *r, struct json_text t)
{
	const struct mcpc_bounds *b = &r->c->bounds;
	struct mcpc_tools *all = &r->tools;
	struct mcpc_tool tool = { .n = t.n };
	struct mcpc_tool *more;
	char why[MCPC_ERROR];

	if (all->n + all->dropped >= b->list_tools) {
		mcpc_finish_failed(r, "the server has more than %u tools", b->list_tools);
		return false;
	}
	if (t.n > b->list_bytes - all->bytes) {
		mcpc_finish_failed(r, "the list of tools has more than %zu bytes", b->list_bytes);
		return false;
	}
	tool.text = mcpc_copy(t.p, t.n);
	more = (all->n & (all->n - 1)) == 0
		       ? realloc(all->v, (all->n > 0 ? 2 * (size_t)all->n : 1) * sizeof(tool))
		       : all->v;
	if (more != NULL)
		all->v = more;
	if (tool.text == NULL || more == NULL) {
		free(tool.text);
		mcpc_finish_failed(r, "no memory for the list of tools");
		return false;
	}
	find_parts(&tool);
	check_tool(all, &tool, why);
	all->bytes += t.n; /* also of those that are left off: they are work */
	if (why[0] == '\0') {
		all->v[all->n++] = tool;
		return true;
	}
	if (all->dropped++ == 0)
		(void)memcpy(all->why, why, sizeof(why));
	free(tool.text);
	return true;
}

/* --- pages ---------------------------------------------------------------------------------------- */

static uint64_t hash(const char *s)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *s != '\0'; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	return h;
}

/* A cursor that has not been there before. false: it has ended. */
static bool remember(struct mcpc_request *r, const char *cursor)
{
	uint64_t h = hash(cursor);
	uint64_t *more;

	if (r->pages >= r->c->bounds.list_pages) {
		mcpc_finish_failed(r, "the list of tools has more than %u pages",
				   r->c->bounds.list_pages);
		return false;
	}
	for (unsigned int i = 0; i + 1 < r->pages; i++)
		if (r->cursors[i] == h) {
			mcpc_finish_failed(r, "the list of tools does not end: a page is followed "
					      "by one that was there");
			return false;
		}
	more = realloc(r->cursors, r->pages * sizeof(*more));
	if (more == NULL) {
		mcpc_finish_failed(r, "no memory for the list of tools");
		return false;
	}
	r->cursors = more;
	r->cursors[r->pages - 1] = h;
	return true;
}

void mcpc_list_page(struct mcpc_request *r, struct json_text result, uint64_t now_us)
{
	struct json_member m[] = { { .key = "tools" }, { .key = "nextCursor" } };
	struct json_text key, value;
	char cursor[MCPC_CURSOR];
	struct json_walk w;
	struct json j;

	(void)now_us;
	json_text_find(result, m, ARRAY_LEN(m));
	if (json_text_kind(m[0].value) != '[') {
		mcpc_finish_failed(r, "the answer is no list of tools");
		return;
	}
	for (w = json_walk(m[0].value); json_walk_next(&w, &key, &value);)
		if (!add_tool(r, value))
			return;
	r->pages++;
	if (json_text_kind(m[1].value) == '\0' || json_text_kind(m[1].value) == 'n') {
		mcpc_finish(r, MCPC_DONE);
		return;
	}
	if (!json_text_str(m[1].value, cursor, sizeof(cursor))) {
		mcpc_finish_failed(r, "the list of tools goes on at a place that is none");
		return;
	}
	if (!remember(r, cursor))
		return;
	json_init(&j);
	json_str(&j, "cursor", cursor);
	own_free_p(&r->members);
	if (j.failed) {
		json_done(&j);
		mcpc_finish_failed(r, "no memory for the list of tools");
		return;
	}
	r->members = j.buf;
	mcpc_send_request(r);
}
