// SPDX-License-Identifier: Apache-2.0
/*
 * glovebox-archive: packs and unpacks tar archives inside a box, under the uid, the limits and the filter of the box's user.
 * The exit status is 0 or an errno; standard error has a line that says more.
 */
#include "archive/archive.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* What an archive can make us use, whatever it says of itself. 0: as much as it likes, for a build whose memory is watched. */
#ifndef ARCHIVE_MEMORY
#define ARCHIVE_MEMORY (8 * 1024 * 1024)
#endif

static const struct {
	const char *name;
	int args;
	int (*run)(char *const args[], struct fault *f);
} verbs[] = {
	{ "pack", 3, pack },
	{ "unpack", 4, unpack },
};

int main(int argc, char *argv[])
{
	const struct rlimit memory = { ARCHIVE_MEMORY, ARCHIVE_MEMORY };
	struct fault f = { 0 };
	unsigned int i = 0;

	if (ARCHIVE_MEMORY != 0)
		(void)setrlimit(RLIMIT_DATA, &memory);
	(void)umask(0); /* modes are those that are said */
	while (i < ARRAY_LEN(verbs) &&
	       (argc < 2 || strcmp(argv[1], verbs[i].name) != 0 || argc != 2 + verbs[i].args))
		i++;
	if (i == ARRAY_LEN(verbs))
		(void)fault_set(
			&f, EINVAL,
			"usage: glovebox-archive pack PATH FORMAT WHAT | unpack PATH FORMAT "
			"MAX_BYTES MAX_ENTRIES");
	else
		(void)verbs[i].run(argv + 2, &f);
	if (f.error != 0)
		(void)fprintf(stderr, "%s\n", f.text);
	return f.error;
}
