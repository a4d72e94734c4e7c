// SPDX-License-Identifier: Apache-2.0
#include "cli/exec.h"

#include "base/own.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

static int take_code(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct exec_opts *)ctx)->code = v;
	return 0;
}

static int take_kernel(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct exec_opts *)ctx)->kernel = v;
	return 0;
}

static int take_cwd(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct exec_opts *)ctx)->cwd = v;
	return 0;
}

static int take_images(void *ctx, const char *v, struct err *e)
{
	if (*v == '\0')
		return err_set(e, ERR_USAGE, 0, "--images needs the name of a directory");
	((struct exec_opts *)ctx)->images = v;
	return 0;
}

static int take_detach(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct exec_opts *)ctx)->detach = true;
	return 0;
}

static int take_no_stdin(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct exec_opts *)ctx)->no_stdin = true;
	return 0;
}

static int take_timeout(void *ctx, const char *v, struct err *e)
{
	struct exec_opts *o = ctx;

	if (str_to_duration_us(v, &o->timeout_us) < 0 || o->timeout_us > 365ULL * 86400 * 1000000)
		return err_set(e, ERR_USAGE, 0,
			       "--timeout '%s' is no duration such as 10, 500ms, 2m (0: none)", v);
	return 0;
}

static int take_env(void *ctx, const char *v, struct err *e)
{
	struct exec_opts *o = ctx;

	if (strcspn(v, "=") == 0 || strchr(v, '=') == NULL)
		return err_set(e, ERR_USAGE, 0, "--env '%s' is not NAME=VALUE", v);
	if (o->nenv == EXEC_ENV_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d environment variables", EXEC_ENV_MAX);
	o->env[o->nenv++] = v;
	return 0;
}

static const struct opt rows[] = {
	{ "code", 'c', OPT_ARG, "CODE", "run this cell in a kernel of the box, not a command",
	  take_code, NULL },
	{ "kernel", 0, OPT_ARG, "NAME", "whose variables the cell sees [main]", take_kernel, NULL },
	{ "images", 0, OPT_ARG, "DIR", "save images of the cell there [they are only named]",
	  take_images, NULL },
	{ "cwd", 'w', OPT_ARG, "DIR", "where the command begins [/workspace]", take_cwd, NULL },
	{ "env", 'e', OPT_ARG, "NAME=VALUE", "environment variable of the command", take_env,
	  NULL },
	{ "timeout", 0, OPT_ARG, "TIME", "wall-clock limit: 10, 500ms, 2m [none]", take_timeout,
	  NULL },
	{ "no-stdin", 'n', OPT_NO_ARG, NULL, "its standard input is empty", take_no_stdin, NULL },
	{ "detach", 'd', OPT_NO_ARG, NULL, "only start it, and print its id; see glovebox logs",
	  take_detach, NULL },
	CLIENT_JSON_ROW("one JSON object at the end, with all that it said"),
	CLIENT_ROWS,
};

static void help(void)
{
	(void)printf(
		"usage: glovebox exec [options] BOX [--] COMMAND [argument ...]\n"
		"       glovebox exec [options] BOX -c CODE\n\n"
		"Runs a command, or a cell of Python, in a box that is there: an id or name:NAME. "
		"Standard input,\n"
		"output and error are its own, signals go to it.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
	(void)printf(
		"\nexit status: the command's; 128+N when signal N ended it; of a cell 0, or 1 if "
		"it failed;\n"
		"124 when its time was over; 137 when it ran out of memory; 125 when Glovebox "
		"itself failed\n"
		"or was called wrongly.\n");
}

static int check(const struct exec_opts *o, struct err *e)
{
	if (o->code == NULL && *o->argv == NULL) {
		(void)err_set(e, ERR_USAGE, 0, "no command to run");
		return err_hint(e, "write it behind the box, or -c CODE");
	}
	if (o->code != NULL && *o->argv != NULL)
		return err_set(e, ERR_USAGE, 0, "-c and a command exclude each other");
	if (o->code != NULL && (o->cwd != NULL || o->nenv > 0))
		return err_set(e, ERR_USAGE, 0, "--cwd and --env are for commands, not for cells");
	return box_name_check(o->box, e);
}

int exec_opts(struct exec_opts *o, int argc, char **argv, struct err *e)
{
	int at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, o, e), more;

	if (o->client.help) {
		help();
		return 0;
	}
	if (at < 0)
		return -1;
	if (at >= argc) {
		(void)err_set(e, ERR_USAGE, 0, "no box to run it in");
		return err_hint(e, "'glovebox ps' lists boxes");
	}
	o->kernel = o->kernel != NULL ? o->kernel : "main";
	o->box = argv[at];
	/* Options may stand behind it, too; what it is given to begin with is passed over. */
	more = opts_parse(rows, ARRAY_LEN(rows), argc - at, argv + at, o, e);
	if (more < 0)
		return -1;
	if (o->client.help) {
		help();
		return 0;
	}
	o->argv = argv + at + more;
	return check(o, e);
}
