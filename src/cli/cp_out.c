// SPDX-License-Identifier: Apache-2.0
/*
 * A file or directory of a box onto this machine. Everything that comes is the box's word: names were checked to be plain by
 * wire/tar.c, and all have to lie below one; files are made beneath the descriptor of a directory without following a
 * link, under another name first; links that lead elsewhere stay behind; bytes and names are bounded.
 */
#include "cli/cp.h"

#include "base/base64.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/wake.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { MEMBERS_MAX = 1000000 };

/* Only what can be copied is packed; names begin with that of what was asked for. What is left out is said, see cp.c. */
static const char hold_script[] =
	"path=$(realpath -e -- \"$1\") || exit\n"
	"if [ \"$path\" = / ]; then echo \"it is the whole box\" >&2; exit 1; fi\n"
	"cd -- \"$(dirname -- \"$path\")\" || exit\n"
	"bad='*[[:cntrl:]]*'\n"
	"exec 3< <(set -o pipefail; LC_ALL=C find \"./$(basename -- \"$path\")\" \\\n"
	"\t\\( -name \"$bad\" -o -lname \"$bad\" \\) -prune -fprintf /dev/stderr '" CP_LEFT_NAME
	"%p\\n' -o \\\n"
	"\t\\( -type f -o -type d -o -type l \\) -print0 -o -fprintf /dev/stderr '" CP_LEFT_KIND
	"%p\\n' |\n"
	"\ttar -c -f - --format=gnu --hard-dereference --no-recursion --null -T - "
	"--transform='flags=r;s,^\\./,,')\n"
	"tar=$!\n"
	"echo $$\n" CP_AWAIT_END "exec 3<&-\n"
	"wait \"$tar\"";

struct out {
	struct cp *cp;
	struct tar_reader tar;
	int dir;                 /* where it all goes */
	char name[NAME_MAX + 1]; /* and under which name: ours, never the box's */
	char top[NAME_MAX + 1];  /* the name that it has there */
	uint64_t members, left;  /* left: bytes that may still come */
	/* the member that is being read */
	char path[PATH_MAX]; /* here */
	int parent, fd;      /* fd: -1 if it is no file, or left out */
	char temp[64];       /* "": there is none */
	struct timespec mtime;
	struct err *e;
};

/* --- places --------------------------------------------------------------------------------------- */

