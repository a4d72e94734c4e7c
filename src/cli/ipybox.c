// SPDX-License-Identifier: Apache-2.0
/* `glovebox ipybox`: the verb, and the commands of ipybox that it has. */
#include "cli/ipybox.h"

#include "base/own.h"
#include "cli/box_api.h"
#include "cli/say.h"
#include "cli/verbs.h"

#include <string.h>

enum { PAGE = 100, ROUNDS_MAX = 100 };

static int serve(int argc, char **argv)
{
	static struct ipybox_opts q;
	struct err e;
	int r = ipybox_serve_opts(&q, argc, argv, &e);

	if (r == 0)
		r = ipybox_serve(&q, &e);
	return r < 0 ? say_err(&e) : 0;
}

static int build(int argc, char **argv)
{
	struct ipybox_build_opts q = { .tag = NULL };
	struct err e;
	int r = ipybox_build_opts(&q, argc, argv, &e);

	if (r > 0)
		return 0;
	if (r == 0)
		r = ipybox_build(&q, &e);
	return r < 0 ? say_err(&e) : r;
}

/* --- cleanup -------------------------------------------------------------------------------------- */

/* One page of them. How many could be ended is added up; -1: e. */
static int end_some(struct client *c, unsigned int *ended, unsigned int *failed, struct err *e)
{
	const struct jsonr_node *b;
	char path[BOX_PATH];
	struct reply r;
	int rc = 0;

	(void)snprintf(path, sizeof(path), "/v1/boxes?limit=%d&metadata.%s=%s", PAGE, IPYBOX_MARK);
	if (api(c, "GET", path, NULL, &r, e) < 0)
		return -1;
	*failed = 0;
	b = jsonr_first(&r.doc, jsonr_get(&r.doc, reply_root(&r), "boxes"));
	for (; b != NULL && rc == 0; b = jsonr_next(&r.doc, b)) {
		const char *id = node_str(&r.doc, b, "id");
		struct reply gone;

		api_path(path, id, "%s", "");
		if (box_name_check(id, e) < 0)
			rc = -1;
		else if (api(c, "DELETE", path, NULL, &gone, e) == 0)
			reply_free(&gone);
		else if (c->status == 0)
			rc = -1;
		if (rc == 0 && (c->status < 300 || api_is_gone(c)))
			(*ended)++;
		else if (rc == 0) {
			say("%s: %s", id, e->text);
			(*failed)++;
		}
	}
	reply_free(&r);
	return rc;
}

static int cleanup(int argc, char **argv)
{
	unsigned int ended = 0, before = 1, failed = 0;
	struct client_opts o = { 0 };
	struct client c;
	bool nobody;
	struct err e;
	int r = ipybox_cleanup_opts(&o, argc, argv, &e);

	if (r != 0)
		return r < 0 ? say_err(&e) : 0;
	if (client_find(&o, &c, &nobody, &e) < 0) {
		if (!nobody)
			return say_err(&e);
		say("no server runs here: there is nothing to end");
		return 0;
	}
	/* As long as that helps. */
	for (unsigned int i = 0; i < ROUNDS_MAX && r == 0 && ended != before; i++) {
		before = ended;
		r = end_some(&c, &ended, &failed, &e);
	}
	client_done(&c);
	if (r < 0)
		return say_err(&e);
	say("%u box%s ended", ended, ended == 1 ? "" : "es");
	return failed > 0 ? 1 : 0;
}

/* --- the verb ------------------------------------------------------------------------------------- */

int verb_ipybox(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int argc, char **argv);
	} commands[] = { { "build", build }, { "cleanup", cleanup }, { "mcp", ipybox_mcp } };

	for (unsigned int i = 0; i < ARRAY_LEN(commands) && argc > 1; i++)
		if (strcmp(argv[1], commands[i].name) == 0)
			return commands[i].run(argc - 1, argv + 1);
	return serve(argc, argv);
}
