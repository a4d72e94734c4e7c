// SPDX-License-Identifier: Apache-2.0
/*
 * The file tree of a box: each system call that puts it together is tried once, in namespaces of a
 * child, on what the keeper would use it on.
 */
#include "cli/doctor.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

/* sys/mount.h and linux/mount.h do not go together with older C libraries. */
extern int mount(const char *source, const char *target, const char *type, unsigned long flags,
		 const void *data);
enum { MS_REC_ = 16384, MS_PRIVATE_ = 1 << 18 };

static const struct {
	const char *name;
	unsigned int major, minor;
} devices[] = {
#define DEVICE(name, major, minor) { name, major, minor },
#include "policy/devices.tbl"
#undef DEVICE
};

static int new_fs(const char *type)
{
	own_fd fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);

	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fs = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return fs < 0 ? -errno : fd_take(&fs);
}

static int clone_tree(const char *path)
{
	return (int)syscall(SYS_open_tree, AT_FDCWD, path,
			    OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

/* --- mounts ------------------------------------------------------------------------------------- */

static int try_tree(struct probe *p)
{
	struct mount_attr a = { .attr_set =
					MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS };
	own_fd tree = -1, at = -1;

	probe_at(p, "open_tree");
	tree = clone_tree("/usr");
	if (tree < 0)
		return -errno;
	probe_at(p, "mount_setattr");
	if (syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof(a)) < 0)
		return -errno;
	probe_at(p, "openat2");
	at = (int)syscall(SYS_openat2, AT_FDCWD, "/proc", &how, sizeof(how));
	return at < 0 ? -errno : 0;
}

static int try_mounts(struct probe *p, const void *arg)
{
	static const char *const places[] = { "/tmp", "/mnt", "/run", "/var" };
	own_fd fs = -1;
	int r = probe_namespace(p, CLONE_NEWNS);

	(void)arg;
	if (r < 0)
		return r;
	probe_at(p, "mount");
	if (mount(NULL, "/", NULL, MS_REC_ | MS_PRIVATE_, NULL) < 0)
		return -errno;
	r = try_tree(p);
	if (r < 0)
		return r;
	probe_at(p, "fsopen of tmpfs");
	fs = new_fs("tmpfs");
	if (fs < 0)
		return fs;
	probe_at(p, "move_mount");
	for (unsigned int i = 0; i < ARRAY_LEN(places); i++)
		if (syscall(SYS_move_mount, fs, "", AT_FDCWD, places[i], MOVE_MOUNT_F_EMPTY_PATH) ==
		    0)
			return 0;
	return -errno;
}

void check_mounts(const struct machine *m, const struct check *c, struct finding *f)
{
	struct probe p;

	(void)c;
	if (untried(m, f))
		return;
	p = probe_run(try_mounts, NULL);
	if (p.error == 0) {
		found(f, CHECK_OK,
		      "open_tree, mount_setattr, openat2, fsopen and move_mount do what is asked");
		return;
	}
	found(f, CHECK_MISSING, "%s fails: %s%s", p.at, strerror(p.error),
	      p.error == ENOSYS ? "; it came with Linux 5.12" : "");
	if (p.error != ENOSYS && m->container != NULL)
		fix_by(f, "%s", m->container->apparmor);
}

/* --- /proc -------------------------------------------------------------------------------------- */

static int mount_proc(struct probe *p, const void *arg)
{
	own_fd fs = -1;

	(void)arg;
	probe_at(p, "fsopen of proc");
	fs = new_fs("proc");
	return fs < 0 ? fs : 0;
}

static int try_proc(struct probe *p, const void *arg)
{
	int r = probe_namespace(p, CLONE_NEWNS | CLONE_NEWPID);

	(void)arg;
	return r < 0 ? r : probe_fork(p, mount_proc, NULL);
}

static void tell_covered(const struct machine *m, struct finding *f)
{
	/* Root of the machine mounts it for the box, from outside. */
	if (m->made && (m->box.layers & LAYER_BIT(LAYER_PROC)) != 0) {
		found(f, CHECK_OK,
		      "parts of this machine's are covered; root mounts one for each box");
		return;
	}
	found(f, CHECK_MISSING,
	      "parts of this machine's are covered, and then the kernel lets nobody but root mount "
	      "another%s%s",
	      m->container != NULL ? ", as is the default of " : "",
	      m->container != NULL ? m->container->name : "");
	if (m->container != NULL)
		fix_by(f, "%s", m->container->proc);
	else
		fix_by(f, "sudo umount $(awk '$5 ~ \"^/proc/\" {print $5}' /proc/self/mountinfo)");
}

void check_own_proc(const struct machine *m, const struct check *c, struct finding *f)
{
	struct probe p;

	(void)c;
	if (untried(m, f))
		return;
	p = probe_run(try_proc, NULL);
	if (p.error == 0) {
		found(f, CHECK_OK, "a pid namespace can mount its own");
	} else if (p.error == EPERM) {
		tell_covered(m, f);
	} else {
		found(f, CHECK_MISSING, "%s fails: %s", p.at, strerror(p.error));
		fix_kernel(f);
	}
}

/* --- /dev --------------------------------------------------------------------------------------- */

static int try_devpts(struct probe *p, const void *arg)
{
	own_fd fs = -1;
	int r = probe_namespace(p, CLONE_NEWNS);

	(void)arg;
	if (r < 0)
		return r;
	probe_at(p, "fsopen of devpts");
	fs = new_fs("devpts");
	return fs < 0 ? fs : 0;
}

void check_devices(const struct machine *m, const struct check *c, struct finding *f)
{
	struct probe p;

	(void)c;
	for (unsigned int i = 0; i < ARRAY_LEN(devices); i++) {
		char path[32];
		struct stat st;

		(void)snprintf(path, sizeof(path), "/dev/%s", devices[i].name);
		if (stat(path, &st) == 0 && S_ISCHR(st.st_mode) &&
		    st.st_rdev == makedev(devices[i].major, devices[i].minor))
			continue;
		found(f, CHECK_MISSING, "%s is not the device %u:%u", path, devices[i].major,
		      devices[i].minor);
		fix_by(f, "sudo rm -f %s && sudo mknod -m 666 %s c %u %u", path, path,
		       devices[i].major, devices[i].minor);
		return;
	}
	if (untried(m, f))
		return;
	p = probe_run(try_devpts, NULL);
	if (p.error == 0) {
		found(f, CHECK_OK, "the devices of a box are there, and terminals of its own");
		return;
	}
	found(f, CHECK_MISSING, "%s fails: %s", p.at, strerror(p.error));
	fix_kernel(f);
}

/* --- what host directories and images use --------------------------------------------------------- */

/* A process in a user namespace that maps one id, to take the map from. */
static pid_t start_mapped(int *ret_userns)
{
	char path[48];
	int ready[2];
	pid_t pid;
	char byte;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		struct probe unused = { 0 };

		(void)alarm(5);
		(void)close(ready[0]);
		if (probe_namespace(&unused, 0) == 0 && write(ready[1], "r", 1) == 1)
			(void)pause();
		_exit(1);
	}
	(void)close(ready[1]);
	if (pid > 0 && read(ready[0], &byte, 1) == 1) {
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		*ret_userns = open(path, O_RDONLY | O_CLOEXEC);
	}
	(void)close(ready[0]);
	return pid;
}

