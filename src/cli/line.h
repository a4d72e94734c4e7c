/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line editor: bytes of a terminal in, bytes for a terminal out, and what was asked for. It reads and writes nothing
 * itself.
 *
 * The text may have several lines. Up and down go through them, and beyond them through the history. What is pasted is
 * text, whatever is in it, and no key.
 */
#pragma once

#include "base/bytes.h"
#include "cli/history.h"
#include "cli/line_keys.h"
#include "cli/line_screen.h"

enum {
	LINE_TEXT_MAX = 1024 * 1024,
	LINE_UNDO = 64,
};

enum line_flag {
	LINE_PLAIN = 1u << 0, /* one line: Enter ends it, Tab is a character, there is no history */
	LINE_SECRET = 1u << 1, /* nothing of the text is shown */
};

/* What the one at the keyboard wants. */
enum line_said {
	LINE_MORE,      /* nothing yet */
	LINE_ENTER,     /* this is all, if it is complete: line_accept() or line_newline() */
	LINE_COMPLETE,  /* the word before the cursor completed */
	LINE_INTERRUPT, /* Ctrl-C */
	LINE_EOF,       /* Ctrl-D, without any text */
	LINE_SUSPEND,   /* Ctrl-Z */
};

struct line_state {
	char *text;
	size_t at;
};

struct line {
	struct bytes out; /* for the terminal; whoever writes it clears it */
	struct bytes text;
	size_t at; /* of the cursor */
	unsigned int flags;
	const char *prompt, *more;
	struct keys keys;
	struct screen screen;
	unsigned int goal; /* the column that up and down keep to; valid while has_goal */
	bool has_goal, pasted_cr;
	bool paste_refused; /* there was no room for what is pasted: the rest of it goes, too */
	struct bytes killed;
	/* the history */
	const struct history *history; /* or NULL */
	size_t entry;                  /* which one is shown; its number of entries: our own text */
	char *own;                     /* that text while another one is shown */
	/* what can be undone */
	struct line_state undo[LINE_UNDO];
	unsigned int nundo;
	bool typing; /* the last key was a character: one undo takes all of them */
	/* searching the history */
	bool searching, missing; /* missing: there is none, or no older one */
	struct bytes wanted;
	size_t found; /* which entry is shown; their number: none yet */
	char prompt_search[160];
	struct line_state before;
};

void line_init(struct line *l, const struct history *h, unsigned int cols, unsigned int rows);
void line_done(struct line *l);

/* A new text. The prompts stay the caller's. Nothing is drawn yet. */
void line_begin(struct line *l, const char *prompt, const char *more, unsigned int flags);

/* Take bytes until something is said. Returns how many were taken. */
size_t line_feed(struct line *l, const char *p, size_t n, enum line_said *said);
/* An Escape that nothing followed, see keys_waits(). */
void line_escape(struct line *l);

void line_draw(struct line *l);
void line_resize(struct line *l, unsigned int cols, unsigned int rows);
/* The text is taken: it is shown for the last time, whole. */
void line_accept(struct line *l);
/* It is dropped: the cursor goes behind it. */
void line_drop(struct line *l);
/* Something else is written in between: the cursor goes behind the text, and the next drawing begins anew. */
void line_leave(struct line *l);
/* It goes on: a line end at the cursor, and so many spaces. */
void line_newline(struct line *l, unsigned int indent);
/* n bytes from `from` become others, with the cursor behind them. */
void line_replace(struct line *l, size_t from, size_t n, const char *p, size_t len);
void line_bell(struct line *l);

/* --- between its files ------------------------------------------------------------------------------ */

/* line_history.c */
void line_older(struct line *l);
void line_newer(struct line *l);
void line_search_begin(struct line *l);
/* A key while searching; whether it was one for the search. Otherwise the search is over, and the key means what it
 * means. */
bool line_search_key(struct line *l, enum key key, const char *text, size_t len);
void line_search_end(struct line *l, bool keep);
/* Another text, with the cursor at its end or where it was. */
void line_set(struct line *l, const char *text, size_t at);
