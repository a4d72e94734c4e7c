// SPDX-License-Identifier: Apache-2.0
#include "base/layers.h"

#include <string.h>

static const struct layer_row rows[] = {
#define LAYER(id, name, need, doc) [LAYER_##id] = { name, LAYER_##need, doc },
#include "policy/layers.tbl"
#undef LAYER
};

const struct layer_row *layer_row(enum layer layer)
{
	return &rows[layer];
}

int layer_find(const char *name)
{
	for (int i = 0; i < LAYER_MAX; i++)
		if (strcmp(rows[i].name, name) == 0)
			return i;
	return -1;
}

uint64_t layers_of(enum layer_need need)
{
	uint64_t set = 0;

	for (int i = 0; i < LAYER_MAX; i++)
		if (rows[i].need == need)
			set |= LAYER_BIT(i);
	return set;
}
