// SPDX-License-Identifier: Apache-2.0
/*
 * The client half of src/mcp and the transports of src/cli, doing what the scenarios of the official conformance suite want. The last
 * argument is the URL of the scenario's server; MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT say what it is about. Which era to
 * speak is for the client to find out, as ever.
 */
#include "base/clock.h"
#include "base/own.h"
#include "cli/toolway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_S = 20, TOOLS_MAX = 64 };

static bool accept_defaults(struct mcpc_way *w, struct json_text params, struct json *j)
{
	(void)w;
	return mcpc_elicit_defaults(params, j);
}

static void start(struct mcpc_request *r)
{
	*r = (struct mcpc_request){ .done = toolway_nothing,
				    .deadline_us = clock_us() + TIMEOUT_S * US_PER_S };
}

static void finish(struct toolway *l, struct mcpc_request *r, const char *what)
{
	toolway_await(l, r);
	if (r->outcome == MCPC_DONE)
		return;
	(void)fprintf(stderr, "client-fixture: %s: %s\n", what, r->error);
	exit(1);
}

static void ask(struct toolway *l, const char *method, const char *members, const char *named,
		struct mcpc_request *r)
{
	start(r);
	mcpc_ask(&l->client, r, method, members, strlen(members), named, clock_us());
	finish(l, r, method);
}

/* --- arguments ------------------------------------------------------------------------------------ */

/* Something for each parameter that is required. */
static void put_arguments(const struct mcpc_tool *tool, struct json *j)
{
	struct json_member m[] = { { .key = "properties" }, { .key = "required" } };
	struct json_text key, name;
	struct json_walk w;

	json_text_find(tool->input, m, ARRAY_LEN(m));
	json_open(j, NULL, '{');
	for (w = json_walk(m[1].value); json_walk_next(&w, &key, &name);) {
		struct json_member type = { .key = "type" };
		struct json_walk all = json_walk(m[0].value);
		struct json_text property, schema;
		char text[16] = "";

		while (json_walk_next(&all, &property, &schema))
			if (property.n == name.n && memcmp(property.p, name.p, name.n) == 0)
				json_text_find(schema, &type, 1);
		(void)json_text_str(type.value, text, sizeof(text));
		json_text_put_key(name, j);
		if (strcmp(text, "number") == 0 || strcmp(text, "integer") == 0)
			json_u64(j, NULL, 5);
		else
			json_str(j, NULL, "value");
	}
	json_close(j, '}');
}

/* --- scenarios ------------------------------------------------------------------------------------ */

/* Each tool once, all at the same time: what one is asked back is not for the others. */
static void call_all(struct toolway *l, const struct mcpc_tools *t)
{
	static struct mcpc_request r[TOOLS_MAX];

	for (unsigned int i = 0; i < t->n && i < TOOLS_MAX; i++) {
		struct json args;

		json_init(&args);
		put_arguments(&t->v[i], &args);
		start(&r[i]);
		mcpc_call(&l->client, &r[i], t->v[i].name, (struct json_text){ args.buf, args.len },
			  &t->v[i], clock_us());
		json_done(&args);
	}
	for (unsigned int i = 0; i < t->n && i < TOOLS_MAX; i++) {
		finish(l, &r[i], t->v[i].name);
		mcpc_request_done(&r[i]);
	}
}

/* Calls that the suite has written down: {"toolCalls": [{"name", "arguments"}]}. */
static void call_context(struct toolway *l, const struct mcpc_tools *t, const char *context)
{
	struct json_member calls = { .key = "toolCalls" };
	struct json_text all, key, one;
	struct json_walk w;

	if (json_text_read(context, strlen(context), &all) < 0)
		return;
	json_text_find(all, &calls, 1);
	for (w = json_walk(calls.value); json_walk_next(&w, &key, &one);) {
		struct json_member m[] = { { .key = "name" }, { .key = "arguments" } };
		struct mcpc_request r;
		char name[MCPC_NAME];

		json_text_find(one, m, ARRAY_LEN(m));
		if (!json_text_str(m[0].value, name, sizeof(name)))
			continue;
		start(&r);
		mcpc_call(&l->client, &r, name, m[1].value, mcpc_tool_find(t, name), clock_us());
		finish(l, &r, name);
		mcpc_request_done(&r);
	}
}

/* The schema of one tool, given to the other as it came. */
static void echo_schema(struct toolway *l, const struct mcpc_tools *t)
{
	const struct mcpc_tool *focal = mcpc_tool_find(t, "json_schema_2020_12_tool");
	struct mcpc_request r;
	struct json args;

	if (focal == NULL)
		exit(1);
	json_init(&args);
	json_raw(&args, "{\"schema\":", 10);
	json_raw(&args, focal->input.p, focal->input.n);
	json_raw(&args, "}", 1);
	start(&r);
	mcpc_call(&l->client, &r, "json_schema_echo", (struct json_text){ args.buf, args.len },
		  mcpc_tool_find(t, "json_schema_echo"), clock_us());
	finish(l, &r, "json_schema_echo");
	mcpc_request_done(&r);
	json_done(&args);
}

/* The first of a list, by what it is called there. */
static void ask_first(struct toolway *l, const char *list, const char *all, const char *get,
		      const char *by)
{
	struct json_member items = { .key = all }, name = { .key = by };
	struct json_text key, item = { 0 };
	struct mcpc_request r, one;
	struct json_walk w;
	struct json j;
	char text[512];

	ask(l, list, "", NULL, &r);
	json_text_find(r.result, &items, 1);
	w = json_walk(items.value);
	if (json_walk_next(&w, &key, &item)) {
		json_text_find(item, &name, 1);
		if (!json_text_str(name.value, text, sizeof(text)))
			exit(1);
		json_init(&j);
		json_str(&j, by, text);
		ask(l, get, j.buf, text, &one);
		mcpc_request_done(&one);
		json_done(&j);
	}
	mcpc_request_done(&r);
}

int main(int argc, char **argv)
{
	const char *scenario = getenv("MCP_CONFORMANCE_SCENARIO");
	const char *context = getenv("MCP_CONFORMANCE_CONTEXT");
	struct mcp_place place = { .url = argc > 1 ? argv[argc - 1] : "" };
	struct mcpc_request hello, list;
	struct toolway *l;
	struct err e;

	l = toolway_open(&place, NULL, &e);
	if (l == NULL) {
		(void)fprintf(stderr, "client-fixture: %s\n", e.text);
		return 2;
	}
	scenario = scenario != NULL ? scenario : "";
	l->way.elicit = accept_defaults;
	start(&hello);
	mcpc_connect(&l->client, &hello, clock_us());
	finish(l, &hello, "connect");
	mcpc_request_done(&hello);
	start(&list);
	mcpc_list(&l->client, &list, clock_us());
	finish(l, &list, "tools/list");
	if (strcmp(scenario, "json-schema-2020-12-preservation") == 0)
		echo_schema(l, &list.tools);
	else if (context != NULL && strcmp(scenario, "http-custom-headers") == 0)
		call_context(l, &list.tools, context);
	else if (strcmp(scenario, "json-schema-ref-no-deref") != 0)
		call_all(l, &list.tools);
	if (strcmp(scenario, "http-standard-headers") == 0) {
		ask_first(l, "resources/list", "resources", "resources/read", "uri");
		ask_first(l, "prompts/list", "prompts", "prompts/get", "name");
	}
	(void)printf("%s, version %s: %u tools, %u left off\n", l->client.server, l->client.spoken,
		     list.tools.n, list.tools.dropped);
	mcpc_request_done(&list);
	toolway_close(l);
	return 0;
}
