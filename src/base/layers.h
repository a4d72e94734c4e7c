/* SPDX-License-Identifier: Apache-2.0 */
/* The isolation layers of a box, from policy/layers.tbl. A set of them is a bit mask. */
#pragma once

#include <stdint.h>

enum layer {
#define LAYER(id, name, need, doc) LAYER_##id,
#include "policy/layers.tbl"
#undef LAYER
	LAYER_MAX,
};
_Static_assert(LAYER_MAX <= 64, "a set of layers is 64 bits");

#define LAYER_BIT(layer) ((uint64_t)1 << (layer))

enum layer_need { LAYER_ALWAYS, LAYER_REQUIRED, LAYER_EXTRA };

struct layer_row {
	const char *name;
	enum layer_need need;
	const char *doc;
};

const struct layer_row *layer_row(enum layer layer);

/* The layer of that name, or -1. */
int layer_find(const char *name);

/* Every layer of that need. */
uint64_t layers_of(enum layer_need need);
