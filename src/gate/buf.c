// SPDX-License-Identifier: Apache-2.0
#include "gate/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 512, KEEP = 16384 };

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_done(struct buf *b)
{
	free(b->p);
	*b = (struct buf){ .max = b->max };
}

char *buf_reserve(struct buf *b, size_t n)
{
	size_t len = buf_len(b), cap = b->cap;
	char *p;

	if (n > b->max || len > b->max - n)
		return NULL;
	if (b->cap - b->end >= n)
		return b->p + b->end;
	if (b->at > 0 && b->cap - len >= n && len <= b->at) { /* the front is free: move down */
		(void)memcpy(b->p, b->p + b->at, len);
		b->at = 0;
		b->end = len;
		return b->p + b->end;
	}
	if (cap == 0)
		cap = FIRST;
	while (cap - len < n)
		cap *= 2;
	if (b->at > 0) {
		(void)memmove(b->p, b->p + b->at, len);
		b->at = 0;
		b->end = len;
	}
	p = realloc(b->p, cap); /* of a large one the kernel moves pages, and nobody copies */
	if (p == NULL)
		return NULL;
	b->p = p;
	b->cap = cap;
	return b->p + b->end;
}

void buf_added(struct buf *b, size_t n)
{
	b->end += n;
}

int buf_put(struct buf *b, const void *p, size_t n)
{
	char *at;

	if (n == 0)
		return 0;
	at = buf_reserve(b, n);
	if (at == NULL)
		return n > buf_room(b) ? -ENOBUFS : -ENOMEM;
	(void)memcpy(at, p, n);
	buf_added(b, n);
	return 0;
}

void buf_take(struct buf *b, size_t n)
{
	b->at += n;
	if (b->at < b->end)
		return;
	b->at = b->end = 0;
	if (b->cap > KEEP) { /* a burst is no reason to hold on to it */
		free(b->p);
		b->p = NULL;
		b->cap = 0;
	}
}
