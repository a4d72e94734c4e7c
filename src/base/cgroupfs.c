// SPDX-License-Identifier: Apache-2.0
#include "base/cgroupfs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool has_word(const char *list, const char *word, const char *separators)
{
	size_t n = strlen(word);

	while (*list != '\0') {
		size_t len = strcspn(list, separators);

		if (len == n && strncmp(list, word, n) == 0)
			return true;
		list += len;
		list += strspn(list, separators);
	}
	return false;
}

int cgroupfs_mount(const char *controller, char *ret, size_t size)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[4096];
	int r = -ENOENT;

	if (f == NULL)
		return -errno;
	while (r < 0 && fgets(line, sizeof(line), f) != NULL) {
		char at[256], type[32], options[512];
		const char *rest = strstr(line, " - ");

		if (rest == NULL || sscanf(line, "%*s %*s %*s %*s %255s", at) != 1 ||
		    sscanf(rest, " - %31s %*s %511s", type, options) != 2)
			continue;
		if (controller == NULL
			    ? strcmp(type, "cgroup2") == 0
			    : strcmp(type, "cgroup") == 0 && has_word(options, controller, ",")) {
			(void)snprintf(ret, size, "%s", at);
			r = 0;
		}
	}
	(void)fclose(f);
	return r;
}

int cgroupfs_own(const char *controller, char *ret, size_t size)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	char line[1024];
	int r = -ENOENT;

	if (f == NULL)
		return -errno;
	while (r < 0 && fgets(line, sizeof(line), f) != NULL) {
		char *names = strchr(line, ':');
		char *path = names != NULL ? strchr(names + 1, ':') : NULL;

		if (path == NULL)
			continue;
		*path++ = '\0';
		names++;
		path[strcspn(path, "\n")] = '\0';
		if (controller == NULL ? *names == '\0' : has_word(names, controller, ",")) {
			(void)snprintf(ret, size, "%s", strcmp(path, "/") == 0 ? "" : path);
			r = 0;
		}
	}
	(void)fclose(f);
	return r;
}
