// SPDX-License-Identifier: Apache-2.0
/* A file or directory of this machine into a box: packed as it is walked, in pieces. */
#include "cli/cp.h"

#include "base/base64.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/wake.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH_MAX = 100 };

/* Where a copy goes: into a directory that is there, or beside its neighbours under another name. */
static const char where_script[] =
	"if [ -d \"$1\" ]; then echo d; elif [ -d \"$(dirname -- \"$1\")\" ]; then echo p; fi";
static const char hold_script[] = "exec 4> >(exec tar -x -p -f - --no-same-owner -C \"$1\")\n"
				  "tar=$!\n"
				  "echo $$\n" CP_AWAIT_END "exec 4>&-\n"
				  "wait \"$tar\"";
static const char piece_script[] = "exec base64 -d >\"/proc/$1/fd/4\"";

struct in {
	struct cp *cp;
	struct bytes piece;
	struct tar_member m;
};

/* --- pieces --------------------------------------------------------------------------------------- */

static int send_piece(struct in *in, struct err *e)
{
	const char *const argv[] = { "/bin/bash", "-c", piece_script, "cp", in->cp->pid, NULL };
	own_free char *text = malloc(BASE64_TEXT_LEN(in->piece.n) + 1);
	struct reply r;
	bool ok;

	if (in->piece.n == 0)
		return 0;
	if (text == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "send a piece");
	text[base64_encode((const uint8_t *)in->piece.p, in->piece.n, text)] = '\0';
	bytes_clear(&in->piece);
	cp_keep(in->cp);
	if (cp_run(in->cp, argv, text, &r, e) < 0)
		return -1;
	ok = strcmp(node_str(&r.doc, reply_root(&r), "status"), "ok") == 0;
	reply_free(&r);
	if (ok)
		return 0;
	/* tar took no more: it says why. */
	return cp_release(in->cp, e) < 0 ? -1 : err_set(e, ERR_INPUT, 0, "tar ended in the box");
}

static int put(struct in *in, const void *p, size_t n, struct err *e)
{
	const char *at = p;

	while (n > 0) {
		size_t part = CP_PIECE - in->piece.n;

		part = part < n ? part : n;
		bytes_put(&in->piece, at, part);
		if (in->piece.failed)
			return err_set(e, ERR_SYS, ENOMEM, "pack a piece");
		at += part;
		n -= part;
		if (in->piece.n == CP_PIECE && send_piece(in, e) < 0)
			return -1;
	}
	return 0;
}

static int put_zeros(struct in *in, size_t n, struct err *e)
{
	static const char zeros[2 * TAR_BLOCK];

	return put(in, zeros, n, e);
}

/* --- members -------------------------------------------------------------------------------------- */

static int put_head(struct in *in, struct err *e)
{
	uint8_t head[TAR_HEAD_MAX];
	size_t n = tar_head(head, &in->m);

	return n > 0 ? put(in, head, n, e)
		     : err_set(e, ERR_INPUT, ENAMETOOLONG, "pack '%s'", in->m.path);
}

