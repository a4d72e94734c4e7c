/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files: contents and index together, and the order in which the two change.
 *
 * To come:  row pending → content gets its name → row ready.
 * To go:    content loses its name → row removed.
 *
 * So a store that is killed between any two steps leaves a pending row, with a content or without,
 * or a row without content. files_open() removes both, and with them every content that nobody was
 * told of. Contents without a row cannot come about, so nothing is ever removed for its looks only.
 *
 * Functions return 0 or -errno as in index.h and content.h; all may wait for the disk.
 */
#pragma once

#include "base/err.h"
#include "store/content.h"
#include "store/index.h"
#include "wire/store.h"

#include <stdbool.h>
#include <stdint.h>

enum { FILES_MAX = 1 << 20 }; /* empty ones use up no quota, but an inode and a row */

struct files {
	struct content content;
	struct index *index;
	int lock_fd;
	uint64_t count, bytes; /* that are ready */
	uint64_t ttl_us;       /* 0: they stay */
	bool stale;            /* a row stayed that has no content: look for it */
};

/* One store per directory: waits a moment for another one that is about to end. The working
 * directory must be dir. */
int files_open(struct files *f, int dir, bool nameless, uint64_t ttl_us, struct err *e);
void files_close(struct files *f);

/* Keep a content. Of *m, filename, size and sha256 are given; the rest is filled in. The temp is
 * used up when it returns 0. -ENOSPC also when there are FILES_MAX. */
int files_add(struct files *f, const char *tenant, struct content_temp *t, struct store_meta *m);

/* -ENOENT also for an expired one, and for a name that is no id. */
int files_find(struct files *f, const char *tenant, const char *id, struct store_meta *ret);
int files_list(struct files *f, const char *tenant, const char *after,
	       bool (*each)(void *ctx, const struct store_meta *m), void *ctx);
int files_remove(struct files *f, const char *tenant, const char *id);

/* Remove some of what has expired. 1 when there is more to do. */
int files_sweep(struct files *f);
