// SPDX-License-Identifier: Apache-2.0
/*
 * POST /v1/boxes: what is asked for, checked, and the way from there to a box: files that are named exist, a slot is
 * free, the keeper has made it, files are in it, the keeper has its record. Then 201.
 */
#include "gate/box_net.h"
#include "gate/boxes.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "gate/ports.h"
#include "gate/stage.h"
#include "gate/tool_rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ENV_MAX = 256, METADATA_MAX = 64 };

/* --- fields ------------------------------------------------------------------------------------- */

struct box_limits {
	int64_t v[LIMIT_ID_MAX];
	bool set[LIMIT_ID_MAX];
};

struct box_mount_in {
	struct field_str root, path, at;
	bool readonly;
};

struct box_ports {
	int64_t executor, resource; /* 0: a free one */
};

struct box_create {
	struct field_str name, environment, workdir;
	struct box_limits limits;
	struct field_list env, mounts, files, metadata, tools, approvals;
	struct box_network network;
	struct box_ports ports;
	bool ports_set;
	int64_t ttl_seconds, idle_seconds;
	bool ttl_set, idle_set;
};

/* Every row of policy/limits.tbl; what is configured as the most is looked at later. The first member of the struct is
 * not a flag, so that none has the offset 0. */
static const struct field limit_rows[] = {
#define BYTES   FIELD_INT
#define COUNT   FIELD_INT
#define SECONDS FIELD_INT
#define MILLI   FIELD_MILLI
#define KIB(n)  ((int64_t)(n) << 10)
#define MIB(n)  ((int64_t)(n) << 20)
#define GIB(n)  ((int64_t)(n) << 30)
#define TIB(n)  ((int64_t)(n) << 40)
#define LIMIT(id, key, option, unit, def_, min_, max_, doc_) \
	{ .name = #key,                                      \
	  .type = (unit),                                    \
	  .flags = FIELD_NULLABLE,                           \
	  .min = (min_),                                     \
	  .max = (max_),                                     \
	  .def = -1,                                         \
	  .at = offsetof(struct box_limits, v[LIMIT_##id]),  \
	  .doc = (doc_),                                     \
	  .set_at = offsetof(struct box_limits, set[LIMIT_##id]) },
#include "policy/limits.tbl"
#undef LIMIT
};

static const struct fields limit_fields = { "BoxLimits", limit_rows, ARRAY_LEN(limit_rows),
					    sizeof(struct box_limits), FIELDS_CLOSED };

/* clang-format off */
static const struct field mount_rows[] = {
	{ "root", FIELD_STRING, FIELD_REQUIRED, 1, 4095, 0, offsetof(struct box_mount_in, root), .doc = "a directory that mount_root allows: its path, or the last part of it" },
	{ "path", FIELD_STRING, 0, 0, 4095, 0, offsetof(struct box_mount_in, path), .doc = "which part of it; relative, links are not followed", .text = "" },
	{ "at", FIELD_STRING, FIELD_NULLABLE, 0, BOX_AT_MAX - 1, 0, offsetof(struct box_mount_in, at), .doc = "where in the box; absolute; null: /mnt and the last part of the path" },
	{ "readonly", FIELD_BOOL, 0, 0, 0, true, offsetof(struct box_mount_in, readonly), .doc = "whether the box may only read it" },
};
static const struct fields mount_fields = { "BoxMount", mount_rows, ARRAY_LEN(mount_rows), sizeof(struct box_mount_in), FIELDS_CLOSED };

static const struct field file_rows[] = {
	{ "path", FIELD_STRING, FIELD_REQUIRED, 1, 4095, 0, offsetof(struct ci_file, path), .doc = "where in the workspace; relative" },
	{ "file_id", FIELD_STRING, FIELD_ONE_OF, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct ci_file, file_id), .doc = "content: a file of the store" },
	{ "content", FIELD_STRING, FIELD_ONE_OF, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct ci_file, content), .doc = "content: this text" },
	{ "content_base64", FIELD_BASE64, FIELD_ONE_OF, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct ci_file, content_base64), .doc = "content: these bytes, in base64" },
	{ "mode", FIELD_INT, 0, 0, 0777, 0644, offsetof(struct ci_file, mode), .doc = "permissions, as a decimal number" },
};
static const struct fields file_fields = { "BoxFile", file_rows, ARRAY_LEN(file_rows), sizeof(struct ci_file), FIELDS_CLOSED };

static const struct field port_rows[] = {
	{ "executor", FIELD_INT, 0, 0, 65535, 0, offsetof(struct box_ports, executor), .doc = "where its kernels are; from 1024 on; 0: a free one" },
	{ "resource", FIELD_INT, 0, 0, 65535, 0, offsetof(struct box_ports, resource), .doc = "where its files and modules are; from 1024 on; 0: a free one" },
};
static const struct fields port_fields = { "BoxPortNumbers", port_rows, ARRAY_LEN(port_rows), sizeof(struct box_ports), FIELDS_CLOSED };

static const struct field create_rows[] = {
	{ "name", FIELD_STRING, FIELD_NULLABLE, 1, BOX_NAME - 1, 0, offsetof(struct box_create, name), .doc = "yours, and unique: name:x stands for the id in paths; a-z, 0-9, '-', '_' and '.'" },
	{ "environment", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct box_create, environment), .doc = "the programs that it sees: `default`, those of the machine, or one of GET /v1/environments", .text = "default" },
	{ "limits", FIELD_OBJECT, 0, 0, 0, 0, offsetof(struct box_create, limits), .doc = "what it may use; above the configured maximum is refused", .sub = &limit_fields },
	{ "env", FIELD_MAP, 0, 0, ENV_MAX, 0, offsetof(struct box_create, env), .doc = "environment variables of every command" },
	{ "mounts", FIELD_LIST, 0, 0, BOX_MOUNTS_MAX, 0, offsetof(struct box_create, mounts), .doc = "directories of the host, of those that mount_root allows", .sub = &mount_fields },
	{ "files", FIELD_LIST, 0, 0, CI_FILES_MAX, 0, offsetof(struct box_create, files), .doc = "put into the workspace first", .sub = &file_fields },
	{ "network", FIELD_OBJECT, 0, 0, 0, 0, offsetof(struct box_create, network), .doc = "what it may reach", .sub = &box_network_fields },
	{ "ports", FIELD_OBJECT, FIELD_NULLABLE | FIELD_OR_BOOL, 0, 0, 0, offsetof(struct box_create, ports), .doc = "ports of 127.0.0.1 for clients of ipybox; true: two free ones", .sub = &port_fields, .set_at = offsetof(struct box_create, ports_set) },
	{ "workdir", FIELD_STRING, FIELD_NULLABLE, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct box_create, workdir), .doc = "where its programs begin and its files are; null: /app with ports, else /workspace", .words = "/workspace /app" },
	{ "ttl_seconds", FIELD_INT, FIELD_NULLABLE, 1, FIELD_NO_MAX, 0, offsetof(struct box_create, ttl_seconds), .doc = "how long it lives, whatever happens; null: box_ttl_default", .set_at = offsetof(struct box_create, ttl_set) },
	{ "idle_seconds", FIELD_INT, FIELD_NULLABLE, 0, FIELD_NO_MAX, -1, offsetof(struct box_create, idle_seconds), .doc = "how long it lives without a command; 0: as long as it may; null: box_idle_default", .set_at = offsetof(struct box_create, idle_set) },
	{ "metadata", FIELD_MAP, 0, 0, METADATA_MAX, 0, offsetof(struct box_create, metadata), .doc = "yours; the list can be asked for boxes by it" },
	{ "tools", FIELD_STRINGS, 0, 0, TOOL_RULES_MAX, 0, offsetof(struct box_create, tools), .doc = "tools of MCP servers that code in it may call: 'server' or 'server/tool'; none unless said" },
	{ "approvals", FIELD_STRINGS, 0, 0, TOOL_RULES_MAX, 0, offsetof(struct box_create, approvals), .doc = "which of these calls wait until somebody allows them: 'server', 'server/tool', or '*'" },
};
/* clang-format on */

