// SPDX-License-Identifier: Apache-2.0
#include "wire/etag.h"

#include <stddef.h>
#include <string.h>

/* The next tag of a list, with its quotes, and the rest behind it. 0: there is none, or it is malformed. */
static size_t next_tag(const char **list, const char **ret_tag, bool *ret_weak)
{
	const char *at = *list + strspn(*list, ", \t"), *end;

	*ret_weak = strncmp(at, "W/", 2) == 0;
	if (*ret_weak)
		at += 2;
	end = *at == '"' ? strchr(at + 1, '"') : NULL;
	if (end == NULL)
		return 0;
	end++;
	end += strspn(end, " \t");
	if (*end != '\0' && *end != ',')
		return 0;
	*ret_tag = at;
	*list = end;
	return (size_t)(strchr(at + 1, '"') + 1 - at);
}

static bool is_star(const char *header)
{
	header += strspn(header, " \t");
	return header[0] == '*' && header[1 + strspn(header + 1, " \t")] == '\0';
}

static bool listed(const char *header, const char *etag, bool weak_too)
{
	size_t len = strlen(etag), n;
	const char *tag;
	bool weak;

	if (is_star(header))
		return true;
	while ((n = next_tag(&header, &tag, &weak)) > 0)
		if (n == len && memcmp(tag, etag, n) == 0 && (weak_too || !weak))
			return true;
	return false;
}

bool etag_listed(const char *header, const char *etag)
{
	return listed(header, etag, /* weak_too= */ true);
}

bool etag_listed_strong(const char *header, const char *etag)
{
	return listed(header, etag, /* weak_too= */ false);
}
