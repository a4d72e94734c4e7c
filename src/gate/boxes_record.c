// SPDX-License-Identifier: Apache-2.0
/* What the keeper keeps of a box for the next gate, and what that one makes of it. */
#include "gate/box_net.h"
#include "gate/boxes.h"

#include "base/clock.h"
#include "base/own.h"
#include "gate/published.h"
#include "gate/record.h"

#include <string.h>

enum { RECORD_VERSION = 7 };

static void put(const struct abox *a, struct msg_out *m, enum record_room room)
{
	msg_put_u8(m, RECORD_BOX);
	msg_put_u8(m, RECORD_VERSION);
	msg_put_str(m, a->id);
	msg_put_str(m, a->name);
	msg_put_str(m, a->tenant->name);
	msg_put_str(m, a->environment);
	msg_put_u64(m, a->created_ms);
	msg_put_u64(m, a->expires_ms);
	msg_put_u64(m, a->ends_us);
	msg_put_u64(m, a->ttl_us);
	msg_put_u64(m, a->idle_us);
	msg_put_u64(m, a->oom_kills);
	msg_put_u8(m, a->app);
	msg_put_u8(m,
		   (uint8_t)((a->mounted ? 1u : 0) | (a->filling ? 2u : 0) | (a->held ? 4u : 0)));
	msg_put_u8(m, a->listens);
	for (unsigned int i = 0; i < PORTS_OUTSIDE; i++)
		msg_put_u16(m, a->port[i]);
	for (int i = 0; i < LIMIT_ID_MAX; i++)
		msg_put_u64(m, a->limits.v[i]);
	msg_put_bytes(m, a->idem.key, a->idem.set ? sizeof(a->idem.key) : 0);
	msg_put_bytes(m, a->idem.body, a->idem.set ? sizeof(a->idem.body) : 0);
	msg_put_bytes(m, a->env.p, a->env.n);
	msg_put_bytes(m, a->metadata.p, a->metadata.n);
	msg_put_bytes(m, a->tools.p, a->tools.n);
	published_save(a, m);
	kernels_save(a, m);
	tasks_save(a, m, room);
	ttys_save(a, m);
	task_keys_save(a, m, room);
}

int abox_save(struct abox *a, keeper_fn fn, void *arg)
{
	static uint8_t record[BOX_RECORD_MAX], space[BOX_RECORD_MAX + 16];
	struct msg_out m = { .failed = true };

	if (a->box == NULL)
		return -EPIPE;
	/* Rather without what was cancelled, and then without keys, than a record that is not true any more. */
	for (unsigned int room = ROOM_FOR_ALL; room < ROOM_MAX && m.failed; room++) {
		msg_out_init(&m, record, sizeof(record));
		put(a, &m, (enum record_room)room);
	}
	return m.failed ? -EMSGSIZE
			: record_save(a->g, a->box->id, record, m.len, space, sizeof(space), fn,
				      arg);
}

void abox_changed(struct abox *a)
{
	if (a->unsaved)
		return;
	a->unsaved = true;
	a->next_unsaved = a->g->unsaved;
	a->g->unsaved = a;
}

void aboxes_save(struct gate *g)
{
	while (g->unsaved != NULL) {
		struct abox *a = g->unsaved;

		g->unsaved = a->next_unsaved;
		a->unsaved = false;
		(void)abox_save(a, NULL, NULL);
	}
}

void abox_unsaved(struct abox *a)
{
	for (struct abox **at = &a->g->unsaved; a->unsaved && *at != NULL;
	     at = &(*at)->next_unsaved)
		if (*at == a) {
			*at = a->next_unsaved;
			a->unsaved = false;
			break;
		}
}

bool abox_fits(const struct abox *a)
{
	return a->env.n + a->metadata.n + a->tools.n <= BOX_TEXTS_MAX;
}

static int get_texts(struct msg_in *in, struct texts *t)
{
	size_t n;
	const uint8_t *p = msg_get_bytes(in, BOX_TEXTS_MAX, &n);

	if (n == 0)
		return in->failed ? -EPROTO : 0;
	if (p[n - 1] != '\0')
		return -EPROTO;
	t->p = malloc(n);
	if (t->p == NULL)
		return -ENOMEM;
	(void)memcpy(t->p, p, n);
	t->n = n;
	return 0;
}

