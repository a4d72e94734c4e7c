/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/chan.c: messages with descriptors. What a hostile peer can put on the socket is sent by hand here. */
#include "wire/chan.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"

#include "test_help.h"

enum { MANY = 32 };

/* Different files, so that it can be seen which descriptor arrived. */
static void open_files(int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		fds[i] = memfd_create("chan", MFD_CLOEXEC);
		CHECK(fds[i] >= 0);
		CHECK(ftruncate(fds[i], (off_t)i + 1) == 0);
	}
}

static void close_files(const int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		CHECK(close(fds[i]) == 0);
}

static bool is_empty(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

/* One message with as many control headers as there are counts, each with that many descriptors. */
static ssize_t send_raw(int to, const void *p, size_t len, const int *fds,
			const unsigned int *counts, unsigned int headers)
{
	union {
		struct cmsghdr align;
		char buf[16 * CMSG_SPACE(sizeof(int) * MANY)];
	} ctl;
	struct iovec iov;
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *c;
	size_t used = 0;

	memset(&ctl, 0, sizeof(ctl));
	iov.iov_base = (void *)(uintptr_t)p;
	iov.iov_len = len;
	mh.msg_control = ctl.buf;
	mh.msg_controllen = sizeof(ctl.buf);
	c = CMSG_FIRSTHDR(&mh);
	for (unsigned int i = 0; i < headers; i++, c = CMSG_NXTHDR(&mh, c)) {
		CHECK(c != NULL);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * counts[i]);
		memcpy(CMSG_DATA(c), fds, sizeof(int) * counts[i]);
		fds += counts[i];
		used += CMSG_SPACE(sizeof(int) * counts[i]);
	}
	mh.msg_controllen = used;
	return sendmsg(to, &mh, MSG_NOSIGNAL);
}

TEST(chan_pair_is_close_on_exec_and_keeps_messages_apart)
{
	struct chan_msg m;
	int s[2];

	CHECK_EQ_INT(chan_pair(s), 0);
	CHECK(fcntl(s[0], F_GETFD) & FD_CLOEXEC);
	CHECK(fcntl(s[1], F_GETFD) & FD_CLOEXEC);
	CHECK_EQ_INT(chan_send(s[0], 1, 10, "one", 3, NULL, 0), 0);
	CHECK_EQ_INT(chan_send(s[0], 2, 20, NULL, 0, NULL, 0), 0);
	CHECK_EQ_INT(chan_send(s[0], UINT16_MAX, UINT64_MAX, "three", 5, NULL, 0), 0);
	CHECK_EQ_INT(chan_recv(s[1], &m), 1);
	CHECK(m.type == 1 && m.request == 10 && m.len == 3 && m.nfds == 0);
	CHECK_MEM(m.body, "one", 3);
	CHECK_EQ_INT(chan_recv(s[1], &m), 1);
	CHECK(m.type == 2 && m.request == 20 && m.len == 0 && m.nfds == 0);
	CHECK_EQ_INT(chan_recv(s[1], &m), 1);
	CHECK(m.type == UINT16_MAX && m.request == UINT64_MAX && m.len == 5);
	CHECK_MEM(m.body, "three", 5);
	close_files(s, 2);
}

TEST(chan_sends_every_length_that_it_allows)
{
	static uint8_t body[CHAN_MAX];
	static struct chan_msg m;
	static const size_t lengths[] = {
		0, 1, 15, 16, 255, 4096, 8192, CHAN_MAX - CHAN_HEADER - 1, CHAN_MAX - CHAN_HEADER
	};
	uint64_t seed = 5;
	int s[2];

	CHECK_EQ_INT(chan_pair(s), 0);
	rnd_fill(&seed, body, sizeof(body));
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		CHECK_EQ_INT(chan_send(s[0], 7, i, body, lengths[i], NULL, 0), 0);
		CHECK_EQ_INT(chan_recv(s[1], &m), 1);
		CHECK_EQ_INT(m.len, lengths[i]);
		CHECK_EQ_INT(m.request, i);
		CHECK_MEM(m.body, body, lengths[i]);
	}
	CHECK_EQ_INT(chan_send(s[0], 7, 0, body, CHAN_MAX - CHAN_HEADER + 1, NULL, 0), -EMSGSIZE);
	CHECK_EQ_INT(chan_send(s[0], 7, 0, body, SIZE_MAX, NULL, 0), -EMSGSIZE);
	CHECK(is_empty(s[1]));
	close_files(s, 2);
}

