/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a hostile peer, sent past chan_send(). Input, for each message: one byte with the number of
 * descriptors (low four bits) and of control headers that they are spread over (next two), two bytes with a length
 * (its top bit adds CHAN_MAX, for messages that are too long), that many bytes.
 *
 * Claims: the result is what chan.h says for that length and that many descriptors; whatever came, no descriptor
 * stays behind.
 */
#include "wire/chan.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_input.h"

enum { FDS_MAX = 15, HEADERS_MAX = 4 };

static int s[2] = { -1, -1 };
static int file; /* what is passed */

/* The lowest free descriptor: it moves up when one is left open below. */
static int lowest_free(void)
{
	int fd = dup(file);

	MUST(fd >= 0);
	(void)close(fd);
	return fd;
}

static void send_raw(const uint8_t *p, size_t len, unsigned int nfds, unsigned int headers)
{
	union {
		struct cmsghdr align;
		char buf[HEADERS_MAX * CMSG_SPACE(sizeof(int) * FDS_MAX)];
	} ctl;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)p, .iov_len = len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	size_t used = 0;

	(void)memset(&ctl, 0, sizeof(ctl));
	mh.msg_control = ctl.buf;
	mh.msg_controllen = sizeof(ctl.buf);
	c = CMSG_FIRSTHDR(&mh);
	for (unsigned int i = 0; i < headers; i++) {
		unsigned int n =
			i + 1 < headers ? nfds / headers : nfds - nfds / headers * (headers - 1);

		if (n == 0)
			continue;
		MUST(c != NULL);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		for (unsigned int k = 0; k < n; k++)
			(void)memcpy(CMSG_DATA(c) + k * sizeof(int), &file, sizeof(int));
		used += CMSG_SPACE(sizeof(int) * n);
		c = CMSG_NXTHDR(&mh, c);
	}
	mh.msg_controllen = used;
	MUST(sendmsg(s[0], &mh, MSG_NOSIGNAL) == (ssize_t)len);
}

static void check_message(const struct chan_msg *m, const uint8_t *p, size_t len, unsigned int nfds)
{
	uint64_t request = 0;

	for (int i = 7; i >= 0; i--)
		request = request << 8 | p[8 + i];
	MUST(m->type == (p[0] | p[1] << 8) && m->request == request);
	MUST(m->len == len - CHAN_HEADER && memcmp(m->body, p + CHAN_HEADER, m->len) == 0);
	MUST(m->nfds == nfds);
	for (unsigned int i = 0; i < nfds; i++)
		MUST((fcntl(m->fds[i], F_GETFD) & FD_CLOEXEC) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[2 * CHAN_MAX];
	struct input in = { data, size };
	int before;

	if (s[0] < 0) {
		MUST(chan_pair(s) == 0);
		MUST(fcntl(s[1], F_SETFL, O_NONBLOCK) == 0);
		file = open("/dev/null", O_RDONLY | O_CLOEXEC);
		MUST(file >= 0);
	}
	before = lowest_free();
	while (in.n > 0) {
		unsigned int how = take_u8(&in), nfds = how & 15, headers = 1 + (how >> 4 & 3);
		size_t want = take_u16(&in), extra = (want & 0x8000) != 0 ? CHAN_MAX : 0, len;
		const uint8_t *p = take_bytes(&in, want & 0x3fff, &len);
		struct chan_msg m;
		int r;

		(void)memset(bytes, 'x', sizeof(bytes));
		(void)memcpy(bytes, p, len);
		len += extra;
		send_raw(bytes, len, nfds, headers);
		r = chan_recv(s[1], &m);
		if (nfds > CHAN_FDS || len > CHAN_MAX || (len > 0 && len < CHAN_HEADER))
			MUST(r == -EPROTO && m.nfds == 0);
		else if (len == 0)
			MUST(r == 0 && m.nfds == 0);
		else
			MUST(r == 1);
		if (r == 1)
			check_message(&m, bytes, len, nfds);
		chan_msg_close(&m);
		MUST(lowest_free() == before);
		MUST(chan_recv(s[1], &m) == -EAGAIN);
	}
	return 0;
}
