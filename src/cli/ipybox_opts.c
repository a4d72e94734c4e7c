// SPDX-License-Identifier: Apache-2.0
/* The command lines of `glovebox ipybox`. Limits come from policy/limits.tbl. */
#include "cli/ipybox.h"

#include "base/own.h"
#include "base/str.h"
#include "cli/box_body.h"

#include <stdio.h>
#include <string.h>

/* --- a box on ports --------------------------------------------------------------------------------- */

static int take_port(const char *option, const char *v, uint64_t *ret, struct err *e)
{
	if (str_to_u64(v, UINT16_MAX, ret) < 0)
		return err_set(e, ERR_USAGE, 0, "--%s '%s' is no port (0: a free one)", option, v);
	return 0;
}

static int take_executor(void *ctx, const char *v, struct err *e)
{
	return take_port("executor-port", v, &((struct ipybox_opts *)ctx)->executor_port, e);
}

static int take_resource(void *ctx, const char *v, struct err *e)
{
	return take_port("resource-port", v, &((struct ipybox_opts *)ctx)->resource_port, e);
}

static int take_env(void *ctx, const char *v, struct err *e)
{
	struct ipybox_opts *q = ctx;

	if (strcspn(v, "=") == 0 || strchr(v, '=') == NULL)
		return err_set(e, ERR_USAGE, 0, "--env '%s' is not NAME=VALUE", v);
	if (q->nenv == IPYBOX_ENV_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d environment variables",
			       IPYBOX_ENV_MAX);
	q->env[q->nenv++] = v;
	return 0;
}

static int take_environment(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct ipybox_opts *)ctx)->environment = v;
	return 0;
}

static int take_bind(void *ctx, const char *v, struct err *e)
{
	struct ipybox_opts *q = ctx;

	if (box_bind_check("bind", v, e) < 0)
		return -1;
	if (q->nbinds == IPYBOX_BINDS_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d binds", IPYBOX_BINDS_MAX);
	q->binds[q->nbinds++] = v;
	return 0;
}

static int take_domain(void *ctx, const char *v, struct err *e)
{
	return net_words_rule(&((struct ipybox_opts *)ctx)->net, "allowed-domain", v, e);
}

static int take_network(void *ctx, const char *v, struct err *e)
{
	return net_words_mode(&((struct ipybox_opts *)ctx)->net, v, e);
}

/* As in run_opts.c: the row of an option has no other way to know its limit. */
#define LIMIT(id, key, option, unit, def, min, max, doc)                      \
	static int take_limit_##id(void *ctx, const char *v, struct err *e)   \
	{                                                                     \
		struct ipybox_opts *q = ctx;                                  \
                                                                              \
		q->limit_set[LIMIT_##id] = true;                              \
		return opt_limit(LIMIT_##id, v, &q->limits.v[LIMIT_##id], e); \
	}
#include "policy/limits.tbl"
#undef LIMIT

static const struct opt serve_rows[] = {
	{ "executor-port", 0, OPT_ARG, "PORT", "of its kernels, on 127.0.0.1; 0: a free one [8888]",
	  take_executor, NULL },
	{ "resource-port", 0, OPT_ARG, "PORT",
	  "of its files and modules, on 127.0.0.1; 0: a free one [8900]", take_resource, NULL },
	{ "environment", 0, OPT_ARG, "NAME", "what it is made of [the machine's own]",
	  take_environment, NULL },
	{ "env", 'e', OPT_ARG, "NAME=VALUE", "environment variable of the box", take_env, NULL },
	{ "bind", 'b', OPT_ARG, "DIR:PATH[:ro]",
	  "show a directory, made if it is missing, below /app; of another server's: "
	  "ROOT[//PATH]:PATH[:ro]",
	  take_bind, NULL },
	{ "allowed-domain", 0, OPT_ARG, "RULE",
	  "let code in the box reach pypi.org, *.pypi.org:443, 10.1.0.0/16, and nothing else; "
	  "several",
	  take_domain, NULL },
	{ "network", 0, OPT_ARG, "WORD",
	  "none, allow (what --allowed-domain says), or open: public addresses [open]",
	  take_network, NULL },
#define LIMIT(id, key, option, unit, def, min, max, doc) \
	{ option, 0, OPT_ARG, "N", doc, take_limit_##id, NULL },
#include "policy/limits.tbl"
#undef LIMIT
	CLIENT_JSON_ROW("one JSON object when it can be used: box, executor_port, resource_port"),
	CLIENT_ROWS,
};

static void serve_help(void)
{
	(void)printf("usage: glovebox ipybox [options]\n"
		     "       glovebox ipybox build [options]\n"
		     "       glovebox ipybox cleanup [options]\n"
		     "       glovebox ipybox mcp [options]\n\n"
		     "A box on two ports of this machine, until Ctrl-C: what ExecutionClient and "
		     "ResourceClient of\n"
		     "ipybox expect. Where no server runs, one is started for it. 'build', "
		     "'cleanup' and\n"
		     "'mcp' are those of ipybox; each has a --help.\n\n");
	opts_help(serve_rows, ARRAY_LEN(serve_rows), stdout);
	(void)printf(
		"\nexit status: 0; 125 when Glovebox itself failed, was called wrongly, or the "
		"box has gone.\n");
}

static int no_words(char **argv, int at, int argc, struct err *e)
{
	if (at >= argc)
		return 0;
	(void)err_set(e, ERR_USAGE, 0, "'%s' is no option", argv[at]);
	return err_hint(e, "--help lists them");
}

int ipybox_serve_opts(struct ipybox_opts *q, int argc, char **argv, struct err *e)
{
	int at;

	q->executor_port = 8888;
	q->resource_port = 8900;
	limits_init(&q->limits);
	at = opts_parse(serve_rows, ARRAY_LEN(serve_rows), argc, argv, q, e);
	if (at < 0)
		return -1;
	if (q->o.help) {
		serve_help();
		return 1;
	}
	return no_words(argv, at, argc, e) < 0 ? -1 : net_words_check(&q->net, NET_OPEN, e);
}

/* --- build ---------------------------------------------------------------------------------------- */

static int take_nothing(void *ctx, const char *v, struct err *e)
{
	(void)ctx, (void)v, (void)e;
	return 0;
}

static int take_tag(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct ipybox_build_opts *)ctx)->tag = v;
	return 0;
}

static int take_dependencies(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct ipybox_build_opts *)ctx)->dependencies = v;
	return 0;
}

