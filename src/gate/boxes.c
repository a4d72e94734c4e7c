// SPDX-License-Identifier: Apache-2.0
/*
 * The boxes of the own API: finding one, how long it lives, what it is like, its end.
 *
 * A box ends at a time that was set when it was made or by PATCH, or when it has been idle for too long: no command, no
 * operation on its files, no terminal that somebody looks at. This gate sees to both; the keeper has a deadline a little behind, for the case that
 * there is no gate. For an hour after its end a box is 410 and says why.
 */
#include "gate/boxes.h"
#include "gate/box_fork.h"
#include "gate/box_net.h"

#include "gate/fileop.h"

#include "base/clock.h"
#include "base/layers.h"
#include "base/own.h"
#include "gate/ports.h"
#include "gate/published.h"
#include "gate/se.h"
#include "gate/tool_approvals.h"
#include "gate/tool_calls.h"
#include "gate/tool_rules.h"
#include "gate/tool_runs.h"
#include "wire/msg.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
	GRACE_US = 30 * 1000 * 1000, /* a gate that hangs is replaced in less */
	TOMBS_MAX = 8192,
};
#define TOMB_US (3600 * US_PER_S)

/* A box that was. */
struct tomb {
	struct table_item item; /* its first member */
	char id[OWN_ID];
	const struct tenant *tenant;
	enum abox_reason reason;
	uint64_t at_us;
};

/* Somebody waits for its end. */
struct deletion {
	struct deletion *next;
	void (*done)(void *arg);
	void *arg;
};

static const char *const reasons[] = { "ttl", "idle", "deleted", "oom", "restart", "crashed" };
_Static_assert(ARRAY_LEN(reasons) == REASON_MAX, "a word for every reason");

const char *abox_reason_str(enum abox_reason reason)
{
	return reasons[reason];
}

const char *abox_state_str(const struct abox *a)
{
	if (a->state == ABOX_READY)
		return a->running > 0 ? "busy" : "ready";
	return a->state == ABOX_CREATING ? "creating" : "ending";
}

/* --- pairs of texts ---------------------------------------------------------------------------- */

int texts_add(struct texts *t, const char *key, size_t nkey, const char *value, size_t nvalue)
{
	char *p = realloc(t->p, t->n + nkey + nvalue + 2);

	if (p == NULL)
		return -ENOMEM;
	t->p = p;
	p += t->n;
	(void)memcpy(p, key, nkey);
	p[nkey] = '\0';
	(void)memcpy(p + nkey + 1, value, nvalue);
	p[nkey + 1 + nvalue] = '\0';
	t->n += nkey + nvalue + 2;
	return 0;
}

void texts_remove(struct texts *t, const char *key)
{
	const char *k, *v;
	size_t at = 0, from = 0;

	while (texts_next(t, &at, &k, &v)) {
		if (strcmp(k, key) == 0) {
			(void)memmove(t->p + from, t->p + at, t->n - at);
			t->n -= at - from;
			return;
		}
		from = at;
	}
}

void texts_done(struct texts *t)
{
	free(t->p);
	*t = (struct texts){ 0 };
}

bool texts_next(const struct texts *t, size_t *at, const char **key, const char **value)
{
	if (*at >= t->n)
		return false;
	*key = t->p + *at;
	*at += strlen(*key) + 1;
	*value = *at < t->n ? t->p + *at : "";
	*at += strlen(*value) + 1;
	return true;
}

const char *texts_get(const struct texts *t, const char *key)
{
	const char *k, *v;
	size_t at = 0;

	while (texts_next(t, &at, &k, &v))
		if (strcmp(k, key) == 0)
			return v;
	return NULL;
}

/* --- those that were ---------------------------------------------------------------------------- */

/* Ids are random: any of their bytes will do. */
static uint32_t id_hash(const char *id, size_t n)
{
	uint32_t h = 0;

	for (size_t i = n < 6 ? 0 : n - 6; i < n; i++)
		h = h * 31 + (unsigned char)id[i];
	return h;
}

static struct tomb *tomb_of(struct table_item *i)
{
	return (struct tomb *)i; /* its first member */
}

