// SPDX-License-Identifier: Apache-2.0
#include "tools/lines.h"

#include <string.h>

void lines_init(struct lines *l, size_t max)
{
	bytes_init(&l->line, max);
	l->searched = l->nlast = 0;
}

void lines_done(struct lines *l)
{
	bytes_done(&l->line);
}

void lines_take(struct lines *l, struct mcpc *c, const void *p, size_t n, uint64_t now_us)
{
	struct bytes *b = &l->line;
	size_t from = 0;
	char *lf;

	bytes_put(b, p, n);
	if (b->failed) {
		mcpc_lost(c, "the server sends a line of more than %zu bytes", b->max);
		return;
	}
	while (b->p != NULL && c->broken[0] == '\0' &&
	       (lf = memchr(b->p + l->searched, '\n', b->n - l->searched)) != NULL) {
		size_t at = (size_t)(lf - b->p);

		if (at > from)
			mcpc_take(c, 0, b->p + from, at - from, now_us);
		from = l->searched = at + 1;
	}
	if (from > 0)
		bytes_splice(b, 0, from, NULL, 0);
	l->searched = b->n;
}

/* The end of it is kept. */
void lines_words(struct lines *l, const void *p, size_t n)
{
	size_t take = n < sizeof(l->last) ? n : sizeof(l->last);
	size_t keep = l->nlast < sizeof(l->last) - take ? l->nlast : sizeof(l->last) - take;

	(void)memmove(l->last, l->last + l->nlast - keep, keep);
	(void)memcpy(l->last + keep, (const char *)p + n - take, take);
	l->nlast = keep + take;
}
