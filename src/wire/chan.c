// SPDX-License-Identifier: Apache-2.0
#include "wire/chan.h"

#include "base/own.h"
#include "wire/msg.h"

#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

int chan_pair(int ret_fd[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ret_fd) < 0 ? -errno : 0;
}

bool chan_has_room(int fd)
{
	int waits = 0, most = 0;
	socklen_t n = sizeof(most);

	return ioctl(fd, SIOCOUTQ, &waits) == 0 &&
	       getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &most, &n) == 0 && waits < most / 2;
}

int chan_send(int fd, uint16_t type, uint64_t request, const void *body, size_t len, const int *fds,
	      unsigned int nfds)
{
	uint8_t header[CHAN_HEADER];
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * CHAN_FDS)];
	} ctl;
	struct iovec iov[2];
	struct msghdr mh = { .msg_iov = iov, .msg_iovlen = 2 };
	struct msg_out h;

	if (len > CHAN_MAX - CHAN_HEADER || nfds > CHAN_FDS)
		return -EMSGSIZE;
	msg_out_init(&h, header, sizeof(header));
	msg_put_u16(&h, type);
	msg_put_u16(&h, 0);
	msg_put_u32(&h, 0);
	msg_put_u64(&h, request);
	iov[0] = (struct iovec){ .iov_base = header, .iov_len = sizeof(header) };
	iov[1].iov_base = (void *)(uintptr_t)body;
	iov[1].iov_len = len;
	if (nfds > 0) {
		struct cmsghdr *c;

		(void)memset(&ctl, 0, sizeof(ctl));
		mh.msg_control = ctl.buf;
		mh.msg_controllen = CMSG_SPACE(sizeof(int) * nfds);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * nfds);
		(void)memcpy(CMSG_DATA(c), fds, sizeof(int) * nfds);
	}
	for (;;) {
		if (sendmsg(fd, &mh, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno != EINTR)
			return errno == ECONNRESET ? -EPIPE : -errno; /* both: the peer is gone */
	}
}

/* Take every descriptor of every SCM_RIGHTS header, however many there are: one that is not taken
 * here is a leak. Returns how many came in all; those beyond CHAN_FDS are closed. */
static unsigned int take_fds(struct msghdr *mh, struct chan_msg *m)
{
	unsigned int all = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++, all++) {
			int fd;

			(void)memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (m->nfds < CHAN_FDS)
				m->fds[m->nfds++] = fd;
			else
				(void)close(fd);
		}
	}
	return all;
}

int chan_recv(int fd, struct chan_msg *m)
{
	uint8_t header[CHAN_HEADER];
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int) * (CHAN_FDS + 2))];
	} ctl;
	struct iovec iov[2] = {
		{ .iov_base = header, .iov_len = sizeof(header) },
		{ .iov_base = m->body, .iov_len = sizeof(m->body) },
	};
	struct msghdr mh = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = ctl.buf,
		.msg_controllen = sizeof(ctl.buf),
	};
	struct msg_in h;
	bool reset = false;
	ssize_t n;

	m->nfds = 0;
	m->len = 0;
	for (;;) {
		n = recvmsg(fd, &mh, MSG_CMSG_CLOEXEC);
		/* A peer that closes before it has read everything: the kernel says so once, ahead of
		 * what that peer sent. */
		if (n < 0 && errno == ECONNRESET && !reset)
			reset = true;
		else if (n >= 0 || errno != EINTR)
			break;
	}
	if (n < 0)
		return -errno;
	if (take_fds(&mh, m) > CHAN_FDS || (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
	    (n > 0 && n < CHAN_HEADER)) {
		chan_msg_close(m);
		return -EPROTO;
	}
	if (n == 0) {
		chan_msg_close(m);
		return 0;
	}
	msg_in_init(&h, header, sizeof(header));
	m->type = msg_get_u16(&h);
	if (msg_get_u16(&h) != 0 || msg_get_u32(&h) != 0) {
		chan_msg_close(m);
		return -EPROTO;
	}
	m->request = msg_get_u64(&h);
	m->len = (size_t)n - CHAN_HEADER;
	return 1;
}

void chan_msg_close(struct chan_msg *m)
{
	while (m->nfds > 0)
		(void)close(m->fds[--m->nfds]);
}
