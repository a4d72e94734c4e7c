// SPDX-License-Identifier: Apache-2.0
#include "cli/history.h"

#include "base/io.h"
#include "base/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { OPEN_TRIES = 10 };

char *history_path(void)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int n = -1;

	if (state != NULL && state[0] == '/')
		n = asprintf(&path, "%s/glovebox/history", state);
	else if (home != NULL && home[0] == '/')
		n = asprintf(&path, "%s/.local/state/glovebox/history", home);
	return n < 0 ? NULL : path;
}

/* --- in memory ------------------------------------------------------------------------------------ */

static void forget_oldest(struct history *h)
{
	free(h->v[0]);
	(void)memmove(h->v, h->v + 1, (h->n - 1) * sizeof(*h->v));
	h->n--;
}

static void keep(struct history *h, char *text)
{
	if (text == NULL)
		return;
	if (h->n == HISTORY_ENTRIES)
		forget_oldest(h);
	if (h->n == h->cap) {
		size_t cap = h->cap * 2 + 64;
		char **v = reallocarray(h->v, cap, sizeof(*v));

		if (v == NULL) {
			free(text);
			return;
		}
		h->v = v;
		h->cap = cap;
	}
	h->v[h->n++] = text;
}

void history_done(struct history *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->v[i]);
	free(h->v);
	free(h->path);
	*h = (struct history){ 0 };
}

/* --- lines of the file ---------------------------------------------------------------------------- */

/* NULL: it is not one of ours. */
static char *from_line(const char *p, size_t n)
{
	char *text = malloc(n + 1);
	size_t len = 0;

	if (text == NULL)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		char c = p[i];

		if (c == '\\' && i + 1 < n)
			c = p[++i] == 'n' ? '\n' : p[i];
		if (c == '\0' || c == '\033') {
			free(text);
			return NULL;
		}
		text[len++] = c;
	}
	text[len] = '\0';
	return text;
}

/* With its line end; *ret_n: how long. */
static char *to_line(const char *text, size_t *ret_n)
{
	char *line = malloc(2 * strlen(text) + 2);
	size_t n = 0;

	if (line == NULL)
		return NULL;
	for (; *text != '\0'; text++) {
		if (*text == '\n' || *text == '\\')
			line[n++] = '\\';
		line[n++] = *text == '\n' ? 'n' : *text;
	}
	line[n++] = '\n';
	*ret_n = n;
	return line;
}

/* --- the file ------------------------------------------------------------------------------------- */

static void make_directories(const char *path)
{
	own_free char *copy = strdup(path);

	for (char *p = copy != NULL ? strchr(copy + 1, '/') : NULL; p != NULL;
	     p = strchr(p + 1, '/')) {
		*p = '\0';
		(void)mkdir(copy, 0700);
		*p = '/';
	}
}

static int open_once(const char *path)
{
	own_fd fd =
		open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return -1;
	if ((st.st_mode & 0077) != 0 && fchmod(fd, 0600) < 0)
		return -1;
	if (flock(fd, LOCK_EX) < 0)
		return -1;
	return fd_take(&fd);
}

/* Ours, a plain file, and locked; -1: there is none to use. While we waited for the lock another may have come in its
 * place. */
static int open_file(const char *path)
{
	for (unsigned int i = 0; i < OPEN_TRIES; i++) {
		own_fd fd = open_once(path);
		struct stat ours, there;

		if (fd < 0)
			return -1;
		if (fstat(fd, &ours) == 0 && lstat(path, &there) == 0 &&
		    ours.st_dev == there.st_dev && ours.st_ino == there.st_ino)
			return fd_take(&fd);
	}
	return -1;
}

static void read_lines(struct history *h, char *p, size_t n)
{
	char *end = p + n;

	while (p < end) {
		char *lf = memchr(p, '\n', (size_t)(end - p));

		if (lf == NULL) /* cut off while it was written */
			break;
		keep(h, from_line(p, (size_t)(lf - p)));
		p = lf + 1;
	}
}

/* Everything that is kept, in place of what has become too long; it is there as a whole, or not at all. The old one is locked
 * meanwhile. */
static void write_anew(const struct history *h)
{
	own_free char *path = NULL;
	own_fd fd = -1;
	int r = 0;

	if (asprintf(&path, "%s.new", h->path) < 0)
		return;
	(void)unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	for (size_t i = 0; i < h->n && r == 0; i++) {
		size_t n = 0;
		own_free char *line = to_line(h->v[i], &n);

		r = line != NULL ? io_write_all(fd, line, n) : -ENOMEM;
	}
	if (r < 0 || rename(path, h->path) < 0)
		(void)unlink(path);
}

void history_load(struct history *h, const char *path)
{
	own_fd fd = -1;
	own_free char *buf = NULL;
	struct stat st;
	off_t from;
	char *first;
	ssize_t n;

	*h = (struct history){ 0 };
	if (path == NULL)
		return;
	make_directories(path);
	fd = open_file(path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	h->path = strdup(path);
	from = st.st_size > HISTORY_BYTES ? st.st_size - HISTORY_BYTES : 0;
	buf = malloc(HISTORY_BYTES);
	n = buf != NULL ? pread(fd, buf, HISTORY_BYTES, from) : -1;
	if (n <= 0)
		return;
	first = from > 0 ? memchr(buf, '\n', (size_t)n) : NULL; /* a whole one begins behind it */
	first = first != NULL ? first + 1 : buf;
	read_lines(h, first, (size_t)(buf + n - first));
	if (st.st_size > HISTORY_LONG && h->path != NULL)
		write_anew(h);
}

/* The end of the file is the place for it; what is not kept is no reason to stop. */
static void write_line(const char *path, const char *text)
{
	size_t n = 0;
	char *line = to_line(text, &n);
	own_fd fd = line != NULL ? open_file(path) : -1;

	if (fd >= 0)
		(void)io_write_all(fd, line, n);
	free(line);
}

void history_add(struct history *h, const char *text)
{
	size_t n = strlen(text);
	char *own;

	while (n > 0 && strchr(" \t\n", text[n - 1]) != NULL)
		n--;
	if (n == 0 ||
	    (h->n > 0 && strlen(h->v[h->n - 1]) == n && strncmp(h->v[h->n - 1], text, n) == 0))
		return;
	own = strndup(text, n);
	if (own != NULL && h->path != NULL && n <= HISTORY_ENTRY)
		write_line(h->path, own);
	keep(h, own);
}
