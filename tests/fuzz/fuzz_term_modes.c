/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program of a box has switched on in a terminal. Input: one byte that says how to cut, then the bytes.
 *
 * Claims: pieces find the same as the whole; what switches it off does: read as well, nothing is on behind it, whatever was
 * unfinished before.
 */
#include "cli/term_modes.h"

#include "fuzz_input.h"

static struct term_modes read_all(const struct input *in, uint8_t how, bool in_pieces)
{
	struct term_modes m = { 0 };
	uint32_t state = how;

	for (size_t at = 0; at < in->n;) {
		size_t n = in->n - at, piece = in_pieces ? next_piece(&state) : n;
		uint8_t *copy;

		n = piece < n ? piece : n;
		copy = exact_copy(in->p + at, n);
		term_modes_put(&m, copy, n);
		free(copy);
		at += n;
	}
	return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = take_u8(&in);
	struct term_modes whole = read_all(&in, how, false), parts = read_all(&in, how, true);
	struct bytes off;

	MUST(whole.on == parts.on && whole.state == parts.state);
	bytes_init(&off, 1024);
	term_modes_off(&whole, &off);
	MUST(!off.failed && off.n >= 4);
	MUST((off.n == 4) == (whole.on == 0));
	term_modes_put(&whole, off.p, off.n);
	MUST(whole.on == 0);
	bytes_done(&off);
	return 0;
}
