/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jupyter's messages in legacy binary frames. Input: one byte; if it is even a frame, else the parts of one with NULs
 * between them, around which the target builds a table.
 *
 * Claims: refused for its table exactly if the table breaks the rules, written a second time; parts lie within the frame, one
 * behind the other, and objects are JSON in UTF-8; written in each framing and read again it is the same.
 */
#include "fuzz_jup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_binary(JUP_LEGACY, &shape_binary, data, size);
	return 0;
}
