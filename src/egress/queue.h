/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes on their way from one end of a tunnel to the other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue {
	uint8_t *p;
	size_t at, end, cap; /* bytes [at, end) are held */
};

void queue_done(struct queue *q);
static inline size_t queue_len(const struct queue *q)
{
	return q->end - q->at;
}
/* Room for n more at the end, or NULL. */
uint8_t *queue_room(struct queue *q, size_t n);
int queue_put(struct queue *q, const void *p, size_t n);
/* As many as a socket takes. 0 or -errno: nobody is there any more. */
int queue_send(struct queue *q, int fd);
