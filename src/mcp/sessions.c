// SPDX-License-Identifier: Apache-2.0
/* Sessions of the legacy era: made by initialize, named by a header, ended by DELETE, by age, or by too many others. */
#include "mcp/impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define IDLE_US (24ull * 3600 * 1000 * 1000)

static struct mcp_session *find(const struct mcp_server *s, const void *owner, const char *id,
				size_t n)
{
	for (struct mcp_session *se = s->sessions; se != NULL; se = se->next)
		if (se->owner == owner && strlen(se->id) == n && memcmp(se->id, id, n) == 0)
			return se;
	return NULL;
}

static void unlink_session(struct mcp_server *s, const struct mcp_session *se)
{
	struct mcp_session **at = &s->sessions;

	while (*at != se)
		at = &(*at)->next;
	*at = se->next;
	s->nsessions--;
}

/* Some call of a session; cancels: one whose function wants to be told. NULL: there is none. */
static struct mcp_call *call_of(const struct mcp_session *se, bool cancels)
{
	struct mcp_call *c = se->s->calls;

	while (c != NULL && (c->session != se || (cancels && c->cancel == NULL)))
		c = c->next;
	return c;
}

/* Nobody finds it from the first line on. What is called here may end other calls, also of this session: each time it is looked anew
 * which are left. */
static void session_end(struct mcp_server *s, struct mcp_session *se)
{
	struct mcp_call *c;

	unlink_session(s, se);
	while ((c = call_of(se, true)) != NULL)
		call_cancel(c);
	while (se->nuris > 0) {
		char *uri = se->uris[--se->nuris];

		s->table->unsubscribe(s, se->owner, uri);
		free(uri);
	}
	if (s->table->session_over != NULL)
		s->table->session_over(se);
	while ((c = call_of(se, false)) != NULL) {
		struct mcp_link *l = c->link;

		if (!c->listens) {
			link_refuse(l, 200, c->id, MCP_INTERNAL, NULL, "the session has ended");
			continue;
		}
		call_free(c);
		l->end(l, 200, NULL, 0);
	}
	free(se);
}

void mcp_session_end(struct mcp_session *se)
{
	session_end(se->s, se);
}

/* Who has to go before this owner can have one more: who was not used for long, then the one of too many that was used the longest ago.
 * NULL: there is room. */
static struct mcp_session *in_the_way(const struct mcp_server *s, const void *owner,
				      uint64_t now_us)
{
	struct mcp_session *oldest = NULL, *own = NULL;
	unsigned int n = 0;

	for (struct mcp_session *se = s->sessions; se != NULL; se = se->next) {
		if (now_us > se->used_us + IDLE_US)
			return se;
		if (oldest == NULL || se->used_us < oldest->used_us)
			oldest = se;
		if (se->owner != owner)
			continue;
		n++;
		if (own == NULL || se->used_us < own->used_us)
			own = se;
	}
	if (n >= MCP_SESSIONS_MAX / 8)
		return own;
	return s->nsessions >= MCP_SESSIONS_MAX ? oldest : NULL;
}

static struct mcp_session *session_new(struct mcp_server *s, const void *owner, uint64_t now_us)
{
	struct mcp_session *se;

	while ((se = in_the_way(s, owner, now_us)) != NULL)
		session_end(s, se);
	se = calloc(1, sizeof(*se));
	if (se == NULL)
		return NULL;
	se->s = s;
	se->owner = owner;
	se->level = MCP_INFO;
	se->used_us = now_us;
	se->next = s->sessions;
	s->sessions = se;
	s->nsessions++;
	return se;
}

struct mcp_session *session_find(struct mcp_server *s, const struct mcp_envelope *env,
				 int *ret_status)
{
	struct http_slice id = { NULL, 0 }, version = { NULL, 0 };
	struct mcp_session *se;
	char text[MCP_SESSION_ID];

	if (env->header != NULL) {
		id = env->header(env->arg, "Mcp-Session-Id");
		version = env->header(env->arg, "MCP-Protocol-Version");
	}
	*ret_status = 400;
	if (id.p == NULL || id.n == 0)
		return NULL;
	*ret_status = 404;
	se = find(s, env->owner, id.p, id.n);
	if (se == NULL && s->table->session_known != NULL && id.n == MCP_SESSION_ID - 1) {
		(void)snprintf(text, sizeof(text), "%.*s", (int)id.n, id.p);
		if (s->table->session_known(s, env->owner, text))
			se = session_new(s, env->owner, env->now_us);
		if (se != NULL) {
			(void)memcpy(se->id, text, sizeof(se->id));
			(void)snprintf(se->version, sizeof(se->version), "%.*s", (int)version.n,
				       version.p != NULL ? version.p : "");
			if (!mcp_is_legacy(se->version))
				(void)snprintf(se->version, sizeof(se->version), "%s",
					       "2025-03-26");
		}
	}
	if (se != NULL)
		se->used_us = env->now_us;
	return se;
}

int mcp_end_session(struct mcp_server *s, const struct mcp_envelope *env)
{
	int status;
	struct mcp_session *se = session_find(s, env, &status);

	if (se == NULL)
		return status;
	mcp_session_end(se);
	return 204;
}

/* --- its methods ------------------------------------------------------------------------------ */

