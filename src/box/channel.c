// SPDX-License-Identifier: Apache-2.0
/*
 * The channel of a held job: packets between init and the Python that it started (kernel/README.md).
 *
 * Should: take what comes as hostile; user code has the other end.
 * Must not: wait for the other side.
 */
#include "box/init.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Whole packets: the process on the other side waits for nothing else. */
int channel_tell(const struct job *j, uint8_t type, const uint8_t *p, size_t n)
{
	do {
		bool more = n > CHANNEL_PAYLOAD_MAX;
		size_t part = more ? CHANNEL_PAYLOAD_MAX : n;
		uint8_t head[CHANNEL_HEADER] = { type, more ? CHANNEL_MORE : 0 };
		struct iovec iov[2] = {
			{ .iov_base = head, .iov_len = sizeof(head) },
			{ .iov_base = (void *)(uintptr_t)p, .iov_len = part },
		};
		struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };

		if (sendmsg(j->channel_fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			return -errno;
		p += part;
		n -= part;
	} while (n > 0);
	return 0;
}

/* Two packets of a held job mean something, in this order: that it waits, and that it has begun. */
void channel_event(struct init *in, struct job *j)
{
	uint8_t head[CHANNEL_HEADER];
	ssize_t n;

	while (j->channel_fd >= 0 && !j->begun) {
		n = recv(j->channel_fd, head, sizeof(head), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n == CHANNEL_HEADER && head[0] == CHANNEL_WAITING && !j->ready) {
			j->ready = true;
			conn_ready(in, j);
			continue;
		}
		j->begun = n == CHANNEL_HEADER && head[0] == CHANNEL_BEGUN && j->went;
		/* Begun, gone, or going its own way: its end tells. */
		watch_del(in, j->channel_fd);
		return;
	}
}
