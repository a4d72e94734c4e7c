// SPDX-License-Identifier: Apache-2.0
/* What is said about a file. */
#include "box/files.h"

#include "base/io.h"

#include <fcntl.h>
#include <unistd.h>

/* Programs can give a file any time: one before 1970 or after 2500 is the nearest that can be told. */
static uint64_t time_ns(struct timespec t)
{
	const uint64_t second = 1000000000u;

	if (t.tv_sec < 0)
		return 0;
	if ((uint64_t)t.tv_sec >= UINT64_MAX / second)
		return UINT64_MAX;
	return (uint64_t)t.tv_sec * second + (uint64_t)t.tv_nsec;
}

static char type_of(mode_t mode)
{
	return S_ISREG(mode) ? 'f' : S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'l' : 'o';
}

void entry_fill(struct listing_entry *e, const struct stat *st)
{
	e->type = type_of(st->st_mode);
	e->flags = 0;
	e->mode = st->st_mode & 07777;
	e->size = (uint64_t)st->st_size;
	e->mtime_ns = time_ns(st->st_mtim);
	e->ctime_ns = time_ns(st->st_ctim);
	e->inode = st->st_ino;
	e->target[0] = '\0';
}

void entry_link(struct listing_entry *e, int dir, const char *name)
{
	ssize_t n = readlinkat(dir, name, e->target, sizeof(e->target) - 1);

	e->target[n > 0 ? n : 0] = '\0';
}

int entry_write(const struct listing_entry *e)
{
	static uint8_t buf[LISTING_HEADER + LISTING_RECORD_MAX];
	ptrdiff_t n = listing_encode(e, buf, sizeof(buf));

	return n < 0 ? (int)-n : -io_write_all(STDOUT_FILENO, buf, (size_t)n);
}

int entry_say(const struct place *at, bool is_new)
{
	static struct listing_entry e;
	struct stat st;

	if (fstatat(at->dir, at->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno;
	entry_fill(&e, &st);
	if (e.type == 'l')
		entry_link(&e, at->dir, at->name);
	e.flags = is_new ? LISTING_NEW : 0;
	last_name(at->name, e.path);
	return entry_write(&e);
}
