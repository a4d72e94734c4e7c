/* SPDX-License-Identifier: Apache-2.0 */
/* What jupyter_read.c and jupyter_write.c share. */
#pragma once

#include "wire/jupyter.h"

/* How a binary frame is laid out. */
struct jup_layout {
	size_t word; /* bytes of a number */
	bool big_endian;
	size_t fixed; /* parts before the buffers */
	size_t ends;  /* offsets that begin no part: the end of the last one */
};

enum { JUP_FIXED_MAX = 5 };

static const struct jup_layout jup_layouts[] = {
	[JUP_LEGACY] = { .word = 4, .big_endian = true, .fixed = 1, .ends = 0 },
	[JUP_V1] = { .word = 8, .big_endian = false, .fixed = JUP_FIXED_MAX, .ends = 1 },
};
