// SPDX-License-Identifier: Apache-2.0
#include "cli/line_screen.h"

#include "base/utf8.h"

#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define REPLACEMENT "\xef\xbf\xbd"

enum {
	FRAME_MAX = 64 * 1024 * 1024,
	TAB_WIDTH = 4,
	ZERO_WIDTH_NON_JOINER = 0x200c,
	ZERO_WIDTH_JOINER = 0x200d,
};

void screen_init(struct screen *s, struct bytes *out, unsigned int cols, unsigned int rows)
{
	*s = (struct screen){ .out = out };
	bytes_init(&s->shown.bytes, FRAME_MAX);
	(void)setlocale(LC_CTYPE, "C.UTF-8"); /* for wcwidth(); this one is always there */
	screen_resize(s, cols, rows);
}

static void rows_done(struct screen_rows *r)
{
	bytes_done(&r->bytes);
	free(r->v);
	*r = (struct screen_rows){ .bytes = { .max = FRAME_MAX } };
}

void screen_done(struct screen *s)
{
	rows_done(&s->shown);
}

/* --- widths --------------------------------------------------------------------------------------- */

static bool is_shown(uint32_t c)
{
	if (c == ZERO_WIDTH_JOINER || c == ZERO_WIDTH_NON_JOINER)
		return true;
	return !utf8_is_tricky(c) && wcwidth((wchar_t)c) >= 0;
}

unsigned int char_width(uint32_t c)
{
	int width;

	if (c >= ' ' && c < 0x7f)
		return 1;
	if (!is_shown(c))
		return 1;
	width = wcwidth((wchar_t)c);
	return width < 0 ? 0 : (unsigned int)width; /* the joiners have none, whatever libc says */
}

/* The character at p; what is none counts as U+FFFD. */
static size_t next_char(const char *p, size_t n, uint32_t *c)
{
	size_t len = utf8_next((const unsigned char *)p, n, c);

	if (len > 0)
		return len;
	*c = 0xfffd;
	return utf8_bad((const unsigned char *)p, n);
}

size_t char_cluster(const char *p, size_t n)
{
	uint32_t c;
	size_t len, at;

	if (n == 0)
		return 0;
	at = next_char(p, n, &c);
	while (c != '\n' && at < n) {
		uint32_t follows;

		len = next_char(p + at, n - at, &follows);
		if (follows < 0x80 || char_width(follows) > 0)
			break;
		at += len;
	}
	return at;
}

/* The length of a colour at p, 0: there is none. */
static size_t colour_len(const char *p, size_t n)
{
	size_t i = 2;

	if (n < 3 || p[0] != '\033' || p[1] != '[')
		return 0;
	while (i < n && ((p[i] >= '0' && p[i] <= '9') || p[i] == ';'))
		i++;
	return i < n && p[i] == 'm' ? i + 1 : 0;
}

unsigned int text_width(const char *p, size_t n)
{
	unsigned int width = 0;
	uint32_t c;

	for (size_t i = 0, len; i < n; i += len) {
		len = colour_len(p + i, n - i);
		if (len > 0)
			continue;
		len = next_char(p + i, n - i, &c);
		width += char_width(c);
	}
	return width;
}

/* --- rows of a text ------------------------------------------------------------------------------- */

struct layout {
	struct screen_rows rows;
	unsigned int cols;
	size_t cursor_row;
	unsigned int cursor_col;
	bool failed;
};

static void new_row(struct layout *l)
{
	struct screen_rows *r = &l->rows;

	if (r->n == r->cap) {
		size_t cap = r->cap * 2 + 16;
		struct screen_row *v = reallocarray(r->v, cap, sizeof(*v));

		if (v == NULL) {
			l->failed = true;
			return;
		}
		r->v = v;
		r->cap = cap;
	}
	r->v[r->n++] = (struct screen_row){ .at = r->bytes.n };
}

/* Bytes that take so many columns, in one piece. */
static void lay(struct layout *l, const char *p, size_t n, unsigned int width)
{
	struct screen_row *row;

	if (l->failed)
		return;
	if (l->rows.v[l->rows.n - 1].width + width > l->cols)
		new_row(l);
	if (l->failed)
		return;
	row = &l->rows.v[l->rows.n - 1];
	bytes_put(&l->rows.bytes, p, n);
	row->n += n;
	row->width += width;
}

static void lay_prompt(struct layout *l, const char *p)
{
	size_t n = strlen(p);
	uint32_t c;

	for (size_t i = 0, len; i < n; i += len) {
		len = colour_len(p + i, n - i);
		if (len > 0) {
			lay(l, p + i, len, 0);
			continue;
		}
		len = next_char(p + i, n - i, &c);
		lay(l, p + i, len, char_width(c));
	}
}

static void lay_cluster(struct layout *l, const char *p, size_t n)
{
	uint32_t c;

	(void)next_char(p, n, &c);
	if (c == '\t')
		lay(l, "    ", TAB_WIDTH, TAB_WIDTH);
	else if (c == 0xfffd || !is_shown(c))
		lay(l, REPLACEMENT, strlen(REPLACEMENT), 1);
	else
		lay(l, p, n, char_width(c));
}

static unsigned int cluster_width(const char *p, size_t n)
{
	uint32_t c;

	(void)next_char(p, n, &c);
	return c == '\t' ? TAB_WIDTH : char_width(c);
}

static void note_cursor(struct layout *l, unsigned int width)
{
	if (l->failed)
		return;
	if (l->rows.v[l->rows.n - 1].width + width > l->cols)
		new_row(l); /* there the next character is going to be */
	l->cursor_row = l->rows.n - 1;
	l->cursor_col = l->failed ? 0 : l->rows.v[l->rows.n - 1].width;
}

