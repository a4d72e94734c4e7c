// SPDX-License-Identifier: Apache-2.0
/* The command line of `glovebox shell`. Limits come from policy/limits.tbl. */
#include "cli/shell.h"

#include "base/own.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

static int take_box(void *ctx, const char *v, struct err *e)
{
	((struct shell_opts *)ctx)->box = v;
	return box_name_check(v, e);
}

static int take_name(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct shell_opts *)ctx)->name = v;
	return 0;
}

static int take_kernel(void *ctx, const char *v, struct err *e)
{
	size_t n = strspn(v, "abcdefghijklmnopqrstuvwxyz0123456789-_");

	((struct shell_opts *)ctx)->kernel = v;
	if (n == 0 || n > 31 || v[n] != '\0')
		return err_set(e, ERR_USAGE, 0,
			       "--kernel '%s' is not made of a-z, 0-9, '-' and '_', 31 at most", v);
	return 0;
}

static int take_images(void *ctx, const char *v, struct err *e)
{
	if (*v == '\0')
		return err_set(e, ERR_USAGE, 0, "--images needs the name of a directory");
	((struct shell_opts *)ctx)->images = v;
	return 0;
}

static int take_environment(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct shell_opts *)ctx)->environment = v;
	return 0;
}

static int take_keep(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct shell_opts *)ctx)->keep = true;
	return 0;
}

static int take_sh(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct shell_opts *)ctx)->sh = true;
	return 0;
}

static int take_timeout(void *ctx, const char *v, struct err *e)
{
	struct shell_opts *o = ctx;

	if (str_to_duration_us(v, &o->timeout_us) < 0 || o->timeout_us > 365ULL * 86400 * 1000000)
		return err_set(e, ERR_USAGE, 0,
			       "--timeout '%s' is no duration such as 10, 500ms, 2m (0: none)", v);
	return 0;
}

static int take_env(void *ctx, const char *v, struct err *e)
{
	struct shell_opts *o = ctx;
	const char *value;
	char *own = NULL;

	if (strcspn(v, "=") == 0)
		return err_set(e, ERR_USAGE, 0, "--env '%s' has no name", v);
	if (o->nenv == SHELL_ENV_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d environment variables",
			       SHELL_ENV_MAX);
	if (strchr(v, '=') == NULL) {
		value = getenv(v);
		if (value == NULL)
			return err_set(e, ERR_USAGE, 0,
				       "--env '%s': there is no such variable here", v);
		if (asprintf(&own, "%s=%s", v, value) < 0)
			return err_set(e, ERR_SYS, ENOMEM, "keep a variable");
		v = own;
	}
	o->env[o->nenv++] = v; /* lives as long as the process */
	return 0;
}

static int take_mount(void *ctx, const char *v, struct err *e)
{
	struct shell_opts *o = ctx;

	if (o->nmounts == SHELL_MOUNTS_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d mounts", SHELL_MOUNTS_MAX);
	o->mounts[o->nmounts++] = v;
	return 0;
}

static int set_limit(struct shell_opts *o, enum limit_id id, const char *v, struct err *e)
{
	o->limit_set[id] = true;
	return opt_limit(id, v, &o->limits.v[id], e);
}

/* As in run_opts.c: the row of an option has no other way to know its limit. */
#define LIMIT(id, key, option, unit, def, min, max, doc)                    \
	static int take_limit_##id(void *ctx, const char *v, struct err *e) \
	{                                                                   \
		return set_limit(ctx, LIMIT_##id, v, e);                    \
	}
#include "policy/limits.tbl"
#undef LIMIT

static const struct opt rows[] = {
	{ "box", 'b', OPT_ARG, "BOX", "a box that is there: its id, or name:NAME [a new one]",
	  take_box, NULL },
	{ "sh", 's', OPT_NO_ARG, NULL, "a shell with a terminal of its own, not Python", take_sh,
	  NULL },
	{ "keep", 'k', OPT_NO_ARG, NULL, "leave the new box when we go, and say its id", take_keep,
	  NULL },
	{ "name", 0, OPT_ARG, "NAME", "of the new box", take_name, NULL },
	{ "environment", 0, OPT_ARG, "NAME", "what the new box is made of [the machine's own]",
	  take_environment, NULL },
	{ "kernel", 0, OPT_ARG, "NAME", "whose variables are seen [main]", take_kernel, NULL },
	{ "images", 0, OPT_ARG, "DIR", "where images are saved [./glovebox-images]", take_images,
	  NULL },
	{ "timeout", 0, OPT_ARG, "TIME", "wall-clock limit of a cell: 10, 500ms, 2m [none]",
	  take_timeout, NULL },
	{ "env", 'e', OPT_ARG, "NAME[=VALUE]",
	  "environment variable of the new box; without value: the caller's", take_env, NULL },
	{ "mount", 'm', OPT_ARG, "SRC[:AT][:rw]",
	  "show a directory in the new box, read-only unless rw; of another server's: "
	  "ROOT[//PATH][:AT][:rw]",
	  take_mount, NULL },
#define LIMIT(id, key, option, unit, def, min, max, doc) \
	{ option, 0, OPT_ARG, "N", doc, take_limit_##id, NULL },
#include "policy/limits.tbl"
#undef LIMIT
	CLIENT_ROWS,
};

static void help(void)
{
	(void)printf("usage: glovebox shell [options]\n"
		     "       glovebox shell [options] < CELL\n\n"
		     "An interactive Python session in a box: IPython's prompt, history (Ctrl-R "
		     "searches), completion\n"
		     "by Tab; Ctrl-C interrupts what runs, Ctrl-D leaves. With --sh a real shell "
		     "instead. Where no\n"
		     "server runs, one is started for the session. Standard input that is no "
		     "terminal is one cell.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
	(void)printf(
		"\nexit status: 0; of a cell on standard input 1 if it failed; of --sh that of "
		"the shell;\n"
		"125 when Glovebox itself failed or was called wrongly.\n");
}

int shell_opts(struct shell_opts *o, int argc, char **argv, struct err *e)
{
	int at;

	o->kernel = "main";
	o->images = "./glovebox-images";
	limits_init(&o->limits);
	at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, o, e);
	if (at < 0)
		return -1;
	if (o->client.help) {
		help();
		return 0;
	}
	if (at < argc) {
		(void)err_set(e, ERR_USAGE, 0, "'%s' is no option", argv[at]);
		return err_hint(e, "'glovebox exec BOX -- COMMAND' runs a command in a box");
	}
	if (o->box == NULL)
		return 0;
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		if (o->limit_set[i])
			return err_set(e, ERR_USAGE, 0,
				       "--%s is for a new box, and --box names one that is there",
				       limit_row((enum limit_id)i)->option);
	if (o->nenv > 0 || o->nmounts > 0 || o->keep || o->name != NULL)
		return err_set(e, ERR_USAGE, 0,
			       "--env, --mount, --keep and --name are for a new box, and --box "
			       "names one that is there");
	return 0;
}
