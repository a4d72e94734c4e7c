/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: the byte stream between a gate and the init of a box.
 *
 *   u32 payload length | u16 type | u16 flags | u64 job id | u64 number | payload
 *
 * Both directions use the same header. frames.tbl lists every type with its bounds; a frame that
 * does not fit its row ends the connection. The peer in the box is hostile: a reader hands out a
 * frame only when it is complete and within its row.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FRAME_HEADER = 24,
	FRAME_HELLO_BYTES = 16,
	FRAME_PAYLOAD_MAX = 256 * 1024,
	BOX_PROTO_VERSION = 2,
	BOX_PROTO_OLDEST = 2,
};

enum frame_dir {
	FRAME_TO_BOX = 1u << 0,
	FRAME_FROM_BOX = 1u << 1,
};

enum frame_type {
	FRAME_NONE,
#define FRAME(id, dir, min, max, doc) FRAME_##id,
#include "wire/frames.tbl"
#undef FRAME
	FRAME_TYPE_MAX,
};

enum frame_flags {
	FRAME_MORE = 1u << 0,     /* MESSAGE: it goes on in the next of the same job and end */
	FRAME_END = 1u << 1,      /* MESSAGE: the cell's reply, the last word about it */
	FRAME_NO_INPUT = 1u << 0, /* TELL: there is no input, and will be none */
	FRAME_LATE = 1u << 15,    /* OUTPUT, MESSAGE: of a cell, behind its EXIT */
};

struct frame {
	uint16_t type;
	uint16_t flags;
	uint64_t id;
	uint64_t number;
	const uint8_t *payload;
	size_t len;
};

struct frame_row {
	const char *name;
	unsigned int dir;
	size_t min, max;
	const char *doc;
};

/* The row of a type; NULL for a type that does not exist. */
const struct frame_row *frame_row(unsigned int type);

/* Write a header into buf[FRAME_HEADER]. */
void frame_put_header(uint8_t *buf, uint16_t type, uint16_t flags, uint64_t id, uint64_t number,
		      size_t len);

/* The payload of HELLO: what we speak; whether what the other side speaks fits. */
void frame_put_hello(uint8_t body[FRAME_HELLO_BYTES]);
bool frame_hello_fits(const struct frame *f);

/* Look at the front of a buffer. The count of bytes that one complete frame takes up (then *f
 * points into buf), 0 when more are needed, -EPROTO for what no peer may send in direction dir. */
ptrdiff_t frame_parse(const uint8_t *buf, size_t len, unsigned int dir, struct frame *f);
