/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

#include <stdint.h>

/* The role `egress` of glovebox-gate. confine gives up everything that it does not need. */
int egress_main(int argc, char **argv, int (*confine)(uint32_t uid, uint32_t gid, struct err *e));
