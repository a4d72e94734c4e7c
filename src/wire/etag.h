/* SPDX-License-Identifier: Apache-2.0 */
/* Entity tags, as clients send them back: the text of If-None-Match and of If-Match. */
#pragma once

#include <stdbool.h>

/* Whether one of the tags in `header` is `etag`, or it is "*": If-None-Match, for which a weak tag is as good. What follows a
 * tag that is malformed is not looked at. */
bool etag_listed(const char *header, const char *etag);

/* The same for If-Match, for which a weak tag is none. */
bool etag_listed_strong(const char *header, const char *etag);
