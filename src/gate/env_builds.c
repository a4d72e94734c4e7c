// SPDX-License-Identifier: Apache-2.0
#include "gate/env_builds.h"

#include "base/own.h"
#include "gate/genv.h"
#include "gate/own.h"
#include "gate/ports.h"
#include "wire/envbuild.h"

#include <stdio.h>
#include <string.h>

enum { POOL_MAX = 1024, WAIT_MAX_MS = 60000, IMPORTS_AT_ONCE = 64 };

struct env_build {
	struct env_build *next;
	struct gate *g;
	enum envbuild_act act;
	bool running, settles; /* it has ended, and the environments are being asked for */
	uint64_t started_ms, ended_ms;
	struct envbuilt built; /* its name from the beginning */
	struct build_wait *waits;
};

/* A request that waits for its end, or for its time to be over. */
struct build_wait {
	struct build_wait *next;
	struct env_build *b;
	struct req *r;
	struct timer late;
	void (*answer)(struct req *r, const struct env_build *b);
};

/* --- what is asked for ------------------------------------------------------------------------ */

struct build_in {
	struct field_str name;
	struct field_list requirements, imports;
	int64_t pool;
};

/* clang-format off */
static const struct field rows[] = {
	{ "name", FIELD_STRING, FIELD_REQUIRED, 1, ENV_NAME - 1, 0, offsetof(struct build_in, name), .doc = "a-z, 0-9, '-', '_', '.', beginning with a letter or digit; one that is there is replaced" },
	{ "requirements", FIELD_STRINGS, 0, 0, ENVBUILD_WORDS, 0, offsetof(struct build_in, requirements), .doc = "as pip has them: names, with versions or without" },
	{ "imports", FIELD_STRINGS, 0, 0, IMPORTS_AT_ONCE, 0, offsetof(struct build_in, imports), .doc = "modules that its kernels have imported when they start" },
	{ "pool", FIELD_INT, 0, 0, POOL_MAX, 0, offsetof(struct build_in, pool), .doc = "sessions that are kept ready" },
};
/* clang-format on */

const struct fields environment_build_fields = { "BuildEnvironmentRequest", rows, ARRAY_LEN(rows),
						 sizeof(struct build_in), FIELDS_CLOSED };

static int take_words(struct req *r, const struct field_list *list, struct envbuild *b)
{
	const struct field_str *v = list->v;
	char field[40];

	for (size_t i = 0; i < list->n; i++) {
		if (envbuild_add(b, v[i].p, v[i].n) == 0)
			continue;
		(void)snprintf(field, sizeof(field), "requirements[%zu]", i);
		own_refuse(r, OWN_INVALID_FIELD, field, "'%s' is no requirement", field);
		return -1;
	}
	return 0;
}

