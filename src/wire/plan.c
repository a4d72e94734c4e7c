// SPDX-License-Identifier: Apache-2.0
#include "wire/plan.h"

static const char *const names[] = {
#define STEP(id, layer, doc) #id,
#include "policy/plan.tbl"
#undef STEP
};

const char *plan_step_str(unsigned int step)
{
	return step < PLAN_STEPS ? names[step] : "?";
}
