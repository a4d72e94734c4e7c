// SPDX-License-Identifier: Apache-2.0
/*
 * Sessions: boxes of the own API that are known by the names their clients chose. The name is in the metadata of the box, so
 * /v1/boxes shows it, and the next gate finds it there.
 *
 * Whoever uses a name first makes its session; who comes meanwhile waits for the same one. It is made by a request of ours to the own API,
 * and ends by its time, by DELETE, or by cleanup-all.
 */
#include "gate/se.h"

#include "base/own.h"
#include "gate/boxes.h"
#include "gate/net_default.h"
#include "wire/json_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A session on its way. */
struct se_making {
	struct req inner; /* its first member */
	struct se_making *next;
	struct gate *g;
	const struct tenant *tenant;
	char name[SE_NAME];
	struct se_wait *waiting;
	struct deferred deferred;
};

/* A request that waits for it. */
struct se_wait {
	struct se_wait *next;
	struct se_making *m;
	struct req *r;
	void (*ready)(void *arg, struct req *r, struct abox *a);
	void (*drop)(void *arg);
	void *arg;
};

/* --- which there are -------------------------------------------------------------------------- */

const char *se_name(const struct abox *a)
{
	return texts_get(&a->metadata, BOX_SESSION_KEY);
}

/* In any state. */
static bool is_session(const struct abox *a, const struct tenant *t, const char *name)
{
	const char *own = a->tenant == t ? se_name(a) : NULL;

	return own != NULL && strcmp(own, name) == 0;
}

struct abox *se_find(const struct gate *g, const struct tenant *t, const char *name)
{
	struct abox *a = g->aboxes;

	while (a != NULL && !(a->state == ABOX_READY && is_session(a, t, name)))
		a = a->next;
	return a;
}

static struct se_making *making_find(const struct req *r, const char *name)
{
	struct se_making *m = r->g->se_making;

	while (m != NULL && !(m->tenant == r->tenant && strcmp(m->name, name) == 0))
		m = m->next;
	return m;
}

/* --- making one ------------------------------------------------------------------------------- */

static void making_free(void *arg)
{
	free(arg);
}

static void making_over(struct se_making *m)
{
	struct se_making **at = &m->g->se_making;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	loop_defer(&m->g->loop, &m->deferred, making_free, m);
}

/* What the own API said, in the words of this dialect. */
static void refuse_as(struct req *r, int status, const char *body, size_t n)
{
	struct json_member error = { .key = "error" }, message = { .key = "message" };
	char text[512] = "no box can be made";
	struct json_text t;
	struct json j;

	if (json_text_read(body, n, &t) == 0) {
		json_text_find(t, &error, 1);
		json_text_find(error.value, &message, 1);
		(void)json_text_str(message.value, text, sizeof(text));
	}
	if (status == 429) {
		se_refuse(r, SE_QUEUE, "%s", text);
		return;
	}
	json_init(&j);
	json_open(&j, NULL, '{');
	se_put_error(&j, se_message_of(SE_SESSION_FAILED), text);
	json_close(&j, '}');
	req_json(r, status == 503 ? 503 : 500, &j);
}

static void on_to_delete(void *arg, struct req *r, struct abox *a);
static void delete_all_of(struct req *r, const char *name);

/* It is there, but who came before this one has ended it: as if this one came only now. */
static void come_again(const struct se_wait *w, const char *name)
{
	if (w->ready == on_to_delete)
		delete_all_of(w->r, name);
	else
		se_with(w->r, name, w->ready, w->drop, w->arg);
}

static void on_made(struct req *inner, int status, const void *body, size_t n)
{
	struct se_making *m = (struct se_making *)inner; /* its first member */

	making_over(m);
	while (m->waiting != NULL) {
		struct se_wait w = *m->waiting;
		struct abox *a = status == 201 ? se_find(m->g, m->tenant, m->name) : NULL;

		free(m->waiting);
		m->waiting = w.next;
		w.r->gone = NULL;
		if (a != NULL) {
			w.ready(w.arg, w.r, a);
		} else if (status == 201) {
			come_again(&w, m->name);
		} else {
			if (w.drop != NULL)
				w.drop(w.arg);
			refuse_as(w.r, status, body, n);
		}
	}
}

