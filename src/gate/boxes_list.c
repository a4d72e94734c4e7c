// SPDX-License-Identifier: Apache-2.0
/* GET /v1/boxes: yours, the oldest first. An id says when its box was made, so a page goes on behind any id, there or not. */
#include "gate/boxes.h"

#include "base/own.h"

#include <string.h>

#define METADATA "metadata."

enum { LIMIT_DEFAULT = 100 };

struct wanted {
	uint64_t limit;
	struct http_slice after, state;
};

static bool is_state(struct http_slice s)
{
	static const char *const states[] = { "creating", "ready", "busy", "paused", "ending" };

	for (unsigned int i = 0; i < ARRAY_LEN(states); i++)
		if (http_slice_is(s, states[i]))
			return true;
	return false;
}

static bool is_metadata(struct http_slice key)
{
	return key.n > strlen(METADATA) && memcmp(key.p, METADATA, strlen(METADATA)) == 0;
}

/* A filter that is misspelt must not list everything. */
static int check_keys(struct req *r)
{
	static const char *const known[] = { "limit", "after", "state", "token" };

	for (unsigned int i = 0; i < r->target.nquery; i++) {
		struct http_slice key = r->target.query[i].key;
		bool fine = is_metadata(key);

		for (unsigned int k = 0; k < ARRAY_LEN(known) && !fine; k++)
			fine = http_slice_is(key, known[k]);
		if (!fine) {
			own_refuse(r, OWN_UNKNOWN_FIELD, key.p, "'%.200s' is not a known parameter",
				   key.p);
			return -1;
		}
	}
	return 0;
}

static int take(struct req *r, struct wanted *w)
{
	*w = (struct wanted){ .limit = LIMIT_DEFAULT,
			      .after = req_query(r, "after"),
			      .state = req_query(r, "state") };
	if (check_keys(r) < 0 || own_query_u64(r, "limit", 1, BOX_LIST_MAX, &w->limit) < 0)
		return -1;
	if (http_query(&r->target, "state") != NULL && !is_state(w->state)) {
		own_refuse(r, OWN_INVALID_FIELD, "state",
			   "'state' must be creating, ready, busy, paused or ending");
		return -1;
	}
	return 0;
}

static bool has_metadata(const struct abox *a, const struct http_target *t)
{
	for (unsigned int i = 0; i < t->nquery; i++) {
		const char *key, *value;
		bool found = false;
		size_t at = 0;

		if (!is_metadata(t->query[i].key))
			continue;
		while (!found && texts_next(&a->metadata, &at, &key, &value))
			found = strcmp(key, t->query[i].key.p + strlen(METADATA)) == 0 &&
				http_slice_is(t->query[i].value, value);
		if (!found)
			return false;
	}
	return true;
}

static bool fits(const struct req *r, const struct abox *a, const struct wanted *w)
{
	if (a->tenant != r->tenant || (w->after.n > 0 && strcmp(a->id, w->after.p) <= 0))
		return false;
	if (w->state.n > 0 && !http_slice_is(w->state, abox_state_str(a)))
		return false;
	return has_metadata(a, &r->target);
}

static int by_id(const void *a, const void *b)
{
	return strcmp((*(const struct abox *const *)a)->id, (*(const struct abox *const *)b)->id);
}

void box_list(struct req *r)
{
	const struct abox **found;
	struct wanted w;
	struct json j;
	size_t n = 0;

	if (take(r, &w) < 0)
		return;
	found = calloc(r->g->naboxes + 1, sizeof(struct abox *));
	if (found == NULL) {
		own_refuse(r, OWN_NO_MEMORY, NULL, "out of memory");
		return;
	}
	for (const struct abox *a = r->g->aboxes; a != NULL; a = a->next)
		if (fits(r, a, &w))
			found[n++] = a;
	qsort(found, n, sizeof(struct abox *), by_id);
	json_init(&j);
	json_open(&j, NULL, '{');
	json_open(&j, "boxes", '[');
	for (size_t i = 0; i < n && i < w.limit; i++) {
		json_open(&j, NULL, '{');
		abox_put(found[i], &j);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	if (n > w.limit)
		json_str(&j, "next", found[w.limit - 1]->id);
	else
		json_null(&j, "next");
	json_close(&j, '}');
	free(found);
	req_json(r, 200, &j);
}
