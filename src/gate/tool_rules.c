// SPDX-License-Identifier: Apache-2.0
#include "gate/tool_rules.h"

#include <string.h>

/* Values of texts, whose keys are the rules; one rule may be there for either. */
static const char allows[] = "allow", asks_first[] = "ask";

static bool is_rule(const char *p, size_t n, bool star)
{
	size_t server = strcspn(p, "/");

	if (star && n == 1 && p[0] == '*')
		return true;
	if (n == 0 || n >= TOOL_RULE || server == 0 || server > TOOL_SERVER_MAX ||
	    server + 1 == n || strchr("-.", p[0]) != NULL)
		return false;
	for (size_t i = 0; i < server; i++)
		if (!((p[i] | 32) >= 'a' && (p[i] | 32) <= 'z') && !(p[i] >= '0' && p[i] <= '9') &&
		    strchr("_-.", p[i]) == NULL)
			return false;
	for (size_t i = server; i < n; i++)
		if ((unsigned char)p[i] < ' ' || p[i] == 0x7f)
			return false;
	return true;
}

/* One of those that the operator named. */
static bool is_known_url(const struct gate *g, const char *url)
{
	unsigned int n;
	char *const *v = config_list(&g->config, CONF_RAYAI_URL, &n);

	for (unsigned int i = 0; i < n; i++)
		if (strcmp(v[i], url) == 0)
			return true;
	return false;
}

int tool_rules_take(struct req *r, const char *field, const struct field_list *list, bool asks,
		    struct texts *t)
{
	const struct field_str *v = list->v;

	for (size_t i = 0; i < list->n; i++) {
		const char *value = asks ? asks_first : allows;

		if (strstr(v[i].p, "://") != NULL && !is_known_url(r->g, v[i].p)) {
			own_refuse(r, OWN_INVALID_FIELD, field,
				   "'%s[%zu]' is no URL that may be called (rayai_url)", field, i);
			return -1;
		}
		if (strstr(v[i].p, "://") == NULL && !is_rule(v[i].p, v[i].n, asks)) {
			own_refuse(r, OWN_INVALID_FIELD, field,
				   "'%s[%zu]' is no rule: 'server' or 'server/tool'", field, i);
			return -1;
		}
		if (texts_add(t, v[i].p, v[i].n, value, strlen(value)) < 0) {
			own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
			return -1;
		}
	}
	return 0;
}

static void put(const struct texts *t, struct json *j, const char *key, const char *kind)
{
	const char *rule, *value;
	size_t at = 0;

	json_open(j, key, '[');
	while (texts_next(t, &at, &rule, &value))
		if (strcmp(value, kind) == 0)
			json_str(j, NULL, rule);
	json_close(j, ']');
}

void tool_rules_put(const struct texts *t, struct json *j)
{
	put(t, j, "tools", allows);
	put(t, j, "approvals", asks_first);
}

/* tool NULL: any. */
static bool fits(const char *rule, const char *server, const char *tool)
{
	size_t n = strcspn(rule, "/");

	if (strcmp(rule, "*") == 0)
		return true;
	if (strstr(rule, "://") != NULL)
		return strcmp(rule, server) == 0;
	if (strlen(server) != n || memcmp(rule, server, n) != 0)
		return false;
	return rule[n] == '\0' || tool == NULL || strcmp(rule + n + 1, tool) == 0;
}

static bool any(const struct texts *t, const char *kind, const char *server, const char *tool)
{
	const char *rule, *value;
	size_t at = 0;

	while (texts_next(t, &at, &rule, &value))
		if (strcmp(value, kind) == 0 && fits(rule, server, tool))
			return true;
	return false;
}

bool tool_rules_allow(const struct texts *t, const char *server, const char *tool)
{
	return any(t, allows, server, tool);
}

bool tool_rules_name(const struct texts *t, const char *server)
{
	return any(t, allows, server, NULL);
}

bool tool_rules_ask(const struct texts *t, const char *server, const char *tool)
{
	return any(t, asks_first, server, tool);
}

bool tool_rules_url(const struct texts *t)
{
	const char *rule, *value;
	size_t at = 0;

	while (texts_next(t, &at, &rule, &value))
		if (strstr(rule, "://") != NULL)
			return true;
	return false;
}

bool tool_rules_whole(const struct texts *t, const char *server)
{
	const char *rule, *value;
	size_t at = 0;

	while (texts_next(t, &at, &rule, &value))
		if (strcmp(value, allows) == 0 && strcmp(rule, server) == 0)
			return true;
	return false;
}

bool tool_rules_is_server(const char *name)
{
	return strchr(name, '/') == NULL && is_rule(name, strlen(name), false);
}
