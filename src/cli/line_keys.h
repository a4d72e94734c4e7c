/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a terminal as keys: characters, control keys, the sequences of arrows and their friends, and text that was
 * pasted between brackets. Pieces give the same keys as the whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum key {
	KEY_NONE,  /* unknown, or nothing: passed over */
	KEY_CHAR,  /* one character, in text */
	KEY_PASTE, /* a piece of what is pasted, in text, as it came */
	KEY_PASTE_END,
	KEY_ENTER,
	KEY_NEWLINE, /* a line end whatever comes of it */
	KEY_TAB,
	KEY_BACK_TAB,
	KEY_BACKSPACE,
	KEY_DELETE,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_UP,
	KEY_DOWN,
	KEY_HOME,
	KEY_END,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_WORD_LEFT,
	KEY_WORD_RIGHT,
	KEY_KILL_WORD_LEFT,
	KEY_KILL_WORD_RIGHT,
	KEY_KILL_TO_BEGIN,
	KEY_KILL_TO_END,
	KEY_YANK,
	KEY_SWAP,
	KEY_OLDER,
	KEY_NEWER,
	KEY_SEARCH,
	KEY_UNDO,
	KEY_CLEAR,
	KEY_BREAK, /* Ctrl-C */
	KEY_EOF,   /* Ctrl-D */
	KEY_STOP,  /* Ctrl-Z */
	KEY_ABORT, /* Ctrl-G, Escape */
	KEY_MAX,
};

struct keys {
	char held[32]; /* the beginning of a character or of a sequence */
	size_t n;
	bool pasting;
};

/* Take one key from the front of p. Returns how many bytes to go on by: perhaps 0, if the key is made of bytes that were
 * held; nobody gets stuck by calling again with the rest. *key is KEY_NONE where there is none. *text and *len are valid
 * until the next call. */
size_t keys_take(struct keys *k, const char *p, size_t n, enum key *key, const char **text,
		 size_t *len);

/* Whether an Escape was pressed that may be the beginning of something, or all of it. Who has waited a moment takes it
 * for all, with keys_escape(). */
bool keys_waits(const struct keys *k);
enum key keys_escape(struct keys *k);
