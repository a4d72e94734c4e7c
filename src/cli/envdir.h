/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory of environments (docs/decisions/0030): versions, pages about them, links that say which version of a name counts.
 *
 *   NAME -> NAME@VERSION        the link
 *   NAME@VERSION/environment    lines of `key = value`
 *   NAME@VERSION/tree           what boxes see
 *
 * A version's page is its lock (fcntl, of open file descriptions). Whoever builds has it for himself until it is complete; keepers hold it together, as long as they
 * know the version. So what is not linked and can be locked is nobody's.
 */
#pragma once

#include "wire/envtable.h"

struct envdir {
	int fd;
	char path[PATH_MAX];
};

enum { ENVDIR_VERSION = ENV_NAME + 24 }; /* "NAME@…" */

/* Made if it is not there. 0 or -1; envdir_close() in any case. */
int envdir_open(struct envdir *d, const char *path, struct err *e);
void envdir_close(struct envdir *d);
/* The directory that counts where nobody names one. 0 or -1. */
int envdir_usual(char ret[PATH_MAX], struct err *e);

/* The version that a name has. 0; -ENOENT. */
int envdir_version(const struct envdir *d, const char *name, char ret[ENVDIR_VERSION]);
/* What its page says, but for its id. 0 or -1. */
int envdir_read(const struct envdir *d, const char *version, struct env_row *ret, struct err *e);
/* Each name that there is, in the order of the alphabet: allocated, up to NULL; NULL: no memory. */
char **envdir_names(const struct envdir *d);
void envdir_names_free(char **names);

/* Another version, locked, empty but for its tree: its page, or -1. */
int envdir_new(const struct envdir *d, const char *name, char ret[ENVDIR_VERSION], struct err *e);
/* Its page, for who names the version itself: from here on others can hold it, too. 0 or -1. */
int envdir_draft(int page_fd, const char *version, const struct env_row *row, struct err *e);
/* It is complete: its page, and then its name means it. 0 or -1. */
int envdir_publish(const struct envdir *d, int page_fd, const char *version,
		   const struct env_row *row, struct err *e);
/* The name is not there any more. 0 or -1. */
int envdir_unlink(const struct envdir *d, const char *name, struct err *e);
/* Remove what no link names and nobody holds. How many could not be, because somebody does. */
unsigned int envdir_sweep(const struct envdir *d);
