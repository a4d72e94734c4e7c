// SPDX-License-Identifier: Apache-2.0
#include "cli/gate_program.h"

#include "base/own.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Whoever gets it has other descriptors below. */
enum { LOWEST = 16 };

int gate_program_open(struct err *e)
{
	char path[PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
	char *slash;
	int fd = -1, high;

	if (n > 0) {
		path[n] = '\0';
		slash = strrchr(path, '/');
		(void)snprintf(slash + 1, sizeof(path) - (size_t)(slash + 1 - path),
			       "glovebox-gate");
		fd = open(path, O_PATH | O_CLOEXEC);
	}
	if (fd < 0)
		fd = open(GLOVEBOX_LIBEXEC "/glovebox-gate", O_PATH | O_CLOEXEC);
	if (fd < 0)
		return err_set(e, ERR_INPUT, errno,
			       "find glovebox-gate beside this program or in '%s'",
			       GLOVEBOX_LIBEXEC);
	high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST);
	(void)close(fd);
	return high < 0 ? err_set(e, ERR_SYS, errno, "keep glovebox-gate open") : high;
}
