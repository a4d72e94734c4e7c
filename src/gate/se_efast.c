// SPDX-License-Identifier: Apache-2.0
/*
 * download_from_efast: files of a document store into a session, one after the other. What is wrong with the request is told as the
 * reference tells it; what is wrong with a document is told of that one, and the others are fetched. The store is the one that the
 * operator named, whatever the request says.
 */
#include "gate/se_efast.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/gate.h"

#include <stdio.h>
#include <string.h>

enum { FILES_MAX = 1000, TOKEN_MAX = 4096, TOGETHER_MAX = 16 };

/* clang-format off */
static const struct field file_rows[] = {
	{ "docid", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_file, docid), .doc = "which document" },
	{ "rev", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_file, rev), .doc = "which version of it" },
	{ "savename", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_file, savename), .doc = "what it is called in the session" },
};
static const struct fields file_fields = { "EfastFile", file_rows, ARRAY_LEN(file_rows), sizeof(struct efast_file), 0 };

static const struct field efast_rows[] = {
	{ "file_params", FIELD_LIST, FIELD_NULLABLE, 0, FILES_MAX, 0, offsetof(struct efast_in, files), .doc = "documents", .sub = &file_fields },
	{ "efast_url", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_in, url), .doc = "the store; else efast_url" },
	{ "save_path", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_in, save_path), .doc = "where in the workspace" },
	{ "token", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct efast_in, token), .doc = "shown to the store; else efast_token" },
	{ "timeout", FIELD_INT, FIELD_NULLABLE, 0, FIELD_NO_MAX, 0, offsetof(struct efast_in, timeout), .doc = "seconds; null: efast_timeout" },
};
const struct fields se_efast_fields = { "EfastRequest", efast_rows, ARRAY_LEN(efast_rows), sizeof(struct efast_in), 0 };
/* clang-format on */

/* A name that is given must be one below the workspace. 0, or -1: answered. */
static int check_name(struct req *r, const struct field_str *s)
{
	char path[PATH_MAX];

	return s->set && s->n > 0 ? se_take_filename(r, s->p, s->n, path) : 0;
}

static int check(struct req *r, const struct efast_in *in)
{
	const struct config *c = &r->g->config;
	const struct efast_file *files = in->files.v;
	const char *missing = NULL;

	if (in->files.n == 0)
		missing = "file_params";
	else if (in->token.n == 0 && config_str(c, CONF_EFAST_TOKEN)[0] == '\0')
		missing = "token";
	for (size_t i = 0; missing == NULL && i < in->files.n; i++)
		if (files[i].docid.n == 0)
			missing = "docid";
	if (missing != NULL) {
		se_refuse(r, SE_MISSING, "%s", missing);
		return -1;
	}
	for (size_t i = 0; i < in->files.n; i++)
		if (check_name(r, &files[i].savename) < 0)
			return -1;
	return check_name(r, &in->save_path);
}

/* It goes into a header. */
static bool is_token(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] <= ' ' || p[i] > '~')
			return false;
	return n <= TOKEN_MAX;
}

/* The store is the operator's. A request may name it, and no other one. */
static int take_store(struct req *r, const struct efast_in *in, struct efast *e)
{
	const char *ours = config_str(&r->g->config, CONF_EFAST_URL), *rest;
	struct endpoint said;

	if (ours[0] == '\0' || endpoint_of_url(ours, &e->store, &rest) < 0) {
		se_refuse(r, SE_NETWORK, "no document store was named to this server (efast_url)");
		return -1;
	}
	(void)snprintf(e->prefix, sizeof(e->prefix), "%.*s", (int)strcspn(rest, "?#"), rest);
	if (in->url.n > 0 &&
	    (endpoint_of_url(in->url.p, &said, &rest) < 0 || !endpoint_is(&said, &e->store))) {
		se_refuse(r, SE_NOT_PERMITTED,
			  "'%.200s' is not the store of this server (efast_url)", in->url.p);
		return -1;
	}
	return 0;
}

static int take_token(struct req *r, const struct efast_in *in, struct efast *e)
{
	const char *token =
		in->token.n > 0 ? in->token.p : config_str(&r->g->config, CONF_EFAST_TOKEN);

	if (!is_token(token, strlen(token))) {
		se_refuse(r, SE_PARAMETER, "'token' has characters that no header can have");
		return -1;
	}
	(void)snprintf(e->token, sizeof(e->token), "%s", token);
	return 0;
}