static void bury(struct gate *g, const struct abox *a)
{
	struct tomb *t = calloc(1, sizeof(*t));
	uint64_t now = g->loop.now_us;

	if (t == NULL)
		return;
	(void)memcpy(t->id, a->id, sizeof(t->id));
	t->tenant = a->tenant;
	t->reason = a->reason;
	t->at_us = now;
	if (table_add(&g->tombs, &t->item, id_hash(t->id, strlen(t->id))) < 0)
		free(t);
	while (g->tombs.n > TOMBS_MAX ||
	       (g->tombs.n > 0 && now - tomb_of(g->tombs.oldest)->at_us >= TOMB_US)) {
		t = tomb_of(g->tombs.oldest);
		table_remove(&g->tombs, &t->item);
		free(t);
	}
}

static const struct tomb *tomb_find(const struct req *r, struct http_slice id)
{
	struct table_item *i = table_first(&r->g->tombs, id_hash(id.p, id.n));

	for (; i != NULL; i = table_next(i)) {
		const struct tomb *t = tomb_of(i);

		if (t->tenant == r->tenant && http_slice_is(id, t->id) &&
		    r->g->loop.now_us - t->at_us < TOMB_US)
			return t;
	}
	return NULL;
}

/* --- finding one -------------------------------------------------------------------------------- */

struct abox *abox_named(const struct gate *g, const struct tenant *t, const char *name, size_t n)
{
	for (struct abox *a = g->aboxes; a != NULL; a = a->next)
		if (a->tenant == t && a->state != ABOX_ENDING && a->name[0] != '\0' &&
		    strlen(a->name) == n && memcmp(a->name, name, n) == 0)
			return a;
	return NULL;
}

int abox_known(struct abox *a)
{
	return table_add(&a->g->abox_table, &a->by_id, id_hash(a->id, strlen(a->id)));
}

struct abox *abox_with_id(const struct gate *g, const struct tenant *t, const char *id, size_t n)
{
	struct table_item *i = table_first(&g->abox_table, id_hash(id, n));

	for (; i != NULL; i = table_next(i)) {
		struct abox *a = (struct abox *)((char *)i - offsetof(struct abox, by_id));

		if (a->tenant == t && http_slice_is((struct http_slice){ id, n }, a->id))
			return a;
	}
	return NULL;
}

struct abox *abox_find(struct req *r, bool ready)
{
	struct http_slice id = r->param[0];
	const struct tomb *t;
	bool named = id.n > 5 && memcmp(id.p, "name:", 5) == 0;
	struct abox *a = named ? abox_named(r->g, r->tenant, id.p + 5, id.n - 5)
			       : abox_with_id(r->g, r->tenant, id.p, id.n);
	int n = (int)(id.n < 128 ? id.n : 128);
	char ended[OWN_TIME];

	if (a != NULL && (!ready || a->state == ABOX_READY))
		return a;
	t = tomb_find(r, id);
	if (a != NULL)
		own_refuse(r, OWN_WRONG_STATE, NULL, "the box '%s' is %s", a->id,
			   abox_state_str(a));
	else if (t != NULL) {
		own_time_text(ended, own_now_ms() - (r->g->loop.now_us - t->at_us) / 1000);
		own_refuse_with(r, OWN_GONE, NULL,
				(const char *const[]){ "reason", abox_reason_str(t->reason),
						       "ended_at", ended, NULL },
				"the box '%s' has ended: %s", t->id, abox_reason_str(t->reason));
	} else
		own_refuse(r, OWN_NOT_FOUND, NULL, "there is no box '%.*s'", n, id.p);
	return NULL;
}

/* --- the end ------------------------------------------------------------------------------------ */

void abox_make_of(struct abox *a, struct genv *v)
{
	genv_take(v);
	if (a->made_of != NULL)
		genv_give(a->made_of);
	a->made_of = v;
}

struct abox *abox_new(struct gate *g, const struct tenant *tenant)
{
	struct abox *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->g = g;
	a->tenant = tenant;
	abox_make_of(a, genv_own(g));
	a->next = g->aboxes;
	if (a->next != NULL)
		a->next->prev = a;
	g->aboxes = a;
	g->naboxes++;
	return a;
}

static void abox_free(void *arg)
{
	struct abox *a = arg;

	texts_done(&a->env);
	texts_done(&a->metadata);
	texts_done(&a->tools);
	net_policy_done(&a->net);
	texts_done(&a->wanted);
	task_keys_done(a);
	genv_give(a->made_of);
	free(a);
}

static void answer_deletions(struct abox *a)
{
	while (a->deletions != NULL) {
		struct deletion d = *a->deletions;

		free(a->deletions);
		a->deletions = d.next;
		d.done(d.arg);
	}
}

