/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paths of files in a box, as requests have them: below the working directory, or below the root. A path is any bytes but
 * NUL, in components of 255 at most that are neither empty nor "." nor ".."; 4095 bytes in all. So it leads nowhere but
 * below where it begins, unless a link of the box leads elsewhere, and those are the box's own.
 */
#pragma once

#include "wire/http1.h"

#include <limits.h>

struct file_path {
	bool from_root;
	char text[PATH_MAX]; /* "": where it begins */
};

enum { FILE_PATH_IN_BOX = PATH_MAX + 1 };

/* Take a path that is decoded already. 0, -EINVAL or -ENAMETOOLONG. */
int file_path_take(struct file_path *p, const char *text, size_t n);

/* Take the rest of a target. 0, -EINVAL or -ENAMETOOLONG; -EBADMSG: see *r. */
int file_path_take_rest(struct file_path *p, struct http_slice rest, struct http_refusal *r);

/* As an operation in the box takes it: relative to the working directory, or absolute. */
void file_path_in_box(const struct file_path *p, char out[FILE_PATH_IN_BOX]);

/* Its last component, or "". */
const char *file_path_name(const struct file_path *p);
