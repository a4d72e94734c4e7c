// SPDX-License-Identifier: Apache-2.0
#include "egress/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { FIRST = 4096, MOST = 1 << 20 };

void queue_done(struct queue *q)
{
	if (q->p != NULL)
		explicit_bzero(q->p, q->cap); /* what is inside of TLS */
	free(q->p);
	*q = (struct queue){ 0 };
}

uint8_t *queue_room(struct queue *q, size_t n)
{
	size_t len = queue_len(q), cap = q->cap > 0 ? q->cap : FIRST;
	uint8_t *p;

	if (q->p != NULL && q->cap - q->end >= n)
		return q->p + q->end;
	while (cap - len < n && cap < MOST)
		cap *= 2;
	if (cap - len < n)
		return NULL;
	p = malloc(cap);
	if (p == NULL)
		return NULL;
	if (q->p != NULL && len > 0)
		(void)memcpy(p, q->p + q->at, len);
	queue_done(q);
	*q = (struct queue){ .p = p, .end = len, .cap = cap };
	return p + len;
}

int queue_put(struct queue *q, const void *p, size_t n)
{
	uint8_t *to = queue_room(q, n);

	if (to == NULL)
		return -ENOMEM;
	if (n > 0)
		(void)memcpy(to, p, n);
	q->end += n;
	return 0;
}

int queue_send(struct queue *q, int fd)
{
	while (queue_len(q) > 0) {
		ssize_t n = send(fd, q->p + q->at, queue_len(q), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		q->at += (size_t)n;
	}
	if (q->cap > 0)
		queue_done(q); /* most connections are idle most of the time */
	return 0;
}