/* --- one after the other ---------------------------------------------------------------------- */

static void efast_free(void *arg)
{
	struct efast *e = arg;

	json_done(&e->results);
	ci_body_done(&e->body);
	free(e);
}

static struct req *leave(struct efast *e)
{
	struct req *r = e->r;

	e->r = NULL;
	e->g->nefast--;
	efast_stop(e);
	r->work = NULL;
	r->gone = NULL;
	loop_defer(&e->g->loop, &e->deferred, efast_free, e);
	return r;
}

void efast_gone(struct efast *e)
{
	(void)leave(e);
}

static void on_gone(struct req *r)
{
	efast_gone(r->work);
}

static void answer(struct efast *e)
{
	struct req *r = leave(e);
	struct json j;
	char text[64];

	(void)snprintf(text, sizeof(text), "%zu of %zu files were fetched", e->nfetched,
		       e->in.files.n);
	json_close(&e->results, ']');
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "message", text);
	json_u64(&j, "success_count", e->nfetched);
	json_u64(&j, "failed_count", e->in.files.n - e->nfetched);
	json_u64(&j, "total_count", e->in.files.n);
	json_value(&j, "results");
	json_raw(&j, e->results.buf, e->results.len);
	json_str(&j, "save_path", e->in.save_path.n > 0 ? e->in.save_path.p : "");
	json_close(&j, '}');
	j.failed = j.failed || e->results.failed;
	se_answer(r, &j);
}

/* Between two documents the request is ours. */
static void hold(struct efast *e)
{
	e->r->work = e;
	e->r->gone = on_gone;
}

static void next(struct efast *e)
{
	const struct efast_file *files = e->in.files.v;

	if (e->at == e->in.files.n)
		answer(e);
	else
		efast_fetch(e, &files[e->at++]);
}

/* A document that the store has ready may be fetched, and the next one, and so on: not on one stack. */
static void on_soon(void *arg)
{
	next(arg);
}

static void told(struct efast *e)
{
	json_close(&e->results, '}');
	hold(e);
	if (timer_soon(&e->g->loop, &e->soon, on_soon, e) < 0)
		se_refuse(leave(e), SE_UNAVAILABLE, "out of memory");
}

static void tell(struct efast *e, const char *status)
{
	const struct efast_file *files = e->in.files.v;

	json_open(&e->results, NULL, '{');
	json_str(&e->results, "docid", files[e->at - 1].docid.p);
	json_str(&e->results, "status", status);
}

void efast_fetched(struct efast *e, const char *path, uint64_t size)
{
	e->nfetched++;
	tell(e, "success");
	json_str(&e->results, "filename", path);
	json_u64(&e->results, "size", size);
	told(e);
}

void efast_failed(struct efast *e, const char *why)
{
	tell(e, "failed");
	json_str(&e->results, "message", why);
	told(e);
}

/* --- the request ------------------------------------------------------------------------------ */

static void ready(void *arg, struct req *r, struct abox *a)
{
	struct efast *e = arg;

	(void)a;
	if (e->g->nefast >= TOGETHER_MAX) {
		efast_free(e);
		se_refuse(r, SE_QUEUE, "%d others fetch from the store", TOGETHER_MAX);
		return;
	}
	e->r = r;
	e->g->nefast++;
	hold(e);
	next(e);
}

/* 0, or -1: answered. */
static int take(struct req *r, struct efast *e)
{
	uint64_t limit = config_u64(&r->g->config, CONF_EFAST_TIMEOUT);

	if (check(r, &e->in) < 0 || take_store(r, &e->in, e) < 0 || take_token(r, &e->in, e) < 0)
		return -1;
	if (e->in.timeout > 0 && (uint64_t)e->in.timeout < limit / US_PER_S)
		limit = (uint64_t)e->in.timeout * US_PER_S;
	e->deadline_us = clock_us() + limit;
	return 0;
}

void se_efast(struct req *r)
{
	struct efast *e = calloc(1, sizeof(*e));

	if (e == NULL) {
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
		return;
	}
	e->g = r->g;
	if (se_take_name(r, e->name) < 0 || ci_decode(r, &se_efast_fields, &e->body, &e->in) < 0) {
		free(e);
		return;
	}
	json_init(&e->results);
	json_open(&e->results, NULL, '[');
	if (take(r, e) < 0)
		efast_free(e);
	else
		se_with(r, e->name, ready, efast_free, e);
}
