// SPDX-License-Identifier: Apache-2.0
#include "archive/archive.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fault_set(struct fault *f, int error, const char *fmt, ...)
{
	va_list args;

	if (f->error != 0)
		return -1;
	f->error = error;
	va_start(args, fmt);
	(void)vsnprintf(f->text, sizeof(f->text), fmt, args);
	va_end(args);
	return -1;
}

const char *shown(const char *name, char out[SHOWN_MAX])
{
	static const char dots[] = "...";
	const unsigned char *p = (const unsigned char *)name;
	size_t left = strlen(name), n = 0;

	while (left > 0) {
		uint32_t c = 0;
		size_t length = utf8_next(p, left, &c), take = length;

		if (length == 0 || utf8_is_tricky(c)) {
			take = length > 0 ? length : 1;
			length = 0;
		}
		if (n + (length > 0 ? length : 1) + sizeof(dots) > SHOWN_MAX) {
			(void)memcpy(out + n, dots, sizeof(dots));
			return out;
		}
		if (length > 0)
			(void)memcpy(out + n, p, length);
		else
			out[n] = '?';
		n += length > 0 ? length : 1;
		p += take;
		left -= take;
	}
	out[n] = '\0';
	return out;
}

bool is_staging_name(const char *name)
{
	return strncmp(name, STAGING_PREFIX, sizeof(STAGING_PREFIX) - 1) == 0;
}

bool is_hidden_name(const char *name)
{
	return is_staging_name(name) ||
	       strncmp(name, WRITING_PREFIX, sizeof(WRITING_PREFIX) - 1) == 0;
}
