// SPDX-License-Identifier: Apache-2.0
/*
 * What a network costs: who asks, in a box or not, and who answers.
 *
 *   load net-serve ADDRESS                      port 2001: a byte back; 2002: takes all and says how much; 2053 (UDP): a question back. Until standard input ends
 *   load net-connect ADDRESS PORT COUNT         connections one after the other, each until a byte has come back
 *   load net-stream ADDRESS PORT STREAMS MS     so many at once, as fast as they go; until the other side has said that it has all of it
 *   load net-dns ADDRESS PORT NAME COUNT        questions for the address of a name, one after the other
 *
 * A connection stands before the other side has answered where somebody in between says so: hence the byte.
 */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ECHO = 2001,
	SINK = 2002,
	ASKED = 2053,
	COUNT_MAX = 1 << 16,
	STREAMS_MAX = 256,
	PIECE = 1 << 17,
	QUESTION_MAX = 512,
};

static struct sockaddr_in place(const char *address, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, address, &a.sin_addr) != 1)
		die("'%s' is no address", address);
	return a;
}

static int reach(const char *address, const char *port, int type)
{
	const struct sockaddr_in a = place(address, (uint16_t)number(port));
	const struct timeval patience = { .tv_sec = PATIENCE_MS / 1000 };
	const int one = 1;
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		die("connect: %s", strerror(errno));
	if (type == SOCK_STREAM)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void print_times(const uint64_t *times, size_t n)
{
	(void)printf("{\"failed\": 0, \"error\": \"\", ");
	print_list("ns", times, n);
	(void)printf("}\n");
}

/* --- who answers ---------------------------------------------------------------------------------- */

struct taken {
	int fd;
	bool sink;
	uint64_t bytes;
};

static int listen_at(const char *address, uint16_t port, int type)
{
	const struct sockaddr_in a = place(address, port);
	const int one = 1;
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
	    (type == SOCK_STREAM && listen(fd, 1024) < 0))
		die("listen at %s port %u: %s", address, port, strerror(errno));
	return fd;
}

static void take(int epoll, int listener, bool sink)
{
	/* cppcheck-suppress nullPointer ; who it is does not matter */
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct taken *t = fd < 0 ? NULL : calloc(1, sizeof(*t));
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = t };

	if (t == NULL)
		return;
	*t = (struct taken){ .fd = fd, .sink = sink };
	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) < 0)
		die("epoll: %s", strerror(errno));
}

static void serve_one(struct taken *t)
{
	static char piece[PIECE];
	/* What a sink gets is dropped in the kernel. */
	ssize_t n = recv(t->fd, piece, sizeof(piece), t->sink ? MSG_TRUNC : 0);

	if (n < 0 && errno == EAGAIN)
		return;
	if (n > 0) {
		t->bytes += (uint64_t)n;
		if (!t->sink)
			(void)send(t->fd, piece, 1, MSG_NOSIGNAL);
		return;
	}
	if (n == 0 && t->sink)
		(void)send(t->fd, &t->bytes, sizeof(t->bytes), MSG_NOSIGNAL);
	(void)close(t->fd);
	free(t);
}

static void answer_question(int fd)
{
	char question[QUESTION_MAX];
	struct sockaddr_in who;
	socklen_t len = sizeof(who);
	ssize_t n = recvfrom(fd, question, sizeof(question), 0, (struct sockaddr *)&who, &len);

	if (n > 0)
		(void)sendto(fd, question, (size_t)n, 0, (const struct sockaddr *)&who, len);
}

int do_net_serve(char **arg)
{
	static struct taken own[4] = { { .fd = STDIN_FILENO } };
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event e[64];

	own[1].fd = listen_at(arg[0], ECHO, SOCK_STREAM);
	own[2].fd = listen_at(arg[0], SINK, SOCK_STREAM);
	own[3].fd = listen_at(arg[0], ASKED, SOCK_DGRAM);
	for (int i = 0; i < 4; i++) {
		struct epoll_event one = { .events = EPOLLIN, .data.ptr = &own[i] };

		if (epoll_ctl(epoll, EPOLL_CTL_ADD, own[i].fd, &one) < 0)
			die("epoll: %s", strerror(errno));
	}
	(void)puts("ready");
	(void)fflush(stdout);
	for (;;) {
		int n = epoll_wait(epoll, e, 64, -1);

		for (int i = 0; i < n; i++) {
			struct taken *t = e[i].data.ptr;

			if (t == &own[0])
				return 0;
			if (t == &own[1] || t == &own[2])
				take(epoll, t->fd, t == &own[2]);
			else if (t == &own[3])
				answer_question(t->fd);
			else
				serve_one(t);
		}
	}
}

