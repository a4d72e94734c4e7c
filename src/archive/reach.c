// SPDX-License-Identifier: Apache-2.0
#include "archive/reach.h"

#include "base/own.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { STEP = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

/* Into the first part of *path, which is then the rest of it. */
static int step(int dir, const char **path, bool make, int flags)
{
	size_t n = strcspn(*path, "/");
	char name[NAME_MAX + 1];
	int fd;

	if (n == 0 || n > NAME_MAX)
		return n == 0 ? -EINVAL : -ENAMETOOLONG;
	(void)memcpy(name, *path, n);
	name[n] = '\0';
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -EINVAL;
	*path += n + ((*path)[n] == '/');
	fd = openat(dir, name, **path == '\0' ? flags : STEP);
	if (fd < 0 && errno == ENOENT && make && mkdirat(dir, name, 0755) == 0)
		fd = openat(dir, name, **path == '\0' ? flags : STEP);
	return fd < 0 ? -errno : fd;
}

static int walk_down(int dir, const char *path, bool make, int flags)
{
	own_fd at = openat(dir, ".", *path == '\0' ? flags : STEP);

	if (at < 0)
		return -errno;
	while (*path != '\0') {
		int next = step(at, &path, make, flags);

		if (next < 0)
			return next;
		fd_close(&at);
		at = next;
	}
	return fd_take(&at);
}

int beneath_open(int root, const char *path, int flags)
{
	return walk_down(root, path, false, flags);
}

struct dir_id dir_id(int dir)
{
	struct dir_id id = { 0 };
	struct stat st;

	if (fstat(dir, &st) == 0) {
		id.dev = st.st_dev;
		id.ino = st.st_ino;
	}
	return id;
}

int beneath_up(int dir, struct dir_id id, int root, const char *path, int flags)
{
	own_fd above = openat(dir, "..", flags);

	if (above >= 0) {
		struct dir_id now = dir_id(above);

		if (now.dev == id.dev && now.ino == id.ino)
			return fd_take(&above);
	}
	return beneath_open(root, path, flags);
}

void reach_init(struct reach *r, int root, bool make)
{
	r->root = root;
	r->make = make;
	r->dir = -1;
	r->path[0] = '\0';
}

void reach_done(struct reach *r)
{
	fd_close(&r->dir);
}

int reach_dir(struct reach *r, const char *path, size_t n)
{
	size_t have = strlen(r->path);
	bool below = r->dir >= 0 && have <= n && memcmp(r->path, path, have) == 0 &&
		     (have == 0 || have == n || path[have] == '/');
	int fd;

	if (below && have == n)
		return r->dir;
	(void)memcpy(r->path, path, n);
	r->path[n] = '\0';
	fd = walk_down(below ? r->dir : r->root, r->path + (below && have > 0 ? have + 1 : 0),
		       r->make, STEP);
	fd_close(&r->dir);
	if (fd >= 0)
		r->dir = fd;
	return fd;
}
