// SPDX-License-Identifier: Apache-2.0
/*
 * Jupyter's REST calls about kernels. One that is made here has a box of its own, which is made by the own API's call, ends
 * with its kernel, and is marked as such by its metadata: so the next gate knows it, too.
 */
#include "gate/jup.h"

#include "base/clock.h"
#include "base/own.h"

#include <stdio.h>
#include <string.h>

#define MARK \
	"jupyter.kernel" /* in the metadata of a box that is one kernel's own: what kind it is */

enum { KIND = 64 }; /* a name of one, with its NUL */

/* --- a kernel as clients see it ------------------------------------------------------------------- */

/* What kind of kernel it is; NULL: of a box that is not its own. */
static const char *own_kind(const struct abox *a)
{
	return texts_get(&a->metadata, MARK);
}

static const char *execution_state(const struct kernel *k)
{
	static const char *const states[] = { [KERNEL_NONE] = "starting",
					      [KERNEL_STARTING] = "starting",
					      [KERNEL_IDLE] = "idle",
					      [KERNEL_BUSY] = "busy",
					      [KERNEL_DYING] = "restarting" };

	if (k->state == KERNEL_NONE && k->failed)
		return "dead";
	return k->state == KERNEL_IDLE && k->jup != NULL && k->jup->first != NULL
		       ? "busy"
		       : states[k->state];
}

void jup_put_kernel(struct json *j, const char *key, const struct kernel *k)
{
	const char *kind = own_kind(k->a);

	json_open(j, key, '{');
	json_str(j, "id", k->uuid);
	json_str(j, "name", kind != NULL ? kind : "python3");
	own_time(j, "last_activity", k->jup != NULL ? k->jup->active_ms : k->a->created_ms);
	json_str(j, "execution_state", execution_state(k));
	json_u64(j, "connections", k->jup != NULL ? k->jup->nclients : 0);
	json_close(j, '}');
}

void jup_location(struct req *r, const char *what, const char *id)
{
	if ((r->route->flags & ROUTE_IN_BOX) != 0)
		req_header(r, "Location", "/v1/boxes/%.*s/jupyter/api/%s/%s", (int)r->param[0].n,
			   r->param[0].p, what, id);
	else
		req_header(r, "Location", "/api/%s/%s", what, id);
}

bool jup_sees(const struct req *r, const struct abox *scope, const struct kernel *k)
{
	const struct abox *a = k->a;

	return a->tenant == r->tenant && a->state == ABOX_READY && !k->unwanted &&
	       (scope == NULL || scope == a);
}

struct kernel *jup_find(struct req *r)
{
	struct http_slice id = req_param(r);
	struct kernel *k = kernel_with_uuid(r->g, r->tenant, id.p, id.n);
	struct abox *scope;

	if (req_box(r, &scope) < 0)
		return NULL;
	if (k == NULL || !jup_sees(r, scope, k)) {
		req_refuse(r, 404, "not_found", NULL, "Kernel does not exist: %.*s",
			   (int)(id.n < 64 ? id.n : 64), id.p);
		return NULL;
	}
	return k;
}

/* Whether the box was made for this kernel, and has no other. */
static bool is_alone(const struct kernel *k)
{
	const struct kernel *other = k->a->kernels;

	while (other != NULL && (other == k || other->unwanted))
		other = other->next;
	return own_kind(k->a) != NULL && other == NULL;
}

void jup_end(struct kernel *k, bool again)
{
	if (k->unwanted)
		return;
	if (again) {
		kernel_end(k, true);
		kernel_turn(k);
	} else if (is_alone(k)) {
		abox_end(k->a, REASON_DELETED);
	} else {
		kernel_end(k, false);
	}
}

void jup_end_for(struct kernel *k, struct req *r)
{
	if (is_alone(k) && !k->unwanted) {
		abox_delete_for(k->a, r);
		return;
	}
	kernel_await(k, r);
	jup_end(k, false);
}

/* --- calls ------------------------------------------------------------------------------------------ */

void jup_kernel_list(struct req *r)
{
	struct abox *scope;
	struct json j;

	if (req_box(r, &scope) < 0)
		return;
	json_init(&j);
	json_open(&j, NULL, '[');
	for (const struct abox *a = r->g->aboxes; a != NULL; a = a->next)
		for (const struct kernel *k = a->kernels; k != NULL; k = k->next)
			if (jup_sees(r, scope, k))
				jup_put_kernel(&j, NULL, k);
	json_close(&j, ']');
	req_json(r, 200, &j);
}

static void reply_kernel(struct req *r, int status, const struct kernel *k)
{
	struct json j;

	json_init(&j);
	jup_put_kernel(&j, NULL, k);
	if (status == 201)
		jup_location(r, "kernels", k->uuid);
	req_json(r, status, &j);
}

void jup_kernel_get(struct req *r)
{
	struct kernel *k = jup_find(r);

	if (k != NULL)
		reply_kernel(r, 200, k);
}