static void abox_unlink(struct abox *a)
{
	struct gate *g = a->g;

	timer_clear(&g->loop, &a->life);
	ports_end(a);
	abox_unsaved(a);
	keeper_forget(&g->keeper, a);
	table_remove(&g->abox_table, &a->by_id);
	if (a->prev != NULL)
		a->prev->next = a->next;
	else
		g->aboxes = a->next;
	if (a->next != NULL)
		a->next->prev = a->prev;
	g->naboxes--;
	if (a->counted)
		quota_give(g, a->tenant);
	a->counted = false;
	loop_defer(&g->loop, &a->deferred, abox_free, a);
}

/* Nothing of it is left. */
static void abox_over(struct abox *a)
{
	bury(a->g, a);
	abox_unlink(a);
	answer_deletions(a);
}

static void on_box_ended(void *arg, const struct box_figures *f)
{
	struct abox *a = arg;

	(void)f;
	abox_over(a);
}

/* What is in it ends first, and says why. */
static void end_all(struct abox *a, enum abox_reason reason)
{
	char why[64];

	a->state = ABOX_ENDING;
	a->reason = reason;
	(void)snprintf(why, sizeof(why), "the box has ended: %s", abox_reason_str(reason));
	timer_clear(&a->g->loop, &a->life);
	published_end(a);
	ports_end(a);
	tasks_end(a, reason == REASON_OOM, why);
	kernels_end(a);
	ttys_end(a);
	streams_end(a);
	file_calls_end(a);
	forking_end(a);
	tool_runs_end(a);
	approvals_end(a);
	tool_servers_end(a);
	se_end(a);
	making_done(a);
	if (reason == REASON_TTL || reason == REASON_IDLE)
		audit(a->g, "box_expired", NULL, "tenant", a->tenant->name, "box", a->id, "reason",
		      abox_reason_str(reason), NULL);
}

void abox_end(struct abox *a, enum abox_reason reason)
{
	struct gbox *box = a->box;

	if (a->state == ABOX_ENDING)
		return;
	end_all(a, reason);
	a->box = NULL;
	if (box != NULL)
		gbox_end(box, on_box_ended, a);
	else
		abox_over(a);
}

void abox_drop(struct abox *a)
{
	struct gbox *box = a->box;

	if (a->state == ABOX_ENDING)
		return;
	a->state = ABOX_ENDING;
	a->box = NULL;
	making_done(a);
	if (box != NULL)
		gbox_end(box, NULL, NULL);
	abox_unlink(a);
}

/* --- what the keeper tells ------------------------------------------------------------------------ */

static void on_ready(void *arg, struct gbox *b)
{
	struct abox *a = arg;

	a->box = b;
	a->layers = b->info.layers;
	if (a->making != NULL) {
		making_ready(a);
		return;
	}
	a->state = ABOX_READY; /* taken over */
	a->g->metrics.adopted[ADOPTED_BOX]++;
	kernels_adopt(a);
	tasks_adopt(a);
	ttys_adopt(a);
	ports_adopt(a);
	published_adopt(a);
	if (a->held) /* the gate before this one died over a copy of it */
		gbox_signal(b, SIGCONT);
	a->held = false;
	a->idle_at_us = a->g->loop.now_us + a->idle_us;
	abox_schedule(a);
}

static void on_failed(void *arg, const struct err *e)
{
	struct abox *a = arg;

	a->box = NULL;
	a->g->metrics.boxes_failed++;
	gate_log_err(a->g, "box_failed", e);
	if (a->making == NULL) /* of another gate, and lost with it */
		abox_end(a, REASON_RESTART);
	else
		making_refused(a, e);
}

static void on_gone(void *arg, enum box_end why, const struct box_figures *f)
{
	struct abox *a = arg;
	bool oom = f != NULL && f->oom_kills > 0;
	enum abox_reason reason = REASON_CRASHED;

	a->box = NULL;
	if (oom) {
		a->g->metrics.boxes_oom++;
		audit(a->g, "limit_hit", NULL, "limit", "memory", "tenant", a->tenant->name, "box",
		      a->id, NULL);
	}
	if (a->making != NULL) {
		making_failed(a, OWN_BOX_LOST, NULL, "the box ended unexpectedly");
		return;
	}
	if (a->state == ABOX_ENDING)
		return;
	if (why == BOX_END_DEADLINE)
		reason = a->ends_us <= clock_us() ? REASON_TTL : REASON_IDLE;
	else if (why == BOX_END_INIT && oom)
		reason = REASON_OOM;
	end_all(a, reason);
	abox_over(a);
}

