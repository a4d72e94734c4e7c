// SPDX-License-Identifier: Apache-2.0
/*
 * Jupyter's sessions: names for kernels. A session is a pair of texts in the metadata of its kernel's box, so that it lives as
 * long as that, and the next gate knows it: its id, and path, name, type and kernel as JSON.
 */
#include "gate/jup.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define MARK "jupyter.session."

enum { PATH_TEXT = 512, NAME_TEXT = 128, TYPE_TEXT = 32 };

struct session_text {
	char id[KERNEL_UUID];
	char path[PATH_TEXT], name[NAME_TEXT], type[TYPE_TEXT];
	struct kernel *k;
};

/* --- as texts --------------------------------------------------------------------------------------- */

static void load(struct abox *a, const char *key, const char *value, struct session_text *s)
{
	struct json_member m[] = {
		{ .key = "path" }, { .key = "name" }, { .key = "type" }, { .key = "kernel" }
	};
	struct json_text t = { value, strlen(value) };
	char kernel[KERNEL_NAME] = "main";

	*s = (struct session_text){ 0 };
	(void)snprintf(s->id, sizeof(s->id), "%s", key + strlen(MARK));
	json_text_find(t, m, ARRAY_LEN(m));
	(void)json_text_str(m[0].value, s->path, sizeof(s->path));
	(void)json_text_str(m[1].value, s->name, sizeof(s->name));
	(void)json_text_str(m[2].value, s->type, sizeof(s->type));
	(void)json_text_str(m[3].value, kernel, sizeof(kernel));
	s->k = kernel_named(a, kernel, strlen(kernel));
}

/* How many bytes a session has in its box: none, or all that it has. */
static size_t bytes_of(const struct abox *a, const char *key)
{
	const char *k, *value;
	size_t at = 0;

	while (texts_next(&a->metadata, &at, &k, &value))
		if (strcmp(k, key) == 0)
			return strlen(k) + strlen(value) + 2;
	return 0;
}

/* In place of what was there of it. -ENOMEM; -ENOBUFS: its box has no room for it. Then it is as it was. */
static int save(const struct session_text *s)
{
	struct abox *a = s->k->a;
	char key[64];
	struct json j;
	size_t had;
	int rc;

	(void)snprintf(key, sizeof(key), MARK "%s", s->id);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_str(&j, "path", s->path);
	json_str(&j, "name", s->name);
	json_str(&j, "type", s->type);
	json_str(&j, "kernel", s->k->name);
	json_close(&j, '}');
	had = bytes_of(a, key);
	rc = j.failed ? -ENOMEM
	     : a->env.n + a->metadata.n - had + strlen(key) + j.len + 2 > BOX_TEXTS_MAX
		     ? -ENOBUFS
		     : texts_add(&a->metadata, key, strlen(key), j.buf, j.len);
	if (rc == 0 && had > 0)
		texts_remove(&a->metadata, key); /* the first of the two */
	json_done(&j);
	if (rc == 0)
		abox_changed(a);
	return rc;
}

static void forget(const struct session_text *s, struct abox *a)
{
	char key[64];

	(void)snprintf(key, sizeof(key), MARK "%s", s->id);
	texts_remove(&a->metadata, key);
	abox_changed(a);
}

/* The next one of a box behind *at whose kernel is there. */
static bool next_session(struct abox *a, size_t *at, struct session_text *s)
{
	const char *key, *value;

	while (texts_next(&a->metadata, at, &key, &value)) {
		if (strncmp(key, MARK, strlen(MARK)) != 0)
			continue;
		load(a, key, value, s);
		if (s->k != NULL && !s->k->unwanted)
			return true;
	}
	return false;
}

static bool find_by(const struct req *r, const struct abox *scope, bool path, const char *text,
		    size_t n, struct session_text *s)
{
	for (struct abox *a = r->g->aboxes; a != NULL; a = a->next) {
		size_t at = 0;

		while (next_session(a, &at, s)) {
			const char *mine = path ? s->path : s->id;

			if (jup_sees(r, scope, s->k) && strlen(mine) == n &&
			    memcmp(mine, text, n) == 0)
				return true;
		}
	}
	return false;
}