static void wait_gone(struct req *r)
{
	struct se_wait *w = r->work, **at = &w->m->waiting;
	struct se_making *m = w->m;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	if (w->drop != NULL)
		w->drop(w->arg);
	free(w);
	if (m->waiting == NULL && m->inner.gone != NULL) { /* nobody wants it any more */
		m->inner.gone(&m->inner);
		making_over(m);
	}
}

/* What may be said of a session when it is made. */
struct se_wanted {
	uint64_t workspace;
	bool network;
};

static struct se_wanted standard(const struct gate *g)
{
	return (struct se_wanted){ .workspace = config_u64(&g->config, CONF_SE_WORKSPACE),
				   .network = config_bool(&g->config, CONF_SE_ALLOW_NETWORK) };
}

/* The last to come is the last to be told. */
static int wait_for(struct se_making *m, struct req *r, const struct se_wait *how)
{
	struct se_wait *w = malloc(sizeof(*w)), **at = &m->waiting;

	if (w == NULL)
		return -ENOMEM;
	*w = *how;
	w->m = m;
	w->r = r;
	w->next = NULL;
	while (*at != NULL)
		at = &(*at)->next;
	*at = w;
	r->work = w;
	r->gone = wait_gone;
	return 0;
}

static int fill_wish(struct gate *g, const char *name, const struct se_wanted *s,
		     struct box_wish *w)
{
	static const char *const env[] = { "HOME", "PYTHONPATH" };
	struct box_request q;

	se_limits(g, &q);
	*w = (struct box_wish){ .limits = q.limits,
				.ttl_us = config_u64(&g->config, CONF_SE_EXPIRATION) };
	w->limits.v[LIMIT_WORKSPACE] = s->workspace;
	if (net_policy_copy(net_default(g, s->network ? NET_DEFAULT_SE : NET_DEFAULT_NONE),
			    &w->net) < 0)
		return -ENOMEM;
	for (unsigned int i = 0; i < ARRAY_LEN(env); i++)
		if (texts_add(&w->env, env[i], strlen(env[i]), SE_MOUNT_POINT,
			      strlen(SE_MOUNT_POINT)) < 0)
			return -ENOMEM;
	return texts_add(&w->metadata, BOX_SESSION_KEY, strlen(BOX_SESSION_KEY), name,
			 strlen(name));
}

static void make(struct req *r, const char *name, const struct se_wanted *s,
		 const struct se_wait *how)
{
	static const struct req_via via = { .reply = on_made };
	struct se_making *m = calloc(1, sizeof(*m));
	struct box_wish w = { 0 };

	if (m != NULL)
		m->g = r->g;
	if (m == NULL || fill_wish(r->g, name, s, &w) < 0 || wait_for(m, r, how) < 0) {
		texts_done(&w.env);
		texts_done(&w.metadata);
		net_policy_done(&w.net);
		free(m);
		if (how->drop != NULL)
			how->drop(how->arg);
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
		return;
	}
	m->tenant = r->tenant;
	(void)snprintf(m->name, sizeof(m->name), "%s", name);
	m->inner.g = r->g;
	m->inner.tenant = r->tenant;
	m->inner.route = r->route; /* for the audit */
	(void)memcpy(m->inner.id, r->id, sizeof(m->inner.id));
	m->inner.via = &via;
	m->next = r->g->se_making;
	r->g->se_making = m;
	box_make(&m->inner, &w);
}

void se_with(struct req *r, const char *name,
	     void (*ready)(void *arg, struct req *r, struct abox *a), void (*drop)(void *arg),
	     void *arg)
{
	const struct se_wait how = { .ready = ready, .drop = drop, .arg = arg };
	struct abox *a = se_find(r->g, r->tenant, name);
	struct se_making *m = a == NULL ? making_find(r, name) : NULL;

	if (a != NULL) {
		ready(arg, r, a);
	} else if (m == NULL) {
		const struct se_wanted s = standard(r->g);

		make(r, name, &s, &how);
	} else if (wait_for(m, r, &how) < 0) {
		if (drop != NULL)
			drop(arg);
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
	}
}

/* --- POST ------------------------------------------------------------------------------------- */

struct se_session_in {
	struct field_str size;
	bool allow_network, allow_network_set;
};

