/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal for the tests of the line editor: rows of cells, a cursor, and of the sequences those that the editor may
 * use. Anything else fails the test. As real ones do, it wraps only when the next character comes.
 */
#ifndef GLOVEBOX_TESTS_UNIT_TEST_LINE_TERM_H
#define GLOVEBOX_TESTS_UNIT_TEST_LINE_TERM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/utf8.h"

#include "test_help.h"

enum { TERM_ROWS = 60, TERM_COLS = 120, TERM_CELL = 16 };

struct term {
	char cell[TERM_ROWS][TERM_COLS][TERM_CELL]; /* "": the second half of a wide one */
	unsigned int rows, cols, row, col;
	unsigned int scrolled; /* lines that left at the top */
	unsigned int bells, colours;
	bool wrap; /* the last column is written, and the cursor still on it */
};

static inline void term_blank(struct term *t, unsigned int row, unsigned int from)
{
	for (unsigned int c = from; c < t->cols; c++) {
		memset(t->cell[row][c], 0, TERM_CELL);
		t->cell[row][c][0] = ' ';
	}
}

static inline void term_open(struct term *t, unsigned int cols, unsigned int rows)
{
	memset(t, 0, sizeof(*t));
	t->rows = rows;
	t->cols = cols;
	for (unsigned int r = 0; r < rows; r++)
		term_blank(t, r, 0);
}

static inline void term_down(struct term *t)
{
	if (t->row + 1 < t->rows) {
		t->row++;
		return;
	}
	memmove(t->cell[0], t->cell[1], sizeof(t->cell[0]) * (t->rows - 1));
	term_blank(t, t->rows - 1, 0);
	t->scrolled++;
}

static inline void term_char(struct term *t, const char *p, size_t n, uint32_t c)
{
	int width = wcwidth((wchar_t)c);

	CHECK(width >= 0);
	if (width == 0) { /* belongs to what stands before it */
		unsigned int col = t->wrap ? t->col : t->col > 0 ? t->col - 1 : 0;

		if (col > 0 && t->cell[t->row][col][0] == '\0')
			col--;
		CHECK(strlen(t->cell[t->row][col]) + n < TERM_CELL);
		(void)strncat(t->cell[t->row][col], p, n);
		return;
	}
	if (t->wrap || t->col + (unsigned int)width > t->cols) {
		t->col = 0;
		t->wrap = false;
		term_down(t);
	}
	memset(t->cell[t->row][t->col], 0, (size_t)width * TERM_CELL);
	memcpy(t->cell[t->row][t->col], p, n);
	t->col += (unsigned int)width;
	if (t->col == t->cols) {
		t->col--;
		t->wrap = true;
	}
}

static inline size_t term_sequence(struct term *t, const char *p, size_t n)
{
	unsigned int number = 0, times;
	size_t i = 2;

	CHECK(n > 2 && p[1] == '[');
	for (; i < n && ((p[i] >= '0' && p[i] <= '9') || p[i] == ';'); i++)
		number = p[i] == ';' ? 0 : number * 10 + (unsigned int)(p[i] - '0');
	CHECK(i < n);
	times = number > 0 ? number : 1;
	if (p[i] != 'm')
		t->wrap = false;
	if (p[i] == 'A') {
		CHECK(times <= t->row); /* above it is not ours */
		t->row -= times;
	} else if (p[i] == 'B') {
		CHECK(t->row + times < t->rows);
		t->row += times;
	} else if (p[i] == 'C') {
		CHECK(t->col + times < t->cols);
		t->col += times;
	} else if (p[i] == 'K') {
		term_blank(t, t->row, t->col);
	} else if (p[i] == 'J' && number == 0) {
		term_blank(t, t->row, t->col);
		for (unsigned int r = t->row + 1; r < t->rows; r++)
			term_blank(t, r, 0);
	} else if (p[i] == 'J' && number == 2) {
		for (unsigned int r = 0; r < t->rows; r++)
			term_blank(t, r, 0);
	} else if (p[i] == 'H') {
		t->row = t->col = 0;
	} else {
		CHECK(p[i] == 'm');
		t->colours++;
	}
	return i + 1;
}

static inline void term_write(struct term *t, const char *p, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		uint32_t c = 0;

		len = 1;
		if (p[i] == '\033') {
			len = term_sequence(t, p + i, n - i);
		} else if (p[i] == '\r') {
			t->col = 0;
			t->wrap = false;
		} else if (p[i] == '\n') {
			t->wrap = false;
			t->col = 0; /* what the line discipline adds */
			term_down(t);
		} else if (p[i] == '\a') {
			t->bells++;
		} else {
			len = utf8_next((const unsigned char *)p + i, n - i, &c);
			CHECK(len > 0 && c >= ' ' && c != 0x7f);
			term_char(t, p + i, len, c);
		}
	}
}

/* A row without the spaces at its end. */
static inline const char *term_row(const struct term *t, unsigned int row)
{
	static char text[TERM_COLS * TERM_CELL];
	size_t n = 0;

	for (unsigned int c = 0; c < t->cols; c++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", t->cell[row][c]);
	while (n > 0 && text[n - 1] == ' ')
		n--;
	text[n] = '\0';
	return text;
}

#endif
