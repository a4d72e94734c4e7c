// SPDX-License-Identifier: Apache-2.0
/*
 * unpack PATH FORMAT MAX_BYTES MAX_ENTRIES: an archive from standard input, below PATH. All of it or nothing.
 *
 * Two readers see every header: the guard (source.h), which knows where members begin and end, and libarchive, which knows what they are. They
 * go in step, and must agree on how many members there were and on the size of each. What libarchive says is then checked again
 * here, member by member, before anything is written, and written to the staging directory (stage.h). When the whole archive was read it is
 * known whether it fits to what is there (place.h), and only then it is moved.
 *
 * SIGTERM ends it at any time before that, and nothing is left.
 */
#include "archive/archive.h"

#include "archive/copy.h"
#include "archive/names.h"
#include "archive/place.h"
#include "archive/source.h"
#include "archive/stage.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "wire/listing.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>

struct unpacker {
	struct fault *fault;
	struct source source;
	struct stage stage;
	struct archive *archive;
	struct archive_entry *entry;
	uint64_t max_bytes, max_entries, bytes, entries; /* max 0: any number */
	const char *name;                                /* of the member, as the archive has it */
	char path[PATH_MAX];                             /* and as we have it */
	const char *last;                                /* its last part */
	int parent;                                      /* the directory that it is in */
	int stop_fd;
};

/* --- what is said --------------------------------------------------------------------------------- */

static int refuse(struct unpacker *u, const char *why)
{
	char text[SHOWN_MAX];

	return fault_set(u->fault, EBADMSG, "member %llu of the archive: '%s' %s",
			 (unsigned long long)u->entries, shown(u->name, text), why);
}

static int fail_sys(struct unpacker *u, int error)
{
	char text[SHOWN_MAX];

	return fault_set(u->fault, error, "member %llu of the archive: '%s': %s",
			 (unsigned long long)u->entries, shown(u->name, text), strerror(error));
}

/* Nothing more comes of that member: by the guard, by the input, or by libarchive. */
static int fail_read(struct unpacker *u, uint64_t member)
{
	const struct source *s = &u->source;
	const char *said = archive_error_string(u->archive);

	if (s->guard.state == TAR_GUARD_REFUSED && s->guard.about > 0)
		return fault_set(u->fault, EBADMSG, "member %llu of the archive: %s",
				 (unsigned long long)s->guard.about, s->why);
	if (s->error != 0)
		return fault_set(u->fault, s->error, "%s", s->why);
	if (archive_errno(u->archive) == ENOMEM)
		return fault_set(u->fault, EBADMSG,
				 "member %llu of the archive: it takes too much memory to read",
				 (unsigned long long)member);
	return fault_set(u->fault, EBADMSG, "member %llu of the archive: %s",
			 (unsigned long long)member, said != NULL ? said : "it is damaged");
}

/* --- one member ----------------------------------------------------------------------------------- */

static struct timespec mtime_of(struct archive_entry *e)
{
	return (struct timespec){ .tv_sec = archive_entry_mtime(e),
				  .tv_nsec = archive_entry_mtime_nsec(e) };
}

