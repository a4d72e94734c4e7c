/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents of files in the store's directory: a file per id, of that name, mode 0600.
 *
 * The directory may hold files of others. Only names that are ids (store_id_is_valid) or temporary
 * names of ours are ever opened, made or removed here; nothing is followed, neither a link nor a
 * "..". All functions return 0 or -errno and may wait for the disk.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define CONTENT_TEMP_PREFIX ".glovebox-tmp-"

enum { CONTENT_TEMP_NAME = sizeof(CONTENT_TEMP_PREFIX) + 32 };

enum content_how {
	CONTENT_NAMED,     /* a temporary name, then renamed */
	CONTENT_LINK_FD,   /* no name at all, then linked by its descriptor */
	CONTENT_LINK_PROC, /* the same by way of /proc: kernels before 6.10 */
};

struct content {
	int dir; /* not owned */
	enum content_how how;
};

/* A content that has no id yet. */
struct content_temp {
	int fd;
	char name[CONTENT_TEMP_NAME]; /* "" where there is none */
};

/* See what the directory can do. nameless: use files without a name if it can. */
int content_init(struct content *c, int dir, bool nameless);

/* Remove the temporary files that a store left which did not end by itself. */
int content_clear_temps(const struct content *c);

/* An empty one to write to. */
int content_new(const struct content *c, struct content_temp *t);

/* Give it its final name and close it. It stays a temp when that fails. -EEXIST: the name is
 * taken. */
int content_keep(const struct content *c, struct content_temp *t, const char *id);

/* Forget it, if there is one. */
void content_drop(const struct content *c, struct content_temp *t);

/* Open for reading. -ENOENT also when what has the name is no plain file. */
int content_open(const struct content *c, const char *id, int *ret_fd, uint64_t *ret_size);

/* Size of a plain file of that name; -ENOENT as above. */
int content_size(const struct content *c, const char *id, uint64_t *ret_size);

/* 0 when no plain file has that name any more. What is no plain file is not ours and stays. */
int content_remove(const struct content *c, const char *id);
