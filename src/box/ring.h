/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring of a job: whole frames, numbered from 1, kept until acknowledged.
 *
 * tail <= sent <= head are running byte counts; tail and head lie on frame boundaries.
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
};

struct ring {
	uint8_t *buf;
	uint64_t head, sent, tail;
	uint64_t next_number; /* of the next frame */
};

/* 0 or -ENOMEM. */
int ring_init(struct ring *r);
void ring_done(struct ring *r);

/* Whether a read from a program makes sense now. */
bool ring_has_room(const struct ring *r);

/* Append a frame. -ENOBUFS when it does not fit. */
int ring_put(struct ring *r, uint16_t type, uint16_t flags, uint64_t id, const void *p, size_t n);

/* Read up to max bytes from fd straight into a frame. The count, 0 at end of file, -errno. */
ssize_t ring_read_from(struct ring *r, int fd, uint16_t type, uint16_t flags, uint64_t id,
		       size_t max);

/* Drop frames that were sent and have a number up to this one. */
void ring_ack(struct ring *r, uint64_t number);

/* Bytes from sent up to `end` as at most two pieces; how many pieces. */
int ring_unsent(const struct ring *r, uint64_t end, struct iovec iov[2]);

/* Everything unacknowledged is to be sent again. */
void ring_rewind(struct ring *r);