static int take_root(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct ipybox_build_opts *)ctx)->root = true;
	return 0;
}

static const struct opt build_rows[] = {
	{ "tag", 't', OPT_ARG, "NAME", "of the environment [ipybox]", take_tag, NULL },
	{ "dependencies", 'd', OPT_ARG, "FILE",
	  "packages that it has: a requirement in quotes in each line, with a comma behind it",
	  take_dependencies, NULL },
	{ "root", 'r', OPT_NO_ARG, NULL, "taken as ipybox takes it", take_root, NULL },
	{ "help", 'h', OPT_NO_ARG, NULL, "this text", client_take_help, NULL },
};

int ipybox_build_opts(struct ipybox_build_opts *q, int argc, char **argv, struct err *e)
{
	int at = opts_parse(build_rows, ARRAY_LEN(build_rows), argc, argv, q, e);

	if (at < 0)
		return -1;
	if (q->o.help) {
		(void)printf(
			"usage: glovebox ipybox build [options] [-- OPTIONS of glovebox env "
			"build]\n\n"
			"What ipybox builds as an image is an environment here: packages beside "
			"those "
			"of this machine,\nbuilt in a box. 'glovebox env build' can do more.\n\n");
		opts_help(build_rows, ARRAY_LEN(build_rows), stdout);
		(void)printf("\nexit status: 0; others if it could not be built.\n");
		return 1;
	}
	q->more = argv + at;
	return strcmp(argv[at - 1], "--") == 0 ? 0 : no_words(argv, at, argc, e);
}

/* --- cleanup -------------------------------------------------------------------------------------- */

static const struct opt cleanup_rows[] = {
	{ "ancestor", 'a', OPT_ARG, "IMAGE",
	  "taken as ipybox takes it; boxes have no images, so it means all of them", take_nothing,
	  NULL },
	CLIENT_ROWS,
};

int ipybox_cleanup_opts(struct client_opts *o, int argc, char **argv, struct err *e)
{
	int at = opts_parse(cleanup_rows, ARRAY_LEN(cleanup_rows), argc, argv, o, e);

	if (at < 0)
		return -1;
	if (o->help) {
		(void)printf("usage: glovebox ipybox cleanup [options]\n\n"
			     "Ends the boxes that 'glovebox ipybox' made on a server and could not "
			     "end itself.\n\n");
		opts_help(cleanup_rows, ARRAY_LEN(cleanup_rows), stdout);
		(void)printf("\nexit status: 0; 1 if a box could not be ended; 125 when Glovebox "
			     "itself failed or was called\nwrongly.\n");
		return 1;
	}
	return no_words(argv, at, argc, e);
}
