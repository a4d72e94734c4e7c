/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staging directory: where an archive is unpacked to before anything of it is seen.
 *
 * It lies in the target itself, so that moving out of it is a rename, and is named after the process; who made it holds a
 * lock on it. One whose process is dead and whose lock is free is removed by the next who unpacks there.
 *
 * Other processes of the box have the same uid and can do in it what they like. No link is followed and nothing
 * is believed of what was put there.
 */
#pragma once

#include "archive/archive.h"
#include "archive/reach.h"

#include <sys/stat.h>
#include <sys/types.h>

struct stage {
	int target;        /* what is unpacked to */
	const char *path;  /* its name */
	unsigned int made; /* how many parts of that name were not there */
	int dir;           /* the staging directory */
	char name[64];
	int notes; /* modes and times of directories, see stage_note() */
	struct reach reach;
};

/* Open the target, make it and its parents where they are missing, and a staging directory in it. 0 or -1; then
 * nothing is left. */
int stage_begin(struct stage *s, const char *path, struct fault *f);

/* Remove it, with all that is in it; and what was made, if nothing else came there, unless it is `done`. */
void stage_end(struct stage *s, bool done);

/* The directory that holds `path`, made with its parents where it is missing; *ret_name is the last part. A descriptor, which stays
 * ours, or -errno: -ENOTDIR when a part of it is no directory. */
int stage_parent(struct stage *s, const char *path, const char **ret_name);

/* Note what a directory is to have: it can have it only when all that is in it is there. 0 or -errno. */
int stage_note(struct stage *s, const char *path, mode_t mode, struct timespec mtime);
/* Give all of them what was noted. 0 or -errno. */
int stage_dress(struct stage *s);
