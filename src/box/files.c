// SPDX-License-Identifier: Apache-2.0
/*
 * File operations, each in a child of init: the user's uid, the box's own mount namespace, under
 * the user's filter and limits. A symbolic link can lead to what the user could open anyway, and
 * nowhere else. Standard input and output are the file's bytes; the exit status is 0 or an errno.
 */
#include "box/init.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "wire/listing.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { LIST_DEPTH = 128 };

static int copy(int from, int to)
{
	static char buf[65536];

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

/* Open the directory that holds `path`, making what is missing; *ret_name is the last component. */
static int open_parent(const char *path, int *ret_fd, const char **ret_name)
{
	own_fd dir = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (*path == '/')
		path++;
	while (dir >= 0) {
		size_t n = strcspn(path, "/");
		char name[NAME_MAX + 1];
		int next;

		if (n == 0 || n > NAME_MAX)
			return n == 0 ? EISDIR : ENAMETOOLONG;
		if (path[n] == '\0') {
			*ret_fd = fd_take(&dir);
			*ret_name = path;
			return 0;
		}
		(void)memcpy(name, path, n);
		name[n] = '\0';
		(void)mkdirat(dir, name, 0755);
		next = openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
		fd_close(&dir);
		dir = next;
		path += n;
		while (*path == '/')
			path++;
	}
	return errno;
}

static int parse_mode(const char *text, mode_t *ret)
{
	mode_t mode = 0;

	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '7' || mode > 0777)
			return EINVAL;
		mode = mode * 8 + (mode_t)(*text - '0');
	}
	*ret = mode;
	return mode > 0777 ? EINVAL : 0;
}

/* A file without a name: a transfer that is cut leaves nothing. Where the file system has no such
 * thing, a temporary name. */
static int open_nameless(int dir, const char *temp, bool *ret_named)
{
	int fd = openat(dir, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);

	*ret_named = fd < 0;
	if (fd >= 0)
		return fd;
	(void)unlinkat(dir, temp, 0);
	return openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

static int link_as(int file, int dir, const char *name)
{
	char self[32];

	if (linkat(file, "", dir, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno == EEXIST)
		return EEXIST;
	/* Kernels before 6.10 want a privilege for that, or this way round. */
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", file);
	return linkat(AT_FDCWD, self, dir, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

/* Give the complete file its name, in the place of what had it. */
static int publish(int file, int dir, const char *temp, const char *name, bool named)
{
	int r = named ? 0 : link_as(file, dir, name);

	if (!named && r == 0)
		return 0;
	if (!named && r == EEXIST) {
		(void)unlinkat(dir, temp, 0);
		r = link_as(file, dir, temp);
	}
	if (r == 0 && renameat(dir, temp, dir, name) < 0)
		r = errno;
	if (r != 0)
		(void)unlinkat(dir, temp, 0);
	return r;
}

static int put(const char *path, const char *mode_text)
{
	own_fd dir = -1, file = -1;
	const char *name = NULL;
	char temp[64];
	mode_t mode;
	bool named;
	int r = parse_mode(mode_text, &mode);

	if (r == 0)
		r = open_parent(path, &dir, &name);
	if (r != 0)
		return r;
	(void)snprintf(temp, sizeof(temp), ".put-%d", (int)getpid());
	file = open_nameless(dir, temp, &named);
	if (file < 0)
		return errno;
	r = copy(STDIN_FILENO, file);
	if (r == 0 && fchmod(file, mode) < 0)
		r = errno;
	if (r == 0)
		return publish(file, dir, temp, name, named);
	if (named)
		(void)unlinkat(dir, temp, 0);
	return r;
}

static int get(const char *path)
{
	own_fd file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (file < 0 || fstat(file, &st) < 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	return copy(file, STDOUT_FILENO);
}

struct lister {
	struct listing_entry entry;
	uint8_t buf[65536];
	size_t len;
	int trouble; /* what was passed over */
};

static int flush(struct lister *l)
{
	int r = io_write_all(STDOUT_FILENO, l->buf, l->len);

	l->len = 0;
	return r;
}

static uint64_t time_ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static char type_of(mode_t mode)
{
	return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : 'o';
}

static int emit(struct lister *l, const struct stat *st)
{
	ptrdiff_t n;

	l->entry.type = type_of(st->st_mode);
	l->entry.mode = st->st_mode & 07777;
	l->entry.size = (uint64_t)st->st_size;
	l->entry.mtime_ns = time_ns(st->st_mtim);
	l->entry.ctime_ns = time_ns(st->st_ctim);
	l->entry.inode = st->st_ino;
	if (sizeof(l->buf) - l->len < LISTING_HEADER + LISTING_RECORD_MAX && flush(l) < 0)
		return -EPIPE;
	n = listing_encode(&l->entry, l->buf + l->len, sizeof(l->buf) - l->len);
	if (n > 0)
		l->len += (size_t)n;
	return 0;
}

static int walk(struct lister *l, int parent, const char *name, size_t path_len, int depth);

static int visit(struct lister *l, int dirfd, const char *name, size_t path_len, int depth)
{
	int n = snprintf(l->entry.path + path_len, sizeof(l->entry.path) - path_len, "%s%s",
			 path_len > 0 ? "/" : "", name);
	struct stat st;
	int r;

	if (n < 0 || (size_t)n >= sizeof(l->entry.path) - path_len || !path_is_plain(name)) {
		l->trouble = ENAMETOOLONG;
		return 0;
	}
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* it went away meanwhile */
	r = emit(l, &st);
	if (r == 0 && S_ISDIR(st.st_mode))
		r = walk(l, dirfd, name, path_len + (size_t)n, depth + 1);
	return r;
}

static int walk(struct lister *l, int parent, const char *name, size_t path_len, int depth)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	const struct dirent *d;
	DIR *dir;
	int r = 0;

	if (fd < 0 || depth > LIST_DEPTH) {
		l->trouble = fd < 0 ? errno : ELOOP;
		fd_close(&fd);
		return depth == 0 ? -l->trouble : 0;
	}
	dir = fdopendir(fd);
	if (dir == NULL) {
		(void)close(fd);
		return -ENOMEM;
	}
	while (r == 0 && (d = readdir(dir)) != NULL)
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0) {
			r = visit(l, fd, d->d_name, path_len, depth);
			l->entry.path[path_len] = '\0';
		}
	(void)closedir(dir);
	return r;
}

static int list(const char *path)
{
	static struct lister l;
	int r = walk(&l, AT_FDCWD, path, 0, 0);

	if (r == 0)
		r = flush(&l);
	return r < 0 ? -r : l.trouble;
}

int files_run(const struct job_spec *spec)
{
	const char *path = spec->argv[0]; /* a job has at least one argument */
	const char *second = spec->argv[1];
	int r = EINVAL;

	/* The channel that reports a failed start ends here, as it does at exec. */
	(void)close(3);
	(void)signal(SIGXFSZ, SIG_IGN); /* too large is EFBIG, not our end */
	if (spec->kind == JOB_PUT && second != NULL)
		r = put(path, second);
	else if (spec->kind == JOB_GET)
		r = get(path);
	else if (spec->kind == JOB_LIST)
		r = list(path);
	return r;
}
