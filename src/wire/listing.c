// SPDX-License-Identifier: Apache-2.0
/* The box's side; who reads is in listing_read.c. */
#include "wire/listing.h"

#include "wire/msg.h"

#include <errno.h>
#include <stdio.h>

ptrdiff_t listing_encode(const struct listing_entry *e, void *buf, size_t cap)
{
	struct msg_out m, h;

	if (cap < LISTING_HEADER)
		return -EMSGSIZE;
	msg_out_init(&m, (uint8_t *)buf + LISTING_HEADER, cap - LISTING_HEADER);
	msg_put_u8(&m, (uint8_t)e->type);
	msg_put_u8(&m, e->flags & (uint8_t)~LISTING_RAW);
	msg_put_u32(&m, e->mode);
	msg_put_u64(&m, e->size);
	msg_put_u64(&m, e->mtime_ns);
	msg_put_u64(&m, e->ctime_ns);
	msg_put_u64(&m, e->inode);
	msg_put_str(&m, e->path);
	msg_put_str(&m, e->target);
	if (m.failed)
		return -EMSGSIZE;
	msg_out_init(&h, buf, LISTING_HEADER);
	msg_put_u32(&h, (uint32_t)m.len);
	return (ptrdiff_t)(LISTING_HEADER + m.len);
}

/* A file that was replaced has another inode; one that was written to has another time, whatever its program made of mtime. */
void listing_etag(const struct listing_entry *e, char buf[LISTING_ETAG])
{
	(void)snprintf(buf, LISTING_ETAG, "\"%llx-%llx-%llx-%llx\"", (unsigned long long)e->inode,
		       (unsigned long long)e->size, (unsigned long long)e->mtime_ns,
		       (unsigned long long)e->ctime_ns);
}