static void lay_out(struct layout *l, const struct screen_view *v, unsigned int cols)
{
	*l = (struct layout){ .cols = cols, .rows = { .bytes = { .max = FRAME_MAX } } };
	new_row(l);
	lay_prompt(l, v->prompt);
	for (size_t i = 0, len; i < v->len && !l->failed; i += len) {
		len = char_cluster(v->text + i, v->len - i);
		if (i == v->at)
			note_cursor(l, v->text[i] == '\n' ? 1
							  : cluster_width(v->text + i, v->len - i));
		if (v->text[i] == '\n') {
			new_row(l);
			lay_prompt(l, v->more);
		} else {
			lay_cluster(l, v->text + i, len);
		}
	}
	if (v->at >= v->len)
		note_cursor(l, 1);
	l->failed |= l->rows.bytes.failed;
}

/* --- drawing -------------------------------------------------------------------------------------- */

/* To the beginning of a row of ours; one that there is not yet is made. */
static void go_to(struct screen *s, size_t row)
{
	if (row < s->row)
		bytes_printf(s->out, "\033[%zuA", s->row - row);
	bytes_puts(s->out, "\r");
	while (s->row < row) {
		size_t last = s->shown.n > 0 ? s->shown.n - 1 : 0;

		if (s->row < last) {
			size_t step = (row < last ? row : last) - s->row;

			bytes_printf(s->out, "\033[%zuB", step);
			s->row += step;
		} else {
			bytes_puts(s->out, "\n");
			s->row++;
		}
	}
	s->row = row;
	s->col = 0;
}

static bool same_row(const struct screen_rows *a, size_t i, const struct screen_rows *b, size_t k)
{
	return i < a->n && k < b->n && a->v[i].n == b->v[k].n &&
	       memcmp(bytes_str(&a->bytes) + a->v[i].at, bytes_str(&b->bytes) + b->v[k].at,
		      a->v[i].n) == 0;
}

/* Erase first: behind a row that is full the cursor may still stand on its last character. */
static void put_row(struct screen *s, const struct screen_rows *r, size_t i)
{
	bytes_puts(s->out, "\033[K");
	bytes_put(s->out, bytes_str(&r->bytes) + r->v[i].at, r->v[i].n);
}

static void move_window(struct screen *s, const struct layout *l)
{
	size_t total = l->rows.n;

	if (l->cursor_row < s->top)
		s->top = l->cursor_row;
	if (l->cursor_row >= s->top + s->rows)
		s->top = l->cursor_row - s->rows + 1;
	if (total <= s->rows)
		s->top = 0;
	else if (total - s->top < s->rows)
		s->top = total - s->rows;
}

/* What is shown from now on: the rows of the window. */
static void take_rows(struct screen *s, struct layout *l, size_t n)
{
	free(s->shown.v);
	bytes_done(&s->shown.bytes);
	(void)memmove(l->rows.v, l->rows.v + s->top, n * sizeof(*l->rows.v));
	l->rows.n = n;
	s->shown = l->rows;
}

void screen_draw(struct screen *s, const struct screen_view *v)
{
	struct layout l;
	size_t n;

	lay_out(&l, v, s->cols);
	if (l.failed) {
		rows_done(&l.rows);
		return;
	}
	move_window(s, &l);
	n = l.rows.n - s->top < s->rows ? l.rows.n - s->top : s->rows;
	for (size_t i = 0; i < n; i++) {
		if (same_row(&s->shown, i, &l.rows, s->top + i))
			continue;
		go_to(s, i);
		put_row(s, &l.rows, s->top + i);
		s->col = UINT_MAX; /* where exactly depends on the terminal */
	}
	if (n < s->shown.n) {
		go_to(s, n);
		bytes_puts(s->out, "\033[J");
	}
	l.cursor_row -= s->top;
	if (s->row != l.cursor_row || s->col != l.cursor_col) {
		go_to(s, l.cursor_row);
		if (l.cursor_col > 0)
			bytes_printf(s->out, "\033[%uC", l.cursor_col);
	}
	s->col = l.cursor_col;
	take_rows(s, &l, n);
}

void screen_finish(struct screen *s, const struct screen_view *v)
{
	struct layout l;

	lay_out(&l, v, s->cols);
	go_to(s, 0);
	bytes_puts(s->out, "\033[J");
	for (size_t i = 0; i < l.rows.n && !l.failed; i++) {
		put_row(s, &l.rows, i);
		bytes_puts(s->out, "\r\n");
	}
	rows_done(&l.rows);
	screen_forget(s);
}

void screen_leave(struct screen *s)
{
	go_to(s, s->shown.n);
	screen_forget(s);
}

void screen_forget(struct screen *s)
{
	rows_done(&s->shown);
	s->row = 0;
	s->col = 0;
	s->top = 0;
}

void screen_clear(struct screen *s)
{
	bytes_puts(s->out, "\033[H\033[2J");
	screen_forget(s);
}

/* A terminal that becomes narrower breaks our rows; one that becomes wider does not join them, for each has an end of
 * its own. */
void screen_resize(struct screen *s, unsigned int cols, unsigned int rows)
{
	size_t above = 0;

	cols = cols < 2 ? 2 : cols;
	for (size_t i = 0; i < s->row && i < s->shown.n; i++) {
		unsigned int width = s->shown.v[i].width;

		above += width > cols ? (width + cols - 1) / cols : 1;
	}
	above += s->col / cols;
	s->cols = cols;
	s->rows = rows < 1 ? 1 : rows;
	if (s->shown.n == 0)
		return;
	if (above > 0)
		bytes_printf(s->out, "\033[%zuA", above);
	bytes_puts(s->out, "\r\033[J");
	screen_forget(s);
}
