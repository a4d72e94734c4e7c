// SPDX-License-Identifier: Apache-2.0
#include "store/audit.h"

#include "base/clock.h"
#include "base/own.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { LOOK_US = 1000000 };

void audit_init(struct audit *a, int dir, const char *name, uint64_t max_bytes, uint64_t keep)
{
	(void)memset(a, 0, sizeof(*a));
	a->dir = dir;
	a->max_bytes = max_bytes;
	a->keep = keep;
	a->fd = -1;
	(void)snprintf(a->name, sizeof(a->name), "%s", name);
}

void audit_close(struct audit *a)
{
	fd_close(&a->fd);
}

void audit_add(struct audit *a, uint64_t request, const void *line, size_t n)
{
	size_t at = a->n > 0 ? a->end[a->n - 1] : 0;

	assert(!audit_is_full(a) && n <= STORE_LINE_MAX);
	(void)memcpy(a->buf + at, line, n);
	a->buf[at + n] = '\n';
	a->request[a->n] = request;
	a->end[a->n++] = at + n + 1;
}

/* --- the file ------------------------------------------------------------------------------- */

static int open_name(const struct audit *a, uint64_t flags)
{
	/* Non-blocking: somebody may have put a FIFO there. */
	struct open_how how = {
		.flags = flags | O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		.mode = (flags & O_CREAT) != 0 ? 0640 : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int fd = (int)syscall(SYS_openat2, a->dir, a->name, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* Where the last whole line ends. A store that is killed while it writes can leave half a line,
 * never more; if the end is longer than that it is not ours, and is not cut. */
static int whole_lines(int fd, off_t size, off_t *ret)
{
	static char tail[STORE_LINE_MAX + 1];
	off_t from = size > (off_t)sizeof(tail) ? size - (off_t)sizeof(tail) : 0;
	ssize_t n = pread(fd, tail, sizeof(tail), from);
	const char *last;

	if (n < 0)
		return -errno;
	last = n > 0 ? memrchr(tail, '\n', (size_t)n) : NULL;
	if (last != NULL)
		*ret = from + (last - tail) + 1;
	else
		*ret = size <= STORE_LINE_MAX ? 0 : size;
	return 0;
}

/* Make the file end with a whole line, whatever it is. */
static int mend_end(int fd, off_t size)
{
	off_t whole = 0;
	char last;
	int r = whole_lines(fd, size, &whole);

	if (r < 0)
		return r;
	if (whole < size)
		return ftruncate(fd, whole) < 0 ? -errno : 0;
	if (size == 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n')
		return 0;
	return write(fd, "\n", 1) == 1 ? 0 : -ENOSPC;
}

static int open_file(struct audit *a)
{
	own_fd fd = -1;
	struct stat st;
	int r;

	if (a->dir < 0)
		return -ENOENT;
	fd = open_name(a, O_CREAT | O_EXCL);
	if (fd >= 0)
		(void)fchmod(fd, 0640); /* whatever the umask is */
	else if (fd == -EEXIST)
		fd = open_name(a, 0);
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	r = mend_end(fd, st.st_size);
	if (r < 0)
		return r;
	a->fd = fd_take(&fd);
	a->looked_us = clock_us();
	return 0;
}

/* Is the file that we have open still the one of that name? */
static bool is_in_place(const struct audit *a)
{
	struct stat open, named;

	return fstat(a->fd, &open) == 0 &&
	       fstatat(a->dir, a->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

static int make_ready(struct audit *a)
{
	if (a->fd >= 0 && clock_us() - a->looked_us >= LOOK_US) {
		a->looked_us = clock_us();
		if (!is_in_place(a))
			fd_close(&a->fd);
	}
	return a->fd >= 0 ? 0 : open_file(a);
}

/* NAME.2 → NAME.3, NAME.1 → NAME.2, NAME → NAME.1; what would become NAME.(keep + 1) is gone. */
static int move_names(const struct audit *a)
{
	char from[AUDIT_NAME + 24], to[AUDIT_NAME + 24];

	if (a->keep == 0)
		return unlinkat(a->dir, a->name, 0) < 0 ? -errno : 0;
	for (uint64_t i = a->keep; i > 0; i--) {
		(void)snprintf(to, sizeof(to), "%s.%llu", a->name, (unsigned long long)i);
		if (i > 1)
			(void)snprintf(from, sizeof(from), "%s.%llu", a->name,
				       (unsigned long long)i - 1);
		else
			(void)snprintf(from, sizeof(from), "%s", a->name);
		if (renameat(a->dir, from, a->dir, to) < 0 && (errno != ENOENT || i == 1))
			return -errno;
	}
	return 0;
}

/* A directory in which nothing can be renamed is no reason to lose lines: the file grows on. */
static int rotate(struct audit *a)
{
	if (is_in_place(a) && move_names(a) < 0)
		return 0;
	fd_close(&a->fd);
	return open_file(a);
}

/* --- writing -------------------------------------------------------------------------------- */

static size_t start_of(const struct audit *a, unsigned int i)
{
	return i > 0 ? a->end[i - 1] : 0;
}

/* Lines from i on that go into the file together. */
static unsigned int how_many(const struct audit *a, unsigned int i, uint64_t size)
{
	unsigned int to = i + 1;

	while (to < a->n &&
	       (a->max_bytes == 0 || size + (a->end[to] - start_of(a, i)) <= a->max_bytes))
		to++;
	return to - i;
}

/* Write lines i to i + n; returns how many are in the file as a whole, or -errno for none. */
static int write_lines(struct audit *a, unsigned int i, unsigned int n, off_t size)
{
	size_t from = start_of(a, i);
	unsigned int whole = 0;
	ssize_t w;
	int r;

	do
		w = write(a->fd, a->buf + from, a->end[i + n - 1] - from);
	while (w < 0 && errno == EINTR);
	r = w < 0 ? -errno : -ENOSPC; /* nothing but a full disk writes a part */
	while (w > 0 && whole < n && a->end[i + whole] - from <= (size_t)w)
		whole++;
	if (w > 0 && whole < n &&
	    ftruncate(a->fd, size + (off_t)(start_of(a, i + whole) - from)) < 0)
		fd_close(&a->fd); /* opened again, the half line is cut off or refused */
	return whole > 0 ? (int)whole : r;
}

/* As many lines from i on as go into the present file, after a rotation if it is time for one. */
static int write_some(struct audit *a, unsigned int i)
{
	struct stat st;
	int r = make_ready(a);

	if (r < 0)
		return r;
	if (fstat(a->fd, &st) < 0)
		return -errno;
	if (a->max_bytes > 0 && st.st_size > 0 &&
	    (uint64_t)st.st_size + (a->end[i] - start_of(a, i)) > a->max_bytes) {
		r = rotate(a);
		if (r < 0)
			return r;
		if (fstat(a->fd, &st) < 0)
			return -errno;
	}
	return write_lines(a, i, how_many(a, i, (uint64_t)st.st_size), st.st_size);
}

void audit_flush(struct audit *a, void (*done)(void *ctx, uint64_t request, int r), void *ctx)
{
	unsigned int at = 0;

	while (at < a->n) {
		int n = write_some(a, at);

		if (n < 0) {
			if (n != -ENOSPC && n != -EDQUOT)
				fd_close(&a->fd);
			for (; at < a->n; at++, a->failures++)
				done(ctx, a->request[at], n);
			break;
		}
		a->lines += (unsigned int)n;
		for (; n > 0; n--, at++)
			done(ctx, a->request[at], 0);
	}
	a->n = 0;
}