const struct fields box_create_fields = { "CreateBoxRequest", create_rows, ARRAY_LEN(create_rows),
					  sizeof(struct box_create), FIELDS_CLOSED };

/* --- a box on its way ------------------------------------------------------------------------------ */

/* Who waits for it: the request that began it, and those that repeated it. */
struct maker {
	struct maker *next;
	struct abox *a;
	struct req *r;
};

struct making {
	struct maker *makers;
	struct ticket ticket;
	struct stage stage;
	struct stage_file *files;
	size_t nfiles;
	struct ci_strings *strings;
	struct ci_body body;
	struct box_request q;
	char *text;     /* the request's body, into which files point: the request may go first */
	uint32_t image; /* what its kernel is thawed from; 0: the usual one */
	bool plain;     /* no kernel waits in it */
	uint64_t began_us;
	struct deferred deferred;
};

static void making_free(void *arg)
{
	free(arg);
}

void making_done(struct abox *a)
{
	struct making *m = a->making;

	if (m == NULL)
		return;
	a->making = NULL;
	stage_end(&m->stage);
	admit_done(&m->ticket);
	free(m->files);
	ci_strings_free(m->strings);
	ci_body_done(&m->body);
	free(m->text);
	loop_defer(&a->g->loop, &m->deferred, making_free, m); /* its parts may be on the stack */
}