static bool find(struct req *r, struct session_text *s)
{
	struct http_slice id = req_param(r);
	struct abox *scope;

	if (req_box(r, &scope) < 0)
		return false;
	if (find_by(r, scope, false, id.p, id.n, s))
		return true;
	req_refuse(r, 404, "not_found", NULL, "Session not found: session_id='%.*s'",
		   (int)(id.n < 64 ? id.n : 64), id.p);
	return false;
}

/* --- answers ---------------------------------------------------------------------------------------- */

static void put(struct json *j, const struct session_text *s)
{
	json_open(j, NULL, '{');
	json_str(j, "id", s->id);
	json_str(j, "path", s->path);
	json_str(j, "name", s->name);
	json_str(j, "type", s->type);
	jup_put_kernel(j, "kernel", s->k);
	json_open(j, "notebook", '{'); /* as older clients want it */
	json_str(j, "path", s->path);
	json_str(j, "name", s->name);
	json_close(j, '}');
	json_close(j, '}');
}

static void reply(struct req *r, int status, const struct session_text *s)
{
	struct json j;

	json_init(&j);
	put(&j, s);
	if (status == 201)
		jup_location(r, "sessions", s->id);
	req_json(r, status, &j);
}

void jup_session_list(struct req *r)
{
	struct session_text s;
	struct abox *scope;
	struct json j;

	if (req_box(r, &scope) < 0)
		return;
	json_init(&j);
	json_open(&j, NULL, '[');
	for (struct abox *a = r->g->aboxes; a != NULL; a = a->next) {
		size_t at = 0;

		while (next_session(a, &at, &s))
			if (jup_sees(r, scope, s.k))
				put(&j, &s);
	}
	json_close(&j, ']');
	req_json(r, 200, &j);
}

void jup_session_get(struct req *r)
{
	struct session_text s;

	if (find(r, &s))
		reply(r, 200, &s);
}

void jup_session_delete(struct req *r)
{
	struct session_text s;

	if (!find(r, &s))
		return;
	audit(r->g, "kernel_ended", r, "tenant", r->tenant->name, "box", s.k->a->id, NULL);
	forget(&s, s.k->a);
	jup_end_for(s.k, r);
}

/* --- POST, PATCH ------------------------------------------------------------------------------------ */

static int take_text(struct req *r, struct json_text t, const char *key, char *to, size_t size)
{
	if (json_text_kind(t) == '\0' || json_text_kind(t) == 'n' || json_text_str(t, to, size))
		return 0;
	req_refuse(r, 400, "invalid_field", key, "'%s' must be a string of less than %zu bytes",
		   key, size);
	return -1;
}

/* Path, name and type, where the body has them. 0, or -1: answered. */
static int take(struct req *r, struct json_text body, struct session_text *s)
{
	struct json_member m[] = {
		{ .key = "path" }, { .key = "name" }, { .key = "type" }, { .key = "notebook" }
	};
	struct json_member old[] = { { .key = "path" }, { .key = "name" } };

	json_text_find(body, m, ARRAY_LEN(m));
	json_text_find(m[3].value, old, ARRAY_LEN(old));
	if (json_text_kind(m[3].value) == '{' && s->type[0] == '\0')
		(void)snprintf(s->type, sizeof(s->type), "notebook");
	return take_text(r, old[0].value, "notebook.path", s->path, sizeof(s->path)) < 0 ||
			       take_text(r, old[1].value, "notebook.name", s->name,
					 sizeof(s->name)) < 0 ||
			       take_text(r, m[0].value, "path", s->path, sizeof(s->path)) < 0 ||
			       take_text(r, m[1].value, "name", s->name, sizeof(s->name)) < 0 ||
			       take_text(r, m[2].value, "type", s->type, sizeof(s->type)) < 0
		       ? -1
		       : 0;
}

static struct json_text kernel_of(struct json_text body)
{
	struct json_member m = { .key = "kernel" };

	json_text_find(body, &m, 1);
	return m.value;
}

/* The kernel that a body names by its id: NULL if it names none, or there is none (answered). */
static struct kernel *named_kernel(struct req *r, struct json_text body, bool *answered)
{
	struct abox *scope = NULL;
	struct json_member id = { .key = "id" };
	char uuid[KERNEL_UUID];
	struct kernel *k;

