// SPDX-License-Identifier: Apache-2.0
/*
 * Files that go into boxes, as memfds: they exist nowhere, and nobody can change them.
 */
#include "keeper/keeper.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

extern const char glovebox_init_start[], glovebox_init_end[];
extern const char glovebox_thaw_start[], glovebox_thaw_end[];
extern const char glovebox_freeze_start[], glovebox_freeze_end[];
extern const char glovebox_kernel_start[], glovebox_kernel_end[];
extern const char glovebox_archive_start[], glovebox_archive_end[];

static const struct {
	const char *name, *start, *end;
	mode_t mode;
} blobs[] = {
	/* init cannot be read by who executes it: that makes it non-dumpable from its first instruction. */
	[BLOB_INIT] = { "init", glovebox_init_start, glovebox_init_end, 0111 },
	/* Boxes make copies of their own (src/box/kit.c). */
	[BLOB_THAW] = { "thaw", glovebox_thaw_start, glovebox_thaw_end, 0444 },
	[BLOB_FREEZE] = { "freeze", glovebox_freeze_start, glovebox_freeze_end, 0444 },
	[BLOB_KERNEL] = { "kernel", glovebox_kernel_start, glovebox_kernel_end, 0444 },
	/* One for all boxes, with no way from its process to the file: not readable, as init is not. */
	[BLOB_ARCHIVE] = { "archive", glovebox_archive_start, glovebox_archive_end, 0111 },
};

int memory_file(const char *name)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = (int)syscall(SYS_memfd_create, name, flags | 0x10u /* MFD_EXEC, 6.3 */);

	return fd >= 0 ? fd : (int)syscall(SYS_memfd_create, name, flags);
}

int memory_file_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0
		       ? -errno
		       : 0;
}

int memory_file_again(int fd, int flags)
{
	char self[32];

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return open(self, flags | O_CLOEXEC);
}

bool blob_is_there(enum blob which)
{
	return blobs[which].end > blobs[which].start;
}

int blob_fd(struct keeper *k, enum blob which, struct err *e)
{
	const char *name = blobs[which].name, *start = blobs[which].start;
	size_t n = (size_t)(blobs[which].end - start);
	own_fd fd = -1;
	int r;

	if (k->blob_fd[which] > 0)
		return k->blob_fd[which];
	if (!blob_is_there(which))
		return err_set(e, ERR_SYS, ENOSYS, "there is no '%s' for this machine", name);
	fd = memory_file(name);
	if (fd < 0)
		return err_set(e, ERR_SYS, errno, "make a memory file");
	r = io_write_all(fd, start, n);
	if (r == 0 && fchmod(fd, blobs[which].mode) < 0)
		r = -errno;
	if (r == 0)
		r = memory_file_seal(fd);
	if (r < 0)
		return err_set(e, ERR_SYS, -r, "fill a memory file");
	/* A writer would be ETXTBSY; who reads opens it again by this one. */
	k->blob_fd[which] =
		memory_file_again(fd, (blobs[which].mode & 0444) != 0 ? O_RDONLY : O_PATH);
	return k->blob_fd[which] >= 0 ? k->blob_fd[which]
				      : err_set(e, ERR_SYS, errno, "open a memory file");
}
