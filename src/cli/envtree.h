/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees that strangers have filled: counted, while they are filled, and removed. No link in them is followed, and none is too deep or too wide: they may be as the
 * disk allows.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { ENVTREE_ENTRIES_MAX = 4000000 }; /* as many as an archive may have */

struct envtree_size {
	uint64_t bytes; /* on disk; of a file with several names once */
	uint64_t entries;
	bool hidden; /* there is more in directories that are too deep, or that nobody may look into */
};

/* What is below path. It stops where there are more bytes than that, or more entries than there may be. */
void envtree_measure(const char *path, uint64_t most, struct envtree_size *ret);
/* A directory, and all that is in it: as much as can be. */
void envtree_remove(int dir, const char *name);
