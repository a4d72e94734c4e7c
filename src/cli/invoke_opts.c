// SPDX-License-Identifier: Apache-2.0
/* The command line of `glovebox invoke`. Options may stand behind the script, too. */
#include "cli/invoke.h"

#include "base/own.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

enum { TIMEOUT_MAX_MS = 3600 * 1000 };

/* A text of the command line, which lives as long as we do. */
#define TAKE_TEXT(member)                                                 \
	static int take_##member(void *ctx, const char *v, struct err *e) \
	{                                                                 \
		(void)e;                                                  \
		((struct invoke_opts *)ctx)->member = v;                  \
		return 0;                                                 \
	}
TAKE_TEXT(event)
TAKE_TEXT(event_file)
TAKE_TEXT(context)
TAKE_TEXT(context_file)
TAKE_TEXT(output)

#define TAKE_FLAG(member)                                                 \
	static int take_##member(void *ctx, const char *v, struct err *e) \
	{                                                                 \
		(void)v, (void)e;                                         \
		((struct invoke_opts *)ctx)->member = true;               \
		return 0;                                                 \
	}
TAKE_FLAG(verbose)
TAKE_FLAG(quiet)
TAKE_FLAG(profile)
TAKE_FLAG(version)

static int take_timeout(void *ctx, const char *v, struct err *e)
{
	uint64_t us;

	if (str_to_duration_us(v, &us) < 0 || us < 1000 || us / 1000 > TIMEOUT_MAX_MS)
		return err_set(e, ERR_USAGE, 0,
			       "--timeout '%s' is no number of seconds from 0.001 to 3600", v);
	((struct invoke_opts *)ctx)->timeout_ms = us / 1000;
	return 0;
}

static int find_word(const char *const *words, const char *v)
{
	for (int i = 0; words[i] != NULL; i++)
		if (strcmp(words[i], v) == 0)
			return i;
	return -1;
}

static int take_format(void *ctx, const char *v, struct err *e)
{
	static const char *const words[] = { "pretty", "json", "yaml", NULL };
	int i = find_word(words, v);

	if (i < 0)
		return err_set(e, ERR_USAGE, 0, "--format '%s' is none of pretty, json, yaml", v);
	((struct invoke_opts *)ctx)->format = (enum invoke_format)i;
	return 0;
}

static int take_log_level(void *ctx, const char *v, struct err *e)
{
	static const char *const words[] = { "DEBUG", "INFO", "WARNING", "ERROR", NULL };
	int i = find_word(words, v);

	if (i < 0)
		return err_set(e, ERR_USAGE, 0,
			       "--log-level '%s' is none of DEBUG, INFO, WARNING, ERROR", v);
	((struct invoke_opts *)ctx)->verbose |= i == 0;
	return 0;
}

static const struct opt rows[] = {
	{ "event", 'e', OPT_ARG, "JSON", "what the handler is given, an object [{}]", take_event,
	  NULL },
	{ "event-file", 'f', OPT_ARG, "FILE", "a file that has it; -: standard input",
	  take_event_file, NULL },
	{ "context", 'c', OPT_ARG, "JSON", "members of its context, an object [{}]", take_context,
	  NULL },
	{ "context-file", 0, OPT_ARG, "FILE", "a file that has them", take_context_file, NULL },
	{ "timeout", 't', OPT_ARG, "SECONDS",
	  "wall-clock time of the call, at most 3600 [event.__timeout, or 300]", take_timeout,
	  NULL },
	{ "format", 0, OPT_ARG, "FORMAT", "pretty, json or yaml [pretty]", take_format, NULL },
	{ "output", 'o', OPT_ARG, "FILE", "write it there, not to standard output", take_output,
	  NULL },
	{ "profile", 'p', OPT_NO_ARG, NULL, "say how much time and memory it took", take_profile,
	  NULL },
	{ "quiet", 'q', OPT_NO_ARG, NULL, "nothing but the result", take_quiet, NULL },
	{ "verbose", 'v', OPT_NO_ARG, NULL, "say what is done, and when", take_verbose, NULL },
	{ "log-level", 0, OPT_ARG, "LEVEL", "DEBUG (as --verbose), INFO, WARNING, ERROR",
	  take_log_level, NULL },
	{ "version", 0, OPT_NO_ARG, NULL, "which one this is", take_version, NULL },
	CLIENT_ROWS,
};

void invoke_help(void)
{
	(void)printf(
		"usage: glovebox invoke [options] SCRIPT.py\n"
		"       sandbox-run [options] SCRIPT.py\n\n"
		"Calls the function handler(event) or handler(event, context) of the script, in a "
		"box and an\n"
		"interpreter of its own, and says what it returned. Where no server runs, one is "
		"started for it.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
	(void)printf(
		"\nexit status: 0; 1 if the script does not load, 2 if the handler raised or "
		"the input is bad,\n"
		"3 if what it returned is not JSON, 4 if time was over or no box could be had, "
		"6 if it ended without\n"
		"a result, 7 if there is no code, 137 if it was killed (memory), 130 after "
		"Ctrl-C.\n");
}

static int exclude(const char *a, const char *b, const char *first, const char *second,
		   struct err *e)
{
	return a != NULL && b != NULL
		       ? err_set(e, ERR_USAGE, 0, "--%s and --%s exclude each other", first, second)
		       : 0;
}

int invoke_opts(struct invoke_opts *o, int argc, char **argv, struct err *e)
{
	while (argc > 1) {
		int at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, o, e);

		if (at < 0)
			return -1;
		if (at >= argc)
			break;
		if (o->script != NULL)
			return err_set(e, ERR_USAGE, 0, "'%s' beside the script '%s'", argv[at],
				       o->script);
		o->script = argv[at];
		argc -= at; /* what is behind it has the script in the place of our name */
		argv += at;
	}
	if (o->client.help || o->version)
		return 0;
	if (o->script == NULL) {
		(void)err_set(e, ERR_USAGE, 0, "no script to call the handler of");
		return err_hint(e, "--help says how it is called");
	}
	if (exclude(o->event, o->event_file, "event", "event-file", e) < 0)
		return -1;
	return exclude(o->context, o->context_file, "context", "context-file", e);
}
