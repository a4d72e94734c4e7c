// SPDX-License-Identifier: Apache-2.0
/* The box of a session: made, found, kept alive, and ended. */
#include "cli/shell.h"

#include "base/clock.h"
#include "base/own.h"
#include "cli/box_body.h"
#include "cli/say.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { ALIVE_MAX_S = 60, END_TIMEOUT_MS = 15000 };

const char *shell_path(const struct shell *s, const char *tail)
{
	static char path[2 * FOLLOW_PATH];

	(void)snprintf(path, sizeof(path), "/v1/boxes/%s%s", s->box, tail);
	return path;
}

bool shell_is_gone(const struct reply *r)
{
	return r->status == 410;
}

/* --- mounts --------------------------------------------------------------------------------------- */

struct mount {
	char root[PATH_MAX], path[PATH_MAX], at[PATH_MAX];
	bool writable;
};

/* SRC[:AT][:rw] */
static int split_mount(const char *text, struct mount *m, struct err *e)
{
	char *colon;

	*m = (struct mount){ 0 };
	if (strlen(text) >= sizeof(m->root))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "--mount");
	(void)snprintf(m->root, sizeof(m->root), "%s", text);
	colon = strrchr(m->root, ':');
	if (colon != NULL && (strcmp(colon, ":rw") == 0 || strcmp(colon, ":ro") == 0)) {
		m->writable = colon[2] == 'w';
		*colon = '\0';
	}
	colon = strchr(m->root, ':');
	if (colon != NULL) {
		(void)snprintf(m->at, sizeof(m->at), "%s", colon + 1);
		*colon = '\0';
	}
	return m->root[0] != '\0' ? 0
				  : err_set(e, ERR_USAGE, 0, "--mount '%s' names nothing", text);
}

/* Of another server's roots only that one knows: what stands before "//" is one of them. */
static void split_root(struct mount *m)
{
	char *two = strstr(m->root + 1, "//");

	if (two == NULL)
		return;
	(void)snprintf(m->path, sizeof(m->path), "%s", two + 2);
	*two = '\0';
}

/* Of our own server's roots we know: the current directory and the home directory, as with `glovebox run`. */
static int find_root(struct mount *m, char roots[][PATH_MAX], struct err *e)
{
	own_free char *real = realpath(m->root, NULL);

	if (real == NULL)
		return err_set(e, ERR_INPUT, errno, "--mount '%s'", m->root);
	for (unsigned int i = 0; i < SHELL_ROOTS_MAX; i++) {
		size_t n = strlen(roots[i]);

		if (n == 0 || strncmp(real, roots[i], n) != 0 ||
		    (real[n] != '/' && real[n] != '\0'))
			continue;
		if (m->at[0] == '\0')
			(void)snprintf(m->at, sizeof(m->at), "/mnt/%s", strrchr(real, '/') + 1);
		(void)snprintf(m->root, sizeof(m->root), "%s", roots[i]);
		(void)snprintf(m->path, sizeof(m->path), "%s", real[n] == '/' ? real + n + 1 : "");
		return 0;
	}
	return err_set(e, ERR_INPUT, 0,
		       "--mount '%s' lies neither below the current nor below the home directory",
		       real);
}

static void own_roots(char roots[SHELL_ROOTS_MAX][PATH_MAX])
{
	const char *const names[SHELL_ROOTS_MAX] = { ".", getenv("HOME") };

	for (unsigned int i = 0; i < SHELL_ROOTS_MAX; i++)
		if (names[i] == NULL || realpath(names[i], roots[i]) == NULL ||
		    strcmp(roots[i], "/") == 0)
			roots[i][0] = '\0';
}

static int put_mounts(const struct shell *s, struct json *j, struct err *e)
{
	static char roots[SHELL_ROOTS_MAX][PATH_MAX];
	static struct mount m;

	own_roots(roots);
	json_open(j, "mounts", '[');
	for (unsigned int i = 0; i < s->o->nmounts; i++) {
		if (split_mount(s->o->mounts[i], &m, e) < 0)
			return -1;
		if (s->near.life < 0)
			split_root(&m);
		else if (find_root(&m, roots, e) < 0)
			return -1;
		json_open(j, NULL, '{');
		json_str(j, "root", m.root);
		json_str(j, "path", m.path);
		if (m.at[0] != '\0')
			json_str(j, "at", m.at);
		json_bool(j, "readonly", !m.writable);
		json_close(j, '}');
	}
	json_close(j, ']');
	return 0;
}

/* --- making --------------------------------------------------------------------------------------- */

static int put_box(const struct shell *s, struct json *j, struct err *e)
{
	json_init(j);
	json_open(j, NULL, '{');
	if (s->o->name != NULL)
		json_str(j, "name", s->o->name);
	if (s->o->environment != NULL)
		json_str(j, "environment", s->o->environment);
	box_put_limits(j, &s->o->limits, s->o->limit_set);
	box_put_env(j, s->o->env, s->o->nenv);
	if (s->o->nmounts > 0 && put_mounts(s, j, e) < 0)
		return -1;
	json_close(j, '}');
	return 0;
}

