// SPDX-License-Identifier: Apache-2.0
/*
 * A file from standard input.
 *
 * Conditions are looked at twice: before the content is taken, which may be much, and right before it gets its name. That nothing is
 * there is certain even then, since linkat(2) says so; that what is there is still the same is as certain as it can be.
 */
#include "box/files.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct terms {
	const char *if_match, *if_none_match;
	mode_t mode; /* of what is replaced */
};

/* What is there, as who reads it sees it: behind a link. False: nothing. */
static bool look(const struct place *at, struct stat *st)
{
	struct stat behind;

	if (fstatat(at->dir, at->name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (S_ISLNK(st->st_mode) && fstatat(at->dir, at->name, &behind, 0) == 0 &&
	    S_ISREG(behind.st_mode))
		*st = behind;
	return true;
}

static int check(const struct place *at, struct terms *t)
{
	static struct listing_entry e;
	char etag[LISTING_ETAG];
	struct stat st;

	if (!look(at, &st))
		return t->if_match[0] != '\0' ? ECANCELED : 0;
	if (S_ISDIR(st.st_mode))
		return EISDIR;
	if (S_ISREG(st.st_mode))
		t->mode = st.st_mode & 0777;
	entry_fill(&e, &st);
	listing_etag(&e, etag);
	if (t->if_match[0] != '\0' && !etag_listed_strong(t->if_match, etag))
		return ECANCELED;
	return t->if_none_match[0] != '\0' && etag_listed(t->if_none_match, etag) ? ECANCELED : 0;
}

static int say(const struct new_file *n, bool is_new)
{
	static struct listing_entry e;
	struct stat st;

	if (fstat(n->fd, &st) < 0)
		return errno;
	entry_fill(&e, &st);
	e.flags = is_new ? LISTING_NEW : 0;
	last_name(n->at->name, e.path);
	return entry_write(&e);
}

static int receive(struct new_file *n, struct terms *t)
{
	bool only_new = t->if_none_match[0] == '*', is_new;
	int r = copy_bytes(STDIN_FILENO, n->fd);

	if (r == 0 && (t->if_match[0] != '\0' || t->if_none_match[0] != '\0'))
		r = check(n->at, t);
	if (r == 0)
		r = new_file_publish(n, !only_new, &is_new);
	if (r == EEXIST)
		return ECANCELED;
	return r != 0 ? r : say(n, is_new);
}

int file_write(const struct file_job *f)
{
	struct terms t = { .if_match = f->words[1], .if_none_match = f->words[2], .mode = 0644 };
	struct new_file n = { .fd = -1 };
	size_t len = strlen(f->path);
	own_place at = { .dir = -1 };
	mode_t mode;
	int r = mode_of(f->words[0], 0, &mode);

	if (r == 0 && len > 0 && f->path[len - 1] == '/')
		r = EISDIR;
	if (r == 0)
		r = place_open(&at, f->path, /* make= */ t.if_match[0] == '\0');
	if (r == ENOENT && t.if_match[0] != '\0')
		return ECANCELED;
	if (r == 0 && place_is_top(&at))
		r = EISDIR;
	if (r == 0)
		r = check(&at, &t);
	if (r == 0)
		r = mode_of(f->words[0], t.mode, &mode);
	if (r == 0)
		r = new_file_open(&n, &at, mode);
	if (r == 0)
		r = receive(&n, &t);
	new_file_close(&n);
	return r;
}
