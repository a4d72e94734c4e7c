/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* A number that is another one when the Python of this machine has changed. Costs some stat(2). */
uint64_t environment_mark(void);
