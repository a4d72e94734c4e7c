// SPDX-License-Identifier: Apache-2.0
#include "box/ring.h"

#include "wire/frame.h"
#include "wire/msg.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void *map(size_t size, int flags)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

int ring_init(struct ring *r)
{
	void *p = map(RING_BYTES, 0);

	if (p == MAP_FAILED)
		return -ENOMEM;
	*r = (struct ring){ .buf = p, .size = RING_BYTES, .limit = RING_BYTES, .next_number = 1 };
	return 0;
}

int ring_init_large(struct ring *r)
{
	void *p = map(RING_LARGE_BYTES, MAP_NORESERVE);

	if (p == MAP_FAILED)
		return -ENOMEM; /* a smaller one would make the job wait for a reader */
	/* Of two bytes not 2 MiB; and a child of init, which may live long, keeps no copy of it. */
	(void)madvise(p, RING_LARGE_BYTES, MADV_NOHUGEPAGE);
	(void)madvise(p, RING_LARGE_BYTES, MADV_DONTFORK);
	*r = (struct ring){
		.buf = p, .size = RING_LARGE_BYTES, .limit = RING_BYTES, .next_number = 1
	};
	return 0;
}

void ring_limit(struct ring *r, uint64_t bytes)
{
	/* What is in use never reaches round into the piece in which the tail is: see give_back(). */
	size_t max = r->size > RING_BYTES ? r->size - RING_GIVE_BYTES : RING_BYTES;

	r->limit = bytes < RING_BYTES ? RING_BYTES : bytes > max ? max : (size_t)bytes;
}

void ring_done(struct ring *r)
{
	if (r->buf != NULL)
		(void)munmap(r->buf, r->size);
	*r = (struct ring){ 0 };
}

static size_t room(const struct ring *r)
{
	size_t used = (size_t)(r->head - r->tail);

	return used < r->limit ? r->limit - used : 0;
}

bool ring_has_room(const struct ring *r)
{
	return ring_fits(r, 4096);
}

bool ring_fits(const struct ring *r, size_t n)
{
	return room(r) >= FRAME_HEADER + n + RING_RESERVE;
}

/* The n bytes at running count `at`, as at most two pieces of the buffer. */
static int pieces(const struct ring *r, uint64_t at, size_t n, struct iovec iov[2])
{
	size_t off = (size_t)((at - r->base) % r->size);
	size_t first = n < r->size - off ? n : r->size - off;

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
	struct iovec iov[2];
	size_t space;
	ssize_t n;

	if (!ring_has_room(r))
		return -ENOBUFS;
	space = room(r) - FRAME_HEADER - RING_RESERVE;
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

/* Whole pieces of the buffer between `given` and `end`, which lies on the edge of a piece. */
static void give_back(struct ring *r, uint64_t end)
{
	struct iovec iov[2];
	int n;

	if (end <= r->given)
		return;
	n = pieces(r, r->given, (size_t)(end - r->given), iov);
	for (int i = 0; i < n; i++)
		(void)madvise(iov[i].iov_base, iov[i].iov_len, MADV_DONTNEED);
	r->given = end;
}

/* Frames have left: the memory goes, and an empty ring begins at its front. A small ring stays warm. */
static void collect(struct ring *r)
{
	uint64_t used = r->head - r->base;

	if (r->tail < r->head) {
		if (r->size > RING_BYTES)
			give_back(r, r->tail - (r->tail - r->base) % RING_GIVE_BYTES);
		return;
	}
	if (used > RING_BYTES && r->size > RING_BYTES)
		give_back(r,
			  r->head + (RING_GIVE_BYTES - used % RING_GIVE_BYTES) % RING_GIVE_BYTES);
	r->base = r->given = r->head;
}

void ring_rest(struct ring *r)
{
	if (r->tail == r->head)
		(void)madvise(r->buf, RING_BYTES,
			      MADV_DONTNEED); /* what an empty ring has touched */
}

/* The number of the frame at running count `at`; *n is how many bytes it has. */
static uint64_t frame_at(const struct ring *r, uint64_t at, uint64_t *n)
{
	uint8_t header[FRAME_HEADER];
	struct iovec iov[2];
	struct msg_in m;

	(void)pieces(r, at, FRAME_HEADER, iov);
	(void)memcpy(header, iov[0].iov_base, iov[0].iov_len);
	(void)memcpy(header + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
	msg_in_init(&m, header, sizeof(header));
	*n = FRAME_HEADER + (uint64_t)msg_get_u32(&m);
	(void)msg_get_u32(&m);
	(void)msg_get_u64(&m);
	return msg_get_u64(&m);
}

void ring_ack(struct ring *r, uint64_t number)
{
	uint64_t n;

	while (r->tail < r->head) {
		if (frame_at(r, r->tail, &n) > number || r->tail + n > r->sent)
			break;
		r->tail += n;
	}
	collect(r);
}

uint64_t ring_pause(const struct ring *r, size_t max)
{
	uint64_t at = r->sent, n;

	if (r->head - r->sent <= max)
		return r->head;
	while (at - r->sent < max) {
		(void)frame_at(r, at, &n);
		at += n;
	}
	return at;
}

int ring_unsent(const struct ring *r, uint64_t end, struct iovec iov[2])
{
	return pieces(r, r->sent, (size_t)(end - r->sent), iov);
}

void ring_rewind(struct ring *r)
{
	r->sent = r->tail;
}
