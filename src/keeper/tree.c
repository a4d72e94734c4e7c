// SPDX-License-Identifier: Apache-2.0
/*
 * The file tree of a box: policy/root.tbl, devices.tbl and masked.tbl put into practice.
 *
 * Everything is done by descriptor: what comes from the host is cloned into detached mounts before
 * the new root is there, and placed by descriptors below it. The new root is an empty tmpfs that
 * nobody but us has ever written to, so no name in it can be a trap; what is opened on the host or
 * in /proc is checked to be what it should be.
 */
#include "keeper/mountapi.h"
#include "keeper/steps.h"

#include "base/io.h"
#include "base/own.h"
#include "wire/chan.h"
#include "wire/control.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

enum root_kind { SHOW, DIR, LINK, FILE_, WRITE, ALSO };
#define FILE FILE_

static const struct root_row {
	enum root_kind kind;
	const char *at, *what;
} tree[] = {
#define ROOT(kind, at, what) { kind, at, what },
#include "policy/root.tbl"
#undef ROOT
};
#undef FILE
_Static_assert(ARRAY_LEN(tree) <= SOURCES_MAX, "root.tbl has more rows than sources");

static const struct {
	const char *name;
	unsigned int major, minor;
} devices[] = {
#define DEVICE(name, major, minor) { name, major, minor },
#include "policy/devices.tbl"
#undef DEVICE
};

enum mask_how { COVER_FILE, COVER_DIR, READ_ONLY };

static const struct {
	enum mask_how how;
	const char *path;
} masks[] = {
#define MASK(how, path, why) { how, path },
#include "policy/masked.tbl"
#undef MASK
};

int fail_at(struct work *w, const char *what)
{
	int e = errno;

	(void)snprintf(w->detail, sizeof(w->detail), "%s", what);
	return -e;
}

/* --- steps ---------------------------------------------------------------------------------- */

int step_mounts_private(struct work *w)
{
	(void)w;
	return mount(NULL, "/", NULL, MS_REC_ | MS_PRIVATE_, NULL) < 0 ? -errno : 0;
}

static int take_device(struct work *w, unsigned int i)
{
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/dev/%s", devices[i].name);
	w->device_fd[i] = mnt_clone(AT_FDCWD, path, 0);
	if (w->device_fd[i] < 0 || fstat(w->device_fd[i], &st) < 0)
		return fail_at(w, path);
	if (!S_ISCHR(st.st_mode) || major(st.st_rdev) != devices[i].major ||
	    minor(st.st_rdev) != devices[i].minor) {
		errno = ENODEV;
		return fail_at(w, path);
	}
	return 0;
}

int step_sources(struct work *w)
{
	int r = 0;

	for (unsigned int i = 0; i < ARRAY_LEN(tree) && r == 0; i++) {
		w->source_fd[i] = -1;
		w->link[i][0] = '\0';
		if (tree[i].kind == SHOW && !env_is_root(w))
			r = source_open(w, i, tree[i].what);
	}
	for (unsigned int i = 0; i < ARRAY_LEN(devices) && r == 0; i++)
		r = take_device(w, i);
	return r;
}

int step_root_new(struct work *w)
{
	static const char *const options[] = { "size", "2m",   "nr_inodes", "512",
					       "mode", "0755", NULL };
	static const char *const places[] = { "/tmp", "/mnt", "/run", "/var", NULL };

	w->root_fd = mnt_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (w->root_fd < 0)
		return fail_at(w, "tmpfs");
	for (const char *const *p = places; *p != NULL; p++)
		if (mnt_place(w->root_fd, AT_FDCWD, *p) == 0)
			return 0;
	return fail_at(w, "no directory to build the root on");
}

