// SPDX-License-Identifier: Apache-2.0
/* Who wants to hear of changes: listeners of the modern era, GET streams of sessions. */
#include "mcp/impl.h"

#include "base/own.h"

#include <stdlib.h>
#include <string.h>

/* The tag of a listener's notifications. */
static void put_tag(const struct mcp_call *c, struct json *j)
{
	if (!c->modern)
		return;
	json_open(j, "_meta", '{');
	json_value(j, META_PREFIX "subscriptionId");
	json_raw(j, c->id, strlen(c->id));
	j->comma = true;
	json_close(j, '}');
}

void listen_over(struct mcp_call *c)
{
	if (!c->listens)
		return;
	c->s->nlisteners--;
	for (unsigned int i = 0; i < c->nuris; i++) {
		c->s->table->unsubscribe(c->s, c->owner, c->uris[i]);
		free(c->uris[i]);
	}
	if (c->session != NULL && c->session->hearing == c)
		c->session->hearing = NULL;
}

static bool is_full(const struct mcp_server *s, const void *owner)
{
	return s->nlisteners >= MCP_LISTENERS_MAX ||
	       calls_of(s, owner, true) >= MCP_LISTENERS_MAX / 2;
}

/* --- the modern era --------------------------------------------------------------------------- */

static bool wants(const struct mcp_call *c, const struct jsonr_node *filter, const char *key)
{
	const struct jsonr_node *n = member(&c->doc, filter, key, JSONR_BOOL);

	return n != NULL && n->boolean;
}

static void take_uris(struct mcp_call *c, const struct jsonr_node *filter)
{
	const struct jsonr_node *list =
		member(&c->doc, filter, "resourceSubscriptions", JSONR_ARRAY);
	const struct jsonr_node *n = list != NULL ? jsonr_first(&c->doc, list) : NULL;

	for (; n != NULL && c->nuris < MCP_SUBSCRIPTIONS_MAX; n = jsonr_next(&c->doc, n)) {
		char *uri =
			n->type == JSONR_STRING && n->len < MCP_URI_MAX ? strdup(n->string) : NULL;

		if (uri != NULL && c->s->table->subscribe != NULL &&
		    c->s->table->subscribe(c->s, c->owner, uri))
			c->uris[c->nuris++] = uri;
		else
			free(uri);
	}
}

int is_subscribed(const struct mcp_call *c, const char *uri)
{
	const struct mcp_table *t = c->s->table;

	return t->subscribed != NULL ? t->subscribed(c->s, c->owner, uri) : 1;
}

/* What of the filter is honoured. */
static bool acknowledge(struct mcp_call *c)
{
	struct json j;

	notification_begin(&j, "notifications/subscriptions/acknowledged");
	json_open(&j, "notifications", '{');
	if (c->tools)
		json_bool(&j, "toolsListChanged", true);
	if (c->prompts)
		json_bool(&j, "promptsListChanged", true);
	if (c->resources)
		json_bool(&j, "resourcesListChanged", true);
	if (c->nuris > 0) {
		json_open(&j, "resourceSubscriptions", '[');
		for (unsigned int i = 0; i < c->nuris; i++)
			json_str(&j, NULL, c->uris[i]);
		json_close(&j, ']');
	}
	json_close(&j, '}');
	put_tag(c, &j);
	notification_end(&j);
	if (link_send(c->link, &j, false))
		return true;
	mcp_error(c, MCP_INVALID_REQUEST, NULL,
		  "whoever listens must take a stream of events: Accept: text/event-stream");
	return false;
}

static void settle(struct mcp_call *c);

void listen_start(struct mcp_call *c)
{
	const struct mcp_table *t = c->s->table;
	const struct jsonr_node *filter = member(&c->doc, c->params, "notifications", JSONR_OBJECT);

	if (filter == NULL) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL, "'notifications' must be an object");
		return;
	}
	if (is_full(c->s, c->owner)) {
		mcp_error(c, MCP_INTERNAL, NULL, "there are too many listeners");
		return;
	}
	c->listens = true;
	c->s->nlisteners++;
	c->tools = t->tools_change && wants(c, filter, "toolsListChanged");
	c->prompts = t->prompts_change && wants(c, filter, "promptsListChanged");
	c->resources = t->resources_change && wants(c, filter, "resourcesListChanged");
	take_uris(c, filter);
	c->settles = true;
	settle(c);
}

