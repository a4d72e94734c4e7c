// SPDX-License-Identifier: Apache-2.0
#include "box/ring.h"

#include "wire/frame.h"
#include "wire/msg.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int ring_init(struct ring *r)
{
	void *p =
		mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	*r = (struct ring){ .buf = p, .next_number = 1 };
	return 0;
}

void ring_done(struct ring *r)
{
	if (r->buf != NULL)
		(void)munmap(r->buf, RING_BYTES);
	*r = (struct ring){ 0 };
}

static size_t room(const struct ring *r)
{
	return RING_BYTES - (size_t)(r->head - r->tail);
}

bool ring_has_room(const struct ring *r)
{
	return room(r) >= FRAME_HEADER + 4096 + RING_RESERVE;
}

/* The n bytes at running count `at`, as at most two pieces of the buffer. */
static int pieces(const struct ring *r, uint64_t at, size_t n, struct iovec iov[2])
{
	size_t off = (size_t)(at % RING_BYTES);
	size_t first = n < RING_BYTES - off ? n : RING_BYTES - off;

	iov[0] = (struct iovec){ .iov_base = r->buf + off, .iov_len = first };
	iov[1] = (struct iovec){ .iov_base = r->buf, .iov_len = n - first };
	return n == 0 ? 0 : iov[1].iov_len > 0 ? 2 : 1;
}

static void copy_in(struct ring *r, uint64_t at, const void *p, size_t n)
{
	struct iovec iov[2];

	(void)pieces(r, at, n, iov);
	(void)memcpy(iov[0].iov_base, p, iov[0].iov_len);
	(void)memcpy(iov[1].iov_base, (const uint8_t *)p + iov[0].iov_len, iov[1].iov_len);
}

static void seal(struct ring *r, uint16_t type, uint16_t flags, uint64_t id, size_t n)
{
	uint8_t header[FRAME_HEADER];

	frame_put_header(header, type, flags, id, r->next_number++, n);
	copy_in(r, r->head, header, sizeof(header));
	r->head += FRAME_HEADER + n;
}

int ring_put(struct ring *r, uint16_t type, uint16_t flags, uint64_t id, const void *p, size_t n)
{
	if (room(r) < FRAME_HEADER + n)
		return -ENOBUFS;
	copy_in(r, r->head + FRAME_HEADER, p, n);
	seal(r, type, flags, id, n);
	return 0;
}

ssize_t ring_read_from(struct ring *r, int fd, uint16_t type, uint16_t flags, uint64_t id,
		       size_t max)
{
	size_t space = room(r) - FRAME_HEADER - RING_RESERVE;
	struct iovec iov[2];
	ssize_t n;

	if (!ring_has_room(r))
		return -ENOBUFS;
	if (max > space)
		max = space;
	if (max > RING_READ_MAX)
		max = RING_READ_MAX;
	n = readv(fd, iov, pieces(r, r->head + FRAME_HEADER, max, iov));
	if (n < 0)
		return -errno;
	if (n > 0)
		seal(r, type, flags, id, (size_t)n);
	return n;
}

void ring_ack(struct ring *r, uint64_t number)
{
	while (r->tail < r->head) {
		uint8_t header[FRAME_HEADER];
		struct iovec iov[2];
		struct msg_in m;
		uint64_t n;

		(void)pieces(r, r->tail, FRAME_HEADER, iov);
		(void)memcpy(header, iov[0].iov_base, iov[0].iov_len);
		(void)memcpy(header + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
		msg_in_init(&m, header, sizeof(header));
		n = FRAME_HEADER + (uint64_t)msg_get_u32(&m);
		(void)msg_get_u32(&m);
		(void)msg_get_u64(&m);
		if (msg_get_u64(&m) > number || r->tail + n > r->sent)
			return;
		r->tail += n;
	}
}

int ring_unsent(const struct ring *r, uint64_t end, struct iovec iov[2])
{
	return pieces(r, r->sent, (size_t)(end - r->sent), iov);
}

void ring_rewind(struct ring *r)
{
	r->sent = r->tail;
}
