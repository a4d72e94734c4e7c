// SPDX-License-Identifier: Apache-2.0
/* `glovebox kill`: ends boxes. */
#include "cli/box_api.h"

#include "base/own.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include <stdio.h>
#include <string.h>

enum { END_TIMEOUT_MS = 60000, ROUNDS_MAX = 100 };

struct kill_opts {
	struct client_opts o; /* the first member, see there */
	bool all, force;
};

static int take_all(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct kill_opts *)ctx)->all = true;
	return 0;
}

static int take_force(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct kill_opts *)ctx)->force = true;
	return 0;
}

static const struct opt rows[] = {
	{ "all", 'a', OPT_NO_ARG, NULL, "all boxes of yours; asks first", take_all, NULL },
	{ "force", 'f', OPT_NO_ARG, NULL, "do not ask", take_force, NULL },
	CLIENT_JSON_ROW("one JSON object per box and line"),
	CLIENT_ROWS,
};

static void help(void)
{
	(void)printf("usage: glovebox kill [options] BOX...\n"
		     "       glovebox kill [options] --all\n\n"
		     "Ends boxes: everything in them is gone when it returns. BOX is an id or "
		     "name:NAME.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
	(void)printf(
		"\nexit status: 0; 1 if a box could not be ended; 125 when Glovebox itself failed "
		"or was called wrongly.\n");
}

/* 0: it is gone. 1: it was not there, or could not be ended. -1: e. */
static int end_box(const struct kill_opts *k, struct client *c, const char *box, struct err *e)
{
	char path[BOX_PATH];
	struct call q = { .method = "DELETE", .path = path, .timeout_ms = END_TIMEOUT_MS };
	struct reply r;
	struct json j;
	bool ended;
	int rc = 0;

	api_path(path, box, "%s", "");
	if (client_call(c, &q, &r, e) < 0)
		return -1;
	ended = r.status >= 200 && r.status < 300;
	if (!ended)
		(void)reply_refused(&r, e);
	if (k->o.json) {
		json_init(&j);
		json_open(&j, NULL, '{');
		json_str(&j, "box", box);
		json_bool(&j, "ended", ended);
		if (!ended)
			json_str(&j, "error", e->text);
		json_close(&j, '}');
		rc = api_print_json(&j);
	} else if (!ended) {
		say("%s: %s", box, e->text);
	}
	reply_free(&r);
	if (rc < 0)
		return err_set(e, ERR_SYS, -rc, "write to standard output");
	return ended ? 0 : 1;
}

/* --- all of them ---------------------------------------------------------------------------------- */

/* How many there are: *n, and whether that is all. */
static int count(struct client *c, size_t *n, bool *more, struct err *e)
{
	struct reply r;

	if (api(c, "GET", "/v1/boxes?limit=500", NULL, &r, e) < 0)
		return -1;
	*n = 0;
	for (const struct jsonr_node *b =
		     jsonr_first(&r.doc, jsonr_get(&r.doc, reply_root(&r), "boxes"));
	     b != NULL; b = jsonr_next(&r.doc, b))
		(*n)++;
	*more = node_str(&r.doc, reply_root(&r), "next")[0] != '\0';
	reply_free(&r);
	return 0;
}

static bool is_sure(size_t n, bool more)
{
	char line[16] = "";

	(void)fprintf(stderr, "End %zu%s box%s, with everything in %s? [y/N] ", n,
		      more ? " and more" : "", n == 1 && !more ? "" : "es",
		      n == 1 && !more ? "it" : "them");
	return fgets(line, sizeof(line), stdin) != NULL && (line[0] == 'y' || line[0] == 'Y');
}

/* A page at a time, as long as that helps. */
static int end_all(const struct kill_opts *k, struct client *c, struct err *e)
{
	bool any = true;
	int failed = 0;

	for (unsigned int round = 0; round < ROUNDS_MAX && any; round++) {
		struct reply r;

		if (api(c, "GET", "/v1/boxes?limit=500", NULL, &r, e) < 0)
			return -1;
		any = false;
		failed = 0;
		for (const struct jsonr_node *b =
			     jsonr_first(&r.doc, jsonr_get(&r.doc, reply_root(&r), "boxes"));
		     b != NULL; b = jsonr_next(&r.doc, b)) {
			const char *id = node_str(&r.doc, b, "id");
			int rc = box_name_check(id, e) < 0 ? 1 : end_box(k, c, id, e);

			if (rc < 0) {
				reply_free(&r);
				return -1;
			}
			failed += rc;
			any |= rc == 0;
		}
		reply_free(&r);
	}
	return failed > 0;
}

static int all(const struct kill_opts *k, struct client *c, struct err *e)
{
	bool more;
	size_t n;

	if (!k->force) {
		if (!isatty(STDIN_FILENO)) {
			(void)err_set(e, ERR_USAGE, 0, "--all asks first, and nobody can answer");
			return err_hint(e, "-f does not ask");
		}
		if (count(c, &n, &more, e) < 0)
			return -1;
		if (n == 0)
			return 0;
		if (!is_sure(n, more))
			return 1;
	}
	return end_all(k, c, e);
}

static int named(const struct kill_opts *k, struct client *c, char **boxes, struct err *e)
{
	int failed = 0;

	for (; *boxes != NULL; boxes++) {
		int r = end_box(k, c, *boxes, e);

		if (r < 0)
			return -1;
		failed += r;
	}
	return failed > 0;
}

static int check(const struct kill_opts *k, char **boxes, struct err *e)
{
	if (k->all && *boxes != NULL)
		return err_set(e, ERR_USAGE, 0, "--all and '%s' exclude each other", *boxes);
	if (!k->all && *boxes == NULL) {
		(void)err_set(e, ERR_USAGE, 0, "no box to end");
		return err_hint(e, "'glovebox ps' lists them");
	}
	for (; *boxes != NULL; boxes++)
		if (box_name_check(*boxes, e) < 0)
			return -1;
	return 0;
}

int verb_kill(int argc, char **argv)
{
	static struct kill_opts k;
	struct client c;
	struct err e = { .kind = ERR_NONE };
	int at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, &k, &e), r;

	if (at < 0)
		return say_err(&e);
	if (k.o.help) {
		help();
		return 0;
	}
	if (check(&k, argv + at, &e) < 0 || api_open(&k.o, &c, &e) < 0)
		return say_err(&e);
	r = k.all ? all(&k, &c, &e) : named(&k, &c, argv + at, &e);
	client_done(&c);
	return r < 0 ? say_err(&e) : r;
}
