// SPDX-License-Identifier: Apache-2.0
/*
 * Idempotency keys of cells and commands that have ended and are not held any more: that something has run is known for longer than
 * what it said. They are a box's, which has so many of them, and go with it. The record of a box takes along as many as
 * it has room for, the newest ones: nothing is run twice because a gate died.
 */
#include "gate/tasks.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/msg.h"

#include <string.h>

enum {
	KEYS_MAX = 1024, /* of a box */
	KEY_BYTES = 16,  /* of the hashes */
	BODY_BYTES = 8,
	RECORD_BYTES = KEY_BYTES + BODY_BYTES + 8 + 4 + 1,
};
#define DAY_MS (24ull * 3600 * 1000)

struct old_key {
	struct table_item item; /* its first member */
	struct task_ran ran;
	uint64_t at_ms; /* since 1970 */
	uint8_t key[KEY_BYTES], body[BODY_BYTES];
};

static struct old_key *key_of(struct table_item *i)
{
	return (struct old_key *)i; /* its first member */
}

/* Of a hash any bytes will do. */
static uint32_t hash_of(const uint8_t *key)
{
	uint32_t hash;

	(void)memcpy(&hash, key, sizeof(hash));
	return hash;
}

void task_key(struct idem_key *k)
{
	(void)memset(k->key + KEY_BYTES, 0, sizeof(k->key) - KEY_BYTES);
	(void)memset(k->body + BODY_BYTES, 0, sizeof(k->body) - BODY_BYTES);
}

static void put_bytes(struct msg_out *m, const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		msg_put_u8(m, p[i]);
}

static void get_bytes(struct msg_in *in, uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = msg_get_u8(in);
}

void task_key_put(struct msg_out *m, const struct idem_key *k)
{
	put_bytes(m, k->key, KEY_BYTES);
	put_bytes(m, k->body, BODY_BYTES);
}

void task_key_get(struct msg_in *in, struct idem_key *k)
{
	get_bytes(in, k->key, KEY_BYTES);
	get_bytes(in, k->body, BODY_BYTES);
}

/* --- a box's own ---------------------------------------------------------------------------------- */

static bool is_old(const struct old_key *k)
{
	uint64_t now = own_now_ms();

	return now > k->at_ms && now - k->at_ms >= DAY_MS;
}

static void drop_oldest(struct table *keys)
{
	struct old_key *k = key_of(keys->oldest);

	table_remove(keys, &k->item);
	free(k);
}

/* A copy of *k, which is on the stack. */
static void add(struct abox *a, const struct old_key *k)
{
	struct old_key *copy = is_old(k) ? NULL : malloc(sizeof(*copy));

	if (copy == NULL)
		return;
	*copy = *k;
	if (table_add(&a->keys, &copy->item, hash_of(k->key)) < 0)
		free(copy);
	while (a->keys.n > KEYS_MAX || (a->keys.n > 0 && is_old(key_of(a->keys.oldest))))
		drop_oldest(&a->keys);
}

static void take(const struct task *t, struct old_key *ret)
{
	*ret = (struct old_key){ .ran = { t->job_id, t->status },
				 .at_ms = t->started_ms != 0 ? t->started_ms : t->ended_ms };
	(void)memcpy(ret->key, t->idem.key, KEY_BYTES);
	(void)memcpy(ret->body, t->idem.body, BODY_BYTES);
}

void task_remember(const struct task *t)
{
	struct old_key k;

	if (!t->idem.set || t->a == NULL)
		return;
	take(t, &k);
	add(t->a, &k);
}

const struct task_ran *task_ran(const struct abox *a, const struct idem_key *k, bool *ret_same)
{
	struct table_item *i = table_first(&a->keys, hash_of(k->key));

	for (; i != NULL; i = table_next(i)) {
		const struct old_key *old = key_of(i);

		if (memcmp(old->key, k->key, KEY_BYTES) == 0 && !is_old(old)) {
			*ret_same = memcmp(old->body, k->body, BODY_BYTES) == 0;
			return &old->ran;
		}
	}
	return NULL;
}

void task_keys_done(struct abox *a)
{
	while (a->keys.n > 0)
		drop_oldest(&a->keys);
	table_done(&a->keys);
}

/* --- another gate --------------------------------------------------------------------------------- */

static void put(struct msg_out *m, const struct old_key *k)
{
	put_bytes(m, k->key, KEY_BYTES);
	put_bytes(m, k->body, BODY_BYTES);
	msg_put_u64(m, k->ran.job);
	msg_put_u32(m, (uint32_t)(k->at_ms / 1000));
	msg_put_u8(m, (uint8_t)k->ran.status);
}

static bool is_wanted(const struct task *t, enum record_room room)
{
	return t->idem.set && !task_saves_key(t, room);
}

/* Tasks that are held here, but not in the record, are the newest. The oldest come first, as they are put back. */
void task_keys_save(const struct abox *a, struct msg_out *m, enum record_room room)
{
	size_t bytes = m->cap - m->len, fit = bytes > 2 ? (bytes - 2) / RECORD_BYTES : 0;
	struct table_item *i = a->keys.newest;
	size_t held = 0, n, old, skip;
	struct old_key k;

	for (const struct task *t = a->tasks; t != NULL; t = t->next)
		held += is_wanted(t, room);
	n = held + a->keys.n < fit ? held + a->keys.n : fit;
	old = n > held ? n - held : 0;
	skip = held > n ? held - n : 0;
	msg_put_u16(m, (uint16_t)n);
	for (size_t back = 1; back < old; back++)
		i = i->older;
	for (; old > 0; old--, i = i->newer)
		put(m, key_of(i));
	for (const struct task *t = a->tasks; t != NULL; t = t->next) {
		if (!is_wanted(t, room))
			continue;
		if (skip > 0) {
			skip--;
			continue;
		}
		take(t, &k);
		put(m, &k);
	}
}

int task_keys_load(struct abox *a, struct msg_in *in)
{
	for (unsigned int n = msg_get_u16(in); n > 0; n--) {
		struct old_key k = { 0 };

		get_bytes(in, k.key, KEY_BYTES);
		get_bytes(in, k.body, BODY_BYTES);
		k.ran.job = msg_get_u64(in);
		k.at_ms = msg_get_u32(in) * 1000ull;
		k.ran.status = (enum task_status)msg_get_u8(in);
		if (in->failed || k.ran.status >= TASK_STATUS_MAX)
			return -EPROTO;
		add(a, &k);
	}
	return 0;
}