static void on_refused(void *arg, const char *call)
{
	struct abox *a = arg;

	audit(a->g, "syscall_refused", NULL, "syscall", call, "tenant", a->tenant->name, "box",
	      a->id, NULL);
}

const struct gbox_ops abox_ops = {
	.ready = on_ready, .failed = on_failed, .gone = on_gone, .refused = on_refused
};

/* --- how long it lives ------------------------------------------------------------------------------ */

static bool is_idle(const struct abox *a)
{
	return a->running == 0 && a->attached == 0 && a->nfiles == 0;
}

static uint64_t next_end(const struct abox *a)
{
	return a->idle_us != 0 && is_idle(a) && a->idle_at_us < a->ends_us ? a->idle_at_us
									   : a->ends_us;
}

static void on_life(void *arg)
{
	struct abox *a = arg;
	uint64_t now = a->g->loop.now_us;

	if (now >= a->ends_us)
		abox_end(a, REASON_TTL);
	else if (a->idle_us != 0 && is_idle(a) && now >= a->idle_at_us)
		abox_end(a, REASON_IDLE);
	else
		abox_schedule(a);
}

static void tell_keeper(struct abox *a, uint64_t at_us)
{
	uint64_t now = clock_us();
	struct msg_out m;
	uint8_t body[16];

	if (a->told_us == at_us)
		return;
	a->told_us = at_us;
	msg_out_init(&m, body, sizeof(body));
	msg_put_u64(&m, a->box->id);
	msg_put_u64(&m, (at_us > now ? at_us - now : 1) + GRACE_US);
	(void)keeper_ask(&a->g->keeper, OP_BOX_DEADLINE, body, m.len, NULL, NULL);
}

void abox_schedule(struct abox *a)
{
	uint64_t at = next_end(a);

	if (a->state != ABOX_READY || a->box == NULL)
		return;
	tell_keeper(a, at);
	if (timer_set(&a->g->loop, &a->life, at, on_life, a) < 0)
		abox_end(a, REASON_CRASHED);
}

/* The timer stays where it is, and looks again when its time has come; so does the keeper's deadline, which is behind. */
void abox_touch(struct abox *a)
{
	a->idle_at_us = a->g->loop.now_us + a->idle_us;
	if (a->state == ABOX_READY && next_end(a) < a->life.at_us)
		abox_schedule(a);
}

/* --- what it is like -------------------------------------------------------------------------------- */

static void put_limits(struct json *j, const struct limits *l)
{
	json_open(j, "limits", '{');
	for (int i = 0; i < LIMIT_ID_MAX; i++) {
		const struct limit_row *row = limit_row((enum limit_id)i);

		if (row->unit == LIMIT_MILLI)
			json_milli(j, row->key, l->v[i]);
		else
			json_u64(j, row->key, l->v[i]);
	}
	json_close(j, '}');
}

void abox_put(const struct abox *a, struct json *j)
{
	const char *key, *value;
	size_t at = 0;

	json_str(j, "id", a->id);
	if (a->name[0] != '\0')
		json_str(j, "name", a->name);
	else
		json_null(j, "name");
	json_str(j, "state", abox_state_str(a));
	json_str(j, "environment", a->environment);
	json_str(j, "backend", "native");
	json_open(j, "layers", '[');
	for (int i = 0; i < LAYER_MAX; i++)
		if ((a->layers & LAYER_BIT(i)) != 0)
			json_str(j, NULL, layer_row((enum layer)i)->name);
	json_close(j, ']');
	put_limits(j, &a->limits);
	json_open(j, "network", '{');
	box_net_put(a, j);
	json_close(j, '}');
	json_open(j, "metadata", '{');
	while (texts_next(&a->metadata, &at, &key, &value))
		json_str(j, key, value);
	json_close(j, '}');
	tool_rules_put(&a->tools, j);
	json_str(j, "workdir", box_workdir(a->app ? BOX_APP : 0));
	ports_put(a, j);
	published_put(a, j);
	json_u64(j, "ttl_seconds", a->ttl_us / US_PER_S);
	json_u64(j, "idle_seconds", a->idle_us / US_PER_S);
	own_time(j, "created_at", a->created_ms);
	own_time(j, "expires_at", a->expires_ms);
}

