/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of members, and where links lead: what an archive may say, as text.
 *
 * A symbolic link may go up only at its beginning ("../../lib/x", not "lib/../../x"), and not beyond the root of the
 * archive. Its directory is a real one, because no member lies below a link; so going up leads to real directories of
 * the archive, and what goes down from there passes other links of which the same is true. What goes up after it went down could come
 * from anywhere.
 */
#pragma once

#include <limits.h>

/* "./a//b/" as "a/b", "." as "". 0, or -EBADMSG with *why. */
int name_take(const char *name, char out[PATH_MAX], const char **why);

/* Whether a symbolic link `path`, as name_take() gave it, may lead to `target`. 0, or -EBADMSG with *why. */
int link_check(const char *path, const char *target, const char **why);
