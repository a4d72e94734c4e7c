// SPDX-License-Identifier: Apache-2.0
/*
 * Command lines of `glovebox tools`. Options may stand anywhere; what follows "--" is a program, and then no word names the server.
 */
#include "cli/tools.h"

#include "base/own.h"
#include "base/str.h"
#include "cli/opts.h"

#include <stdio.h>
#include <string.h>

static int take_config(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct tools_opts *)ctx)->config = v;
	return 0;
}

static int take_header(void *ctx, const char *v, struct err *e)
{
	struct tools_opts *o = ctx;
	const char *text = tools_expand(&o->file, v, e);

	if (text == NULL)
		return -1;
	if (!mcp_header_check(text))
		return err_set(e, ERR_USAGE, 0, "--header '%.*s…' is not 'Name: value'",
			       (int)strcspn(v, ":"), v);
	if (o->place.nheaders == MCP_PLACE_HEADERS)
		return err_set(e, ERR_USAGE, 0, "more than %d headers", MCP_PLACE_HEADERS);
	o->place.headers[o->place.nheaders++] = text;
	return 0;
}

static int take_timeout(void *ctx, const char *v, struct err *e)
{
	struct tools_opts *o = ctx;

	if (str_to_duration_us(v, &o->timeout_us) < 0 || o->timeout_us == 0)
		return err_set(e, ERR_USAGE, 0, "--timeout '%s' is no duration such as 30 or 5m",
			       v);
	return 0;
}

static int take_images(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct tools_opts *)ctx)->images = v;
	return 0;
}

static int take_out(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct tools_opts *)ctx)->out = v;
	return 0;
}

static int take_name(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct tools_opts *)ctx)->name = v;
	return 0;
}

#define FLAG(name)                                                      \
	static int take_##name(void *ctx, const char *v, struct err *e) \
	{                                                               \
		(void)v, (void)e;                                       \
		((struct tools_opts *)ctx)->name = true;                \
		return 0;                                               \
	}

FLAG(json)
FLAG(accept)
FLAG(verbose)
FLAG(old)
FLAG(help)

static const struct opt rows[] = {
	{ "config", 0, OPT_ARG, "FILE",
	  "SERVER is a name in this file: {\"mcpServers\": {NAME: {command, args, env | url, type, "
	  "headers}}}",
	  take_config, NULL },
	{ "header", 0, OPT_ARG, "NAME:VALUE",
	  "sent with every request; ${VAR} is the environment's", take_header, NULL },
	{ "sse", 0, OPT_NO_ARG, NULL,
	  "the URL is one of HTTP+SSE, as of 2024-11-05 [if it ends in /sse]", take_old, NULL },
	{ "timeout", 't', OPT_ARG, "TIME", "for each answer [60]", take_timeout, NULL },
	{ "json", 0, OPT_NO_ARG, NULL, "the result as JSON, in one line", take_json, NULL },
	{ "images", 0, OPT_ARG, "DIR", "where images and the like are saved [.]", take_images,
	  NULL },
	{ "out", 0, OPT_ARG, "DIR", "gen: where packages are made [mcptools]", take_out, NULL },
	{ "name", 0, OPT_ARG, "NAME", "gen: what the package is called [as the server]", take_name,
	  NULL },
	{ "accept", 0, OPT_NO_ARG, NULL,
	  "answer questions of the server with the defaults they name; otherwise they are declined",
	  take_accept, NULL },
	{ "verbose", 'v', OPT_NO_ARG, NULL, "show what a program says on standard error, and logs",
	  take_verbose, NULL },
	{ "help", 'h', OPT_NO_ARG, NULL, "this text", take_help, NULL },
};

void tools_help(const char *usage)
{
	(void)printf(
		"%s\n"
		"SERVER is a URL (http://HOST:PORT/mcp), a NAME with --config, or, behind all "
		"else,\n'-- PROGRAM ARGS ...'.\n\n"
		"NOTE: a program that is started this way runs on this machine, as you, outside "
		"any box.\n\n",
		usage);
	opts_help(rows, ARRAY_LEN(rows), stdout);
	(void)printf(
		"\nexit status: 0; 1 when the tool or the server says that it failed; 2 when "
		"called "
		"wrongly; 3 when\nthere is no server, or no answer of it; 128 and the number of a "
		"signal that came.\n");
}

/* Words and options in whatever order, up to "--". */
static int take_words(struct tools_opts *o, int argc, char **argv, struct err *e)
{
	int at = 0;

	for (int i = 1; i < argc && o->program == NULL; i++)
		if (strcmp(argv[i], "--") == 0) {
			o->program = argv + i + 1;
			argc = i;
		}
	while (at < argc - 1) {
		int r = opts_parse(rows, ARRAY_LEN(rows), argc - at, argv + at, o, e);

		if (r < 0)
			return -1;
		at += r;
		if (at >= argc)
			break;
		if (o->nwords == TOOLS_WORDS_MAX)
			return err_set(e, ERR_USAGE, 0, "more than %d words", TOOLS_WORDS_MAX);
		o->words[o->nwords++] = argv[at];
	}
	return 0;
}

static bool ends_in_sse(const char *url)
{
	size_t n = strcspn(url, "?#");

	return n >= 4 && strncmp(url + n - 4, "/sse", 4) == 0;
}

/* Which server it is about. */
static int take_server(struct tools_opts *o, struct err *e)
{
	const char *first = o->nwords > 0 ? o->words[0] : NULL;

	o->place.verbose = o->verbose;
	if (o->program != NULL) {
		if (o->program[0] == NULL || o->config != NULL)
			return err_set(e, ERR_USAGE, 0,
				       o->config != NULL ? "--config and a program are two servers"
							 : "no program behind '--'");
		o->place.argv = o->program;
		return 0;
	}
	if (first == NULL) {
		(void)err_set(e, ERR_USAGE, 0, "no server is named");
		return err_hint(e, "--help says how");
	}
	(void)memmove(o->words, o->words + 1, --o->nwords * sizeof(o->words[0]));
	if (o->config != NULL && tools_config_read(o, first, e) < 0)
		return -1;
	o->named = o->config != NULL ? first : NULL;
	if (o->config == NULL)
		o->place.url = first;
	if (o->place.url != NULL)
		o->place.old = o->old || (!o->new && ends_in_sse(o->place.url));
	return 0;
}

int tools_opts(struct tools_opts *o, int argc, char **argv, const char *usage, struct err *e)
{
	*o = (struct tools_opts){ .timeout_us = TOOLS_TIMEOUT_S * 1000000ull,
				  .images = ".",
				  .out = "mcptools" };
	if (take_words(o, argc, argv, e) < 0)
		return -1;
	if (o->help) {
		tools_help(usage);
		return 1;
	}
	return take_server(o, e);
}

void tools_opts_done(struct tools_opts *o)
{
	tools_config_done(&o->file);
}
