// SPDX-License-Identifier: Apache-2.0
/*
 * What a box shows of the host: SHOW rows of policy/root.tbl.
 *
 * A directory becomes a read-only overlay of its own, a file a copy. Shared as they are, their inodes would
 * be a channel: a lock that one box takes on /usr/bin/python3 is seen by the next, and inotify tells a
 * box which programs its neighbours and the host start. Through an overlay the bytes in the page cache are
 * still shared, locks and events are not. Where the kernel refuses the overlay (one upon two others),
 * the directory itself is mounted, and the box lacks the layer own-inodes.
 */
#include "keeper/mountapi.h"
#include "keeper/steps.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { COPY_MAX = 512 * 1024 };

static const unsigned int sealed = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;

int source_open(struct work *w, unsigned int i, const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return 0; /* this host has no such thing */
	if (S_ISLNK(st.st_mode))
		return readlink(path, w->link[i], sizeof(w->link[i]) - 1) < 0 ? fail_at(w, path)
									      : 0;
	w->source_fd[i] = open(path, (S_ISDIR(st.st_mode) ? O_PATH : O_RDONLY) | O_NOFOLLOW |
					     O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return w->source_fd[i] < 0 ? fail_at(w, path) : 0;
}

/* Two layers, the upper one the box's empty /sys: one alone is refused. */
static int overlay(const struct work *w, int fd, const char *above)
{
	char lower[320];
	const char *const options[] = { "lowerdir", lower, NULL };

	(void)snprintf(lower, sizeof(lower), "/proc/self/fd/%d/%s:/proc/self/fd/%d", w->root_fd,
		       above, fd);
	return mnt_new("overlay", options, mutant_is("read-only-root") ? 0 : sealed);
}

static int bind(const struct work *w, int fd)
{
	int tree = mnt_clone(fd, "", AT_EMPTY_PATH | AT_RECURSIVE);

	w->s->layers &= ~LAYER_BIT(LAYER_OWN_INODES);
	if (tree >= 0 && mnt_set(tree, sealed, AT_RECURSIVE) < 0)
		fd_close(&tree);
	return tree;
}

int show_directory(struct work *w, int fd, const char *at)
{
	own_fd tree = mutant_is("own-inodes") ? -1 : overlay(w, fd, "sys");

	if (tree < 0)
		tree = bind(w, fd);
	if (tree < 0 || mkdirat(w->root_fd, at, 0755) < 0 || mnt_place(tree, w->root_fd, at) < 0)
		return fail_at(w, at);
	return 0;
}

/* There is no other way to show two directories as one: without overlays such a box cannot be made. */
int show_under(struct work *w, int fd, const char *at)
{
	own_fd tree = overlay(w, fd, at);

	return tree < 0 || mnt_place(tree, w->root_fd, at) < 0 ? fail_at(w, at) : 0;
}

static int copy_file(struct work *w, int fd, const char *at)
{
	static char buf[COPY_MAX];
	own_fd to =
		openat(w->root_fd, at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
	ssize_t n = io_read_full(fd, buf, sizeof(buf));
	int r = n < 0 ? (int)n : to < 0 ? -errno : io_write_all(to, buf, (size_t)n);

	errno = -r;
	return r < 0 ? fail_at(w, at) : 0;
}

int source_show(struct work *w, unsigned int i, const char *at)
{
	struct stat st;
	int r;

	if (w->link[i][0] != '\0')
		return symlinkat(w->link[i], w->root_fd, at) < 0 ? fail_at(w, at) : 0;
	if (w->source_fd[i] < 0)
		return 0;
	if (fstat(w->source_fd[i], &st) < 0)
		return fail_at(w, at);
	r = S_ISDIR(st.st_mode) ? show_directory(w, w->source_fd[i], at)
				: copy_file(w, w->source_fd[i], at);
	fd_close(&w->source_fd[i]);
	return r;
}
