// SPDX-License-Identifier: Apache-2.0
/* Paths, and the other words of an operation. */
#include "box/files.h"

#include "wire/fileop.h"

#include <fcntl.h>
#include <string.h>

bool name_is_hidden(const char *name)
{
	return strncmp(name, FILEOP_HIDDEN_PUT, strlen(FILEOP_HIDDEN_PUT)) == 0 ||
	       strncmp(name, FILEOP_HIDDEN_UNPACK, strlen(FILEOP_HIDDEN_UNPACK)) == 0;
}

static size_t skip_slashes(const char *path)
{
	return strspn(path, "/");
}

/* The next component, without what separates it from the rest. */
static int take_name(const char **path, char name[NAME_MAX + 1])
{
	size_t n = strcspn(*path, "/");

	if (n > NAME_MAX)
		return ENAMETOOLONG;
	(void)memcpy(name, *path, n);
	name[n] = '\0';
	*path += n;
	*path += skip_slashes(*path);
	return 0;
}

/* Opened first, made only if it is not there: what stands in the way is told as it is. */
static int open_next(int dir, const char *name, bool make)
{
	const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
	int next = openat(dir, name, flags);

	if (next >= 0 || errno != ENOENT || !make)
		return next;
	if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
		return -1;
	return openat(dir, name, flags);
}

int place_open(struct place *p, const char *path, bool make)
{
	own_fd dir = open(path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r;

	p->dir = -1;
	if (dir < 0)
		return errno;
	path += skip_slashes(path);
	r = take_name(&path, p->name);
	while (r == 0 && path[0] != '\0') {
		int next = open_next(dir, p->name, make);

		if (next < 0)
			return errno;
		fd_close(&dir);
		dir = next;
		r = take_name(&path, p->name);
	}
	if (r != 0)
		return r;
	if (p->name[0] == '\0')
		(void)memcpy(p->name, ".", 2);
	p->dir = fd_take(&dir);
	return 0;
}

void place_close(struct place *p)
{
	fd_close(&p->dir);
}

bool place_is_top(const struct place *p)
{
	return strcmp(p->name, ".") == 0 || strcmp(p->name, "..") == 0;
}

void last_name(const char *path, char name[NAME_MAX + 1])
{
	size_t end = strlen(path), start;

	while (end > 0 && path[end - 1] == '/')
		end--;
	for (start = end; start > 0 && path[start - 1] != '/'; start--)
		;
	if (end == start || end - start > NAME_MAX ||
	    (end - start == 2 && strncmp(path + start, "..", 2) == 0)) {
		(void)memcpy(name, ".", 2);
		return;
	}
	(void)memcpy(name, path + start, end - start);
	name[end - start] = '\0';
}

int mode_of(const char *text, mode_t otherwise, mode_t *ret)
{
	mode_t mode = text[0] != '\0' ? 0 : otherwise;

	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '7' || mode > 0777)
			return EINVAL;
		mode = mode * 8 + (mode_t)(*text - '0');
	}
	*ret = mode;
	return mode > 0777 ? EINVAL : 0;
}

int bool_of(const char *text, bool *ret)
{
	*ret = text[0] == '1';
	return (text[0] == '0' || text[0] == '1') && text[1] == '\0' ? 0 : EINVAL;
}
