// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses that stand for names: 198.18.1.0 and those behind it, in the order in which names were asked for. Each box has its own, so that nobody learns from an
 * address what others have asked for.
 *
 * An address is given away again only when its name was not asked for in ten minutes: a program that remembers an address for longer than
 * an answer of ours says would reach another name, one that its box may reach as well.
 */
#include "egress/egress.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum { FIRST_ROOM = 64, BEFORE = 256 /* addresses of the range that stand for nobody */ };

static const uint8_t range[4] = { 198, 18, 0, 0 };

static uint32_t hash_of(const char *name)
{
	static uint32_t seed;
	uint32_t h;

	while (seed == 0)
		(void)!getrandom(&seed, sizeof(seed), 0);
	h = seed;
	for (; *name != '\0'; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return h ^ h >> 15;
}

int names_init(struct enames *t)
{
	*t = (struct enames){ .room = FIRST_ROOM };
	t->by_hash = calloc(FIRST_ROOM, sizeof(struct ename *));
	t->by_index = calloc(FIRST_ROOM, sizeof(struct ename *));
	if (t->by_hash != NULL && t->by_index != NULL)
		return 0;
	names_done(t);
	return -ENOMEM;
}

void names_done(struct enames *t)
{
	for (unsigned int i = 0; i < t->n; i++)
		free(t->by_index[i]);
	free(t->by_hash);
	free(t->by_index);
	*t = (struct enames){ 0 };
}

static struct ename **place_of(const struct enames *t, const char *name)
{
	struct ename **at = &t->by_hash[hash_of(name) & (t->room - 1)];

	while (*at != NULL && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

struct ename *names_find(const struct enames *t, const char *name)
{
	return *place_of(t, name);
}

/* Twice as many. */
static int grow(struct enames *t)
{
	unsigned int room = t->room * 2;
	struct ename **by_hash = calloc(room, sizeof(struct ename *));
	struct ename **by_index = calloc(room, sizeof(struct ename *));

	if (by_hash == NULL || by_index == NULL) {
		free(by_hash);
		free(by_index);
		return -ENOMEM;
	}
	(void)memcpy(by_index, t->by_index, t->n * sizeof(struct ename *));
	free(t->by_hash);
	free(t->by_index);
	*t = (struct enames){ .by_hash = by_hash, .by_index = by_index, .n = t->n, .room = room };
	for (unsigned int i = 0; i < t->n; i++) {
		struct ename **at = place_of(t, t->by_index[i]->name);

		t->by_index[i]->next = NULL;
		*at = t->by_index[i];
	}
	return 0;
}

/* One whose name nobody has asked for in a while, taken off its name; NULL: there is none. */
static struct ename *take_old(struct enames *t, uint64_t now_us)
{
	for (unsigned int i = 0; i < t->n; i++) {
		struct ename *n = t->by_index[t->hand];

		t->hand = (t->hand + 1) % t->n;
		if (now_us - n->used_us > NAME_OLD_US) {
			*place_of(t, n->name) = n->next;
			return n;
		}
	}
	return NULL;
}

static struct ename *take_new(struct enames *t)
{
	struct ename *n;

	if (t->n == t->room && grow(t) < 0)
		return NULL;
	n = calloc(1, sizeof(*n));
	if (n != NULL) {
		n->index = t->n;
		t->by_index[t->n++] = n;
	}
	return n;
}

struct ename *names_take(struct enames *t, const char *name, uint64_t now_us)
{
	struct ename *n = names_find(t, name), **at;

	if (n == NULL) {
		n = t->n < BOX_NAMES_MAX ? take_new(t) : take_old(t, now_us);
		if (n == NULL)
			return NULL;
		*n = (struct ename){ .index = n->index };
		(void)snprintf(n->name, sizeof(n->name), "%s", name);
		at = place_of(t, name);
		*at = n;
	}
	n->used_us = now_us;
	return n;
}

void names_address(const struct ename *n, uint8_t ret[4])
{
	uint32_t v = BEFORE + n->index;

	(void)memcpy(ret, range, 4);
	ret[2] = (uint8_t)(v >> 8); /* at most 4096 of them: the second byte stays */
	ret[3] = (uint8_t)v;
}

bool names_is_in_range(const struct net_address *a)
{
	struct net_address net;

	net_address_v4(range, &net);
	return net_address_is_in(a, &net, 15);
}

struct ename *names_of(const struct enames *t, const uint8_t address[4])
{
	uint32_t v = (uint32_t)address[2] << 8 | address[3];

	if (memcmp(address, range, 2) != 0 || v < BEFORE || v - BEFORE >= t->n)
		return NULL;
	return t->by_index[v - BEFORE];
}
