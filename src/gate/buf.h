/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue of bytes with a bound: written at the end, taken from the front.
 *
 * A full one is not an error of the writer but the sign to stop reading from where the bytes come:
 * ask buf_room() first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *p;
	size_t at, end, cap; /* bytes [at, end) are held */
	size_t max;
};

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b);

static inline size_t buf_len(const struct buf *b)
{
	return b->end - b->at;
}

static inline size_t buf_room(const struct buf *b)
{
	return b->max - buf_len(b);
}

static inline const char *buf_head(const struct buf *b)
{
	return b->p + b->at;
}

/* A place for at least n bytes at the end; NULL: over its maximum, or no memory. */
char *buf_reserve(struct buf *b, size_t n);
/* n of the reserved bytes were written. */
void buf_added(struct buf *b, size_t n);
/* 0, or -ENOBUFS, -ENOMEM: nothing was added. */
int buf_put(struct buf *b, const void *p, size_t n);
/* n bytes of the front are done with. The memory goes when nothing is left. */
void buf_take(struct buf *b, size_t n);
