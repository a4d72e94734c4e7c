/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's mount interface by descriptors, in the few shapes that we need. All return -1 with errno.
 */
#pragma once

#include <linux/mount.h>
#include <stdint.h>

/* sys/mount.h and linux/mount.h do not go together with older C libraries. */
extern int mount(const char *source, const char *target, const char *type, unsigned long flags,
		 const void *data);
extern int umount2(const char *target, int flags);
enum { MS_REC_ = 16384, MS_PRIVATE_ = 1 << 18, MNT_DETACH_ = 2 };

/* openat2(2), close-on-exec. */
int mnt_open(int dirfd, const char *path, uint64_t flags, uint64_t resolve);

/* A detached copy of what a path shows; AT_RECURSIVE: with what is mounted below it. */
int mnt_clone(int dirfd, const char *path, unsigned int flags);

/* A new file system of our own as a detached mount. Options: name, value pairs up to NULL. */
int mnt_new(const char *type, const char *const *options, unsigned int attr);

/* The same, with what its options can be changed by later, from anywhere. */
int mnt_new_kept(const char *type, const char *const *options, unsigned int attr, int *ret_fs);
int mnt_change(int fs, const char *const *options);

/* Set MOUNT_ATTR_* of a mount. */
int mnt_set(int fd, uint64_t attr, unsigned int flags);

/* Put a detached mount at a place; path "" is the place's own descriptor. */
int mnt_place(int tree_fd, int dirfd, const char *path);
