/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jupyter's messages in frames of v1.kernel.websocket.jupyter.org. Input: one byte; if it is even a frame, else the parts
 * of one with NULs between them, around which the target builds a table.
 *
 * Claims: those of fuzz_jup_binary.c. A text frame is refused.
 */
#include "fuzz_jup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *why;

	fuzz_binary(JUP_V1, &shape_v1, data, size);
	MUST(fuzz_frame(JUP_V1, false, data, size, &why) == -EPROTO);
	return 0;
}
