// SPDX-License-Identifier: Apache-2.0
#include "cli/cp.h"

#include <stdio.h>
#include <string.h>

void cp_base(const char *path, char name[NAME_MAX + 1])
{
	const char *end = path + strlen(path), *start;

	while (end > path && end[-1] == '/')
		end--;
	for (start = end; start > path && start[-1] != '/';)
		start--;
	(void)snprintf(name, NAME_MAX + 1, "%.*s", end - start <= NAME_MAX ? (int)(end - start) : 0,
		       start);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		name[0] = '\0';
}

bool cp_link_stays(const char *link, unsigned int depth)
{
	bool up = true;

	if (link[0] == '/')
		return false;
	while (*link != '\0') {
		size_t n = strcspn(link, "/");

		if (n == 2 && strncmp(link, "..", 2) == 0) {
			if (!up || depth == 0)
				return false;
			depth--;
		} else if (n > 0 && !(n == 1 && *link == '.')) {
			up = false;
		}
		link += n + (link[n] == '/');
	}
	return true;
}
