/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records with their length in front, out of a stream that arrives in whatever pieces:
 *
 *   u32 length of the rest | the rest
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { PIECES_HEADER = 4 };

/* Take what belongs to the record in buf, which has room for PIECES_HEADER + max bytes and has *len of them: how many bytes of p were
 * taken. *ret_n is the length of the rest when the record is complete, and 0 before; then *len is to be set to 0 for the
 * next one. -EPROTO: a length that no record has. */
ptrdiff_t pieces_take(uint8_t *buf, size_t max, size_t *len, const void *p, size_t n,
		      size_t *ret_n);
