/* SPDX-License-Identifier: Apache-2.0 */
/* The payload of EXIT, from a hostile box. Claims: within its bounds; encoded again, the same bytes. */
#include "wire/job.h"

#include <errno.h>

#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct job_exit x;
	int r = job_exit_decode(data, size, &x);
	uint8_t *again;

	MUST(r == 0 || r == -EPROTO);
	if (r < 0)
		return 0;
	MUST((unsigned int)x.how < JOB_HOW_MAX && x.code >= 0);
	MUST((x.flags & ~(uint32_t)JOB_EXIT_FLAGS_ALL) == 0);
	MUST(strnlen(x.stage, sizeof(x.stage)) < sizeof(x.stage));
	again = malloc(size);
	MUST(again != NULL);
	MUST(job_exit_encode(&x, again, size) == (ptrdiff_t)size);
	MUST(memcmp(again, data, size) == 0);
	MUST(job_exit_encode(&x, again, size - 1) == -EMSGSIZE);
	free(again);
	return 0;
}
