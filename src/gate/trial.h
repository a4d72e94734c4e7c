/* SPDX-License-Identifier: Apache-2.0 */
/* Health: whether boxes can be made, seen by making one. */
#pragma once

#include "base/loop.h"

#include <stdbool.h>

struct gate;
struct gbox;
struct req;

enum { TRIAL_WAITERS = 64 };

struct trial {
	struct gbox *box; /* being made */
	struct timer again, late;
	struct req *waiting[TRIAL_WAITERS];
	unsigned int nwaiting;
	bool told;    /* the keeper was told of the first one */
	bool any, ok; /* of the last one */
	uint64_t done_us, layers;
	char why[512];
};

/* Begin the first trial, and one every health_check_interval. */
void trial_start(struct gate *g);
/* Answer this request by `answer` when a fresh trial is over, or at once when there can be none. */
void trial_wait(struct gate *g, struct req *r, void (*answer)(struct req *r));
