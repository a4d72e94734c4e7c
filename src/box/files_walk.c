// SPDX-License-Identifier: Apache-2.0
/*
 * Down and up a tree, without a bound for its depth: not on the stack, and with few descriptors.
 *
 * The first levels keep their descriptors. Behind those only the deepest directory is open, and the one above it is found by its
 * ".."; a program may move directories meanwhile, so it has to be the one that we came from.
 */
#include "box/files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	KEPT = 8, /* levels with a descriptor: a box may have 16 in all */
	LEVELS_MAX = 1 << 20,
};

struct dirent_head { /* getdents64(2) */
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/* --- names of a directory ------------------------------------------------------------------- */

static int add_name(struct names *n, size_t *cap, uint8_t type, const char *name)
{
	size_t len = strlen(name) + 1;

	if (n->text == NULL || *cap - n->len < len + 1) {
		size_t more = *cap * 2 + 4096;
		char *text = realloc(n->text, more);

		if (text == NULL)
			return ENOMEM;
		n->text = text;
		*cap = more;
	}
	n->text[n->len] = (char)type;
	(void)memcpy(n->text + n->len + 1, name, len);
	n->len += 1 + len;
	n->n++;
	return 0;
}

static int names_read(struct names *n, int fd)
{
	static _Alignas(8) uint8_t buf[32768];
	size_t cap = 0;
	long got = 0;
	int r = 0;

	while (r == 0 && (got = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0)
		for (long at = 0; r == 0 && at < got;) {
			const struct dirent_head *d = (const void *)(buf + at);

			if (strcmp(d->name, ".") != 0 && strcmp(d->name, "..") != 0)
				r = add_name(n, &cap, d->type, d->name);
			at += d->reclen;
		}
	if (r == 0 && got < 0 && errno != ENOENT) /* ENOENT: it was deleted, and is empty */
		r = errno;
	return r;
}

/* strcmp() compares bytes. */
static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_sort(struct names *n)
{
	size_t at = 0;

	if (n->n == 0)
		return 0;
	n->sorted = reallocarray(NULL, n->n, sizeof(*n->sorted));
	if (n->sorted == NULL)
		return ENOMEM;
	for (size_t i = 0; i < n->n; i++) {
		n->sorted[i] = n->text + at + 1;
		at += 1 + strlen(n->sorted[i]) + 1;
	}
	qsort(n->sorted, n->n, sizeof(*n->sorted), by_name);
	return 0;
}

static void names_free(struct names *n)
{
	free(n->text);
	free(n->sorted);
}

/* --- levels ---------------------------------------------------------------------------------- */

static int grow(struct walk *w)
{
	size_t cap = w->cap * 2 + 16;
	struct level *v;

	if (w->n < w->cap)
		return 0;
	if (w->n >= LEVELS_MAX)
		return ELOOP;
	v = reallocarray(w->levels, cap, sizeof(*v));
	if (v == NULL)
		return ENOMEM;
	w->levels = v;
	w->cap = cap;
	return 0;
}

int walk_enter(struct walk *w, int *fd, const char *name)
{
	struct level l = { .name = name };
	struct stat st;
	int r = fstat(*fd, &st) < 0 ? errno : grow(w);

	if (r == 0)
		r = names_read(&l.names, *fd);
	if (r == 0 && w->sorted)
		r = names_sort(&l.names);
	if (r != 0) {
		names_free(&l.names);
		return r;
	}
	l.dev = st.st_dev;
	l.ino = st.st_ino;
	l.fd = fd_take(fd);
	if (w->n > KEPT)
		fd_close(&w->levels[w->n - 1].fd);
	w->levels[w->n++] = l;
	return 0;
}

static void pop(struct walk *w)
{
	struct level *l = walk_here(w);

	names_free(&l->names);
	fd_close(&l->fd);
	w->n--;
}

int walk_start(struct walk *w, int fd)
{
	own_fd top = fd;

	return walk_enter(w, &top, NULL);
}

const char *walk_next(struct walk *w, unsigned char *ret_type)
{
	struct names *n = &walk_here(w)->names;
	const char *name;

	if (n->sorted != NULL) {
		if (n->at == n->n)
			return NULL;
		name = n->sorted[n->at++];
	} else {
		if (n->at == n->len)
			return NULL;
		name = n->text + n->at + 1;
		n->at += 1 + strlen(name) + 1;
	}
	*ret_type = (unsigned char)name[-1];
	return name;
}

int walk_open(const struct walk *w, const char *name)
{
	return openat(walk_here(w)->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int walk_down(struct walk *w, const char *name)
{
	own_fd fd = walk_open(w, name);

	return fd < 0 ? errno : walk_enter(w, &fd, name);
}

/* The directory above the deepest one, if it is still that. */
static int find_again(struct walk *w)
{
	struct level *above = &w->levels[w->n - 2];
	own_fd fd = openat(walk_here(w)->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != above->dev || st.st_ino != above->ino)
		return ESTALE;
	above->fd = fd_take(&fd);
	return 0;
}

int walk_up(struct walk *w)
{
	int r = 0;

	if (w->n > 1 && w->levels[w->n - 2].fd < 0)
		r = find_again(w);
	pop(w);
	while (w->n > 0 && walk_here(w)->fd < 0)
		pop(w);
	return r;
}

void walk_end(struct walk *w)
{
	while (w->n > 0)
		pop(w);
	free(w->levels);
	w->levels = NULL;
	w->cap = 0;
}
