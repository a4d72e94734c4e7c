// SPDX-License-Identifier: Apache-2.0
/*
 * The command line of `glovebox mcp`, which is also that of `ipybox mcp`. Limits come from policy/limits.tbl. What ipybox has and we have
 * not is refused where it would be trusted, and said to mean nothing where it would not.
 */
#include "cli/ipybox.h"
#include "cli/mcp.h"

#include "base/io.h"
#include "base/own.h"
#include "cli/box_body.h"
#include "cli/say.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { ENV_FILE_MAX = 64 * 1024 };

const char *bridge_workdir(const struct bridge_opts *o)
{
	return o->as_ipybox ? "/app" : "/workspace";
}

/* --- rows ----------------------------------------------------------------------------------------- */

static int take_dir(void *ctx, const char *v, struct err *e)
{
	struct bridge_opts *o = ctx;

	if (o->ndirs == HOST_DIRS_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d allowed directories", HOST_DIRS_MAX);
	o->dirs[o->ndirs++] = v;
	return 0;
}

static int take_domain(void *ctx, const char *v, struct err *e)
{
	return net_words_rule(&((struct bridge_opts *)ctx)->net, "allowed-domain", v, e);
}

static int take_network(void *ctx, const char *v, struct err *e)
{
	return net_words_mode(&((struct bridge_opts *)ctx)->net, v, e);
}

static int take_tag(void *ctx, const char *v, struct err *e)
{
	static char name[ENV_NAME];

	(void)e;
	if (ipybox_environment(v, name))
		((struct bridge_opts *)ctx)->environment = name;
	else if (!ipybox_is_own_image(v))
		say("--container-tag '%s': there is no environment '%s' ('ipybox build -t %s' "
		    "makes "
		    "one), so the box sees the programs of this machine",
		    v, name, v);
	return 0;
}

static int take_environment(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct bridge_opts *)ctx)->environment = v;
	return 0;
}

static int take_var(void *ctx, const char *v, struct err *e)
{
	struct bridge_opts *o = ctx;

	if (strcspn(v, "=") == 0 || strchr(v, '=') == NULL)
		return err_set(e, ERR_USAGE, 0, "--container-env-var '%s' is not NAME=VALUE", v);
	if (o->nvars == BRIDGE_ENV_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d environment variables",
			       BRIDGE_ENV_MAX);
	o->vars[o->nvars++] = v;
	return 0;
}

static int take_env_file(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct bridge_opts *)ctx)->env_file = v;
	return 0;
}

static int take_bind(void *ctx, const char *v, struct err *e)
{
	struct bridge_opts *o = ctx;

	if (box_bind_check("container-bind", v, e) < 0)
		return -1;
	if (o->nbinds == BRIDGE_BINDS_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d binds", BRIDGE_BINDS_MAX);
	o->binds[o->nbinds++] = v;
	return 0;
}

static int take_box(void *ctx, const char *v, struct err *e)
{
	((struct bridge_opts *)ctx)->box = v;
	return box_name_check(v, e);
}

static int take_print_config(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct bridge_opts *)ctx)->print_config = true;
	return 0;
}

