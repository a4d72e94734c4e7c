// SPDX-License-Identifier: Apache-2.0
/*
 * What changes below a directory, by inotify(7), which knows directories one by one.
 *
 * A directory is watched first and looked through then, so that nothing is missed in between. What a new one has by then is told as
 * made; and if an event tells of it again, because it was made after the watch and before the look, that one is left out: those
 * events are in the queue when the look is over.
 *
 * Both halves of a move come one behind the other. If the second is not there the queue is given a moment to have it; then the
 * file has gone elsewhere, and is told as deleted. A directory that has moved is looked through again: what was made in it
 * while it had two names could not be found by either.
 *
 * Names change faster than we hear of it, so that a path may lead to a directory that is not the one an event was about. An open
 * directory is what it is: its watch descriptor is asked for by its descriptor, and tells which one of those that we know it is,
 * if any. What is not where we think it is has an event in the queue that will tell.
 *
 * No descriptor is kept, as that would keep the end of a directory from being told.
 */
#include "box/files.h"

#include "base/io.h"
#include "wire/fileop.h"
#include "wire/watch.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define CHANGES                                                                             \
	(IN_CREATE | IN_CLOSE_WRITE | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | \
	 IN_EXCL_UNLINK | IN_ONLYDIR)

enum {
	PAIR_MS = 20,
	TOLD_MAX = 8192, /* a power of two */
};

struct event {
	int wd;
	uint32_t mask, cookie;
	char name[NAME_MAX + 1]; /* "": the directory itself */
};

struct watcher {
	int fd, top;
	int start;        /* where the job is */
	const char *path; /* of the top, from there */
	bool recursive;
	bool ready; /* until then nobody wants to know */
	struct watched_dirs dirs;
	int trouble; /* why it cannot go on */

	_Alignas(struct inotify_event) uint8_t in[65536];
	size_t in_at, in_len;
	uint64_t taken; /* bytes of events ever read */

	uint64_t told[TOLD_MAX]; /* hashes of what a look has told; 0: free */
	size_t ntold;
	uint64_t told_until; /* behind so many bytes of events nothing of it can come again */

	struct event moved_from, moved_to; /* by the last event; wd 0: it was another one */

	struct watch_record record;
	uint8_t out[65536];
	size_t out_len;
};

static struct watcher the_watcher; /* large: zeroed pages, not bytes of the program */

/* --- telling --------------------------------------------------------------------------------- */

static void flush(struct watcher *w)
{
	int r = io_write_all(STDOUT_FILENO, w->out, w->out_len);

	w->out_len = 0;
	if (r < 0)
		w->trouble = -r;
}

static void put_record(struct watcher *w)
{
	ptrdiff_t n;

	if (!w->ready)
		return;
	n = watch_encode(&w->record, w->out + w->out_len, sizeof(w->out) - w->out_len);
	if (n < 0) { /* full; and one alone has room */
		flush(w);
		n = watch_encode(&w->record, w->out, sizeof(w->out));
	}
	w->out_len += n > 0 ? (size_t)n : 0;
}

static void say(struct watcher *w, enum watched what)
{
	w->record.what = what;
	w->record.is_directory = false;
	w->record.path[0] = w->record.to[0] = '\0';
	put_record(w);
}

/* A name in a watched directory. One whose path is too long for a record is told as something that could not be. */
static void tell(struct watcher *w, enum watched what, bool is_directory, int wd, const char *name)
{
	w->record.what = what;
	w->record.is_directory = is_directory;
	w->record.to[0] = '\0';
	if (dirs_path(&w->dirs, wd, name, w->record.path))
		put_record(w);
	else if (dirs_find(&w->dirs, wd) != NULL)
		say(w, WATCHED_OVERFLOW);
}

/* --- what was told before its event came ------------------------------------------------------- */

