// SPDX-License-Identifier: Apache-2.0
/*
 * The channel of a held job: packets between init and the Python that it started (kernel/README.md).
 *
 * Should: take what comes as hostile; user code has the other end.
 * Must not: wait for the other side.
 */
#include "box/init.h"

#include "base/own.h"
#include "wire/msg.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { MESSAGES_AT_ONCE = 64 };

int channel_send(const struct job *j, uint8_t type, uint8_t flags, uint64_t cell, const void *p,
		 size_t n, const int *fds, size_t nfds)
{
	enum { RIGHTS_MAX = 3 * sizeof(int) };
	union {
		struct cmsghdr head;
		uint8_t space[CMSG_SPACE(RIGHTS_MAX)];
	} control = { .space = { 0 } };
	uint8_t head[CHANNEL_HEADER];
	struct iovec iov[2] = {
		{ .iov_base = head, .iov_len = sizeof(head) },
		{ .iov_base = (void *)(uintptr_t)p, .iov_len = n },
	};
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };
	struct msg_out m;

	msg_out_init(&m, head, sizeof(head));
	msg_put_u8(&m, type);
	msg_put_u8(&m, flags);
	msg_put_u16(&m, 0);
	msg_put_u32(&m, 0);
	msg_put_u64(&m, cell);
	if (nfds > 0) {
		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		(void)memcpy(CMSG_DATA(&control.head), fds, nfds * sizeof(int));
	}
	return sendmsg(j->channel_fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Whole packets: the process on the other side waits for nothing else. */
int channel_tell(const struct job *j, uint8_t type, const uint8_t *p, size_t n)
{
	do {
		bool more = n > CHANNEL_PAYLOAD_MAX;
		size_t part = more ? CHANNEL_PAYLOAD_MAX : n;
		int r = channel_send(j, type, more ? CHANNEL_MORE : 0, 0, p, part, NULL, 0);

		if (r < 0)
			return r;
		p += part;
		n -= part;
	} while (n > 0);
	return 0;
}

ssize_t channel_look(const struct job *k)
{
	ssize_t n = recv(k->channel_fd, k->kernel->packet, CHANNEL_HEADER,
			 MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);

	return n < 0 ? -errno : n;
}

ssize_t channel_receive(const struct job *k)
{
	ssize_t n = recv(k->channel_fd, k->kernel->packet, sizeof(k->kernel->packet),
			 MSG_DONTWAIT | MSG_TRUNC);

	return n < 0 ? -errno : n;
}

void channel_watch(struct init *in, struct job *j, uint32_t events)
{
	if (j->channel_fd < 0 || events == j->channel_events)
		return;
	if (j->channel_events != 0)
		watch_del(in, j->channel_fd);
	if (events != 0)
		(void)watch_add(in, j->channel_fd, WATCH_CHANNEL, job_slot(in, j), events);
	j->channel_events = events;
}

void channel_close(struct init *in, struct job *j)
{
	channel_watch(in, j, 0);
	fd_close(&j->channel_fd);
}

/* Messages of a program that said that it has some, as far as there is room for them. When it has ended the rest is what is in the
 * socket, which holds a few; who goes on sending then is not listened to for ever. */
static void take_messages(struct init *in, struct job *j)
{
	static uint8_t packet[CHANNEL_HEADER + CHANNEL_PAYLOAD_MAX];
	bool room = true;

	for (int i = 0; i < MESSAGES_AT_ONCE && j->tells; i++) {
		ssize_t n;

		room = ring_fits(&j->ring, CHANNEL_PAYLOAD_MAX);
		if (!room)
			break;
		n = recv(j->channel_fd, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC);
		if (n < 0 && (errno == EAGAIN || errno == EINTR) && j->state == JOB_RUNNING)
			break;
		if (n <= 0) {
			j->tells = false;
		} else if (n >= CHANNEL_HEADER && (size_t)n <= sizeof(packet) &&
			   packet[0] == CHANNEL_MESSAGE) {
			uint16_t more = (packet[1] & CHANNEL_MORE) != 0 ? FRAME_MORE : 0;

			(void)ring_put(&j->ring, FRAME_MESSAGE, more, j->id,
				       packet + CHANNEL_HEADER, (size_t)n - CHANNEL_HEADER);
		}
	}
	if (room && j->state != JOB_RUNNING)
		j->tells = false;
	channel_watch(in, j, j->tells && room ? EPOLLIN : 0);
}

/* Two packets of a held job mean something, in this order: that it waits, and that it has begun; and behind that, if it
 * said so, messages. */
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
		j->tells = j->begun && (head[1] & CHANNEL_TELLS) != 0;
		if (j->tells)
			break;
		/* Begun, gone, or going its own way: its end tells. */
		channel_watch(in, j, 0);
		return;
	}
	if (j->tells && j->channel_fd >= 0)
		take_messages(in, j);
}
