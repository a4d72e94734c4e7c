// SPDX-License-Identifier: Apache-2.0
/*
 * Files into and out of a workspace.
 *
 * In the box they are handled by init's file operations under the user's uid. On the host nothing
 * that a box says is trusted: names are checked to be plain, files are created beneath the target
 * directory's descriptor without following a link, sizes are bounded.
 */
#include "cli/run.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/say.h"
#include "wire/listing.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { SNAPSHOT_MAX = 200000 };

static const char workspace[] = "/workspace";
static const char *const no_env[] = { NULL };

static int run_file_job(struct box_client *b, uint32_t flags, const char *const *argv,
			const struct job_io *io, const char *what, const char *name, bool lenient,
			struct err *e)
{
	struct job_spec spec = {
		.kind = JOB_FILE, .flags = flags, .cwd = workspace, .argv = argv, .envp = no_env
	};
	struct job_exit x;

	if (box_run(b, &spec, io, &x, e) < 0)
		return err_wrap(e, "%s '%s'", what, name);
	if (x.how == JOB_FAILED)
		return err_set(e, ERR_SYS, x.code, "%s '%s': %s", what, name, x.stage);
	if (x.how != JOB_EXITED)
		return err_set(e, ERR_SYS, 0, "%s '%s': ended by signal %d", what, name, x.code);
	if (x.code != 0 && !lenient)
		return err_set(e, ERR_INPUT, x.code, "%s '%s'", what, name);
	return x.code;
}

/* --- in ------------------------------------------------------------------------------------- */

static int put(struct box_client *b, const struct job_io *io, const char *at, unsigned int mode,
	       struct err *e)
{
	char octal[8];
	const char *const argv[] = { "write", at, octal, "", "", NULL };

	(void)snprintf(octal, sizeof(octal), "%o", mode & 0777);
	return run_file_job(b, JOB_STDIN, argv, io, "put file", at, false, e);
}

int stage_bytes(struct box_client *b, const void *p, size_t n, const char *at, unsigned int mode,
		struct err *e)
{
	struct job_io io = { .in_fd = -1, .in_buf = p, .in_len = n, .interrupt_fd = -1 };

	return put(b, &io, at, mode, e);
}

int stage_file(struct box_client *b, const struct run_file *f, struct err *e)
{
	own_fd fd = open(f->host, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct job_io io = { .in_fd = fd, .interrupt_fd = -1 };

	if (fd < 0)
		return err_set(e, ERR_INPUT, errno, "open '%s'", f->host);
	return put(b, &io, f->box, f->mode, e);
}

/* --- what is there --------------------------------------------------------------------------- */

struct entry {
	char *path;
	char type;
	uint32_t mode;
	uint64_t size, ctime_ns, inode;
};

struct snapshot {
	struct entry *v;
	size_t n, cap;
	struct listing_reader reader;
	bool trouble;
};

void snapshot_free(struct snapshot *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].path);
	free(s->v);
	free(s);
}

static int add_entry(void *arg, const struct listing_entry *l)
{
	struct snapshot *s = arg;
	struct entry *e;
	char *path;

	if (!path_is_plain(l->path)) { /* no name that we would make a file by */
		s->trouble = true;
		return 0;
	}
	if (s->n == SNAPSHOT_MAX)
		return -EFBIG;
	if (s->n == s->cap) {
		size_t cap = s->cap * 2 + 64;
		struct entry *v = reallocarray(s->v, cap, sizeof(*v));

		if (v == NULL)
			return -ENOMEM;
		s->v = v;
		s->cap = cap;
	}
	path = strdup(l->path);
	if (path == NULL)
		return -ENOMEM;
	e = &s->v[s->n++];
	e->path = path;
	e->type = l->type;
	e->mode = l->mode;
	e->size = l->size;
	e->ctime_ns = l->ctime_ns;
	e->inode = l->inode;
	return 0;
}

static int listing_out(void *arg, unsigned int stream, const uint8_t *p, size_t n)
{
	struct snapshot *s = arg;

	return stream == 1 ? listing_feed(&s->reader, p, n, add_entry, s) : 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path);
}

int snapshot_take(struct box_client *b, struct snapshot **ret, struct err *e)
{
	static const char *const argv[] = { "tree", ".", NULL };
	struct snapshot *s = calloc(1, sizeof(*s));
	struct job_io io = { .in_fd = -1, .out = listing_out, .interrupt_fd = -1, .arg = s };
	int r;

	if (s == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "list the workspace");
	r = run_file_job(b, 0, argv, &io, "list", workspace, true, e);
	if (r < 0 || listing_end(&s->reader) < 0) {
		snapshot_free(s);
		return r < 0 ? -1 : err_set(e, ERR_PROTO, 0, "the box sent half a listing");
	}
	s->trouble = s->trouble || r != 0;
	qsort(s->v, s->n, sizeof(*s->v), by_path);
	*ret = s;
	return 0;
}

/* --- out ------------------------------------------------------------------------------------- */

struct sink {
	int fd;
	uint64_t left; /* bytes that may still come */
	bool headed;   /* the record in front of them has come */
	struct listing_reader reader;
};