/* Take those who wait: from here on they are the caller's. */
static struct maker *take_makers(struct making *m)
{
	struct maker *all = m->makers;

	m->makers = NULL;
	for (struct maker *w = all; w != NULL; w = w->next)
		w->r->gone = NULL;
	return all;
}

/* The request of the first one, who is released. */
static struct req *next_maker(struct maker **all)
{
	struct maker *w = *all;
	struct req *r;

	if (w == NULL)
		return NULL;
	*all = w->next;
	r = w->r;
	free(w);
	return r;
}

void making_failed(struct abox *a, enum own_error code, const char *field, const char *fmt, ...)
{
	struct making *m = a->making;
	struct maker *makers = take_makers(m);
	struct req *r;
	char text[768];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (code != OWN_NOT_FOUND && code != OWN_SATURATED)
		metrics_completed(&a->g->metrics, OPERATION_BOX, OUTCOME_ERROR,
				  clock_us() - m->began_us);
	abox_drop(a); /* first: an answer may bring the connection's next request */
	while ((r = next_maker(&makers)) != NULL)
		own_refuse(r, code, field, "%s", text);
}

/* Of what the keeper can be asked for only mounts are the client's. An image that has gone is nobody's fault, and a box without
 * one was tried already. */
void making_refused(struct abox *a, const struct err *e)
{
	if (e->kind == ERR_INPUT && e->sys != ESTALE && a->making->q.nmounts > 0) {
		making_failed(a, OWN_INVALID_FIELD, "mounts", "%s", e->text);
	} else {
		metrics_rejected(&a->g->metrics, OPERATION_BOX, REJECT_UNSCHEDULABLE);
		making_failed(a, OWN_UNSCHEDULABLE, NULL, "no box can be made: %s", e->text);
	}
}

static void maker_gone(struct req *r)
{
	struct maker *w = r->work, **at = &w->a->making->makers;
	struct abox *a = w->a;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	free(w);
	/* Nobody knows its id, and nobody can ask again. */
	if (a->making->makers == NULL && !a->idem.set)
		abox_drop(a);
}

static int wait_for(struct abox *a, struct req *r)
{
	struct maker *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return -ENOMEM;
	w->a = a;
	w->r = r;
	w->next = a->making->makers;
	a->making->makers = w;
	r->work = w;
	r->gone = maker_gone;
	return 0;
}

static void on_recorded(void *arg, struct chan_msg *msg, const struct err *e)
{
	struct abox *a = arg;
	struct making *m = a->making;
	struct maker *makers;
	struct req *r;
	struct json j;

	(void)e;
	if (msg == NULL) {
		making_failed(a, OWN_NO_MEMORY, NULL, "the keeper has no memory");
		return;
	}
	chan_msg_close(msg);
	a->state = ABOX_READY;
	ports_accept(a);
	abox_schedule(a);
	metrics_completed(&a->g->metrics, OPERATION_BOX, OUTCOME_OK, clock_us() - m->began_us);
	json_init(&j);
	json_open(&j, NULL, '{');
	abox_put(a, &j);
	json_close(&j, '}');
	if (a->idem.set && !j.failed)
		idem_add(a->g, &a->idem, j.buf, j.len, 0);
	makers = take_makers(m);
	making_done(a);
	while ((r = next_maker(&makers)) != NULL) {
		if (j.failed)
			own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		else
			req_reply(r, 201, "application/json", j.buf, j.len);
	}
	json_done(&j);
}

void making_listens(struct abox *a)
{
	uint64_t now = clock_us();

	a->created_ms = own_now_ms();
	a->expires_ms = a->created_ms + a->ttl_us / 1000;
	a->ends_us = now + a->ttl_us;
	a->idle_at_us = now + a->idle_us;
	if (abox_save(a, on_recorded, a) < 0)
		making_failed(a, OWN_UNSCHEDULABLE, NULL, "the keeper cannot be asked");
}

static void open_ports(struct abox *a)
{
	if (a->listens || a->tools.n > 0)
		ports_open(a);
	else
		making_listens(a);
}

static void on_net(void *arg, struct chan_msg *m, const struct err *e)
{
	struct abox *a = arg;

	if (m == NULL) {
		making_failed(a, OWN_UNSCHEDULABLE, NULL, "no network can be made: %s", e->text);
		return;
	}
	chan_msg_close(m);
	open_ports(a);
}

