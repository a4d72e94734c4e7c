// SPDX-License-Identifier: Apache-2.0
#include "archive/stage.h"

#include "archive/walk.h"

#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

enum {
	DIR_PATH = O_PATH | O_DIRECTORY | O_CLOEXEC,
	NAMES = 10, /* to try for a staging directory: other boxes may have the same numbers */
	REMOVE_STEPS = 10000000, /* somebody may put in as fast as we take out */
};

/* --- the target ----------------------------------------------------------------------------------- */

/* As the user could: links in it are followed. */
static int open_target(struct stage *s)
{
	own_fd dir = open(s->path[0] == '/' ? "/" : ".", DIR_PATH);
	const char *path = s->path;

	while (dir >= 0) {
		size_t n;
		char name[NAME_MAX + 1];
		int next;

		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 0) {
			s->target = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			return s->target < 0 ? -errno : 0;
		}
		if (n > NAME_MAX)
			return -ENAMETOOLONG;
		(void)memcpy(name, path, n);
		name[n] = '\0';
		path += n;
		if (mkdirat(dir, name, 0755) == 0)
			s->made++;
		next = openat(dir, name, DIR_PATH);
		fd_close(&dir);
		dir = next;
	}
	return -errno;
}

/* From the last part up, as many as were made, and only what is empty. Behind those may be some that could not be made. */
static void unmake_target(const struct stage *s)
{
	char path[PATH_MAX];
	size_t n = strnlen(s->path, sizeof(path) - 1);
	unsigned int left = s->made;

	(void)memcpy(path, s->path, n);
	while (left > 0) {
		while (n > 0 && path[n - 1] == '/')
			n--;
		path[n] = '\0';
		if (n == 0)
			return;
		if (rmdir(path) == 0)
			left--;
		else if (left < s->made || (errno != ENOENT && errno != ENAMETOOLONG))
			return;
		while (n > 0 && path[n - 1] != '/')
			n--;
	}
}

/* --- removing ------------------------------------------------------------------------------------- */

/* What an archive has may not be writable, nor even be entered, until it is. */
static int enter_own(struct walk *w)
{
	int r = walk_enter(w);

	if (r == -EACCES && fchmodat(w->dir, w->name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
		r = walk_enter(w);
	if (r == 0)
		(void)fchmod(w->dir, 0700);
	return r;
}

static int empty(int dir)
{
	static struct walk w;
	int event, r = walk_begin(&w, dir, true);

	for (unsigned int i = 0; r == 0 && i < REMOVE_STEPS; i++) {
		event = walk_next(&w);
		if (event == WALK_END)
			break;
		if (event == WALK_LEFT) {
			/* Not empty: somebody puts things in. It comes again. */
			if (unlinkat(w.dir, w.name, AT_REMOVEDIR) < 0 && errno != ENOTEMPTY &&
			    errno != ENOENT && errno != ENOTDIR)
				r = -errno;
		} else if (unlinkat(w.dir, w.name, 0) < 0 && errno != ENOENT) {
			r = errno == EISDIR ? enter_own(&w) : -errno;
		}
	}
	walk_end(&w);
	return r;
}

static void remove_stage(int target, const char *name, int dir)
{
	(void)fchmod(dir, 0700);
	if (empty(dir) == 0)
		(void)unlinkat(target, name, AT_REMOVEDIR);
}

/* --- making --------------------------------------------------------------------------------------- */

/* The process that a name is of, 0 for a name that is not of this kind: ".glovebox-unpack-12", or "…-12-3". */
static pid_t pid_of(const char *name)
{
	static const char decimal[] = "0123456789";
	char digits[16];
	uint64_t pid;
	size_t n, more;

	if (!is_staging_name(name))
		return 0;
	name += sizeof(STAGING_PREFIX) - 1;
	n = strspn(name, decimal);
	if (n == 0 || n >= sizeof(digits) || (name[n] != '\0' && name[n] != '-'))
		return 0;
	more = name[n] == '-' ? strspn(name + n + 1, decimal) : 0;
	if (name[n] == '-' && (more == 0 || name[n + 1 + more] != '\0'))
		return 0;
	(void)memcpy(digits, name, n);
	digits[n] = '\0';
	return str_to_u64(digits, INT_MAX, &pid) == 0 ? (pid_t)pid : 0;
}

/* Opened and locked, or -1: it is somebody's. */
static int take_stale(int target, const char *name)
{
	own_fd dir = -1;
	pid_t pid = pid_of(name);

	if (pid <= 0 || (pid != getpid() && (kill(pid, 0) == 0 || errno != ESRCH)))
		return -1;
	dir = openat(target, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0 ? fd_take(&dir) : -1;
}

static void remove_stale(const struct stage *s)
{
	static struct walk w;

	if (walk_begin(&w, s->target, false) < 0)
		return;
	while (walk_next(&w) == WALK_NAME) {
		own_fd dir = take_stale(s->target, w.name);

		if (dir >= 0)
			remove_stage(s->target, w.name, dir);
	}
	walk_end(&w);
}

static int make_stage(struct stage *s)
{
	for (int i = 0; i < NAMES; i++) {
		int n = snprintf(s->name, sizeof(s->name), STAGING_PREFIX "%d", (int)getpid());

		if (i > 0)
			(void)snprintf(s->name + n, sizeof(s->name) - (size_t)n, "-%d", i);
		if (mkdirat(s->target, s->name, 0700) == 0) {
			s->dir = openat(s->target, s->name,
					O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			return s->dir < 0 || flock(s->dir, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
		}
		if (errno != EEXIST)
			return -errno;
	}
	return -EBUSY;
}

/* Without a name: nobody else's, and gone with us. */
static int open_notes(struct stage *s)
{
	static const char name[] = "notes";

	s->notes = openat(s->dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (s->notes < 0) {
		s->notes = openat(s->dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				  0600);
		(void)unlinkat(s->dir, name, 0);
	}
	return s->notes < 0 ? -errno : 0;
}

int stage_begin(struct stage *s, const char *path, struct fault *f)
{
	char text[SHOWN_MAX];
	int r;

	*s = (struct stage){ .path = path, .target = -1, .dir = -1, .notes = -1 };
	reach_init(&s->reach, -1, true);
	r = open_target(s);
	if (r == 0) {
		remove_stale(s);
		r = make_stage(s);
	}
	s->reach.root = s->dir;
	if (r == 0)
		r = open_notes(s);
	if (r == 0)
		return 0;
	stage_end(s, false);
	return fault_set(f, -r, "'%s': %s", shown(path, text), strerror(-r));
}

void stage_end(struct stage *s, bool done)
{
	reach_done(&s->reach);
	fd_close(&s->notes);
	if (s->dir >= 0)
		remove_stage(s->target, s->name, s->dir);
	fd_close(&s->dir);
	fd_close(&s->target);
	if (!done)
		unmake_target(s);
}

/* --- below it ------------------------------------------------------------------------------------- */

int stage_parent(struct stage *s, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');

	*ret_name = slash != NULL ? slash + 1 : path;
	return reach_dir(&s->reach, path, slash != NULL ? (size_t)(slash - path) : 0);
}