static int sink_out(void *arg, unsigned int stream, const uint8_t *p, size_t n)
{
	struct sink *s = arg;

	if (stream != 1)
		return 0;
	if (!s->headed) {
		const struct listing_entry *head;
		ptrdiff_t used = listing_first(&s->reader, p, n, &head);

		if (used < 0)
			return (int)used;
		s->headed = head != NULL;
		p += used;
		n -= (size_t)used;
	}
	if (n > s->left)
		return -EFBIG;
	s->left -= n;
	return io_write_all(s->fd, p, n);
}

static int open_beneath(int dir, const char *path, uint64_t flags, uint64_t mode)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC | O_NOFOLLOW,
		.mode = mode,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};

	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

/* The directory of `path` below dir, made where it is missing. */
static int open_parent(int dir, const char *path)
{
	char copy[PATH_MAX];
	char *end = copy;

	(void)snprintf(copy, sizeof(copy), "%s", path);
	while ((end = strchr(end, '/')) != NULL) {
		int parent;

		*end = '\0';
		parent = open_beneath(dir, copy, O_PATH | O_DIRECTORY, 0);
		if (parent < 0) {
			char *last = strrchr(copy, '/');
			own_fd above = -1;

			if (last != NULL)
				*last = '\0';
			above = last != NULL ? open_beneath(dir, copy, O_PATH | O_DIRECTORY, 0)
					     : fcntl(dir, F_DUPFD_CLOEXEC, 3);
			if (last != NULL)
				*last = '/';
			/* Another run may have made it meanwhile. */
			if (above < 0 ||
			    (mkdirat(above, last != NULL ? last + 1 : copy, 0755) < 0 &&
			     errno != EEXIST))
				return -errno;
		} else {
			(void)close(parent);
		}
		*end++ = '/';
	}
	end = strrchr(copy, '/');
	if (end == NULL)
		return fcntl(dir, F_DUPFD_CLOEXEC, 3);
	*end = '\0';
	return open_beneath(dir, copy, O_PATH | O_DIRECTORY, 0);
}

static int fetch(struct box_client *b, int dir, const struct entry *f, struct err *e)
{
	const char *const argv[] = { "read", f->path, "nofollow", "0", "", "", "", NULL };
	const char *slash = strrchr(f->path, '/');
	const char *name = slash != NULL ? slash + 1 : f->path;
	own_fd parent = open_parent(dir, f->path);
	struct sink sink = { .fd = -1, .left = f->size };
	struct job_io io = { .in_fd = -1, .out = sink_out, .interrupt_fd = -1, .arg = &sink };
	char temp[64];
	own_fd file = -1;
	int r;

	if (parent < 0)
		return err_set(e, ERR_INPUT, -parent, "make the directory of '%s'", f->path);
	(void)snprintf(temp, sizeof(temp), ".glovebox-%d", (int)getpid());
	(void)unlinkat(parent, temp, 0);
	file = openat(parent, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		      f->mode & 0777);
	if (file < 0)
		return err_set(e, ERR_INPUT, errno, "write '%s'", f->path);
	sink.fd = file;
	r = run_file_job(b, 0, argv, &io, "fetch file", f->path, true, e);
	if (r != 0) { /* above 0: the box says that it cannot be read */
		(void)unlinkat(parent, temp, 0);
		return r;
	}
	if (renameat(parent, temp, parent, name) < 0) {
		(void)err_set(e, ERR_INPUT, errno, "write '%s'", f->path);
		(void)unlinkat(parent, temp, 0);
		return -1;
	}
	return 0;
}

static bool is_news(const struct snapshot *before, const struct entry *f)
{
	const struct entry *old =
		before->n == 0 ? NULL
			       : bsearch(f, before->v, before->n, sizeof(*before->v), by_path);

	return old == NULL || old->type != 'f' || old->inode != f->inode ||
	       old->ctime_ns != f->ctime_ns || old->size != f->size;
}

static int note(struct run_result *res, const char *path)
{
	char **v = reallocarray(res->files, res->nfiles + 1, sizeof(*v));

	if (v == NULL)
		return -1;
	res->files = v;
	v[res->nfiles] = strdup(path);
	return v[res->nfiles++] == NULL ? -1 : 0;
}

int collect_open(const char *dir, int *ret_fd, struct err *e)
{
	if (mkdir(dir, 0777) < 0 && errno != EEXIST)
		return err_set(e, ERR_INPUT, errno, "make '%s'", dir);
	*ret_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (*ret_fd < 0)
		return err_set(e, ERR_INPUT, errno, "open '%s'", dir);
	if (faccessat(*ret_fd, ".", W_OK, AT_EACCESS) < 0)
		return err_set(e, ERR_INPUT, errno, "write to '%s'", dir);
	return 0;
}

int collect(struct box_client *b, const struct snapshot *before, int out, uint64_t max_bytes,
	    struct run_result *res, struct err *e)
{
	struct snapshot *after = NULL;
	int r = 0;

	if (snapshot_take(b, &after, e) < 0 || after == NULL)
		return -1;
	res->nskipped += after->trouble;
	for (size_t i = 0; i < after->n && r >= 0; i++) {
		const struct entry *f = &after->v[i];

		if (f->type != 'f' || !is_news(before, f))
			continue;
		/* A sparse file can claim any size. */
		r = f->size > max_bytes ? 1 : fetch(b, out, f, e);
		if (r > 0) {
			res->nskipped++;
		} else if (r == 0) {
			max_bytes -= f->size;
			r = note(res, f->path);
		}
	}
	snapshot_free(after);
	return r < 0 ? -1 : 0;
}
