// SPDX-License-Identifier: Apache-2.0
/* `glovebox fork`: boxes with the same variables and files. Who ends it before they are there has none. */
#include "cli/box_api.h"

#include "base/own.h"
#include "base/str.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include <errno.h>
#include <stdio.h>

enum { COUNT_MAX = 64 };

struct fork_opts {
	struct client_opts o; /* the first member, see there */
	const char *name;
	uint64_t count; /* 0: not said */
};

static int take_name(void *ctx, const char *v, struct err *e)
{
	(void)e;
	((struct fork_opts *)ctx)->name = v;
	return 0;
}

static int take_count(void *ctx, const char *v, struct err *e)
{
	struct fork_opts *f = ctx;

	if (str_to_u64(v, COUNT_MAX, &f->count) < 0 || f->count == 0)
		return err_set(e, ERR_USAGE, 0, "--count takes a number from 1 to %d, not '%s'",
			       COUNT_MAX, v);
	return 0;
}

/* clang-format off */
static const struct opt rows[] = {
	{ "count", 'n', OPT_ARG, "N", "how many, at most 64 [1]", take_count, NULL },
	{ "name", 0, OPT_ARG, "NAME", "of the new box; not with --count", take_name, NULL },
	CLIENT_JSON_ROW("the answer of the server, in one line"),
	CLIENT_ROWS,
};
/* clang-format on */

static void help(void)
{
	(void)printf(
		"usage: glovebox fork [options] BOX\n\n"
		"Makes a box, or several, with the same variables and files as BOX, and prints "
		"its id. From then on\nthey have nothing to do with each other. What a copy "
		"could not take along (threads, sockets,\nprocesses) is said on standard error. "
		"BOX is an id or name:NAME, and no cell of it runs.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
	(void)printf(
		"\nexit status: 0; 125 when there is no copy, or Glovebox was called wrongly.\n");
}

static void put_body(const struct fork_opts *f, struct json *j)
{
	json_init(j);
	json_open(j, NULL, '{');
	if (f->name != NULL)
		json_str(j, "name", f->name);
	if (f->count != 0)
		json_u64(j, "count", f->count);
	json_close(j, '}');
}

static void print_id(const struct jsonr *d, const struct jsonr_node *box)
{
	(void)printf("%s\n", node_str(d, box, "id"));
}

static int print(const struct fork_opts *f, const struct reply *r, struct err *e)
{
	const struct jsonr_node *root = reply_root(r), *many = jsonr_get(&r->doc, root, "boxes");
	struct json j;
	int rc = 0;

	if (f->o.json) {
		json_init(&j);
		json_open(&j, NULL, '{');
		api_put_members(&r->doc, root, &j);
		json_close(&j, '}');
		rc = api_print_json(&j);
	} else if (many == NULL) {
		print_id(&r->doc, root);
	} else {
		for (const struct jsonr_node *b = jsonr_first(&r->doc, many); b != NULL;
		     b = jsonr_next(&r->doc, b))
			print_id(&r->doc, b);
	}
	if (!f->o.json && fflush(stdout) != 0)
		rc = -errno;
	for (const struct jsonr_node *l = jsonr_first(&r->doc, jsonr_get(&r->doc, root, "lost"));
	     l != NULL && !f->o.json; l = jsonr_next(&r->doc, l))
		say("not in the copy: %s", l->type == JSONR_STRING ? l->string : "?");
	return rc < 0 ? err_set(e, ERR_SYS, -rc, "write to standard output") : 0;
}

static int fork_box(const struct fork_opts *f, struct client *c, const char *box, struct err *e)
{
	char path[BOX_PATH];
	struct json body;
	struct reply r;
	int rc;

	api_path(path, box, "/fork");
	put_body(f, &body);
	rc = api(c, "POST", path, &body, &r, e);
	json_done(&body);
	if (rc < 0)
		return -1;
	rc = print(f, &r, e);
	reply_free(&r);
	return rc;
}

int verb_fork(int argc, char **argv)
{
	static struct fork_opts f;
	struct client c;
	struct err e = { .kind = ERR_NONE };
	int at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, &f, &e), r;

	if (at < 0)
		return say_err(&e);
	if (f.o.help) {
		help();
		return 0;
	}
	if (argv[at] == NULL || argv[at + 1] != NULL) {
		(void)err_set(&e, ERR_USAGE, 0,
			      argv[at] == NULL ? "no box to fork" : "one box is forked at a time");
		(void)err_hint(&e, "'glovebox ps' lists them");
		return say_err(&e);
	}
	if (box_name_check(argv[at], &e) < 0 || api_open(&f.o, &c, &e) < 0)
		return say_err(&e);
	r = fork_box(&f, &c, argv[at], &e);
	client_done(&c);
	return r < 0 ? say_err(&e) : 0;
}