static uint64_t hash(int wd, const char *name)
{
	/* Multiplied first, or names of one letter would make up for the number. */
	uint64_t h = (0xcbf29ce484222325u ^ (unsigned int)wd) * 0x9e3779b97f4a7c15u;

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	return h | 1; /* never 0 */
}

/* The place of a hash, or the free one where it belongs. */
static uint64_t *told_at(struct watcher *w, uint64_t h)
{
	size_t i = (h >> 20) % TOLD_MAX;

	while (w->told[i] != 0 && w->told[i] != h)
		i = (i + 1) % TOLD_MAX;
	return &w->told[i];
}

/* With more than there is room for some may be told twice. */
static void told_add(struct watcher *w, int wd, const char *name)
{
	uint64_t h = hash(wd, name);

	if (w->ntold >= TOLD_MAX / 2)
		return;
	w->ntold++;
	*told_at(w, h) = h;
}

/* Its event has come: another one is news. The place stays taken, by a hash that nothing has. */
static bool told_take(struct watcher *w, int wd, const char *name)
{
	uint64_t *at;

	if (w->ntold == 0)
		return false;
	at = told_at(w, hash(wd, name));
	if (*at == 0)
		return false;
	*at = 2;
	return true;
}

/* Whether something is known that was found by a look before its event came. */
static bool is_ahead(const struct watcher *w)
{
	return w->taken - (w->in_len - w->in_at) < w->told_until;
}

static void told_expire(struct watcher *w)
{
	if (w->ntold == 0 || is_ahead(w))
		return;
	(void)memset(w->told, 0, sizeof(w->told));
	w->ntold = 0;
}

/* --- directories ------------------------------------------------------------------------------ */

/* From where the job is. False: it is too long. */
static bool whole_path(const struct watcher *w, const char *below, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%s/%s", w->path, below);

	return n > 0 && n < PATH_MAX;
}

/* Of an open directory. 0: it cannot be watched. Whoever does not keep it calls unwatch(). */
static int watch_fd(struct watcher *w, int fd)
{
	int wd = fchdir(fd) == 0 ? inotify_add_watch(w->fd, ".", CHANGES | IN_MASK_ADD) : -1;

	if (wd < 0 && (errno == ENOSPC || errno == ENOMEM))
		w->trouble = errno;
	if (fchdir(w->start) < 0)
		w->trouble = errno;
	return wd < 0 ? 0 : wd;
}

static void unwatch(struct watcher *w, int wd)
{
	if (wd != 0 && dirs_find(&w->dirs, wd) == NULL)
		(void)inotify_rm_watch(w->fd, wd);
}

/* A watched directory, if it is where we think it is. */
static int open_watched(struct watcher *w, int wd)
{
	const struct watched_dir *d = dirs_find(&w->dirs, wd);
	char below[PATH_MAX] = "", path[PATH_MAX];
	own_fd fd = -1;
	int found;

	errno = ENAMETOOLONG;
	if (d == NULL || (d->name != NULL && !dirs_path(&w->dirs, d->parent, d->name, below)) ||
	    !whole_path(w, below, path))
		return -1;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	found = watch_fd(w, fd);
	unwatch(w, found);
	errno = ENOENT;
	return found == wd ? fd_take(&fd) : -1;
}

