/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a WebSocket server, for our own client. Input: one byte that says how to cut, then the bytes.
 *
 * Claims: pieces give the same messages and the same end as the whole; messages are bounded, texts are UTF-8; a message,
 * written as a frame of a client and unmasked, is a frame that says the same.
 */
#include "wire/ws_frame.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdbool.h>

#include "fuzz_input.h"

enum { MESSAGE_MAX = 2000 };

struct result {
	uint64_t hash;
	unsigned int messages;
	int end;
};

static void check_again(const struct ws_message *m)
{
	static const uint8_t mask[4] = { 1, 2, 3, 4 };
	uint8_t head[WS_HEAD_MAX];
	size_t n = ws_head(head, m->type, m->n, mask), skip = n - 4;
	uint8_t *frame = malloc(n + m->n + 1);
	struct ws_message again;
	struct ws_reader r;

	MUST(frame != NULL);
	/* As a server would have sent it: without the mask. */
	memcpy(frame, head, skip);
	frame[1] &= 0x7f;
	memcpy(frame + skip, m->p, m->n);
	ws_mask(frame + skip, m->n, mask);
	ws_mask(frame + skip, m->n, mask);
	ws_reader_init(&r, MESSAGE_MAX);
	MUST(ws_read(&r, frame, skip + m->n, &again) == (ptrdiff_t)(skip + m->n));
	MUST(again.type == m->type && again.n == m->n && memcmp(again.p, m->p, m->n) == 0);
	ws_reader_done(&r);
	free(frame);
}

static void check_message(const struct ws_message *m)
{
	uint32_t c;

	MUST(m->n <= MESSAGE_MAX && m->p[m->n] == '\0');
	MUST(m->type == WS_TEXT || m->type == WS_BINARY || m->n <= WS_CONTROL_MAX);
	for (size_t i = 0, len; m->type == WS_TEXT && i < m->n; i += len) {
		len = utf8_next(m->p + i, m->n - i, &c);
		MUST(len > 0);
	}
	check_again(m);
}

static struct result read_all(const uint8_t *p, size_t n, uint8_t how, bool in_pieces)
{
	struct result res = { .hash = 1 };
	uint32_t state = how;
	struct ws_reader r;

	ws_reader_init(&r, MESSAGE_MAX);
	for (size_t at = 0; at < n && res.end == 0;) {
		size_t have = n - at, piece = in_pieces ? next_piece(&state) : have;
		struct ws_message m;
		uint8_t *copy;
		ptrdiff_t used;

		have = piece < have ? piece : have;
		copy = exact_copy(p + at, have);
		used = ws_read(&r, copy, have, &m);
		free(copy);
		if (used < 0) {
			res.end = (int)used;
			MUST(m.type == WS_NOTHING);
			break;
		}
		MUST(used > 0 && (size_t)used <= have);
		at += (size_t)used;
		if (m.type == WS_NOTHING)
			continue;
		check_message(&m);
		res.messages++;
		res.hash = hash_bytes(res.hash, &m.type, sizeof(m.type));
		res.hash = hash_bytes(res.hash, m.p, m.n);
	}
	MUST(res.end == 0 || res.end == -EPROTO || res.end == -E2BIG);
	ws_reader_done(&r);
	return res;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = take_u8(&in);
	struct result whole = read_all(in.p, in.n, how, false),
		      parts = read_all(in.p, in.n, how, true);

	MUST(whole.end == parts.end && whole.messages == parts.messages);
	MUST(whole.hash == parts.hash);
	return 0;
}
