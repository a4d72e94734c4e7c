/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of a terminal as keys: what is pasted, and what a terminal answers, is anybody's. Input: one byte that says how to
 * cut, then the bytes.
 *
 * Claims: pieces give the same keys as the whole, and leave the same unfinished; every call gets on; a character is one, and no
 * control character.
 */
#include "cli/line_keys.h"

#include "base/utf8.h"

#include "fuzz_input.h"

struct result {
	uint64_t hash;
	unsigned int keys;
	struct keys end;
};

static void check_char(const char *text, size_t len)
{
	uint32_t c = 0;

	MUST(len > 0 && utf8_next((const unsigned char *)text, len, &c) == len);
	MUST(c >= ' ' && (c < 0x7f || c >= 0xa0));
}

static void take(struct result *r, enum key key, const char *text, size_t len)
{
	MUST(key > KEY_NONE && key < KEY_MAX);
	if (key == KEY_CHAR)
		check_char(text, len);
	else if (key != KEY_PASTE)
		MUST(len == 0);
	if (key != KEY_PASTE) { /* which comes in pieces of any size */
		r->keys++;
		r->hash = hash_bytes(r->hash, &key, sizeof(key));
	}
	r->hash = hash_bytes(r->hash, text, len);
}

static void read_all(struct result *r, const struct input *in, uint8_t how, bool in_pieces)
{
	uint32_t state = how;

	memset(r, 0, sizeof(*r));
	r->hash = 1;
	for (size_t at = 0; at < in->n;) {
		size_t n = in->n - at, piece = in_pieces ? next_piece(&state) : n, used = 0;
		unsigned int stuck = 0;
		char *copy;

		n = piece < n ? piece : n;
		copy = (char *)exact_copy(in->p + at, n);
		while (used < n) {
			enum key key;
			const char *text;
			size_t len,
				step = keys_take(&r->end, copy + used, n - used, &key, &text, &len);

			MUST(step <= n - used && r->end.n < sizeof(r->end.held));
			stuck = step > 0 ? 0 : stuck + 1;
			MUST(stuck < 2);
			used += step;
			if (key != KEY_NONE)
				take(r, key, text, len);
		}
		free(copy);
		at += n;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct result whole, parts;
	struct input in = { data, size };
	uint8_t how = take_u8(&in);
	bool waits;

	read_all(&whole, &in, how, false);
	read_all(&parts, &in, how, true);
	MUST(whole.hash == parts.hash && whole.keys == parts.keys);
	MUST(whole.end.n == parts.end.n && whole.end.pasting == parts.end.pasting);
	MUST(whole.end.pasting || memcmp(whole.end.held, parts.end.held, whole.end.n) == 0);
	waits = keys_waits(&whole.end);
	MUST(waits == (!whole.end.pasting && whole.end.n > 0 && whole.end.held[0] == '\033'));
	if (waits) {
		enum key key = keys_escape(&whole.end);

		MUST((key == KEY_ABORT || key == KEY_NONE) && !keys_waits(&whole.end));
	}
	return 0;
}
