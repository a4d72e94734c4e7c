// SPDX-License-Identifier: Apache-2.0
/*
 * pack PATH FORMAT WHAT: what is below PATH as an archive, to standard output.
 *
 * In the order in which directories have their names, a directory before what is in it. Owners are nobody's business; sockets, pipes and devices are left
 * out, as is what goes away meanwhile. What cannot be read is left out, too, and the end is an error; so it is when a file changes its size while it is
 * read, of which the archive has what its header says.
 */
#include "archive/archive.h"

#include "archive/walk.h"

#include "base/io.h"
#include "base/own.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE = 64 * 1024 };

struct packer {
	struct fault *fault;
	struct walk walk;
	struct archive *archive;
	struct archive_entry *entry;
	bool files; /* nothing else */
	char path[PATH_MAX];
	char target[PATH_MAX];
	char buf[PIECE];
};

/* It is missing, and the rest goes on. */
static void note(struct packer *p, int error, const char *why)
{
	char text[SHOWN_MAX];

	(void)fault_set(p->fault, error, "'%s': %s", shown(p->path, text), why);
}

static int fail_write(struct packer *p)
{
	int error = archive_errno(p->archive);
	const char *said = archive_error_string(p->archive);

	return fault_set(p->fault, error > 0 ? error : EIO, "write the archive: %s",
			 said != NULL ? said : strerror(error));
}

static la_ssize_t put(struct archive *a, void *arg, const void *bytes, size_t n)
{
	int r = io_write_all(STDOUT_FILENO, bytes, n);

	(void)arg;
	if (r < 0)
		archive_set_error(a, -r, "%s", strerror(-r));
	return r < 0 ? -1 : (la_ssize_t)n;
}

static int put_head(struct packer *p, const struct stat *st)
{
	struct archive_entry *e = p->entry;
	int r;

	(void)archive_entry_clear(e);
	archive_entry_copy_pathname(e, p->path);
	archive_entry_set_mode(e, st->st_mode & (S_IFMT | 0777));
	archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	if (S_ISREG(st->st_mode))
		archive_entry_set_size(e, st->st_size);
	if (S_ISLNK(st->st_mode))
		archive_entry_copy_symlink(e, p->target);
	r = archive_write_header(p->archive, e);
	return r < ARCHIVE_WARN ? fail_write(p) : 0;
}

/* As many bytes as the header says; the library fills up what is missing. */
static int put_data(struct packer *p, int fd, uint64_t size)
{
	while (size > 0) {
		size_t want = size < sizeof(p->buf) ? (size_t)size : sizeof(p->buf);
		ssize_t n = read(fd, p->buf, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			note(p, n < 0 ? errno : EAGAIN,
			     n < 0 ? strerror(errno) : "it was cut while it was read");
			return 0;
		}
		if (archive_write_data(p->archive, p->buf, (size_t)n) != n)
			return fail_write(p);
		size -= (uint64_t)n;
	}
	if (read(fd, p->buf, 1) > 0)
		note(p, EAGAIN, "it grew while it was read");
	return 0;
}

static int pack_file(struct packer *p)
{
	own_fd fd = openat(p->walk.dir, p->walk.name,
			   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0) {
		note(p, errno, strerror(errno));
		return 0;
	}
	if (!S_ISREG(st.st_mode)) /* it is another one by now */
		return 0;
	if (put_head(p, &st) < 0 || put_data(p, fd, (uint64_t)st.st_size) < 0)
		return -1;
	return archive_write_finish_entry(p->archive) < ARCHIVE_WARN ? fail_write(p) : 0;
}

static int pack_link(struct packer *p, const struct stat *st)
{
	ssize_t n = readlinkat(p->walk.dir, p->walk.name, p->target, sizeof(p->target) - 1);

	if (n < 0)
		return 0;
	p->target[n] = '\0';
	return put_head(p, st);
}

static int pack_directory(struct packer *p, const struct stat *st)
{
	int r = p->files ? 0 : put_head(p, st);

	if (r < 0)
		return r;
	r = walk_enter(&p->walk);
	if (r < 0 && r != -ENOENT)
		note(p, -r, strerror(-r));
	return 0;
}

static int pack_one(struct packer *p)
{
	struct stat st;

	if (is_hidden_name(p->walk.name))
		return 0;
	if (!walk_path(&p->walk, p->path)) {
		(void)snprintf(p->path, sizeof(p->path), "%s", p->walk.name);
		note(p, ENAMETOOLONG, strerror(ENAMETOOLONG));
		return 0;
	}
	if (fstatat(p->walk.dir, p->walk.name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno != ENOENT)
			note(p, errno, strerror(errno));
		return 0;
	}
	if (S_ISDIR(st.st_mode))
		return pack_directory(p, &st);
	if (S_ISREG(st.st_mode))
		return pack_file(p);
	return S_ISLNK(st.st_mode) && !p->files ? pack_link(p, &st) : 0;
}

static int begin(struct packer *p, bool gzip)
{
	struct archive *a = archive_write_new();

	p->archive = a;
	p->entry = archive_entry_new();
	if (a == NULL || p->entry == NULL)
		return fault_set(p->fault, ENOMEM, "no memory");
	/* pax where it is needed, without a time of the compression, and no more zeros than there have to be. */
	if (archive_write_set_format_pax_restricted(a) != ARCHIVE_OK ||
	    (gzip &&
	     (archive_write_add_filter_gzip(a) != ARCHIVE_OK ||
	      archive_write_set_filter_option(a, "gzip", "timestamp", NULL) != ARCHIVE_OK)) ||
	    archive_write_set_bytes_per_block(a, PIECE) != ARCHIVE_OK ||
	    archive_write_set_bytes_in_last_block(a, 1) != ARCHIVE_OK ||
	    archive_write_open(a, p, NULL, put, NULL) != ARCHIVE_OK)
		return fail_write(p);
	return 0;
}

static int pack_all(struct packer *p)
{
	int event, r = 0;

	while (r == 0 && (event = walk_next(&p->walk)) != WALK_END)
		if (event == WALK_NAME)
			r = pack_one(p);
	return r == 0 && archive_write_close(p->archive) < ARCHIVE_WARN ? fail_write(p) : r;
}

int pack(char *const args[], struct fault *f)
{
	static struct packer p;
	bool gzip = strcmp(args[1], "tar.gz") == 0;
	char text[SHOWN_MAX];
	own_fd root = -1;
	int r;

	p.fault = f;
	p.files = strcmp(args[2], "files") == 0;
	if ((!gzip && strcmp(args[1], "tar") != 0) || (!p.files && strcmp(args[2], "all") != 0))
		return fault_set(f, EINVAL,
				 "usage: glovebox-archive pack PATH tar|tar.gz all|files");
	root = open(args[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = root < 0 ? -errno : walk_begin(&p.walk, root, false);
	if (r < 0)
		return fault_set(f, -r, "'%s': %s", shown(args[0], text), strerror(-r));
	if (begin(&p, gzip) == 0)
		(void)pack_all(&p);
	walk_end(&p.walk);
	archive_entry_free(p.entry);
	(void)archive_write_free(p.archive);
	return f->error != 0 ? -1 : 0;
}
