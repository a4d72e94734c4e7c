/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that grow up to a bound. One that failed, for want of memory or room, stays failed and keeps what it had. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bytes {
	char *p; /* a NUL stands behind the n bytes; NULL while there were never any */
	size_t n, cap, max;
	bool failed;
};

void bytes_init(struct bytes *b, size_t max);
void bytes_done(struct bytes *b);
/* Empty and no longer failed; memory is kept. */
void bytes_clear(struct bytes *b);

void bytes_put(struct bytes *b, const void *p, size_t n);
void bytes_puts(struct bytes *b, const char *s);
void bytes_printf(struct bytes *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* n bytes at `at` become len others, which may lie nowhere in b. */
void bytes_splice(struct bytes *b, size_t at, size_t n, const void *p, size_t len);

/* The text, never NULL. */
static inline const char *bytes_str(const struct bytes *b)
{
	return b->p != NULL ? b->p : "";
}
