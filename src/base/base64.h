/* SPDX-License-Identifier: Apache-2.0 */
/* Base64, the standard alphabet of RFC 4648: one text for a run of bytes, and no other. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* How long n bytes are as text, and how many bytes n characters can be at most. */
#define BASE64_TEXT_LEN(n)  (((n) + 2) / 3 * 4)
#define BASE64_BYTES_MAX(n) ((n) / 4 * 3)

/* Decode n characters into out, which has room for BASE64_BYTES_MAX(n) bytes and may be p itself.
 * -EINVAL for another length than a multiple of 4, for any character that is not of the alphabet
 * (white space included), for padding that is missing or misplaced, and for bits behind the last
 * byte that are not 0. What was written to out before a failure stays there. */
int base64_decode(const char *p, size_t n, uint8_t *out, size_t *ret_len);

/* Write n bytes as text into out, which has room for BASE64_TEXT_LEN(n) characters and does not
 * overlap. No NUL is added. Returns how many were written. */
size_t base64_encode(const uint8_t *p, size_t n, char *out);
