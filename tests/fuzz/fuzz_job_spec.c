/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload of RUN. Claims: what is decoded is within its bounds; encoded again it is the same bytes; it does not
 * fit into one byte less.
 */
#include "wire/job.h"

#include <errno.h>
#include <limits.h>

#include "fuzz_input.h"

static size_t count(const char *const *v, size_t size)
{
	size_t n = 0, bytes = 0;

	for (; v[n] != NULL; n++)
		bytes += strlen(v[n]) + 4;
	MUST(bytes <= size);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct job_spec s;
	void *block = NULL;
	int r = job_spec_decode(data, size, &s, &block);
	size_t argc, envc;
	uint8_t *again;

	MUST(r == 0 || r == -EPROTO);
	if (r < 0) {
		MUST(block == NULL);
		return 0;
	}
	MUST((unsigned int)s.kind < JOB_KIND_MAX && (s.flags & ~(uint32_t)JOB_FLAGS_ALL) == 0);
	MUST(strlen(s.cwd) < PATH_MAX);
	argc = count(s.argv, size);
	envc = count(s.envp, size);
	MUST(argc >= 1 && argc <= JOB_ARGV_MAX && envc <= JOB_ENV_MAX);

	again = malloc(size);
	MUST(again != NULL);
	MUST(job_spec_encode(&s, again, size) == (ptrdiff_t)size);
	MUST(memcmp(again, data, size) == 0);
	free(again);
	again = malloc(size - 1);
	MUST(again != NULL);
	MUST(job_spec_encode(&s, again, size - 1) == -EMSGSIZE);
	free(again);
	free(block);
	return 0;
}
