// SPDX-License-Identifier: Apache-2.0
/* What is below a directory: in order and a part at a time, or all of it in any order, which is faster. */
#include "box/files.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct lister {
	struct walk walk;
	bool recursive;
	const char
		*after; /* NULL: it is behind us; else a path in the directory where the walk is */
	uint64_t left;  /* records */
	struct listing_entry entry;
	size_t path_len; /* of the directory where the walk is, in entry.path */
	uint8_t buf[65536];
	size_t len;
	int trouble;         /* with what was passed over */
	unsigned int passed; /* how much that was, and the first of it */
	char first[PATH_MAX];
};

static struct lister the_lister; /* large: zeroed pages, not bytes of the program */

static int flush(struct lister *l)
{
	int r = io_write_all(STDOUT_FILENO, l->buf, l->len);

	l->len = 0;
	return -r;
}

static void pass_over(struct lister *l, int error)
{
	l->trouble = error;
	if (l->passed++ == 0)
		(void)snprintf(l->first, sizeof(l->first), "%s", l->entry.path);
}

static int emit(struct lister *l, int dir, const char *name, const struct stat *st)
{
	ptrdiff_t n;
	int r;

	entry_fill(&l->entry, st);
	if (l->entry.type == 'l')
		entry_link(&l->entry, dir, name);
	n = listing_encode(&l->entry, l->buf + l->len, sizeof(l->buf) - l->len);
	if (n < 0) { /* full; and one alone has room */
		r = flush(l);
		if (r != 0)
			return r;
		n = listing_encode(&l->entry, l->buf, sizeof(l->buf));
	}
	l->len += n > 0 ? (size_t)n : 0;
	l->left--;
	return 0;
}

/* How a name compares to the first component of a path. */
static int compare(const char *name, const char *path, size_t n)
{
	int r = strncmp(name, path, n);

	return r != 0 ? r : name[n] != '\0';
}

/* Whether a name was told before; *ret_below: but perhaps not all that is below it. Names rise: the first that is behind is the
 * last that has to be compared. */
static bool is_before(struct lister *l, const char *name, const char **ret_below)
{
	size_t n = l->after != NULL ? strcspn(l->after, "/") : 0;
	int r = l->after != NULL ? compare(name, l->after, n) : 1;

	*ret_below = NULL;
	if (r > 0)
		l->after = NULL;
	else if (r == 0)
		*ret_below = l->after + n + strspn(l->after + n, "/");
	return r <= 0;
}

static int go_down(struct lister *l, const char *name, size_t path_len, const char *after)
{
	int r = walk_down(&l->walk, name);

	if (r == ENOMEM)
		return r;
	if (r != 0 && r != ENOENT && r != ENOTDIR) /* else it went away meanwhile */
		pass_over(l, r);
	if (r != 0)
		return 0;
	walk_here(&l->walk)->mark = l->path_len = path_len;
	l->after = after;
	return 0;
}

static int visit(struct lister *l, const char *name)
{
	char *at = l->entry.path + l->path_len;
	size_t room = sizeof(l->entry.path) - l->path_len;
	int n, dir = walk_here(&l->walk)->fd, r = 0;
	const char *below;
	struct stat st;
	bool before = is_before(l, name, &below);

	if (name_is_hidden(name) || (before && (below == NULL || !l->recursive)))
		return 0;
	n = snprintf(at, room, "%s%s", l->path_len > 0 ? "/" : "", name);
	if (n < 0 || (size_t)n >= room) {
		pass_over(l, ENAMETOOLONG);
		return 0;
	}
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0; /* it went away meanwhile */
	if (!before)
		r = emit(l, dir, name, &st);
	if (r == 0 && l->recursive && l->left > 0 && S_ISDIR(st.st_mode))
		r = go_down(l, name, l->path_len + (size_t)n,
			    below != NULL && below[0] != '\0' ? below : NULL);
	return r;
}

static void go_up(struct lister *l)
{
	int r = walk_up(&l->walk);

	if (r != 0)
		pass_over(l, r);
	l->path_len = l->walk.n > 0 ? walk_here(&l->walk)->mark : 0;
	l->after = NULL;
}

static int show(struct lister *l, const char *path)
{
	int fd = open(path[0] != '\0' ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? errno : walk_start(&l->walk, fd);

	while (r == 0 && l->walk.n > 0 && l->left > 0) {
		unsigned char type;
		const char *name = walk_next(&l->walk, &type);

		if (name == NULL)
			go_up(l);
		else
			r = visit(l, name);
		l->entry.path[l->path_len] = '\0';
	}
	return r == 0 ? flush(l) : r;
}

/* In one line that a terminal can be shown. */
static void tell_passed(struct lister *l)
{
	for (char *c = l->first; *c != '\0'; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	(void)dprintf(STDERR_FILENO, "'%s' could not be read%s\n", l->first,
		      l->passed > 1 ? ", nor could others" : "");
}

int file_list(const struct file_job *f)
{
	struct lister *l = &the_lister;
	uint64_t limit;
	int r;

	if (bool_of(f->words[0], &l->recursive) != 0 ||
	    str_to_u64(f->words[2], UINT64_MAX - 1, &limit) < 0)
		return EINVAL;
	l->walk.sorted = true;
	l->after = f->words[1][0] != '\0' ? f->words[1] : NULL;
	l->left = limit != 0 ? limit + 1 : UINT64_MAX;
	r = show(l, f->path);
	if (r == 0 && l->passed > 0)
		tell_passed(l);
	return r;
}

int file_tree(const struct file_job *f)
{
	struct lister *l = &the_lister;
	int r;

	l->recursive = true;
	l->left = UINT64_MAX;
	r = show(l, f->path);
	return r != 0 ? r : l->trouble;
}