	*answered = req_box(r, &scope) < 0;
	if (*answered)
		return NULL;
	json_text_find(kernel_of(body), &id, 1);
	if (json_text_kind(id.value) != '"')
		return NULL;
	k = json_text_str(id.value, uuid, sizeof(uuid))
		    ? kernel_with_uuid(r->g, r->tenant, uuid, strlen(uuid))
		    : NULL;
	if (k == NULL || !jup_sees(r, scope, k)) {
		*answered = true;
		req_refuse(r, 404, "not_found", NULL, "Kernel does not exist: %.*s",
			   (int)(id.value.n < 64 ? id.value.n : 64), id.value.p);
	}
	return k;
}

static void new_id(char id[KERNEL_UUID])
{
	uint8_t b[16] = { 0 };

	(void)!getrandom(b, sizeof(b), 0);
	(void)snprintf(id, KERNEL_UUID,
		       "%02x%02x%02x%02x-%02x%02x-4%01x%02x-%x%01x%02x-%02x%02x%02x%02x%02x%02x",
		       b[0], b[1], b[2], b[3], b[4], b[5], b[6] & 15u, b[7], 8u + (b[8] & 3u),
		       (unsigned int)b[8] >> 4, b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* 0, or -1: refused, and nothing was changed. */
static int keep(struct req *r, const struct session_text *s)
{
	int rc = save(s);

	if (rc == -ENOBUFS)
		req_refuse(r, 403, "quota_exceeded", NULL,
			   "the kernel has no room for this session's texts");
	else if (rc < 0)
		req_refuse(r, 503, "no_memory", NULL, "out of memory");
	return rc < 0 ? -1 : 0;
}

/* The first session of a kernel. What the request wants is looked up again: nobody had to keep it. */
static int begin(struct req *r, struct kernel *k)
{
	struct session_text s = { .k = k };
	struct json_text body;

	new_id(s.id);
	if (jup_body(r, &body) < 0 || take(r, body, &s) < 0 || keep(r, &s) < 0)
		return -1;
	reply(r, 201, &s);
	return 0;
}

static void on_made(struct req *r, struct kernel *k)
{
	if (begin(r, k) < 0)
		jup_end(k, false);
}

void jup_session_create(struct req *r)
{
	struct session_text s = { 0 }, old;
	struct json_text body, kernel;
	struct abox *scope;
	struct kernel *k;
	bool answered;

	if (req_box(r, &scope) < 0 || jup_body(r, &body) < 0 || take(r, body, &s) < 0)
		return;
	if (s.path[0] == '\0') {
		req_refuse(r, 400, "invalid_field", "path", "a session needs a 'path'");
		return;
	}
	if (find_by(r, scope, true, s.path, strlen(s.path), &old)) {
		reply(r, 201, &old);
		return;
	}
	k = named_kernel(r, body, &answered);
	if (answered)
		return;
	kernel = kernel_of(body);
	if (k != NULL)
		(void)begin(r, k);
	else
		jup_make(r, json_text_kind(kernel) == '{' ? kernel : (struct json_text){ "{}", 2 },
			 on_made);
}

/* What the body changes of a session. k: its kernel from now on; the one that it had ends. 0, or -1: refused. */
static int change(struct req *r, struct kernel *k)
{
	struct session_text s, before;
	struct json_text body;

	if (!find(r, &before))
		return -1;
	s = before;
	if (k != NULL)
		s.k = k;
	if (jup_body(r, &body) < 0 || take(r, body, &s) < 0 || keep(r, &s) < 0)
		return -1;
	if (s.k != before.k) {
		audit(r->g, "kernel_ended", r, "tenant", r->tenant->name, "box", before.k->a->id,
		      NULL);
		if (s.k->a != before.k->a)
			forget(&before, before.k->a);
		jup_end(before.k, false);
	}
	reply(r, 200, &s);
	return 0;
}

static void on_other(struct req *r, struct kernel *k)
{
	if (change(r, k) < 0)
		jup_end(k, false);
}

void jup_session_patch(struct req *r)
{
	struct json_member name = { .key = "name" };
	struct session_text s;
	struct json_text body;
	struct kernel *k;
	bool answered;

	if (!find(r, &s) || jup_body(r, &body) < 0 || take(r, body, &s) < 0)
		return;
	k = named_kernel(r, body, &answered);
	if (answered)
		return;
	json_text_find(kernel_of(body), &name, 1);
	if (k == NULL && json_text_kind(name.value) == '"')
		jup_make(r, kernel_of(body), on_other);
	else
		(void)change(r, k);
}
