// SPDX-License-Identifier: Apache-2.0
/* What the calls about commands and those about cells have in common. */
#include "gate/tasks.h"

#include <stdio.h>
#include <string.h>

enum { WAIT_MAX_MS = 60000 };

static void not_held(struct req *r, const struct task_kind *kind, struct http_slice id)
{
	own_refuse(r, OWN_NOT_FOUND, NULL, "there is no %s '%.*s', or it is not held any more",
		   kind->name, (int)(id.n < 128 ? id.n : 128), id.p);
}

struct task *task_find(struct req *r, const struct task_kind *kind)
{
	struct abox *a = abox_find(r, true);
	struct http_slice id;
	struct task *t;

	if (a == NULL)
		return NULL;
	id = r->param[1];
	for (t = a->tasks; t != NULL; t = t->next)
		if (t->kind == kind && http_slice_is(id, t->run.id))
			return t;
	not_held(r, kind, id);
	return NULL;
}

/* --- starting ------------------------------------------------------------------------------------- */

int task_take_timeout(struct req *r, bool set, int64_t timeout_ms, uint64_t *ret_us)
{
	uint64_t max = config_u64(&r->g->config, CONF_BOX_MAX_TIMEOUT_MS);
	uint64_t ms = config_u64(&r->g->config, CONF_BOX_TIMEOUT_MS);

	/* null reads as 0, absent as -1 */
	if (ms > max)
		ms = max;
	if (set || timeout_ms == 0)
		ms = (uint64_t)timeout_ms;
	if (set && ms > max) {
		own_refuse(r, OWN_INVALID_FIELD, "timeout_ms",
			   "'timeout_ms' must be at most %llu (box_max_timeout_ms), or null",
			   (unsigned long long)max);
		return -1;
	}
	*ret_us = ms * 1000;
	return 0;
}

int task_take_flags(struct req *r, bool stream, bool detach, const char *encoding,
		    const char *on_disconnect, unsigned int *flags)
{
	if (stream && detach) {
		own_refuse(r, OWN_INVALID_FIELD, "detach",
			   "'detach' and 'stream' exclude each other");
		return -1;
	}
	*flags = (stream ? TASK_STREAM : 0) | (detach ? TASK_DETACH : 0) |
		 (strcmp(encoding, "base64") == 0 ? TASK_BASE64 : 0) |
		 (strcmp(on_disconnect, "interrupt") == 0 ? TASK_ON_LEAVE : 0);
	return 0;
}

static unsigned int parts_of(const struct task *t)
{
	return RUN_OUTPUT | ((t->flags & TASK_OUTPUTS) != 0 ? RUN_OUTPUTS : 0);
}

void task_follow(struct task *t, struct req *r)
{
	uint64_t after;

	if ((t->flags & TASK_DETACH) != 0) {
		run_reply(&t->run, r, 202, 0);
	} else if ((t->flags & TASK_STREAM) != 0 || r->via != NULL) {
		if (run_after(r, &after) == 0)
			run_stream(&t->run, r, after, task_left, t);
	} else {
		run_wait(&t->run, r, 0, parts_of(t), task_left, t);
	}
}

static void answer_gone(struct req *r, const struct task_kind *kind, const char *id,
			enum task_status status)
{
	own_refuse_with(r, OWN_ANSWER_GONE, "Idempotency-Key",
			(const char *const[]){
				"id", id, "status",
				status != TASK_RUNNING ? task_status_str(status) : NULL, NULL },
			"this %s has ended; its answer is not held any more", kind->name);
}

void task_refuse(void *arg, struct req *r)
{
	const struct task *t = arg;

	if (http_slice_is(r->head.method, "POST"))
		answer_gone(r, t->kind, t->run.id, TASK_RUNNING);
	else
		not_held(r, t->kind, (struct http_slice){ t->run.id, strlen(t->run.id) });
}

int task_repeat(struct req *r, struct abox *a, const struct task_kind *kind,
		const struct idem_key *k)
{
	const struct task_ran *ran;
	char id[OWN_ID];
	bool same;

	for (struct task *t = a->tasks; t != NULL; t = t->next)
		if (t->kind == kind && t->idem.set &&
		    memcmp(t->idem.key, k->key, sizeof(k->key)) == 0) {
			if (memcmp(t->idem.body, k->body, sizeof(k->body)) != 0)
				idem_refuse(r);
			else
				task_follow(t, r);
			return -1;
		}
	ran = task_ran(a, k, &same);
	if (ran == NULL)
		return 0;
	if (!same) {
		idem_refuse(r);
		return -1;
	}
	own_job_id(r->g, a->id, ran->job, id);
	answer_gone(r, kind, id, ran->status);
	return -1;
}

/* --- looking -------------------------------------------------------------------------------------- */

void task_list(struct req *r, const struct task_kind *kind, const char *key)
{
	struct abox *a = abox_find(r, true);
	struct json j;

	if (a == NULL)
		return;
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, key, '[');
	for (struct task *t = a->tasks; t != NULL; t = t->next) {
		if (t->kind != kind || (t->flags & TASK_ASIDE) != 0)
			continue;
		json_open(&j, NULL, '{');
		task_put(t, &j);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	req_json(r, 200, &j);
}

void task_get(struct req *r, const struct task_kind *kind)
{
	struct task *t = task_find(r, kind);
	uint64_t wait_ms = 0, outputs = 0;
	unsigned int parts;

	if (t == NULL || own_query_u64(r, "wait_ms", 0, WAIT_MAX_MS, &wait_ms) < 0 ||
	    own_query_u64(r, "outputs", 0, 1, &outputs) < 0)
		return;
	parts = RUN_OUTPUT | (outputs != 0 ? RUN_OUTPUTS : 0);
	if (t->run.ended || wait_ms == 0)
		run_reply(&t->run, r, 200, parts);
	else
		run_wait(&t->run, r, wait_ms * 1000, parts, NULL, NULL);
}

void task_events(struct req *r, const struct task_kind *kind)
{
	struct task *t = task_find(r, kind);
	uint64_t after;

	if (t != NULL && run_after(r, &after) == 0)
		run_stream(&t->run, r, after, NULL, NULL);
}
