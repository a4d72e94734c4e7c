/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program in a box prints, on its way to a terminal. Input: one byte that says how to cut, one for the mode, then the
 * bytes.
 *
 * Claims: pieces give the same as the whole; what comes out is text and harmless sequences only, by rules written a second
 * time here; filtered again it stays the same; at the end nothing is left unfinished.
 */
#include "cli/filter.h"

#include "base/utf8.h"

#include "fuzz_input.h"

enum { OUT_MAX = 1 << 20 };

/* The length of a sequence that may pass; 0: it may not. */
static size_t sequence_len(const char *p, size_t n)
{
	static const char *const erase[] = { "J", "0J", "1J", "2J", "?25h", "?25l" };
	size_t i = 2;

	if (n < 3 || p[1] != '[')
		return 0;
	for (size_t k = 0; k < sizeof(erase) / sizeof(erase[0]); k++)
		if (n - 2 >= strlen(erase[k]) && memcmp(p + 2, erase[k], strlen(erase[k])) == 0)
			return 2 + strlen(erase[k]);
	while (i < n && strchr("0123456789;:", p[i]) != NULL && p[i] != '\0')
		i++;
	return i < n && p[i] != '\0' && strchr("mABCDEFGHKf", p[i]) != NULL ? i + 1 : 0;
}

static void check_harmless(const struct bytes *out, enum filter_mode mode)
{
	const char *p = bytes_str(out);

	for (size_t i = 0, len; i < out->n; i += len) {
		unsigned char c = (unsigned char)p[i];
		uint32_t character = 0;

		len = 1;
		if (c == 0x1b) {
			MUST(mode == FILTER_SAFE);
			len = sequence_len(p + i, out->n - i);
		} else if (c >= 0x80) {
			len = utf8_next((const unsigned char *)p + i, out->n - i, &character);
			MUST(character >= 0xa0);
		} else {
			MUST((c >= ' ' && c != 0x7f) || c == '\n' || c == '\r' || c == '\t' ||
			     c == '\b' || c == '\a');
		}
		MUST(len > 0);
	}
}

static void run(struct bytes *out, size_t *before_end, const struct input *in, uint8_t how,
		enum filter_mode mode, bool in_pieces)
{
	uint32_t state = how;
	struct filter f;

	filter_init(&f, mode);
	bytes_init(out, OUT_MAX);
	for (size_t at = 0; at < in->n;) {
		size_t n = in->n - at, piece = in_pieces ? next_piece(&state) : n;
		uint8_t *copy;

		n = piece < n ? piece : n;
		copy = exact_copy(in->p + at, n);
		filter_put(&f, copy, n, out);
		free(copy);
		at += n;
	}
	*before_end = out->n;
	filter_end(&f, out);
	MUST(!out->failed);
	if (mode == FILTER_NOTHING)
		return;
	/* What comes next begins anew. */
	filter_put(&f, "x", 1, out);
	MUST(out->p[out->n - 1] == 'x');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size < OUT_MAX / 4 ? size : OUT_MAX / 4 };
	uint8_t how = take_u8(&in);
	enum filter_mode mode = (enum filter_mode)(take_u8(&in) % 3);
	struct bytes whole, parts, again;
	size_t n, same;

	run(&whole, &n, &in, how, mode, false);
	run(&parts, &same, &in, how, mode, true);
	MUST(n == same && whole.n == parts.n);
	MUST(memcmp(bytes_str(&whole), bytes_str(&parts), whole.n) == 0);
	if (mode == FILTER_NOTHING) {
		MUST(whole.n == in.n && memcmp(bytes_str(&whole), in.p, in.n) == 0);
	} else {
		struct input out = { (const uint8_t *)bytes_str(&whole), n };

		check_harmless(&whole, mode);
		run(&again, &same, &out, how, mode, true);
		MUST(same == n && memcmp(bytes_str(&again), bytes_str(&whole), n) == 0);
		bytes_done(&again);
	}
	bytes_done(&whole);
	bytes_done(&parts);
	return 0;
}
