// SPDX-License-Identifier: Apache-2.0
/*
 * Directories of the host inside a box.
 *
 * The one place where the keeper takes a path from a gate. It is a path below one of the roots that
 * the operator allowed, opened beneath that root's descriptor without following any link, so a
 * compromised gate gets nothing that the operator did not allow. The mount is a copy without what
 * is mounted below it, without setuid and devices, and id-mapped: the user of the box is on the
 * host the owner of the files, and only there.
 */
#include "keeper/keeper.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A user namespace that says "owner on disk is box_id in memory", as a descriptor. Needs a process
 * to be born in it; that one does nothing and is ended at once. */
static int id_map_fd(uid_t owner, gid_t group, uint32_t box_id)
{
	struct clone_args a = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	char path[48], text[64];
	pid_t pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	int fd = -1, saved;

	if (pid == 0)
		for (;;)
			(void)pause();
	if (pid < 0)
		return -errno;
	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	(void)snprintf(text, sizeof(text), "%u %u 1\n", owner, box_id);
	fd = io_write_text(AT_FDCWD, path, text);
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", (int)pid);
	(void)snprintf(text, sizeof(text), "%u %u 1\n", group, box_id);
	if (fd == 0)
		fd = io_write_text(AT_FDCWD, path, text);
	if (fd == 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	saved = fd;
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return saved;
}

static int map_ids(int tree, const struct box_ids *b, uid_t owner, gid_t group)
{
	own_fd map = id_map_fd(owner, group, b->user);
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP,
				.userns_fd = (uint64_t)(unsigned int)map };

	if (map < 0)
		return map;
	return syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0 ? -errno : 0;
}

int host_mount_open(const struct mount_root *root, const struct box_mount *m, const struct ids *ids,
		    const struct box_ids *b, uid_t owner, gid_t group, struct host_mount *ret,
		    struct err *e)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	struct mount_attr a = { .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
					    (m->read_only ? MOUNT_ATTR_RDONLY : 0) };
	const char *path = m->path[0] != '\0' ? m->path : ".";
	own_fd dir = (int)syscall(SYS_openat2, root->fd, path, &how, sizeof(how));
	own_fd tree = -1;
	int r;

	if (dir < 0) {
		(void)err_set(e, ERR_INPUT, errno, "mount '%s' below '%s'", path, root->path);
		if (errno == ELOOP)
			(void)err_hint(e,
				       "symbolic links are not followed: name the real directory");
		return -1;
	}
	tree = (int)syscall(SYS_open_tree, dir, "",
			    AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		return err_set(e, ERR_SYS, errno, "mount '%s' below '%s'", path, root->path);
	/* In a namespace of our own the box's user was mapped to the caller instead. */
	r = ids->rootless ? 0 : map_ids(tree, b, owner, group);
	if (r < 0 && !m->read_only) {
		(void)err_set(e, ERR_SYS, -r, "map owners of '%s' below '%s'", path, root->path);
		return err_hint(e, "its file system has no id-mapped mounts; mount it read-only");
	}
	ret->tree_fd = fd_take(&tree);
	ret->read_only = m->read_only;
	(void)snprintf(ret->at, sizeof(ret->at), "%s", m->at);
	return 0;
}