/* How often to say that it is still needed. */
static void take_times(struct shell *s, const struct reply *r)
{
	int64_t idle = node_int(&r->doc, reply_root(r), "idle_seconds", 0);
	int64_t each = ALIVE_MAX_S;

	s->ttl_s = node_int(&r->doc, reply_root(r), "ttl_seconds", 0);
	if (idle > 0 && idle / 3 < each)
		each = idle / 3;
	if (s->made && s->ttl_s > 0 && s->ttl_s / 3 < each)
		each = s->ttl_s / 3;
	s->alive_each_us = (uint64_t)(each > 0 ? each : 1) * US_PER_S;
	s->alive_us = clock_us() + s->alive_each_us;
}

static int take_box(struct shell *s, const struct call *q, struct err *e)
{
	const char *id;
	struct reply r;
	int rc = 0;

	if (client_call(&s->c, q, &r, e) < 0)
		return -1;
	id = node_str(&r.doc, reply_root(&r), "id");
	if (r.status != 200 && r.status != 201)
		rc = reply_refused(&r, e);
	else if (box_name_check(id, e) < 0 || strlen(id) >= sizeof(s->box))
		rc = err_set(e, ERR_PROTO, 0, "the server answered without an id");
	if (rc == 0) {
		s->made = r.status == 201;
		(void)snprintf(s->box, sizeof(s->box), "%s", id);
		take_times(s, &r);
	}
	reply_free(&r);
	return rc;
}

static int make_box(struct shell *s, struct err *e)
{
	struct call q = {
		.method = "POST", .path = "/v1/boxes", .timeout_ms = 120000, .flags = CALL_INT
	};
	struct json j;
	int rc = put_box(s, &j, e);

	q.body = &j;
	if (rc == 0)
		rc = take_box(s, &q, e);
	json_done(&j);
	return rc;
}

static int find_box(struct shell *s, struct err *e)
{
	struct call q = { .method = "GET", .flags = CALL_INT };

	(void)snprintf(s->box, sizeof(s->box), "%s", s->o->box);
	q.path = shell_path(s, "");
	return take_box(s, &q, e);
}

/* --- the server ----------------------------------------------------------------------------------- */

static int start_server(struct shell *s, struct err *e)
{
	static char roots[SHELL_ROOTS_MAX][PATH_MAX];
	const char *list[SHELL_ROOTS_MAX + 1] = { NULL };
	unsigned int n = 0;

	own_roots(roots);
	for (unsigned int i = 0; i < SHELL_ROOTS_MAX && s->o->nmounts > 0; i++)
		if (roots[i][0] != '\0')
			list[n++] = roots[i];
	say("no server runs here: starting one for this session");
	if (server_near_start(&s->near, list, false, e) < 0)
		return -1;
	client_init(&s->c, &s->near.url, "");
	return 0;
}

int shell_open(struct shell *s, struct err *e)
{
	bool nobody;

	s->near.life = -1;
	if (client_find(&s->o->client, &s->c, &nobody, e) < 0 &&
	    (!nobody || s->o->box != NULL || s->o->keep || start_server(s, e) < 0))
		return -1;
	return s->o->box != NULL ? find_box(s, e) : make_box(s, e);
}

static void end_box(struct shell *s)
{
	struct call q = { .method = "DELETE",
			  .path = shell_path(s, ""),
			  .timeout_ms = END_TIMEOUT_MS,
			  .flags = CALL_NO_INT };
	struct reply r;
	struct err e;

	if (client_call(&s->c, &q, &r, &e) < 0) {
		if (s->near.life < 0)
			say("the box %s could not be ended: %s", s->box, e.text);
		return;
	}
	reply_free(&r);
}

void shell_close(struct shell *s)
{
	if (s->made && s->o->keep && !s->ended)
		say("the box %s stays: 'glovebox shell --box %s' comes back, 'glovebox kill %s' "
		    "ends it",
		    s->box, s->box, s->box);
	else if (s->made && !s->ended)
		end_box(s);
	client_done(&s->c);
	server_near_stop(&s->near);
}

void shell_keep_alive(struct shell *s)
{
	struct call q = { .method = "PATCH", .path = shell_path(s, ""), .timeout_ms = 2000 };
	struct reply r;
	struct json j;
	struct err ignored;

	if (clock_us() < s->alive_us)
		return;
	s->alive_us = clock_us() + s->alive_each_us;
	json_init(&j);
	json_open(&j, NULL, '{');
	if (s->made && s->ttl_s > 0)
		json_i64(&j, "ttl_seconds", s->ttl_s);
	json_close(&j, '}');
	q.body = &j;
	if (client_call(&s->c, &q, &r, &ignored) == 0) { /* otherwise the next cell tells */
		s->ended |= shell_is_gone(&r);
		reply_free(&r);
	}
	json_done(&j);
}
