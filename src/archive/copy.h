/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, for where nothing may change its directory: Landlock of Linux 5.13 to 5.18 has no word for allowing it. */
#pragma once

#include <sys/stat.h>

/* The file or symbolic link `name` as `as`, with its mode and time; there must be nothing yet. 0 or -errno, and then there is nothing. */
int copy_one(int from, const char *name, const struct stat *st, int to, const char *as);
