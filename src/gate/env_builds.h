/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environments that are built and removed through the API, where the operator allows it: the supervisor does it, one after the other, by `glovebox env`. What is known of
 * it is this gate's memory: the next one knows the environments that came of it, and not how.
 */
#pragma once

#include "gate/req.h"
#include "wire/chan.h"

enum { ENV_BUILDS_MAX = 32 };

struct env_build;

/* EVENT_BUILT of the keeper. It has not ended for clients until env_builds_settle(): when the gate knows what came of it. */
void env_builds_event(struct gate *g, const struct chan_msg *m);
void env_builds_settle(struct gate *g);

/* POST and DELETE /v1/environments…, GET /v1/environments/{environment}/build. */
void environment_build(struct req *r);
void environment_remove(struct req *r);
void environment_build_get(struct req *r);
extern const struct fields environment_build_fields;
