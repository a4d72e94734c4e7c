// SPDX-License-Identifier: Apache-2.0
/*
 * `glovebox logs`: what cells and commands of a box have said so far, and with -f what they say from now on.
 *
 * One that has ended, and one that is followed, is told by its events, in their order. Of one that runs and is not
 * followed the answer is taken, which has its streams one after the other.
 */
#include "cli/box_api.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/follow.h"
#include "cli/say.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "cli/wake.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	TASKS_MAX = 1024, /* of a box, at once; it holds some hundreds at most */
	FOLLOWED_MAX = 64,
	LOOK_MS = 500, /* how often to look for new ones */
	KINDS = 2,
};

static const struct {
	const char *one, *list;
} kinds[KINDS] = { { "cell", "cells" }, { "command", "commands" } };

struct task {
	struct task *next; /* the later ones */
	char id[FOLLOW_ID], summary[80], status[16], started[40];
	unsigned int kind;
	bool ended, told, is_text;
	bool listed; /* the server still has it */
	struct logs *l;
	struct follow *f; /* being followed; NULL: not, or not any more */
};

struct logs {
	struct client_opts o; /* the first member, see there */
	bool follow;
	const char *box, *id; /* id: NULL for all */
	struct client c, events;
	struct show show;
	struct task *tasks;
	const struct task *last; /* whose words came last */
	unsigned int ntasks, nfollowed;
};

static int take_follow(void *ctx, const char *v, struct err *e)
{
	(void)v, (void)e;
	((struct logs *)ctx)->follow = true;
	return 0;
}

static const struct opt rows[] = {
	{ "follow", 'f', OPT_NO_ARG, NULL,
	  "go on as long as something comes; without an id, until the box ends", take_follow,
	  NULL },
	CLIENT_JSON_ROW("one JSON object per cell or command and line; with -f one per event"),
	CLIENT_ROWS,
};

static void help(void)
{
	(void)printf(
		"usage: glovebox logs [options] BOX [ID]\n\n"
		"What the cells and commands of a box have said, or the one of that id, as far "
		"as the server\n"
		"holds it. BOX is an id or name:NAME.\n\n");
	opts_help(rows, ARRAY_LEN(rows), stdout);
}

/* --- words of one --------------------------------------------------------------------------------- */

/* Whose words these are, where there are several. */
static void put_title(struct logs *l, const struct task *t)
{
	char text[160];

	if (l->id != NULL || l->o.json || l->last == t)
		return;
	(void)snprintf(text, sizeof(text), "==> %s %s: %s", kinds[t->kind].one, t->id, t->summary);
	say_harmless(text);
	show_end(&l->show);
	show_line(&l->show, "%s", text);
	l->last = t;
}

static int print_event(const struct follow_event *e)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "event", e->name);
	api_put_members(e->doc, e->data, &j);
	json_close(&j, '}');
	return api_print_json(&j);
}

static int on_event(void *arg, const struct follow_event *e)
{
	struct task *t = arg;
	struct logs *l = t->l;

	if (l->o.json) {
		if (e->data != NULL)
			l->show.error = print_event(e);
		return l->show.error;
	}
	if (strcmp(e->name, "start") == 0 || strcmp(e->name, "input") == 0 ||
	    strcmp(e->name, "comm") == 0 || strcmp(e->name, "end") == 0)
		return 0;
	put_title(l, t);
	l->show.is_text = t->is_text;
	show_event(&l->show, e);
	return l->show.error;
}

/* Text is text, unless who started it wanted bytes; a server that does not say has text. */
static void take_encoding(struct task *t, const struct reply *r)
{
	t->is_text = strcmp(node_str(&r->doc, reply_root(r), "output_encoding"), "base64") != 0;
}

