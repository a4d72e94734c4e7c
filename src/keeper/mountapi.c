// SPDX-License-Identifier: Apache-2.0
#include "keeper/mountapi.h"

#include "base/own.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

int mnt_open(int dirfd, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = resolve };

	return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
}

int mnt_clone(int dirfd, const char *path, unsigned int flags)
{
	return (int)syscall(SYS_open_tree, dirfd, path,
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | flags);
}

static int configure(int fs, const char *const *options, unsigned int command)
{
	for (; *options != NULL; options += 2)
		if (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, options[0], options[1], 0) < 0)
			return -1;
	return (int)syscall(SYS_fsconfig, fs, command, NULL, NULL, 0);
}

int mnt_new_kept(const char *type, const char *const *options, unsigned int attr, int *ret_fs)
{
	own_fd fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0 || configure(fs, options, FSCONFIG_CMD_CREATE) < 0)
		return -1;
	fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, attr);
	if (fd >= 0)
		*ret_fs = fd_take(&fs);
	return fd;
}

int mnt_new(const char *type, const char *const *options, unsigned int attr)
{
	own_fd fs = -1;

	return mnt_new_kept(type, options, attr, &fs);
}

int mnt_change(int fs, const char *const *options)
{
	return configure(fs, options, FSCONFIG_CMD_RECONFIGURE);
}

int mnt_set(int fd, uint64_t attr, unsigned int flags)
{
	struct mount_attr a = { .attr_set = attr };

	return (int)syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | flags, &a, sizeof(a));
}

int mnt_place(int tree_fd, int dirfd, const char *path)
{
	return (int)syscall(SYS_move_mount, tree_fd, "", dirfd, path,
			    MOVE_MOUNT_F_EMPTY_PATH |
				    (path[0] == '\0' ? MOVE_MOUNT_T_EMPTY_PATH : 0));
}
