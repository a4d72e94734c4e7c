// SPDX-License-Identifier: Apache-2.0
/* `glovebox env`: the verb, its commands, and what fills an environment. */
#include "cli/env.h"

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/opts.h"
#include "cli/say.h"
#include "cli/verbs.h"
#include "wire/json_text.h"
#include "wire/netrule.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>

enum { SAID_MAX = 64 * 1024, MORE = 96 };

/* --- options ---------------------------------------------------------------------------------- */

#define TEXT(name)                                                      \
	static int take_##name(void *ctx, const char *v, struct err *e) \
	{                                                               \
		(void)e;                                                \
		((struct env_opts *)ctx)->name = v;                     \
		return 0;                                               \
	}
#define FLAG(name)                                                      \
	static int take_##name(void *ctx, const char *v, struct err *e) \
	{                                                               \
		(void)v, (void)e;                                       \
		((struct env_opts *)ctx)->name = true;                  \
		return 0;                                               \
	}

TEXT(dir)
TEXT(requirements)
TEXT(python)
TEXT(index_url)
TEXT(find_links)
TEXT(resolver)
TEXT(missing)
TEXT(timeout)
TEXT(memory)
FLAG(help)
FLAG(json)
FLAG(isolated)
FLAG(no_index)

static int take_rule(void *ctx, const char *v, struct err *e)
{
	struct env_opts *o = ctx;
	struct net_rule rule;

	if (net_rule_read(v, &rule, e) < 0)
		return -1;
	if (o->nrules == ENV_RULES_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d rules", ENV_RULES_MAX);
	o->rules[o->nrules++] = v;
	return 0;
}

/* Names of modules: they are words of a page, and of a command line. */
static int take_imports(void *ctx, const char *v, struct err *e)
{
	if (strspn(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_. ") !=
		    strlen(v) ||
	    strlen(v) >= ENV_IMPORTS)
		return err_set(e, ERR_USAGE, 0, "--imports '%.64s' are no names of modules", v);
	((struct env_opts *)ctx)->imports = v;
	return 0;
}

static int take_pool(void *ctx, const char *v, struct err *e)
{
	uint64_t n;

	if (str_to_u64(v, 1024, &n) < 0)
		return err_set(e, ERR_USAGE, 0, "--pool '%s' is no number up to 1024", v);
	((struct env_opts *)ctx)->pool = (uint32_t)n;
	return 0;
}

static int take_bytes(void *ctx, const char *v, struct err *e)
{
	if (str_to_bytes(v, &((struct env_opts *)ctx)->bytes) < 0)
		return err_set(e, ERR_USAGE, 0, "--bytes '%s' is no size such as 20G", v);
	return 0;
}

#define ROW_DIR                                                                                \
	{ "dir",    0,   OPT_ARG, "DIR", "where environments are [GLOVEBOX_ENVIRONMENTS_DIR]", \
	  take_dir, NULL }
#define ROW_JSON { "json", 0, OPT_NO_ARG, NULL, "as JSON", take_json, NULL }
#define ROW_HELP { "help", 'h', OPT_NO_ARG, NULL, "this text", take_help, NULL }
#define ROWS_MAKE                                                                                     \
	{ "imports",                                                                                  \
	  0,                                                                                          \
	  OPT_ARG,                                                                                    \
	  "MODULES",                                                                                  \
	  "import these ahead, beside zygote_imports: 'torch sklearn.svm'",                           \
	  take_imports,                                                                               \
	  NULL },                                                                                     \
		{ "pool", 0, OPT_ARG, "N", "keep so many sessions ready [0]", take_pool, NULL },      \
		{ "bytes",    0,   OPT_ARG, "SIZE", "the most it may have on disk [10 GiB]",          \
		  take_bytes, NULL },                                                                 \
		{ "timeout", 0, OPT_ARG, "TIME", "how long that may take [1h]", take_timeout, NULL }, \
		{ "memory", 0, OPT_ARG, "SIZE", "and how much memory [4 GiB]", take_memory, NULL },   \
	{                                                                                             \
		"accept-missing", 0, OPT_ARG, "LAYER,..",                                             \
			"do it even if this machine lacks the layer", take_missing, NULL              \
	}

/* clang-format off */
static const struct opt build_rows[] = {
	{ "requirements", 'r', OPT_ARG, "FILE", "requirements, as pip has them", take_requirements, NULL },
	{ "python", 0, OPT_ARG, "PATH", "another Python of this machine's [/usr/bin/python3]", take_python, NULL },
	{ "isolated", 0, OPT_NO_ARG, NULL, "without the packages that the machine has", take_isolated, NULL },
	{ "find-links", 0, OPT_ARG, "DIR", "take wheels from there", take_find_links, NULL },
	{ "no-index", 0, OPT_NO_ARG, NULL, "and from nowhere else: no network", take_no_index, NULL },
	{ "index-url", 0, OPT_ARG, "URL", "another package index", take_index_url, NULL },
	{ "allow", 0, OPT_ARG, "RULE", "what building may reach besides, see `glovebox run --allow`", take_rule, NULL },
	{ "resolver", 0, OPT_ARG, "ADDR[:PORT],..", "servers for names [those of this machine]", take_resolver, NULL },
	ROWS_MAKE, ROW_DIR, ROW_HELP,
};
static const struct opt import_rows[] = { ROWS_MAKE, ROW_DIR, ROW_HELP };
static const struct opt list_rows[] = { ROW_JSON, ROW_DIR, ROW_HELP };
static const struct opt remove_rows[] = { ROW_DIR, ROW_HELP };
/* clang-format on */

/* --- making them ----------------------------------------------------------------------------- */

static int run_build(struct env_opts *o)
{
	struct stat st;

	if (o->find_links != NULL && (stat(o->find_links, &st) < 0 || !S_ISDIR(st.st_mode)))
		return env_bad(o->find_links, ENOTDIR);
	return env_make(o, ENV_PACKAGES, env_fill_packages);
}

static int run_import(struct env_opts *o)
{
	if (o->nwords != 1)
		return env_bad("name an image: an OCI layout, an archive, a directory, or '-'", 0);
	o->source = o->words[0];
	return env_make(o, ENV_ROOT, env_fill_root);
}

/* --- what there is ---------------------------------------------------------------------------- */

static void put_json(const struct env_row *r)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "name", r->name);
	json_str(&j, "kind", env_kind_str[r->kind]);
	if (r->python[0] != '\0')
		json_str(&j, "python", r->python);
	else
		json_null(&j, "python");
	json_str(&j, "python_version", r->version);
	json_bool(&j, "cells", r->cells);
	json_str(&j, "imports", r->imports);
	json_u64(&j, "pool", r->pool);
	json_u64(&j, "bytes", r->bytes);
	json_u64(&j, "made_ms", r->made_ms);
	json_str(&j, "tree", r->tree);
	json_open(&j, "variables", '[');
	for (const char *v = r->variables; v < r->variables + r->variables_len; v += strlen(v) + 1)
		json_str(&j, NULL, v);
	json_close(&j, ']');
	json_close(&j, '}');
	(void)printf("%.*s\n", (int)j.len, j.buf);
	json_done(&j);
}