/* Both streams, one after the other, and results. */
static void show_answer(struct logs *l, struct task *t, const struct reply *r)
{
	static const char *const streams[] = { "stdout", "stderr" };
	const struct jsonr_node *root = reply_root(r);

	l->show.is_text = t->is_text;
	for (int i = 0; i < 2; i++) {
		const struct jsonr_node *n = jsonr_get(&r->doc, root, streams[i]);

		if (n == NULL || n->type != JSONR_STRING || n->len == 0)
			continue;
		put_title(l, t);
		show_stream(&l->show, n, i);
	}
	for (const struct jsonr_node *n = jsonr_first(&r->doc, jsonr_get(&r->doc, root, "results"));
	     n != NULL; n = jsonr_next(&r->doc, n)) {
		struct follow_event e = { .name = node_str(&r->doc, n, "type"),
					  .doc = &r->doc,
					  .data = n };

		(void)on_event(t, &e);
	}
}

static int print_answer(const struct reply *r, unsigned int kind)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "kind", kinds[kind].one);
	api_put_members(&r->doc, reply_root(r), &j);
	json_close(&j, '}');
	return api_print_json(&j);
}

static int start_following(struct logs *l, struct task *t, struct err *e)
{
	char path[BOX_PATH];

	t->f = malloc(sizeof(*t->f));
	if (t->f == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "follow '%s'", t->id);
	api_path(path, l->box, "/%s", kinds[t->kind].list);
	follow_run(t->f, &l->events, path, t->id, 0);
	t->f->event = on_event;
	t->f->arg = t;
	l->nfollowed++;
	return 0;
}

static void stop_following(struct logs *l, struct task *t)
{
	if (t->f == NULL)
		return;
	follow_done(t->f);
	free(t->f);
	t->f = NULL;
	l->nfollowed--;
}

/* All that one says, to its end. */
static int follow_to_end(struct logs *l, struct task *t, struct err *e)
{
	int r = start_following(l, t, e) < 0 ? -1 : 1;

	while (r > 0) {
		struct pollfd p[2] = { { .fd = follow_fd(t->f), .events = POLLIN },
				       { .fd = wake_fd(), .events = POLLIN } };

		(void)poll(p, 2, follow_wait_ms(t->f, -1));
		if (wake_end() != 0)
			r = err_set(e, ERR_SYS, EINTR, "follow '%s'", t->id);
		else
			r = follow_turn(t->f, e);
	}
	if (r < 0 && l->id == NULL && t->f != NULL && t->f->not_held)
		r = 0; /* it went while we looked */
	stop_following(l, t);
	return r;
}

/* One, as far as it is. */
static int tell(struct logs *l, struct task *t, struct err *e)
{
	char path[BOX_PATH];
	struct reply r;

	t->told = true;
	api_path(path, l->box, "/%s/%s", kinds[t->kind].list, t->id);
	if (api(&l->c, "GET", path, NULL, &r, e) < 0)
		return api_is_gone(&l->c) ? 0 : -1; /* it is not held any more */
	take_encoding(t, &r);
	t->ended = node_str(&r.doc, reply_root(&r), "ended_at")[0] != '\0';
	if (l->o.json && !l->follow)
		l->show.error = print_answer(&r, t->kind);
	else if (!t->ended && !l->follow)
		show_answer(l, t, &r);
	reply_free(&r);
	if (!t->ended || (l->o.json && !l->follow))
		return 0;
	return follow_to_end(l, t, e);
}

/* --- which there are ------------------------------------------------------------------------------ */

static struct task *find(struct logs *l, const char *id)
{
	for (struct task *t = l->tasks; t != NULL; t = t->next)
		if (strcmp(t->id, id) == 0)
			return t;
	return NULL;
}

/* In the order in which they began; those that wait are the last. */
static void insert(struct logs *l, struct task *t)
{
	struct task **at = &l->tasks;

	while (*at != NULL && (t->started[0] == '\0' || ((*at)->started[0] != '\0' &&
							 strcmp((*at)->started, t->started) <= 0)))
		at = &(*at)->next;
	t->next = *at;
	*at = t;
	l->ntasks++;
}

