/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on files (wire/fileops.tbl), each in a child of init: the user's uid, the box's own mount namespace, under the
 * user's filter and limits. A symbolic link can lead to what the user could open anyway, and nowhere else. Standard input and
 * output are what the table says. Functions return 0 or an errno, which becomes the exit status.
 *
 * The child does one thing and ends, which gives back memory that is needed all the time.
 */
#pragma once

#include "base/own.h"
#include "wire/listing.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct file_job {
	const char *const *argv; /* as in the table; as many words as it wants */
	const char *const *envp;
	const char *path;
	const char *const *words; /* behind the path */
	int archive_fd;           /* the program of pack and unpack; -1: another operation */
};

/* --- files_read.c, files_write.c, files_change.c, files_delete.c, files_list.c, files_watch.c --- */

int file_stat(const struct file_job *f);
int file_read(const struct file_job *f);
int file_write(const struct file_job *f);
int file_mkdir(const struct file_job *f);
int file_move(const struct file_job *f);
int file_delete(const struct file_job *f);
int file_list(const struct file_job *f);
int file_tree(const struct file_job *f);
int file_watch(const struct file_job *f);

/* --- files_paths.c: what a path names --- */

/* Where a name is, or is going to be: a directory, and a name in it that has no slash. */
struct place {
	int dir;
	char name[NAME_MAX + 1];
};

#define own_place OWN(place_close) struct place

/* make: directories that are missing, too. */
int place_open(struct place *p, const char *path, bool make);
void place_close(struct place *p);
/* Whether there is no name to speak of: the path ends at a directory that exists, as ".", ".." or "/" do. */
bool place_is_top(const struct place *p);
/* The last component; "." where there is none. */
void last_name(const char *path, char name[NAME_MAX + 1]);
/* Something of ours that is not complete: it is not shown. */
bool name_is_hidden(const char *name);
/* Octal, up to 777; "" is `otherwise`. */
int mode_of(const char *text, mode_t otherwise, mode_t *ret);
/* "0" or "1". */
int bool_of(const char *text, bool *ret);

/* --- files_beneath.c: a path that leads nowhere but below the working directory --- */

/* What the last name is. */
enum beneath_last {
	BENEATH_NAME,      /* itself, be it a link, or not there */
	BENEATH_FILE,      /* what it leads to */
	BENEATH_DIRECTORY, /* the same, and that is entered, too */
};

/* Go where it is: the working directory is another one then, and *out what is left. No name of that is a link now. EXDEV: it leads out. */
int beneath_enter(const char *path, enum beneath_last last, char out[PATH_MAX]);

/* --- files_record.c: what is said about a file --- */

void entry_fill(struct listing_entry *e, const struct stat *st);
/* Where a symbolic link points, as far as it can be read. */
void entry_link(struct listing_entry *e, int dir, const char *name);
/* The record of what is at this place, which is not followed, to standard output. */
int entry_say(const struct place *at, bool is_new);
int entry_write(const struct listing_entry *e);

/* --- files_copy.c: a file that is not there until it is complete --- */

struct new_file {
	int fd;
	bool named; /* it has a name of its own meanwhile: `temp` */
	char temp[48];
	const struct place *at;
};

int copy_bytes(int from, int to);
int new_file_open(struct new_file *n, const struct place *at, mode_t mode);
/* The same where a file system has none without a name. */
int new_file_open_named(struct new_file *n, const struct place *at, mode_t mode);
/* Give it its name. EEXIST: somebody has that, and is not to be replaced. */
int new_file_publish(struct new_file *n, bool replace, bool *ret_new);
/* Forget it, unless it was published. */
void new_file_close(struct new_file *n);

/* --- files_walk.c: a tree, however deep --- */

struct names { /* of a directory, each with a byte for its type in front */
	char *text;
	size_t len, at;
	char **sorted; /* NULL: in the order in which they were read */
	size_t n;
};

struct level {
	int fd; /* -1: it is found again from below */
	dev_t dev;
	ino_t ino;
	const char *name; /* in the level above; NULL: the top */
	size_t mark;      /* the caller's, as the next two are */
	int tag;
	bool flag;
	struct names names;
};

/* Directories on the way down. Names of one are read at once, so it may change meanwhile. */
struct walk {
	bool sorted; /* names by their bytes */
	struct level *levels;
	size_t n, cap;
};

/* Begin at an open directory, which is taken. */
int walk_start(struct walk *w, int fd);
/* The next name here, and its d_type; NULL: that was all. */
const char *walk_next(struct walk *w, unsigned char *ret_type);
/* Into the directory of this name, which the last walk_next() gave. */
int walk_down(struct walk *w, const char *name);
/* The two halves of that, for who has something to do before its names are read. The descriptor is taken from *fd. */
int walk_open(const struct walk *w, const char *name);
int walk_enter(struct walk *w, int *fd, const char *name);
/* Back to the one above; the last one ends the walk. ESTALE: that was moved away meanwhile, and the walk goes on further up. */
int walk_up(struct walk *w);
void walk_end(struct walk *w);

/* The level where it is, and its descriptor. */
static inline struct level *walk_here(const struct walk *w)
{
	return &w->levels[w->n - 1];
}

/* --- files_dirs.c: which directory a watch descriptor is --- */

struct watched_dir {
	int wd, parent;
	bool gone, doomed;
	char *name; /* NULL: the top */
};

struct watched_dirs {
	struct watched_dir *v; /* by wd, rising */
	size_t n, cap, gone;
};

struct watched_dir *dirs_find(const struct watched_dirs *d, int wd);
/* The one that has this name; the youngest, if the end of another has not been heard yet. */
struct watched_dir *dirs_child(const struct watched_dirs *d, int parent, const char *name);
/* It is there, under this name now. -1: no memory, or too many. */
int dirs_put(struct watched_dirs *d, int wd, int parent, const char *name);
void dirs_remove(struct watched_dirs *d, int wd);
/* This one and all that are below it; their watches end, too. */
void dirs_drop(struct watched_dirs *d, int top, int inotify_fd);
/* All but that one. */
void dirs_keep(struct watched_dirs *d, int top, int inotify_fd);
/* The path of a name in it, from the top on. False: it is too long, or the directory is unknown. */
bool dirs_path(const struct watched_dirs *d, int wd, const char *name, char path[PATH_MAX]);
