// SPDX-License-Identifier: Apache-2.0
/*
 * What a box shows of its environment: packages at one place, or a root in place of the machine's own.
 *
 * Whoever built it is not trusted: no name in it is followed out of it. What it says by links is said to programs of the box, which are in the box.
 */
#include "keeper/mountapi.h"
#include "keeper/steps.h"

#include "base/own.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { ENTRIES_MAX = 64 };

typedef DIR DIR_STREAM; /* a kind of row has its name */

enum root_kind { SHOW, DIR_, LINK, FILE_, WRITE, ALSO };
#define DIR  DIR_
#define FILE FILE_

static const struct {
	enum root_kind kind;
	const char *at;
} ours[] = {
#define ROOT(kind, at, what) { kind, at },
#include "policy/root.tbl"
#undef ROOT
};
#undef DIR
#undef FILE

enum image_how { EACH, OF, UNDER };

static const struct {
	enum image_how how;
	const char *at;
} image[] = {
#define IMAGE(how, at) { how, at },
#include "policy/root_image.tbl"
#undef IMAGE
};

bool env_is_root(const struct work *w)
{
	return w->s->env_tree_fd >= 0 && w->s->env_kind == ENV_ROOT;
}

static int open_in(const struct work *w, const char *path)
{
	return mnt_open(w->env_fd, path[0] != '\0' ? path : ".", O_PATH | O_DIRECTORY,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
}

/* --- packages --------------------------------------------------------------------------------- */

static int show_packages(struct work *w)
{
	static const char place[] = ENV_PLACE;

	/* Two names deep. */
	if (mkdirat(w->root_fd, "opt", 0755) < 0)
		return fail_at(w, place);
	return show_directory(w, w->env_fd, &place[1]);
}

/* --- a root ----------------------------------------------------------------------------------- */

/* Whether a name at the top is spoken for. */
static bool is_ours(const struct work *w, const char *name)
{
	size_t n = strlen(name);

	for (unsigned int i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (ours[i].kind == SHOW || (ours[i].kind == ALSO && !w->s->app))
			continue;
		if (strncmp(ours[i].at + 1, name, n) == 0 &&
		    (ours[i].at[1 + n] == '\0' || ours[i].at[1 + n] == '/'))
			return true;
	}
	return false;
}

static int show_link(struct work *w, int dir, const char *name)
{
	char to[PATH_MAX];
	ssize_t n = readlinkat(dir, name, to, sizeof(to) - 1);

	if (n < 0)
		return fail_at(w, name);
	to[n] = '\0';
	return symlinkat(to, w->root_fd, name) < 0 ? fail_at(w, name) : 0;
}

static int show_entry(struct work *w, int dir, const char *name)
{
	own_fd fd = -1;
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_at(w, name);
	if (S_ISLNK(st.st_mode))
		return show_link(w, dir, name);
	if (!S_ISDIR(st.st_mode))
		return 0; /* a file in the root itself: of an image's maker, for himself */
	fd = open_in(w, name);
	return fd < 0 ? fail_at(w, name) : show_directory(w, fd, name);
}

static int show_all(struct work *w, DIR_STREAM *d, int dir)
{
	const struct dirent *entry;
	int r = 0, n = 0;

	while (r == 0 && (entry = readdir(d)) != NULL) {
		const char *name = entry->d_name;

		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || is_ours(w, name))
			continue;
		if (n++ == ENTRIES_MAX) {
			errno = E2BIG;
			return fail_at(w, "/");
		}
		r = show_entry(w, dir, name);
	}
	return r;
}

static int show_each(struct work *w)
{
	int dir = openat(w->env_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;
	DIR_STREAM *d = dir < 0 ? NULL : fdopendir(dir);

	if (d == NULL)
		return fail_at(w, "/");
	r = show_all(w, d, dir);
	(void)closedir(d);
	return r;
}

/* A directory of the root that the environment has, too. */
static int show_part(struct work *w, enum image_how how, const char *at)
{
	own_fd fd = open_in(w, at);

	if (fd < 0) /* it has none, or no directory: nothing to show */
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? 0 : fail_at(w, at);
	return how == UNDER ? show_under(w, fd, at) : show_directory(w, fd, at);
}

static int show_root(struct work *w)
{
	int r = 0;

	for (unsigned int i = 0; i < sizeof(image) / sizeof(image[0]) && r == 0; i++)
		r = image[i].how == EACH ? show_each(w)
					 : show_part(w, image[i].how, image[i].at + 1);
	return r;
}

/* --- both ------------------------------------------------------------------------------------- */

static const char held_at[] = ".environment";

/* At a place of the box's root: overlays do not take what is nowhere. */
static int hold(struct work *w)
{
	if (mkdirat(w->root_fd, held_at, 0700) < 0 ||
	    mnt_place(w->s->env_tree_fd, w->root_fd, held_at) < 0)
		return fail_at(w, held_at);
	w->env_fd = openat(w->root_fd, held_at, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return w->env_fd < 0 ? fail_at(w, held_at) : 0;
}

/* Nothing of it is to be seen but by overlays, not even where it lies on the host. */
static int let_go(struct work *w)
{
	char path[64];

	fd_close(&w->env_fd);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", w->root_fd, held_at);
	if (umount2(path, MNT_DETACH_) < 0 || unlinkat(w->root_fd, held_at, AT_REMOVEDIR) < 0)
		return fail_at(w, held_at);
	return 0;
}

int step_environment(struct work *w)
{
	int r;

	if (w->s->env_tree_fd < 0)
		return 0;
	r = hold(w);
	if (r == 0)
		r = env_is_root(w) ? show_root(w) : show_packages(w);
	if (r == 0)
		r = let_go(w);
	fd_close(&w->s->env_tree_fd);
	return r;
}