static int write_file(struct work *w, const char *at, const char *text)
{
	own_fd fd =
		openat(w->root_fd, at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
	int r;

	if (fd < 0)
		return fail_at(w, at);
	r = io_write_all(fd, text, strlen(text));
	errno = -r;
	return r < 0 ? fail_at(w, at) : 0;
}

/* The writable stores: one tmpfs each; a place is a directory of its store. */
static const struct {
	const char *name;
	enum limit_id bytes;
	unsigned int bytes_per_inode; /* 0: LIMIT_WORKSPACE_INODES says how many */
} stores[] = {
	[STORE_WORKSPACE] = { "workspace", LIMIT_WORKSPACE, 0 },
	[STORE_SCRATCH] = { "scratch", LIMIT_SCRATCH, 8192 },
	[STORE_SHM] = { "shm", LIMIT_SHM, 65536 },
};

static uint64_t store_inodes(const struct limits *l, enum store s)
{
	if (stores[s].bytes_per_inode == 0)
		return l->v[LIMIT_WORKSPACE_INODES];
	return l->v[stores[s].bytes] / stores[s].bytes_per_inode + 64;
}

uint64_t store_inodes_all(const struct limits *l)
{
	uint64_t all = 0;

	for (int s = 0; s < STORE_MAX; s++)
		all += store_inodes(l, (enum store)s);
	return all;
}

struct store_size {
	char bytes[32], inodes[32];
};

static void store_size(const struct limits *l, enum store s, struct store_size *ret)
{
	(void)snprintf(ret->bytes, sizeof(ret->bytes), "%llu",
		       (unsigned long long)l->v[stores[s].bytes]);
	(void)snprintf(ret->inodes, sizeof(ret->inodes), "%llu",
		       (unsigned long long)store_inodes(l, s));
}

int stores_limit(const int fds[STORE_MAX], const struct limits *l, struct err *e)
{
	for (int s = 0; s < STORE_MAX; s++) {
		struct store_size size;
		const char *options[] = { "size", size.bytes, "nr_inodes", size.inodes, NULL };

		store_size(l, (enum store)s, &size);
		if (mnt_change(fds[s], options) < 0)
			return err_set(e, ERR_SYS, errno, "resize the %s of a box", stores[s].name);
	}
	return 0;
}

/* Make a store and put it at its first place. A store with several places has a directory for each
 * below its root, and the root itself is nowhere to be seen. */
static int make_store(struct work *w, enum store s, int *ret_fd)
{
	struct store_size size;
	char id[16];
	const char *options[] = { "size", size.bytes, "nr_inodes", size.inodes, "mode", "0755",
				  "uid",  id,         "gid",       id,          NULL };

	store_size(w->s->limits, s, &size);
	(void)snprintf(id, sizeof(id), "%u", w->s->ids.in_user);
	*ret_fd = mnt_new_kept("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
			       &w->store_fs[s]);
	return *ret_fd < 0 ? fail_at(w, stores[s].name) : 0;
}

static int place_store_part(struct work *w, int store_fd, const char *at, unsigned int part)
{
	char name[8];
	own_fd dir = -1;
	long user = (long)w->s->ids.in_user;

	(void)snprintf(name, sizeof(name), "%u", part);
	if (mkdirat(store_fd, name, 0755) < 0 ||
	    fchownat(store_fd, name, (uid_t)user, (gid_t)user, 0) < 0)
		return fail_at(w, at);
	/* Shared by convention: sticky, as everywhere. */
	if (strcmp(at, "tmp") == 0 || strcmp(at, "var/tmp") == 0)
		(void)!fchmodat(store_fd, name, 01777, 0);
	dir = mnt_clone(store_fd, name, 0);
	if (dir < 0 || mnt_place(dir, w->root_fd, at) < 0)
		return fail_at(w, at);
	return 0;
}

static int place_writable(struct work *w, const struct root_row *row, int fds[STORE_MAX],
			  unsigned int parts[STORE_MAX])
{
	const char *at = row->at + 1;
	enum store s;

	for (s = 0; s < STORE_MAX; s++)
		if (strcmp(stores[s].name, row->what) == 0)
			break;
	if (mkdirat(w->root_fd, at, 0755) < 0)
		return fail_at(w, at);
	if (s != STORE_SCRATCH) {
		int r = make_store(w, s, &fds[s]);

		if (r == 0 && mnt_place(fds[s], w->root_fd, at) < 0)
			r = fail_at(w, at);
		fd_close(&fds[s]);
		return r;
	}
	/* A detached mount cannot be cloned from: it is put here first, and its first part over it, which is cheaper than to
	 * take it away: for that the kernel waits until every processor has noticed. */
	if (parts[s] == 0) {
		int r = make_store(w, s, &fds[s]);

		if (r == 0 && mnt_place(fds[s], w->root_fd, at) < 0)
			r = fail_at(w, at);
		if (r < 0)
			return r;
	}
	return place_store_part(w, fds[s], at, parts[s]++);
}

/* The same mount once more: a path is a name, not a link to another one. */
static int place_also(struct work *w, const struct root_row *row)
{
	const char *at = row->at + 1;
	own_fd dir = -1;

	if (!w->s->app)
		return 0;
	if (mkdirat(w->root_fd, at, 0755) < 0)
		return fail_at(w, at);
	dir = mnt_clone(w->root_fd, row->what + 1, 0);
	if (dir < 0 || mnt_place(dir, w->root_fd, at) < 0)
		return fail_at(w, at);
	return 0;
}

/* What the sizes of the stores hang on, to the keeper, where they may change. Nobody else has it. */
static int give_stores(struct work *w)
{
	int r = 0;

	if (w->s->spare)
		r = chan_send(w->s->control_fd, CONTROL_STORES, 0, NULL, 0, w->store_fs, STORE_MAX);
	for (int s = 0; s < STORE_MAX; s++)
		fd_close(&w->store_fs[s]);
	return r;
}

int step_root_tree(struct work *w)
{
	int fds[STORE_MAX] = { -1, -1, -1 };
	unsigned int parts[STORE_MAX] = { 0 };
	int r = 0;

	(void)umask(0);
	for (unsigned int i = 0; i < ARRAY_LEN(tree) && r == 0; i++) {
		const char *at = tree[i].at + 1;

		switch (tree[i].kind) {
		case SHOW:
			r = source_show(w, i, tree[i].at + 1);
			break;
		case DIR:
			if (mkdirat(w->root_fd, at, 0755) < 0)
				r = fail_at(w, at);
			break;
		case LINK:
			if (symlinkat(tree[i].what, w->root_fd, at) < 0)
				r = fail_at(w, at);
			break;
		case FILE_:
			r = write_file(w, at, tree[i].what);
			break;
		case WRITE:
			r = place_writable(w, &tree[i], fds, parts);
			break;
		case ALSO:
			r = place_also(w, &tree[i]);
			break;
		}
	}
	if (r == 0)
		r = give_stores(w);
	for (int s = 0; s < STORE_MAX; s++)
		fd_close(&fds[s]);
	return r;
}

int step_devices(struct work *w)
{
	/* The host has 4096 terminals in all, of which boxes can take 3072. */
	static const char *const options[] = {
		"mode", "0620", "ptmxmode", "0666", "max", "64", NULL
	};
	static const char *const none[] = { NULL };
	own_fd pts = -1;

	for (unsigned int i = 0; i < ARRAY_LEN(devices); i++) {
		char at[32];
		own_fd file = -1;

		(void)snprintf(at, sizeof(at), "dev/%s", devices[i].name);
		file = openat(w->root_fd, at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
		if (file < 0 ||
		    mnt_set(w->device_fd[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, 0) < 0 ||
		    mnt_place(w->device_fd[i], w->root_fd, at) < 0)
			return fail_at(w, at);
		if (strcmp(devices[i].name, "null") != 0)
			fd_close(&w->device_fd[i]);
	}
	pts = mnt_new("devpts", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
	if (pts < 0 || mnt_place(pts, w->root_fd, "dev/pts") < 0)
		return fail_at(w, "devpts");
	/* Seen nowhere: Landlock's rule for message queues hangs on it. */
	w->mqueue_fd = mnt_new("mqueue", none, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return 0;
}

/* Ask the keeper for what this namespace may not do. */
static int ask_for_proc(const struct work *w)
{
	static struct chan_msg m;
	int r;

	/* Whoever is not dumpable can be entered with CAP_SYS_PTRACE of the host only. Nobody else
	 * is in this box yet. */
	(void)prctl(PR_SET_DUMPABLE, 1);
	r = chan_send(w->s->control_fd, CONTROL_PROC_WANT, 0, NULL, 0, NULL, 0);
	if (r == 0)
		r = chan_recv(w->s->control_fd, &m);
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (r > 0 && m.type == CONTROL_PROC && m.nfds == 1)
		return m.fds[0];
	errno = EPERM;
	return -1;
}

int step_proc(struct work *w)
{
	static const char *const options[] = { NULL };
	struct statfs fs;

	w->proc_fd =
		mnt_new("proc", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (w->proc_fd < 0 && errno == EPERM)
		w->proc_fd = ask_for_proc(w);
	if (w->proc_fd < 0 || mnt_place(w->proc_fd, w->root_fd, "proc") < 0)
		return fail_at(w, "proc");
	if (fstatfs(w->proc_fd, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC) {
		errno = EXDEV;
		return fail_at(w, "proc");
	}
	w->proc_sys_fd = openat(w->proc_fd, "sys", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return w->proc_sys_fd < 0 ? fail_at(w, "proc/sys") : 0;
}

/* After everything that clones mounts: a detached mount counts as a mount namespace. */
int step_counters(struct work *w)
{
	static const char *const none[] = { "user", "net", "mnt",    "pid",
					    "ipc",  "uts", "cgroup", "time" };
	char path[64];
	int r;

	if (w->proc_sys_fd < 0)
		return -ENOENT;
	if (mutant_is("user-namespace") || mutant_is("namespace-counters"))
		return 0; /* without a namespace of its own these would be the host's */
	for (unsigned int i = 0; i < ARRAY_LEN(none); i++) {
		(void)snprintf(path, sizeof(path), "user/max_%s_namespaces", none[i]);
		r = io_write_text(w->proc_sys_fd, path, "0");
		if (r < 0 && r != -ENOENT) {
			errno = -r;
			return fail_at(w, path);
		}
	}
	r = io_write_text(w->proc_sys_fd, "user/max_inotify_instances", "16");
	if (r == 0)
		r = io_write_text(w->proc_sys_fd, "user/max_inotify_watches", "8192");
	errno = -r;
	if (r < 0)
		return fail_at(w, "user/max_inotify_instances");
	/* A convenience that costs nothing: port 80 of its own loopback. */
	(void)io_write_text(w->proc_sys_fd, "net/ipv4/ip_unprivileged_port_start", "0");
	return 0;
}

/* What is put over a path of /proc. It has its attributes from here on, and so has every copy. */
static int make_cover(const struct work *w, enum mask_how how, int target)
{
	uint64_t attr =
		MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
	own_fd over = -1;

	switch (how) {
	case READ_ONLY:
		over = mnt_clone(target, "", AT_EMPTY_PATH | AT_RECURSIVE);
		break;
	case COVER_DIR:
		over = mnt_clone(w->root_fd, "sys", 0);
		break;
	case COVER_FILE:
		over = mnt_clone(w->root_fd, "dev/null", 0);
		attr &= ~(uint64_t)MOUNT_ATTR_NODEV; /* /dev/null must stay what it is */
		break;
	}
	if (over < 0 || mnt_set(over, attr, 0) < 0)
		return -1;
	return fd_take(&over);
}

/* The path is opened without following any link and without leaving this /proc: nothing can stand in for it.
 * like: a cover of this kind that is in place, or -1; then *like is this one. */
static int cover(struct work *w, unsigned int i, int *like)
{
	own_fd target = mnt_open(w->proc_fd, masks[i].path, O_PATH,
				 RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	own_fd over = -1;

	if (target < 0)
		return errno == ENOENT ? 0 : fail_at(w, masks[i].path);
	over = *like >= 0 ? mnt_clone(*like, "", AT_EMPTY_PATH)
			  : make_cover(w, masks[i].how, target);
	if (over < 0 || mnt_place(over, target, "") < 0)
		return fail_at(w, masks[i].path);
	if (*like < 0 && masks[i].how != READ_ONLY)
		*like = fd_take(&over);
	return 0;
}

int step_masks(struct work *w)
{
	int like[] = { [COVER_FILE] = -1, [COVER_DIR] = -1, [READ_ONLY] = -1 };
	int r = 0;

	if (w->proc_fd < 0)
		return 0; /* nothing is there that would need a mask */
	for (unsigned int i = 0; i < ARRAY_LEN(masks) && r == 0; i++)
		r = cover(w, i, &like[masks[i].how]);
	for (unsigned int i = 0; i < ARRAY_LEN(like); i++)
		fd_close(&like[i]);
	return r;
}

/*
 * The keeper shields init from out of memory by a negative oom_score_adj, which init's children
 * inherit and must raise again. That takes a file of /proc, and Landlock lets nobody in the box write
 * to /proc. So there is a second one, of processes only, behind a directory of the box's root.
 */
int step_oom_shield(struct work *w)
{
	static const char *const options[] = { "subset", "pid", NULL };
	own_fd fd = -1;

	if (!w->s->can_shield)
		return -EPERM;
	fd = mnt_new("proc", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (fd < 0 || mkdirat(w->root_fd, &INIT_PROC[1], 0700) < 0)
		return -errno;
	/* The mount's own root is open to all: the door is the directory above it. */
	if (mkdirat(w->root_fd, &INIT_PROC "/proc"[1], 0700) < 0 ||
	    mnt_place(fd, w->root_fd, &INIT_PROC "/proc"[1]) < 0)
		return -errno;
	return 0;
}

/* A place for a host directory: made where it is missing. Inside a writable store it belongs to
 * the user, elsewhere to nobody. */
static int make_place(struct work *w, const char *at)
{
	own_fd dir = fcntl(w->root_fd, F_DUPFD_CLOEXEC, 3);

	while (dir >= 0 && *at != '\0') {
		size_t n = strcspn(at, "/");
		char name[256];
		int next;

		if (n >= sizeof(name)) {
			errno = ENAMETOOLONG;
			return -1;
		}
		(void)memcpy(name, at, n);
		name[n] = '\0';
		if (mkdirat(dir, name, 0755) == 0)
			(void)!fchownat(dir, name, w->s->ids.in_user, w->s->ids.in_user, 0);
		next = mnt_open(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, RESOLVE_NO_SYMLINKS);
		fd_close(&dir);
		dir = next;
		at += n + (at[n] == '/');
	}
	return fd_take(&dir);
}

int step_host_mounts(struct work *w)
{
	for (unsigned int i = 0; i < w->s->nmounts; i++) {
		const struct host_mount *m = &w->s->mounts[i];
		own_fd at = make_place(w, m->at + 1);

		if (at < 0 || mnt_place(m->tree_fd, at, "") < 0)
			return fail_at(w, m->at);
	}
	return 0;
}

/* By a mount of its own, which is nowhere: the one that the box has will be read-only, and must not have a writer then. Behind `counters` there are no more such. */
int step_trust(struct work *w)
{
	own_fd copy = -1;

	if (!w->s->network)
		return 0;
	copy = mnt_clone(w->root_fd, "", AT_EMPTY_PATH);
	if (copy < 0)
		return fail_at(w, "/");
	w->trust_fd = openat(copy, &BOX_TRUST[1],
			     O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
	return w->trust_fd < 0 ? fail_at(w, BOX_TRUST) : 0;
}

int step_pivot(struct work *w)
{
	if (fchdir(w->root_fd) < 0)
		return -errno;
	/* Onto itself: the old root ends up on top of the new one, and is taken off. */
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH_) < 0 ||
	    chdir("/") < 0)
		return -errno;
	return 0;
}

int step_root_read_only(struct work *w)
{
	if (mutant_is("read-only-root"))
		return 0;
	return mnt_set(w->root_fd, MOUNT_ATTR_RDONLY, 0) < 0 ? -errno : 0;
}