TEST(chan_passes_descriptors_in_order)
{
	int s[2], files[CHAN_FDS];
	unsigned int before;

	CHECK_EQ_INT(chan_pair(s), 0);
	open_files(files, CHAN_FDS);
	before = count_fds();
	for (unsigned int n = 0; n <= CHAN_FDS; n++) {
		struct chan_msg m;

		CHECK_EQ_INT(chan_send(s[0], 1, 0, "x", 1, files, n), 0);
		CHECK_EQ_INT(chan_recv(s[1], &m), 1);
		CHECK_EQ_INT(m.nfds, n);
		CHECK_EQ_INT(count_fds(), before + n);
		for (unsigned int i = 0; i < n; i++) {
			struct stat want, got;

			CHECK(fstat(files[i], &want) == 0 && fstat(m.fds[i], &got) == 0);
			CHECK(want.st_ino == got.st_ino && got.st_size == (off_t)i + 1);
			CHECK(fcntl(m.fds[i], F_GETFD) & FD_CLOEXEC);
		}
		chan_msg_close(&m);
		CHECK_EQ_INT(m.nfds, 0);
		CHECK_EQ_INT(count_fds(), before);
		chan_msg_close(&m); /* closes nothing a second time */
		CHECK_EQ_INT(count_fds(), before);
	}
	close_files(files, CHAN_FDS);
	close_files(s, 2);
}

TEST(chan_send_refuses_too_many_descriptors)
{
	int s[2], files[CHAN_FDS + 1];

	CHECK_EQ_INT(chan_pair(s), 0);
	open_files(files, CHAN_FDS + 1);
	CHECK_EQ_INT(chan_send(s[0], 1, 0, "x", 1, files, CHAN_FDS + 1), -EMSGSIZE);
	CHECK_EQ_INT(chan_send(s[0], 1, 0, "x", 1, files, ~0u), -EMSGSIZE);
	CHECK(is_empty(s[1]));
	close_files(files, CHAN_FDS + 1);
	close_files(s, 2);
}

/* Any number of descriptors, in one header or in several (the kernel joins those): up to CHAN_FDS arrive, more
 * than that are closed, every single one. */
TEST(chan_recv_closes_what_it_did_not_ask_for)
{
	static const struct {
		unsigned int headers, counts[4];
	} cases
		[] = {
			{ 1, { 1 } },
			{ 1, { 2 } }, /* one is asked for, and padding has room for a second: both are seen */
			{ 1, { 4 } },
			{ 1, { 5 } },
			{ 1, { 6 } }, /* as many as the control buffer holds */
			{ 1, { 7 } }, /* the kernel has to cut */
			{ 1, { 8 } },
			{ 1, { MANY } },
			{ 2, { 1, 1 } },
			{ 2, { 2, 2 } },
			{ 2, { 4, 1 } },
			{ 2, { 1, 4 } },
			{ 3, { 2, 2, 2 } },
			{ 4, { 1, 1, 1, 1 } },
			{ 4, { 8, 8, 8, 8 } },
		};
	static const uint8_t bytes[CHAN_HEADER + 1];
	int s[2], files[MANY];
	unsigned int before;

	CHECK_EQ_INT(chan_pair(s), 0);
	open_files(files, MANY);
	before = count_fds();
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned int all = 0;
		struct chan_msg m;
		int r;

		for (unsigned int k = 0; k < cases[i].headers; k++)
			all += cases[i].counts[k];
		CHECK_EQ_INT(send_raw(s[0], bytes, sizeof(bytes), files, cases[i].counts,
				      cases[i].headers),
			     sizeof(bytes));
		r = chan_recv(s[1], &m);
		CHECK_EQ_INT(r, all <= CHAN_FDS ? 1 : -EPROTO);
		CHECK_EQ_INT(m.nfds, all <= CHAN_FDS ? all : 0);
		CHECK_EQ_INT(count_fds(), before + m.nfds);
		chan_msg_close(&m);
		CHECK_EQ_INT(count_fds(), before);
	}
	close_files(files, MANY);
	close_files(s, 2);
}

