// SPDX-License-Identifier: Apache-2.0
/*
 * A path that stays below the working directory, whatever links there are on its way (JOB_BENEATH).
 *
 * Each name is opened by itself, and no link is followed by the kernel: what a link says takes the place of its name, unless it leads out. A
 * directory that is open stays the one it was, so whoever changes names meanwhile gains nothing. openat2(2) could do the same; user
 * processes, of which this is one, do not have it.
 */
#include "box/files.h"

#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINKS_MAX = 40, DIRECTORY = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

struct way {
	int dir;         /* where it has come to */
	struct stat top; /* what it must not leave */
	char *rest;      /* what is left of it */
	unsigned int links;
};

/* A component off the front of the rest; "" at its end. */
static int next_name(struct way *w, char name[NAME_MAX + 1])
{
	char *from = w->rest + strspn(w->rest, "/");
	size_t n = strcspn(from, "/");

	if (n > NAME_MAX)
		return ENAMETOOLONG;
	(void)memcpy(name, from, n);
	name[n] = '\0';
	w->rest = from + n + strspn(from + n, "/");
	return 0;
}

static int go_down(struct way *w, const char *name)
{
	int next = openat(w->dir, name, DIRECTORY);

	if (next < 0)
		return errno;
	fd_close(&w->dir);
	w->dir = next;
	return 0;
}

static int go_up(struct way *w)
{
	struct stat st;

	if (fstat(w->dir, &st) < 0)
		return errno;
	if (st.st_dev == w->top.st_dev && st.st_ino == w->top.st_ino)
		return EXDEV;
	return go_down(w, "..");
}

/* What of an absolute path is below the working directory, as that is called; NULL: it is elsewhere. */
static const char *below_here(const char *path)
{
	char here[PATH_MAX];
	size_t n = getcwd(here, sizeof(here)) != NULL ? strlen(here) : 0;

	if (n == 0 || strncmp(path, here, n) != 0 || (path[n] != '/' && path[n] != '\0'))
		return NULL;
	return path + n;
}

/* To the beginning. */
static int go_back(struct way *w)
{
	int top = open(".", DIRECTORY);

	if (top < 0)
		return errno;
	fd_close(&w->dir);
	w->dir = top;
	return 0;
}

/* If it is a link, what it says stands in front of the rest then. 0, ENOENT, an error; EINVAL: it is none. */
static int take_link(struct way *w, const char *name)
{
	static char texts[2][2 * PATH_MAX]; /* the rest is in one of them: the other is free */
	char target[PATH_MAX], *to = texts[w->links % 2];
	ssize_t n = readlinkat(w->dir, name, target, sizeof(target) - 1);
	const char *says = target;

	if (n < 0)
		return errno;
	target[n] = '\0';
	if (target[0] == '/')
		says = below_here(target);
	if (says == NULL)
		return EXDEV;
	if (++w->links > LINKS_MAX)
		return ELOOP;
	if (strlen(says) + strlen(w->rest) + 2 > PATH_MAX)
		return ENAMETOOLONG;
	(void)snprintf(to, sizeof(texts[0]), "%s/%s", says, w->rest);
	w->rest = to;
	return target[0] == '/' ? go_back(w) : 0;
}

/* What a component is: where the way goes on, or its end. 0, an error; -1: `name` is its last, and is in w->dir. */
static int step(struct way *w, char name[NAME_MAX + 1], enum beneath_last last)
{
	bool is_last;
	int r = next_name(w, name);

	if (r != 0)
		return r;
	if (name[0] == '\0') {
		(void)memcpy(name, ".", 2);
		return -1;
	}
	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0)
		return go_up(w);
	is_last = w->rest[0] == '\0';
	if (is_last && last == BENEATH_NAME)
		return -1;
	r = take_link(w, name);
	if (r != EINVAL)
		return r == ENOENT && last == BENEATH_NAME ? -1 : r;
	return is_last && last == BENEATH_FILE ? -1 : go_down(w, name);
}

int beneath_enter(const char *path, enum beneath_last last, char out[PATH_MAX])
{
	char name[NAME_MAX + 1] = "", text[PATH_MAX] = "";
	struct way w = { .dir = open(".", DIRECTORY), .rest = text };
	int r = 0;

	if (w.dir < 0 || fstat(w.dir, &w.top) < 0)
		r = errno;
	else if (path[0] == '/')
		r = EXDEV;
	else if ((size_t)snprintf(text, sizeof(text), "%s", path) >= sizeof(text))
		r = ENAMETOOLONG;
	while (r == 0)
		r = step(&w, name, last);
	if (r < 0)
		r = fchdir(w.dir) < 0 ? errno : 0;
	fd_close(&w.dir);
	if (r != 0)
		return r;
	if (w.rest[0] == '\0') {
		(void)memcpy(out, name, strlen(name) + 1);
		return 0;
	}
	/* Behind a name that is not there nothing is, and no link; but the rest may be a link's. */
	if ((size_t)snprintf(out, PATH_MAX, "%s/%s", name, w.rest) >= PATH_MAX)
		return ENAMETOOLONG;
	return path_is_below(out) ? 0 : EXDEV;
}
