/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a session: what the routes about them share. */
#pragma once

#include "gate/files.h"
#include "gate/se.h"

enum { SE_FILE_TEXT = 1024 };

/* Paths are below the workspace, and no link leads out of it; answers are those of the dialect. */
extern const struct file_shape se_shape;

/* What a failed operation is called (fileop.h), and what is said about it. */
enum se_error se_file_error(int error, const char *path, const char *why, char text[SE_FILE_TEXT]);
/* Refuse so. */
void se_file_refuse(struct req *r, int error, const char *path, const char *why);

/* --- se_script.c --- */

/* Bytes of memory become a file, and the answer says so. mode: octal. */
void se_write(struct req *r, struct abox *a, const struct file_path *path, const char *mode,
	      const char *p, size_t n);