static void put_line(const struct env_row *r)
{
	char size[32], when[32] = "";
	time_t t = (time_t)(r->made_ms / 1000);
	struct tm tm;

	if (localtime_r(&t, &tm) != NULL)
		(void)strftime(when, sizeof(when), "%F %R", &tm);
	(void)printf("%-24s %-9s %-9s %-6s %10s  %s\n", r->name, env_kind_str[r->kind],
		     r->version[0] != '\0' ? r->version : "-", r->cells ? "yes" : "no",
		     str_from_bytes(r->bytes, size, sizeof(size)), when);
}

static void put_page(const struct env_row *r)
{
	char size[32];

	(void)printf("name            %s\nkind            %s\n", r->name, env_kind_str[r->kind]);
	(void)printf("python          %s %s\n", r->python[0] != '\0' ? r->python : "none",
		     r->version);
	(void)printf("cells           %s\n", r->cells ? "yes" : "no: it has no IPython");
	(void)printf("imported ahead  %s\nsessions ready  %u\n", r->imports, r->pool);
	(void)printf("size            %s\ntree            %s\n",
		     str_from_bytes(r->bytes, size, sizeof(size)), r->tree);
	for (const char *v = r->variables; v < r->variables + r->variables_len; v += strlen(v) + 1)
		(void)printf("variable        %s\n", v);
}

static int no_such(const char *name)
{
	struct err e;

	(void)err_set(&e, ERR_INPUT, 0, "there is no environment '%.64s'", name);
	(void)err_hint(&e, "'glovebox env list' has them all");
	return say_err(&e);
}

/* Nothing is made by who only asks. */
static bool is_there(const char *dir)
{
	return access(dir, F_OK) == 0 || errno != ENOENT;
}

static int each(struct env_opts *o, const char *only, void (*show)(const struct env_row *r))
{
	static struct env_row row;
	char version[ENVDIR_VERSION], **names;
	struct envdir d = { .fd = -1 };
	bool found = false;
	struct err e;

	if (!is_there(o->dir))
		return only != NULL ? no_such(only) : 0;
	if (envdir_open(&d, o->dir, &e) < 0)
		return say_err(&e);
	names = envdir_names(&d);
	for (char **n = names; n != NULL && *n != NULL; n++) {
		if ((only != NULL && strcmp(only, *n) != 0) || envdir_version(&d, *n, version) < 0)
			continue;
		found = true;
		if (envdir_read(&d, version, &row, &e) < 0)
			(void)say_err(&e);
		else
			show(&row);
	}
	envdir_names_free(names);
	envdir_close(&d);
	return only == NULL || found ? 0 : no_such(only);
}

