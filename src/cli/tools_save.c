// SPDX-License-Identifier: Apache-2.0
/* Images and the like, as files on this machine. Their bytes are the server's, their names are ours: a new file each. */
#include "cli/tools.h"

#include "base/base64.h"
#include "base/io.h"
#include "base/own.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { NAMES_MAX = 10000, STEM = 64 };

static const struct {
	const char *type, *suffix;
} kinds[] = {
	{ "image/png", "png" },   { "image/jpeg", "jpg" },      { "image/gif", "gif" },
	{ "image/webp", "webp" }, { "image/svg+xml", "svg" },   { "audio/wav", "wav" },
	{ "audio/mpeg", "mp3" },  { "application/pdf", "pdf" }, { "application/gzip", "gz" },
};

static const char *suffix_of(const char *mime)
{
	for (unsigned int i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcasecmp(kinds[i].type, mime) == 0)
			return kinds[i].suffix;
	return "bin";
}

static int make_file(const char *dir, const char *tool, const char *suffix, char *path, size_t size)
{
	static unsigned int last; /* that is taken */
	char stem[STEM];
	int fd = -1;

	(void)snprintf(stem, sizeof(stem), "%s", tool);
	for (char *p = stem; *p != '\0'; p++)
		if (!isalnum((unsigned char)*p) && *p != '-' && *p != '_')
			*p = '_';
	if (mkdir(dir, 0777) < 0 && errno != EEXIST)
		return -errno;
	while (fd < 0 && last < NAMES_MAX) {
		if (snprintf(path, size, "%s/%s-%u.%s", dir, stem, ++last, suffix) >= (int)size)
			return -ENAMETOOLONG;
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd < 0 && errno != EEXIST)
			return -errno;
	}
	return fd < 0 ? -EEXIST : fd;
}

int tools_save(const char *dir, const char *tool, const char *mime, struct json_text data,
	       char *path, size_t size)
{
	own_free char *text = malloc(data.n + 1);
	own_fd fd = -1;
	size_t n;
	int r;

	if (text == NULL)
		return -ENOMEM;
	if (!json_text_str(data, text, data.n + 1))
		return -EINVAL;
	if (base64_decode(text, strlen(text), (uint8_t *)text, &n) < 0)
		return -EINVAL;
	fd = make_file(dir, tool, suffix_of(mime), path, size);
	if (fd < 0)
		return fd;
	r = io_write_all(fd, text, n);
	if (r < 0)
		(void)unlink(path);
	return r;
}
