// SPDX-License-Identifier: Apache-2.0
/*
 * Idempotency-Key: the same request again gets the first answer, and nothing is done twice. Of a key and of a body only
 * hashes are kept. Answers of boxes are kept here; a command is its own memory as long as its box holds it, and then task_keys.c has
 * its key.
 */
#include "gate/boxes.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>

enum { IDEMS_MAX = 8192, KEY_MAX = 255 };
#define IDEM_US (24ull * 3600 * US_PER_S)

struct idem {
	struct table_item item; /* its first member */
	struct idem_key key;
	uint64_t until_us;
	size_t n;
	char text[];
};

int idem_take(struct req *r, const char *scope, struct idem_key *k)
{
	struct http_slice key = req_get(r, "Idempotency-Key");
	uint8_t parts[3 * SHA256_DIGEST_LENGTH];

	(void)memset(k, 0, sizeof(*k));
	if (key.n == 0)
		return 0;
	if (key.n > KEY_MAX) {
		own_refuse(r, OWN_INVALID_FIELD, "Idempotency-Key",
			   "'Idempotency-Key' has at most %d bytes", KEY_MAX);
		return -1;
	}
	(void)SHA256((const unsigned char *)r->tenant->name, strlen(r->tenant->name), parts);
	(void)SHA256((const unsigned char *)scope, strlen(scope), parts + SHA256_DIGEST_LENGTH);
	(void)SHA256((const unsigned char *)key.p, key.n, parts + 2 * SHA256_DIGEST_LENGTH);
	(void)SHA256(parts, sizeof(parts), k->key);
	(void)SHA256((const unsigned char *)(r->body != NULL ? r->body : ""), r->body_len, k->body);
	k->set = true;
	return 0;
}

static struct idem *idem_of(struct table_item *i)
{
	return (struct idem *)i; /* its first member */
}

/* Of a hash any bytes will do. */
static uint32_t hash_of(const struct idem_key *k)
{
	uint32_t hash;

	(void)memcpy(&hash, k->key, sizeof(hash));
	return hash;
}

/* What is too old, or one too many. */
static void forget(struct gate *g)
{
	while (g->idems.n > IDEMS_MAX ||
	       (g->idems.n > 0 && idem_of(g->idems.oldest)->until_us <= g->loop.now_us)) {
		struct idem *i = idem_of(g->idems.oldest);

		table_remove(&g->idems, &i->item);
		free(i);
	}
}

const struct idem *idem_find(struct gate *g, const struct idem_key *k)
{
	struct table_item *i = table_first(&g->idems, hash_of(k));

	for (; i != NULL; i = table_next(i))
		if (idem_of(i)->until_us > g->loop.now_us &&
		    memcmp(idem_of(i)->key.key, k->key, sizeof(k->key)) == 0)
			return idem_of(i);
	return NULL;
}

bool idem_same_body(const struct idem *i, const struct idem_key *k)
{
	return memcmp(i->key.body, k->body, sizeof(k->body)) == 0;
}

const char *idem_answer(const struct idem *i, size_t *n)
{
	*n = i->n;
	return i->text;
}

void idem_add(struct gate *g, const struct idem_key *k, const char *text, size_t n, uint64_t age_ms)
{
	struct idem *i = age_ms * 1000 < IDEM_US ? malloc(sizeof(*i) + n + 1) : NULL;

	if (i == NULL)
		return;
	i->key = *k;
	i->until_us = g->loop.now_us + IDEM_US - age_ms * 1000;
	i->n = n;
	(void)memcpy(i->text, text, n);
	i->text[n] = '\0';
	if (table_add(&g->idems, &i->item, hash_of(k)) < 0)
		free(i);
	forget(g);
}

void idem_refuse(struct req *r)
{
	own_refuse(r, OWN_KEY_REUSED, "Idempotency-Key",
		   "this Idempotency-Key was used with another body");
}
