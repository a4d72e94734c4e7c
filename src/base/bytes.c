// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bytes_init(struct bytes *b, size_t max)
{
	*b = (struct bytes){ .max = max };
}

void bytes_done(struct bytes *b)
{
	free(b->p);
	bytes_init(b, b->max);
}

void bytes_clear(struct bytes *b)
{
	b->n = 0;
	b->failed = false;
	if (b->p != NULL)
		b->p[0] = '\0';
}

/* Room for n more, and the NUL. */
static bool reserve(struct bytes *b, size_t n)
{
	size_t cap = b->cap;
	char *p;

	if (b->failed || n > b->max - b->n) {
		b->failed = true;
		return false;
	}
	if (b->n + n < cap)
		return true;
	cap = cap * 2 + n + 64;
	if (cap > b->max + 1)
		cap = b->max + 1;
	p = realloc(b->p, cap);
	if (p == NULL) {
		b->failed = true;
		return false;
	}
	b->p = p;
	b->cap = cap;
	return true;
}

void bytes_put(struct bytes *b, const void *p, size_t n)
{
	if (!reserve(b, n))
		return;
	if (n > 0)
		(void)memcpy(b->p + b->n, p, n);
	b->n += n;
	b->p[b->n] = '\0';
}

void bytes_puts(struct bytes *b, const char *s)
{
	bytes_put(b, s, strlen(s));
}

void bytes_printf(struct bytes *b, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text))
		b->failed = true; /* for short texts only */
	else
		bytes_put(b, text, (size_t)n);
}

void bytes_splice(struct bytes *b, size_t at, size_t n, const void *p, size_t len)
{
	if (len > n && !reserve(b, len - n))
		return;
	if (b->p == NULL)
		return;
	(void)memmove(b->p + at + len, b->p + at + n, b->n - at - n);
	if (len > 0)
		(void)memcpy(b->p + at, p, len);
	b->n = b->n - n + len;
	b->p[b->n] = '\0';
}