static bool is_module(const struct field_str *s)
{
	return s->n > 0 &&
	       strspn(s->p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
		       s->n;
}

static int take_imports(struct req *r, const struct field_list *list, struct envbuild *b)
{
	const struct field_str *v = list->v;
	char field[40];
	size_t at = 0;

	for (size_t i = 0; i < list->n; i++) {
		int n = is_module(&v[i]) ? snprintf(b->imports + at, sizeof(b->imports) - at,
						    "%s%s", i > 0 ? " " : "", v[i].p)
					 : -1;

		if (n < 0 || (size_t)n >= sizeof(b->imports) - at) {
			(void)snprintf(field, sizeof(field), "imports[%zu]", i);
			own_refuse(r, OWN_INVALID_FIELD, field, "'%s' is no name of a module",
				   field);
			return -1;
		}
		at += (size_t)n;
	}
	return 0;
}

/* --- what is known ------------------------------------------------------------------------------ */

static struct env_build *find(const struct gate *g, const char *name)
{
	struct env_build *b = g->env_builds;

	while (b != NULL && strcmp(b->built.name, name) != 0)
		b = b->next;
	return b;
}

static bool is_busy(const struct gate *g)
{
	for (const struct env_build *b = g->env_builds; b != NULL; b = b->next)
		if (b->running)
			return true;
	return false;
}

/* The youngest first; those that are too many go. */
static struct env_build *begin(struct gate *g, const struct envbuild *what)
{
	struct env_build *b = find(g, what->name), **at = &g->env_builds;
	unsigned int n = 0;

	if (b == NULL) {
		b = calloc(1, sizeof(*b));
		if (b == NULL)
			return NULL;
		b->g = g;
		(void)memcpy(b->built.name, what->name, sizeof(b->built.name));
		b->next = g->env_builds;
		g->env_builds = b;
	}
	b->act = what->act;
	b->running = true;
	b->started_ms = own_now_ms();
	b->ended_ms = 0;
	b->built.status = 0;
	b->built.log[0] = '\0';
	while (*at != NULL) {
		struct env_build *old = *at;

		if (n++ < ENV_BUILDS_MAX || old->running || old->waits != NULL) {
			at = &old->next;
			continue;
		}
		*at = old->next;
		free(old);
	}
	return b;
}

static const char *status_of(const struct env_build *b)
{
	return b->running ? "running" : b->built.status == 0 ? "ok" : "failed";
}

static void put(const struct env_build *b, struct json *j)
{
	json_str(j, "name", b->built.name);
	json_str(j, "status", status_of(b));
	own_time(j, "started_at", b->started_ms);
	if (b->running)
		json_null(j, "ended_at");
	else
		own_time(j, "ended_at", b->ended_ms);
	json_str(j, "log", b->built.log);
}

static void answer_with(struct req *r, int status, const struct env_build *b)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	put(b, &j);
	json_close(&j, '}');
	req_json(r, status, &j);
}

/* --- waiting ------------------------------------------------------------------------------------ */

static void unlink_wait(struct build_wait *w)
{
	struct build_wait **at = &w->b->waits;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	timer_clear(&w->b->g->loop, &w->late);
}

static void on_gone(struct req *r)
{
	struct build_wait *w = r->work;

	unlink_wait(w);
	free(w);
}

/* It is in no list any more. */
static void answer_now(struct build_wait *w)
{
	struct req *r = w->r;
	const struct env_build *b = w->b;
	void (*answer)(struct req *r, const struct env_build *b) = w->answer;

	timer_clear(&b->g->loop, &w->late);
	free(w);
	r->gone = NULL;
	answer(r, b);
}

static void on_late(void *arg)
{
	unlink_wait(arg);
	answer_now(arg);
}

