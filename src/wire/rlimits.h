/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those limits of a box that the kernel holds for each process: setrlimit(2). The keeper's plan sets them before init runs;
 * in a box that was made ahead init lowers them, for itself and for who waits, when the gate says for whom it is.
 */
#pragma once

#include "base/limits.h"

#include <stdbool.h>

enum { RLIMITS_N = 4, RLIMITS_BYTES = 8 * RLIMITS_N };

struct rlimits {
	struct {
		int which; /* RLIMIT_* */
		uint64_t soft, hard;
	} v[RLIMITS_N];
};

/* Of a box with these limits. */
void rlimits_of(const struct limits *l, struct rlimits *r);
/* The highest that a box can have: from there on every other one is a step down, which needs no privilege. */
void rlimits_most(struct rlimits *r);

/* Encode into buf; the length, or -EMSGSIZE. */
ptrdiff_t rlimits_encode(const struct limits *l, void *buf, size_t cap);
/* -EPROTO: more than the highest, or less than any box has. */
int rlimits_decode(const void *buf, size_t len, struct rlimits *r);
