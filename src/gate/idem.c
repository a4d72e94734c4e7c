// SPDX-License-Identifier: Apache-2.0
/*
 * Idempotency-Key: the same request again gets the first answer, and nothing is done twice. Of a key and of a body only
 * hashes are kept. Answers of boxes are kept here; a command is its own memory as long as its box holds it.
 */
#include "gate/boxes.h"

#include "base/clock.h"
#include "base/own.h"

#include <string.h>

enum { IDEMS_MAX = 8192, KEY_MAX = 255 };
#define IDEM_US (24ull * 3600 * US_PER_S)

struct idem {
	struct idem *next;
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

/* The last one first: what is too old, or one too many, is at the end. */
static void forget(struct gate *g)
{
	struct idem **at = &g->idems;

	for (unsigned int n = 0; *at != NULL && n < IDEMS_MAX; n++) {
		struct idem *i = *at;

		if (i->until_us > g->loop.now_us) {
			at = &i->next;
			continue;
		}
		*at = i->next;
		free(i);
		g->nidems--;
	}
	while (*at != NULL) {
		struct idem *i = *at;

		*at = i->next;
		free(i);
		g->nidems--;
	}
}

const struct idem *idem_find(struct gate *g, const struct idem_key *k)
{
	for (const struct idem *i = g->idems; i != NULL; i = i->next)
		if (i->until_us > g->loop.now_us && memcmp(i->key.key, k->key, sizeof(k->key)) == 0)
			return i;
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
	size_t len = text != NULL ? n : 0;
	struct idem *i = age_ms * 1000 < IDEM_US ? malloc(sizeof(*i) + len + 1) : NULL;

	if (i == NULL)
		return;
	i->key = *k;
	i->until_us = g->loop.now_us + IDEM_US - age_ms * 1000;
	i->n = len;
	if (len > 0)
		(void)memcpy(i->text, text, len);
	i->text[len] = '\0';
	i->next = g->idems;
	g->idems = i;
	g->nidems++;
	forget(g);
}

void idem_refuse(struct req *r)
{
	own_refuse(r, OWN_KEY_REUSED, "Idempotency-Key",
		   "this Idempotency-Key was used with another body");
}
