/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/frame.c: frames at the front of a buffer. */
#include "wire/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test_help.h"

static const unsigned int both = FRAME_TO_BOX | FRAME_FROM_BOX;

TEST(frame_header_is_laid_out_as_documented)
{
	static const uint8_t want[FRAME_HEADER] = {
		0x04, 0x03, 0x02, 0x01,                         /* payload length */
		0x06, 0x05,                                     /* type */
		0x08, 0x07,                                     /* flags */
		0x10, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, /* id */
		0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, /* number */
	};
	struct fence f = fence_open(FRAME_HEADER);
	uint8_t *buf = fence_at(&f, FRAME_HEADER);

	frame_put_header(buf, 0x0506, 0x0708, 0x090a0b0c0d0e0f10, 0x1112131415161718, 0x01020304);
	CHECK_MEM(buf, want, FRAME_HEADER);
	fence_close(&f);
}

/* Every row at its bounds, in both directions; a frame out of bounds is refused by its header alone, before
 * anybody waits for its payload. */
TEST(frame_parse_keeps_every_row_to_its_bounds)
{
	struct fence f = fence_open(FRAME_HEADER + FRAME_PAYLOAD_MAX);

	for (unsigned int type = 1; type < FRAME_TYPE_MAX; type++) {
		const struct frame_row *row = frame_row(type);
		const size_t lengths[] = { row->min, row->max, row->min - 1, row->max + 1 };

		for (unsigned int i = 0; i < 4; i++)
			for (unsigned int dir = FRAME_TO_BOX; dir <= FRAME_FROM_BOX; dir <<= 1) {
				size_t n = lengths[i];
				bool fits = n >= row->min && n <= row->max; /* min - 1 may wrap */
				bool good = fits && (row->dir & dir) != 0;
				uint8_t *buf = fence_at(&f, FRAME_HEADER + (fits ? n : 0));
				struct frame got;

				frame_put_header(buf, (uint16_t)type, 7, 8, 9, n);
				CHECK_EQ_INT(frame_parse(buf, FRAME_HEADER, dir, &got),
					     !good    ? -EPROTO
					     : n == 0 ? FRAME_HEADER
						      : 0);
				if (!fits)
					continue;
				CHECK_EQ_INT(frame_parse(buf, FRAME_HEADER + n, dir, &got),
					     good ? (ptrdiff_t)(FRAME_HEADER + n) : -EPROTO);
				if (!good)
					continue;
				CHECK(got.type == type && got.flags == 7 && got.id == 8);
				CHECK(got.number == 9 && got.len == n);
				CHECK(got.payload == buf + FRAME_HEADER);
			}
	}
	fence_close(&f);
}

TEST(frame_parse_refuses_types_that_do_not_exist)
{
	static const unsigned int types[] = { FRAME_NONE, FRAME_TYPE_MAX, 0x100 + FRAME_ACK,
					      UINT16_MAX };
	uint8_t buf[FRAME_HEADER];
	struct frame f;

	for (unsigned int i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		frame_put_header(buf, (uint16_t)types[i], 0, 0, 0, 0);
		CHECK_EQ_INT(frame_parse(buf, sizeof(buf), both, &f), -EPROTO);
	}
	frame_put_header(buf, FRAME_ACK, 0, 0, 0, 0);
	CHECK_EQ_INT(frame_parse(buf, sizeof(buf), 0, &f), -EPROTO);
}

TEST(frame_parse_waits_for_every_byte)
{
	enum { PAYLOAD = 40 };
	struct fence fence = fence_open(FRAME_HEADER + PAYLOAD);
	uint8_t whole[FRAME_HEADER + PAYLOAD];
	struct frame f;

	memset(whole, 'p', sizeof(whole));
	frame_put_header(whole, FRAME_OUTPUT, 1, 2, 3, PAYLOAD);
	for (size_t n = 0; n < sizeof(whole); n++)
		CHECK_EQ_INT(frame_parse(fence_copy(&fence, whole, n), n, FRAME_FROM_BOX, &f), 0);
	CHECK_EQ_INT(frame_parse(fence_copy(&fence, whole, sizeof(whole)), sizeof(whole),
				 FRAME_FROM_BOX, &f),
		     sizeof(whole));
	fence_close(&fence);
}

TEST(frame_parse_refuses_lengths_that_wrap)
{
	static const uint32_t lengths[] = { FRAME_PAYLOAD_MAX + 1, 0x7fffffff, 0x80000000,
					    UINT32_MAX - FRAME_HEADER, UINT32_MAX };
	uint8_t buf[FRAME_HEADER + 8] = { 0 };
	struct frame f;

	for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		for (unsigned int type = 1; type < FRAME_TYPE_MAX; type++) {
			frame_put_header(buf, (uint16_t)type, 0, 0, 0, lengths[i]);
			CHECK_EQ_INT(frame_parse(buf, sizeof(buf), both, &f), -EPROTO);
		}
}

/* A stream of frames, cut anywhere, gives the same frames. */
TEST(frame_parse_of_a_stream_in_pieces)
{
	static uint8_t stream[400000], window[FRAME_HEADER + FRAME_PAYLOAD_MAX];
	size_t len = 0, fed = 0, have = 0;
	uint64_t seed = 6, sent = 0, seen = 0;

	while (len + FRAME_HEADER + 3000 < sizeof(stream)) {
		size_t n = 1 + rnd_below(&seed, 3000);

		frame_put_header(stream + len, FRAME_OUTPUT, (uint16_t)n, sent, ~sent, n);
		memset(stream + len + FRAME_HEADER, (int)(sent & 0xff), n);
		len += FRAME_HEADER + n;
		sent++;
	}
	while (fed < len || have > 0) {
		size_t piece = rnd_below(&seed, 5000), at = 0;
		struct frame f;
		ptrdiff_t n;

		if (piece > len - fed)
			piece = len - fed;
		memcpy(window + have, stream + fed, piece);
		have += piece;
		fed += piece;
		while ((n = frame_parse(window + at, have - at, FRAME_FROM_BOX, &f)) > 0) {
			CHECK(f.id == seen && f.number == ~seen && f.flags == f.len);
			CHECK(f.payload[0] == (uint8_t)seen &&
			      f.payload[f.len - 1] == (uint8_t)seen);
			at += (size_t)n;
			seen++;
		}
		CHECK_EQ_INT(n, 0);
		have -= at;
		memmove(window, window + at, have);
	}
	CHECK_EQ_INT(seen, sent);
}
