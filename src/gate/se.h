/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Sandbox Runtime dialect, below /workspace/se: what its handlers share. Translation only, as the other dialects are.
 *
 *   se.c          limits and environment of its boxes
 *   se_handler.c  v2/execute_code: a function of the caller's, called once, in a fresh interpreter
 */
#pragma once

#include "gate/gate.h"
#include "wire/ops.h"

/* --- se.c --- */

/* Limits of a box of this dialect. */
void se_limits(struct gate *g, struct box_request *q);
/* Environment of its programs: /workspace is their home, too. */
const char *const *se_environment(void);

/* --- handlers --- */

void se_healthy(struct req *r);
void se_handler(struct req *r);
