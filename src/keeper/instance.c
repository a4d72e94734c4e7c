// SPDX-License-Identifier: Apache-2.0
/*
 * An instance: one running keeper, known by the lock file that it holds.
 *
 * Lock files have numbers; the number decides the ids of the instance's boxes. A lock file is never
 * removed. While its instance lives it names the directories in which the instance makes cgroups;
 * one that names any and is not locked belongs to an instance that died, and whoever finds it
 * removes what that left behind.
 *
 * The directory is fixed per user, because the ids of two directories would overlap.
 */
#include "keeper/keeper.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

/* A directory that is ours alone, made where it is missing. */
static int own_directory(const char *path, uid_t uid)
{
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &st) < 0)
		return -errno;
	/* In a namespace of our own the caller is 0. */
	if (!S_ISDIR(st.st_mode) || (st.st_uid != uid && st.st_uid != geteuid()) ||
	    (st.st_mode & 077) != 0)
		return -EPERM;
	return 0;
}

static int find_directory(struct instance *i, uid_t uid, struct err *e)
{
	int r = -ENOENT;

	if (uid == 0) {
		(void)snprintf(i->dir, sizeof(i->dir), "/run/glovebox");
		r = own_directory(i->dir, uid);
	} else {
		(void)snprintf(i->dir, sizeof(i->dir), "/run/user/%u", uid);
		if (access(i->dir, W_OK) == 0) {
			(void)snprintf(i->dir, sizeof(i->dir), "/run/user/%u/glovebox", uid);
			r = own_directory(i->dir, uid);
		}
	}
	if (r == -ENOENT || r == -EROFS || r == -EACCES) {
		(void)snprintf(i->dir, sizeof(i->dir), "/tmp/glovebox-%u", uid);
		r = own_directory(i->dir, uid);
	}
	if (r == -EPERM)
		return err_set(e, ERR_INPUT, 0,
			       "run directory '%s' is not a private directory of this user",
			       i->dir);
	return r < 0 ? err_set(e, ERR_SYS, -r, "make run directory '%s'", i->dir) : 0;
}

static int open_lock(const char *dir, unsigned int slot)
{
	char path[96];
	own_fd fd = -1;

	(void)snprintf(path, sizeof(path), "%s/%04u.lock", dir, slot);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return fd_take(&fd);
}

static void make_tag(struct instance *i, unsigned int slot, char *tag, size_t size)
{
	struct stat st = { 0 };

	/* Two machines' worth of run directories (containers) may share one cgroup tree. */
	(void)stat(i->dir, &st);
	(void)snprintf(tag, size, "glovebox-%llx-%u-",
		       (unsigned long long)(st.st_ino ^ (uint64_t)st.st_dev << 20) & 0xffffffffu,
		       slot);
}

/* Remove what the dead holder of this (now our) lock left. */
static void sweep_slot(struct instance *i, int fd, unsigned int slot)
{
	char text[2048], tag[32], *save = NULL;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return;
	text[n] = '\0';
	make_tag(i, slot, tag, sizeof(tag));
	for (char *l = strtok_r(text, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save))
		cgroup_sweep(l, tag);
	(void)!ftruncate(fd, 0);
}

static void sweep_others(struct instance *i)
{
	own_fd dir = open(i->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = dir < 0 ? NULL : fdopendir(fcntl(dir, F_DUPFD_CLOEXEC, 3));
	const struct dirent *ent;

	if (d == NULL)
		return;
	while ((ent = readdir(d)) != NULL) {
		struct stat st;
		uint64_t slot;
		char number[8];
		int fd;

		if (strlen(ent->d_name) != 9 || strcmp(ent->d_name + 4, ".lock") != 0)
			continue;
		(void)snprintf(number, sizeof(number), "%.4s", ent->d_name);
		if (str_to_u64(number, 9999, &slot) < 0 || slot == i->slot)
			continue;
		if (fstatat(dir, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_size == 0)
			continue;
		fd = open_lock(i->dir, (unsigned int)slot);
		if (fd >= 0) {
			sweep_slot(i, fd, (unsigned int)slot);
			(void)close(fd);
		}
	}
	(void)closedir(d);
}

int instance_start(struct instance *i, unsigned int slots, uid_t uid, struct err *e)
{
	*i = (struct instance){ .lock_fd = -1 };
	if (find_directory(i, uid, e) < 0)
		return -1;
	for (unsigned int slot = 0; slot < slots && slot < 10000; slot++) {
		int fd = open_lock(i->dir, slot);

		if (fd == -EWOULDBLOCK)
			continue;
		if (fd < 0)
			return err_set(e, ERR_SYS, -fd, "lock instance %u in '%s'", slot, i->dir);
		i->slot = slot;
		i->lock_fd = fd;
		make_tag(i, slot, i->tag, sizeof(i->tag));
		sweep_slot(i, fd, slot);
		sweep_others(i);
		return 0;
	}
	return err_set(e, ERR_LIMIT, 0, "all %u instances that this user's ids allow are running",
		       slots);
}

int instance_note(const struct instance *i, const char *cgroup_base)
{
	char line[300];
	int n = snprintf(line, sizeof(line), "%s\n", cgroup_base);

	if (lseek(i->lock_fd, 0, SEEK_END) < 0)
		return -errno;
	return io_write_all(i->lock_fd, line, (size_t)n);
}

void instance_done(struct instance *i)
{
	(void)!ftruncate(i->lock_fd, 0);
	fd_close(&i->lock_fd);
}
