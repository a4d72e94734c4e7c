// SPDX-License-Identifier: Apache-2.0
/*
 * Images of a cell, as files on this machine. Their bytes are the box's, their names are ours: a new file each, in a
 * directory that is made when the first one comes.
 */
#include "cli/show.h"

#include "base/base64.h"
#include "base/io.h"
#include "base/own.h"
#include "cli/say.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { NAMES_MAX = 10000 }; /* of one number, tried for a free one */

static const struct {
	const char *type, *suffix;
	bool base64;
} kinds[] = {
	{ "image/png", "png", true },
	{ "image/jpeg", "jpg", true },
	{ "image/svg+xml", "svg", false },
};

/* DIR/out-3.png, or -2 and so on where there are others. */
static int make_file(struct show *s, const char *suffix, char *path, size_t size)
{
	int fd = -1;

	if (mkdir(s->images, 0777) < 0 && errno != EEXIST)
		return -errno;
	while (fd < 0 && s->nimages < NAMES_MAX) {
		char more[16] = "";

		if (++s->nimages > 1)
			(void)snprintf(more, sizeof(more), "-%u", s->nimages);
		if (snprintf(path, size, "%s/out-%lld%s.%s", s->images, (long long)s->count, more,
			     suffix) >= (int)size)
			return -ENAMETOOLONG;
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd < 0 && errno != EEXIST)
			return -errno;
	}
	return fd < 0 ? -EEXIST : fd;
}

static int save(struct show *s, const char *suffix, const void *p, size_t n, char *path,
		size_t size)
{
	own_fd fd = make_file(s, suffix, path, size);
	int r;

	if (fd < 0)
		return fd;
	r = io_write_all(fd, p, n);
	if (r < 0)
		(void)unlink(path);
	return r;
}

/* Some writers of base64 break its lines. */
static int decode(const struct jsonr_node *data, uint8_t *bytes, size_t *ret_n)
{
	size_t n = 0;

	for (size_t i = 0; i < data->len; i++)
		if (strchr("\r\n\t ", data->string[i]) == NULL)
			bytes[n++] = (uint8_t)data->string[i];
	return base64_decode((const char *)bytes, n, bytes, ret_n);
}

static void save_image(struct show *s, unsigned int kind, const struct jsonr_node *data)
{
	uint8_t *bytes = NULL;
	const void *p = data->string;
	size_t n = data->len;
	char path[4096];
	int r = 0;

	if (kinds[kind].base64) {
		bytes = malloc(n + 1);
		if (bytes == NULL || decode(data, bytes, &n) < 0) {
			show_line(s, "[%s that cannot be read]", kinds[kind].type);
			free(bytes);
			return;
		}
		p = bytes;
	}
	r = save(s, kinds[kind].suffix, p, n, path, sizeof(path));
	free(bytes);
	if (r < 0)
		say("cannot save an image in '%s': %s", s->images, strerror(-r));
	else
		show_line(s, "[%s: %s]", kinds[kind].type, path);
}

bool show_image(struct show *s, const struct jsonr *d, const struct jsonr_node *data)
{
	for (unsigned int i = 0; i < ARRAY_LEN(kinds); i++) {
		const struct jsonr_node *n = jsonr_get(d, data, kinds[i].type);

		if (n == NULL || n->type != JSONR_STRING)
			continue;
		if (s->images != NULL)
			save_image(s, i, n);
		else
			show_line(s, "[%s]", kinds[i].type);
		return true;
	}
	return false;
}
