/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of a job: whole frames, numbered from 1, kept until acknowledged.
 *
 * tail <= sent <= head are running byte counts; tail and head lie on frame boundaries. The byte at
 * count `at` is in the buffer at (at - base) % size: an empty ring begins at its front again, so
 * that the same few pages are used over and over.
 *
 * A large ring is an address range of RING_LARGE_BYTES of which only what is in use is memory:
 * pages behind the tail are given back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

enum {
	RING_BYTES = 256 * 1024,
	RING_RESERVE = 1024, /* always left for the job's EXIT */
	RING_READ_MAX = 65536,
	RING_LARGE_BYTES = 256 * 1024 * 1024,
	RING_GIVE_BYTES = 65536, /* pages go back in such pieces; a multiple of every page size */
};

struct ring {
	uint8_t *buf;
	size_t size, limit; /* of the buffer; how much of it may be used at once */
	uint64_t base;
	uint64_t given; /* what is before this was given back */
	uint64_t head, sent, tail;
	uint64_t next_number; /* of the next frame */
};

/* 0 or -ENOMEM. */
int ring_init(struct ring *r);
/* A large one, up to the limit of a small one for now; a small one where there is no room for it. */
int ring_init_large(struct ring *r);
/* How many bytes may wait in it: at most its size, at least RING_BYTES. */
void ring_limit(struct ring *r, uint64_t bytes);
/* It will rest: an empty ring keeps no page. */
void ring_rest(struct ring *r);
void ring_done(struct ring *r);

/* Whether a read from a program makes sense now. */
bool ring_has_room(const struct ring *r);
/* Whether a frame with n bytes fits and leaves the reserve. */
bool ring_fits(const struct ring *r, size_t n);

/* Append a frame. -ENOBUFS when it does not fit. */
int ring_put(struct ring *r, uint16_t type, uint16_t flags, uint64_t id, const void *p, size_t n);

/* Read up to max bytes from fd straight into a frame. The count, 0 at end of file, -errno. */
ssize_t ring_read_from(struct ring *r, int fd, uint16_t type, uint16_t flags, uint64_t id,
		       size_t max);

/* Drop frames that were sent and have a number up to this one. */
void ring_ack(struct ring *r, uint64_t number);

/* Where to pause when sending from here: at the end of a frame, some `max` bytes ahead. */
uint64_t ring_pause(const struct ring *r, size_t max);

/* Bytes from sent up to `end` as at most two pieces; how many pieces. */
int ring_unsent(const struct ring *r, uint64_t end, struct iovec iov[2]);

/* Everything unacknowledged is to be sent again. */
void ring_rewind(struct ring *r);