static void on_staged(void *arg)
{
	struct abox *a = arg;

	if (a->net.mode == NET_NONE) {
		open_ports(a);
		return;
	}
	box_net_owner(a->box, a->tenant, "box", a->id);
	if (box_net_ask(a->box, &a->net, on_net, a) < 0)
		making_failed(a, OWN_UNSCHEDULABLE, NULL, "the keeper cannot be asked");
}

void making_ready(struct abox *a)
{
	struct making *m = a->making;

	if (!a->box->made_ahead)
		metrics_box(&a->g->metrics, a->box->info.setup_us);
	audit(a->g, "box_made", m->makers != NULL ? m->makers->r : NULL, "tenant", a->tenant->name,
	      "for", "box", "box", a->id, "policy", box_net_audit(&a->net), NULL);
	stage_run(&m->stage, a->box, 0);
}

/* --- a kernel that came with the box, until somebody has a cell for it ------------------------------ */

static void on_pooled_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p,
			     size_t n)
{
	struct abox *a = arg;

	(void)stream;
	(void)p;
	(void)n;
	gjob_ack(&a->pooled, number);
}

static void on_pooled_ended(void *arg, const struct job_exit *x, uint64_t number)
{
	struct abox *a = arg;

	(void)x;
	gjob_ack(&a->pooled, number);
	a->has_pooled = false;
}

static void on_pooled_failed(void *arg, int error, const char *why)
{
	struct abox *a = arg;

	(void)error;
	(void)why;
	a->has_pooled = false;
}

static void on_pooled_lost(void *arg)
{
	struct abox *a = arg;

	a->has_pooled = false;
}

static const struct gjob_ops pooled_ops = { .output = on_pooled_output,
					    .ended = on_pooled_ended,
					    .failed = on_pooled_failed,
					    .lost = on_pooled_lost };

static void get_box(struct abox *a)
{
	struct box_request *q = &a->making->q;
	struct err e;

	q->env = a->made_of->row.id;
	warm_want(a->made_of);
	q->image = a->making->image != 0 ? a->making->image : warm_image(a->made_of, WARM_KERNEL);
	if (q->image != 0 && q->nmounts == 0 && !a->making->plain)
		a->box = pool_take(a->g, WARM_KERNEL, q, &a->pooled, &abox_ops, &pooled_ops, a);
	a->has_pooled = a->box != NULL;
	if (a->box == NULL)
		a->box = gbox_new(a->g, q, &abox_ops, a, &e);
	if (a->box == NULL)
		abox_ops.failed(a, &e);
}

static void on_turn(void *arg)
{
	struct abox *a = arg;

	if (!audit_allows(a->g)) {
		making_failed(a, OWN_AUDIT, NULL, "the audit file cannot be written");
		return;
	}
	a->counted = quota_take(a->g, a->tenant);
	if (!a->counted) {
		metrics_rejected(&a->g->metrics, OPERATION_BOX, REJECT_QUOTA);
		making_failed(a, OWN_QUOTA, NULL, "there are as many boxes as there may be");
		return;
	}
	get_box(a);
}

static void on_sent_away(void *arg)
{
	making_failed(arg, OWN_SATURATED, NULL, "too many programs and boxes begin at once");
}

static void on_checked(void *arg)
{
	struct abox *a = arg;

	admit_ask(a->g, &a->making->ticket, OPERATION_BOX, on_turn, on_sent_away, a);
}

static void on_not_staged(void *arg, const struct stage_failure *f)
{
	struct abox *a = arg;
	char field[48];

	(void)snprintf(field, sizeof(field), "files[%zu]", a->making->stage.at);
	if (f->status == 404) {
		(void)snprintf(field, sizeof(field), "files[%zu].file_id", a->making->stage.at);
		making_failed(a, OWN_NOT_FOUND, field, "'%s' is no file of yours", field);
	} else if (f->status == 422) {
		making_failed(a, OWN_INVALID_FIELD, field, "%s", f->text);
	} else {
		making_failed(a, f->status == 503 ? OWN_STORE : OWN_BOX_LOST, NULL, "%s", f->text);
	}
}

/* --- what is asked for ------------------------------------------------------------------------------- */

int box_check_times(struct req *r, bool ttl_set, int64_t ttl_s, bool idle_set, int64_t idle_s)
{
	uint64_t ttl_max = config_u64(&r->g->config, CONF_BOX_TTL_MAX) / US_PER_S;
	uint64_t idle_max = config_u64(&r->g->config, CONF_BOX_IDLE_MAX) / US_PER_S;
	bool ttl = ttl_set && (uint64_t)ttl_s > ttl_max;

	if (!ttl && !(idle_set && idle_max != 0 && (uint64_t)idle_s > idle_max))
		return 0;
	own_refuse(r, OWN_INVALID_FIELD, ttl ? "ttl_seconds" : "idle_seconds",
		   "'%s' must be at most %llu", ttl ? "ttl_seconds" : "idle_seconds",
		   (unsigned long long)(ttl ? ttl_max : idle_max));
	return -1;
}

