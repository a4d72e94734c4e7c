// SPDX-License-Identifier: Apache-2.0
#include "wire/jsonr_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
	PAIRWISE = 8, /* up to here comparing all is faster than hashing */
	SLOTS_MIN = 32,
};

struct jsonr_slot {
	uint32_t hash, node; /* node 0: empty, the root is nobody's member */
};

static uint64_t rotl(uint64_t x, int n)
{
	return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] = rotl(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] = rotl(v[2], 32);
}

/* SipHash-1-3: who does not know the seed cannot find keys that fall together. */
static uint32_t hash_key(const uint64_t seed[2], const char *p, size_t n)
{
	uint64_t v[4] = { seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
			  seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u };
	uint64_t last = (uint64_t)n << 56, w;

	for (; n >= sizeof(w); n -= sizeof(w), p += sizeof(w)) {
		(void)memcpy(&w, p, sizeof(w));
		v[3] ^= w;
		sip_round(v);
		v[0] ^= w;
	}
	for (size_t i = 0; i < n; i++)
		last |= (uint64_t)(unsigned char)p[i] << (8 * i);
	v[3] ^= last;
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	w = v[0] ^ v[1] ^ v[2] ^ v[3];
	return (uint32_t)(w ^ w >> 32);
}

static bool same_key(const struct jsonr_node *a, const struct jsonr_node *b)
{
	return a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
}

static const struct jsonr_node *find_pairwise(const struct jsonr *d,
					      const struct jsonr_node *object)
{
	for (const struct jsonr_node *n = jsonr_first(d, object); n != NULL; n = jsonr_next(d, n))
		for (const struct jsonr_node *m = jsonr_first(d, object); m != n;
		     m = jsonr_next(d, m))
			if (same_key(m, n))
				return n;
	return NULL;
}

/* At least twice as many slots as there are keys, all empty; a power of two. */
static int clear_slots(struct jsonr_keys *k, uint32_t keys, size_t *ret)
{
	size_t want = SLOTS_MIN;

	while (want < (size_t)keys * 2)
		want *= 2;
	if (k->cap == 0 && getrandom(k->seed, sizeof(k->seed), 0) != (ssize_t)sizeof(k->seed))
		return -ENOMEM;
	if (k->cap < want) {
		jsonr_keys_done(k);
		k->slots = calloc(want, sizeof(*k->slots));
		if (k->slots == NULL)
			return -ENOMEM;
		k->cap = want;
	} else {
		(void)memset(k->slots, 0, want * sizeof(*k->slots));
	}
	*ret = want;
	return 0;
}

static int find_hashed(struct jsonr_keys *k, const struct jsonr *d, const struct jsonr_node *object,
		       const struct jsonr_node **ret)
{
	size_t size, at;
	int rc = clear_slots(k, object->len, &size);

	if (rc < 0)
		return rc;
	for (const struct jsonr_node *n = jsonr_first(d, object); n != NULL; n = jsonr_next(d, n)) {
		uint32_t hash = hash_key(k->seed, n->key, n->key_len);

		for (at = hash & (size - 1); k->slots[at].node != 0; at = (at + 1) & (size - 1)) {
			if (k->slots[at].hash == hash &&
			    same_key(&d->nodes[k->slots[at].node], n)) {
				*ret = n;
				return 0;
			}
		}
		k->slots[at] = (struct jsonr_slot){ hash, (uint32_t)(n - d->nodes) };
	}
	*ret = NULL;
	return 0;
}

int jsonr_keys_twice(struct jsonr_keys *k, const struct jsonr *d, const struct jsonr_node *object,
		     const struct jsonr_node **ret)
{
	if (object->len > PAIRWISE)
		return find_hashed(k, d, object, ret);
	*ret = find_pairwise(d, object);
	return 0;
}

void jsonr_keys_done(struct jsonr_keys *k)
{
	free(k->slots);
	k->slots = NULL;
	k->cap = 0;
}
