// SPDX-License-Identifier: Apache-2.0
#include "archive/names.h"

#include "archive/archive.h"

#include <errno.h>
#include <string.h>

enum part { PART_NAME, PART_NOTHING, PART_UP };

/* "" and "." are nothing, ".." goes up. */
static enum part part_of(const char *p, size_t n)
{
	if (n == 0 || (n == 1 && p[0] == '.'))
		return PART_NOTHING;
	return n == 2 && p[0] == '.' && p[1] == '.' ? PART_UP : PART_NAME;
}

static int refuse(const char **why, const char *text)
{
	*why = text;
	return -EBADMSG;
}

int name_take(const char *name, char out[PATH_MAX], const char **why)
{
	size_t at = 0;

	if (name[0] == '\0' || name[0] == '/')
		return refuse(why, name[0] == '/' ? "is absolute" : "is empty");
	if (strnlen(name, PATH_MAX) == PATH_MAX)
		return refuse(why, "is longer than 4095 bytes");
	while (*name != '\0') {
		size_t n = strcspn(name, "/");
		enum part part = part_of(name, n);

		if (part == PART_UP)
			return refuse(why, "leads out");
		if (n > NAME_MAX)
			return refuse(why, "has a part of more than 255 bytes");
		if (part == PART_NAME && is_hidden_name(name))
			return refuse(why, "has a part that is a name of ours");
		if (part == PART_NAME) {
			if (at > 0)
				out[at++] = '/';
			(void)memcpy(out + at, name, n);
			at += n;
		}
		name += n + (name[n] == '/');
	}
	out[at] = '\0';
	return 0;
}

/* How many directories lie between the root and what is at `path`. */
static unsigned int depth_of(const char *path)
{
	unsigned int n = 0;

	for (; *path != '\0'; path++)
		n += *path == '/';
	return n;
}

int link_check(const char *path, const char *target, const char **why)
{
	unsigned int up = depth_of(path);
	bool down = false;

	if (target[0] == '\0' || target[0] == '/')
		return refuse(why,
			      target[0] == '/' ? "leads to an absolute path" : "leads nowhere");
	if (strnlen(target, PATH_MAX) == PATH_MAX)
		return refuse(why, "leads to more than 4095 bytes");
	while (*target != '\0') {
		size_t n = strcspn(target, "/");
		enum part part = part_of(target, n);

		if (part == PART_UP && (down || up-- == 0))
			return refuse(why, down ? "leads down and up again" : "leads out");
		if (part == PART_NAME)
			down = true;
		target += n + (target[n] == '/');
	}
	return 0;
}
