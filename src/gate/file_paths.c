// SPDX-License-Identifier: Apache-2.0
#include "gate/file_paths.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int file_path_take(struct file_path *p, const char *text, size_t n)
{
	p->text[0] = '\0';
	if (n >= sizeof(p->text))
		return -ENAMETOOLONG;
	if (memchr(text, '\0', n) != NULL)
		return -EINVAL;
	(void)memcpy(p->text, text, n);
	p->text[n] = '\0';
	return path_is_below(p->text) ? 0 : -EINVAL;
}

int file_path_take_rest(struct file_path *p, struct http_slice rest, struct http_refusal *r)
{
	char text[HTTP_TARGET_MAX + 1];
	ptrdiff_t n = http_path_decode(rest, text, sizeof(text), r);

	p->text[0] = '\0';
	return n < 0 ? -EBADMSG : file_path_take(p, text, (size_t)n);
}

void file_path_in_box(const struct file_path *p, char out[FILE_PATH_IN_BOX])
{
	const char *text = p->text[0] == '\0' && !p->from_root ? "." : p->text;

	(void)snprintf(out, FILE_PATH_IN_BOX, "%s%s", p->from_root ? "/" : "", text);
}

const char *file_path_name(const struct file_path *p)
{
	const char *slash = strrchr(p->text, '/');

	return slash != NULL ? slash + 1 : p->text;
}
