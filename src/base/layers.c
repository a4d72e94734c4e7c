// SPDX-License-Identifier: Apache-2.0
#include "base/layers.h"

#include <string.h>

#define REQUIRED true
#define EXTRA    false

static const struct layer_row rows[] = {
#define LAYER(id, name, need, doc) [LAYER_##id] = { name, need, doc },
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

uint64_t layers_required(void)
{
	uint64_t set = 0;

	for (int i = 0; i < LAYER_MAX; i++)
		if (rows[i].required)
			set |= LAYER_BIT(i);
	return set;
}
