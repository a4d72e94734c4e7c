// SPDX-License-Identifier: Apache-2.0
/* What a file is, and what is in it. */
#include "box/files.h"

#include "base/io.h"
#include "wire/fileop.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 65536 };

static int links_of(const char *text, bool *ret_follow)
{
	*ret_follow = text == NULL || strcmp(text, "follow") == 0;
	return *ret_follow || strcmp(text, "nofollow") == 0 ? 0 : EINVAL;
}

int file_stat(const struct file_job *f)
{
	static struct listing_entry e;
	const char *path = f->path[0] != '\0' ? f->path : ".";
	struct stat st;
	bool follow;

	if (links_of(f->words[0], &follow) != 0)
		return EINVAL;
	if (fstatat(AT_FDCWD, path, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return errno;
	entry_fill(&e, &st);
	if (e.type == 'l')
		entry_link(&e, AT_FDCWD, path);
	last_name(path, e.path);
	return entry_write(&e);
}

/* Its record, and what comes behind it: from the first byte on in pieces as large as the pipe takes them, since what arrives in
 * small ones is collected for a while (stream.c). */
static int send_file(int file, const struct listing_entry *e, uint64_t at, uint64_t left)
{
	static uint8_t buf[CHUNK];
	ptrdiff_t head = listing_encode(e, buf, sizeof(buf));
	size_t len = head > 0 ? (size_t)head : 0;

	do {
		size_t room = CHUNK - len;
		ssize_t n = left == 0
				    ? 0
				    : pread(file, buf + len, left < room ? left : room, (off_t)at);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		if (n == 0 && left > 0)
			return EIO; /* it has become shorter than it was said to be */
		r = io_write_all(STDOUT_FILENO, buf, len + (size_t)n);
		if (r < 0)
			return -r;
		len = 0;
		at += (uint64_t)n;
		left -= (uint64_t)n;
	} while (left > 0);
	return 0;
}

/* Nothing waits for whoever is at the other end of a pipe or a device: these are opened without, and left alone. */
static int open_regular(const char *path, bool follow, struct stat *st)
{
	own_fd file = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
					 (follow ? 0 : O_NOFOLLOW));

	if (file < 0)
		return errno == ENXIO || errno == ENODEV ? -EINVAL : -errno;
	if (fstat(file, st) < 0)
		return -errno;
	if (!S_ISREG(st->st_mode))
		return S_ISDIR(st->st_mode) ? -EISDIR : -EINVAL;
	return fd_take(&file);
}

int file_read(const struct file_job *f)
{
	static struct listing_entry e;
	const struct fileop_read q = { f->words[0], f->words[1], f->words[2], f->words[3],
				       f->words[4] };
	uint64_t start = 0, n = 0;
	own_fd file = -1;
	struct stat st;
	bool follow;
	int sent;

	if (links_of(q.links, &follow) != 0)
		return EINVAL;
	file = open_regular(f->path, follow, &st);
	if (file < 0)
		return -file;
	entry_fill(&e, &st);
	last_name(f->path, e.path);
	sent = fileop_send(&e, &q, &start, &n);
	if (sent < 0)
		return -sent;
	return send_file(file, &e, start, sent == FILEOP_BYTES ? n : 0);
}