static void get_hash(struct msg_in *in, uint8_t hash[SHA256_DIGEST_LENGTH], bool *set)
{
	size_t n;
	const uint8_t *p = msg_get_bytes(in, SHA256_DIGEST_LENGTH, &n);

	*set = n == SHA256_DIGEST_LENGTH;
	if (*set)
		(void)memcpy(hash, p, n);
}

static int load(struct abox *a, struct msg_in *in)
{
	char tenant[GATE_TENANT];
	uint8_t kind = msg_get_u8(in), version = msg_get_u8(in), flags;
	bool body;

	if (kind != RECORD_BOX || version != RECORD_VERSION)
		return -EPROTO;
	(void)msg_get_str(in, a->id, sizeof(a->id));
	(void)msg_get_str(in, a->name, sizeof(a->name));
	(void)msg_get_str(in, tenant, sizeof(tenant));
	(void)msg_get_str(in, a->environment, sizeof(a->environment));
	a->created_ms = msg_get_u64(in);
	a->expires_ms = msg_get_u64(in);
	a->ends_us = msg_get_u64(in);
	a->ttl_us = msg_get_u64(in);
	a->idle_us = msg_get_u64(in);
	a->oom_kills = msg_get_u64(in);
	a->app = msg_get_u8(in) != 0;
	flags = msg_get_u8(in);
	a->mounted = (flags & 1) != 0;
	a->held = (flags & 4) != 0;
	if ((flags & 2) !=
	    0) /* who asked for it has gone, and it is only half of what it was to be */
		return -ESTALE;
	a->listens = msg_get_u8(in) != 0;
	for (unsigned int i = 0; i < PORTS_OUTSIDE; i++)
		a->port[i] = msg_get_u16(in);
	for (int i = 0; i < LIMIT_ID_MAX; i++)
		a->limits.v[i] = msg_get_u64(in);
	get_hash(in, a->idem.key, &a->idem.set);
	get_hash(in, a->idem.body, &body);
	if (in->failed || a->idem.set != body)
		return -EPROTO;
	a->tenant = tenant_find(a->g, tenant);
	if (a->tenant == NULL)
		return -ENOENT;
	if (get_texts(in, &a->env) < 0 || get_texts(in, &a->metadata) < 0 ||
	    get_texts(in, &a->tools) < 0 || published_load(a, in) < 0 || kernels_load(a, in) < 0 ||
	    tasks_load(a, in) < 0 || ttys_load(a, in) < 0 || task_keys_load(a, in) < 0)
		return -EPROTO;
	return msg_end(in);
}

/* The answer to the request that made it, for the case that it is sent again. */
static void remember(const struct abox *a)
{
	uint64_t now = own_now_ms();
	struct json j;

	if (!a->idem.set)
		return;
	json_init(&j);
	json_open(&j, NULL, '{');
	abox_put(a, &j);
	json_close(&j, '}');
	if (!j.failed)
		idem_add(a->g, &a->idem, j.buf, j.len,
			 now > a->created_ms ? now - a->created_ms : 0);
	json_done(&j);
}

int abox_adopt(struct gate *g, const struct box_info *info, const uint8_t *record, size_t n)
{
	struct abox *a = abox_new(g, &g->tenants[0]);
	struct msg_in in;
	struct err e;

	if (a == NULL)
		return -1;
	msg_in_init(&in, record, n);
	if (load(a, &in) == 0 && abox_known(a) == 0) {
		a->layers = info->layers;
		a->box = gbox_adopt(g, info, &abox_ops, a, &e);
	}
	if (a->box == NULL) {
		tasks_end(a, false, "");
		kernels_end(a);
		ttys_end(a);
		published_end(a);
		abox_drop(a);
		return -1;
	}
	abox_make_of(a, a->box->env);
	a->box->cwd = box_workdir(a->app ? BOX_APP : 0);
	a->state = ABOX_READY; /* so it is listed; its box answers in a moment */
	a->counted = quota_take(g, a->tenant);
	remember(a);
	box_net_adopt(a);
	return 0;
}
