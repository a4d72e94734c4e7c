// SPDX-License-Identifier: Apache-2.0
#include "archive/place.h"

#include "archive/copy.h"
#include "archive/walk.h"

#include "base/own.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Another process may put back what we move: that is its affair, but not forever. */
enum { MOVE_STEPS = 10000000 };

struct place {
	struct walk walk; /* through what was unpacked */
	int to;
	int there; /* the directory of the target that is like walk.dir */
	struct {
		struct dir_id above; /* what `there` was before */
		bool made;           /* the one that was entered is new */
		mode_t mode;         /* that it is to have then */
	} level[WALK_DEPTH];
	bool moved, cannot_move; /* something was; nothing can be */
	struct fault *fault;
};

/* One of the ways through it. */
struct way {
	bool drain;
	int (*name)(struct place *p);
	int (*left)(struct place *p); /* a directory of that name */
};

static int fail(const struct place *p, int error, const char *why)
{
	char path[PATH_MAX], text[SHOWN_MAX];

	if (!walk_path(&p->walk, path))
		path[0] = '\0';
	return fault_set(p->fault, error, "'%s': %s", shown(path, text), why);
}

static int fail_sys(const struct place *p, int error)
{
	return fail(p, error, strerror(error));
}

enum { THERE = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static int take_there(struct place *p, int fd)
{
	fd_close(&p->there);
	p->there = fd;
	return fd < 0 ? fail_sys(p, -fd) : 0;
}

/* What was unpacked and what is there: whether they are two directories. -1: one is, and the other is not. */
static int is_merged(const struct place *p, struct stat *ours)
{
	struct stat theirs;

	if (fstatat(p->walk.dir, p->walk.name, ours, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_sys(p, errno);
	if (fstatat(p->there, p->walk.name, &theirs, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail_sys(p, errno);
	if (S_ISDIR(ours->st_mode) && !S_ISDIR(theirs.st_mode))
		return fail(p, ENOTDIR, "a directory of the archive, and something else is there");
	if (!S_ISDIR(ours->st_mode) && S_ISDIR(theirs.st_mode))
		return fail(p, EISDIR, "no directory in the archive, and one is there");
	if (S_ISDIR(ours->st_mode) && ours->st_dev != theirs.st_dev)
		return fail(p, EXDEV, "another file system is there");
	return S_ISDIR(ours->st_mode);
}

/* Both go into the directory. Nobody sees the mode of ours: that of the one which is there stays. */
static int enter(struct place *p, const struct stat *ours, bool made)
{
	struct dir_id above = dir_id(p->there);
	int r;

	if ((ours->st_mode & 0700) != 0700 &&
	    fchmodat(p->walk.dir, p->walk.name, 0700, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_sys(p, errno);
	r = walk_enter(&p->walk);
	if (r < 0)
		return fail_sys(p, -r);
	p->level[p->walk.depth - 1].above = above;
	p->level[p->walk.depth - 1].made = made;
	p->level[p->walk.depth - 1].mode = ours->st_mode & 0777;
	r = openat(p->there, p->walk.name, THERE);
	return take_there(p, r < 0 ? -errno : r);
}

/* The walk has left one: so does the other side. */
static int leave(struct place *p)
{
	return take_there(
		p, beneath_up(p->there, p->level[p->walk.depth].above, p->to, p->walk.path, THERE));
}

static int check_one(struct place *p)
{
	struct stat ours;
	int merged = is_merged(p, &ours);

	if (merged <= 0)
		return merged;
	if (faccessat(p->there, p->walk.name, W_OK | X_OK, AT_EACCESS) < 0)
		return fail_sys(p, errno);
	return enter(p, &ours, false);
}

static int left_nothing(struct place *p)
{
	(void)p;
	return 0;
}

/* --- by moving ------------------------------------------------------------------------------------ */

/* A directory that changes its place must be writable: its ".." changes. */
static int move_one(struct place *p)
{
	const struct walk *w = &p->walk;
	struct stat ours;
	int merged = is_merged(p, &ours);
	bool locked;

	if (merged != 0)
		return merged < 0 ? -1 : enter(p, &ours, false);
	locked = S_ISDIR(ours.st_mode) && (ours.st_mode & 0200) == 0;
	if (locked && fchmodat(w->dir, w->name, ours.st_mode | 0200, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_sys(p, errno);
	if (renameat(w->dir, w->name, p->there, w->name) < 0) {
		p->cannot_move = errno == EXDEV && !p->moved;
		return p->cannot_move ? -1 : fail_sys(p, errno);
	}
	p->moved = true;
	if (locked && fchmodat(p->there, w->name, ours.st_mode & 0777, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_sys(p, errno);
	return 0;
}

static int left_empty(struct place *p)
{
	return unlinkat(p->walk.dir, p->walk.name, AT_REMOVEDIR) < 0 ? fail_sys(p, errno) : 0;
}

/* --- by copying ----------------------------------------------------------------------------------- */

/* Under a name that nobody is shown, which then takes the place of what is there. */
static int copy_name(struct place *p)
{
	const struct walk *w = &p->walk;
	struct stat ours;
	int merged = is_merged(p, &ours), r;
	char temp[64];

	if (merged != 0)
		return merged < 0 ? -1 : enter(p, &ours, false);
	if (S_ISDIR(ours.st_mode))
		return mkdirat(p->there, w->name, 0700) < 0 ? fail_sys(p, errno)
							    : enter(p, &ours, true);
	(void)snprintf(temp, sizeof(temp), STAGING_PREFIX "%d-copy", (int)getpid());
	(void)unlinkat(p->there, temp, 0);
	r = copy_one(w->dir, w->name, &ours, p->there, temp);
	if (r == 0 && renameat(p->there, temp, p->there, w->name) < 0) {
		r = -errno;
		(void)unlinkat(p->there, temp, 0);
	}
	return r < 0 ? fail_sys(p, -r) : 0;
}

static int left_copied(struct place *p)
{
	const struct walk *w = &p->walk;
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT } };
	struct stat ours;

	if (!p->level[w->depth].made)
		return 0;
	if (fstatat(w->dir, w->name, &ours, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_sys(p, errno);
	times[1] = ours.st_mtim;
	if (utimensat(p->there, w->name, times, AT_SYMLINK_NOFOLLOW) < 0 ||
	    fchmodat(p->there, w->name, p->level[w->depth].mode, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_sys(p, errno);
	return 0;
}

/* -------------------------------------------------------------------------------------------------- */

static int go(struct place *p, int from, const struct way *way)
{
	unsigned int steps = 0;
	int event, r = walk_begin(&p->walk, from, way->drain);

	if (r < 0)
		return fault_set(p->fault, -r, "what was unpacked: %s", strerror(-r));
	r = take_there(p, beneath_open(p->to, "", THERE));
	while (r == 0 && (event = walk_next(&p->walk)) != WALK_END) {
		if (++steps > MOVE_STEPS) {
			r = fail_sys(p, ELOOP);
		} else if (event == WALK_NAME) {
			r = way->name(p);
		} else {
			r = leave(p);
			if (r == 0)
				r = way->left(p);
		}
	}
	fd_close(&p->there);
	walk_end(&p->walk);
	return r;
}

static struct place place;

int place_check(int from, int to, struct fault *f)
{
	static const struct way check = { false, check_one, left_nothing };

	place.to = to;
	place.there = -1;
	place.fault = f;
	return go(&place, from, &check);
}

int place_move(int from, int to, struct fault *f)
{
	static const struct way move = { true, move_one, left_empty },
				copy = { false, copy_name, left_copied };
	int r;

	place.to = to;
	place.there = -1;
	place.fault = f;
	place.moved = place.cannot_move = false;
	r = go(&place, from, &move);
	return r < 0 && place.cannot_move ? go(&place, from, &copy) : r;
}
