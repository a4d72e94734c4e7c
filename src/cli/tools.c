// SPDX-License-Identifier: Apache-2.0
/* `glovebox tools`: the verb, and its commands. */
#include "cli/tools.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/say.h"
#include "cli/verbs.h"
#include "cli/wake.h"

#include <stdio.h>
#include <string.h>

/* --- what a server says besides ------------------------------------------------------------------- */

static bool accept_defaults(struct mcpc_way *w, struct json_text params, struct json *j)
{
	(void)w;
	return mcpc_elicit_defaults(params, j);
}

static void show_log(struct mcpc_way *w, const char *method, struct json_text params)
{
	struct json_member m[] = { { .key = "level" }, { .key = "data" } };
	char level[16];
	struct json j;

	(void)w;
	if (strcmp(method, "notifications/message") != 0)
		return;
	json_text_find(params, m, ARRAY_LEN(m));
	if (!json_text_str(m[0].value, level, sizeof(level)))
		level[0] = '\0';
	json_init(&j);
	json_text_put(m[1].value, &j, NULL);
	if (!j.failed)
		say("the server logs%s%s: %s", level[0] != '\0' ? " " : "", level, j.buf);
	json_done(&j);
}

static void on_progress(struct mcpc_request *r, struct json_text params)
{
	(void)r;
	tools_show_progress(&params);
}

/* --- requests ------------------------------------------------------------------------------------- */

static int usage_error(const struct err *e)
{
	(void)say_err(e);
	return TOOLS_USAGE;
}

static uint64_t deadline(const struct tools_opts *o)
{
	uint64_t now = clock_us();

	return o->timeout_us < UINT64_MAX - now ? now + o->timeout_us : UINT64_MAX;
}

/* What came of a request that did not succeed. */
static int failed(const struct tools_opts *o, const struct toolway *l, const struct mcpc_request *r)
{
	tools_show_progress(NULL);
	if (r->outcome == MCPC_CANCELLED)
		return EXIT_SIGNAL_BASE + wake_end();
	say("%s", r->error);
	if (r->outcome == MCPC_REFUSED)
		return TOOLS_ERROR;
	if (!o->verbose && l->transport->last_words != NULL)
		l->transport->last_words(l);
	return TOOLS_NO_SERVER;
}

int tools_fetch(const struct tools_opts *o, struct toolway *l, struct mcpc_request *list)
{
	struct mcpc_request hello = { .done = toolway_nothing, .deadline_us = deadline(o) };
	int rc = TOOLS_OK;

	if (o->accept)
		l->way.elicit = accept_defaults;
	if (o->verbose)
		l->way.told = show_log;
	mcpc_connect(&l->client, &hello, clock_us());
	toolway_await(l, &hello);
	if (hello.outcome != MCPC_DONE)
		rc = failed(o, l, &hello);
	else if (o->verbose)
		say("connected to %s, version %s",
		    l->client.server[0] != '\0' ? l->client.server : "a server without a name",
		    l->client.spoken);
	mcpc_request_done(&hello);
	if (rc != TOOLS_OK)
		return rc;
	*list = (struct mcpc_request){ .done = toolway_nothing, .deadline_us = deadline(o) };
	mcpc_list(&l->client, list, clock_us());
	toolway_await(l, list);
	if (list->outcome != MCPC_DONE)
		return failed(o, l, list);
	if (list->tools.dropped > 0)
		say("%u of its tools cannot be used: %s", list->tools.dropped, list->tools.why);
	return TOOLS_OK;
}

static int shown(int r, int rc)
{
	if (r >= 0)
		return rc;
	say("cannot write to standard output: %s", strerror(-r));
	return wake_end() != 0 ? EXIT_SIGNAL_BASE + wake_end() : EXIT_GLOVEBOX;
}

/* --- the commands --------------------------------------------------------------------------------- */

static int run_list(struct tools_opts *o, struct toolway *l)
{
	struct mcpc_request list = { 0 };
	int rc;

	rc = tools_fetch(o, l, &list);
	if (rc == TOOLS_OK)
		rc = shown(o->json ? tools_show_list_json(&list.tools)
				   : tools_show_list(&list.tools),
			   rc);
	mcpc_request_done(&list);
	return rc;
}

static int call_tool(const struct tools_opts *o, struct toolway *l, const struct mcpc_tool *tool,
		     const struct json *args)
{
	struct mcpc_request r = { .done = toolway_nothing,
				  .progress = on_progress,
				  .deadline_us = deadline(o) };
	bool is_error = false;
	int rc = TOOLS_OK;

	mcpc_call(&l->client, &r, tool->name, (struct json_text){ args->buf, args->len }, tool,
		  clock_us());
	toolway_await(l, &r);
	tools_show_progress(NULL);
	if (r.outcome != MCPC_DONE) {
		rc = failed(o, l, &r);
	} else if (o->json) {
		struct json_member m = { .key = "isError" };

		json_text_find(r.result, &m, 1);
		is_error = m.value.n == 4 && memcmp(m.value.p, "true", 4) == 0;
		rc = shown(tools_show_json(r.result), rc);
	} else {
		rc = shown(tools_show_result(tool->name, r.result, o->images, &is_error), rc);
	}
	mcpc_request_done(&r);
	return rc == TOOLS_OK && is_error ? TOOLS_ERROR : rc;
}

