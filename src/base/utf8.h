/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as it comes from others: which bytes are a character, and which characters hide something. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Length of the well-formed sequence at p, 0 when there is none. Overlong forms, surrogates and what
 * lies beyond U+10FFFF are none, and leave *ret alone. n is at least 1. */
size_t utf8_next(const unsigned char *p, size_t n, uint32_t *ret);

/* Where utf8_next() is 0: how many bytes one U+FFFD stands for, as Unicode recommends and Python does: the longest
 * beginning of a character, or one byte. */
size_t utf8_bad(const unsigned char *p, size_t n);

/* How many bytes at the end of p are the beginning of a character whose rest is still to come: 3 at most. */
size_t utf8_unfinished(const unsigned char *p, size_t n);

/* Control characters, also those of 8-bit terminals, and what changes the direction or the look of
 * the text around it: nothing that a person should be shown as it is. */
bool utf8_is_tricky(uint32_t c);

/* Whether a text is UTF-8 from its first byte to its last. */
bool utf8_is_valid(const char *text);
