// SPDX-License-Identifier: Apache-2.0
#include "wire/frame.h"

#include "wire/job.h"
#include "wire/msg.h"
#include "wire/rlimits.h"

#include <errno.h>

static const struct frame_row rows[] = {
	[FRAME_NONE] = { 0 },
#define FRAME(id, dir, min, max, doc) [FRAME_##id] = { #id, dir, min, max, doc },
#include "wire/frames.tbl"
#undef FRAME
};

const struct frame_row *frame_row(unsigned int type)
{
	return type > FRAME_NONE && type < FRAME_TYPE_MAX ? &rows[type] : NULL;
}

void frame_put_header(uint8_t *buf, uint16_t type, uint16_t flags, uint64_t id, uint64_t number,
		      size_t len)
{
	struct msg_out m;

	msg_out_init(&m, buf, FRAME_HEADER);
	msg_put_u32(&m, (uint32_t)len);
	msg_put_u16(&m, type);
	msg_put_u16(&m, flags);
	msg_put_u64(&m, id);
	msg_put_u64(&m, number);
}

void frame_put_hello(uint8_t body[FRAME_HELLO_BYTES])
{
	struct msg_out m;

	msg_out_init(&m, body, FRAME_HELLO_BYTES);
	msg_put_u32(&m, BOX_PROTO_VERSION);
	msg_put_u32(&m, BOX_PROTO_OLDEST);
	msg_put_u64(&m, 0);
}

bool frame_hello_fits(const struct frame *f)
{
	uint32_t version, oldest;
	struct msg_in in;

	msg_in_init(&in, f->payload, f->len);
	version = msg_get_u32(&in);
	oldest = msg_get_u32(&in);
	(void)msg_get_u64(&in);
	return msg_end(&in) == 0 && version >= BOX_PROTO_OLDEST && oldest <= BOX_PROTO_VERSION;
}

ptrdiff_t frame_parse(const uint8_t *buf, size_t len, unsigned int dir, struct frame *f)
{
	const struct frame_row *row;
	struct msg_in m;
	size_t payload;

	if (len < FRAME_HEADER)
		return 0;
	msg_in_init(&m, buf, FRAME_HEADER);
	payload = msg_get_u32(&m);
	f->type = msg_get_u16(&m);
	f->flags = msg_get_u16(&m);
	f->id = msg_get_u64(&m);
	f->number = msg_get_u64(&m);
	row = frame_row(f->type);
	if (row == NULL || (row->dir & dir) == 0 || payload < row->min || payload > row->max)
		return -EPROTO;
	if (len - FRAME_HEADER < payload)
		return 0;
	f->payload = buf + FRAME_HEADER;
	f->len = payload;
	return (ptrdiff_t)(FRAME_HEADER + payload);
}