void jup_kernel_delete(struct req *r)
{
	struct kernel *k = jup_find(r);

	if (k == NULL)
		return;
	audit(r->g, "kernel_ended", r, "tenant", k->a->tenant->name, "box", k->a->id, NULL);
	jup_end_for(k, r);
}

void jup_kernel_interrupt(struct req *r)
{
	struct kernel *k = jup_find(r);

	if (k == NULL)
		return;
	abox_touch(k->a);
	if (k->running != NULL)
		cell_interrupt(k->running, 0);
	req_reply(r, 204, NULL, "", 0);
}

void jup_kernel_restart(struct req *r)
{
	struct kernel *k = jup_find(r);

	if (k == NULL)
		return;
	abox_touch(k->a);
	audit(r->g, "kernel_restarted", r, "tenant", k->a->tenant->name, "box", k->a->id, NULL);
	jup_end(k, true);
	reply_kernel(r, 200, k);
}

/* --- POST ------------------------------------------------------------------------------------------- */

/* A box on its way: the own API's call, whose answer comes back here. */
struct making_kernel {
	struct req inner;
	struct req *outer; /* NULL: its client has gone */
	struct gate *g;
	jup_made_fn made;
	struct deferred deferred;
};

static void making_free(void *arg)
{
	struct making_kernel *m = arg;

	free(m->inner.body);
	free(m);
}

static void outer_gone(struct req *r)
{
	struct making_kernel *m = r->work;

	m->outer = NULL;
	if (m->inner.gone != NULL) {
		m->inner.gone(&m->inner);
		loop_defer(&m->g->loop, &m->deferred, making_free, m);
	}
}

/* Our box, by its answer. */
static struct abox *made_box(struct making_kernel *m, const char *body, size_t n)
{
	struct json_member id = { .key = "id" };
	static char text[OWN_ID];
	struct json_text t;

	if (json_text_read(body, n, &t) < 0)
		return NULL;
	json_text_find(t, &id, 1);
	if (!json_text_str(id.value, text, sizeof(text)))
		return NULL;
	return abox_with_id(m->g, m->inner.tenant, text, strlen(text));
}

static void refuse_as(struct req *r, int status, const char *body, size_t n)
{
	struct json_member error = { .key = "error" }, message = { .key = "message" },
			   code = { .key = "code" };
	char text[512] = "no kernel can be made", name[64] = "";
	struct json_text t;

	if (json_text_read(body, n, &t) == 0) {
		json_text_find(t, &error, 1);
		json_text_find(error.value, &message, 1);
		json_text_find(error.value, &code, 1);
		(void)json_text_str(message.value, text, sizeof(text));
		(void)json_text_str(code.value, name, sizeof(name));
	}
	req_refuse(r, strcmp(name, "quota_exceeded") == 0 ? 403 : status, name, NULL, "%s", text);
}

static void on_made(struct req *inner, int status, const void *body, size_t n)
{
	struct making_kernel *m = (struct making_kernel *)inner; /* its first member */
	struct req *r = m->outer;
	struct abox *a = status == 201 ? made_box(m, body, n) : NULL;
	struct kernel *k = a != NULL ? kernel_new(a, "main") : NULL;

	loop_defer(&m->g->loop, &m->deferred, making_free, m);
	if (k != NULL && jup_of(k) == NULL)
		k = NULL;
	if (k == NULL && a != NULL)
		abox_end(a, REASON_DELETED);
	if (k != NULL)
		kernel_turn(k);
	if (r == NULL)
		return;
	r->gone = NULL;
	if (k != NULL)
		m->made(r, k);
	else if (a != NULL)
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
	else
		refuse_as(r, status, body, n);
}

int jup_body(struct req *r, struct json_text *ret)
{
	static const struct json_text nothing = { "{}", 2 };
	int rc = 0;

	*ret = nothing;
	if (r->body_len > 0)
		rc = json_text_read(r->body, r->body_len, ret);
	if (rc == 0 && json_text_kind(*ret) == 'n')
		*ret = nothing;
	if (rc == 0 && json_text_kind(*ret) == '{')
		return 0;
	req_refuse(r, 400, "invalid_json", NULL, "Invalid JSON in body of request");
	return -1;
}

/* How many kernels a tenant has that were made here. */
static uint64_t count_kernels(const struct req *r)
{
	uint64_t n = 0;

	for (const struct abox *a = r->g->aboxes; a != NULL; a = a->next)
		n += a->tenant == r->tenant && a->state != ABOX_ENDING && own_kind(a) != NULL;
	return n;
}

static int check_limit(struct req *r)
{
	uint64_t max = config_u64(&r->g->config, CONF_JUPYTER_MAX_KERNELS);

	if (max == 0 || count_kernels(r) < max)
		return 0;
	req_refuse(r, 403, "quota_exceeded", NULL,
		   "there are %llu kernels already (jupyter_max_kernels)", (unsigned long long)max);
	return -1;
}

