// SPDX-License-Identifier: Apache-2.0
#include "archive/walk.h"

#include "base/own.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum { LIST = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

int walk_begin(struct walk *w, int root, bool drain)
{
	w->root = root;
	w->drain = drain;
	w->path[0] = w->name[0] = '\0';
	w->len = w->at = w->n = 0;
	w->depth = 0;
	w->dir = beneath_open(root, "", LIST);
	return w->dir < 0 ? w->dir : 0;
}

void walk_end(struct walk *w)
{
	fd_close(&w->dir);
}

bool walk_path(const struct walk *w, char out[PATH_MAX])
{
	int n = snprintf(out, PATH_MAX, "%s%s%s", w->path, w->len > 0 ? "/" : "", w->name);

	return n > 0 && n < PATH_MAX;
}

int walk_enter(struct walk *w)
{
	size_t n = strlen(w->name), slash = w->len > 0;
	struct dir_id id = dir_id(w->dir);
	int fd;

	if (w->depth == WALK_DEPTH || w->len + slash + n >= sizeof(w->path))
		return -ENAMETOOLONG;
	fd = openat(w->dir, w->name, LIST);
	if (fd < 0)
		return -errno;
	fd_close(&w->dir);
	w->dir = fd;
	if (slash != 0)
		w->path[w->len++] = '/';
	(void)memcpy(w->path + w->len, w->name, n + 1);
	w->len += n;
	w->level[w->depth].next = w->drain ? 0 : w->next;
	w->level[w->depth++].id = id;
	w->at = w->n = 0;
	return 0;
}

/* Up, to where a directory is still there. */
static int leave(struct walk *w)
{
	own_fd below = fd_take(&w->dir);

	while (w->depth > 0) {
		const char *slash = memrchr(w->path, '/', w->len);
		size_t cut = slash != NULL ? (size_t)(slash - w->path) : 0;

		(void)snprintf(w->name, sizeof(w->name), "%s", w->path + cut + (slash != NULL));
		w->path[cut] = '\0';
		w->len = cut;
		w->at = w->n = 0;
		w->depth--;
		w->dir = beneath_up(below, w->level[w->depth].id, w->root, w->path, LIST);
		if (w->dir >= 0 && lseek(w->dir, w->level[w->depth].next, SEEK_SET) >= 0)
			return WALK_LEFT;
		fd_close(&below);
		below = fd_take(&w->dir);
	}
	return WALK_END;
}

int walk_next(struct walk *w)
{
	while (w->dir >= 0) {
		const struct dirent64 *d = (const void *)(w->buf + w->at);
		ssize_t n;

		if (w->at >= w->n) {
			n = syscall(SYS_getdents64, w->dir, w->buf, sizeof(w->buf));
			if (n <= 0)
				return leave(w);
			w->n = (size_t)n;
			w->at = 0;
			continue;
		}
		w->at += d->d_reclen;
		w->next = d->d_off;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		(void)snprintf(w->name, sizeof(w->name), "%s", d->d_name);
		return WALK_NAME;
	}
	return WALK_END;
}
