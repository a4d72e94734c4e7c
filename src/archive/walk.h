/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of files, name after name, in the order in which its directories have them.
 *
 * However deep and wide it is: one directory is open at a time, and what is kept of those above it is how far they were
 * read. No link is followed. Others may move things about meanwhile: then something is missed or comes twice, and nothing else happens.
 */
#pragma once

#include "archive/reach.h"

#include <limits.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	WALK_DEPTH = PATH_MAX / 2, /* a path has no more parts */
	WALK_BUF = 32768,
};

enum walk_event {
	WALK_END,
	WALK_NAME, /* `name` in `dir` */
	WALK_LEFT, /* the same, and all that is in it was seen */
};

struct walk {
	int root;            /* the caller's */
	int dir;             /* that of the names that come */
	char path[PATH_MAX]; /* its path below root, "" for root itself */
	size_t len;
	char name[NAME_MAX + 1];
	bool drain; /* names go away when they were seen: begin anew where something was left */
	unsigned int depth;
	off_t next;
	struct {
		off_t next;
		struct dir_id id;
	} level[WALK_DEPTH];
	size_t at, n;
	alignas(8) char buf[WALK_BUF];
};

/* 0 or -errno; then there is nothing to end. */
int walk_begin(struct walk *w, int root, bool drain);
/* enum walk_event. */
int walk_next(struct walk *w);
/* After WALK_NAME: the names in that one come next. 0 or -errno, and then they do not. */
int walk_enter(struct walk *w);
void walk_end(struct walk *w);
/* The path of `name` below root. False: it would be too long. */
bool walk_path(const struct walk *w, char out[PATH_MAX]);
