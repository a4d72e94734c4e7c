/* SPDX-License-Identifier: Apache-2.0 */
/* The payload of LIMITS, from a gate. Claims: what is taken is above nothing that a box can have, and never nothing at all. */
#include "wire/rlimits.h"

#include <errno.h>
#include <sys/resource.h>

#include "fuzz_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rlimits most, got;
	int r = rlimits_decode(data, size, &got);

	MUST(r == 0 || r == -EPROTO);
	if (r < 0)
		return 0;
	MUST(size == RLIMITS_BYTES);
	rlimits_most(&most);
	for (unsigned int i = 0; i < RLIMITS_N; i++) {
		MUST(got.v[i].which == most.v[i].which);
		MUST(got.v[i].soft > 0 && got.v[i].soft <= got.v[i].hard);
		MUST(got.v[i].hard <= most.v[i].hard);
	}
	return 0;
}
