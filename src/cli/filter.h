/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program in a box prints, made fit for the terminal of a person: colours, and moves that progress bars make, stay;
 * what would ask the terminal for an answer (which it would type), set its title or clipboard, or change its modes
 * goes. Works on pieces as on the whole.
 */
#pragma once

#include "base/bytes.h"

#include <stdint.h>

enum filter_mode {
	FILTER_NOTHING, /* for who is no terminal: all bytes as they are */
	FILTER_SAFE,
	FILTER_PLAIN, /* not even colours */
};

struct filter {
	enum filter_mode mode;
	unsigned char state;
	char held[32]; /* the beginning of a sequence or of a character */
	size_t n;
	bool hidden, coloured; /* hidden: the cursor */
};

void filter_init(struct filter *f, enum filter_mode mode);
void filter_put(struct filter *f, const void *p, size_t n, struct bytes *out);
/* That was all: what is unfinished goes, colours and the cursor are as they were. */
void filter_end(struct filter *f, struct bytes *out);