/* With few descriptors left the kernel installs as many as it can and cuts the rest: none may stay. */
TEST(chan_recv_closes_what_arrived_when_the_table_is_full)
{
	static const unsigned int counts[] = { CHAN_FDS };
	static const uint8_t bytes[CHAN_HEADER];
	const struct rlimit few = { 64, 64 };
	int s[2], files[CHAN_FDS], filler[64];
	unsigned int before, n = 0;
	struct chan_msg m;

	CHECK_EQ_INT(chan_pair(s), 0);
	open_files(files, CHAN_FDS);
	CHECK_EQ_INT(send_raw(s[0], bytes, sizeof(bytes), files, counts, 1), sizeof(bytes));
	before = count_fds();
	CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
	while (n < ARRAY_LEN(filler) && (filler[n] = dup(s[0])) >= 0)
		n++;
	CHECK(n > 2 && n < ARRAY_LEN(filler));
	close_files(filler + n - 2, 2);
	n -= 2;
	CHECK_EQ_INT(chan_recv(s[1], &m), -EPROTO);
	CHECK_EQ_INT(m.nfds, 0);
	close_files(filler, n);
	CHECK_EQ_INT(count_fds(), before);
	close_files(files, CHAN_FDS);
	close_files(s, 2);
}

TEST(chan_recv_refuses_a_message_that_is_too_short)
{
	static const uint8_t bytes[CHAN_HEADER];
	int s[2], files[1];
	unsigned int before;

	CHECK_EQ_INT(chan_pair(s), 0);
	open_files(files, 1);
	before = count_fds();
	for (size_t n = 1; n <= CHAN_HEADER; n++)
		for (unsigned int fds = 0; fds <= 1; fds++) {
			struct chan_msg m;

			CHECK_EQ_INT(send_raw(s[0], bytes, n, files, &fds, fds), n);
			CHECK_EQ_INT(chan_recv(s[1], &m), n < CHAN_HEADER ? -EPROTO : 1);
			CHECK_EQ_INT(m.nfds, n < CHAN_HEADER ? 0 : fds);
			chan_msg_close(&m);
			CHECK_EQ_INT(count_fds(), before);
		}
	close_files(files, 1);
	close_files(s, 2);
}

TEST(chan_recv_refuses_a_message_that_is_too_long)
{
	static uint8_t bytes[4 * CHAN_MAX];
	static const size_t lengths[] = { CHAN_MAX, CHAN_MAX + 1, 2 * CHAN_MAX, sizeof(bytes) };
	unsigned int one = 1, before;
	int s[2], files[1];

	CHECK_EQ_INT(chan_pair(s), 0);
	open_files(files, 1);
	before = count_fds();
	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		static struct chan_msg m;

		CHECK_EQ_INT(send_raw(s[0], bytes, lengths[i], files, &one, 1), lengths[i]);
		CHECK_EQ_INT(chan_recv(s[1], &m), lengths[i] > CHAN_MAX ? -EPROTO : 1);
		CHECK_EQ_INT(m.nfds, lengths[i] > CHAN_MAX ? 0 : 1);
		chan_msg_close(&m);
		CHECK_EQ_INT(count_fds(), before);
		/* The next message is whole again. */
		CHECK_EQ_INT(chan_send(s[0], 3, 4, "x", 1, NULL, 0), 0);
		CHECK_EQ_INT(chan_recv(s[1], &m), 1);
		CHECK(m.type == 3 && m.request == 4 && m.len == 1);
	}
	close_files(files, 1);
	close_files(s, 2);
}

