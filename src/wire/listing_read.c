// SPDX-License-Identifier: Apache-2.0
#include "wire/listing.h"

#include "base/str.h"
#include "base/utf8.h"
#include "wire/msg.h"
#include "wire/pieces.h"

#include <errno.h>
#include <string.h>

static int decode(const uint8_t *p, size_t n, struct listing_entry *e)
{
	struct msg_in m;

	msg_in_init(&m, p, n);
	e->type = (char)msg_get_u8(&m);
	e->flags = msg_get_u8(&m);
	e->mode = msg_get_u32(&m);
	e->size = msg_get_u64(&m);
	e->mtime_ns = msg_get_u64(&m);
	e->ctime_ns = msg_get_u64(&m);
	e->inode = msg_get_u64(&m);
	(void)msg_get_str(&m, e->path, sizeof(e->path));
	(void)msg_get_str(&m, e->target, sizeof(e->target));
	if (msg_end(&m) < 0 || e->type == '\0' || strchr("fdlo", e->type) == NULL ||
	    (e->flags & ~(unsigned int)LISTING_NEW) != 0 ||
	    (e->target[0] != '\0' && e->type != 'l'))
		return -EPROTO;
	if (strcmp(e->path, ".") != 0 && !path_is_below(e->path))
		return -EPROTO;
	if (!utf8_is_valid(e->path))
		e->flags |= LISTING_RAW;
	return 0;
}

ptrdiff_t listing_first(struct listing_reader *r, const void *p, size_t n,
			const struct listing_entry **ret)
{
	size_t whole;
	ptrdiff_t used = pieces_take(r->buf, LISTING_RECORD_MAX, &r->len, p, n, &whole);

	*ret = NULL;
	if (used < 0 || whole == 0)
		return used;
	r->len = 0;
	if (decode(r->buf + LISTING_HEADER, whole, &r->entry) < 0)
		return -EPROTO;
	*ret = &r->entry;
	return used;
}

int listing_feed(struct listing_reader *r, const void *p, size_t n, listing_fn fn, void *arg)
{
	const uint8_t *at = p;

	while (n > 0) {
		const struct listing_entry *e;
		ptrdiff_t used = listing_first(r, at, n, &e);
		int rc = e != NULL ? fn(arg, e) : 0;

		if (used < 0 || rc < 0)
			return used < 0 ? (int)used : rc;
		at += used;
		n -= (size_t)used;
	}
	return 0;
}

int listing_end(const struct listing_reader *r)
{
	return r->len == 0 ? 0 : -EPROTO;
}
