// SPDX-License-Identifier: Apache-2.0
#include "base/io.h"

#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int io_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t w = write(fd, at, n);

		if (w < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

int io_sealed(const char *name, const void *p, size_t n)
{
	own_fd fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : io_write_all(fd, p, n);

	if (r == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		r = -errno;
	return r < 0 ? r : fd_take(&fd);
}

ssize_t io_read_full(int fd, void *p, size_t n)
{
	char *at = p;
	size_t got = 0;

	while (got < n) {
		ssize_t r = read(fd, at + got, n - got);

		if (r < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return (ssize_t)got;
}

ssize_t io_read_text(int dirfd, const char *path, char *buf, size_t size)
{
	own_fd fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = io_read_full(fd, buf, size);
	if (n < 0)
		return n;
	if ((size_t)n == size)
		return -ENOBUFS;
	while (n > 0 && buf[n - 1] == '\n')
		n--;
	buf[n] = '\0';
	return n;
}

int io_write_text(int dirfd, const char *path, const char *text)
{
	own_fd fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	size_t n = strlen(text);
	ssize_t w;

	if (fd < 0)
		return -errno;
	w = write(fd, text, n);
	if (w < 0)
		return -errno;
	return (size_t)w == n ? 0 : -EIO;
}

int io_read_u64(int dirfd, const char *path, uint64_t *ret)
{
	char text[64];
	ssize_t n = io_read_text(dirfd, path, text, sizeof(text));

	if (n < 0)
		return (int)n;
	return str_to_u64(text, UINT64_MAX, ret);
}

int io_read_keyed(int dirfd, const char *path, const char *key, uint64_t *ret)
{
	char text[8192];
	size_t klen = strlen(key);
	ssize_t n = io_read_text(dirfd, path, text, sizeof(text));
	char *save = NULL;

	if (n < 0)
		return (int)n;
	for (char *l = strtok_r(text, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save))
		if (strncmp(l, key, klen) == 0 && l[klen] == ' ')
			return str_to_u64(l + klen + 1, UINT64_MAX, ret);
	return -ENOENT;
}

int io_set_nonblock(int fd, int on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

void io_raise_limit(int which)
{
	struct rlimit l;

	if (getrlimit(which, &l) == 0) {
		l.rlim_cur = l.rlim_max;
		(void)setrlimit(which, &l);
	}
}