static int name_session(struct mcp_session *se)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t random[(MCP_SESSION_ID - 1) / 2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	for (unsigned int i = 0; i < sizeof(random); i++) {
		se->id[2 * i] = digits[random[i] >> 4];
		se->id[2 * i + 1] = digits[random[i] & 15];
	}
	return 0;
}

void session_initialize(struct mcp_call *c)
{
	const char *wanted = member_text(&c->doc, c->params, "protocolVersion");
	const struct jsonr_node *can = member(&c->doc, c->params, "capabilities", JSONR_OBJECT);
	const struct jsonr_node *info = member(&c->doc, c->params, "clientInfo", JSONR_OBJECT);
	const char *name = member_text(&c->doc, info, "name");
	const struct mcp_table *t = c->s->table;
	struct mcp_session *se;
	struct json j;

	if (wanted == NULL || can == NULL) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL,
			  "'protocolVersion' must be a string, 'capabilities' an object");
		return;
	}
	se = session_new(c->s, c->owner, c->now_us);
	if (se == NULL || name_session(se) < 0) {
		if (se != NULL)
			mcp_session_end(se);
		mcp_error(c, MCP_INTERNAL, NULL, "there is no room for a session");
		return;
	}
	(void)snprintf(se->version, sizeof(se->version), "%s",
		       mcp_is_legacy(wanted) ? wanted : mcp_legacy[0]);
	(void)snprintf(se->client, sizeof(se->client), "%s", name != NULL ? name : "");
	se->can_sample = member(&c->doc, can, "sampling", JSONR_OBJECT) != NULL;
	se->can_elicit = member(&c->doc, can, "elicitation", JSONR_OBJECT) != NULL;
	se->can_roots = member(&c->doc, can, "roots", JSONR_OBJECT) != NULL;
	c->link->session(c->link, se->id);
	mcp_result_begin(c, &j);
	json_str(&j, "protocolVersion", se->version);
	put_capabilities(c, &j);
	put_server_info(t, &j, "serverInfo", strcmp(se->version, "2025-06-18") >= 0);
	if (t->instructions != NULL)
		json_str(&j, "instructions", t->instructions);
	mcp_result_end(c, &j);
}

void session_set_level(struct mcp_call *c)
{
	const char *name = member_text(&c->doc, c->params, "level");
	enum mcp_level level = name != NULL ? level_named(name) : MCP_SILENT;

	if (level == MCP_SILENT) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL,
			  "'level' must be one of debug, info, notice, "
			  "warning, error, critical, alert, emergency");
		return;
	}
	c->session->level = level;
	answer_nothing(c);
}

/* The URI of a subscription. NULL: refused. */
static const char *take_uri(struct mcp_call *c)
{
	const char *uri = member_text(&c->doc, c->params, "uri");

	if (uri == NULL || strlen(uri) >= MCP_URI_MAX) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL,
			  "'uri' must be a string of less than %d bytes", MCP_URI_MAX);
		return NULL;
	}
	return uri;
}

static unsigned int subscription(const struct mcp_session *se, const char *uri)
{
	unsigned int i = 0;

	while (i < se->nuris && strcmp(se->uris[i], uri) != 0)
		i++;
	return i;
}

void session_subscribe(struct mcp_call *c)
{
	struct mcp_session *se = c->session;
	const char *uri = take_uri(c);

	if (uri == NULL)
		return;
	if (subscription(se, uri) < se->nuris) {
		answer_nothing(c);
		return;
	}
	if (se->nuris == MCP_SUBSCRIPTIONS_MAX) {
		mcp_error(c, MCP_INVALID_PARAMS, NULL, "a session has at most %d subscriptions",
			  MCP_SUBSCRIPTIONS_MAX);
		return;
	}
	se->uris[se->nuris] = strdup(uri);
	if (se->uris[se->nuris] == NULL) {
		mcp_error(c, MCP_INTERNAL, NULL, "out of memory");
	} else if (!c->s->table->subscribe(c->s, c->owner, uri)) {
		free(se->uris[se->nuris]);
		c->uri = uri;
		mcp_no_resource(c);
	} else {
		se->nuris++;
		c->uri = uri;
		c->settles = true;
		session_settle(c);
	}
}

static void unsubscribe(struct mcp_session *se, const char *uri)
{
	unsigned int i = subscription(se, uri);

	if (i == se->nuris)
		return;
	se->s->table->unsubscribe(se->s, se->owner, uri);
	free(se->uris[i]);
	se->uris[i] = se->uris[--se->nuris];
}

void session_settle(struct mcp_call *c)
{
	int done = is_subscribed(c, c->uri);

	if (done == 0)
		return;
	c->settles = false;
	if (done > 0) {
		answer_nothing(c);
		return;
	}
	unsubscribe(c->session, c->uri);
	mcp_no_resource(c);
}

void session_unsubscribe(struct mcp_call *c)
{
	const char *uri = take_uri(c);

	if (uri == NULL)
		return;
	unsubscribe(c->session, uri);
	answer_nothing(c);
}

bool mcp_can(const struct mcp_call *c, const char *capability)
{
	if (c->modern)
		return member(&c->doc, c->capabilities, capability, JSONR_OBJECT) != NULL;
	if (strcmp(capability, "sampling") == 0)
		return c->session->can_sample;
	return strcmp(capability, "elicitation") == 0 ? c->session->can_elicit
						      : c->session->can_roots;
}
