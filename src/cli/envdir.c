// SPDX-License-Identifier: Apache-2.0
#include "cli/envdir.h"

#include "base/clock.h"
#include "base/config.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "cli/envtree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

extern char **environ;

enum { PAGE_MAX = 16 * 1024 };

static const char page_name[] = "environment";

/* --- the directory ---------------------------------------------------------------------------- */

int envdir_usual(char ret[PATH_MAX], struct err *e)
{
	char state[PATH_MAX - 16];
	const char *named = getenv("GLOVEBOX_ENVIRONMENTS_DIR");

	if (named != NULL && named[0] != '\0') {
		(void)snprintf(ret, PATH_MAX, "%s", named);
		return 0;
	}
	if (config_state_dir(geteuid(), environ, state, sizeof(state)) < 0)
		return err_set(e, ERR_INPUT, 0,
			       "there is no directory for environments: name one by --dir");
	(void)snprintf(ret, PATH_MAX, "%s/environments", state);
	return 0;
}

static int make_all(const char *path)
{
	char at[PATH_MAX];

	(void)snprintf(at, sizeof(at), "%s", path);
	for (char *p = at + 1; *p != '\0'; p++) {
		if (*p != '/')
			continue;
		*p = '\0';
		if (mkdir(at, 0755) < 0 && errno != EEXIST)
			return -errno;
		*p = '/';
	}
	return mkdir(at, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

int envdir_open(struct envdir *d, const char *path, struct err *e)
{
	struct stat st;
	int r;

	d->fd = -1;
	if (path[0] != '/' || snprintf(d->path, sizeof(d->path), "%s", path) >= PATH_MAX - 256)
		return err_set(e, ERR_INPUT, 0, "environments_dir '%s' is no absolute path", path);
	r = make_all(path);
	d->fd = r < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->fd < 0)
		return err_set(e, ERR_INPUT, r < 0 ? -r : errno, "environments_dir '%s'", path);
	/* What boxes show is as trustworthy as whoever can write here. */
	if (fstat(d->fd, &st) < 0 || (st.st_uid != 0 && st.st_uid != geteuid()) ||
	    (st.st_mode & 022) != 0) {
		fd_close(&d->fd);
		(void)err_set(e, ERR_INPUT, 0, "environments_dir '%s' can be written to by others",
			      path);
		return err_hint(e, "it must belong to root or to you: chmod go-w '%s'", path);
	}
	return 0;
}

void envdir_close(struct envdir *d)
{
	fd_close(&d->fd);
}

int envdir_version(const struct envdir *d, const char *name, char ret[ENVDIR_VERSION])
{
	ssize_t n = env_is_name(name) ? readlinkat(d->fd, name, ret, ENVDIR_VERSION - 1) : -1;
	size_t len = strlen(name);

	if (n < 0 || n == ENVDIR_VERSION - 1) /* or cut off */
		return -ENOENT;
	ret[n] = '\0';
	if (strncmp(ret, name, len) != 0 || ret[len] != '@' || strchr(ret, '/') != NULL)
		return -ENOENT;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

char **envdir_names(const struct envdir *d)
{
	int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	char **names = calloc(ENVS_MAX + 1, sizeof(*names)), version[ENVDIR_VERSION];
	const struct dirent *entry;
	size_t n = 0;

	while (dir != NULL && names != NULL && n < ENVS_MAX && (entry = readdir(dir)) != NULL) {
		if (envdir_version(d, entry->d_name, version) < 0)
			continue;
		names[n] = strdup(entry->d_name);
		if (names[n] != NULL)
			n++;
	}
	if (dir != NULL)
		(void)closedir(dir);
	if (names != NULL)
		qsort(names, n, sizeof(*names), by_name);
	return names;
}

void envdir_names_free(char **names)
{
	for (char **n = names; n != NULL && *n != NULL; n++)
		free(*n);
	free(names);
}

/* --- the page ----------------------------------------------------------------------------------- */

static int take_kind(struct env_row *r, const char *value)
{
	for (int i = 0; i < ENV_KIND_MAX; i++)
		if (strcmp(value, env_kind_str[i]) == 0) {
			r->kind = (enum env_kind)i;
			return 0;
		}
	return -1;
}

static int take_text(char *to, size_t size, const char *value)
{
	return snprintf(to, size, "%s", value) >= (int)size ? -1 : 0;
}

static int take_pool(struct env_row *r, const char *value)
{
	uint64_t n;

	if (str_to_u64(value, UINT32_MAX, &n) < 0)
		return -1;
	r->pool = (uint32_t)n;
	return 0;
}

static int take_variable(struct env_row *r, const char *value)
{
	size_t n = strlen(value) + 1;

	if (value[0] == '=' || strchr(value, '=') == NULL ||
	    n > sizeof(r->variables) - r->variables_len)
		return -1;
	(void)memcpy(r->variables + r->variables_len, value, n);
	r->variables_len += n;
	return 0;
}

static int take_key(struct env_row *r, const char *key, const char *value)
{
	if (strcmp(key, "kind") == 0)
		return take_kind(r, value);
	if (strcmp(key, "python") == 0)
		return path_is_plain_abs(value) ? take_text(r->python, sizeof(r->python), value)
						: -1;
	if (strcmp(key, "path") == 0)
		return take_text(r->path, sizeof(r->path), value);
	if (strcmp(key, "imports") == 0)
		return take_text(r->imports, sizeof(r->imports), value);
	if (strcmp(key, "python_version") == 0)
		return take_text(r->version, sizeof(r->version), value);
	if (strcmp(key, "variable") == 0)
		return take_variable(r, value);
	if (strcmp(key, "cells") == 0) {
		r->cells = strcmp(value, "yes") == 0;
		return 0;
	}
	if (strcmp(key, "pool") == 0)
		return take_pool(r, value);
	if (strcmp(key, "bytes") == 0)
		return str_to_u64(value, INT64_MAX, &r->bytes);
	if (strcmp(key, "made_ms") == 0)
		return str_to_u64(value, INT64_MAX, &r->made_ms);
	return 0; /* of another version of ours */
}

/* "key = value". A line that is wrong is a page that is. */
static int take_line(struct env_row *r, char *line)
{
	char *equals = strstr(line, " = ");

	if (line[0] == '\0' || line[0] == '#')
		return 0;
	if (equals == NULL)
		return -1;
	*equals = '\0';
	return take_key(r, line, equals + 3);
}

int envdir_read(const struct envdir *d, const char *version, struct env_row *ret, struct err *e)
{
	static char text[PAGE_MAX];
	char path[ENVDIR_VERSION + 16], *save = NULL;
	const char *at = strchr(version, '@');
	own_fd fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/%s", version, page_name);
	fd = openat(d->fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	n = fd < 0 ? -errno : io_read_full(fd, text, sizeof(text) - 1);
	if (n < 0 || at == NULL)
		return err_set(e, ERR_INPUT, (int)-n, "environment '%s'", version);
	text[n] = '\0';
	*ret = (struct env_row){ 0 };
	(void)snprintf(ret->name, sizeof(ret->name), "%.*s", (int)(at - version), version);
	for (char *line = strtok_r(text, "\n", &save); line != NULL;
	     line = strtok_r(NULL, "\n", &save))
		if (take_line(ret, line) < 0)
			return err_set(e, ERR_INPUT, 0, "'%s/%s/%s' cannot be read: '%.60s'",
				       d->path, version, page_name, line);
	if (snprintf(ret->tree, sizeof(ret->tree), "%s/%s/tree", d->path, version) >=
	    (int)sizeof(ret->tree))
		return err_set(e, ERR_INPUT, ENAMETOOLONG, "environment '%s'", version);
	return 0;
}

/* Its file is also its lock: it stays the same. */
static int write_page(int page_fd, const struct env_row *r)
{
	own_fd fd = fcntl(page_fd, F_DUPFD_CLOEXEC, 0);
	FILE *f = fd < 0 || ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 ? NULL
									       : fdopen(fd, "w");
	int failed;

	if (f == NULL)
		return -errno;
	(void)fd_take(&fd);
	(void)fprintf(f, "kind = %s\n", env_kind_str[r->kind]);
	if (r->python[0] != '\0')
		(void)fprintf(f, "python = %s\npython_version = %s\n", r->python, r->version);
	if (r->path[0] != '\0')
		(void)fprintf(f, "path = %s\n", r->path);
	if (r->imports[0] != '\0')
		(void)fprintf(f, "imports = %s\n", r->imports);
	for (const char *v = r->variables; v < r->variables + r->variables_len; v += strlen(v) + 1)
		(void)fprintf(f, "variable = %s\n", v);
	(void)fprintf(f, "cells = %s\npool = %u\nbytes = %llu\nmade_ms = %llu\n",
		      r->cells ? "yes" : "no", r->pool, (unsigned long long)r->bytes,
		      (unsigned long long)r->made_ms);
	failed = ferror(f) || fflush(f) != 0 || fsync(fileno(f)) < 0;
	return fclose(f) != 0 || failed ? -EIO : 0;
}

/* --- versions ----------------------------------------------------------------------------------- */

/* Of the file of a page: whoever may only read it can hold it, and nobody but its owner keep others from it. A lock for oneself that becomes one with others is
 * never lost on the way. */
static int lock(int page_fd, short type)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET };

	return fcntl(page_fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

/* -ESTALE: somebody swept it away before it was locked. */
static int make_version(const struct envdir *d, const char *version)
{
	/* What builds may have an ordinary user's own uid: a setuid program that it leaves is for nobody else. */
	const mode_t mode = geteuid() == 0 ? 0755 : 0700;
	own_fd dir = -1, page = -1;

	if (mkdirat(d->fd, version, mode) < 0)
		return errno == EEXIST ? -ESTALE : -errno;
	dir = openat(d->fd, version, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir >= 0)
		page = openat(dir, page_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			      0644);
	if (page < 0)
		return errno == ENOENT ? -ESTALE : -errno;
	if (lock(page, F_WRLCK) < 0)
		return -ESTALE;
	/* Boxes read it as somebody else, whatever our mask. */
	if (fchmod(dir, mode) < 0 || fchmod(page, 0644) < 0 || mkdirat(dir, "tree", 0755) < 0 ||
	    fchmodat(dir, "tree", 0755, 0) < 0)
		return -errno;
	return fd_take(&page);
}

/* Others than those that there are. */
static bool is_full(const struct envdir *d, const char *name)
{
	char version[ENVDIR_VERSION], **names = envdir_names(d);
	unsigned int n = 0;

	for (char **at = names; at != NULL && *at != NULL; at++)
		n++;
	envdir_names_free(names);
	return n >= ENVS_MAX && envdir_version(d, name, version) < 0;
}

int envdir_new(const struct envdir *d, const char *name, char ret[ENVDIR_VERSION], struct err *e)
{
	int page = -ESTALE;

	if (!env_is_name(name)) {
		(void)err_set(e, ERR_USAGE, 0, "'%.64s' is no name for an environment", name);
		return err_hint(e,
				"a-z, 0-9, '-', '_', '.', at most %d, beginning with a letter "
				"or a digit; not default, python, python3",
				ENV_NAME - 1);
	}
	if (is_full(d, name)) {
		(void)err_set(e, ERR_INPUT, 0, "there are %d environments already", ENVS_MAX);
		return err_hint(e, "'glovebox env remove' one of them");
	}
	for (int tries = 0; page == -ESTALE && tries < 8; tries++) {
		(void)snprintf(ret, ENVDIR_VERSION, "%.63s@%llx", name,
			       (unsigned long long)clock_us());
		page = make_version(d, ret);
	}
	if (page < 0)
		return err_set(e, ERR_SYS, -page, "make '%s/%s'", d->path, ret);
	return page;
}

int envdir_draft(int page_fd, const char *version, const struct env_row *row, struct err *e)
{
	int r = write_page(page_fd, row);

	/* Who reads it must be able to take its lock. */
	if (r == 0)
		r = lock(page_fd, F_RDLCK);
	return r < 0 ? err_set(e, ERR_SYS, -r, "write '%s/%s'", version, page_name) : 0;
}

int envdir_publish(const struct envdir *d, int page_fd, const char *version,
		   const struct env_row *row, struct err *e)
{
	char fresh[ENVDIR_VERSION + 8];

	if (envdir_draft(page_fd, version, row, e) < 0)
		return -1;
	(void)snprintf(fresh, sizeof(fresh), ".%s", version);
	if (symlinkat(version, d->fd, fresh) < 0 || renameat(d->fd, fresh, d->fd, row->name) < 0) {
		int error = errno;

		(void)unlinkat(d->fd, fresh, 0);
		return err_set(e, ERR_SYS, error, "name '%s/%s'", d->path, row->name);
	}
	(void)fsync(d->fd);
	return 0;
}

int envdir_unlink(const struct envdir *d, const char *name, struct err *e)
{
	char version[ENVDIR_VERSION];

	if (envdir_version(d, name, version) < 0)
		return err_set(e, ERR_INPUT, 0, "there is no environment '%.64s'", name);
	return unlinkat(d->fd, name, 0) < 0
		       ? err_set(e, ERR_SYS, errno, "remove '%s/%s'", d->path, name)
		       : 0;
}

static bool is_linked(const struct envdir *d, const char *name, const char *entry)
{
	char version[ENVDIR_VERSION];

	return envdir_version(d, name, version) == 0 && strcmp(version, entry) == 0;
}

/* What lacks a page was left by somebody who was ended while he made or removed it. */
static bool has_page(const struct envdir *d, const char *entry, int *ret_page)
{
	own_fd dir = openat(d->fd, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (dir < 0)
		return true; /* it is no version, or not ours */
	*ret_page = openat(dir, page_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	return *ret_page >= 0 || errno != ENOENT;
}

/* 0: it went, or was no version; 1: somebody has it. */
static unsigned int sweep_one(const struct envdir *d, const char *entry)
{
	const char *at = strchr(entry, '@');
	char name[ENV_NAME];
	own_fd page = -1;

	if (at == NULL || at - entry >= ENV_NAME || strlen(entry) >= ENVDIR_VERSION)
		return 0;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(at - entry), entry);
	if (!env_is_name(name) || is_linked(d, name, entry))
		return 0;
	if (!has_page(d, entry, &page)) {
		/* One that is just being made is empty, or has it by now. */
		if (unlinkat(d->fd, entry, AT_REMOVEDIR) < 0 && !has_page(d, entry, &page))
			envtree_remove(d->fd, entry);
		return 0;
	}
	if (page < 0)
		return 0;
	if (lock(page, F_WRLCK) < 0)
		return 1;
	/* Its builder let go of it meanwhile: because it was complete? */
	if (!is_linked(d, name, entry))
		envtree_remove(d->fd, entry);
	return 0;
}

unsigned int envdir_sweep(const struct envdir *d)
{
	int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	unsigned int busy = 0;

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		busy += sweep_one(d, entry->d_name);
	if (dir != NULL)
		(void)closedir(dir);
	return busy;
}
