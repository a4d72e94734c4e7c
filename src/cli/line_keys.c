// SPDX-License-Identifier: Apache-2.0
#include "cli/line_keys.h"

#include "base/own.h"
#include "base/utf8.h"

#include <string.h>

#define ESC       '\033'
#define PASTE_END "\033[201~"

/* Control characters, by their number. */
static const unsigned char controls[32] = {
	[1] = KEY_HOME,    [2] = KEY_LEFT,   [3] = KEY_BREAK,          [4] = KEY_EOF,
	[5] = KEY_END,     [6] = KEY_RIGHT,  [7] = KEY_ABORT,          [8] = KEY_BACKSPACE,
	[9] = KEY_TAB,     [10] = KEY_ENTER, [11] = KEY_KILL_TO_END,   [12] = KEY_CLEAR,
	[13] = KEY_ENTER,  [14] = KEY_NEWER, [15] = KEY_NEWLINE,       [16] = KEY_OLDER,
	[18] = KEY_SEARCH, [20] = KEY_SWAP,  [21] = KEY_KILL_TO_BEGIN, [23] = KEY_KILL_WORD_LEFT,
	[25] = KEY_YANK,   [26] = KEY_STOP,  [31] = KEY_UNDO,
};

/* What follows an Escape. */
static const struct {
	const char *text;
	enum key key;
} sequences[] = {
	{ "[A", KEY_UP },
	{ "[B", KEY_DOWN },
	{ "[C", KEY_RIGHT },
	{ "[D", KEY_LEFT },
	{ "[H", KEY_HOME },
	{ "[F", KEY_END },
	{ "[Z", KEY_BACK_TAB },
	{ "OA", KEY_UP },
	{ "OB", KEY_DOWN },
	{ "OC", KEY_RIGHT },
	{ "OD", KEY_LEFT },
	{ "OH", KEY_HOME },
	{ "OF", KEY_END },
	{ "OM", KEY_ENTER },
	{ "[1~", KEY_HOME },
	{ "[3~", KEY_DELETE },
	{ "[4~", KEY_END },
	{ "[5~", KEY_PAGE_UP },
	{ "[6~", KEY_PAGE_DOWN },
	{ "[7~", KEY_HOME },
	{ "[8~", KEY_END },
	{ "[1;3C", KEY_WORD_RIGHT },
	{ "[1;3D", KEY_WORD_LEFT },
	{ "[1;5C", KEY_WORD_RIGHT },
	{ "[1;5D", KEY_WORD_LEFT },
	{ "[3;5~", KEY_KILL_WORD_RIGHT },
	{ "[13;2u", KEY_NEWLINE },
	{ "[27;2;13~", KEY_NEWLINE },
	{ "b", KEY_WORD_LEFT },
	{ "f", KEY_WORD_RIGHT },
	{ "d", KEY_KILL_WORD_RIGHT },
	{ "\177", KEY_KILL_WORD_LEFT },
	{ "\b", KEY_KILL_WORD_LEFT },
	{ "\r", KEY_NEWLINE },
	{ "\n", KEY_NEWLINE },
	{ "[200~", KEY_PASTE },
};

/* How long the sequence is that begins with these bytes, its Escape included; 0: not known yet. */
static size_t sequence_len(const char *p, size_t n)
{
	if (n < 2)
		return 0;
	if (p[1] == ESC)
		return 1; /* the second one begins something of its own */
	if (p[1] == 'O')
		return n < 3 ? 0 : 3;
	if (p[1] != '[')
		return 2;
	for (size_t i = 2; i < n; i++)
		if (p[i] >= 0x40 && p[i] <= 0x7e)
			return i + 1;
		else if (p[i] < 0x20 || p[i] > 0x3f)
			return i; /* broken off: what follows is a key of its own */
	return 0;
}

static enum key find_sequence(const char *p, size_t n)
{
	if (n == 1)
		return KEY_ABORT;
	for (unsigned int i = 0; i < ARRAY_LEN(sequences); i++)
		if (strlen(sequences[i].text) == n - 1 &&
		    memcmp(sequences[i].text, p + 1, n - 1) == 0)
			return sequences[i].key;
	return KEY_NONE;
}

/* How many bytes of held are a key; 0: more have to come. */
static size_t key_of(const struct keys *k, enum key *key)
{
	unsigned char c = (unsigned char)k->held[0];
	size_t len;
	uint32_t character;

	*key = KEY_NONE;
	if (c == ESC) {
		len = sequence_len(k->held, k->n);
		if (len == 0 && k->n == sizeof(k->held))
			return k->n; /* nobody has keys that long */
		if (len > 0)
			*key = find_sequence(k->held, len);
		return len;
	}
	if (c < 0x20 || c == 0x7f) {
		*key = c == 0x7f ? KEY_BACKSPACE : (enum key)controls[c];
		return 1;
	}
	if (utf8_unfinished((const unsigned char *)k->held, k->n) == k->n)
		return 0;
	len = utf8_next((const unsigned char *)k->held, k->n, &character);
	if (len == 0)
		return utf8_bad((const unsigned char *)k->held, k->n);
	*key = character >= 0x80 && character < 0xa0 ? KEY_NONE : KEY_CHAR;
	return len;
}

/* While something is pasted: all bytes up to what may be its end. */
static size_t take_pasted(struct keys *k, const char *p, size_t n, enum key *key, const char **text,
			  size_t *len)
{
	const char *esc;

	*key = KEY_PASTE;
	if (k->n == 0) {
		esc = memchr(p, ESC, n);
		*text = p;
		*len = esc != NULL ? (size_t)(esc - p) : n;
		if (*len > 0)
			return *len;
	}
	if (*p != PASTE_END[k->n]) { /* what was held is text, and this byte is looked at again */
		*text = PASTE_END;
		*len = k->n;
		k->n = 0;
		return 0;
	}
	k->n++;
	*key = KEY_NONE;
	if (k->n == strlen(PASTE_END)) {
		k->n = 0;
		k->pasting = false;
		*key = KEY_PASTE_END;
	}
	return 1;
}

size_t keys_take(struct keys *k, const char *p, size_t n, enum key *key, const char **text,
		 size_t *len)
{
	size_t used = 0, size = 0;

	*key = KEY_NONE;
	*text = "";
	*len = 0;
	if (k->pasting)
		return n > 0 ? take_pasted(k, p, n, key, text, len) : 0;
	while (used < n && size == 0) {
		k->held[k->n++] = p[used++];
		size = key_of(k, key);
	}
	if (size == 0)
		return used;
	/* A byte that was read too far, to see where this key ends, belongs to the next. */
	used -= k->n - size;
	k->n = 0;
	if (*key == KEY_CHAR) {
		*text = k->held;
		*len = size;
	}
	if (*key == KEY_PASTE) {
		k->pasting = true;
		*key = KEY_NONE;
	}
	return used;
}

bool keys_waits(const struct keys *k)
{
	return !k->pasting && k->n > 0 && k->held[0] == ESC;
}

enum key keys_escape(struct keys *k)
{
	bool alone = k->n == 1;

	k->n = 0;
	return alone ? KEY_ABORT : KEY_NONE;
}
