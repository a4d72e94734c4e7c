/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store gives up what it does not need, before it reads its first message.
 *
 * Afterwards: ids as asked for, no supplementary group, no capability and none to come by, no new
 * privileges, nobody may trace it or read its memory, files that it makes are its own (umask
 * 077), and, where the kernel has Landlock, no file can be opened but beneath the two
 * directories.
 */
#pragma once

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

#define CONFINE_KEEP_ID UINT64_MAX

/*
 * uid, gid: whom to become, or CONFINE_KEEP_ID. dir_fd becomes the working directory; audit_fd may
 * be -1. A process that is not root stays who it is: another id is an error.
 * 0; on -1 *e says what the kernel refused.
 */
int confine_store(uint64_t uid, uint64_t gid, int dir_fd, int audit_fd, struct err *e);
