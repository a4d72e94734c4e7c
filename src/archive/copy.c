// SPDX-License-Identifier: Apache-2.0
#include "archive/copy.h"

#include "base/own.h"

#include <fcntl.h>
#include <limits.h>

static int copy_bytes(int in, int out, off_t at, off_t end)
{
	static char buf[65536];

	while (at < end) {
		size_t want = end - at < (off_t)sizeof(buf) ? (size_t)(end - at) : sizeof(buf);
		ssize_t n = pread(in, buf, want, at), done = 0;

		if (n <= 0)
			return n < 0 ? -errno : 0; /* it was cut meanwhile */
		while (done < n) {
			ssize_t r = pwrite(out, buf + done, (size_t)(n - done), at + done);

			if (r < 0)
				return -errno;
			done += r;
		}
		at += n;
	}
	return 0;
}

/* Holes stay holes. */
static int copy_contents(int in, int out, off_t size)
{
	off_t at = 0;

	while (at < size) {
		off_t data = lseek(in, at, SEEK_DATA), hole;
		int r;

		if (data < 0 && errno == ENXIO)
			break;
		if (data < 0)
			return -errno;
		hole = lseek(in, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		r = copy_bytes(in, out, data, hole < size ? hole : size);
		if (r < 0)
			return r;
		at = hole;
	}
	return ftruncate(out, size) < 0 ? -errno : 0;
}

static int copy_file(int from, const char *name, const struct stat *st, int to, const char *as)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	own_fd in = -1, out = -1;
	int r;

	/* Its mode may forbid to read it; that of the copy will be the same. */
	if ((st->st_mode & 0400) == 0 && fchmodat(from, name, 0600, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (in < 0)
		return -errno;
	out = openat(to, as, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	r = copy_contents(in, out, st->st_size);
	if (r == 0 && (fchmod(out, st->st_mode & 0777) < 0 || futimens(out, times) < 0))
		r = -errno;
	return r;
}

static int copy_link(int from, const char *name, const struct stat *st, int to, const char *as)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, st->st_mtim };
	char target[PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (symlinkat(target, to, as) < 0)
		return -errno;
	return utimensat(to, as, times, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int copy_one(int from, const char *name, const struct stat *st, int to, const char *as)
{
	int r = S_ISREG(st->st_mode)   ? copy_file(from, name, st, to, as)
		: S_ISLNK(st->st_mode) ? copy_link(from, name, st, to, as)
				       : -EINVAL;

	if (r < 0 && r != -EEXIST)
		(void)unlinkat(to, as, 0);
	return r;
}