static bool is_variable(const char *s, size_t n)
{
	if (n == 0 || (*s >= '0' && *s <= '9'))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!(s[i] >= 'a' && s[i] <= 'z') && !(s[i] >= 'A' && s[i] <= 'Z') &&
		    !(s[i] >= '0' && s[i] <= '9') && s[i] != '_')
			return false;
	return true;
}

int box_take_texts(struct req *r, const char *field, const struct field_list *list, bool env,
		   struct texts *t)
{
	const struct field_pair *v = list->v;
	char where[160];

	for (size_t i = 0; i < list->n; i++) {
		(void)snprintf(where, sizeof(where), "%s.%.120s", field, v[i].key.p);
		if (env && !is_variable(v[i].key.p, v[i].key.n)) {
			own_refuse(r, OWN_INVALID_FIELD, where,
				   "'%s' is no name of a variable: letters, digits and '_'", where);
		} else if (v[i].key.n == 0 || v[i].key.n > 128) {
			own_refuse(r, OWN_INVALID_FIELD, field, "a key of '%s' has 1 to 128 bytes",
				   field);
		} else if (texts_add(t, v[i].key.p, v[i].key.n, v[i].value.p, v[i].value.n) < 0) {
			own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		} else {
			continue;
		}
		texts_done(t);
		return -1;
	}
	return 0;
}

static bool is_name(const struct field_str *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (!(s->p[i] >= 'a' && s->p[i] <= 'z') && !(s->p[i] >= '0' && s->p[i] <= '9') &&
		    strchr("-_.", s->p[i]) == NULL)
			return false;
	return true;
}

/* Whether a box of this tenant has it: then that was answered. */
static bool is_taken(struct req *r, const char *name, size_t n)
{
	const struct abox *other = abox_named(r->g, r->tenant, name, n);

	if (other != NULL)
		own_refuse_with(r, OWN_NAME_TAKEN, "name",
				(const char *const[]){ "id", other->id, NULL },
				"a box of yours has the name '%s'", name);
	return other != NULL;
}

int box_take_name(struct req *r, const struct field_str *name, char ret[BOX_NAME])
{
	ret[0] = '\0';
	if (!name->set)
		return 0;
	if (!is_name(name)) {
		own_refuse(r, OWN_INVALID_FIELD, "name",
			   "'name' is made of a-z, 0-9, '-', '_' and '.'");
		return -1;
	}
	if (is_taken(r, name->p, name->n))
		return -1;
	(void)memcpy(ret, name->p, name->n + 1);
	return 0;
}

/* What is used without being asked for, and the most that may be; 0: what policy/limits.tbl says. */
static const struct {
	int standard, most;
} limit_keys[LIMIT_ID_MAX] = {
	[LIMIT_MEMORY] = { CONF_BOX_MEMORY, CONF_BOX_MAX_MEMORY },
	[LIMIT_CPUS] = { CONF_BOX_CPUS, CONF_BOX_MAX_CPUS },
	[LIMIT_PROCESSES] = { CONF_BOX_PROCESSES, CONF_BOX_MAX_PROCESSES },
	[LIMIT_OUTPUT] = { CONF_BOX_OUTPUT_BYTES, CONF_BOX_MAX_OUTPUT_BYTES },
	[LIMIT_WORKSPACE] = { CONF_BOX_WORKSPACE, CONF_BOX_MAX_WORKSPACE },
	[LIMIT_SCRATCH] = { 0, CONF_BOX_MAX_WORKSPACE },
	[LIMIT_SHM] = { 0, CONF_BOX_MAX_WORKSPACE },
};

static uint64_t most_of(const struct gate *g, enum limit_id id)
{
	int most = limit_keys[id].most;

	return most != 0 ? config_u64(&g->config, (enum config_key)most) : limit_row(id)->max;
}

void box_standard(struct gate *g, struct box_request *q)
{
	/* Layers that may be missing, and that refused calls are heard, are the same for every box. */
	ci_limits(g, q);
	q->flags |= BOX_KIT | BOX_TOOLS | BOX_NETWORK;
	limits_init(&q->limits);
	for (int i = 0; i < LIMIT_ID_MAX; i++) {
		uint64_t *v = &q->limits.v[i], max = most_of(g, (enum limit_id)i);
		int standard = limit_keys[i].standard;

		if (standard != 0)
			*v = config_u64(&g->config, (enum config_key)standard);
		if (*v > max)
			*v = max;
	}
}

