// SPDX-License-Identifier: Apache-2.0
/*
 * The command line of `glovebox run`. Every option is a row; limits come from policy/limits.tbl.
 */
#include "cli/opts.h"
#include "cli/run.h"

#include "base/layers.h"
#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int take_help(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct run_request *)ctx)->help = true;
	return 0;
}

static int take_shell(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct run_request *)ctx)->shell = true;
	return 0;
}

static int take_tty(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct run_request *)ctx)->tty = true;
	return 0;
}

static int take_json(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct run_request *)ctx)->json = true;
	return 0;
}

static int take_root(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct run_request *)ctx)->box.flags |= BOX_ROOT_USER;
	return 0;
}

static int take_code(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct run_request *)ctx)->code = v;
	return 0;
}

static int take_interpreter(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct run_request *)ctx)->interpreter = v;
	return 0;
}

static int take_stdin(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct run_request *)ctx)->stdin_file = v != NULL ? v : "";
	return 0;
}

static int take_out(void *ctx, const char *v, struct err *e)
{
	if (*v == '\0')
		return err_set(e, ERR_USAGE, 0, "--out needs the name of a directory");
	((struct run_request *)ctx)->out_dir = v;
	return 0;
}

static int take_cgroup(void *ctx, const char *v, struct err *e)
{
	if (v[0] != '/')
		return err_set(e, ERR_USAGE, 0, "--cgroup '%s' is no absolute path", v);
	((struct run_request *)ctx)->cgroup = v;
	return 0;
}

static int take_timeout(void *ctx, const char *v, struct err *e)
{
	struct run_request *q = ctx;
	int r = str_to_duration_us(v, &q->timeout_us);

	if (r < 0 || q->timeout_us > 365ULL * 86400 * 1000000)
		return err_set(e, ERR_USAGE, 0,
			       "--timeout '%s' is no duration such as 10, 500ms, 2m (0: none)", v);
	return 0;
}