static int run_call(struct tools_opts *o, struct toolway *l)
{
	const struct mcpc_tool *tool = NULL;
	struct mcpc_request list = { 0 };
	struct json args;
	struct err e;
	int rc;

	rc = tools_fetch(o, l, &list);
	if (rc == TOOLS_OK) {
		tool = mcpc_tool_find(&list.tools, o->words[0]);
		if (tool == NULL) {
			say("the server has no tool '%s'", o->words[0]);
			rc = TOOLS_USAGE;
		}
	}
	json_init(&args);
	if (tool != NULL && tools_arguments(o->words + 1, o->nwords - 1, tool, &args, &e) < 0)
		rc = usage_error(&e);
	else if (tool != NULL && args.failed)
		rc = EXIT_GLOVEBOX;
	if (rc == TOOLS_OK)
		rc = call_tool(o, l, tool, &args);
	json_done(&args);
	mcpc_request_done(&list);
	return rc;
}

static int run_gen(struct tools_opts *o, struct toolway *l)
{
	struct mcpc_request list = { 0 };
	struct err e;
	int rc = tools_fetch(o, l, &list);

	if (rc == TOOLS_OK && tools_gen(o, l, &list.tools, &e) < 0)
		rc = usage_error(&e);
	mcpc_request_done(&list);
	return rc;
}

enum words { NO_WORDS, SOME_WORDS, ANY_WORDS };

static const struct command {
	const char *name, *usage;
	int (*run)(struct tools_opts *o, struct toolway *l);
	enum words words; /* behind the server */
} commands[] = {
	{ "list",
	  "usage: glovebox tools list [options] SERVER\n"
	  "       glovebox tools list [options] -- PROGRAM ARGS ...\n\n"
	  "The tools of a server that speaks MCP: names, what they do, what they take.\n",
	  run_list, NO_WORDS },
	{ "call",
	  "usage: glovebox tools call [options] SERVER TOOL [JSON | key=value ...]\n"
	  "       glovebox tools call [options] TOOL [JSON | key=value ...] -- PROGRAM ARGS ...\n\n"
	  "Calls one. Values are what its schema says; texts come as they are, images as files.\n",
	  run_call, SOME_WORDS },
	{ "gen",
	  "usage: glovebox tools gen [options] SERVER [TOOL ...]\n"
	  "       glovebox tools gen [options] [TOOL ...] -- PROGRAM ARGS ...\n\n"
	  "Python for its tools, as code in a box has it: modules in DIR/NAME, or those of TOOL "
	  "on\n"
	  "standard output.\n",
	  run_gen, ANY_WORDS },
};

static int run(const struct command *c, int argc, char **argv)
{
	static struct tools_opts o;
	struct toolway *l = NULL;
	struct err e;
	int rc, r = tools_opts(&o, argc, argv, c->usage, &e);

	if (r == 0 && c->words == SOME_WORDS && o.nwords == 0)
		r = err_set(&e, ERR_USAGE, 0, "no tool is named");
	if (r == 0 && c->words == NO_WORDS && o.nwords > 0)
		r = err_set(&e, ERR_USAGE, 0, "'%s' is not needed: a list is of all tools",
			    o.words[0]);
	if (r == 0) {
		l = toolway_open(&o.place, NULL, &e);
		r = l == NULL ? -2 : 0;
	}
	if (r > 0)
		rc = TOOLS_OK;
	else if (r < 0)
		rc = usage_error(&e);
	else
		rc = c->run(&o, l);
	if (r == -2 && e.kind != ERR_USAGE)
		rc = TOOLS_NO_SERVER;
	toolway_close(l);
	tools_opts_done(&o);
	return rc;
}

int verb_tools(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	bool help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;

	for (unsigned int i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(name, commands[i].name) == 0)
			return run(&commands[i], argc - 1, argv + 1);
	if (help) {
		for (unsigned int i = 0; i + 1 < ARRAY_LEN(commands); i++)
			(void)printf("%s\n", commands[i].usage);
		tools_help(commands[ARRAY_LEN(commands) - 1].usage);
		return TOOLS_OK;
	}
	if (name[0] != '\0')
		say("'%s' is no command of 'glovebox tools'", name);
	for (unsigned int i = 0; i < ARRAY_LEN(commands); i++)
		(void)fprintf(stderr, "%s\n", commands[i].usage);
	(void)fputs("--help lists the options.\n", stderr);
	return TOOLS_USAGE;
}