static int take_limit(struct req *r, enum limit_id id, const struct box_limits *in, uint64_t *v)
{
	const struct limit_row *row = limit_row(id);
	uint64_t max = most_of(r->g, id);
	char field[64];

	if (!in->set[id])
		return 0;
	*v = (uint64_t)in->v[id];
	(void)snprintf(field, sizeof(field), "limits.%s", row->key);
	if (*v > max) {
		own_refuse(r, OWN_INVALID_FIELD, field, "'%s' must be at most %llu%s (%s)", field,
			   (unsigned long long)(row->unit == LIMIT_MILLI ? max / 1000 : max),
			   row->unit == LIMIT_MILLI && max % 1000 != 0 ? " and a part" : "",
			   config_row((enum config_key)limit_keys[id].most)->key);
		return -1;
	}
	if (id == LIMIT_OUTPUT && *v == 0) {
		own_refuse(r, OWN_INVALID_FIELD, field, "'%s' must be at least 1", field);
		return -1;
	}
	return 0;
}

static int take_limits(struct req *r, struct abox *a, const struct box_limits *in)
{
	struct box_request *q = &a->making->q;

	box_standard(r->g, q);
	for (int i = 0; i < LIMIT_ID_MAX; i++)
		if (take_limit(r, (enum limit_id)i, in, &q->limits.v[i]) < 0)
			return -1;
	a->limits = q->limits;
	return 0;
}

