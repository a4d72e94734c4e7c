/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that is being edited, as rows of a terminal: a prompt before its first line, another one before each further
 * line, long lines cut where the terminal ends. Only rows that have changed are written.
 *
 * Rows are ours from the one in which the first was drawn; what is above them is never touched. A text with more rows
 * than the terminal has is seen through a window around the cursor.
 */
#pragma once

#include "base/bytes.h"

#include <stdint.h>

struct screen_row {
	size_t at, n; /* its bytes */
	unsigned int width;
};

struct screen_rows {
	struct bytes bytes;
	struct screen_row *v;
	size_t n, cap;
};

struct screen {
	unsigned int cols, rows;
	struct bytes *out;        /* what the terminal is to be told */
	struct screen_rows shown; /* what it shows */
	size_t row;               /* in which of them the cursor is */
	unsigned int col;
	size_t top; /* of the window: the row of the text that is its first */
};

/* What is to be seen. Colours of the prompts (ESC [ … m) have no width. */
struct screen_view {
	const char *prompt, *more;
	const char *text; /* UTF-8 */
	size_t len, at;   /* at: of the cursor, before a character */
};

void screen_init(struct screen *s, struct bytes *out, unsigned int cols, unsigned int rows);
void screen_done(struct screen *s);

void screen_draw(struct screen *s, const struct screen_view *v);
/* All of it, however long, and the cursor on a line of its own behind it. Then the rows are nobody's. */
void screen_finish(struct screen *s, const struct screen_view *v);
/* The cursor behind the last row, on a line of its own: what others write comes there. The rows are nobody's. */
void screen_leave(struct screen *s);
/* Nothing of ours is shown any more, and the cursor is at the beginning of a line. */
void screen_forget(struct screen *s);
/* The terminal empty, and the cursor in its first row. */
void screen_clear(struct screen *s);
/* The terminal has another size. Draw again after it. */
void screen_resize(struct screen *s, unsigned int cols, unsigned int rows);

/* How many columns a character takes: 0, 1, 2. What must not be shown is shown as something that takes 1. */
unsigned int char_width(uint32_t c);
/* The character at p, and those without a width that belong to it. 0 only if n is 0. */
size_t char_cluster(const char *p, size_t n);
/* How many columns a text takes, colours apart. */
unsigned int text_width(const char *p, size_t n);
