/* SPDX-License-Identifier: Apache-2.0 */
/* src/gate/table.c: things found by a hash, in their order. */
#include "gate/table.h"

#include <stdlib.h>

#include "test_help.h"

enum { ITEMS = 3000, HASHES = 1500 };

struct thing {
	struct table_item item; /* its first member */
	unsigned int number;
	bool is_in;
};

static struct thing things[ITEMS];

static unsigned int number_of(const struct table_item *i)
{
	return ((const struct thing *)i)->number;
}

TEST(table_of_nothing_has_nothing)
{
	struct table t = { 0 };

	CHECK(table_first(&t, 7) == NULL);
	table_remove(&t, &things[0].item);
	CHECK(t.n == 0 && t.newest == NULL && t.oldest == NULL);
	table_done(&t);
}

/* All that have one hash, the newest first, and no other. */
static void check_hash(const struct table *t, uint32_t hash)
{
	const struct table_item *i = table_first(t, hash);

	for (unsigned int k = ITEMS; k > 0; k--) {
		if (!things[k - 1].is_in || things[k - 1].item.hash != hash)
			continue;
		CHECK(i == &things[k - 1].item);
		i = table_next(i);
	}
	CHECK(i == NULL);
}

static void check_order(const struct table *t)
{
	const struct table_item *up = t->oldest, *down = t->newest;
	unsigned int n = 0;

	for (unsigned int k = 0; k < ITEMS; k++) {
		if (!things[k].is_in)
			continue;
		CHECK(up != NULL && number_of(up) == k);
		up = up->newer;
		n++;
	}
	for (unsigned int k = ITEMS; k > 0; k--)
		if (things[k - 1].is_in) {
			CHECK(down != NULL && number_of(down) == k - 1);
			down = down->older;
		}
	CHECK(up == NULL && down == NULL);
	CHECK_EQ_INT(t->n, n);
}

/* Twice as many as it has places; two hashes at least are in the same place. */
TEST(table_behaves_like_a_list)
{
	struct table t = { 0 };
	uint64_t seed = 1;

	for (unsigned int k = 0; k < ITEMS; k++) {
		things[k].number = k;
		things[k].is_in = true;
		CHECK_EQ_INT(table_add(&t, &things[k].item, k % HASHES), 0);
	}
	check_order(&t);
	for (unsigned int k = 0; k < ITEMS; k++)
		if (rnd_below(&seed, 3) != 0 || k == 0 || k == ITEMS - 1) {
			table_remove(&t, &things[k].item);
			table_remove(&t, &things[k].item); /* once is enough */
			things[k].is_in = false;
		}
	check_order(&t);
	for (uint32_t hash = 0; hash < HASHES; hash += 17)
		check_hash(&t, hash);
	check_hash(&t, HASHES + 1);
	for (unsigned int k = 0; k < ITEMS; k++) {
		table_remove(&t, &things[k].item);
		things[k].is_in = false;
	}
	check_order(&t);
	table_done(&t);
}