/* As in run_opts.c: the row of an option has no other way to know its limit. */
#define LIMIT(id, key, option, unit, def, min, max, doc)                      \
	static int take_limit_##id(void *ctx, const char *v, struct err *e)   \
	{                                                                     \
		struct bridge_opts *o = ctx;                                  \
                                                                              \
		o->limit_set[LIMIT_##id] = true;                              \
		return opt_limit(LIMIT_##id, v, &o->limits.v[LIMIT_##id], e); \
	}
#include "policy/limits.tbl"
#undef LIMIT

static const struct opt rows[] = {
	{ "allowed-dir", 0, OPT_ARG, "DIR",
	  "where upload_file and download_file may read and write; several [home directory, /tmp]",
	  take_dir, NULL },
	{ "box", 0, OPT_ARG, "BOX", "use a box that is there, by its id or name:NAME; it stays",
	  take_box, NULL },
	{ "container-env-var", 0, OPT_ARG, "NAME=VALUE", "environment variable of the box; several",
	  take_var, NULL },
	{ "container-env-file", 0, OPT_ARG, "FILE",
	  "the same from a file, a line each; those of --container-env-var count more",
	  take_env_file, NULL },
	{ "container-bind", 0, OPT_ARG, "DIR:PATH[:ro]",
	  "show a directory, made if it is missing, in the box; of another server's: "
	  "ROOT[//PATH]:PATH[:ro]",
	  take_bind, NULL },
	{ "environment", 0, OPT_ARG, "NAME", "what the box is made of [the machine's own]",
	  take_environment, NULL },
	{ "container-tag", 0, OPT_ARG, "TAG",
	  "the same by the name of an image, as 'ipybox build' takes it", take_tag, NULL },
	{ "allowed-domain", 0, OPT_ARG, "RULE",
	  "let code in the box reach pypi.org, *.pypi.org:443, 10.1.0.0/16, and nothing else; "
	  "several",
	  take_domain, NULL },
	{ "network", 0, OPT_ARG, "WORD",
	  "none, allow (what --allowed-domain says), or open: public addresses [none; of 'ipybox "
	  "mcp' open]",
	  take_network, NULL },
	{ "print-config", 0, OPT_NO_ARG, NULL,
	  "print what a program that starts MCP servers is told, with the other options, and end",
	  take_print_config, NULL },
#define LIMIT(id, key, option, unit, def, min, max, doc) \
	{ option, 0, OPT_ARG, "N", doc, take_limit_##id, NULL },
#include "policy/limits.tbl"
#undef LIMIT
	CLIENT_ROWS,
};

/* --- the environment of the box ------------------------------------------------------------------- */

/* The later one of a name counts. */
static int add_env(struct bridge_opts *o, const char *text, struct err *e)
{
	size_t n = strcspn(text, "=") + 1;

	for (unsigned int i = 0; i < o->nenv; i++)
		if (strncmp(o->env[i], text, n) == 0) {
			o->env[i] = text;
			return 0;
		}
	if (o->nenv == BRIDGE_ENV_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d environment variables",
			       BRIDGE_ENV_MAX);
	o->env[o->nenv++] = text;
	return 0;
}

/* NAME=VALUE as in files of this kind: perhaps with "export" before, the value perhaps in quotes. */
static char *tidy(char *line)
{
	char *eq, *value;
	size_t n;

	line += strspn(line, " \t");
	if (strncmp(line, "export ", 7) == 0)
		line += 7 + strspn(line + 7, " \t");
	for (n = strlen(line); n > 0 && strchr(" \t\r", line[n - 1]) != NULL; n--)
		line[n - 1] = '\0';
	eq = strchr(line, '=');
	if (eq == NULL)
		return line;
	value = eq + 1;
	n = strlen(value);
	if (n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n - 1] == value[0]) {
		(void)memmove(value, value + 1, n - 2);
		value[n - 2] = '\0';
	}
	return line;
}

static int read_env_file(struct bridge_opts *o, struct err *e)
{
	static char text[ENV_FILE_MAX]; /* the variables lie in it */
	own_fd fd = open(o->env_file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char *line, *save = NULL;
	ssize_t n;

	n = fd < 0 ? -errno : io_read_full(fd, text, sizeof(text));
	if (n == sizeof(text))
		n = -EFBIG;
	if (n < 0)
		return err_set(e, ERR_INPUT, (int)-n, "read '%s'", o->env_file);
	text[n] = '\0';
	for (line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
		line = tidy(line);
		if (line[0] == '\0' || line[0] == '#')
			continue;
		if (strcspn(line, "=") == 0 || strchr(line, '=') == NULL)
			return err_set(e, ERR_INPUT, 0, "'%s' has a line that is not NAME=VALUE",
				       o->env_file);
		if (add_env(o, line, e) < 0)
			return -1;
	}
	return 0;
}

/* --- all of it ------------------------------------------------------------------------------------ */

static void help(void)
{
	(void)printf(
		"usage: glovebox mcp [options]\n\n"
		"An MCP server on standard input and output, for programs that start their "
		"servers themselves.\n"
		"Tools work in a box that is made when it is needed and ends with the program. "
		"Where no server\n"
		"runs, one is started for it. 'glovebox mcp --print-config' prints what to put "
		"into the\n"
		"configuration of such a program.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
	(void)printf(
		"\nexit status: 0 when standard input ends or a signal came; 125 when Glovebox "
		"itself failed or was\ncalled wrongly.\n");
}

int bridge_opts_take(struct bridge_opts *o, int argc, char **argv, struct err *e)
{
	bool made;
	int at;

	limits_init(&o->limits);
	at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, o, e);
	if (at < 0)
		return -1;
	if (o->o.help) {
		help();
		return 1;
	}
	if (at < argc) {
		(void)err_set(e, ERR_USAGE, 0, "'%s' is no option", argv[at]);
		return err_hint(e, "--help lists them");
	}
	if (o->env_file != NULL && read_env_file(o, e) < 0)
		return -1;
	for (unsigned int i = 0; i < o->nvars; i++)
		if (add_env(o, o->vars[i], e) < 0)
			return -1;
	made = o->nenv > 0 || o->nbinds > 0 || o->net.said ||
	       o->net.policy.nrules > 0; /* something is said about how */
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		made |= o->limit_set[i];
	if (net_words_check(&o->net, o->as_ipybox ? NET_OPEN : NET_NONE, e) < 0)
		return -1;
	if (o->box != NULL && made)
		return err_set(e, ERR_USAGE, 0,
			       "--box is a box that is there: it has its limits, environment, "
			       "directories and network already");
	return 0;
}
