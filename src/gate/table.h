/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things that are found by a hash, and gone through in the order in which they came: the oldest is the first to go when there are
 * too many. The caller owns them, compares what has the same hash, and sees to a bound.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Part of a larger struct, zeroed at first. */
struct table_item {
	struct table_item *next; /* in its place */
	struct table_item *newer, *older;
	uint32_t hash;
	bool is_in;
};

/* Zeroed: empty. */
struct table {
	struct table_item **places; /* NULL until something is put into it */
	struct table_item *newest, *oldest;
	unsigned int n;
};

/* -ENOMEM. */
int table_add(struct table *t, struct table_item *i, uint32_t hash);
/* Nothing, if it is not in. */
void table_remove(struct table *t, struct table_item *i);
/* The newest with this hash, or the next one behind i; NULL: none. */
struct table_item *table_first(const struct table *t, uint32_t hash);
struct table_item *table_next(const struct table_item *i);
/* Let go of its memory. It is empty, or nobody needs what is in it. */
void table_done(struct table *t);
