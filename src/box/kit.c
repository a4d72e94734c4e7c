// SPDX-License-Identifier: Apache-2.0
/*
 * What Python is started with (wire/control.h).
 *
 * The keeper's files are the same in all boxes. One that user code can come upon, as its own program or as a descriptor of a Python that
 * starts, must not be: locks, times and watches of a file are seen by everybody who has it. Of those init makes a copy, when it is first
 * needed. Its mode, too, is something to rely on: see below. The program for archives is none of those: who executes it cannot read it, and
 * nobody of the box can look into a process that does.
 *
 * Should: leave a copy that nobody can change.
 * Must not: give a job the keeper's own file where it is not named here.
 */
#include "box/init.h"

#include "base/own.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const struct {
	const char *name; /* NULL: what the keeper gave is what a job gets */
	mode_t mode;
} copies[KIT_MAX] = {
	/* Who executes what it cannot read is not dumpable, until it says so itself (src/warm/thaw.c). */
	[KIT_THAW] = { "python3", 0111 },
	[KIT_KERNEL] = { "kernel", 0444 },
};

static int fill(int to, int from)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0)
		return -errno;
	while (at < st.st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st.st_size - at));

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
	}
	return 0;
}

static int make_file(const char *name)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = (int)syscall(SYS_memfd_create, name, flags | 0x10u /* MFD_EXEC, 6.3 */);

	return fd >= 0 ? fd : (int)syscall(SYS_memfd_create, name, flags);
}

/* A file that is open for writing cannot be executed: the descriptor is another one. */
static int copy(int from, const char *name, mode_t mode)
{
	const int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
	own_fd fd = make_file(name);
	char self[32];
	int r;

	if (fd < 0)
		return -errno;
	r = fill(fd, from);
	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0)
		return -errno;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	r = open(self, ((mode & 0444) != 0 ? O_RDONLY : O_PATH) | O_CLOEXEC);
	return r < 0 ? -errno : r;
}

int kit_part(struct init *in, enum kit part)
{
	int *mine = &in->kit_copy[part];
	mode_t mode = copies[part].mode;

	if (in->kit_fd[part] < 0)
		return -ENOENT;
	if (copies[part].name == NULL)
		return in->kit_fd[part];
	/* Where the user has our uid it owns the copy, and may have changed its mode. */
	if (*mine >= 0 && in->user != geteuid())
		return *mine;
	if (part == KIT_THAW && init_lacks(in, "thaw-hidden"))
		mode = 0555;
	fd_close(mine);
	*mine = copy(in->kit_fd[part], copies[part].name, mode);
	return *mine;
}

void kit_copied(struct init *in)
{
	if (in->kit_fd[KIT_BASE] < 0)
		return;
	fd_close(&in->kit_fd[KIT_IMAGE]);
	in->kit_fd[KIT_IMAGE] = fd_take(&in->kit_fd[KIT_BASE]);
}