static int take_env(void *ctx, const char *v, struct err *e)
{
	struct run_request *q = ctx;
	const char *eq = strchr(v, '=');
	char *own = NULL;

	if (eq == v || *v == '\0')
		return err_set(e, ERR_USAGE, 0, "--env '%s' has no name", v);
	if (q->nenv >= RUN_ENV_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d environment variables", RUN_ENV_MAX);
	if (eq == NULL) {
		const char *value = getenv(v);

		if (value == NULL)
			return err_set(e, ERR_USAGE, 0,
				       "--env '%s': there is no such variable here", v);
		if (asprintf(&own, "%s=%s", v, value) < 0)
			return err_set(e, ERR_SYS, ENOMEM, "keep a variable");
		v = own;
	}
	q->env[q->nenv++] = v; /* lives as long as the process */
	return 0;
}

static int take_missing(void *ctx, const char *v, struct err *e)
{
	struct run_request *q = ctx;
	char list[512], *save = NULL;

	(void)snprintf(list, sizeof(list), "%s", v);
	for (char *name = strtok_r(list, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		int layer = layer_find(name);

		if (layer < 0) {
			(void)err_set(e, ERR_USAGE, 0, "there is no layer '%s'", name);
			return err_hint(e, "'glovebox doctor' lists the layers");
		}
		if (layer_row((enum layer)layer)->need == LAYER_ALWAYS)
			return err_set(e, ERR_USAGE, 0, "no box is made without the layer '%s'",
				       name);
		q->box.waived |= LAYER_BIT(layer);
	}
	return 0;
}

/* SRC[:DEST] of --file */
static int take_file(void *ctx, const char *v, struct err *e)
{
	struct run_request *q = ctx;
	struct run_file *f = &q->files[q->nfiles];
	const char *colon = strrchr(v, ':'), *base;
	struct stat st;

	if (q->nfiles >= RUN_FILES_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d files", RUN_FILES_MAX);
	if (strlen(v) >= PATH_MAX)
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "--file");
	(void)snprintf(f->host, sizeof(f->host), "%.*s",
		       colon != NULL ? (int)(colon - v) : (int)strlen(v), v);
	base = strrchr(f->host, '/');
	(void)snprintf(f->box, sizeof(f->box), "%s",
		       colon != NULL  ? colon + 1
		       : base != NULL ? base + 1
				      : f->host);
	if (!path_is_plain(f->box))
		return err_set(e, ERR_USAGE, 0, "--file '%s': '%s' is no path below the workspace",
			       v, f->box);
	if (stat(f->host, &st) < 0)
		return err_set(e, ERR_INPUT, errno, "--file '%s'", f->host);
	if (!S_ISREG(st.st_mode)) {
		(void)err_set(e, ERR_INPUT, 0, "--file '%s' is no regular file", f->host);
		return err_hint(e, "a directory can be shown by --mount");
	}
	f->mode = st.st_mode & 0777;
	q->nfiles++;
	return 0;
}

static int take_mount_root(void *ctx, const char *v, struct err *e)
{
	struct run_request *q = ctx;
	char *real = realpath(v, NULL);

	if (real == NULL)
		return err_set(e, ERR_INPUT, errno, "--mount-root '%s'", v);
	if (q->nroots >= RUN_ROOTS_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d mount roots", RUN_ROOTS_MAX);
	q->roots[q->nroots++] = real; /* lives as long as the process */
	return 0;
}

static int take_mount(void *ctx, const char *v, struct err *e)
{
	struct run_request *q = ctx;

	if (q->nmounts >= BOX_MOUNTS_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d mounts", BOX_MOUNTS_MAX);
	q->mounts[q->nmounts++] = v;
	return 0;
}

static int set_limit(struct run_request *q, enum limit_id id, const char *v, struct err *e)
{
	return opt_limit(id, v, &q->box.limits.v[id], e);
}

/* One small function per limit: the row of an option has no other way to know its limit. */
#define LIMIT(id, key, option, unit, def, min, max, doc)                    \
	static int take_limit_##id(void *ctx, const char *v, struct err *e) \
	{                                                                   \
		return set_limit(ctx, LIMIT_##id, v, e);                    \
	}
#include "policy/limits.tbl"
#undef LIMIT

static void more_limit(const struct opt *o, FILE *f)
{
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++) {
		const struct limit_row *row = limit_row((enum limit_id)i);
		char def[32];

		if (strcmp(row->option, o->name) == 0)
			(void)fprintf(f, " [%s]",
				      row->def == 0 ? "none"
						    : limit_format((enum limit_id)i, row->def, def,
								   sizeof(def)));
	}
}

static int take_network(void *arg, const char *v, struct err *e)
{
	return net_words_mode(&((struct run_request *)arg)->net, v, e);
}

/* As in policy/limits.tbl: a number, perhaps with K, M, G. */
static int take_net_bytes(void *arg, const char *v, struct err *e)
{
	uint64_t *ret = &((struct run_request *)arg)->net.policy.bounds.bytes;

	if (str_to_bytes(v, ret) < 0 || *ret > INT64_MAX)
		return err_set(e, ERR_USAGE, 0, "--network-bytes '%s' is no size", v);
	return 0;
}

static int take_net_rate(void *arg, const char *v, struct err *e)
{
	uint64_t *ret = &((struct run_request *)arg)->net.policy.bounds.rate;

	if (str_to_bytes(v, ret) < 0 || *ret > NET_RATE_MAX || (*ret != 0 && *ret < NET_RATE_MIN))
		return err_set(e, ERR_USAGE, 0,
			       "--network-rate '%s' is no number of bytes a second from %d on", v,
			       NET_RATE_MIN);
	return 0;
}

static int take_allow(void *arg, const char *v, struct err *e)
{
	return net_words_rule(&((struct run_request *)arg)->net, "allow", v, e);
}

static int take_environment(void *arg, const char *v, struct err *e)
{
	(void)e;
	((struct run_request *)arg)->environment = v;
	return 0;
}

static int take_environments_dir(void *arg, const char *v, struct err *e)
{
	(void)e;
	((struct run_request *)arg)->environments_dir = v;
	return 0;
}

static int take_resolver(void *arg, const char *v, struct err *e)
{
	struct run_request *q = arg;

	(void)e;
	q->resolver = v;
	return 0;
}

static const struct opt rows[] = {
	{ "code", 'c', OPT_ARG, "CODE", "run this text instead of a file", take_code, NULL },
	{ "shell", 's', OPT_NO_ARG, NULL, "it is a shell script (bash), not Python", take_shell,
	  NULL },
	{ "interpreter", 0, OPT_ARG, "PATH", "program of the box that runs it [/usr/bin/python3]",
	  take_interpreter, NULL },
	{ "stdin", 'i', OPT_MAYBE_ARG, "FILE", "give the program our standard input, or a file",
	  take_stdin, NULL },
	{ "tty", 't', OPT_NO_ARG, NULL, "give the program a terminal, connected to ours", take_tty,
	  NULL },
	{ "timeout", 0, OPT_ARG, "TIME", "wall-clock limit: 10, 500ms, 2m; 0: none [120 s]",
	  take_timeout, NULL },
#define LIMIT(id, key, option, unit, def, min, max, doc) \
	{ option, 0, OPT_ARG, "N", doc, take_limit_##id, more_limit },
#include "policy/limits.tbl"
#undef LIMIT
	{ "env", 'e', OPT_ARG, "NAME[=VALUE]", "environment variable; without value: the caller's",
	  take_env, NULL },
	{ "file", 'f', OPT_ARG, "SRC[:DEST]", "copy a file into the workspace", take_file, NULL },
	{ "mount", 'm', OPT_ARG, "SRC[:AT][:rw]",
	  "show a directory of the host, read-only unless rw [/mnt/NAME]", take_mount, NULL },
	{ "mount-root", 0, OPT_ARG, "DIR",
	  "allow mounts from below DIR [the current and the home directory]", take_mount_root,
	  NULL },
	{ "environment", 0, OPT_ARG, "NAME",
	  "what it is made of: one of 'glovebox env list' [the machine's own]", take_environment,
	  NULL },
	{ "environments-dir", 0, OPT_ARG, "DIR", "where those are [GLOVEBOX_ENVIRONMENTS_DIR]",
	  take_environments_dir, NULL },
	{ "out", 'o', OPT_ARG, "DIR", "collect new and changed files of the workspace into DIR",
	  take_out, NULL },
	{ "root", 0, OPT_NO_ARG, NULL, "run as uid 0 of the box (no capability comes with it)",
	  take_root, NULL },
	{ "json", 0, OPT_NO_ARG, NULL, "one JSON object on stdout, with output and figures",
	  take_json, NULL },
	{ "network", 0, OPT_ARG, "WORD",
	  "none, allow (what --allow says), open: public addresses, or learn: the same, and say "
	  "what rules it would need [none]",
	  take_network, NULL },
	{ "network-bytes", 0, OPT_ARG, "SIZE", "what it may send and receive in all [no limit]",
	  take_net_bytes, NULL },
	{ "network-rate", 0, OPT_ARG, "SIZE",
	  "what it may send, and receive, in a second [no limit]", take_net_rate, NULL },
	{ "allow", 0, OPT_ARG, "RULE",
	  "let it reach pypi.org, *.pypi.org:443, 10.1.0.0/16, [2001:db8::]/32; !RULE denies",
	  take_allow, NULL },
	{ "resolver", 0, OPT_ARG, "ADDR[:PORT],..", "servers for names [those of this machine]",
	  take_resolver, NULL },
	{ "accept-missing", 0, OPT_ARG, "LAYER,..",
	  "make a box even if this machine lacks the layer", take_missing, NULL },
	{ "cgroup", 0, OPT_ARG, "DIR", "cgroup v2 directory to make boxes in", take_cgroup, NULL },
	{ "help", 'h', OPT_NO_ARG, NULL, "this text", take_help, NULL },
};

static void help(void)
{
	(void)printf("usage: glovebox run [options] FILE|- [argument ...]\n"
		     "       glovebox run [options] -c CODE [argument ...]\n\n"
		     "Runs a Python (or, with --shell, a shell) program in a fresh sealed box: no "
		     "network unless it is\n"
		     "allowed, no file of this machine but its programs, limits on everything. "
		     "Output is shown as "
		     "it comes.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
	(void)printf("\nexit status: the program's; 128+N when signal N ended it; 124 when its "
		     "time was over;\n"
		     "137 when it ran out of memory; 125 when Glovebox itself failed or was called "
		     "wrongly.\n");
}

/* A directory named on the command line, as an index of a root and the path below it. */
static int resolve_mount(struct run_request *q, const char *text, struct err *e)
{
	struct box_mount *m = &q->box.mounts[q->box.nmounts];
	char copy[PATH_MAX + 300], *at = NULL, *mode;
	own_free char *real = NULL;

	if (strlen(text) >= sizeof(copy))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "--mount");
	(void)snprintf(copy, sizeof(copy), "%s", text);
	m->read_only = true;
	mode = strrchr(copy, ':');
	if (mode != NULL && (strcmp(mode, ":rw") == 0 || strcmp(mode, ":ro") == 0)) {
		m->read_only = mode[2] == 'o';
		*mode = '\0';
	}
	at = strchr(copy, ':');
	if (at != NULL)
		*at++ = '\0';
	real = realpath(copy, NULL);
	if (real == NULL)
		return err_set(e, ERR_INPUT, errno, "--mount '%s'", copy);
	if (at != NULL)
		(void)snprintf(m->at, sizeof(m->at), "%s", at);
	else
		(void)snprintf(m->at, sizeof(m->at), "/mnt/%s", strrchr(real, '/') + 1);
	if (!path_is_plain_abs(m->at))
		return err_set(e, ERR_USAGE, 0, "--mount '%s': '%s' is no absolute path", text,
			       m->at);
	for (unsigned int i = 0; i < q->nroots; i++) {
		size_t n = strlen(q->roots[i]);

		if (strncmp(real, q->roots[i], n) != 0 || (real[n] != '/' && real[n] != '\0'))
			continue;
		m->root = (uint16_t)i;
		(void)snprintf(m->path, sizeof(m->path), "%s", real[n] == '/' ? real + n + 1 : "");
		q->box.nmounts++;
		return 0;
	}
	/* Where a link leads may have been chosen by an earlier box: no command to copy then. */
	if (strstr(real, copy) == NULL && copy[0] == '/')
		return err_set(
			e, ERR_INPUT, 0,
			"mount '%s' leads to '%s', outside the directories that may be mounted",
			copy, real);
	(void)err_set(e, ERR_INPUT, 0,
		      "mount '%s' lies outside the directories that may be mounted", real);
	return err_hint(e, "allow it with --mount-root %s", real);
}

static int resolve_mounts(struct run_request *q, struct err *e)
{
	const char *home = getenv("HOME");
	struct err ignored;

	if (q->nmounts == 0)
		return 0;
	if (q->nroots == 0) {
		(void)take_mount_root(q, ".", &ignored);
		if (home != NULL && home[0] == '/' && home[1] != '\0')
			(void)take_mount_root(q, home, &ignored);
	}
	for (unsigned int i = 0; i < q->nmounts; i++)
		if (resolve_mount(q, q->mounts[i], e) < 0)
			return -1;
	return 0;
}

int run_opts(struct run_request *q, int argc, char **argv, struct err *e)
{
	int at;

	limits_init(&q->box.limits);
	q->timeout_us = 120 * 1000000ULL;
	at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, q, e);
	if (at < 0)
		return -1;
	if (q->help) {
		help();
		return 0;
	}
	if (q->code == NULL) {
		if (at >= argc) {
			(void)err_set(e, ERR_USAGE, 0, "no program to run");
			return err_hint(e, "name a file, '-' for standard input, or -c CODE");
		}
		q->source = argv[at++];
	}
	q->args = argv + at;
	if (q->source != NULL && strcmp(q->source, "-") == 0 && q->stdin_file != NULL &&
	    *q->stdin_file == '\0')
		return err_set(e, ERR_USAGE, 0,
			       "standard input cannot be the program and its input at once");
	if (q->tty && (q->json || q->stdin_file != NULL))
		return err_set(e, ERR_USAGE, 0, "--tty does not go with --json or --stdin");
	if (q->json)
		q->box.flags |= BOX_HEARD;
	if (net_words_check(&q->net, NET_NONE, e) < 0)
		return -1;
	if (q->net.policy.mode != NET_NONE)
		q->box.flags |= BOX_NETWORK;
	return resolve_mounts(q, e);
}
