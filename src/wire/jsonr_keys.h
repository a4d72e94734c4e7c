/* SPDX-License-Identifier: Apache-2.0 */
/* A part of jsonr.c: no key of an object stands there twice, and finding out takes linear time. */
#pragma once

#include "wire/jsonr.h"

/* Scratch for the objects of one document. Begins as zeros. */
struct jsonr_keys {
	uint64_t seed[2];
	struct jsonr_slot *slots;
	size_t cap;
};

/* The first member whose key was there before, or NULL. -ENOMEM: no memory, no random numbers. */
int jsonr_keys_twice(struct jsonr_keys *k, const struct jsonr *d, const struct jsonr_node *object,
		     const struct jsonr_node **ret);
void jsonr_keys_done(struct jsonr_keys *k);