static int open_beneath(int dir, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* The directory of a path; an archive names every directory before what is in it. */
static int open_parent(struct out *o, const char *path)
{
	const char *slash = strrchr(path, '/');
	char above[PATH_MAX];

	if (slash == NULL)
		return fcntl(o->dir, F_DUPFD_CLOEXEC, 3);
	(void)snprintf(above, sizeof(above), "%.*s", (int)(slash - path), path);
	return open_beneath(o->dir, above);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

static int fail(struct out *o, int error, const char *what)
{
	(void)err_set(o->e, ERR_INPUT, error, "%s '%s'", what, o->path);
	return -ECANCELED;
}

/* --- members -------------------------------------------------------------------------------------- */

/* All of them lie below the first one, which gets the name that was asked for. */
static int take_path(struct out *o, const struct tar_member *m)
{
	size_t n = strcspn(m->path, "/");

	if (o->members++ == 0) {
		if (n != strlen(m->path) || n > NAME_MAX) {
			(void)err_set(o->e, ERR_PROTO, 0,
				      "the box sent something else than what was asked for");
			return -ECANCELED;
		}
		(void)snprintf(o->top, sizeof(o->top), "%.*s", (int)n, m->path);
	}
	if (strlen(o->top) != n || strncmp(o->top, m->path, n) != 0) {
		(void)err_set(o->e, ERR_PROTO, 0, "the box sent '%s', which was not asked for",
			      m->path);
		return -ECANCELED;
	}
	if (o->members > MEMBERS_MAX) {
		(void)err_set(o->e, ERR_LIMIT, 0, "more than %d files", MEMBERS_MAX);
		return -ECANCELED;
	}
	if (snprintf(o->path, sizeof(o->path), "%s%s", o->name, m->path + n) >=
	    (int)sizeof(o->path)) {
		(void)err_set(o->e, ERR_INPUT, ENAMETOOLONG, "write '%s'", m->path);
		return -ECANCELED;
	}
	return 0;
}

static int make_directory(struct out *o, const struct tar_member *m)
{
	own_fd there = -1;

	/* We have to write into it, whatever its mode says. */
	if (mkdirat(o->parent, last_part(o->path), m->mode | 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return fail(o, errno, "make the directory");
	there = open_beneath(o->dir, o->path);
	return there >= 0 ? 0 : fail(o, errno, "make the directory");
}

static unsigned int depth_of(const char *path)
{
	unsigned int n = 0;

	for (; *path != '\0'; path++)
		n += *path == '/';
	return n;
}

static int rename_temp(struct out *o)
{
	if (renameat(o->parent, o->temp, o->parent, last_part(o->path)) < 0)
		return fail(o, errno, "write");
	o->temp[0] = '\0';
	return 0;
}

/* The link's own directory is below the top, unless it is the top itself. */
static int make_link(struct out *o, const struct tar_member *m)
{
	unsigned int depth = depth_of(m->path);

	if (depth == 0 || !cp_link_stays(m->link, depth - 1)) {
		cp_skip(o->cp, o->path, "a link that leads out of what is copied");
		return 0;
	}
	(void)unlinkat(o->parent, o->temp, 0);
	if (symlinkat(m->link, o->parent, o->temp) < 0) {
		o->temp[0] = '\0';
		return fail(o, errno, "make the link");
	}
	return rename_temp(o);
}

static int make_file(struct out *o, const struct tar_member *m)
{
	if (m->size > o->left) {
		(void)err_set(o->e, ERR_LIMIT, 0, "more than --max allows: '%s'", o->path);
		return -ECANCELED;
	}
	o->left -= m->size;
	(void)unlinkat(o->parent, o->temp, 0);
	o->fd = openat(o->parent, o->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       m->mode | 0600);
	if (o->fd < 0) {
		o->temp[0] = '\0';
		return fail(o, errno, "write");
	}
	o->mtime.tv_sec = m->mtime;
	o->cp->files++;
	o->cp->bytes += m->size;
	return 0;
}

static int on_member(void *arg, const struct tar_member *m)
{
	struct out *o = arg;
	int rc = take_path(o, m);

	if (rc < 0)
		return rc;
	fd_close(&o->parent);
	o->parent = open_parent(o, o->path);
	if (o->parent < 0)
		return fail(o, errno, "open the directory of");
	o->temp[0] = '\0';
	if (m->type == TAR_DIRECTORY)
		return make_directory(o, m);
	(void)snprintf(o->temp, sizeof(o->temp), ".glovebox-cp-%d", (int)getpid());
	rc = m->type == TAR_FILE ? make_file(o, m) : make_link(o, m);
	if (m->type == TAR_LINK)
		o->temp[0] = '\0';
	return rc;
}

static int on_data(void *arg, const void *p, size_t n)
{
	struct out *o = arg;
	int rc = io_write_all(o->fd, p, n);

	return rc < 0 ? fail(o, -rc, "write") : 0;
}

static int on_end(void *arg)
{
	struct out *o = arg;
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, o->mtime };

	if (o->fd < 0)
		return 0;
	(void)futimens(o->fd, times);
	fd_close(&o->fd);
	return rename_temp(o);
}

static const struct tar_ops ops = { .member = on_member, .data = on_data, .end = on_end };

/* --- pieces --------------------------------------------------------------------------------------- */

static int take_piece(struct out *o, const struct jsonr_node *text, size_t *ret_n)
{
	own_free uint8_t *bytes = malloc(BASE64_BYTES_MAX((size_t)text->len) + 1);
	const char *why = "";
	size_t n;
	int rc;

	if (bytes == NULL)
		return err_set(o->e, ERR_SYS, ENOMEM, "take a piece");
	if (base64_decode(text->string, text->len, bytes, &n) < 0)
		return err_set(o->e, ERR_PROTO, 0, "the server sent a piece that is none");
	*ret_n = n;
	rc = tar_read(&o->tar, bytes, n, &ops, o, &why);
	if (rc == -EPROTO)
		return err_set(o->e, ERR_PROTO, 0,
			       "the box sent an archive that is refused: it has %s", why);
	return rc < 0 ? -1 : 0;
}

/* Until there is no more: what comes behind the archive's end is only its padding. */
static int take_pieces(struct out *o)
{
	char size[24], pipe[48];
	const char *const argv[] = { "/usr/bin/head", "-c", size, pipe, NULL };
	size_t n = 1;

	(void)snprintf(size, sizeof(size), "%zu", o->cp->piece);
	(void)snprintf(pipe, sizeof(pipe), "/proc/%s/fd/3", o->cp->pid);
	while (n > 0 && !o->tar.done) {
		const struct jsonr_node *text;
		struct reply r;
		int rc = 0;

		if (wake_end() != 0)
			return err_set(o->e, ERR_SYS, EINTR, "take a piece");
		cp_keep(o->cp);
		if (cp_run(o->cp, argv, NULL, &r, o->e) < 0)
			return -1;
		n = 0;
		text = jsonr_get(&r.doc, reply_root(&r), "stdout");
		if (strcmp(node_str(&r.doc, reply_root(&r), "status"), "ok") != 0)
			rc = err_set(o->e, ERR_INPUT, 0, "the archive was cut off in the box");
		else if (text != NULL && text->type == JSONR_STRING)
			rc = take_piece(o, text, &n);
		reply_free(&r);
		if (rc < 0)
			return -1;
	}
	return 0;
}

/* --- where it goes -------------------------------------------------------------------------------- */

/* What a copy is called that goes into a directory. Who copies into a home directory must not let the box say. */
static int name_copy(struct out *o, const char *from, struct err *e)
{
	bool all = from[0] == '\0' || strcmp(from, ".") == 0 || strcmp(from, "./") == 0;

	cp_base(all ? "workspace" : from, o->name);
	if (path_is_plain(o->name))
		return 0;
	(void)err_set(e, ERR_USAGE, 0, "'%s' has no name for the copy", from);
	return err_hint(e, "give the copy a name: DEST/NAME");
}

/* A directory that is there, or the one that a new name is for. */
static int find_place(struct out *o, const char *from, const char *to, struct err *e)
{
	const char *slash = strrchr(to, '/');
	char above[PATH_MAX];
	struct stat st;

	if (strlen(to) >= sizeof(above))
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "copy to '%s'", to);
	if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
		if (name_copy(o, from, e) < 0)
			return -1;
		o->dir = open(to, O_PATH | O_DIRECTORY | O_CLOEXEC);
		return o->dir < 0 ? err_set(e, ERR_INPUT, errno, "open '%s'", to) : 0;
	}
	cp_base(to, o->name);
	if (!path_is_plain(o->name) || (slash != NULL && slash[1] == '\0'))
		return err_set(e, ERR_INPUT, 0, "there is no directory '%s'", to);
	if (slash == NULL)
		(void)snprintf(above, sizeof(above), ".");
	else
		(void)snprintf(above, sizeof(above), "%.*s", slash == to ? 1 : (int)(slash - to),
			       to);
	o->dir = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return o->dir < 0 ? err_set(e, ERR_INPUT, errno, "open the directory of '%s'", to) : 0;
}

int cp_out(struct cp *cp, const char *from, const char *to, struct err *e)
{
	static struct out o;
	struct err tar_said;
	int rc;

	o = (struct out){
		.cp = cp, .dir = -1, .parent = -1, .fd = -1, .left = cp->max_bytes, .e = e
	};
	tar_reader_init(&o.tar);
	rc = find_place(&o, from, to, e);
	if (rc == 0)
		rc = cp_hold(cp, hold_script, from[0] != '\0' ? from : ".", e);
	if (rc == 0)
		rc = take_pieces(&o);
	if (rc == 0 && (cp_release(cp, &tar_said) < 0)) {
		*e = tar_said;
		rc = -1;
	}
	if (rc == 0 && (!tar_is_whole(&o.tar) || o.members == 0))
		rc = err_set(e, ERR_PROTO, 0, "the box sent half an archive");
	fd_close(&o.fd);
	if (o.temp[0] != '\0' && o.parent >= 0)
		(void)unlinkat(o.parent, o.temp, 0);
	fd_close(&o.parent);
	fd_close(&o.dir);
	return rc;
}
