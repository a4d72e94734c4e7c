// SPDX-License-Identifier: Apache-2.0
#include "cli/envtree.h"

#include "base/own.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	COUNT_DEPTH = 128, /* as many directories are open at a time */
	REMOVE_DEPTH = 32,
};

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int open_dir(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* --- counting: whoever fills it may be at work ------------------------------------------------- */

struct count {
	struct envtree_size *size;
	uint64_t most;
};

static void count_all(const struct count *c, DIR *d, unsigned int depth);

static void count_below(const struct count *c, int dir, const char *name, unsigned int depth)
{
	int fd = depth < COUNT_DEPTH ? open_dir(dir, name) : -1;
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (d != NULL) {
		count_all(c, d, depth);
		(void)closedir(d);
		return;
	}
	if (fd >= 0)
		(void)close(fd);
	/* Otherwise it has gone, or is something else by now. */
	if (depth == COUNT_DEPTH || fd >= 0 ||
	    (errno != ENOENT && errno != ENOTDIR && errno != ELOOP))
		c->size->hidden = true;
}

static void count_all(const struct count *c, DIR *d, unsigned int depth)
{
	const struct dirent *entry;
	int dir = dirfd(d);
	struct stat st;

	while (dir >= 0 && c->size->bytes <= c->most && c->size->entries <= ENVTREE_ENTRIES_MAX &&
	       (entry = readdir(d)) != NULL) {
		if (is_dots(entry->d_name) ||
		    fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		c->size->entries++;
		if (S_ISDIR(st.st_mode))
			count_below(c, dir, entry->d_name, depth + 1);
		/* Its names are all here: nothing leaves a mount by a link. */
		c->size->bytes += (uint64_t)st.st_blocks * 512 /
				  (S_ISDIR(st.st_mode) || st.st_nlink == 0 ? 1 : st.st_nlink);
	}
}

void envtree_measure(const char *path, uint64_t most, struct envtree_size *ret)
{
	const struct count c = { .size = ret, .most = most };

	*ret = (struct envtree_size){ 0 };
	count_below(&c, AT_FDCWD, path, 0);
}

/* --- removing ----------------------------------------------------------------------------------- */

struct remove {
	int top;
	unsigned int moved; /* directories that were too deep, and are in the top by now */
	bool any;           /* something has gone, or moved */
};

/* Of a directory without its owner's bits, too. By its inode: a name could be a link by now. */
static int open_own(int dir, const char *name)
{
	own_fd fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[32];
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if ((st.st_mode & 0700) != 0700) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		(void)chmod(path, 0700);
	}
	return open_dir(fd, ".");
}

static void empty(struct remove *r, int dir, unsigned int depth);

/* Too deep to be entered here: it goes to the top, where it is as deep as anything else. */
static void move_up(struct remove *r, int dir, const char *name)
{
	char fresh[32];

	(void)snprintf(fresh, sizeof(fresh), "deep.%u", r->moved++);
	/* There may be one of that name: the next time it is another. */
	r->any |= renameat(dir, name, r->top, fresh) == 0 || errno == ENOTEMPTY ||
		  errno == EEXIST || errno == ENOTDIR;
}

static void remove_entry(struct remove *r, int dir, const char *name, unsigned int depth)
{
	int fd;

	if (unlinkat(dir, name, 0) == 0 ||
	    (errno == EISDIR && unlinkat(dir, name, AT_REMOVEDIR) == 0)) {
		r->any = true;
		return;
	}
	fd = open_own(dir, name);
	if (fd < 0)
		return;
	if (depth == REMOVE_DEPTH) {
		(void)close(fd); /* it had to be its owner's: what moves gets another parent */
		move_up(r, dir, name);
		return;
	}
	empty(r, fd, depth + 1);
	r->any |= unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

static void empty(struct remove *r, int dir, unsigned int depth)
{
	DIR *d = fdopendir(dir);
	const struct dirent *entry;

	if (d == NULL) {
		(void)close(dir);
		return;
	}
	while ((entry = readdir(d)) != NULL)
		if (!is_dots(entry->d_name))
			remove_entry(r, dir, entry->d_name, depth);
	(void)closedir(d);
}

void envtree_remove(int dir, const char *name)
{
	struct remove r = { .top = open_own(dir, name) };

	if (r.top < 0)
		return;
	do {
		int again = open_dir(r.top, ".");

		r.any = false;
		if (again >= 0)
			empty(&r, again, 0);
	} while (r.any);
	(void)close(r.top);
	(void)unlinkat(dir, name, AT_REMOVEDIR);
}
