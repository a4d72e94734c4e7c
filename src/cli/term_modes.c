// SPDX-License-Identifier: Apache-2.0
#include "cli/term_modes.h"

#include "base/own.h"

enum state {
	TEXT,
	ESCAPE,  /* behind ESC */
	CONTROL, /* behind ESC [ */
	PRIVATE, /* behind ESC [ ? */
};

enum { NUMBER_MAX = 100000 };

/* The screen comes first: the others are then switched off where they are seen. */
static const struct {
	unsigned int number;
	char on;
	const char *off;
} rows[] = {
	{ 1049, 'h', "\033[?1049l" }, /* the other screen */
	{ 1047, 'h', "\033[?1047l" }, { 47, 'h', "\033[?47l" },
	{ 1000, 'h', "\033[?1000l" }, /* reports of the mouse */
	{ 1002, 'h', "\033[?1002l" }, { 1003, 'h', "\033[?1003l" },
	{ 1005, 'h', "\033[?1005l" }, { 1006, 'h', "\033[?1006l" },
	{ 1015, 'h', "\033[?1015l" }, { 1004, 'h', "\033[?1004l" }, /* and of the focus */
	{ 2004, 'h', "\033[?2004l" }, /* brackets around what is pasted */
	{ 1, 'h', "\033[?1l" },       /* other bytes of arrows */
	{ 7, 'l', "\033[?7h" },       /* long lines are cut */
	{ 25, 'l', "\033[?25h" },     /* no cursor */
	{ 0, '=', "\033>" },          /* other bytes of the keypad: ESC = */
};

static void set(struct term_modes *m, unsigned int number, char letter)
{
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++) {
		if (rows[i].number != number)
			continue;
		if (letter == rows[i].on)
			m->on |= 1u << i;
		else
			m->on &= ~(1u << i);
	}
}

static void take_escape(struct term_modes *m, char c)
{
	m->state = c == '[' ? CONTROL : c == '\033' ? ESCAPE : TEXT;
	if (c == '=' || c == '>')
		set(m, 0, c);
	if (c == 'c') /* everything as it was when it was switched on */
		m->on = 0;
}

static void take_private(struct term_modes *m, char c)
{
	unsigned int *last = m->n < TERM_MODES_NUMBERS ? &m->number[m->n] : NULL;

	if (c >= '0' && c <= '9') {
		if (last != NULL && *last < NUMBER_MAX)
			*last = *last * 10 + (unsigned int)(c - '0');
		return;
	}
	if (last != NULL) {
		m->n++;
		if (m->n < TERM_MODES_NUMBERS)
			m->number[m->n] = 0;
	}
	if (c == ';')
		return;
	m->state = c == '\033' ? ESCAPE : TEXT;
	for (unsigned int i = 0; i < m->n && (c == 'h' || c == 'l'); i++)
		if (m->number[i] != 0)
			set(m, m->number[i], c);
}

static void take(struct term_modes *m, char c)
{
	switch ((enum state)m->state) {
	case TEXT:
		m->state = c == '\033' ? ESCAPE : TEXT;
		break;
	case ESCAPE:
		take_escape(m, c);
		break;
	case CONTROL:
		m->state = c == '?' ? PRIVATE : c == '\033' ? ESCAPE : TEXT;
		m->n = 0;
		m->number[0] = 0;
		break;
	case PRIVATE:
		take_private(m, c);
		break;
	}
}

void term_modes_put(struct term_modes *m, const void *p, size_t n)
{
	const char *at = p;

	for (size_t i = 0; i < n; i++)
		take(m, at[i]);
}

void term_modes_off(const struct term_modes *m, struct bytes *out)
{
	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++)
		if ((m->on & 1u << i) != 0)
			bytes_puts(out, rows[i].off);
	bytes_puts(out, "\033[0m");
}