/* Servers in gateway mode may send all that they have: a kernel gets what is meant for it, and what jupyter_client_env
 * names. */
static bool is_for_kernel(const struct gate *g, struct json_text key)
{
	char name[256];
	unsigned int n;
	char *const *items = config_list(&g->config, CONF_JUPYTER_CLIENT_ENV, &n);

	if (!json_text_str(key, name, sizeof(name)))
		return false;
	if (strncmp(name, "KERNEL_", 7) == 0)
		return true;
	for (unsigned int i = 0; i < n; i++)
		if (strcmp(name, items[i]) == 0)
			return true;
	return false;
}

/* What kind of kernel is asked for. -1: answered. */
static int take_kind(struct req *r, struct json_text body, char name[KIND])
{
	struct json_member m = { .key = "name" };

	(void)snprintf(name, KIND, "python3");
	json_text_find(body, &m, 1);
	if (json_text_kind(m.value) != '"' ||
	    (json_text_str(m.value, name, KIND) && jup_is_spec(r->g, name)))
		return 0;
	req_refuse(r, 404, "not_found", NULL, "No such kernel spec: %.50s", name);
	return -1;
}

/* What is asked for, for the own API. -1: answered. */
static int put_body(struct req *r, struct json_text body, struct json *j)
{
	struct json_member env = { .key = "env" };
	char name[KIND];

	if (take_kind(r, body, name) < 0)
		return -1;
	json_text_find(body, &env, 1);
	json_open(j, NULL, '{');
	json_open(j, "metadata", '{');
	json_str(j, MARK, name);
	json_close(j, '}');
	if (!env_is_own(name))
		json_str(j, "environment", name);
	if (json_text_kind(env.value) == '{') {
		struct json_walk w = json_walk(env.value);
		struct json_text key, value;

		json_open(j, "env", '{');
		while (json_walk_next(&w, &key, &value))
			if (is_for_kernel(r->g, key)) {
				json_text_put_key(key, j);
				json_text_put(value, j, NULL);
			}
		json_close(j, '}');
	}
	json_u64(j, "ttl_seconds", config_u64(&r->g->config, CONF_BOX_TTL_MAX) / US_PER_S);
	json_u64(j, "idle_seconds", config_u64(&r->g->config, CONF_JUPYTER_CULL_IDLE) / US_PER_S);
	json_close(j, '}');
	json_raw(j, "", 1); /* its NUL */
	return 0;
}

/* One more in a box that is there. */
static void make_in(struct req *r, struct abox *a, struct json_text body, jup_made_fn made)
{
	struct kernel *k = NULL;
	char name[KERNEL_NAME], kind[KIND];

	if (take_kind(r, body, kind) < 0)
		return;

	/* Numbers of jobs rise: no name is used twice. */
	for (uint64_t i = a->box->next_job; i <= a->box->next_job + BOX_KERNELS_MAX && k == NULL;
	     i++) {
		(void)snprintf(name, sizeof(name), "jupyter-%llu", (unsigned long long)i);
		if (kernel_named(a, name, strlen(name)) == NULL)
			k = kernel_new(a, name);
	}
	if (k == NULL || jup_of(k) == NULL) {
		req_refuse(r, 403, "too_many", NULL, "a box has at most %d kernels",
			   BOX_KERNELS_MAX);
		return;
	}
	abox_touch(a);
	kernel_turn(k);
	made(r, k);
}

void jup_make(struct req *r, struct json_text body, jup_made_fn made)
{
	static const struct req_via via = { .reply = on_made };
	struct making_kernel *m;
	struct abox *scope;
	struct json j;

	if (req_box(r, &scope) < 0)
		return;
	if (scope != NULL) {
		make_in(r, scope, body, made);
		return;
	}
	if (check_limit(r) < 0)
		return;
	m = calloc(1, sizeof(*m));
	json_init(&j);
	if (m == NULL || put_body(r, body, &j) < 0 || j.failed) {
		if (m == NULL || j.failed)
			req_refuse(r, 503, "no_memory", NULL, "out of memory");
		json_done(&j);
		free(m);
		return;
	}
	m->g = r->g;
	m->made = made;
	m->outer = r;
	m->inner.g = r->g;
	m->inner.tenant = r->tenant;
	(void)memcpy(m->inner.id, r->id, sizeof(m->inner.id));
	m->inner.via = &via;
	m->inner.body = j.buf;
	m->inner.body_len = j.len - 1;
	r->work = m;
	r->gone = outer_gone;
	box_create(&m->inner);
}

static void on_kernel(struct req *r, struct kernel *k)
{
	reply_kernel(r, 201, k);
}

void jup_kernel_create(struct req *r)
{
	struct json_text body;

	if (jup_body(r, &body) == 0)
		jup_make(r, body, on_kernel);
}
