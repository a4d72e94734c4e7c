// SPDX-License-Identifier: Apache-2.0
/*
 * A file that is not there until it is complete.
 *
 * It has no name (O_TMPFILE) until then, so whatever ends us leaves nothing. A file that is to replace another one gets a hidden
 * name for a moment, since only rename(2) replaces. Where the file system has no files without a name it has the hidden one from
 * the start; SIGTERM takes that away again, SIGKILL leaves it behind.
 */
#include "box/files.h"

#include "base/io.h"
#include "wire/fileop.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct new_file *to_remove; /* by on_term() */

int copy_bytes(int from, int to)
{
	static char buf[256 * 1024];

	for (;;) {
		ssize_t n = read(from, buf, sizeof(buf));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : 0;
		r = io_write_all(to, buf, (size_t)n);
		if (r < 0)
			return -r;
	}
}

static void on_term(int sig)
{
	(void)unlinkat(to_remove->at->dir, to_remove->temp, 0);
	_exit(128 + sig);
}

static void begin(struct new_file *n, const struct place *at)
{
	*n = (struct new_file){ .fd = -1, .at = at };
	(void)snprintf(n->temp, sizeof(n->temp), FILEOP_HIDDEN_PUT "%d", (int)getpid());
	(void)umask(
		0); /* the mode is what was asked for, from the start: who changes it is seen by who watches */
}

int new_file_open_named(struct new_file *n, const struct place *at, mode_t mode)
{
	begin(n, at);
	to_remove = n;
	(void)signal(SIGTERM, on_term);
	n->named = true;
	(void)unlinkat(at->dir, n->temp, 0);
	n->fd = openat(n->at->dir, n->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       mode);
	return n->fd < 0 ? errno : 0;
}

int new_file_open(struct new_file *n, const struct place *at, mode_t mode)
{
	begin(n, at);
	n->fd = openat(at->dir, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
	if (n->fd >= 0)
		return 0;
	return errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL
		       ? new_file_open_named(n, at, mode)
		       : errno;
}

static int link_as(const struct new_file *n, const char *name)
{
	char self[32];

	if (n->named)
		return linkat(n->at->dir, n->temp, n->at->dir, name, 0) == 0 ? 0 : errno;
	if (linkat(n->fd, "", n->at->dir, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno == EEXIST)
		return EEXIST;
	/* Kernels before 6.10 want a privilege for that, or this way round. */
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", n->fd);
	return linkat(AT_FDCWD, self, n->at->dir, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* The hidden name becomes the real one. */
static int rename_to(struct new_file *n, unsigned int flags)
{
	if (syscall(SYS_renameat2, n->at->dir, n->temp, n->at->dir, n->at->name, flags) < 0)
		return errno;
	n->named = false;
	return 0;
}

int new_file_publish(struct new_file *n, bool replace, bool *ret_new)
{
	int r = link_as(n, n->at->name);

	*ret_new = r == 0;
	if (r == 0 || (r == EEXIST && !replace))
		return r;
	if (r != EEXIST) {
		/* There are file systems without links. */
		r = n->named ? rename_to(n, RENAME_NOREPLACE) : r;
		*ret_new = r == 0;
		if (r != EEXIST || !replace)
			return r;
	}
	if (!n->named) {
		(void)unlinkat(n->at->dir, n->temp, 0);
		r = link_as(n, n->temp);
		n->named = r == 0;
	} else {
		r = 0;
	}
	return r != 0 ? r : rename_to(n, 0);
}

void new_file_close(struct new_file *n)
{
	if (n->fd >= 0 && n->named)
		(void)unlinkat(n->at->dir, n->temp, 0);
	fd_close(&n->fd);
}