/* --- who asks --------------------------------------------------------------------------------------- */

int do_net_connect(char **arg)
{
	static uint64_t times[COUNT_MAX];
	uint64_t count = number(arg[2]);

	for (uint64_t i = 0; i < count && i < COUNT_MAX; i++) {
		uint64_t start = now_ns();
		int fd = reach(arg[0], arg[1], SOCK_STREAM);
		char byte = 0;

		if (!send_all(fd, &byte, 1) || recv_some(fd, &byte, 1, 0) != 1)
			die("nobody answers");
		times[i] = now_ns() - start;
		(void)close(fd);
	}
	print_times(times, count);
	return 0;
}

/* A question for the address (A) of a name; its length. */
static size_t put_question(unsigned char *q, const char *name, uint16_t id)
{
	static const unsigned char rest[] = { 1, 0, 0, 1, 0, 0, 0, 0, 0, 0 };
	size_t n = 12;

	q[0] = (unsigned char)(id >> 8);
	q[1] = (unsigned char)id;
	(void)memcpy(q + 2, rest, sizeof(rest));
	while (*name != '\0') {
		size_t len = strcspn(name, ".");

		q[n++] = (unsigned char)len;
		(void)memcpy(q + n, name, len);
		n += len;
		name += len + (name[len] == '.');
	}
	(void)memcpy(q + n, "\0\0\1\0\1", 5);
	return n + 5;
}

int do_net_dns(char **arg)
{
	static uint64_t times[COUNT_MAX];
	uint64_t count = number(arg[3]);
	int fd = reach(arg[0], arg[1], SOCK_DGRAM);
	unsigned char q[QUESTION_MAX], a[QUESTION_MAX];

	if (strlen(arg[2]) > 200)
		die("the name is too long");
	for (uint64_t i = 0; i < count && i < COUNT_MAX; i++) {
		size_t n = put_question(q, arg[2], (uint16_t)i);
		uint64_t start = now_ns();

		if (send(fd, q, n, 0) < 0 || recv(fd, a, sizeof(a), 0) < (ssize_t)n ||
		    memcmp(a, q, 2) != 0)
			die("no answer to a question");
		times[i] = now_ns() - start;
	}
	print_times(times, count);
	return 0;
}

/* All of them at once, for so long. */
static void push(struct pollfd *p, uint64_t streams, uint64_t end_ns)
{
	static char piece[PIECE];

	while (now_ns() < end_ns) {
		if (poll(p, streams, 100) < 0)
			die("poll: %s", strerror(errno));
		for (uint64_t i = 0; i < streams; i++)
			if (p[i].revents != 0 &&
			    send(p[i].fd, piece, sizeof(piece), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
			    errno != EAGAIN)
				die("send: %s", strerror(errno));
	}
}

int do_net_stream(char **arg)
{
	static struct pollfd p[STREAMS_MAX];
	uint64_t streams = number(arg[2]), start, all = 0, bytes;

	if (streams == 0 || streams > STREAMS_MAX)
		die("1 to %d streams", STREAMS_MAX);
	for (uint64_t i = 0; i < streams; i++)
		p[i] = (struct pollfd){ .fd = reach(arg[0], arg[1], SOCK_STREAM),
					.events = POLLOUT };
	start = now_ns();
	push(p, streams, start + number(arg[3]) * 1000000);
	for (uint64_t i = 0; i < streams; i++)
		(void)shutdown(p[i].fd, SHUT_WR);
	for (uint64_t i = 0; i < streams; i++) {
		if (recv(p[i].fd, &bytes, sizeof(bytes), MSG_WAITALL) != sizeof(bytes))
			die("a stream has no end");
		all += bytes;
	}
	(void)printf("{\"bytes\": %llu, \"ns\": %llu}\n", (unsigned long long)all,
		     (unsigned long long)(now_ns() - start));
	return 0;
}