/* As many bytes as were announced: a file that grows is cut, one that shrinks filled up with zeros. */
static int put_file(struct in *in, int fd, const struct stat *st, struct err *e)
{
	static char buf[256 * 1024];
	uint64_t left = (uint64_t)st->st_size;

	in->m.type = TAR_FILE;
	in->m.size = left;
	if (put_head(in, e) < 0)
		return -1;
	while (left > 0) {
		size_t want = left < sizeof(buf) ? (size_t)left : sizeof(buf);
		ssize_t n = read(fd, buf, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, ERR_INPUT, errno, "read '%s'", in->m.path);
		if (n == 0) {
			(void)memset(buf, 0, want);
			n = (ssize_t)want;
		}
		if (put(in, buf, (size_t)n, e) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	in->cp->files++;
	in->cp->bytes += (uint64_t)st->st_size;
	return put_zeros(in, tar_padding((uint64_t)st->st_size), e);
}

static int put_link(struct in *in, int dir, const char *name, struct err *e)
{
	ssize_t n = readlinkat(dir, name, in->m.link, sizeof(in->m.link) - 1);

	if (n < 0)
		return err_set(e, ERR_INPUT, errno, "read the link '%s'", in->m.path);
	in->m.link[n] = '\0';
	in->m.type = TAR_LINK;
	in->m.size = 0;
	return put_head(in, e);
}

static int put_entry(struct in *in, int dir, const char *name, unsigned int depth, bool follow,
		     struct err *e);

static int put_entries(struct in *in, int fd, unsigned int depth, struct err *e)
{
	DIR *d = fdopendir(fd); /* takes it */
	size_t n = strlen(in->m.path);
	const struct dirent *entry;
	int rc = 0;

	if (d == NULL) {
		(void)close(fd);
		return err_set(e, ERR_INPUT, errno, "read the directory '%s'", in->m.path);
	}
	while (rc == 0 && (entry = readdir(d)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (wake_end() != 0) {
			rc = err_set(e, ERR_SYS, EINTR, "pack '%s'", in->m.path);
			break;
		}
		if (snprintf(in->m.path + n, sizeof(in->m.path) - n, "/%s", entry->d_name) >=
		    (int)(sizeof(in->m.path) - n)) {
			in->m.path[n] = '\0';
			rc = err_set(e, ERR_INPUT, ENAMETOOLONG, "pack '%s'", in->m.path);
			break;
		}
		rc = put_entry(in, dirfd(d), entry->d_name, depth + 1, false, e);
		in->m.path[n] = '\0';
	}
	(void)closedir(d);
	return rc;
}

static int put_directory(struct in *in, int *fd, unsigned int depth, struct err *e)
{
	if (depth >= DEPTH_MAX)
		return err_set(e, ERR_INPUT, ELOOP, "pack '%s'", in->m.path);
	in->m.type = TAR_DIRECTORY;
	in->m.size = 0;
	if (put_head(in, e) < 0)
		return -1;
	return put_entries(in, fd_take(fd), depth, e);
}

/* One name in a directory; in->m.path is where it goes. Links are copied as links, but for the one that was named. */
static int put_entry(struct in *in, int dir, const char *name, unsigned int depth, bool follow,
		     struct err *e)
{
	own_fd fd = -1;
	struct stat st;

	if (fstatat(dir, name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, ERR_INPUT, errno, "open '%s'", follow ? name : in->m.path);
	if (!path_is_plain(in->m.path)) {
		cp_skip(in->cp, in->m.path, "its name has a control character");
		return 0;
	}
	in->m.mode = st.st_mode & 0777;
	in->m.mtime = st.st_mtime;
	in->m.link[0] = '\0';
	if (S_ISLNK(st.st_mode))
		return put_link(in, dir, name, e);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
		cp_skip(in->cp, in->m.path, "it is neither file, directory nor link");
		return 0;
	}
	fd = openat(dir, name,
		    O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW));
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, ERR_INPUT, errno, "open '%s'", follow ? name : in->m.path);
	if (S_ISDIR(st.st_mode))
		return put_directory(in, &fd, depth, e);
	if (S_ISREG(st.st_mode))
		return put_file(in, fd, &st, e);
	cp_skip(in->cp, in->m.path, "it is not what it was a moment ago");
	return 0;
}

/* --- where it goes -------------------------------------------------------------------------------- */

/* The directory of the box to unpack in, and the name there. */
static int find_place(struct cp *cp, const char *from, const char *to, char dir[PATH_MAX],
		      char name[NAME_MAX + 1], struct err *e)
{
	const char *path = to[0] != '\0' ? to : ".";
	const char *const argv[] = { "/bin/bash", "-c", where_script, "cp", path, NULL };
	const char *slash;
	struct reply r;
	char kind;

	if (strlen(path) >= PATH_MAX)
		return err_set(e, ERR_USAGE, ENAMETOOLONG, "'%s'", path);
	if (cp_run(cp, argv, NULL, &r, e) < 0)
		return -1;
	/* base64 of "d\n" and of "p\n" */
	kind = node_str(&r.doc, reply_root(&r), "stdout")[0];
	reply_free(&r);
	if (kind == 'Z') {
		(void)snprintf(dir, PATH_MAX, "%s", path);
		cp_base(from, name);
		if (name[0] == '\0') /* "." and the like: what is in it, so to say */
			return err_set(e, ERR_USAGE, 0, "'%s' has no name to give to the copy",
				       from);
		return 0;
	}
	cp_base(path, name);
	if (kind != 'c' || name[0] == '\0' || path[strlen(path) - 1] == '/')
		return err_set(e, ERR_INPUT, 0, "there is no directory for '%s' in the box", path);
	slash = strrchr(path, '/');
	if (slash == NULL)
		(void)snprintf(dir, PATH_MAX, ".");
	else
		(void)snprintf(dir, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path),
			       path);
	return 0;
}

int cp_in(struct cp *cp, const char *from, const char *to, struct err *e)
{
	static struct in in;
	char dir[PATH_MAX], name[NAME_MAX + 1];
	own_free char *real = realpath(from, NULL);
	int rc;

	if (real == NULL)
		return err_set(e, ERR_INPUT, errno, "open '%s'", from);
	/* The name of what "." is, and the like. */
	cp_base(from, name);
	if (find_place(cp, name[0] != '\0' ? from : real, to, dir, name, e) < 0 ||
	    cp_hold(cp, hold_script, dir, e) < 0)
		return -1;
	in = (struct in){ .cp = cp };
	bytes_init(&in.piece, CP_PIECE);
	(void)snprintf(in.m.path, sizeof(in.m.path), "%s", name);
	rc = put_entry(&in, AT_FDCWD, from, 0, true, e);
	if (rc == 0)
		rc = put_zeros(&in, 2 * TAR_BLOCK, e);
	if (rc == 0)
		rc = send_piece(&in, e);
	if (rc == 0)
		rc = cp_release(cp, e);
	bytes_done(&in.piece);
	return rc;
}
