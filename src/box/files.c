// SPDX-License-Identifier: Apache-2.0
/*
 * Which operation it is (files.h). Packing and unpacking are another program's work, which takes the child's place: what it takes to
 * read archives is not to be in init.
 */
#include "box/files.h"
#include "box/init.h"

#include "base/own.h"
#include "wire/fileop.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

enum { ARCHIVE_WORDS = 8, WORDS_MAX = 6 };

static int file_archive(const struct file_job *f)
{
	const char *argv[ARCHIVE_WORDS] = { "glovebox-archive", f->argv[0], f->path };

	for (unsigned int i = 0; i + 4 < ARCHIVE_WORDS && f->words[i] != NULL; i++)
		argv[i + 3] = f->words[i];
	(void)syscall(SYS_execveat, f->archive_fd, "", argv, f->envp, AT_EMPTY_PATH);
	return errno;
}

static int (*const handlers[FILEOP_MAX])(const struct file_job *f) = {
	[FILEOP_STAT] = file_stat,    [FILEOP_READ] = file_read,      [FILEOP_WRITE] = file_write,
	[FILEOP_MKDIR] = file_mkdir,  [FILEOP_DELETE] = file_delete,  [FILEOP_MOVE] = file_move,
	[FILEOP_LIST] = file_list,    [FILEOP_TREE] = file_tree,      [FILEOP_WATCH] = file_watch,
	[FILEOP_PACK] = file_archive, [FILEOP_UNPACK] = file_archive,
};

bool files_need_archive(const struct job_spec *spec)
{
	int op = spec->kind == JOB_FILE ? fileop_find(spec->argv) : -1;

	return op == FILEOP_PACK || op == FILEOP_UNPACK;
}

/* Operations that have one path, and for which it is something below the working directory. */
static const struct {
	bool possible;
	enum beneath_last last;
	bool links; /* the first word says whether they are followed: they have been */
} beneath[FILEOP_MAX] = {
	[FILEOP_STAT] = { true, BENEATH_FILE, true },
	[FILEOP_READ] = { true, BENEATH_FILE, true },
	[FILEOP_WRITE] = { true, BENEATH_NAME, false },
	[FILEOP_MKDIR] = { true, BENEATH_NAME, false },
	[FILEOP_DELETE] = { true, BENEATH_NAME, false },
	[FILEOP_LIST] = { true, BENEATH_DIRECTORY, false },
	[FILEOP_TREE] = { true, BENEATH_DIRECTORY, false },
	[FILEOP_PACK] = { true, BENEATH_DIRECTORY, false },
	[FILEOP_UNPACK] = { true, BENEATH_DIRECTORY, false },
};

static int run_beneath(struct file_job *f, int op)
{
	const char *words[WORDS_MAX + 1] = { NULL };
	char path[PATH_MAX];
	int r = beneath[op].possible ? beneath_enter(f->path, beneath[op].last, path) : EINVAL;

	if (r == ENOENT && op == FILEOP_UNPACK) /* which makes it */
		r = beneath_enter(f->path, BENEATH_NAME, path);
	if (r != 0)
		return r;
	for (unsigned int i = 0; i < WORDS_MAX && f->words[i] != NULL; i++)
		words[i] = f->words[i];
	if (beneath[op].links)
		words[0] = "nofollow";
	f->path = path;
	f->words = words;
	return handlers[op](f);
}

int files_run(const struct job_spec *spec, int archive_fd)
{
	struct file_job f = { .argv = spec->argv,
			      .envp = spec->envp,
			      .path = spec->argv[1], /* a job of this kind has two words at least */
			      .words = spec->argv + 2,
			      .archive_fd = archive_fd };
	int op = fileop_find(spec->argv);

	if (op < 0)
		return -op;
	(void)signal(SIGXFSZ, SIG_IGN); /* too large is EFBIG, not our end */
	return (spec->flags & JOB_BENEATH) != 0 ? run_beneath(&f, op) : handlers[op](&f);
}
