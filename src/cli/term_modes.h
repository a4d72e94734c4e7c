/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program has switched on in a terminal, by the bytes that it wrote: another screen, reports of the mouse, a hidden
 * cursor. Whoever passed them on can switch it off when the program cannot. Works on pieces as on the whole.
 */
#pragma once

#include "base/bytes.h"

enum { TERM_MODES_NUMBERS = 16 }; /* of one sequence; further ones are passed over */

struct term_modes {
	unsigned char state;
	unsigned int on;                         /* a bit for each row of the table */
	unsigned int number[TERM_MODES_NUMBERS]; /* of the sequence that is being read */
	unsigned int n;
};

void term_modes_put(struct term_modes *m, const void *p, size_t n);
/* What switches off that which is on, and colours in any case. */
void term_modes_off(const struct term_modes *m, struct bytes *out);
