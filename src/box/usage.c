// SPDX-License-Identifier: Apache-2.0
/*
 * What a process has used that still runs. Of one that has ended wait4(2) says it, but only when its memory was torn down.
 *
 * Should: say nothing rather than something wrong.
 */
#include "box/init.h"

#include "base/clock.h"
#include "base/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

uint64_t usage_cpu_us(pid_t pid)
{
	struct timespec t;
	clockid_t id;

	if (clock_getcpuclockid(pid, &id) != 0 || clock_gettime(id, &t) < 0)
		return 0;
	return (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_nsec / 1000;
}

long usage_peak_kib(pid_t pid)
{
	char path[32], text[2048];
	const char *peak = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (io_read_text(AT_FDCWD, path, text, sizeof(text)) > 0)
		peak = strstr(text, "\nVmHWM:");
	return peak != NULL ? strtol(peak + strlen("\nVmHWM:"), NULL, 10) : 0;
}

bool usage_is_alone(pid_t pid)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	bool alone = d != NULL;

	while (alone && (e = readdir(d)) != NULL) {
		long other = strtol(e->d_name, NULL, 10);

		alone = other == 0 || other == getpid() || other == pid;
	}
	if (d != NULL)
		(void)closedir(d);
	return alone;
}

void usage_set(struct rusage *u, uint64_t cpu_us, long peak_kib)
{
	*u = (struct rusage){ .ru_utime = { (time_t)(cpu_us / US_PER_S),
					    (suseconds_t)(cpu_us % US_PER_S) },
			      .ru_maxrss = peak_kib };
}