static int run_list(struct env_opts *o)
{
	if (!o->json)
		(void)printf("%-24s %-9s %-9s %-6s %10s  %s\n", "NAME", "KIND", "PYTHON", "CELLS",
			     "SIZE", "MADE");
	return each(o, NULL, o->json ? put_json : put_line);
}

static int run_show(struct env_opts *o)
{
	return each(o, o->name, o->json ? put_json : put_page);
}

static int run_remove(struct env_opts *o)
{
	struct envdir d = { .fd = -1 };
	struct err e;
	int status = 0;

	if (!is_there(o->dir))
		return no_such(o->name);
	if (envdir_open(&d, o->dir, &e) < 0)
		return say_err(&e);
	if (envdir_unlink(&d, o->name, &e) < 0)
		status = say_err(&e);
	for (unsigned int i = 0; i < o->nwords; i++)
		if (envdir_unlink(&d, o->words[i], &e) < 0)
			status = say_err(&e);
	if (envdir_sweep(&d) > 0)
		say("what boxes still show goes when the next environment is built or removed, or "
		    "the server starts");
	envdir_close(&d);
	return status;
}

/* --- the verb ----------------------------------------------------------------------------------- */

static const struct command {
	const char *name;
	int (*run)(struct env_opts *o);
	const struct opt *rows;
	unsigned int nrows;
	bool named;
	const char *usage, *doc;
} commands[] = {
	{ "build", run_build, build_rows, ARRAY_LEN(build_rows), true,
	  "NAME [-r FILE] [REQUIREMENT ...]", "packages beside the machine's own, in a box" },
	{ "import", run_import, import_rows, ARRAY_LEN(import_rows), true,
	  "NAME OCI-LAYOUT|ARCHIVE|DIRECTORY|-", "another root file system, from an image" },
	{ "list", run_list, list_rows, ARRAY_LEN(list_rows), false, "", "those that there are" },
	{ "show", run_show, list_rows, ARRAY_LEN(list_rows), true, "NAME", "one of them" },
	{ "remove", run_remove, remove_rows, ARRAY_LEN(remove_rows), true, "NAME ...",
	  "boxes that run keep theirs" },
};

static int usage(FILE *f, int status)
{
	(void)fputs(
		"usage: glovebox env COMMAND [options] ...\n\n"
		"What boxes can be made of beside the machine's own programs: `\"environment\": "
		"\"NAME\"` of POST /v1/boxes,\n"
		"`glovebox run --environment NAME`, a kernel of that name for Jupyter.\n\n",
		f);
	for (unsigned int i = 0; i < ARRAY_LEN(commands); i++)
		(void)fprintf(f, "  %-7s %-36s %s\n", commands[i].name, commands[i].usage,
			      commands[i].doc);
	(void)fputs("\n'glovebox env COMMAND --help' says more.\n", f);
	return status;
}

static int help(const struct command *c)
{
	(void)printf("usage: glovebox env %s [options] %s\n\n", c->name, c->usage);
	opts_help(c->rows, c->nrows, stdout);
	return 0;
}

/* Options may stand anywhere. */
static int read_line(const struct command *c, struct env_opts *o, int argc, char **argv,
		     struct err *e)
{
	for (int at = 0;;) {
		int n = opts_parse(c->rows, c->nrows, argc - at, argv + at, o, e);

		if (n < 0)
			return -1;
		at += n;
		if (at >= argc || o->help)
			return 0;
		if (c->named && o->name == NULL)
			o->name = argv[at];
		else if (o->nwords < ENV_REQUIREMENTS_MAX)
			o->words[o->nwords++] = argv[at];
		/* opts_parse() begins behind what it is given first. */
	}
}

int verb_env(int argc, char **argv)
{
	static struct env_opts o;
	static char dir[PATH_MAX];
	const struct command *c = NULL;
	struct err e;

	o.timeout = "1h";
	o.memory = "4G";
	o.bytes = ENV_BYTES_USUAL;
	for (unsigned int i = 0; argc > 1 && i < ARRAY_LEN(commands); i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			c = &commands[i];
	if (c == NULL)
		return argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
			       ? usage(stdout, 0)
			       : usage(stderr, EXIT_GLOVEBOX);
	if (read_line(c, &o, argc - 1, argv + 1, &e) < 0)
		return say_err(&e);
	if (o.help)
		return help(c);
	if (c->named && o.name == NULL)
		return env_bad("name an environment", 0);
	if (o.dir == NULL) {
		if (envdir_usual(dir, &e) < 0)
			return say_err(&e);
		o.dir = dir;
	}
	return c->run(&o);
}
