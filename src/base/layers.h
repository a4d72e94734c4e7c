/* SPDX-License-Identifier: Apache-2.0 */
/* The isolation layers of a box, from policy/layers.tbl. A set of them is a bit mask. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum layer {
#define LAYER(id, name, need, doc) LAYER_##id,
#include "policy/layers.tbl"
#undef LAYER
	LAYER_MAX,
};
_Static_assert(LAYER_MAX <= 64, "a set of layers is 64 bits");

#define LAYER_BIT(layer) ((uint64_t)1 << (layer))

struct layer_row {
	const char *name;
	bool required;
	const char *doc;
};

const struct layer_row *layer_row(enum layer layer);

/* The layer of that name, or -1. */
int layer_find(const char *name);

/* Every layer that a box must have unless it is waived. */
uint64_t layers_required(void);
