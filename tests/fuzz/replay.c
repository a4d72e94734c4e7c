/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for libFuzzer in an ordinary build: gives every file of the directories named on the command line
 * to the fuzz target, once. Once found, an input stays a test for ever, with any compiler.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned int replayed;

__attribute__((noreturn)) static void fail(const char *name)
{
	(void)fprintf(stderr, "replay: '%s': %s\n", name, strerror(errno));
	exit(2);
}

static void replay_file(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	size_t size, used = 0;
	struct stat st;
	uint8_t *data;

	if (fd < 0 || fstat(fd, &st) < 0)
		fail(name);
	size = (size_t)st.st_size;
	/* Exactly as large as the input: a read beyond its end is for the sanitizer to see. */
	data = malloc(size ? size : 1);
	if (!data)
		fail(name);
	while (used < size) {
		ssize_t n = read(fd, data + used, size - used);

		if (n <= 0)
			fail(name);
		used += (size_t)n;
	}
	(void)close(fd);
	/* Named before it runs: if the target crashes, this line says on what. */
	(void)printf("%s\n", name);
	(void)fflush(stdout);
	(void)LLVMFuzzerTestOneInput(data, size);
	free(data);
	replayed++;
}

int main(int argc, char *argv[])
{
	for (int i = 1; i < argc; i++) {
		int fd = open(argv[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *dir = fd < 0 ? NULL : fdopendir(fd);
		const struct dirent *entry;

		if (!dir)
			fail(argv[i]);
		while ((entry = readdir(dir)))
			if (entry->d_name[0] != '.')
				replay_file(fd, entry->d_name);
		(void)closedir(dir);
	}
	(void)printf("%u inputs replayed\n", replayed);
	return replayed ? 0 : 2;
}
