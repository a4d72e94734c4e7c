// SPDX-License-Identifier: Apache-2.0
/*
 * What code in a box is told of the tools that it may call: their list, and Python for them, made when it is asked for (mcp/gen.h). So nothing is written into a
 * box, and no server is started, before somebody wants to use one.
 */
#include "gate/tool_calls.h"

#include "base/own.h"
#include "gate/ports.h"
#include "gate/tool_link.h"
#include "gate/tool_rules.h"
#include "gate/tool_runs.h"
#include "mcp/gen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define LOOK_US (60ull * 1000 * 1000)

struct look {
	struct req *r;
	struct tool_ask *ask;
	char server[80];
	char module[GEN_NAME]; /* "": the list */
	struct texts tools;    /* those of the box, which may go meanwhile */
};

static void look_free(struct look *l)
{
	texts_done(&l->tools);
	free(l);
}

static void on_gone(struct req *r)
{
	struct look *l = r->work;

	tools_cancel(l->ask);
	look_free(l);
}

/* --- answers -------------------------------------------------------------------------------------------- */

static bool name_of(struct json_text tool, char *name, size_t size)
{
	struct json_member m = { .key = "name" };

	json_text_find(tool, &m, 1);
	return json_text_str(m.value, name, size);
}

/* [{"module": …, as the server says it}] */
static void put_list(const struct look *l, const struct gen_names *names, struct json *j)
{
	char name[GEN_TOOL_NAME_MAX + 1];

	json_open(j, NULL, '{');
	json_str(j, "server", l->server);
	json_open(j, "tools", '[');
	for (size_t i = 0; i < names->n; i++) {
		if (!name_of(names->v[i].tool, name, sizeof(name)) ||
		    !tool_rules_allow(&l->tools, l->server, name))
			continue;
		json_open(j, NULL, '{');
		json_str(j, "module", names->v[i].module);
		json_text_put(names->v[i].tool, j, "tool");
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

/* 0, -ENOENT, or what gen_module() says. */
static int put_module(const struct look *l, const struct gen_names *names, struct json *j)
{
	char name[GEN_TOOL_NAME_MAX + 1];

	for (size_t i = 0; i < names->n; i++)
		if (strcmp(names->v[i].module, l->module) == 0 &&
		    name_of(names->v[i].tool, name, sizeof(name)) &&
		    tool_rules_allow(&l->tools, l->server, name))
			return gen_module(GEN_MCPTOOLS, l->server, l->module, names->v[i].tool, j);
	return -ENOENT;
}

static void answer(const struct look *l, struct req *r, const char *text, size_t n)
{
	struct gen_names names = { 0 };
	struct json_text all;
	struct json j;
	int rc = json_text_read(text, n, &all);

	json_init(&j);
	if (rc == 0)
		rc = gen_names(all, &names);
	if (rc == 0 && l->module[0] != '\0')
		rc = put_module(l, &names, &j);
	else if (rc == 0)
		put_list(l, &names, &j);
	gen_names_done(&names);
	if (rc == 0 && !j.failed)
		req_reply(r, 200,
			  l->module[0] != '\0' ? "text/x-python; charset=utf-8"
					       : "application/json",
			  j.buf, j.len);
	else if (rc == -ENOENT)
		req_refuse(r, 404, "not_found", NULL, "there is no tool '%s' of '%s'", l->module,
			   l->server);
	else
		req_refuse(r, 502, "failed", NULL, "what '%s' says of its tools makes no sense",
			   l->server);
	json_done(&j);
}

static void on_listed(void *arg, enum tool_outcome how, uint64_t code, const char *text, size_t n)
{
	struct look *l = arg;
	struct req *r = l->r;

	(void)code;
	r->work = NULL;
	r->gone = NULL;
	if (how == TOOL_DONE)
		answer(l, r, text, n);
	else
		req_refuse(r,
			   how == TOOL_UNKNOWN ? 404
			   : how == TOOL_BUSY  ? 429
					       : 502,
			   how == TOOL_UNKNOWN ? "not_found" : "failed", NULL, "%.*s",
			   (int)(n < 500 ? n : 500), text);
	look_free(l);
}

/* --- requests ------------------------------------------------------------------------------------------- */

/* Whether a rule before this one allows something of the same server; one that only asks names none. */
static bool is_named_before(const struct texts *t, const char *rule, size_t n)
{
	const char *earlier, *value;
	size_t at = 0;

	while (texts_next(t, &at, &earlier, &value) && earlier != rule)
		if (strcmp(value, "allow") == 0 && strcspn(earlier, "/") == n &&
		    memcmp(earlier, rule, n) == 0)
			return true;
	return false;
}

/* Names of servers, each once. */
static void put_servers(const struct abox *a, struct json *j)
{
	const char *rule, *value;
	size_t at = 0;

	json_open(j, NULL, '{');
	json_open(j, "servers", '[');
	while (texts_next(&a->tools, &at, &rule, &value)) {
		size_t n = strcspn(rule, "/");

		if (strcmp(value, "allow") == 0 && !is_named_before(&a->tools, rule, n))
			json_bytes(j, NULL, rule, n);
	}
	json_close(j, ']');
	json_close(j, '}');
}

static struct look *look_new(struct req *r, struct abox *a, struct http_slice server,
			     struct http_slice module)
{
	struct look *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	l->r = r;
	(void)snprintf(l->server, sizeof(l->server), "%.*s", (int)server.n, server.p);
	(void)snprintf(l->module, sizeof(l->module), "%.*s", (int)module.n, module.p);
	l->tools.p = malloc(a->tools.n + 1);
	if (l->tools.p == NULL) {
		free(l);
		return NULL;
	}
	(void)memcpy(l->tools.p, a->tools.p, a->tools.n);
	l->tools.n = a->tools.n;
	return l;
}

void tool_list(struct req *r)
{
	struct http_slice server = req_query(r, "server"), module = req_query(r, "module");
	struct abox *a;
	struct look *l;
	struct json j;
	char name[80];

	if (req_box(r, &a) < 0)
		return;
	if (tool_runs_wait(a) > 0) {
		req_refuse(r, 429, "rate", NULL, "too many requests in a second (tool_rate)");
		return;
	}
	if (server.n == 0) {
		json_init(&j);
		put_servers(a, &j);
		req_json(r, 200, &j);
		return;
	}
	(void)snprintf(name, sizeof(name), "%.*s", (int)(server.n < 79 ? server.n : 79), server.p);
	if (server.n >= 65 || module.n >= GEN_NAME || !tool_rules_name(&a->tools, name)) {
		req_refuse(r, 404, "not_found", NULL, "this box may call nothing of a server '%s'",
			   name);
		return;
	}
	l = look_new(r, a, server, module);
	if (l != NULL)
		l->ask = tools_list(r->g, a->id, l->server, LOOK_US, on_listed, l);
	if (l == NULL || l->ask == NULL) {
		if (l != NULL)
			look_free(l);
		req_refuse(r, 429, "busy", NULL, "too much is asked at once");
		return;
	}
	r->work = l;
	r->gone = on_gone;
}

/* What all modules of a server share. */
void tool_package(struct req *r)
{
	const struct json_text none = { NULL, 0 };
	struct abox *a;
	struct json j;

	if (req_box(r, &a) < 0)
		return;
	if (tool_runs_wait(a) > 0) {
		req_refuse(r, 429, "rate", NULL, "too many requests in a second (tool_rate)");
		return;
	}
	json_init(&j);
	if (gen_package(none, &j) < 0 || j.failed)
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
	else
		req_reply(r, 200, "text/x-python; charset=utf-8", j.buf, j.len);
	json_done(&j);
}
