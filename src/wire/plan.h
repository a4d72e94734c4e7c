/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of policy/plan.tbl: their numbers and names, for whoever reports what they cost. */
#pragma once

enum plan_step {
#define STEP(id, layer, doc) STEP_##id,
#include "policy/plan.tbl"
#undef STEP
	PLAN_STEPS,
};

/* Name of a step. */
const char *plan_step_str(unsigned int step);