/* --- the legacy era --------------------------------------------------------------------------- */

void mcp_hear(struct mcp_server *s, const struct mcp_envelope *env, struct mcp_link *l)
{
	struct mcp_link *old = NULL;
	struct mcp_session *se;
	struct mcp_call *c;
	int status;

	l->call = NULL;
	se = session_find(s, env, &status);
	if (se == NULL) {
		l->end(l, status == 400 ? 405 : status, NULL, 0);
		return;
	}
	if (se->hearing != NULL) { /* the newer one counts: the older connection may be dead */
		old = se->hearing->link;
		call_free(se->hearing);
	}
	c = is_full(s, env->owner) ? NULL : call_new(s, env, l);
	if (c == NULL) {
		l->end(l, 503, NULL, 0);
	} else {
		c->session = se;
		c->listens = true;
		c->tools = c->prompts = c->resources = true;
		s->nlisteners++;
		se->hearing = c;
		(void)l->send(l, NULL, 0, false); /* the stream begins */
	}
	if (old != NULL)
		old->end(old, 200, NULL, 0);
}

/* --- telling ---------------------------------------------------------------------------------- */

static void tell(struct mcp_call *c, const char *method, const char *uri)
{
	struct json j;

	notification_begin(&j, method);
	if (uri != NULL)
		json_str(&j, "uri", uri);
	put_tag(c, &j);
	notification_end(&j);
	(void)link_send(c->link, &j, true);
}

static bool wants_list(const struct mcp_call *c, enum mcp_list what)
{
	return what == MCP_TOOLS ? c->tools : what == MCP_PROMPTS ? c->prompts : c->resources;
}

static const char *const lists[] = {
	[MCP_TOOLS] = "notifications/tools/list_changed",
	[MCP_PROMPTS] = "notifications/prompts/list_changed",
	[MCP_RESOURCES] = "notifications/resources/list_changed",
};

void mcp_changed(struct mcp_server *s, const void *owner, enum mcp_list what)
{
	for (struct mcp_call *c = s->calls; c != NULL; c = c->next) {
		if (!c->listens || (owner != NULL && c->owner != owner) || !wants_list(c, what))
			continue;
		if (c->settles)
			c->missed = true;
		else
			tell(c, lists[what], NULL);
	}
}

static bool has_uri(char *const *uris, unsigned int n, const char *uri)
{
	for (unsigned int i = 0; i < n; i++)
		if (strcmp(uris[i], uri) == 0)
			return true;
	return false;
}

void mcp_updated(struct mcp_server *s, const void *owner, const char *uri)
{
	for (struct mcp_call *c = s->calls; c != NULL; c = c->next) {
		if (!c->listens || c->owner != owner)
			continue;
		if (!(c->session != NULL ? has_uri(c->session->uris, c->session->nuris, uri)
					 : has_uri(c->uris, c->nuris, uri)))
			continue;
		if (c->settles)
			c->missed = true;
		else
			tell(c, "notifications/resources/updated", uri);
	}
}

/* --- what takes a moment ---------------------------------------------------------------------- */

/* The first word is said when all that was asked for is in force: nothing that changes behind it is missed. */
static void settle(struct mcp_call *c)
{
	for (unsigned int i = 0; i < c->nuris;) {
		int done = is_subscribed(c, c->uris[i]);

		if (done == 0)
			return;
		if (done > 0) {
			i++;
			continue;
		}
		c->s->table->unsubscribe(c->s, c->owner, c->uris[i]);
		free(c->uris[i]);
		c->uris[i] = c->uris[--c->nuris];
	}
	c->settles = false;
	if (!acknowledge(c))
		return;
	for (unsigned int i = 0; c->missed && i < c->nuris; i++)
		tell(c, "notifications/resources/updated", c->uris[i]);
	for (unsigned int i = 0; c->missed && i < ARRAY_LEN(lists); i++)
		if (wants_list(c, (enum mcp_list)i))
			tell(c, lists[i], NULL);
}

void mcp_settled(struct mcp_server *s, const void *owner, const char *uri)
{
	struct mcp_call *c = s->calls;

	(void)uri; /* there are few of them, and each looks for itself */
	while (c != NULL) {
		struct mcp_call *next = c->next;
		bool waits = c->settles && c->owner == owner;

		if (waits && c->listens)
			settle(c);
		else if (waits)
			session_settle(c);
		/* An answer ends its call, and no other one. */
		c = next;
	}
}
