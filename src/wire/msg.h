/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typed fields over a bounded buffer: how every message between our processes is built and taken
 * apart. Little-endian; strings and byte runs carry a u32 length.
 *
 * Invariants: (1) a writer or reader that overran stays failed, later calls do nothing; (2) a
 * message counts as read only when msg_end() returned 0, which fails on left-over bytes; (3) a
 * string never contains a NUL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct msg_out {
	uint8_t *buf;
	size_t cap, len;
	bool failed;
};

struct msg_in {
	const uint8_t *buf;
	size_t len, at;
	bool failed;
};

void msg_out_init(struct msg_out *m, void *buf, size_t cap);
void msg_put_u8(struct msg_out *m, uint8_t v);
void msg_put_u16(struct msg_out *m, uint16_t v);
void msg_put_u32(struct msg_out *m, uint32_t v);
void msg_put_u64(struct msg_out *m, uint64_t v);
void msg_put_bytes(struct msg_out *m, const void *p, size_t n);
void msg_put_str(struct msg_out *m, const char *s);

void msg_in_init(struct msg_in *m, const void *buf, size_t len);
uint8_t msg_get_u8(struct msg_in *m);
uint16_t msg_get_u16(struct msg_in *m);
uint32_t msg_get_u32(struct msg_in *m);
uint64_t msg_get_u64(struct msg_in *m);

/* A byte run inside the message; NULL and length 0 after a failure. */
const uint8_t *msg_get_bytes(struct msg_in *m, size_t max, size_t *ret_len);

/* A string, copied into buf (size bytes, always terminated). Fails when it has a NUL inside or
 * does not fit. Returns its length. */
size_t msg_get_str(struct msg_in *m, char *buf, size_t size);

/* 0 when everything was read and nothing is left; -EPROTO otherwise. */
int msg_end(const struct msg_in *m);