static void put_measured(struct json *j, const char *key, bool has, uint64_t v)
{
	if (has)
		json_u64(j, key, v);
	else
		json_null(j, key);
}

void abox_put_figures(const struct abox *a, struct json *j, const struct box_figures *f)
{
	if (f == NULL) {
		json_null(j, "figures");
		return;
	}
	json_open(j, "figures", '{');
	json_u64(j, "wall_ms", f->wall_us / 1000);
	put_measured(j, "cpu_ms", (f->has & FIGURE_CPU) != 0, f->cpu_us / 1000);
	put_measured(j, "peak_memory_bytes", (f->has & FIGURE_PEAK) != 0, f->peak_memory_bytes);
	put_measured(j, "oom_kills", (f->has & FIGURE_OOM) != 0, f->oom_kills);
	box_net_put_figures(a, j, f);
	json_close(j, '}');
}

/* --- GET -------------------------------------------------------------------------------------------- */

/* Somebody waits for figures; the box may go meanwhile. */
struct asking {
	struct req *r;
	char id[OWN_ID];
};

static void answer_box(struct req *r, const struct abox *a, const struct box_figures *f)
{
	struct json j;

	json_init(&j);
	json_open(&j, NULL, '{');
	abox_put(a, &j);
	abox_put_figures(a, &j, f);
	json_close(&j, '}');
	req_json(r, 200, &j);
}

static void on_figures(void *arg, struct chan_msg *m, const struct err *e)
{
	struct asking *q = arg;
	struct req *r = q->r;
	struct box_figures f;
	struct abox *a = NULL;
	bool has = m != NULL && box_figures_decode(m->body, m->len, &f) == 0;

	(void)e;
	if (m != NULL)
		chan_msg_close(m);
	if (r != NULL) {
		r->gone = NULL;
		for (a = r->g->aboxes; a != NULL && strcmp(a->id, q->id) != 0;)
			a = a->next;
	}
	free(q);
	if (a != NULL)
		answer_box(r, a, has ? &f : NULL);
	else if (r != NULL)
		(void)abox_find(r, false); /* says what has become of it */
}

static void asking_gone(struct req *r)
{
	struct asking *q = r->work;

	q->r = NULL;
}

void box_get(struct req *r)
{
	struct abox *a = abox_find(r, false);
	struct asking *q;

	if (a == NULL)
		return;
	q = a->box != NULL && a->state == ABOX_READY ? calloc(1, sizeof(*q)) : NULL;
	if (q == NULL) {
		answer_box(r, a, NULL);
		return;
	}
	q->r = r;
	(void)memcpy(q->id, a->id, sizeof(q->id));
	r->work = q;
	r->gone = asking_gone;
	if (keeper_ask_box(&r->g->keeper, OP_BOX_FIGURES, a->box->id, on_figures, q) < 0)
		on_figures(q, NULL, NULL);
}

/* --- PATCH ------------------------------------------------------------------------------------------ */

struct box_patch {
	int64_t ttl_seconds, idle_seconds;
	bool ttl_set, idle_set, metadata_set;
	struct field_list metadata;
};

static const struct field patch_rows[] = {
	{ .name = "ttl_seconds",
	  .type = FIELD_INT,
	  .flags = FIELD_NULLABLE,
	  .min = 1,
	  .max = FIELD_NO_MAX,
	  .at = offsetof(struct box_patch, ttl_seconds),
	  .doc = "how long it lives from now on, whatever happens; null: as it was",
	  .set_at = offsetof(struct box_patch, ttl_set) },
	{ .name = "idle_seconds",
	  .type = FIELD_INT,
	  .flags = FIELD_NULLABLE,
	  .min = 0,
	  .max = FIELD_NO_MAX,
	  .def = -1,
	  .at = offsetof(struct box_patch, idle_seconds),
	  .doc = "how long it lives without a command; 0: as long as it may; null: as it was",
	  .set_at = offsetof(struct box_patch, idle_set) },
	{ .name = "metadata",
	  .type = FIELD_MAP,
	  .flags = FIELD_NULLABLE,
	  .min = 0,
	  .max = 64,
	  .at = offsetof(struct box_patch, metadata),
	  .doc = "in place of what it had; null: as it was",
	  .set_at = offsetof(struct box_patch, metadata_set) },
};