int box_find_root(const struct gate *g, const char *name)
{
	unsigned int n;
	char *const *roots = config_list(&g->config, CONF_MOUNT_ROOT, &n);
	int found = -1;

	for (unsigned int i = 0; i < n; i++)
		if (strcmp(roots[i], name) == 0)
			return (int)i;
	for (unsigned int i = 0; i < n; i++) {
		const char *slash = strrchr(roots[i], '/');

		if (slash == NULL || strcmp(slash + 1, name) != 0)
			continue;
		if (found >= 0)
			return -1; /* two of that name: say which */
		found = (int)i;
	}
	return found;
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static int take_mount(struct req *r, const struct box_mount_in *in, size_t i, struct box_mount *m)
{
	int root = box_find_root(r->g, in->root.p);
	const char *wrong = "path", *why = "must be relative and plain";
	char field[48];

	if (root < 0) {
		wrong = "root";
		why = "is no directory that may be mounted (mount_root)";
	} else if (in->path.n == 0 || path_is_plain(in->path.p)) {
		m->root = (uint16_t)root;
		m->read_only = in->readonly;
		(void)snprintf(m->path, sizeof(m->path), "%s", in->path.p);
		if (in->at.set)
			(void)snprintf(m->at, sizeof(m->at), "%s", in->at.p);
		else
			(void)snprintf(m->at, sizeof(m->at), "/mnt/%.200s",
				       last_part(in->path.n > 0 ? in->path.p : in->root.p));
		if (path_is_plain_abs(m->at))
			return 0;
		wrong = "at";
		why = "must be absolute and plain";
	}
	(void)snprintf(field, sizeof(field), "mounts[%zu].%s", i, wrong);
	own_refuse(r, OWN_INVALID_FIELD, field, "'%s' %s", field, why);
	return -1;
}

static int take_mounts(struct req *r, struct making *m, const struct field_list *list)
{
	const struct box_mount_in *in = list->v;

	for (size_t i = 0; i < list->n; i++) {
		if (take_mount(r, &in[i], i, &m->q.mounts[i]) < 0)
			return -1;
		m->q.nmounts++;
	}
	return 0;
}

static int take_file(struct req *r, struct making *m, const struct ci_file *in, size_t i)
{
	struct stage_file *f = &m->files[m->nfiles];
	char *path = ci_string(&m->strings, in->path.n), *bytes;
	const char *wrong;
	char field[64];

	(void)snprintf(field, sizeof(field), "files[%zu].path", i);
	wrong = path != NULL ? ci_plain_path(in->path.p, path) : "out of memory";
	if (wrong != NULL) {
		own_refuse(r, path != NULL ? OWN_INVALID_FIELD : OWN_NO_MEMORY, field,
			   "'%s' is refused: %s", field, wrong);
		return -1;
	}
	*f = (struct stage_file){ .path = path,
				  .mode = (unsigned int)in->mode,
				  .id = in->file_id.set ? in->file_id.p : NULL,
				  .p = in->content.set ? in->content.p : NULL,
				  .n = in->content.n };
	m->nfiles++;
	if (!in->content_base64.set)
		return 0;
	(void)snprintf(field, sizeof(field), "files[%zu].content_base64", i);
	bytes = ci_string(&m->strings, in->content_base64.n);
	if (bytes != NULL && base64_decode(in->content_base64.p, in->content_base64.n,
					   (uint8_t *)bytes, &f->n) == 0) {
		f->p = bytes;
		return 0;
	}
	own_refuse(r, bytes != NULL ? OWN_INVALID_FIELD : OWN_NO_MEMORY, field,
		   bytes != NULL ? "'%s' is not base64" : "no memory for '%s'", field);
	return -1;
}

static int take_files(struct req *r, struct making *m, const struct field_list *list)
{
	const struct ci_file *in = list->v;

	m->files = calloc(list->n + 1, sizeof(*m->files));
	if (m->files == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return -1;
	}
	for (size_t i = 0; i < list->n; i++)
		if (take_file(r, m, &in[i], i) < 0)
			return -1;
	return 0;
}

static int take_ports(struct req *r, struct abox *a, const struct box_create *in)
{
	const int64_t asked[PORTS_OUTSIDE] = { in->ports.executor, in->ports.resource };
	bool twice = asked[0] != 0 && asked[0] == asked[1];
	uint32_t *flags = &a->making->q.flags;
	char field[32];

	a->listens = in->ports_set;
	a->app = in->workdir.set ? strcmp(in->workdir.p, "/app") == 0 : a->listens;
	*flags |= (a->app ? BOX_APP : 0u) | (a->listens ? BOX_PORTS : 0u);
	for (unsigned int i = 0; i < PORTS_OUTSIDE; i++) {
		a->port[i] = (uint16_t)asked[i];
		if (asked[i] == 0 || (asked[i] >= PORT_LOWEST && !twice))
			continue;
		(void)snprintf(field, sizeof(field), "ports.%s", port_rows[i].name);
		if (twice)
			own_refuse(r, OWN_INVALID_FIELD, field,
				   "'ports.executor' and 'ports.resource' must differ");
		else
			own_refuse(r, OWN_INVALID_FIELD, field, "'%s' must be 0 or at least %d",
				   field, PORT_LOWEST);
		return -1;
	}
	return 0;
}

static int take_texts(struct req *r, struct abox *a, const struct box_create *in)
{
	if (box_take_texts(r, "env", &in->env, true, &a->env) < 0 ||
	    box_take_texts(r, "metadata", &in->metadata, false, &a->metadata) < 0)
		return -1;
	if (texts_get(&a->metadata, BOX_SESSION_KEY) != NULL) {
		own_refuse(r, OWN_INVALID_FIELD, "metadata",
			   "'metadata." BOX_SESSION_KEY "' is set by the Sandbox Runtime dialect");
		return -1;
	}
	if (tool_rules_take(r, "tools", &in->tools, false, &a->tools) < 0 ||
	    tool_rules_take(r, "approvals", &in->approvals, true, &a->tools) < 0)
		return -1;
	if (tool_rules_url(&a->tools))
		a->making->q.flags |= BOX_RAY;
	if (abox_fits(a))
		return 0;
	own_refuse(r, OWN_INVALID_FIELD, a->env.n > a->metadata.n ? "env" : "metadata",
		   "'env', 'metadata' and 'tools' have at most %d bytes together", BOX_TEXTS_MAX);
	return -1;
}

static int take_environment(struct req *r, struct abox *a, const struct field_str *name)
{
	struct genv *v = genv_find(r->g, name->p);

	if (v == NULL) {
		own_refuse(r, OWN_INVALID_FIELD, "environment",
			   "there is no environment '%.63s': GET /v1/environments has them all",
			   name->p);
		return -1;
	}
	(void)snprintf(a->environment, sizeof(a->environment), "%.63s", name->p);
	abox_make_of(a, v);
	return 0;
}

static int take_all(struct req *r, struct abox *a, const struct box_create *in)
{
	const struct config *c = &r->g->config;
	uint64_t ttl_max = config_u64(c, CONF_BOX_TTL_MAX);

	if (box_take_name(r, &in->name, a->name) < 0 || take_limits(r, a, &in->limits) < 0 ||
	    take_ports(r, a, in) < 0 || take_texts(r, a, in) < 0 ||
	    take_mounts(r, a->making, &in->mounts) < 0 ||
	    take_files(r, a->making, &in->files) < 0 ||
	    box_net_take(r, "network.", &in->network, &a->net) < 0 ||
	    box_check_times(r, in->ttl_set, in->ttl_seconds, in->idle_set, in->idle_seconds) < 0)
		return -1;
	if (take_environment(r, a, &in->environment) < 0)
		return -1;
	a->mounted = in->mounts.n > 0;
	a->ttl_us = in->ttl_set ? (uint64_t)in->ttl_seconds * US_PER_S
				: config_u64(c, CONF_BOX_TTL_DEFAULT);
	if (a->ttl_us > ttl_max)
		a->ttl_us = ttl_max;
	a->idle_us = in->idle_set ? (uint64_t)in->idle_seconds * US_PER_S
				  : config_u64(c, CONF_BOX_IDLE_DEFAULT);
	a->created_ms = own_now_ms(); /* for who looks at it meanwhile */
	a->expires_ms = a->created_ms + a->ttl_us / 1000;
	return 0;
}

/* The same request again: 0, or -1: answered, or waits. */
static int repeat(struct req *r, const struct idem_key *k)
{
	const struct idem *done = idem_find(r->g, k);
	const char *text;
	size_t n;

	for (struct abox *a = r->g->aboxes; a != NULL; a = a->next)
		if (a->making != NULL && a->idem.set &&
		    memcmp(a->idem.key, k->key, sizeof(k->key)) == 0) {
			if (memcmp(a->idem.body, k->body, sizeof(k->body)) != 0)
				idem_refuse(r);
			else if (wait_for(a, r) < 0)
				own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
			return -1;
		}
	if (done == NULL)
		return 0;
	text = idem_answer(done, &n);
	if (!idem_same_body(done, k))
		idem_refuse(r);
	else
		req_reply(r, 201, "application/json", text, n);
	return -1;
}

/* One of which nothing is known but its id; NULL: answered. */
static struct abox *begin(struct req *r)
{
	struct abox *a = abox_new(r->g, r->tenant);

	if (a != NULL)
		a->making = calloc(1, sizeof(*a->making));
	if (a == NULL || a->making == NULL || own_id(r->g, a->id) < 0 || abox_known(a) < 0) {
		if (a != NULL)
			abox_drop(a);
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return NULL;
	}
	a->making->began_us = clock_us();
	return a;
}

/* What it is to be is known: make it. */
static void go_on(struct abox *a, struct req *r)
{
	static const struct stage_ops ops = { .checked = on_checked,
					      .staged = on_staged,
					      .failed = on_not_staged };

	if (wait_for(a, r) < 0) {
		abox_drop(a);
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	stage_check(r->g, &a->making->stage, a->tenant, a->making->files, a->making->nfiles, &ops,
		    a);
}

void box_create(struct req *r)
{
	struct box_create in;
	struct idem_key key;
	struct abox *a;

	if (idem_take(r, "boxes", &key) < 0 || (key.set && repeat(r, &key) < 0))
		return;
	a = begin(r);
	if (a == NULL)
		return;
	if (own_decode(r, &box_create_fields, &a->making->body, &in) < 0) {
		a->making->body = (struct ci_body){ 0 };
		abox_drop(a);
		return;
	}
	if (take_all(r, a, &in) < 0) {
		abox_drop(a);
		return;
	}
	a->idem = key;
	a->making->text = r->body; /* files point into it */
	r->body = NULL;
	go_on(a, r);
}

static void be_like(struct abox *a, const struct abox *other)
{
	(void)memcpy(a->environment, other->environment, sizeof(a->environment));
	abox_make_of(a, other->made_of);
	a->app = other->app;
	a->filling = true;
	a->making->plain = false;
	a->making->q.flags |=
		(a->app ? BOX_APP : 0u) | (tool_rules_url(&other->tools) ? BOX_RAY : 0u);
}

void box_make(struct req *r, struct box_wish *w)
{
	struct abox *a = begin(r);

	if (a == NULL) {
		texts_done(&w->env);
		texts_done(&w->metadata);
		texts_done(&w->tools);
		net_policy_done(&w->net);
		return;
	}
	box_standard(r->g, &a->making->q);
	a->limits = a->making->q.limits = w->limits;
	a->making->plain = true;
	a->env = w->env;
	a->metadata = w->metadata;
	a->tools = w->tools;
	a->net = w->net;
	a->ttl_us = w->ttl_us;
	a->idle_us = w->idle_us;
	a->making->image = w->image;
	(void)snprintf(a->environment, sizeof(a->environment), "default");
	if (w->name != NULL && is_taken(r, w->name, strlen(w->name))) { /* since it was looked at */
		abox_drop(a);
		return;
	}
	if (w->name != NULL)
		(void)snprintf(a->name, sizeof(a->name), "%s", w->name);
	if (w->like != NULL)
		be_like(a, w->like);
	a->created_ms = own_now_ms(); /* for who looks at it meanwhile */
	a->expires_ms = a->created_ms + a->ttl_us / 1000;
	go_on(a, r);
}
