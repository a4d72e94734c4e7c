// SPDX-License-Identifier: Apache-2.0
#include "gate/genv.h"

#include "base/own.h"
#include "gate/ci.h"
#include "gate/env_builds.h"
#include "gate/own.h"
#include "gate/pool.h"
#include "gate/ports.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char own_python[] = "/usr/bin/python3";

/* --- one -------------------------------------------------------------------------------------- */

static void free_env(void *arg)
{
	struct genv *v = arg;

	free(v->path);
	free(v->variables);
	free(v);
}

static void drop(struct genv *v)
{
	for (struct genv **at = &v->g->envs; *at != NULL; at = &(*at)->next)
		if (*at == v) {
			*at = v->next;
			break;
		}
	warm_end(v);
	loop_defer(&v->g->loop, &v->freed, free_env, v);
}

/* The value of a variable that every program has. */
static const char *usual(const char *name)
{
	size_t n = strlen(name);

	for (const char *const *e = ci_environment(); *e != NULL; e++)
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
			return *e + n + 1;
	return "";
}

static int make_path(struct genv *v)
{
	int n = v->row.path[0] != '\0' ? asprintf(&v->path, "PATH=%s", v->row.path)
		: v->row.kind == ENV_PACKAGES
			? asprintf(&v->path, "PATH=%s/bin:%s", ENV_PLACE, usual("PATH"))
			: asprintf(&v->path, "PATH=%s", usual("PATH"));

	if (n < 0)
		v->path = NULL;
	return n < 0 ? -ENOMEM : 0;
}

static int make_variables(struct genv *v)
{
	static char place[] = "VIRTUAL_ENV=" ENV_PLACE;
	const struct env_row *r = &v->row;
	unsigned int n = 3;

	for (size_t i = 0; i < r->variables_len; i++)
		n += r->variables[i] == '\0';
	v->variables = calloc(n, sizeof(*v->variables));
	if (v->variables == NULL || make_path(v) < 0)
		return -ENOMEM;
	n = 0;
	v->variables[n++] = v->path;
	if (r->kind == ENV_PACKAGES)
		v->variables[n++] = place;
	for (char *at = v->row.variables; at < v->row.variables + r->variables_len;
	     at += strlen(at) + 1)
		v->variables[n++] = at;
	return 0;
}

static struct genv *add(struct gate *g, const struct env_row *row)
{
	struct genv *v = calloc(1, sizeof(*v)), **at = &g->envs;

	if (v == NULL)
		return NULL;
	v->g = g;
	v->row = *row;
	v->python = v->row.python[0] != '\0' ? v->row.python : NULL;
	if (row->id != 0 && make_variables(v) < 0) {
		free_env(v);
		return NULL;
	}
	while (*at != NULL)
		at = &(*at)->next;
	*at = v;
	warm_init(v);
	return v;
}

int genvs_start(struct gate *g, struct err *e)
{
	static struct env_row own = { .name = "default", .cells = true };
	struct genv *v = add(g, &own);

	if (v == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "remember environments");
	v->python = own_python;
	return 0;
}

const char *const *genv_variables(const struct genv *v)
{
	static const char *const none[] = { NULL };

	return v->variables != NULL ? (const char *const *)v->variables : none;
}

/* --- all of them ------------------------------------------------------------------------------ */

struct genv *genv_own(const struct gate *g)
{
	return g->envs;
}

struct genv *genv_by_id(const struct gate *g, uint32_t id)
{
	struct genv *v = g->envs;

	while (v != NULL && v->row.id != id)
		v = v->next;
	return v;
}

struct genv *genv_find(const struct gate *g, const char *name)
{
	if (env_is_own(name))
		return g->envs;
	for (struct genv *v = g->envs->next; v != NULL; v = v->next)
		if (!v->row.gone && strcmp(v->row.name, name) == 0)
			return v;
	return NULL;
}

void genv_take(struct genv *v)
{
	v->boxes++;
}

void genv_give(struct genv *v)
{
	v->boxes--;
	if (v->boxes == 0 && v->row.gone)
		drop(v);
}