const struct fields box_patch_fields = { "PatchBoxRequest", patch_rows, ARRAY_LEN(patch_rows),
					 sizeof(struct box_patch), FIELDS_CLOSED };

/* Of which session it is stays as it is, said or not. 0, or -1: answered. */
static int keep_session(struct req *r, const struct abox *a, struct texts *fresh)
{
	const char *had = texts_get(&a->metadata, BOX_SESSION_KEY);
	const char *said = texts_get(fresh, BOX_SESSION_KEY);

	if (said != NULL && (had == NULL || strcmp(said, had) != 0)) {
		own_refuse(r, OWN_INVALID_FIELD, "metadata",
			   "'metadata." BOX_SESSION_KEY "' is set by the Sandbox Runtime dialect");
		return -1;
	}
	if (had == NULL || said != NULL ||
	    texts_add(fresh, BOX_SESSION_KEY, strlen(BOX_SESSION_KEY), had, strlen(had)) == 0)
		return 0;
	own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
	return -1;
}

static int patch_metadata(struct req *r, struct abox *a, const struct box_patch *in)
{
	struct texts fresh = { 0 }, old = a->metadata;

	if (!in->metadata_set)
		return 0;
	if (box_take_texts(r, "metadata", &in->metadata, false, &fresh) < 0)
		return -1;
	if (keep_session(r, a, &fresh) < 0) {
		texts_done(&fresh);
		return -1;
	}
	a->metadata = fresh;
	if (abox_fits(a)) {
		texts_done(&old);
		return 0;
	}
	a->metadata = old;
	texts_done(&fresh);
	own_refuse(r, OWN_INVALID_FIELD, "metadata",
		   "'env' and 'metadata' have at most %d bytes together", BOX_TEXTS_MAX);
	return -1;
}

void box_patch(struct req *r)
{
	struct abox *a = abox_find(r, true);
	struct ci_body body;
	struct box_patch in;

	if (a == NULL || own_decode(r, &box_patch_fields, &body, &in) < 0)
		return;
	if (box_check_times(r, in.ttl_set, in.ttl_seconds, in.idle_set, in.idle_seconds) == 0 &&
	    patch_metadata(r, a, &in) == 0) {
		uint64_t now = clock_us();

		if (in.ttl_set) {
			a->ttl_us = (uint64_t)in.ttl_seconds * US_PER_S;
			a->ends_us = now + a->ttl_us;
			a->expires_ms = own_now_ms() + a->ttl_us / 1000;
		}
		if (in.idle_set)
			a->idle_us = (uint64_t)in.idle_seconds * US_PER_S;
		a->idle_at_us = now + a->idle_us;
		abox_changed(a);
		abox_schedule(a);
		ci_body_done(&body);
		box_get(r);
		return;
	}
	ci_body_done(&body);
}

/* --- DELETE ----------------------------------------------------------------------------------------- */

int abox_delete_then(struct abox *a, void (*done)(void *arg), void *arg)
{
	struct deletion *d = malloc(sizeof(*d));

	if (d == NULL)
		return -ENOMEM;
	*d = (struct deletion){ .next = a->deletions, .done = done, .arg = arg };
	a->deletions = d;
	abox_end(a, REASON_DELETED);
	return 0;
}

/* A request that waits for that; its client may leave. */
struct deleter {
	struct req *r;
};

static void deleter_gone(struct req *r)
{
	struct deleter *d = r->work;

	d->r = NULL;
}

static void on_deleted(void *arg)
{
	struct deleter *d = arg;
	struct req *r = d->r;

	free(d);
	if (r == NULL)
		return;
	r->gone = NULL;
	req_reply(r, 204, NULL, "", 0);
}

void abox_delete_for(struct abox *a, struct req *r)
{
	struct deleter *d = malloc(sizeof(*d));

	if (d != NULL) {
		d->r = r;
		r->work = d;
		r->gone = deleter_gone;
		if (abox_delete_then(a, on_deleted, d) == 0)
			return;
		r->gone = NULL;
		free(d);
	}
	own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
}

void box_delete(struct req *r)
{
	struct abox *a = abox_find(r, false);

	if (a == NULL)
		return;
	if (a->state == ABOX_CREATING) {
		own_refuse(r, OWN_WRONG_STATE, NULL, "the box '%s' is creating", a->id);
		return;
	}
	abox_delete_for(a, r);
}
