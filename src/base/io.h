/* SPDX-License-Identifier: Apache-2.0 */
/* Small blocking reads and writes. All return 0 or a count, or -errno; none logs. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Write all n bytes to a blocking descriptor. */
int io_write_all(int fd, const void *p, size_t n);

/* The same in a new file in memory, close-on-exec, which nobody can change. Its descriptor. */
int io_sealed(const char *name, const void *p, size_t n);

/* Read until n bytes or end of file; the count read. */
ssize_t io_read_full(int fd, void *p, size_t n);

/* The text of a small file (relative to dirfd, or absolute), NUL-terminated and without trailing
 * newline; -ENOBUFS when it does not fit. Returns its length. */
ssize_t io_read_text(int dirfd, const char *path, char *buf, size_t size);

/* Write text to an existing file in one write(2). */
int io_write_text(int dirfd, const char *path, const char *text);

/* A number from a one-line file such as those of cgroups. */
int io_read_u64(int dirfd, const char *path, uint64_t *ret);

/* The number behind `key ` in a file of "key value" lines. -ENOENT when the key is not there. */
int io_read_keyed(int dirfd, const char *path, const char *key, uint64_t *ret);

/* Set or clear O_NONBLOCK. */
int io_set_nonblock(int fd, int on);

/* A resource limit of this process (RLIMIT_…), as far up as its hard one goes. */
void io_raise_limit(int which);
