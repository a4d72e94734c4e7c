/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index: which files there are and whose they are, in an SQLite file beside the contents.
 *
 * A row is *pending* from before its content gets its name until after, then *ready*. Only ready
 * rows are found or listed; a pending row that is met later tells that its content, if there is
 * any, was never acknowledged to anybody. The file is opened by its bare name: the working
 * directory is the store's.
 *
 * Functions return 0 or -errno: -ENOSPC for a full disk, -EBUSY when another process holds the
 * file, -ENOENT for no such row, -EIO for the rest. All may wait for the disk.
 */
#pragma once

#include "base/err.h"
#include "wire/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INDEX_NAME "glovebox-files.sqlite3"

enum { INDEX_VERSION = 1 };

struct index;

struct index_row {
	char id[STORE_ID_LEN + 1];
	uint64_t size;
	bool ready;
};

/* Open or make it. On -1 *e says why: a newer version, a file of somebody else, a damaged one. */
int index_open(struct index **ret, struct err *e);
void index_close(struct index *ix);

/* Add a pending row; make it ready; remove it in whatever state. */
int index_add(struct index *ix, const char *tenant, const struct store_meta *f);
int index_ready(struct index *ix, const char *id);
int index_remove(struct index *ix, const char *id);

/* Many changes at once: either all of them stay, or none. */
int index_begin(struct index *ix);
int index_end(struct index *ix);

/* A ready row of that tenant, younger than since_us (unix time). */
int index_find(struct index *ix, const char *tenant, const char *id, uint64_t since_us,
	       struct store_meta *ret);

/* Ready rows of a tenant behind an id, in order, until each() returns false. */
int index_list(struct index *ix, const char *tenant, const char *after, uint64_t since_us,
	       bool (*each)(void *ctx, const struct store_meta *f), void *ctx);

/* What a tenant has, pending rows included; what all have. */
int index_usage(struct index *ix, const char *tenant, uint64_t *ret_bytes);
int index_totals(struct index *ix, uint64_t *ret_files, uint64_t *ret_bytes);

/* Up to n rows: those behind an id; those that are pending; the oldest, not younger than
 * until_us. The count is returned. */
int index_walk(struct index *ix, const char *after, struct index_row *rows, unsigned int n);
int index_pending(struct index *ix, struct index_row *rows, unsigned int n);
int index_expired(struct index *ix, uint64_t until_us, struct index_row *rows, unsigned int n);