static void take_task(struct logs *l, const struct reply *r, const struct jsonr_node *n,
		      unsigned int kind)
{
	const char *id = node_str(&r->doc, n, "id"), *summary = node_str(&r->doc, n, "summary");
	struct task *t = follow_is_id(id) ? find(l, id) : NULL;

	if (!follow_is_id(id) || (t == NULL && l->ntasks == TASKS_MAX))
		return;
	if (t == NULL) {
		t = calloc(1, sizeof(*t));
		if (t == NULL)
			return;
		t->l = l;
		t->kind = kind;
		(void)snprintf(t->id, sizeof(t->id), "%s", id);
		(void)snprintf(t->started, sizeof(t->started), "%s",
			       node_str(&r->doc, n, "started_at"));
		(void)snprintf(t->summary, sizeof(t->summary), "%.*s",
			       (int)jsonr_cut(summary, strlen(summary), sizeof(t->summary) - 1),
			       summary);
		insert(l, t);
	}
	t->listed = true;
	t->ended = node_str(&r->doc, n, "ended_at")[0] != '\0';
}

/* Those that the server has forgotten, so that there is room for new ones. */
static void forget_unlisted(struct logs *l)
{
	struct task **at = &l->tasks;

	while (*at != NULL) {
		struct task *t = *at;

		if (t->listed || !t->told || t->f != NULL) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		l->last = l->last == t ? NULL : l->last;
		l->ntasks--;
		free(t);
	}
}

/* -2: the box has ended. */
static int look(struct logs *l, struct err *e)
{
	for (struct task *t = l->tasks; t != NULL; t = t->next)
		t->listed = false;
	for (unsigned int k = 0; k < KINDS; k++) {
		char path[BOX_PATH];
		struct call q = { .method = "GET", .path = path };
		struct reply r;

		api_path(path, l->box, "/%s", kinds[k].list);
		if (client_call(&l->c, &q, &r, e) < 0)
			return -1;
		if (r.status != 200) {
			bool gone = r.status == 410;

			(void)reply_refused(&r, e);
			reply_free(&r);
			return gone ? -2 : -1;
		}
		for (const struct jsonr_node *n =
			     jsonr_first(&r.doc, jsonr_get(&r.doc, reply_root(&r), kinds[k].list));
		     n != NULL; n = jsonr_next(&r.doc, n))
			take_task(l, &r, n, k);
		reply_free(&r);
	}
	forget_unlisted(l);
	return 0;
}

/* --- all of them ---------------------------------------------------------------------------------- */

/* Begin to follow what is new. Encodings differ: each is asked for. */
static int follow_new(struct logs *l, struct err *e)
{
	for (struct task *t = l->tasks; t != NULL; t = t->next) {
		if (t->told || l->nfollowed == FOLLOWED_MAX)
			continue;
		if (tell(l, t, e) < 0)
			return -1;
		if (!t->ended && start_following(l, t, e) < 0)
			return -1;
	}
	return 0;
}

static int turn(struct logs *l, struct err *e)
{
	struct pollfd p[FOLLOWED_MAX + 1] = { { .fd = wake_fd(), .events = POLLIN } };
	nfds_t n = 1;
	int ms = LOOK_MS;

	for (struct task *t = l->tasks; t != NULL; t = t->next)
		if (t->f != NULL) {
			p[n++] = (struct pollfd){ .fd = follow_fd(t->f), .events = POLLIN };
			ms = follow_wait_ms(t->f, ms);
		}
	(void)poll(p, n, ms);
	if (wake_end() != 0)
		return err_set(e, ERR_SYS, EINTR, "follow a box");
	for (struct task *t = l->tasks; t != NULL; t = t->next) {
		int r = t->f != NULL ? follow_turn(t->f, e) : 1;

		if (r < 0 && !t->f->not_held)
			return -1;
		if (r <= 0)
			stop_following(l, t);
	}
	return 0;
}

