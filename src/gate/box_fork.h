/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/boxes/{id}/fork: boxes that are what this one is, and from then on nobody's but their own.
 *
 * The kernel freezes into an image (kernel/README.md, Copies), which the keeper seals; boxes are made from it, get the files, and thaw it. Only when the
 * kernel of each has said that it goes on is anything answered. What cannot be made whole is not made at all.
 */
#pragma once

#include "gate/boxes.h"

enum {
	FORK_MAX = 64,
	FORKS_AT_ONCE = 8, /* of a gate: each has an image, which may be as large as a session */
};

extern const struct fields box_fork_fields;

void box_fork(struct req *r);
/* Its box has ended. */
void forking_end(struct abox *a);
