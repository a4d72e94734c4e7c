/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of policy/plan.tbl, and what they share. All run in the first process of a box. */
#pragma once

#include "keeper/keeper.h"

enum { SOURCES_MAX = 64 };

/* What one step leaves for a later one. */
struct work {
	struct setup *s;
	int root_fd; /* the box's root file system */
	int env_fd;  /* the tree of its environment, in this namespace; -1: not now */
	int source_fd[SOURCES_MAX];  /* what SHOW rows name on the host, -1: it lacks that */
	char link[SOURCES_MAX][128]; /* a SHOW row that is a symbolic link on the host */
	int device_fd[16];           /* detached mounts of devices */
	int store_fs[STORE_MAX];     /* what the writable stores can be resized by */
	int proc_fd;
	int mqueue_fd;    /* -1: this kernel has none */
	int trust_fd;     /* the file of BOX_TRUST, to be written to; -1: there is none */
	int proc_sys_fd;  /* /proc/sys as it was before it became read-only */
	char detail[160]; /* what a failed step was at */
};

/* -errno, with the thing that a step failed at in w->detail. */
int fail_at(struct work *w, const char *what);

/* --- show_env.c --- */

/* Whether it has another root than the machine's. */
bool env_is_root(const struct work *w);

/* --- show.c: parts of the host, by row of policy/root.tbl --- */
int source_open(struct work *w, unsigned int i, const char *path);
int source_show(struct work *w, unsigned int i, const char *at);
/* A directory of the host, sealed, at a place of the box's root that is made for it; or at one that is there, whose own files then lie over it. */
int show_directory(struct work *w, int fd, const char *at);
int show_under(struct work *w, int fd, const char *at);

/* 0 or -errno; on failure w->detail may say at what. */
#define STEP(id, layer, doc) int step_##id(struct work *w);
#include "policy/plan.tbl"
#undef STEP
