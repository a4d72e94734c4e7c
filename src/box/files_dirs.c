// SPDX-License-Identifier: Apache-2.0
/*
 * Which directory a watch descriptor is. Each knows its name and the one above it, so that moving one takes along all that is below.
 * The kernel numbers watches upwards, so a new one is nearly always the last.
 */
#include "box/files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>

enum { DIRS_MAX = 1 << 17 };

/* Where it is, or would be. */
static size_t place_of(const struct watched_dirs *d, int wd)
{
	size_t low = 0, high = d->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (d->v[mid].wd < wd)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct watched_dir *dirs_find(const struct watched_dirs *d, int wd)
{
	size_t at = place_of(d, wd);

	return at < d->n && d->v[at].wd == wd && !d->v[at].gone ? &d->v[at] : NULL;
}

struct watched_dir *dirs_child(const struct watched_dirs *d, int parent, const char *name)
{
	for (size_t i = d->n; i > 0; i--) {
		struct watched_dir *c = &d->v[i - 1];

		if (!c->gone && c->parent == parent && c->name != NULL &&
		    strcmp(c->name, name) == 0)
			return c;
	}
	return NULL;
}

/* Those that are gone make room. */
static void tidy(struct watched_dirs *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->n; i++)
		if (!d->v[i].gone)
			d->v[kept++] = d->v[i];
	d->n = kept;
	d->gone = 0;
}

static int grow(struct watched_dirs *d)
{
	size_t cap = d->cap * 2 + 16;
	struct watched_dir *v;

	if (d->n < d->cap)
		return 0;
	v = d->n < DIRS_MAX ? reallocarray(d->v, cap, sizeof(*v)) : NULL;
	if (v == NULL)
		return -1;
	d->v = v;
	d->cap = cap;
	return 0;
}

int dirs_put(struct watched_dirs *d, int wd, int parent, const char *name)
{
	struct watched_dir *known = dirs_find(d, wd);
	char *copy = name != NULL ? strdup(name) : NULL;
	size_t at;

	if (name != NULL && copy == NULL)
		return -1;
	if (known != NULL) {
		free(known->name);
		known->name = copy;
		known->parent = parent;
		return 0;
	}
	if (d->gone > 64 && d->gone > d->n / 2)
		tidy(d);
	if (grow(d) < 0) {
		free(copy);
		return -1;
	}
	at = place_of(d, wd);
	if (at < d->n && d->v[at].wd == wd) {
		d->gone--;
	} else {
		(void)memmove(&d->v[at + 1], &d->v[at], (d->n - at) * sizeof(*d->v));
		d->n++;
	}
	d->v[at] = (struct watched_dir){ .wd = wd, .parent = parent, .name = copy };
	return 0;
}

void dirs_remove(struct watched_dirs *d, int wd)
{
	struct watched_dir *w = dirs_find(d, wd);

	if (w == NULL)
		return;
	free(w->name);
	w->name = NULL;
	w->gone = true;
	d->gone++;
}

/* Whether it is `top` or below that. */
static bool is_below(const struct watched_dirs *d, const struct watched_dir *w, int top)
{
	/* Should what we know be wrong there is an end all the same. */
	for (int depth = 0; depth < PATH_MAX && w != NULL && w->wd != top; depth++)
		w = w->name != NULL ? dirs_find(d, w->parent) : NULL;
	return w != NULL && w->wd == top;
}

static void drop_doomed(struct watched_dirs *d, int inotify_fd)
{
	for (size_t i = 0; i < d->n; i++)
		if (d->v[i].doomed) {
			(void)inotify_rm_watch(inotify_fd, d->v[i].wd);
			dirs_remove(d, d->v[i].wd);
		}
}

void dirs_drop(struct watched_dirs *d, int top, int inotify_fd)
{
	for (size_t i = 0; i < d->n; i++)
		d->v[i].doomed = !d->v[i].gone && is_below(d, &d->v[i], top);
	drop_doomed(d, inotify_fd);
}

void dirs_keep(struct watched_dirs *d, int top, int inotify_fd)
{
	for (size_t i = 0; i < d->n; i++)
		d->v[i].doomed = !d->v[i].gone && d->v[i].wd != top;
	drop_doomed(d, inotify_fd);
}

/* From its end to its beginning, and then to the front. */
bool dirs_path(const struct watched_dirs *d, int wd, const char *name, char path[PATH_MAX])
{
	const struct watched_dir *w = dirs_find(d, wd);
	size_t at = PATH_MAX - 1;

	path[at] = '\0';
	while (name != NULL) {
		size_t n = strlen(name);

		if (w == NULL || at < n + 1)
			return false;
		at -= n;
		(void)memcpy(path + at, name, n);
		name = w->name;
		if (name == NULL)
			break;
		path[--at] = '/';
		w = dirs_find(d, w->parent);
	}
	(void)memmove(path, path + at, PATH_MAX - at);
	return true;
}
