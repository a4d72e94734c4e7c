/* SPDX-License-Identifier: Apache-2.0 */
/* Tools that several tests use. */
#ifndef GLOVEBOX_TESTS_UNIT_TEST_HELP_H
#define GLOVEBOX_TESTS_UNIT_TEST_HELP_H

#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test.h"

/*
 * Memory that ends at a page which nobody may touch: a byte written or read beyond a buffer kills the test,
 * in a build without sanitizers too. fence_at(f, n) is the buffer of n bytes right in front of it.
 */
struct fence {
	uint8_t *map;
	size_t size; /* usable bytes */
};

static inline struct fence fence_open(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct fence f;

	f.size = (size + page - 1) / page * page;
	f.map = mmap(NULL, f.size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	CHECK(f.map != MAP_FAILED);
	CHECK(mprotect(f.map + f.size, page, PROT_NONE) == 0);
	return f;
}

static inline void fence_close(struct fence *f)
{
	CHECK(munmap(f->map, f->size + (size_t)sysconf(_SC_PAGESIZE)) == 0);
}

static inline void *fence_at(const struct fence *f, size_t n)
{
	CHECK(n <= f->size);
	return f->map + f->size - n;
}

/* A copy of n bytes in front of the fence. */
static inline const uint8_t *fence_copy(const struct fence *f, const void *p, size_t n)
{
	uint8_t *at = fence_at(f, n);

	if (n > 0)
		memcpy(at, p, n);
	return at;
}

/* Numbers that look random and are the same in every run (splitmix64). */
static inline uint64_t rnd(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static inline uint64_t rnd_below(uint64_t *state, uint64_t n)
{
	return rnd(state) % n;
}

static inline void rnd_fill(uint64_t *state, void *p, size_t n)
{
	uint8_t *at = p;

	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)rnd(state);
}

/* How many descriptors are open. */
static inline unsigned int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;
	const struct dirent *found;

	CHECK(dir != NULL);
	while ((found = readdir(dir)) != NULL)
		n += found->d_name[0] != '.';
	(void)closedir(dir);
	return n - 1; /* the directory itself */
}

#endif
