/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* The name of a system call of this machine by policy/syscalls.tbl; "unknown": it has no such number. */
const char *syscall_name(uint32_t number);