/* Something of that name came before: of the same kind it makes room, anything else is refused. */
static int make_room(struct unpacker *u, mode_t type)
{
	struct stat st;

	if (fstatat(u->parent, u->last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_sys(u, errno);
	if ((st.st_mode & S_IFMT) != type)
		return refuse(u, "is there twice, and not as the same");
	return unlinkat(u->parent, u->last, 0) < 0 ? fail_sys(u, errno) : 0;
}

/* Contents, with holes where a sparse file has some. */
static int write_data(struct unpacker *u, int fd, uint64_t size)
{
	uint64_t end = 0;

	for (;;) {
		const char *p;
		const void *block;
		size_t n;
		la_int64_t at;
		int r = archive_read_data_block(u->archive, &block, &n, &at);

		if (r == ARCHIVE_EOF)
			break;
		if (r != ARCHIVE_OK)
			return fail_read(u, u->entries);
		if (at < 0 || (uint64_t)at < end || (uint64_t)at > size || n > size - (uint64_t)at)
			return refuse(u, "has a map that is wrong");
		end = (uint64_t)at + n;
		for (p = block; n > 0;) {
			ssize_t done = pwrite(fd, p, n, at);

			if (done < 0)
				return fail_sys(u, errno);
			p += done;
			n -= (size_t)done;
			at += done;
		}
	}
	if (end < size && !u->source.guard.sparse)
		return refuse(u, "has two sizes");
	return end < size && ftruncate(fd, (off_t)size) < 0 ? fail_sys(u, errno) : 0;
}

static int count_bytes(struct unpacker *u, uint64_t size)
{
	if (u->max_bytes != 0 && size > u->max_bytes - u->bytes)
		return refuse(u, "is one too many: the archive is larger than it may be");
	u->bytes += size;
	return 0;
}

static int take_file(struct unpacker *u)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, mtime_of(u->entry) };
	la_int64_t size = archive_entry_size(u->entry);
	own_fd fd = -1;

	if (size < 0 || (!u->source.guard.sparse && (uint64_t)size != u->source.guard.size))
		return refuse(u, "has two sizes");
	if (count_bytes(u, (uint64_t)size) < 0)
		return -1;
	fd = openat(u->parent, u->last, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST) {
		if (make_room(u, S_IFREG) < 0)
			return -1;
		fd = openat(u->parent, u->last,
			    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	if (fd < 0)
		return fail_sys(u, errno);
	if (write_data(u, fd, (uint64_t)size) < 0)
		return -1;
	return fchmod(fd, archive_entry_perm(u->entry)) < 0 || futimens(fd, times) < 0
		       ? fail_sys(u, errno)
		       : 0;
}

static int take_directory(struct unpacker *u)
{
	struct stat st;
	int r;

	if (u->source.guard.size != 0)
		return refuse(u, "is a directory with contents");
	if (mkdirat(u->parent, u->last, 0700) < 0) {
		if (errno != EEXIST || fstatat(u->parent, u->last, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return fail_sys(u, errno);
		if (!S_ISDIR(st.st_mode))
			return refuse(u, "is there twice, and not as the same");
	}
	r = stage_note(&u->stage, u->path, archive_entry_perm(u->entry), mtime_of(u->entry));
	return r < 0 ? fail_sys(u, -r) : 0;
}

static int take_symlink(struct unpacker *u)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, mtime_of(u->entry) };
	const char *target = archive_entry_symlink(u->entry), *why;

	if (target == NULL)
		return refuse(u, "leads nowhere");
	if (link_check(u->path, target, &why) < 0)
		return refuse(u, why);
	if (symlinkat(target, u->parent, u->last) < 0) {
		if (errno != EEXIST)
			return fail_sys(u, errno);
		if (make_room(u, S_IFLNK) < 0)
			return -1;
		if (symlinkat(target, u->parent, u->last) < 0)
			return fail_sys(u, errno);
	}
	return utimensat(u->parent, u->last, times, AT_SYMLINK_NOFOLLOW) < 0 ? fail_sys(u, errno)
									     : 0;
}

/* Where a file can have a second name in its own directory only. */
static int copy_instead(struct unpacker *u, int dir, const char *name, const struct stat *st)
{
	int r;

	if (count_bytes(u, (uint64_t)st->st_size) < 0)
		return -1;
	r = copy_one(dir, name, st, u->parent, u->last);
	return r < 0 ? fail_sys(u, -r) : 0;
}

/* To a file that came before, and to nothing else. */
static int take_hard_link(struct unpacker *u, const char *target)
{
	char path[PATH_MAX], directory[PATH_MAX];
	own_fd dir = -1;
	const char *why, *last;
	struct stat st, there;
	char *slash;

	if (name_take(target, path, &why) < 0 || path[0] == '\0')
		return refuse(u, "leads out");
	if (strcmp(path, u->path) == 0)
		return refuse(u, "is a link to itself");
	(void)memcpy(directory, path, sizeof(path));
	slash = strrchr(directory, '/');
	directory[slash != NULL ? slash - directory : 0] = '\0';
	last = slash != NULL ? path + (slash - directory) + 1 : path;
	dir = beneath_open(u->stage.dir, directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fstatat(dir, last, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return refuse(u, "is a link to what is no file of the archive");
	if (fstatat(u->parent, u->last, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	    make_room(u, S_IFREG) < 0)
		return -1;
	if (linkat(dir, last, u->parent, u->last, 0) == 0)
		return 0;
	return errno == EXDEV ? copy_instead(u, dir, last, &st) : fail_sys(u, errno);
}

static int take_member(struct unpacker *u)
{
	struct archive_entry *e = u->entry;
	const char *why, *hard = archive_entry_hardlink(e);
	mode_t type = archive_entry_filetype(e);

	if (name_take(u->name, u->path, &why) < 0)
		return refuse(u, why);
	if ((archive_entry_perm(e) & 07000) != 0)
		return refuse(u, "has a setuid, setgid or sticky bit");
	if (u->path[0] == '\0')
		return type == AE_IFDIR ? 0 : refuse(u, "is no directory");
	u->parent = stage_parent(&u->stage, u->path, &u->last);
	if (u->parent == -ENOTDIR)
		return refuse(u, "lies below what is no directory");
	if (u->parent < 0)
		return fail_sys(u, -u->parent);
	if (hard != NULL)
		return take_hard_link(u, hard);
	if (type == AE_IFREG)
		return take_file(u);
	if (type == AE_IFDIR)
		return take_directory(u);
	return type == AE_IFLNK ? take_symlink(u)
				: refuse(u, "is neither file, directory nor link");
}

/* --- the archive ---------------------------------------------------------------------------------- */

static la_ssize_t give(struct archive *a, void *arg, const void **ret)
{
	struct unpacker *u = arg;
	ssize_t n = source_piece(&u->source, ret);

	if (n < 0)
		archive_set_error(a, u->source.error, "%s", u->source.why);
	return n;
}

/* Names that are not UTF-8, where pax wants them to be, are taken as they are. */
static bool is_taken(struct archive *a, int r)
{
	return r == ARCHIVE_OK || (r == ARCHIVE_WARN && archive_errno(a) == EILSEQ);
}

static int take_all(struct unpacker *u)
{
	int r;

	while ((r = archive_read_next_header(u->archive, &u->entry)) != ARCHIVE_EOF) {
		if (!is_taken(u->archive, r))
			return fail_read(u, u->entries + 1);
		u->name = archive_entry_pathname(u->entry);
		u->entries++;
		if (u->name == NULL || u->entries != u->source.guard.members)
			return fault_set(u->fault, EBADMSG,
					 "member %llu of the archive: it can be read in two ways",
					 (unsigned long long)u->entries);
		if (u->max_entries != 0 && u->entries > u->max_entries)
			return refuse(u, "is one too many");
		if (take_member(u) < 0)
			return -1;
	}
	return u->source.guard.state != TAR_GUARD_END || source_rest(&u->source) < 0
		       ? fail_read(u, u->entries + 1)
		       : 0;
}

static int read_archive(struct unpacker *u)
{
	int r = -1;

	u->archive = archive_read_new();
	if (u->archive == NULL)
		return fault_set(u->fault, ENOMEM, "no memory");
	if (archive_read_support_format_tar(u->archive) != ARCHIVE_OK ||
	    archive_read_open(u->archive, u, NULL, give, NULL) != ARCHIVE_OK)
		(void)fail_read(u, u->entries + 1);
	else
		r = take_all(u);
	(void)archive_read_free(u->archive);
	return r;
}

/* --- the whole ------------------------------------------------------------------------------------ */

/* From now on these are heard where we want to hear them. */
static int open_stop(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

static bool is_stopped(int stop_fd)
{
	struct pollfd p = { .fd = stop_fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static uint64_t time_ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The target, as a file operation tells of one: its name is the last part of what was asked for. */
static int answer(struct unpacker *u, const char *path)
{
	static struct listing_entry e;
	static uint8_t buf[LISTING_HEADER + LISTING_RECORD_MAX];
	size_t n = strlen(path), start;
	struct stat st;
	ptrdiff_t len;

	if (fstat(u->stage.target, &st) < 0)
		return fault_set(u->fault, errno, "%s", strerror(errno));
	while (n > 0 && path[n - 1] == '/')
		n--;
	for (start = n; start > 0 && path[start - 1] != '/';)
		start--;
	(void)memcpy(e.path, n > start ? path + start : ".", n > start ? n - start : 1);
	e.type = 'd';
	e.mode = st.st_mode & 07777;
	e.size = (uint64_t)st.st_size;
	e.mtime_ns = time_ns(st.st_mtim);
	e.ctime_ns = time_ns(st.st_ctim);
	e.inode = st.st_ino;
	len = listing_encode(&e, buf, sizeof(buf));
	if (len > 0)
		(void)io_write_all(STDOUT_FILENO, buf, (size_t)len);
	return 0;
}

static int take_arguments(struct unpacker *u, char *const args[])
{
	if (strcmp(args[1], "auto") != 0 || args[0][0] == '\0' || strlen(args[0]) >= PATH_MAX ||
	    str_to_u64(args[2], UINT64_MAX, &u->max_bytes) < 0 ||
	    str_to_u64(args[3], UINT64_MAX, &u->max_entries) < 0)
		return fault_set(u->fault, EINVAL,
				 "usage: glovebox-archive unpack PATH auto MAX_BYTES MAX_ENTRIES");
	return 0;
}

static int unpack_here(struct unpacker *u)
{
	int r;

	if (read_archive(u) < 0)
		return -1;
	r = stage_dress(&u->stage);
	if (r < 0)
		return fault_set(u->fault, -r, "what was unpacked: %s", strerror(-r));
	if (place_check(u->stage.dir, u->stage.target, u->fault) < 0)
		return -1;
	if (is_stopped(u->stop_fd))
		return fault_set(u->fault, EINTR, "asked to stop");
	return place_move(u->stage.dir, u->stage.target, u->fault);
}

/* libarchive has a way out of its own, when it has no memory. */
static struct unpacker *running;

static void leave(void)
{
	if (running != NULL) {
		stage_end(&running->stage, false);
		_exit(EBADMSG);
	}
}

int unpack(char *const args[], struct fault *f)
{
	static struct unpacker u;
	int r;

	u.fault = f;
	if (take_arguments(&u, args) < 0)
		return -1;
	(void)signal(SIGXFSZ, SIG_IGN); /* too large is EFBIG, not our end */
	(void)signal(SIGPIPE, SIG_IGN);
	u.stop_fd = open_stop();
	if (u.stop_fd < 0)
		return fault_set(f, errno, "%s", strerror(errno));
	if (stage_begin(&u.stage, args[0], f) < 0)
		return -1;
	source_init(&u.source, STDIN_FILENO, u.stop_fd);
	running = &u;
	r = atexit(leave) != 0 ? fault_set(f, ENOMEM, "no memory") : unpack_here(&u);
	running = NULL;
	source_done(&u.source);
	if (r == 0)
		r = answer(&u, args[0]);
	stage_end(&u.stage, r == 0);
	return r;
}
