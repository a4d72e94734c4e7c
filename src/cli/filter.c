// SPDX-License-Identifier: Apache-2.0
#include "cli/filter.h"

#include "base/utf8.h"

#include <string.h>

enum state {
	TEXT,
	ESCAPE,  /* behind ESC */
	CONTROL, /* behind ESC [ */
	STRING,  /* behind ESC ] P X ^ _: up to BEL or ESC \, or to the end of the line */
	STRING_ESCAPE,
	CHARSET, /* behind ESC ( and the like: one byte more */
	LETTERS, /* of a character of several bytes */
};

void filter_init(struct filter *f, enum filter_mode mode)
{
	*f = (struct filter){ .mode = mode };
}

/* ESC [ … as a whole: colours, moves, erasing, and the cursor that is hidden while something turns. */
static bool is_harmless(const struct filter *f)
{
	const char *p = f->held + 2;
	size_t n = f->n - 3;
	char last = f->held[f->n - 1];

	if (n == 3 && memcmp(p, "?25", 3) == 0)
		return last == 'h' || last == 'l';
	if (last == 'J') /* 3 would erase what has left the screen at its top */
		return n == 0 || (n == 1 && p[0] >= '0' && p[0] <= '2');
	for (size_t i = 0; i < n; i++)
		if ((p[i] < '0' || p[i] > '9') && p[i] != ';' && p[i] != ':')
			return false;
	return strchr("mABCDEFGHKf", last) != NULL;
}

static void end_control(struct filter *f, struct bytes *out)
{
	f->state = TEXT;
	if (f->mode != FILTER_SAFE || !is_harmless(f))
		return;
	bytes_put(out, f->held, f->n);
	f->coloured |= f->held[f->n - 1] == 'm';
	if (f->held[2] == '?')
		f->hidden = f->held[f->n - 1] == 'l';
}

/* Characters of several bytes: whole ones only, and none that is a control character. */
static void end_letters(struct filter *f, struct bytes *out)
{
	uint32_t c;

	f->state = TEXT;
	if (utf8_next((const unsigned char *)f->held, f->n, &c) != f->n)
		bytes_puts(out, "\xef\xbf\xbd");
	else if (c >= 0xa0)
		bytes_put(out, f->held, f->n);
}

static void take_text(struct filter *f, unsigned char c, struct bytes *out)
{
	f->n = 0;
	if (c == 0x1b) {
		f->state = ESCAPE;
		f->held[f->n++] = (char)c;
	} else if (c >= 0x80) {
		f->held[f->n++] = (char)c;
		f->state = LETTERS;
		if (utf8_unfinished((const unsigned char *)f->held, 1) == 0)
			end_letters(f, out);
	} else if (c >= ' ' ? c != 0x7f : strchr("\n\r\t\b\a", c) != NULL && c != 0) {
		bytes_put(out, &c, 1);
	}
}

/* Whether c belonged to it. */
static bool take_letters(struct filter *f, unsigned char c, struct bytes *out)
{
	const unsigned char *p = (const unsigned char *)f->held;

	f->held[f->n++] = (char)c;
	if (utf8_unfinished(p, f->n) == f->n)
		return true;
	if (utf8_bad(p, f->n) < f->n && (c & 0xc0) != 0x80) { /* broken off */
		f->n--;
		end_letters(f, out);
		return false;
	}
	end_letters(f, out);
	return true;
}

static void take_escape(struct filter *f, unsigned char c)
{
	if (c == '[') {
		f->held[f->n++] = '[';
		f->state = CONTROL;
	} else if (strchr("]PX^_", c) != NULL && c != 0) {
		f->state = STRING;
	} else if (strchr("()*+-./ #%", c) != NULL && c != 0) {
		f->state = CHARSET;
	} else {
		f->state = TEXT;
	}
}

/* Whether c belonged to it. */
static bool take_control(struct filter *f, unsigned char c, struct bytes *out)
{
	if (c < 0x20 || c > 0x7e) { /* broken off */
		f->state = TEXT;
		return false;
	}
	if (f->n < sizeof(f->held))
		f->held[f->n++] = (char)c;
	if (c >= 0x40 && f->n < sizeof(f->held))
		end_control(f, out);
	else if (c >= 0x40)
		f->state = TEXT; /* nobody means anything that long */
	return true;
}

static void take_string(struct filter *f, unsigned char c)
{
	if (c == '\a' || c == '\n' || (f->state == STRING_ESCAPE && c == '\\'))
		f->state = TEXT;
	else
		f->state = c == 0x1b ? STRING_ESCAPE : STRING;
}

static void take(struct filter *f, unsigned char c, struct bytes *out)
{
	switch ((enum state)f->state) {
	case TEXT:
		break;
	case LETTERS:
		if (take_letters(f, c, out))
			return;
		break;
	case ESCAPE:
		take_escape(f, c);
		return;
	case CONTROL:
		if (take_control(f, c, out))
			return;
		break;
	case STRING:
	case STRING_ESCAPE:
		take_string(f, c);
		return;
	case CHARSET:
		f->state = TEXT;
		return;
	}
	take_text(f, c, out);
}

void filter_put(struct filter *f, const void *p, size_t n, struct bytes *out)
{
	const unsigned char *at = p;

	if (f->mode == FILTER_NOTHING) {
		bytes_put(out, p, n);
		return;
	}
	for (size_t i = 0; i < n; i++)
		take(f, at[i], out);
}

void filter_end(struct filter *f, struct bytes *out)
{
	if (f->mode == FILTER_NOTHING)
		return;
	if (f->state == LETTERS)
		end_letters(f, out);
	if (f->hidden)
		bytes_puts(out, "\033[?25h");
	if (f->coloured)
		bytes_puts(out, "\033[0m");
	f->state = TEXT;
	f->hidden = f->coloured = false;
}
