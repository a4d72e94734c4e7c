/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share: a claim that aborts, and reading decisions off the front of an input. */
#ifndef GLOVEBOX_TESTS_FUZZ_FUZZ_INPUT_H
#define GLOVEBOX_TESTS_FUZZ_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What must hold for every input. */
#define MUST(condition)                                                                       \
	do {                                                                                  \
		if (!(condition)) {                                                           \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                              \
		}                                                                             \
	} while (0)

struct input {
	const uint8_t *p;
	size_t n;
};

/* The next byte, 0 at the end. */
static inline uint8_t take_u8(struct input *in)
{
	if (in->n == 0)
		return 0;
	in->n--;
	return *in->p++;
}

static inline uint16_t take_u16(struct input *in)
{
	uint16_t low = take_u8(in);

	return (uint16_t)(low | take_u8(in) << 8);
}

/* The next n bytes or what is left of them; *ret_n says how many. */
static inline const uint8_t *take_bytes(struct input *in, size_t n, size_t *ret_n)
{
	const uint8_t *p = in->p;

	*ret_n = n < in->n ? n : in->n;
	in->p += *ret_n;
	in->n -= *ret_n;
	return p;
}

/* A copy that is exactly as large: one byte beyond it is for the sanitizer to see. */
static inline uint8_t *exact_copy(const void *p, size_t n)
{
	uint8_t *copy = malloc(n > 0 ? n : 1);

	if (copy == NULL)
		abort();
	if (n > 0)
		(void)memcpy(copy, p, n);
	return copy;
}

/* The size of the next piece: a few bytes often, many now and then, 1 at least. */
static inline size_t next_piece(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return 1 + ((*state >> 24) % ((*state & 0x10000) != 0 ? 200 : 7));
}

static inline uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
	const uint8_t *at = p;

	for (size_t i = 0; i < n; i++)
		h = (h ^ at[i]) * 0x100000001b3u;
	return h;
}

#endif
