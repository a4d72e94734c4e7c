// SPDX-License-Identifier: Apache-2.0
/*
 * What directories are to have in the end: a mode that may forbid to write to them, and a time that every file put into them
 * would change. There may be many, so it is noted in a file.
 *
 * The notes are read twice. Forwards, so that of two for one directory the later one counts, everybody gets its time, and its mode but
 * for what its owner may: until then all of them can be entered. Backwards, so that what is in a directory comes before the
 * directory, those get their own mode whose owner may not do everything.
 */
#include "archive/stage.h"

#include "archive/reach.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <string.h>

/* In the file a path follows, and the length of both, by which the file is read backwards. */
struct note {
	int64_t seconds, nanoseconds;
	uint32_t mode, path_len;
};

enum { NOTE_MAX = sizeof(struct note) + PATH_MAX + sizeof(uint32_t) };

int stage_note(struct stage *s, const char *path, mode_t mode, struct timespec mtime)
{
	struct note n = { mtime.tv_sec, mtime.tv_nsec, mode, (uint32_t)strlen(path) };
	uint32_t length = (uint32_t)sizeof(n) + n.path_len;
	char buf[NOTE_MAX];

	(void)memcpy(buf, &n, sizeof(n));
	(void)memcpy(buf + sizeof(n), path, n.path_len);
	(void)memcpy(buf + length, &length, sizeof(length));
	return io_write_all(s->notes, buf, length + sizeof(length));
}

static int read_at(int fd, void *p, size_t n, off_t at)
{
	ssize_t r = pread(fd, p, n, at);

	return r == (ssize_t)n ? 0 : r < 0 ? -errno : -EIO;
}

/* The note that begins at `at`. */
static int read_note(const struct stage *s, off_t at, struct note *n, char path[PATH_MAX])
{
	int r = read_at(s->notes, n, sizeof(*n), at);

	if (r == 0 && n->path_len >= PATH_MAX)
		r = -EIO;
	if (r == 0)
		r = read_at(s->notes, path, n->path_len, at + (off_t)sizeof(*n));
	if (r == 0)
		path[n->path_len] = '\0';
	return r;
}

static struct timespec time_of(const struct note *n)
{
	return (struct timespec){ .tv_sec = n->seconds, .tv_nsec = n->nanoseconds };
}

static int open_noted(struct stage *s, const struct note *n, const char *path)
{
	int dir = reach_dir(&s->reach, path, n->path_len), fd;

	if (dir < 0)
		return dir;
	fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int dress_one(struct stage *s, const struct note *n, const char *path)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, time_of(n) };
	own_fd dir = open_noted(s, n, path);

	if (dir < 0)
		return dir;
	return fchmod(dir, n->mode | 0700) < 0 || futimens(dir, times) < 0 ? -errno : 0;
}

/* Of several for one directory only the one that counted before. */
static void restrict_one(struct stage *s, const struct note *n, const char *path)
{
	own_fd dir = open_noted(s, n, path);
	struct stat st;

	if (dir >= 0 && fstat(dir, &st) == 0 && (st.st_mode & 0777) == (n->mode | 0700) &&
	    st.st_mtim.tv_sec == n->seconds)
		(void)fchmod(dir, n->mode);
}

int stage_dress(struct stage *s)
{
	char path[PATH_MAX];
	struct note n = { 0 };
	off_t at = 0, end = lseek(s->notes, 0, SEEK_END);
	int r = end < 0 ? -errno : 0;

	s->reach.make = false;
	while (r == 0 && at < end) {
		r = read_note(s, at, &n, path);
		if (r == 0)
			r = dress_one(s, &n, path);
		at += (off_t)(sizeof(n) + n.path_len + sizeof(uint32_t));
	}
	while (r == 0 && at > 0) {
		uint32_t length;

		r = read_at(s->notes, &length, sizeof(length), at - (off_t)sizeof(length));
		at -= (off_t)(length + sizeof(length));
		if (r == 0)
			r = at < 0 ? -EIO : read_note(s, at, &n, path);
		if (r == 0 && (n.mode & 0700) != 0700)
			restrict_one(s, &n, path);
	}
	return r;
}
