// SPDX-License-Identifier: Apache-2.0
/*
 * Files and directories go away. The first that cannot be deleted ends it; what was deleted before is gone. A link is deleted itself,
 * and a place where something is mounted is EBUSY before anything below it has gone.
 */
#include "box/files.h"

#include <fcntl.h>
#include <unistd.h>

/* How often something may turn up in a directory that was just emptied. */
enum { AGAIN_MAX = 1000 };

/* 0: it is gone; ENOTEMPTY: it is a directory with content; another errno. */
static int remove_one(int dir, const char *name, unsigned char type)
{
	/* What the type says saves a call, and may have changed. */
	int first = type == DT_DIR ? AT_REMOVEDIR : 0;

	if (unlinkat(dir, name, first) == 0 || errno == ENOENT)
		return 0;
	if (errno != (first != 0 ? ENOTDIR : EISDIR))
		return errno == EEXIST ? ENOTEMPTY : errno;
	if (unlinkat(dir, name, first ^ AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return errno == EEXIST ? ENOTEMPTY : errno;
}

/* Out of a directory that has been emptied, and away with it. If it has content again it is gone through again. */
static int leave(struct walk *w, unsigned int *again)
{
	const char *name = walk_here(w)->name;
	int r = walk_up(w);

	if (r != 0)
		return r == ESTALE ? EBUSY : r;
	if (w->n == 0)
		return 0;
	r = remove_one(walk_here(w)->fd, name, DT_DIR);
	if (r == ENOTEMPTY && ++*again <= AGAIN_MAX)
		r = walk_down(w, name);
	return r;
}

static int empty(struct walk *w)
{
	unsigned int again = 0;
	int r = 0;

	while (r == 0 && w->n > 0) {
		unsigned char type;
		const char *name = walk_next(w, &type);

		if (name == NULL) {
			r = leave(w, &again);
			continue;
		}
		r = remove_one(walk_here(w)->fd, name, type);
		if (r == ENOTEMPTY)
			r = walk_down(w, name);
		if (r == ENOTDIR || r == ELOOP) /* it is something else by now */
			r = remove_one(walk_here(w)->fd, name, DT_UNKNOWN);
		if (r == ENOENT)
			r = 0; /* somebody else deletes, too */
	}
	return r;
}

/* So that what we are working in does not vanish by another of its names. */
static bool is_here(const struct place *at)
{
	struct stat st, here;

	return fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && stat(".", &here) == 0 &&
	       st.st_dev == here.st_dev && st.st_ino == here.st_ino;
}

int file_delete(const struct file_job *f)
{
	struct walk w = { 0 };
	own_place at = { .dir = -1 };
	bool recursive;
	int fd, r = bool_of(f->words[0], &recursive);

	if (r == 0)
		r = place_open(&at, f->path, /* make= */ false);
	if (r == 0 && (place_is_top(&at) || is_here(&at)))
		r = EBUSY;
	if (r != 0)
		return r;
	if (faccessat(at.dir, at.name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return errno;
	r = remove_one(at.dir, at.name, DT_UNKNOWN);
	for (unsigned int again = 0; r == ENOTEMPTY && recursive && again <= AGAIN_MAX; again++) {
		fd = openat(at.dir, at.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = fd < 0 ? errno : walk_start(&w, fd);
		if (r == 0)
			r = empty(&w);
		walk_end(&w);
		if (r == 0 || r == ENOENT)
			r = remove_one(at.dir, at.name, DT_DIR);
	}
	return r;
}