static const struct field session_rows[] = {
	{ .name = "size",
	  .type = FIELD_STRING,
	  .flags = FIELD_NULLABLE,
	  .min = FIELD_NO_MIN,
	  .max = FIELD_NO_MAX,
	  .at = offsetof(struct se_session_in, size),
	  .doc = "bytes in its workspace, as mount has them: 100M; null: se_workspace" },
	{ .name = "allow_network",
	  .type = FIELD_BOOL,
	  .flags = FIELD_NULLABLE,
	  .at = offsetof(struct se_session_in, allow_network),
	  .doc = "whether its programs may reach public addresses; null: se_allow_network",
	  .set_at = offsetof(struct se_session_in, allow_network_set) },
};

const struct fields se_session_fields = { "SessionRequest", session_rows, ARRAY_LEN(session_rows),
					  sizeof(struct se_session_in), 0 };

/* 0, or -1: answered. */
static int take_size(struct req *r, const struct field_str *text, uint64_t *ret)
{
	uint64_t max = config_u64(&r->g->config, CONF_BOX_MAX_WORKSPACE);
	uint64_t min = limit_row(LIMIT_WORKSPACE)->min;

	if (!text->set)
		return 0;
	if (se_size(text->p, max, ret) == 0 && *ret >= min && *ret <= max)
		return 0;
	se_refuse(r, SE_SIZE, "'%.64s' is not from %llu to %llu bytes, such as 100M", text->p,
		  (unsigned long long)min, (unsigned long long)max);
	return -1;
}

/* The same. A session may be refused the network that others have, and not the other way round. */
static int take_network(struct req *r, const struct se_session_in *in, bool *ret)
{
	if (!in->allow_network_set)
		return 0;
	if (in->allow_network && !*ret) {
		se_refuse(r, SE_NOT_PERMITTED,
			  "no session of this server may use the network (se_allow_network)");
		return -1;
	}
	*ret = in->allow_network;
	return 0;
}

static void on_created(void *arg, struct req *r, struct abox *a)
{
	struct json j;

	(void)arg;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "session_id", se_name(a));
	json_close(&j, '}');
	se_answer(r, &j);
}

void se_session_create(struct req *r)
{
	static const struct se_wait how = { .ready = on_created };
	struct se_wanted s = standard(r->g);
	struct se_session_in in = { 0 };
	struct ci_body body = { 0 };
	char name[SE_NAME];
	int rc;

	if (se_take_name(r, name) < 0 ||
	    (r->body_len > 0 && ci_decode(r, &se_session_fields, &body, &in) < 0))
		return;
	rc = take_size(r, &in.size, &s.workspace);
	if (rc == 0)
		rc = take_network(r, &in, &s.network);
	ci_body_done(&body);
	if (rc < 0)
		return;
	if (se_find(r->g, r->tenant, name) != NULL || making_find(r, name) != NULL)
		se_refuse(r, SE_SESSION_EXISTS, "Session already exists: %s", name);
	else
		make(r, name, &s, &how);
}

/* --- the end of one, and of many -------------------------------------------------------------- */

/* Some are ending, and somebody waits for that. */
struct se_ending {
	struct req *r; /* NULL: not any more */
	unsigned int left;
	struct json answer;
};

static void ending_gone(struct req *r)
{
	struct se_ending *e = r->work;

	e->r = NULL;
}

static void on_ended(void *arg)
{
	struct se_ending *e = arg;

	if (--e->left > 0)
		return;
	if (e->r != NULL) {
		e->r->gone = NULL;
		se_answer(e->r, &e->answer);
	} else {
		json_done(&e->answer);
	}
	free(e);
}

/* The last on_ended() answers; until that is called nobody else does. */
static struct se_ending *ending_new(struct req *r)
{
	struct se_ending *e = calloc(1, sizeof(*e));

	if (e == NULL) {
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
		return NULL;
	}
	e->r = r;
	e->left = 1;
	json_init(&e->answer);
	r->work = e;
	r->gone = ending_gone;
	return e;
}

static bool end_one(struct se_ending *e, struct abox *a)
{
	e->left++;
	if (abox_delete_then(a, on_ended, e) == 0)
		return true;
	e->left--;
	return false;
}