static void wait_for(struct req *r, struct env_build *b, uint64_t us,
		     void (*answer)(struct req *r, const struct env_build *b))
{
	struct build_wait *w = calloc(1, sizeof(*w));

	if (w == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	*w = (struct build_wait){ .next = b->waits, .b = b, .r = r, .answer = answer };
	b->waits = w;
	r->work = w;
	r->gone = on_gone;
	if (us != UINT64_MAX &&
	    timer_set(&b->g->loop, &w->late, b->g->loop.now_us + us, on_late, w) < 0)
		on_late(w);
}

void env_builds_event(struct gate *g, const struct chan_msg *m)
{
	static struct envbuilt built;
	struct env_build *b;

	if (envbuilt_decode(m->body, m->len, &built) < 0)
		return;
	b = find(g, built.name);
	if (b == NULL || !b->running) /* another gate has asked */
		return;
	b->settles = true;
	b->built = built;
	if (built.status == ENVBUILT_BUSY)
		(void)snprintf(b->built.log, sizeof(b->built.log),
			       "another environment is being built");
	log_line(&g->log, built.status == 0 ? LOG_INFO : LOG_WARN, "environment_built",
		 log_str("environment", built.name), log_u64("status", built.status));
	genvs_ask(g, NULL);
}

void env_builds_settle(struct gate *g)
{
	for (struct env_build *b = g->env_builds; b != NULL; b = b->next) {
		if (!b->settles)
			continue;
		b->settles = b->running = false;
		b->ended_ms = own_now_ms();
		for (struct build_wait *w = b->waits; w != NULL; w = b->waits) {
			b->waits = w->next;
			answer_now(w);
		}
	}
}

/* --- the calls ---------------------------------------------------------------------------------- */

static int check_allowed(struct req *r)
{
	if (config_bool(&r->g->config, CONF_ENVIRONMENT_BUILDS))
		return 0;
	own_refuse(r, OWN_NOT_PERMITTED, NULL,
		   "environments are built and removed by the operator: 'glovebox env', or "
		   "environment_builds");
	return -1;
}

/* Ask for it. NULL: answered. */
static struct env_build *ask(struct req *r, const struct envbuild *what, const char *event)
{
	static uint8_t body[16000];
	ptrdiff_t n = envbuild_encode(what, body, sizeof(body));
	struct env_build *b;

	if (is_busy(r->g)) {
		own_refuse(r, OWN_BUSY, NULL, "an environment is being built: one at a time");
		return NULL;
	}
	if (n < 0) {
		own_refuse(r, OWN_INVALID_FIELD, "requirements", "there are too many requirements");
		return NULL;
	}
	b = begin(r->g, what);
	if (b == NULL || keeper_ask(&r->g->keeper, OP_ENV_BUILD, body, (size_t)n, NULL, NULL) < 0) {
		if (b != NULL)
			b->running = false;
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return NULL;
	}
	audit(r->g, event, r, "tenant", r->tenant->name, "environment", what->name, NULL);
	return b;
}

void environment_build(struct req *r)
{
	static struct envbuild what;
	struct ci_body body;
	struct build_in in;
	struct env_build *b = NULL;

	if (check_allowed(r) < 0 || own_decode(r, &environment_build_fields, &body, &in) < 0)
		return;
	envbuild_init(&what, ENVBUILD_BUILD, in.name.p);
	what.pool = (uint32_t)in.pool;
	if (!env_is_name(in.name.p))
		own_refuse(r, OWN_INVALID_FIELD, "name",
			   "'name' is made of a-z, 0-9, '-', '_', '.', begins with a letter or a "
			   "digit, and is not one of the machine's own");
	else if (take_words(r, &in.requirements, &what) == 0 &&
		 take_imports(r, &in.imports, &what) == 0)
		b = ask(r, &what, "environment_build");
	ci_body_done(&body);
	if (b != NULL)
		answer_with(r, 202, b);
}

/* The name in its path; "": it cannot be one. */
static void name_of(const struct req *r, char ret[ENV_NAME])
{
	struct http_slice name = req_param(r);

	(void)snprintf(ret, ENV_NAME, "%.*s", name.n < ENV_NAME ? (int)name.n : 0, name.p);
}

static void removed(struct req *r, const struct env_build *b)
{
	if (b->built.status == 0)
		req_reply(r, 204, NULL, NULL, 0);
	else
		own_refuse(r, OWN_WRONG_STATE, NULL, "it could not be removed: %.200s",
			   b->built.log);
}

void environment_remove(struct req *r)
{
	static struct envbuild what;
	struct env_build *b;
	char name[ENV_NAME];

	name_of(r, name);
	if (check_allowed(r) < 0)
		return;
	if (!env_is_name(name) || genv_find(r->g, name) == NULL) {
		own_refuse(r, OWN_NOT_FOUND, NULL, "there is no environment '%s' to be removed",
			   name);
		return;
	}
	envbuild_init(&what, ENVBUILD_REMOVE, name);
	b = ask(r, &what, "environment_removed");
	if (b != NULL)
		wait_for(r, b, UINT64_MAX, removed);
}

static void answer_build(struct req *r, const struct env_build *b)
{
	answer_with(r, 200, b);
}

void environment_build_get(struct req *r)
{
	uint64_t wait_ms = 0;
	struct env_build *b;
	char name[ENV_NAME];

	name_of(r, name);
	b = find(r->g, name);
	if (b == NULL)
		own_refuse(r, OWN_NOT_FOUND, NULL, "nothing is known of a build of '%s'", name);
	else if (own_query_u64(r, "wait_ms", 0, WAIT_MAX_MS, &wait_ms) == 0) {
		if (b->running && wait_ms > 0)
			wait_for(r, b, wait_ms * 1000, answer_build);
		else
			answer_build(r, b);
	}
}