/* What is now in a watched directory under this name. */
static int open_in(struct watcher *w, int parent, const char *name)
{
	own_fd above = open_watched(w, parent);

	return above < 0 ? -1
			 : openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_at(struct watcher *w, int wd, int parent, const char *name)
{
	own_fd fd = open_in(w, parent, name);
	int found = fd >= 0 ? watch_fd(w, fd) : 0;

	unwatch(w, found);
	return found == wd;
}

static bool is_named(const struct watched_dir *d, int parent, const char *name)
{
	return d->name != NULL && d->parent == parent && strcmp(d->name, name) == 0;
}

/*
 * An open directory that has this name in a watched one. Its watch descriptor; 0: it is left alone. first: we know none of that
 * name. *ret_fresh: what is in it has to be told.
 */
static int take_in(struct watcher *w, int fd, int parent, const char *name, bool first,
		   bool *ret_fresh)
{
	int wd = watch_fd(w, fd);
	const struct watched_dir *known = wd != 0 ? dirs_find(&w->dirs, wd) : NULL;

	*ret_fresh = known == NULL || !is_named(known, parent, name);
	if (wd == 0 || !*ret_fresh)
		return wd;
	if (wd == w->top || (!first && dirs_child(&w->dirs, parent, name) != NULL)) {
		unwatch(w,
			wd); /* that it has made way for this one is yet to be heard, and so is this one */
		return 0;
	}
	if (known != NULL) { /* it was elsewhere; what is heard of that goes by its name there */
		tell(w, WATCHED_DELETE, true, known->parent, known->name);
		dirs_drop(&w->dirs, wd, w->fd);
		wd = watch_fd(w, fd);
	}
	if (wd != 0 && dirs_put(&w->dirs, wd, parent, name) < 0) {
		w->trouble = ENOSPC;
		wd = 0;
	}
	return wd;
}

static bool is_directory(const struct walk *walk, const char *name, unsigned char type)
{
	struct stat st;

	if (type != DT_UNKNOWN)
		return type == DT_DIR;
	return fstatat(walk_here(walk)->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

/* Where a look is: its level knows the watch descriptor (tag), and whether that is new (flag). */
static void enter(const struct walk *walk, int wd, bool fresh)
{
	struct level *here = walk_here(walk);

	here->tag = wd;
	here->flag = fresh;
}

/* It is not there any more, is none, or is not for us to see. Else it was missed. */
static bool is_nothing(int error)
{
	return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES;
}

static void look_down(struct watcher *w, struct walk *walk, const char *name, bool first)
{
	own_fd fd = walk_open(walk, name);
	bool missed = fd < 0 && !is_nothing(errno), fresh;
	int wd = fd >= 0 ? take_in(w, fd, walk_here(walk)->tag, name, first, &fresh) : 0;

	if (wd != 0 && walk_enter(walk, &fd, name) == 0)
		enter(walk, wd, fresh);
	else if (wd != 0 || missed)
		say(w, WATCHED_OVERFLOW);
}

static void look_at(struct watcher *w, struct walk *walk, bool tells)
{
	unsigned char type;
	const char *name = walk_next(walk, &type);
	const struct level *here = walk_here(walk);
	bool directory;

	if (name == NULL) {
		if (walk_up(walk) != 0) /* there was more to see on the way */
			say(w, WATCHED_OVERFLOW);
		return;
	}
	if (name_is_hidden(name))
		return;
	directory = is_directory(walk, name, type);
	if (tells && here->flag) {
		tell(w, WATCHED_CREATE, directory, here->tag, name);
		told_add(w, here->tag, name);
	}
	if (directory)
		look_down(w, walk, name, here->flag || !tells);
}

/* Through a directory that is watched; those below it are watched from then on, too. */
static void look_through(struct watcher *w, int *fd, int wd, bool fresh, bool tells)
{
	struct walk walk = { 0 };
	int queued = 0;

	if (walk_enter(&walk, fd, NULL) != 0) {
		say(w, WATCHED_OVERFLOW);
		return;
	}
	enter(&walk, wd, fresh);
	while (walk.n > 0 && w->trouble == 0)
		look_at(w, &walk, tells);
	walk_end(&walk);
	if (ioctl(w->fd, FIONREAD, &queued) == 0 && queued >= 0)
		w->told_until = w->taken + (uint64_t)queued;
}

/* Something above the top may have moved: then no path leads there any more, and nothing new could be found. */
static bool top_is_there(struct watcher *w)
{
	own_fd fd = open_watched(w, w->top);

	return fd >= 0;
}

/* A directory has this name now. */
static void new_directory(struct watcher *w, int parent, const char *name)
{
	own_fd fd = w->recursive ? open_in(w, parent, name) : -1;
	bool missed = fd < 0 && !is_nothing(errno), fresh;
	int wd = fd >= 0 ? take_in(w, fd, parent, name, /* first= */ false, &fresh) : 0;

	if (wd != 0)
		look_through(w, &fd, wd, fresh, /* tells= */ true);
	else if (w->recursive && fd < 0 && !top_is_there(w))
		w->trouble = ENOENT;
	else if (w->recursive && missed)
		say(w, WATCHED_OVERFLOW);
}

/* At the beginning, and after that nothing is known. */
static void look_at_all(struct watcher *w)
{
	own_fd fd = w->recursive ? open_watched(w, w->top) : -1;

	dirs_keep(&w->dirs, w->top, w->fd);
	if (fd >= 0)
		look_through(w, &fd, w->top, /* fresh= */ false, /* tells= */ false);
}

/* --- events ------------------------------------------------------------------------------------ */

static void take_event(const struct inotify_event *e, struct event *ret)
{
	*ret = (struct event){ .wd = e->wd, .mask = e->mask, .cookie = e->cookie };
	if (e->len > 0)
		(void)snprintf(ret->name, sizeof(ret->name), "%s", e->name);
}

/* When all that was read has been seen. */
static void read_events(struct watcher *w)
{
	ssize_t n = read(w->fd, w->in, sizeof(w->in));

	w->in_at = w->in_len = 0;
	if (n > 0) {
		w->in_len = (size_t)n;
		w->taken += (uint64_t)n;
	} else if (n == 0 || errno != EINTR) {
		w->trouble = n == 0 ? EIO : errno;
	}
}

static bool find_half(struct watcher *w, uint32_t cookie, struct event *ret)
{
	for (size_t at = w->in_at; at < w->in_len;) {
		struct inotify_event *e = (void *)(w->in + at);

		if ((e->mask & IN_MOVED_TO) != 0 && e->cookie == cookie) {
			take_event(e, ret);
			e->mask = 0; /* it has been seen */
			return true;
		}
		at += sizeof(*e) + e->len;
	}
	return false;
}

/* Where a file has moved to. False: out of what is watched. */
static bool second_half(struct watcher *w, uint32_t cookie, struct event *ret)
{
	struct pollfd p = { .fd = w->fd, .events = POLLIN };

	if (w->in_at == w->in_len && poll(&p, 1, PAIR_MS) > 0)
		read_events(w);
	return find_half(w, cookie, ret) && dirs_find(&w->dirs, ret->wd) != NULL;
}

static void tell_move(struct watcher *w, bool directory, const struct event *from,
		      const struct event *to)
{
	w->record.what = WATCHED_MOVE;
	w->record.is_directory = directory;
	if (dirs_path(&w->dirs, from->wd, from->name, w->record.path) &&
	    dirs_path(&w->dirs, to->wd, to->name, w->record.to))
		put_record(w);
	else
		say(w, WATCHED_OVERFLOW);
}

/* A directory has come to where we know another one. Of one that was empty the end is yet to be heard; one that was not has changed
 * places with it. */
static bool make_way(struct watcher *w, const struct event *to)
{
	const struct watched_dir *d =
		(to->mask & IN_ISDIR) != 0 ? dirs_child(&w->dirs, to->wd, to->name) : NULL;

	if (d == NULL || is_at(w, d->wd, to->wd, to->name))
		return false;
	dirs_drop(&w->dirs, d->wd, w->fd);
	tell(w, WATCHED_DELETE, true, to->wd, to->name);
	return true;
}

static void on_here(struct watcher *w, const struct event *e)
{
	bool directory = (e->mask & IN_ISDIR) != 0;
	bool was_told = told_take(w, e->wd, e->name);

	if (name_is_hidden(e->name))
		return;
	if (((e->mask & IN_MOVED_TO) != 0 && make_way(w, e)) || !was_told)
		tell(w, WATCHED_CREATE, directory, e->wd, e->name);
	if (directory)
		new_directory(w, e->wd, e->name);
}

/* The directory that we know by the name of an event. It may be younger than that, whatever had the name then. */
static const struct watched_dir *known_by(struct watcher *w, const struct event *e)
{
	return (e->mask & IN_ISDIR) != 0 || is_ahead(w) ? dirs_child(&w->dirs, e->wd, e->name)
							: NULL;
}

/* Of a younger one its own event is to come, and what is in it has to be told again behind this. */
static void on_gone(struct watcher *w, const struct event *e)
{
	bool directory = (e->mask & IN_ISDIR) != 0;
	const struct watched_dir *d = known_by(w, e);

	if (d != NULL)
		dirs_drop(&w->dirs, d->wd, w->fd);
	(void)told_take(w, e->wd, e->name);
	if (!name_is_hidden(e->name))
		tell(w, WATCHED_DELETE, directory, e->wd, e->name);
}

/* A hidden name that becomes another one: a file has been replaced by a `write`. */
static void on_replaced(struct watcher *w, const struct event *to)
{
	if (!name_is_hidden(to->name))
		tell(w, WATCHED_MODIFY, false, to->wd, to->name);
}

/* The directory that we know by a name is not the one that had it when something of that name was moved. */
static void on_moved_before(struct watcher *w, int wd, const struct event *from,
			    const struct event *to)
{
	if (!is_at(w, wd, from->wd, from->name))
		on_gone(w, from); /* it has moved on: who knows where it was meanwhile */
	on_here(w, to);
}

/* *ret_wd: the directory, 0: it is none that we know. False: it is not there. */
static bool find_moved(struct watcher *w, const struct event *from, const struct event *to,
		       int *ret_wd)
{
	const struct watched_dir *d =
		(from->mask & IN_ISDIR) != 0 ? dirs_child(&w->dirs, from->wd, from->name) : NULL;

	*ret_wd = d != NULL ? d->wd : 0;
	return d == NULL || is_at(w, d->wd, to->wd, to->name);
}

static void on_overflow(struct watcher *w)
{
	look_at_all(w);
	say(w, WATCHED_OVERFLOW); /* now whoever looks and then listens misses nothing */
}

static bool is_same(const struct event *a, const struct event *b)
{
	return a->wd == b->wd && strcmp(a->name, b->name) == 0;
}

static bool is_gone(struct watcher *w, const struct event *e)
{
	own_fd above = open_watched(w, e->wd);
	struct stat st;

	return above >= 0 && fstatat(above, e->name, &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	       errno == ENOENT;
}

/* Two that change places are two moves, there and back. What was told by the first is wrong of one of them; unless it was there and back,
 * and then there is only one. */
static bool is_exchange(struct watcher *w, const struct event *from, const struct event *to)
{
	return w->moved_from.wd != 0 && is_same(from, &w->moved_to) &&
	       is_same(to, &w->moved_from) && !is_gone(w, from);
}

static void on_moved(struct watcher *w, const struct event *from)
{
	bool directory = (from->mask & IN_ISDIR) != 0;
	struct event to;
	int wd;

	if (!second_half(w, from->cookie, &to) || name_is_hidden(to.name)) {
		on_gone(w, from);
		return;
	}
	if (name_is_hidden(from->name)) {
		if (directory)
			on_here(w, &to);
		else
			on_replaced(w, &to);
		return;
	}
	if (is_exchange(w, from, &to)) {
		on_overflow(w);
		return;
	}
	w->moved_from = *from;
	w->moved_to = to;
	if (!find_moved(w, from, &to, &wd)) {
		on_moved_before(w, wd, from, &to);
		return;
	}
	(void)told_take(w, from->wd, from->name);
	(void)told_take(w, to.wd, to.name);
	(void)make_way(w, &to);
	tell_move(w, directory, from, &to);
	if (wd != 0 && dirs_put(&w->dirs, wd, to.wd, to.name) < 0)
		w->trouble = ENOSPC;
	if (directory)
		new_directory(w, to.wd, to.name);
}

/* Nothing more of it will come; of the top that is the end. */
static void on_ignored(struct watcher *w, const struct event *e)
{
	if (e->wd == w->top)
		w->trouble = ENOENT;
	else
		dirs_remove(&w->dirs, e->wd);
}

/* A file that never had a name has something like one in here: a program has changed its mode. */
static bool is_nameless(const struct watcher *w, const struct event *e)
{
	char below[PATH_MAX], path[PATH_MAX];
	struct stat st;

	return e->name[0] == '#' && e->name[1 + strspn(e->name + 1, "0123456789")] == '\0' &&
	       dirs_path(&w->dirs, e->wd, e->name, below) && whole_path(w, below, path) &&
	       lstat(path, &st) < 0 && errno == ENOENT;
}

static void on_changed(struct watcher *w, const struct event *e)
{
	if (!name_is_hidden(e->name) && !is_nameless(w, e))
		tell(w, (e->mask & IN_CLOSE_WRITE) != 0 ? WATCHED_MODIFY : WATCHED_ATTRIB,
		     (e->mask & IN_ISDIR) != 0, e->wd, e->name);
	if ((e->mask & IN_ATTRIB) != 0 && (e->mask & IN_ISDIR) != 0 && !name_is_hidden(e->name) &&
	    w->recursive && dirs_child(&w->dirs, e->wd, e->name) == NULL)
		new_directory(w, e->wd, e->name); /* it may be for us to see now */
}

static void handle(struct watcher *w, const struct event *e)
{
	if ((e->mask & IN_MOVED_FROM) == 0 && e->mask != 0)
		w->moved_from.wd = 0;
	if ((e->mask & IN_Q_OVERFLOW) != 0)
		on_overflow(w);
	else if ((e->mask & IN_IGNORED) != 0 ||
		 (e->wd == w->top && (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)) != 0))
		on_ignored(w, e);
	else if (dirs_find(&w->dirs, e->wd) == NULL || e->name[0] == '\0')
		return;
	else if ((e->mask & (IN_CREATE | IN_MOVED_TO)) != 0)
		on_here(w, e);
	else if ((e->mask & IN_DELETE) != 0)
		on_gone(w, e);
	else if ((e->mask & IN_MOVED_FROM) != 0)
		on_moved(w, e);
	else if ((e->mask & (IN_CLOSE_WRITE | IN_ATTRIB)) != 0)
		on_changed(w, e);
}

static void handle_all(struct watcher *w)
{
	while (w->in_at < w->in_len && w->trouble == 0) {
		const struct inotify_event *e = (const void *)(w->in + w->in_at);
		struct event now;

		take_event(e, &now);
		w->in_at += sizeof(*e) + e->len;
		handle(w, &now);
		told_expire(w);
	}
}

int file_watch(const struct file_job *f)
{
	struct watcher *w = &the_watcher;

	if (bool_of(f->words[0], &w->recursive) != 0)
		return EINVAL;
	w->path = f->path[0] != '\0' ? f->path : ".";
	w->start = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	w->fd = inotify_init1(IN_CLOEXEC);
	if (w->start < 0 || w->fd < 0)
		return errno;
	w->top = inotify_add_watch(w->fd, w->path, CHANGES | IN_DELETE_SELF | IN_MOVE_SELF);
	if (w->top < 0)
		return errno;
	if (dirs_put(&w->dirs, w->top, 0, NULL) < 0)
		return ENOMEM;
	look_at_all(w);
	w->ready = true;
	if (w->trouble == 0)
		say(w, WATCHED_READY);
	flush(w);
	while (w->trouble == 0) {
		read_events(w);
		handle_all(w);
		flush(w);
	}
	if (w->trouble == ENOSPC)
		(void)dprintf(STDERR_FILENO, "there are more directories than can be watched\n");
	return w->trouble;
}