static void delete_all_of(struct req *r, const char *name)
{
	struct se_ending *e = ending_new(r);

	if (e == NULL)
		return;
	json_open(&e->answer, NULL, '{');
	json_str(&e->answer, "status", "success");
	json_close(&e->answer, '}');
	for (struct abox *a = r->g->aboxes, *next; a != NULL; a = next) {
		next = a->next;
		if (a->state != ABOX_CREATING && is_session(a, r->tenant, name))
			(void)end_one(e, a);
	}
	on_ended(e);
}

static void on_to_delete(void *arg, struct req *r, struct abox *a)
{
	(void)arg;
	delete_all_of(r, se_name(a));
}

/* One that is on its way is ended when it is there. */
void se_session_delete(struct req *r)
{
	static const struct se_wait how = { .ready = on_to_delete };
	struct se_making *m;
	char name[SE_NAME];

	if (se_take_name(r, name) < 0)
		return;
	m = making_find(r, name);
	if (m == NULL)
		delete_all_of(r, name);
	else if (wait_for(m, r, &how) < 0)
		se_refuse(r, SE_UNAVAILABLE, "out of memory");
}

struct se_cleanup_in {
	bool force;
};

static const struct field cleanup_rows[] = {
	{ .name = "force",
	  .type = FIELD_BOOL_LENIENT,
	  .at = offsetof(struct se_cleanup_in, force),
	  .doc = "also sessions in which something runs" },
};

const struct fields se_cleanup_fields = { "CleanupRequest", cleanup_rows, ARRAY_LEN(cleanup_rows),
					  sizeof(struct se_cleanup_in), 0 };

static bool is_busy(const struct abox *a)
{
	return a->running > 0 || a->attached > 0 || se_is_busy(a);
}

/* Those of a tenant. Of what could not be ended, and of what was left alone, the names are told. */
static void clean_up(struct req *r, bool force)
{
	struct se_ending *e = ending_new(r);
	unsigned int total = 0, success = 0;
	struct json failed, skipped;

	if (e == NULL)
		return;
	json_init(&failed);
	json_init(&skipped);
	json_open(&failed, NULL, '[');
	json_open(&skipped, NULL, '[');
	for (struct abox *a = r->g->aboxes, *next; a != NULL; a = next) {
		next = a->next;
		if (a->tenant != r->tenant || a->state != ABOX_READY || se_name(a) == NULL)
			continue;
		total++;
		if (!force && is_busy(a))
			json_str(&skipped, NULL, se_name(a));
		else if (end_one(e, a))
			success++;
		else
			json_str(&failed, NULL, se_name(a));
	}
	json_close(&failed, ']');
	json_close(&skipped, ']');
	json_open(&e->answer, NULL, '{');
	json_u64(&e->answer, "total", total);
	json_u64(&e->answer, "success", success);
	json_value(&e->answer, "failed");
	json_raw(&e->answer, failed.buf, failed.len);
	json_value(&e->answer, "skipped");
	json_raw(&e->answer, skipped.buf, skipped.len);
	json_close(&e->answer, '}');
	e->answer.failed = e->answer.failed || failed.failed || skipped.failed;
	json_done(&failed);
	json_done(&skipped);
	on_ended(e);
}

void se_cleanup(struct req *r)
{
	struct se_cleanup_in in = { 0 };
	struct ci_body body = { 0 };

	if (r->body_len > 0 && ci_decode(r, &se_cleanup_fields, &body, &in) < 0)
		return;
	ci_body_done(&body);
	clean_up(r, in.force);
}

/* --- GET -------------------------------------------------------------------------------------- */

void se_workspaces(struct req *r)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "workspaces", '{');
	for (const struct abox *a = r->g->aboxes; a != NULL; a = a->next) {
		const char *name =
			a->tenant == r->tenant && a->state == ABOX_READY ? se_name(a) : NULL;

		if (name == NULL)
			continue;
		json_open(&j, name, '{');
		json_str(&j, "mount_point", SE_MOUNT_POINT);
		own_time(&j, "created_at", a->created_ms);
		json_close(&j, '}');
	}
	json_close(&j, '}');
	json_close(&j, '}');
	se_answer(r, &j);
}