static int follow_all(struct logs *l, struct err *e)
{
	uint64_t next_us = 0;
	int r = 0;

	while (r == 0 && l->show.error == 0) {
		if (clock_us() >= next_us) {
			r = look(l, e);
			next_us = clock_us() + LOOK_MS * US_PER_MS;
			if (r == 0)
				r = follow_new(l, e);
		}
		if (r == 0)
			r = turn(l, e);
	}
	if (r != -2)
		return r;
	/* What was said up to its end is still on its way. */
	for (r = 0; r == 0 && l->nfollowed > 0 && l->show.error == 0;)
		r = turn(l, e);
	return r;
}

static int all(struct logs *l, struct err *e)
{
	int r;

	if (l->follow)
		return follow_all(l, e);
	r = look(l, e);
	for (struct task *t = l->tasks; t != NULL && r == 0 && l->show.error == 0; t = t->next)
		r = tell(l, t, e);
	return r < 0 ? -1 : 0;
}

/* --- one ------------------------------------------------------------------------------------------ */

static int one(struct logs *l, struct err *e)
{
	struct task t = { .l = l };
	char path[BOX_PATH];
	struct reply r;

	(void)snprintf(t.id, sizeof(t.id), "%s", l->id);
	for (; t.kind < KINDS; t.kind++) {
		struct call q = { .method = "GET", .path = path };
		bool found;

		api_path(path, l->box, "/%s/%s", kinds[t.kind].list, t.id);
		if (client_call(&l->c, &q, &r, e) < 0)
			return -1;
		found = r.status == 200;
		if (!found)
			(void)reply_refused(&r, e);
		else
			take_encoding(&t, &r);
		reply_free(&r);
		if (found)
			return l->follow ? follow_to_end(l, &t, e) : tell(l, &t, e);
		if (!api_is_gone(&l->c))
			break;
	}
	return -1;
}

static void forget(struct logs *l)
{
	while (l->tasks != NULL) {
		struct task *t = l->tasks;

		l->tasks = t->next;
		stop_following(l, t);
		free(t);
	}
}

static int check(struct logs *l, int argc, char **argv, struct err *e)
{
	if (argc < 1 || argc > 2) {
		(void)err_set(e, ERR_USAGE, 0, argc < 1 ? "no box is named" : "more than one id");
		return err_hint(e, "glovebox logs BOX [ID]");
	}
	l->box = argv[0];
	l->id = argc > 1 ? argv[1] : NULL;
	if (l->id != NULL && !follow_is_id(l->id))
		return err_set(e, ERR_USAGE, 0, "'%s' is no id of a cell or command", l->id);
	return box_name_check(l->box, e);
}

int verb_logs(int argc, char **argv)
{
	static struct logs l;
	struct err e = { .kind = ERR_NONE };
	int at = opts_parse(rows, ARRAY_LEN(rows), argc, argv, &l, &e), r;

	if (at < 0)
		return say_err(&e);
	if (l.o.help) {
		help();
		return 0;
	}
	if (check(&l, argc - at, argv + at, &e) < 0)
		return say_err(&e);
	(void)signal(SIGPIPE, SIG_IGN);
	if (api_open(&l.o, &l.c, &e) < 0)
		return say_err(&e);
	client_init(&l.events, &l.c.url, l.c.token);
	(void)wake_start(0);
	show_init(&l.show, NULL, false);
	r = l.id != NULL ? one(&l, &e) : all(&l, &e);
	show_end(&l.show);
	forget(&l);
	show_done(&l.show);
	client_done(&l.c);
	client_done(&l.events);
	if (wake_end() != 0)
		return EXIT_SIGNAL_BASE + wake_end();
	if (l.show.error != 0 && l.show.error != -EPIPE)
		r = err_set(&e, ERR_SYS, -l.show.error, "write what they say");
	else if (l.show.error != 0)
		r = 0;
	return r < 0 ? say_err(&e) : 0;
}