static int take_rows(struct gate *g, const uint8_t *p, size_t n)
{
	static struct env_row row;
	struct msg_in in;

	msg_in_init(&in, p, n);
	while (in.at < in.len) {
		struct genv *v;

		if (env_row_get(&in, &row) < 0)
			return -EPROTO;
		v = genv_by_id(g, row.id);
		if (v == NULL)
			v = add(g, &row);
		if (v == NULL)
			return -ENOMEM;
		v->row.gone = row.gone;
	}
	return 0;
}

static void take(struct gate *g, int fd)
{
	own_free uint8_t *bytes = malloc((size_t)2 * ENV_TABLE_MAX);
	ssize_t n = bytes != NULL ? pread(fd, bytes, (size_t)2 * ENV_TABLE_MAX, 0) : -1;

	if (n < 0)
		return;
	for (struct genv *v = g->envs->next; v != NULL; v = v->next)
		v->row.gone = true;
	if (take_rows(g, bytes, (size_t)n) < 0)
		log_line(&g->log, LOG_WARN, "environments_failed");
	for (struct genv *v = g->envs->next, *next; v != NULL; v = next) {
		next = v->next;
		if (v->row.gone && v->boxes == 0)
			drop(v);
		else
			warm_settle(v);
	}
	pool_turn(g);
}

static void on_list(void *arg, struct chan_msg *m, const struct err *e)
{
	struct gate *g = arg;
	void (*done)(struct gate *g) = g->envs_told;

	g->envs_told = NULL;
	if (m == NULL) {
		gate_log_err(g, "environments_failed", e);
	} else {
		if (m->nfds == 1) {
			take(g, m->fds[0]);
			/* What was asked for by the old ones is on its way before this. */
			(void)keeper_ask(&g->keeper, OP_ENV_TAKEN, m->body, m->len, NULL, NULL);
		}
		chan_msg_close(m);
	}
	env_builds_settle(g);
	if (done != NULL)
		done(g);
}

void genvs_ask(struct gate *g, void (*done)(struct gate *g))
{
	if (done != NULL)
		g->envs_told = done;
	if (keeper_ask(&g->keeper, OP_ENV_LIST, NULL, 0, on_list, g) == 0)
		return;
	env_builds_settle(g);
	if (done != NULL)
		done(g);
}

/* --- the calls -------------------------------------------------------------------------------- */

static void put(const struct genv *v, struct json *j, const char *key)
{
	const struct env_row *r = &v->row;

	json_open(j, key, '{');
	json_str(j, "name", r->name);
	json_str(j, "kind", r->id == 0 ? "machine" : env_kind_str[r->kind]);
	if (v->python != NULL)
		json_str(j, "python", v->python);
	else
		json_null(j, "python");
	if (r->version[0] != '\0')
		json_str(j, "python_version", r->version);
	else
		json_null(j, "python_version");
	json_bool(j, "cells", r->cells);
	json_bool(j, "warm", warm_image(v, WARM_KERNEL) != 0);
	json_u64(j, "ready", pool_ready(v));
	if (r->id != 0) {
		json_u64(j, "bytes", r->bytes);
		own_time(j, "created_at", r->made_ms);
	} else {
		json_null(j, "bytes");
		json_null(j, "created_at");
	}
	json_close(j, '}');
}

void environments_list(struct req *r)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "environments", '[');
	for (const struct genv *v = r->g->envs; v != NULL; v = v->next)
		if (!v->row.gone)
			put(v, &j, NULL);
	json_close(&j, ']');
	json_close(&j, '}');
	req_json(r, 200, &j);
}

void environment_get(struct req *r)
{
	struct http_slice name = req_param(r);
	const struct genv *v;
	char text[ENV_NAME];
	struct json j;

	(void)snprintf(text, sizeof(text), "%.*s", name.n < ENV_NAME ? (int)name.n : 0, name.p);
	v = genv_find(r->g, text);
	if (v == NULL) {
		own_refuse(r, OWN_NOT_FOUND, NULL, "there is no environment '%.*s'",
			   (int)(name.n < ENV_NAME ? name.n : ENV_NAME), name.p);
		return;
	}
	json_init(&j);
	put(v, &j, NULL);
	req_json(r, 200, &j);
}