static int try_idmap(struct probe *p, const void *arg)
{
	own_fd userns = -1, tree = -1;
	struct mount_attr a = { .attr_set = MOUNT_ATTR_IDMAP };
	pid_t pid = start_mapped(&userns);
	int r = 0;

	probe_at(p, "mount_setattr");
	tree = clone_tree(arg);
	a.userns_fd = (uint64_t)(unsigned int)userns;
	if (tree < 0 || syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &a, sizeof(a)) < 0)
		r = -errno;
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	return r;
}

void check_idmapped(const struct machine *m, const struct check *c, struct finding *f)
{
	struct probe p;

	(void)c;
	if (!m->privileged) {
		found(f, CHECK_OK,
		      "are for root; a writable host directory gives the box this user's own uid "
		      "instead");
		return;
	}
	if (untried(m, f))
		return;
	p = probe_run(try_idmap, ".");
	if (p.error == 0)
		found(f, CHECK_OK, "work here: writable host directories keep their owner");
	else
		found(f, CHECK_NOTE,
		      "do not work in this directory's file system (%s): use --mount with :rw for "
		      "directories of ext4, xfs or btrfs",
		      strerror(p.error));
}

void check_overlay(const struct machine *m, const struct check *c, struct finding *f)
{
	char text[8192];

	(void)m, (void)c;
	if (io_read_text(AT_FDCWD, "/proc/filesystems", text, sizeof(text)) >= 0 &&
	    strstr(text, "\toverlay") != NULL)
		found(f, CHECK_OK, "is there");
	else
		found(f, CHECK_NOTE, "is not loaded; only boxes from images need it");
}
