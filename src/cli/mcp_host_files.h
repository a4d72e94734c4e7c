/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of this machine that a client of MCP may name: those below directories that the user has allowed.
 *
 * A path is resolved, links and all, and has to lie below one of them; it is then opened beneath the descriptor of that directory, in a
 * way that does not lead out of it. Whoever puts a link into the way between the two gets an error: nothing is opened by a path
 * that was only looked at.
 */
#pragma once

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { HOST_DIRS_MAX = 32 };

struct host_dirs {
	struct {
		char path[PATH_MAX]; /* resolved */
		int fd;
	} d[HOST_DIRS_MAX];
	unsigned int n;
};

void host_dirs_done(struct host_dirs *h);
int host_dirs_add(struct host_dirs *h, const char *path, struct err *e);

/* A regular file, to be read. Its descriptor, or -1: e->text is what the client is told. Neither waits for a fifo nor touches a device. */
int host_open(const struct host_dirs *h, const char *path, uint64_t *ret_size, struct err *e);

/* A file that is being written: it appears under its name when it is whole. */
struct host_new {
	const struct host_dirs *h;
	unsigned int in;     /* which directory */
	char path[PATH_MAX]; /* below that; the last part is its name */
	size_t made_from;    /* where in path the directories end that were there before */
	bool begun;
	int dir, fd;   /* dir: where it lies */
	char temp[48]; /* "": there is none */
};

/* Whether a file may be written there; nothing is, yet. */
int host_new_check(const struct host_dirs *h, const char *path, struct host_new *f, struct err *e);
/* Make directories on the way, and the file under another name: f->fd is to be written to. */
int host_new_begin(struct host_new *f, struct err *e);
/* Give it its name. */
int host_new_finish(struct host_new *f, struct err *e);
/* Whatever happened: after host_new_finish() nothing is left but the file, otherwise nothing at all. */
void host_new_done(struct host_new *f);
