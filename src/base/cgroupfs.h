/* SPDX-License-Identifier: Apache-2.0 */
/* Where the hierarchies of cgroups are, and where in them this process is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where a hierarchy is mounted: v1 with that controller, or v2 when controller is NULL. 0 or -errno. */
int cgroupfs_mount(const char *controller, char *ret, size_t size);

/* Our own cgroup in that hierarchy, as a path below its mount; "" for the top. 0 or -errno. */
int cgroupfs_own(const char *controller, char *ret, size_t size);

/* Whether a list such as cgroup.controllers or mount options has the word. */
bool has_word(const char *list, const char *word, const char *separators);
