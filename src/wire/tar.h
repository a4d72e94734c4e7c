/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar archives of what is in a box: read strictly, and written. The form is that of GNU tar (and old POSIX): long names in
 * members of their own ('L', 'K'), large sizes in base 256.
 *
 * A member is refused unless it is what an honest archive of one directory has: a plain relative path, a file, a directory
 * or a symbolic link; sizes and numbers that are ones, a checksum that is right. Everything else ends the reading:
 * absolute names, "..", hard links, devices, sparse files, extensions nobody here needs. (Sockets and pipes are no
 * members of honest archives of ours, either: they are left out when one is written.)
 *
 * Nothing is allocated. Pieces give the same as the whole. Who was refused stays refused.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TAR_BLOCK = 512 };

enum tar_type { TAR_FILE, TAR_DIRECTORY, TAR_LINK };

struct tar_member {
	char path[PATH_MAX]; /* plain, see path_is_plain() */
	char link[PATH_MAX]; /* where a link leads: any text without control characters */
	enum tar_type type;
	unsigned int mode; /* 0777 at most */
	uint64_t size;     /* of a file */
	int64_t mtime;     /* seconds */
};

struct tar_reader {
	uint8_t block[TAR_BLOCK];
	size_t n;
	uint64_t left, padding; /* of the contents */
	char long_path[PATH_MAX], long_link[PATH_MAX];
	char *long_to; /* where contents go that are a long name; NULL: they are a file's */
	size_t long_n;
	unsigned int zeros; /* empty blocks in a row */
	struct tar_member member;
	bool done, refused;
};

/* What is found: a member, then its contents in pieces, then end() with whether it was whole; each returns 0, or what ends
 * the reading. */
struct tar_ops {
	int (*member)(void *arg, const struct tar_member *m);
	int (*data)(void *arg, const void *p, size_t n);
	int (*end)(void *arg);
};

void tar_reader_init(struct tar_reader *r);
/* 0, -EPROTO with *why, or what one of ops returned. Bytes behind the end of the archive are passed over. */
int tar_read(struct tar_reader *r, const void *p, size_t n, const struct tar_ops *ops, void *arg,
	     const char **why);
/* Whether that was all of an archive. */
bool tar_is_whole(const struct tar_reader *r);

/* The head of a member, in whole blocks: up to TAR_HEAD_MAX bytes. Returns how many; 0: its path or link is too long. */
enum { TAR_HEAD_MAX = 3 * TAR_BLOCK + 2 * (PATH_MAX + TAR_BLOCK) };
size_t tar_head(uint8_t out[TAR_HEAD_MAX], const struct tar_member *m);
/* How many zeros follow so many bytes of contents. */
size_t tar_padding(uint64_t size);
