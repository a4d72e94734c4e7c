/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames, in both directions. Input: one byte that says how to cut, then the stream.
 *
 * Claims: the stream in pieces gives the same frames and the same end as the whole of it; a frame lies within its
 * row and within the buffer; its header, written again, is the same bytes.
 */
#include "wire/frame.h"

#include <errno.h>

#include "fuzz_input.h"

struct result {
	uint64_t hash;
	size_t frames, used;
	ptrdiff_t end; /* 0: more is needed, or -EPROTO */
};

static void take_frame(struct result *r, const struct frame *f, const uint8_t *at, size_t n,
		       size_t have, unsigned int dir)
{
	const struct frame_row *row = frame_row(f->type);
	uint8_t header[FRAME_HEADER];

	MUST(row != NULL && (row->dir & dir) != 0);
	MUST(f->len >= row->min && f->len <= row->max);
	MUST(n == FRAME_HEADER + f->len && n <= have && f->payload == at + FRAME_HEADER);
	frame_put_header(header, f->type, f->flags, f->id, f->number, f->len);
	MUST(memcmp(header, at, FRAME_HEADER) == 0);
	r->hash = hash_bytes(hash_bytes(r->hash, header, sizeof(header)), f->payload, f->len);
	r->frames++;
	r->used += n;
}

static struct result parse_whole(const uint8_t *p, size_t n, unsigned int dir)
{
	struct result r = { .hash = 1 };
	struct frame f;

	while ((r.end = frame_parse(p + r.used, n - r.used, dir, &f)) > 0)
		take_frame(&r, &f, p + r.used, (size_t)r.end, n - r.used, dir);
	return r;
}

/* As a reader of a socket does it: bytes arrive behind those that are not a frame yet. */
static struct result parse_pieces(const uint8_t *p, size_t n, unsigned int dir, uint32_t how)
{
	struct result r = { .hash = 1 };

	for (size_t arrived = 0; r.end == 0 && arrived < n;) {
		size_t piece = next_piece(&how), have;
		uint8_t *window;

		arrived += piece < n - arrived ? piece : n - arrived;
		have = arrived - r.used;
		window = exact_copy(p + r.used, have);
		for (size_t at = 0; r.end == 0;) {
			struct frame f;
			ptrdiff_t got = frame_parse(window + at, have - at, dir, &f);

			if (got == 0)
				break;
			if (got < 0)
				r.end = got;
			else
				take_frame(&r, &f, window + at, (size_t)got, have - at, dir);
			at += got > 0 ? (size_t)got : 0;
		}
		free(window);
	}
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t how = take_u8(&in);

	for (unsigned int dir = FRAME_TO_BOX; dir <= FRAME_FROM_BOX; dir <<= 1) {
		struct result a = parse_whole(in.p, in.n, dir);
		struct result b = parse_pieces(in.p, in.n, dir, how);

		MUST(a.end == 0 || a.end == -EPROTO);
		MUST(a.end == b.end && a.frames == b.frames && a.used == b.used);
		MUST(a.hash == b.hash);
	}
	return 0;
}
