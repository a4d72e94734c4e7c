/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket (RFC 6455) on the side of a client: frames of a server in, whole messages out; frames for it written.
 *
 * Refused is what the RFC forbids: masked frames, reserved bits and opcodes, lengths that are not the shortest form,
 * control frames that are long or in pieces, pieces that belong to nothing, text that is not UTF-8. A message is at most
 * what the reader was made for. Who was refused stays refused. Pieces give the same messages as the whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ws_type {
	WS_NOTHING = 0, /* not yet */
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

enum {
	WS_HEAD_MAX = 14,
	WS_CONTROL_MAX = 125,
	WS_KEY = 25,    /* Sec-WebSocket-Key, with its NUL */
	WS_ACCEPT = 29, /* Sec-WebSocket-Accept, the same */
};

struct ws_message {
	enum ws_type type;
	const uint8_t *p; /* a NUL stands behind it */
	size_t n;
};

struct ws_reader {
	uint8_t *buf; /* pieces of a message */
	size_t n, cap, max;
	enum ws_type type; /* of that message; WS_NOTHING between two */
	uint8_t head[10];
	size_t nhead;
	uint64_t left; /* of the frame */
	bool in_frame, fin, refused;
	enum ws_type frame; /* WS_NOTHING: it goes on with the message */
	uint8_t control[WS_CONTROL_MAX + 1];
	size_t ncontrol;
};

void ws_reader_init(struct ws_reader *r, size_t max);
void ws_reader_done(struct ws_reader *r);

/* Take bytes from the front of p up to the end of a message. Returns how many; m->type says whether there is one, which is
 * valid until the next call. -EPROTO, -E2BIG, -ENOMEM. */
ptrdiff_t ws_read(struct ws_reader *r, const uint8_t *p, size_t n, struct ws_message *m);

/* The head of a frame of ours, one that is whole. Returns its length; the bytes that follow are to be masked. */
size_t ws_head(uint8_t out[WS_HEAD_MAX], enum ws_type type, uint64_t n, const uint8_t mask[4]);
void ws_mask(uint8_t *p, size_t n, const uint8_t mask[4]);

/* The code of a CLOSE, 1005 where it has none; *why points into it. */
unsigned int ws_close_code(const struct ws_message *m, const char **why, size_t *n);

/* What a server must answer to a key. */
void ws_accept(const char key[WS_KEY], char ret[WS_ACCEPT]);
