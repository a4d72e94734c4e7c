/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories below a root, part by part, without following a link. Others may move them about meanwhile: then another one
 * of theirs is reached, or none.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The directory `path` below root, "" being root itself, opened with flags. A descriptor or -errno. */
int beneath_open(int root, const char *path, int flags);

/* Which one a directory is, wherever it is by now. */
struct dir_id {
	dev_t dev;
	ino_t ino;
};

struct dir_id dir_id(int dir);

/* From `dir` back to the one above it, which was `id`, and has `path` below root if it is another one by now. A descriptor or -errno. */
int beneath_up(int dir, struct dir_id id, int root, const char *path, int flags);

/* The last one that was asked for: the next one is often the same, or in it. */
struct reach {
	int root;  /* the caller's */
	bool make; /* what is missing */
	int dir;   /* -1: none yet */
	char path[PATH_MAX];
};

void reach_init(struct reach *r, int root, bool make);
void reach_done(struct reach *r);
/* The directory that the first n bytes of path name, as O_PATH. A descriptor, which stays ours, or -errno: -ENOTDIR when a part of it is no
 * directory. */
int reach_dir(struct reach *r, const char *path, size_t n);
