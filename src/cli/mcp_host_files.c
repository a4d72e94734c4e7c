// SPDX-License-Identifier: Apache-2.0
/*
 * Should: look at names, and open what they are. Must not: open something by a path that was resolved a moment ago, other than beneath a
 * directory that is held open; open what is no regular file.
 *
 * Who can move directories about while we write into one could have written there himself; still a file does not get its name
 * unless its directory is, at that moment, where it was asked for.
 */
#include "cli/mcp_host_files.h"

#include "base/own.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

void host_dirs_done(struct host_dirs *h)
{
	for (unsigned int i = 0; i < h->n; i++)
		fd_close(&h->d[i].fd);
	h->n = 0;
}

int host_dirs_add(struct host_dirs *h, const char *path, struct err *e)
{
	if (h->n == HOST_DIRS_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d allowed directories", HOST_DIRS_MAX);
	if (realpath(path, h->d[h->n].path) == NULL)
		return err_set(e, ERR_INPUT, errno, "the allowed directory '%s'", path);
	h->d[h->n].fd = open(h->d[h->n].path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (h->d[h->n].fd < 0)
		return err_set(e, ERR_INPUT, errno, "the allowed directory '%s'", path);
	h->n++;
	return 0;
}

/* --- where a path leads --------------------------------------------------------------------------- */

static int refused(struct err *e, const char *path, const char *what)
{
	return err_set(e, ERR_INPUT, 0, "Path '%s' is not within allowed directories for %s", path,
		       what);
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A path without its links: of what is there realpath(3), behind it names of what is not there yet. *ret_there: so much of it is there.
 * false: it leads nowhere, by '..' behind a name that is not there, by a link to what is not there, or for another reason. */
static bool resolve(const char *path, char real[PATH_MAX], size_t *ret_there)
{
	char rest[PATH_MAX], base[PATH_MAX], tail[PATH_MAX] = "";
	struct stat st;
	size_t n;

	if (path[0] == '\0' || snprintf(rest, sizeof(rest), "%s", path) >= (int)sizeof(rest))
		return false;
	for (;;) {
		char *slash, *name, longer[PATH_MAX];

		if (realpath(rest, base) != NULL)
			break;
		if (errno == ELOOP || errno == ENAMETOOLONG || lstat(rest, &st) == 0)
			return false; /* what is there, and leads nowhere, is a link */
		while ((n = strlen(rest)) > 1 && rest[n - 1] == '/')
			rest[n - 1] = '\0';
		slash = strrchr(rest, '/');
		name = slash != NULL ? slash + 1 : rest;
		if (strcmp(name, "..") == 0 || name[0] == '\0' || strcmp(rest, ".") == 0)
			return false;
		if (strcmp(name, ".") != 0) {
			if (snprintf(longer, sizeof(longer), "/%s%s", name, tail) >=
			    (int)sizeof(longer))
				return false;
			(void)memcpy(tail, longer, sizeof(tail));
		}
		if (slash == NULL)
			(void)snprintf(rest, sizeof(rest), ".");
		else
			slash[slash == rest] = '\0';
	}
	*ret_there = strcmp(base, "/") == 0 ? 0 : strlen(base);
	return snprintf(real, PATH_MAX, "%.*s%s", (int)*ret_there, base,
			*ret_there == 0 && tail[0] == '\0' ? "/" : tail) < PATH_MAX;
}

/* Which directory it lies in, and where below that. There is none: false. */
static bool find_dir(const struct host_dirs *h, const char *real, unsigned int *ret_in,
		     const char **ret_below)
{
	for (unsigned int i = 0; i < h->n; i++) {
		size_t n = strcmp(h->d[i].path, "/") == 0 ? 0 : strlen(h->d[i].path);

		if (strncmp(real, h->d[i].path, n) != 0 || (real[n] != '/' && real[n] != '\0'))
			continue;
		*ret_in = i;
		*ret_below = real[n] == '/' && real[n + 1] != '\0' ? real + n + 1 : ".";
		return true;
	}
	return false;
}

static int open_beneath(int dir, const char *path, uint64_t flags)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* --- reading -------------------------------------------------------------------------------------- */

static int not_opened(const char *path, int error, struct err *e)
{
	if (error == ENOENT || error == ENOTDIR)
		return err_set(e, ERR_INPUT, 0, "File not found: %s", path);
	if (error == EXDEV || error == ELOOP) /* somebody was busy meanwhile */
		return refused(e, path, "upload");
	return err_set(e, ERR_INPUT, error, "File cannot be read: %s", path);
}

int host_open(const struct host_dirs *h, const char *path, uint64_t *ret_size, struct err *e)
{
	char real[PATH_MAX], by_fd[48];
	const char *below;
	own_fd at = -1;
	unsigned int in;
	struct stat st;
	size_t there;
	int fd;

	if (!resolve(path, real, &there) || !find_dir(h, real, &in, &below))
		return refused(e, path, "upload");
	at = open_beneath(h->d[in].fd, below, O_PATH);
	if (at < 0 || fstat(at, &st) < 0)
		return not_opened(path, errno, e);
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_INPUT, 0, "Not a file: %s", path);
	/* The same one, whatever has its name by now. */
	(void)snprintf(by_fd, sizeof(by_fd), "/proc/self/fd/%d", at);
	fd = open(by_fd, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return not_opened(path, errno, e);
	*ret_size = (uint64_t)st.st_size;
	return fd;
}

/* --- writing -------------------------------------------------------------------------------------- */

static const char *name_of(const struct host_new *f)
{
	const char *slash = strrchr(f->path, '/');

	return slash != NULL ? slash + 1 : f->path;
}

static int failed(const struct host_new *f, int error, struct err *e)
{
	if (error == EXDEV || error == ELOOP)
		return refused(e, f->path, "download");
	return err_set(e, ERR_INPUT, error, "File cannot be written: %s/%s", f->h->d[f->in].path,
		       f->path);
}

int host_new_check(const struct host_dirs *h, const char *path, struct host_new *f, struct err *e)
{
	char real[PATH_MAX];
	size_t there, n = strlen(path);
	const char *below;
	struct stat st;

	*f = (struct host_new){ .h = h, .dir = -1, .fd = -1 };
	if (!resolve(path, real, &there) || !find_dir(h, real, &f->in, &below))
		return refused(e, path, "download");
	if (strcmp(below, ".") == 0)
		return err_set(e, ERR_INPUT, 0, "Not a file: %s", path);
	if (strlen(real) == (there > 0 ? there : 1)) { /* all of it is there */
		if (lstat(real, &st) < 0 || !S_ISREG(st.st_mode))
			return err_set(e, ERR_INPUT, 0, "Not a file: %s", path);
	} else if (path[n - 1] == '/') {
		return err_set(e, ERR_INPUT, 0, "Not a file: %s", path);
	}
	(void)snprintf(f->path, sizeof(f->path), "%s", below);
	/* Directories that are there end where the first name begins that is not. */
	f->made_from = there > (size_t)(below - real) ? there - (size_t)(below - real) : 0;
	if (strlen(name_of(f)) > NAME_MAX)
		return failed(f, ENAMETOOLONG, e);
	return is_dots(name_of(f)) ? refused(e, path, "download") : 0;
}

/* The directory of the first n bytes of the path. */
static int open_dir(const struct host_new *f, size_t n)
{
	char above[PATH_MAX];

	(void)snprintf(above, sizeof(above), "%.*s", n > 0 ? (int)n : 1, n > 0 ? f->path : ".");
	return open_beneath(f->h->d[f->in].fd, above, O_PATH | O_DIRECTORY);
}

static size_t dir_len(const struct host_new *f)
{
	return name_of(f) > f->path ? (size_t)(name_of(f) - f->path) - 1 : 0;
}

/* Each directory on the way, beneath the one before. */
static int make_dirs(struct host_new *f)
{
	size_t end = dir_len(f), at = f->made_from < end ? f->made_from : end;

	f->made_from = at;
	f->dir = open_dir(f, at);
	while (f->dir >= 0 && at < end) {
		char name[NAME_MAX + 1];
		size_t from = at + (f->path[at] == '/'), n = strcspn(f->path + from, "/");
		int next;

		if (n > NAME_MAX) {
			errno = ENAMETOOLONG;
			return -1;
		}
		(void)snprintf(name, sizeof(name), "%.*s", (int)n, f->path + from);
		if (mkdirat(f->dir, name, 0777) < 0 && errno != EEXIST)
			return -1;
		next = open_beneath(f->dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
		fd_close(&f->dir);
		f->dir = next;
		at = from + n;
	}
	return f->dir >= 0 ? 0 : -1;
}

int host_new_begin(struct host_new *f, struct err *e)
{
	uint64_t random;

	f->begun = true;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random) || make_dirs(f) < 0)
		return failed(f, errno, e);
	(void)snprintf(f->temp, sizeof(f->temp), ".glovebox-mcp-%016llx",
		       (unsigned long long)random);
	f->fd = openat(f->dir, f->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (f->fd < 0) {
		f->temp[0] = '\0';
		return failed(f, errno, e);
	}
	return 0;
}

/* Whether the directory that we hold is still the one of that name. */
static bool is_in_place(const struct host_new *f)
{
	own_fd now = open_dir(f, dir_len(f));
	struct stat a, b;

	return now >= 0 && fstat(now, &a) == 0 && fstat(f->dir, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

int host_new_finish(struct host_new *f, struct err *e)
{
	struct stat st;

	if (!is_in_place(f))
		return refused(e, f->path, "download");
	if (fstatat(f->dir, name_of(f), &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
		return err_set(e, ERR_INPUT, 0, "Not a file: %s/%s", f->h->d[f->in].path, f->path);
	if (close(fd_take(&f->fd)) <
		    0 || /* some file systems tell only now that there is no room */
	    renameat(f->dir, f->temp, f->dir, name_of(f)) < 0)
		return failed(f, errno, e);
	f->temp[0] = '\0';
	f->made_from = sizeof(f->path); /* they stay */
	return 0;
}

/* Directories that were made, if nobody has put anything into them. */
static void remove_dirs(struct host_new *f)
{
	size_t end;

	while ((end = dir_len(f)) > f->made_from) {
		own_fd above = -1;

		f->path[end] = '\0'; /* the last one of them is the name now */
		above = open_dir(f, dir_len(f));
		if (above >= 0 && unlinkat(above, name_of(f), AT_REMOVEDIR) < 0 && errno != ENOENT)
			return;
	}
}

void host_new_done(struct host_new *f)
{
	fd_close(&f->fd);
	if (f->temp[0] != '\0')
		(void)unlinkat(f->dir, f->temp, 0);
	f->temp[0] = '\0';
	if (f->begun)
		remove_dirs(f);
	f->begun = false;
	fd_close(&f->dir);
}