/* A message without a byte cannot be told from the end; what it carries is closed all the same. */
TEST(chan_recv_takes_an_empty_message_for_the_end)
{
	unsigned int two = 2, before;
	int s[2], files[2];
	struct chan_msg m;

	CHECK_EQ_INT(chan_pair(s), 0);
	open_files(files, 2);
	before = count_fds();
	CHECK_EQ_INT(send_raw(s[0], "", 0, files, &two, 1), 0);
	CHECK(chan_recv(s[1], &m) <= 0);
	CHECK_EQ_INT(m.nfds, 0);
	CHECK_EQ_INT(count_fds(), before);
	close_files(files, 2);
	close_files(s, 2);
}

TEST(chan_tells_empty_from_gone)
{
	struct chan_msg m;
	int s[2];

	(void)signal(SIGPIPE, SIG_DFL);
	CHECK_EQ_INT(chan_pair(s), 0);
	CHECK(fcntl(s[1], F_SETFL, O_NONBLOCK) == 0);
	CHECK_EQ_INT(chan_recv(s[1], &m), -EAGAIN);
	CHECK_EQ_INT(m.nfds, 0);
	CHECK_EQ_INT(chan_send(s[0], 1, 0, "last", 4, NULL, 0), 0);
	(void)close(s[0]);
	CHECK_EQ_INT(chan_recv(s[1], &m), 1); /* what was sent before the end still arrives */
	CHECK_EQ_INT(m.len, 4);
	CHECK_EQ_INT(chan_recv(s[1], &m), 0);
	CHECK_EQ_INT(chan_recv(s[1], &m), 0);
	CHECK_EQ_INT(chan_send(s[1], 1, 0, "x", 1, NULL, 0), -EPIPE); /* and no SIGPIPE */
	(void)close(s[1]);
	CHECK_EQ_INT(chan_recv(s[1], &m), -EBADF);
	CHECK_EQ_INT(chan_send(s[1], 1, 0, "x", 1, NULL, 0), -EBADF);
}

/* A peer that gives a reason and goes, without having read what it was asked meanwhile. */
TEST(chan_last_words_are_heard_of_a_peer_that_did_not_listen)
{
	struct chan_msg m;
	int s[2];

	for (int ask = 0; ask < 2; ask++) {
		CHECK_EQ_INT(chan_pair(s), 0);
		CHECK_EQ_INT(chan_send(s[1], 1, 0, "unread", 6, NULL, 0), 0);
		CHECK_EQ_INT(chan_send(s[0], 7, 0, "why", 3, NULL, 0), 0);
		(void)close(s[0]);
		if (ask)
			CHECK_EQ_INT(chan_send(s[1], 1, 0, "x", 1, NULL, 0), -EPIPE);
		CHECK_EQ_INT(chan_recv(s[1], &m), 1);
		CHECK(m.type == 7 && m.len == 3);
		CHECK_MEM(m.body, "why", 3);
		CHECK_EQ_INT(chan_recv(s[1], &m), 0);
		(void)close(s[1]);
	}
}

TEST(chan_send_on_a_full_socket_says_so)
{
	static const uint8_t body[CHAN_MAX - CHAN_HEADER];
	int s[2], r = 0;

	CHECK_EQ_INT(chan_pair(s), 0);
	CHECK(fcntl(s[0], F_SETFL, O_NONBLOCK) == 0);
	for (int i = 0; i < 10000 && r == 0; i++)
		r = chan_send(s[0], 1, 0, body, sizeof(body), NULL, 0);
	CHECK_EQ_INT(r, -EAGAIN);
	close_files(s, 2);
}

static volatile sig_atomic_t interrupts;

static void on_alarm(int sig)
{
	(void)sig;
	interrupts++;
}

TEST(chan_goes_on_after_a_signal)
{
	const struct sigaction sa = { .sa_handler = on_alarm }; /* no SA_RESTART */
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	struct chan_msg m;
	int s[2], status;
	pid_t pid;

	CHECK_EQ_INT(chan_pair(s), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)usleep(20000);
		_exit(chan_send(s[0], 5, 6, "x", 1, NULL, 0) == 0 ? 0 : 1);
	}
	CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	CHECK_EQ_INT(chan_recv(s[1], &m), 1);
	CHECK_EQ_INT(m.type, 5);
	CHECK(interrupts > 0);
	CHECK(setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL) == 0);
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK_EQ_INT(status, 0);
	close_files(s, 2);
}
