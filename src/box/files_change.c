// SPDX-License-Identifier: Apache-2.0
/* Directories are made, and names are changed. */
#include "box/files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int file_mkdir(const struct file_job *f)
{
	own_place at = { .dir = -1 };
	struct stat st;
	mode_t mode;
	int r = mode_of(f->words[0], 0755, &mode);

	if (r == 0)
		r = place_open(&at, f->path, /* make= */ true);
	if (r != 0)
		return r;
	(void)umask(0); /* the mode is what was asked for */
	if (mkdirat(at.dir, at.name, mode) == 0)
		return entry_say(&at, true);
	if (errno != EEXIST)
		return errno;
	/* A link to a directory is one for whoever wants to put something there. */
	if (fstatat(at.dir, at.name, &st, 0) < 0 || !S_ISDIR(st.st_mode))
		return EEXIST;
	return entry_say(&at, false);
}

/* --- moving ---------------------------------------------------------------------------------- */

static int rename_place(const struct place *from, const struct place *to, unsigned int flags)
{
	return syscall(SYS_renameat2, from->dir, from->name, to->dir, to->name, flags) < 0 ? errno
											   : 0;
}

static bool exists(const struct place *at)
{
	struct stat st;

	return fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* First as if nothing were there, which tells whether that is so. EINVAL is what a file system says that cannot do this; or
 * a directory is to go into itself. */
static int move_name(const struct place *from, const struct place *to, bool overwrite,
		     bool *ret_new)
{
	int r = rename_place(from, to, RENAME_NOREPLACE);

	if (r == EINVAL)
		r = exists(to) ? EEXIST : rename_place(from, to, 0);
	*ret_new = r == 0;
	return r == EEXIST && overwrite ? rename_place(from, to, 0) : r;
}

static int copy_file(int from, const struct stat *st, struct new_file *n)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	int r = copy_bytes(from, n->fd);

	return r == 0 && futimens(n->fd, times) < 0 ? errno : r;
}

/* To another file system, by way of a copy. Whether the original may be removed is asked before that is made. */
static int move_content(const struct place *from, const struct place *to, bool overwrite,
			bool *ret_new)
{
	own_fd file = -1;
	struct new_file n;
	struct stat st;
	int r;

	if (fstatat(from->dir, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return EXDEV;
	if (faccessat(from->dir, ".", W_OK | X_OK, 0) < 0)
		return errno;
	file = openat(from->dir, from->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0 || fstat(file, &st) < 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return EXDEV;
	r = new_file_open(&n, to, st.st_mode & 0777);
	if (r == 0)
		r = copy_file(file, &st, &n);
	if (r == 0)
		r = new_file_publish(&n, overwrite, ret_new);
	new_file_close(&n);
	if (r == 0 && unlinkat(from->dir, from->name, 0) < 0)
		r = errno;
	return r;
}

int file_move(const struct file_job *f)
{
	own_place from = { .dir = -1 }, to = { .dir = -1 };
	bool overwrite, is_new;
	int r = bool_of(f->words[1], &overwrite);

	if (r == 0)
		r = place_open(&from, f->path, /* make= */ false);
	if (r == 0 && place_is_top(&from))
		r = EBUSY;
	if (r == 0 && !exists(&from))
		r = ENOENT;
	if (r == 0)
		r = place_open(&to, f->words[0], /* make= */ true);
	if (r == 0 && place_is_top(&to))
		r = EEXIST;
	if (r != 0)
		return r;
	r = move_name(&from, &to, overwrite, &is_new);
	if (r == EXDEV)
		r = move_content(&from, &to, overwrite, &is_new);
	return r != 0 ? r : entry_say(&to, is_new);
}
