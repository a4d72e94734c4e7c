// SPDX-License-Identifier: Apache-2.0
#include "wire/listing.h"

#include "base/str.h"
#include "wire/msg.h"

#include <errno.h>
#include <string.h>

ptrdiff_t listing_encode(const struct listing_entry *e, void *buf, size_t cap)
{
	struct msg_out m, h;

	if (cap < LISTING_HEADER)
		return -EMSGSIZE;
	msg_out_init(&m, (uint8_t *)buf + LISTING_HEADER, cap - LISTING_HEADER);
	msg_put_u8(&m, (uint8_t)e->type);
	msg_put_u32(&m, e->mode);
	msg_put_u64(&m, e->size);
	msg_put_u64(&m, e->mtime_ns);
	msg_put_u64(&m, e->ctime_ns);
	msg_put_u64(&m, e->inode);
	msg_put_str(&m, e->path);
	if (m.failed)
		return -EMSGSIZE;
	msg_out_init(&h, buf, LISTING_HEADER);
	msg_put_u32(&h, (uint32_t)m.len);
	return (ptrdiff_t)(LISTING_HEADER + m.len);
}

static int take_record(const uint8_t *p, size_t n, listing_fn fn, void *arg)
{
	struct listing_entry e;
	struct msg_in m;

	msg_in_init(&m, p, n);
	e.type = (char)msg_get_u8(&m);
	e.mode = msg_get_u32(&m);
	e.size = msg_get_u64(&m);
	e.mtime_ns = msg_get_u64(&m);
	e.ctime_ns = msg_get_u64(&m);
	e.inode = msg_get_u64(&m);
	(void)msg_get_str(&m, e.path, sizeof(e.path));
	if (msg_end(&m) < 0 || e.type == '\0' || strchr("fdlo", e.type) == NULL ||
	    !path_is_plain(e.path))
		return -EPROTO;
	return fn(arg, &e);
}

int listing_feed(struct listing_reader *r, const void *p, size_t n, listing_fn fn, void *arg)
{
	const uint8_t *at = p;

	while (n > 0) {
		size_t want = LISTING_HEADER, take;

		if (r->len >= LISTING_HEADER) {
			struct msg_in h;

			msg_in_init(&h, r->buf, LISTING_HEADER);
			want = msg_get_u32(&h);
			if (want == 0 || want > LISTING_RECORD_MAX)
				return -EPROTO;
			want += LISTING_HEADER;
		}
		take = want - r->len < n ? want - r->len : n;
		(void)memcpy(r->buf + r->len, at, take);
		r->len += take;
		at += take;
		n -= take;
		if (r->len == want && want > LISTING_HEADER) {
			int rc = take_record(r->buf + LISTING_HEADER, want - LISTING_HEADER, fn,
					     arg);

			r->len = 0;
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

int listing_end(const struct listing_reader *r)
{
	return r->len == 0 ? 0 : -EPROTO;
}
