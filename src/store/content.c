// SPDX-License-Identifier: Apache-2.0
#include "store/content.h"

#include "base/own.h"
#include "wire/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static int open_below(int dir, const char *name, uint64_t flags, uint64_t mode)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* --- temporary files ------------------------------------------------------------------------ */

static int temp_name(char name[CONTENT_TEMP_NAME])
{
	uint64_t r[2];

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return -EIO;
	(void)snprintf(name, CONTENT_TEMP_NAME, CONTENT_TEMP_PREFIX "%016llx%016llx",
		       (unsigned long long)r[0], (unsigned long long)r[1]);
	return 0;
}

static bool is_temp_name(const char *name)
{
	const size_t prefix = sizeof(CONTENT_TEMP_PREFIX) - 1;

	return strncmp(name, CONTENT_TEMP_PREFIX, prefix) == 0 &&
	       strspn(name + prefix, "0123456789abcdef") == 32 && name[prefix + 32] == '\0';
}

static int link_temp(const struct content *c, enum content_how how, int fd, const char *name)
{
	char self[32];
	int r;

	if (how == CONTENT_LINK_FD) {
		r = linkat(fd, "", c->dir, name, AT_EMPTY_PATH);
	} else {
		(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
		r = linkat(AT_FDCWD, self, c->dir, name, AT_SYMLINK_FOLLOW);
	}
	return r < 0 ? -errno : 0;
}

/* Some file systems have no nameless files, and naming one by its descriptor takes a kernel from
 * 6.10 or a /proc. Try, rather than guess. */
static bool try_link(const struct content *c, enum content_how how)
{
	own_fd fd = open_below(c->dir, ".", O_TMPFILE | O_RDWR, 0600);
	char name[CONTENT_TEMP_NAME];

	if (fd < 0 || temp_name(name) < 0 || link_temp(c, how, fd, name) < 0)
		return false;
	return unlinkat(c->dir, name, 0) == 0;
}

int content_init(struct content *c, int dir, bool nameless)
{
	struct stat st;

	if (fstat(dir, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	*c = (struct content){ .dir = dir, .how = CONTENT_NAMED };
	if (nameless && try_link(c, CONTENT_LINK_FD))
		c->how = CONTENT_LINK_FD;
	else if (nameless && try_link(c, CONTENT_LINK_PROC))
		c->how = CONTENT_LINK_PROC;
	return 0;
}

int content_clear_temps(const struct content *c)
{
	int fd = open_below(c->dir, ".", O_RDONLY | O_DIRECTORY, 0);
	const struct dirent *found;
	int r = 0;
	DIR *d;

	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (d == NULL) {
		fd_close(&fd);
		return -ENOMEM;
	}
	while ((found = readdir(d)) != NULL)
		if (is_temp_name(found->d_name) && unlinkat(c->dir, found->d_name, 0) < 0)
			r = -errno;
	(void)closedir(d);
	return r;
}

int content_new(const struct content *c, struct content_temp *t)
{
	int fd, r;

	t->fd = -1;
	t->name[0] = '\0';
	if (c->how != CONTENT_NAMED) {
		fd = open_below(c->dir, ".", O_TMPFILE | O_RDWR, 0600);
		if (fd < 0)
			return fd;
		t->fd = fd;
		return 0;
	}
	r = temp_name(t->name);
	if (r < 0)
		return r;
	fd = open_below(c->dir, t->name, O_CREAT | O_EXCL | O_RDWR, 0600);
	if (fd < 0) {
		t->name[0] = '\0';
		return fd;
	}
	t->fd = fd;
	return 0;
}

static int rename_temp(const struct content *c, const char *from, const char *to)
{
	if (renameat2(c->dir, from, c->dir, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL) /* a file system that cannot tell a taken name from a free one */
		return -errno;
	if (linkat(c->dir, from, c->dir, to, 0) < 0)
		return -errno;
	(void)unlinkat(c->dir, from, 0);
	return 0;
}

int content_keep(const struct content *c, struct content_temp *t, const char *id)
{
	int r;

	if (!store_id_is_valid(id))
		return -EINVAL;
	if (t->name[0] != '\0')
		r = rename_temp(c, t->name, id);
	else
		r = link_temp(c, c->how, t->fd, id);
	if (r < 0)
		return r;
	fd_close(&t->fd);
	t->name[0] = '\0';
	return 0;
}

void content_drop(const struct content *c, struct content_temp *t)
{
	fd_close(&t->fd);
	if (t->name[0] != '\0')
		(void)unlinkat(c->dir, t->name, 0);
	t->name[0] = '\0';
}

/* --- contents ------------------------------------------------------------------------------- */

int content_open(const struct content *c, const char *id, int *ret_fd, uint64_t *ret_size)
{
	own_fd fd = -1;
	struct stat st;

	if (!store_id_is_valid(id))
		return -ENOENT;
	/* Non-blocking: somebody may have put a FIFO there, whose open would wait. */
	fd = open_below(c->dir, id, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd == -ELOOP || fd == -ENXIO ? -ENOENT : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	*ret_size = (uint64_t)st.st_size;
	*ret_fd = fd_take(&fd);
	return 0;
}

int content_size(const struct content *c, const char *id, uint64_t *ret_size)
{
	struct stat st;

	if (!store_id_is_valid(id))
		return -ENOENT;
	if (fstatat(c->dir, id, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOENT;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

int content_remove(const struct content *c, const char *id)
{
	uint64_t size;
	int r = content_size(c, id, &size);

	if (r == 0 && unlinkat(c->dir, id, 0) < 0)
		r = -errno;
	return r == -ENOENT ? 0 : r;
}
