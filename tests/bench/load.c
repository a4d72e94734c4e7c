// SPDX-License-Identifier: Apache-2.0
/*
 * The client of the benchmark, in C so that it is not what is measured. Compiled by the harness when it runs.
 *
 *   load rate PORT REQUEST EXPECT CONNECTIONS SLICE_MS SLICES   one request over and over, keep-alive
 *   load paced PORT REQUEST EXPECT EVERY_US COUNT               one request every so often, keep-alive
 *   load sessions PORT CREATE CELL EXPECT TOTAL AT_ONCE END     new sessions, each to its first result
 *   load socket PORT PATH MESSAGE END EXPECT MS                 a message over and over, on one WebSocket
 *   load jupyter PORT PATH FRAMING CONTENT PIECE TIMES MS       a cell over and over, on a kernel's channels
 *   load kernels PORT CREATE PATH FRAMING CONTENT PIECE TIMES TOTAL   new kernels at once, a cell on each
 *   load up PORT FILE [PATH]                                    a file as a form to POST /v1/files, by sendfile
 *   load put PORT PATH FILE [METHOD]                            a file as the body of a PUT, by sendfile
 *   load down PORT PATH BYTES [FILE]                            an answer, discarded; with FILE compared
 *   load chunks PORT PATH [FILE]                                an answer in chunks, discarded; with FILE kept there
 *   load flood PORT REQUEST CHARACTER                           a stream of events; counts that character
 *   load answer                                                 a server that answers without looking
 *   load net-serve ADDRESS and others                           see load_net.c
 *
 * REQUEST, CREATE, CELL, MESSAGE and CONTENT are files with the bytes to send. The first line of output is JSON; for `up` and `put` the
 * body of the answer follows. What is not as expected ends with a message and status 1.
 */
#include "client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PIECE = 1 << 18, /* stays in the cache of a core */
	TAIL = 1024,
	TIMES_MAX = 1 << 14,
};

/* --- rate ------------------------------------------------------------------------------------- */

struct conn {
	int fd;
	uint64_t sent_ns;
	size_t len;
	char *buf;
};

struct rate {
	const char *request, *expect;
	size_t request_len, expect_len;
	uint64_t start_ns, slice_ns, end_ns, last_ns;
	uint64_t *slices;
	unsigned int nslices, waiting;
	uint64_t count, failed;
	char error[256];
	uint64_t times[TIMES_MAX], every, skipped;
	unsigned int ntimes;
};

/* Every time at first; every second, fourth, … when there are more than can be kept. */
static void keep_time(struct rate *r, uint64_t ns)
{
	if (++r->skipped < r->every)
		return;
	r->skipped = 0;
	if (r->ntimes == TIMES_MAX) {
		for (unsigned int i = 0; i < TIMES_MAX / 2; i++)
			r->times[i] = r->times[2 * i + 1];
		r->ntimes = TIMES_MAX / 2;
		r->every *= 2;
	}
	r->times[r->ntimes++] = ns;
}

static void ask(struct rate *r, struct conn *c)
{
	if (r->failed >= FAILURES_MAX || now_ns() >= r->end_ns)
		return;
	c->len = 0;
	c->sent_ns = now_ns();
	if (!send_all(c->fd, r->request, r->request_len))
		die("send: %s", strerror(errno));
	r->waiting++;
}

static void answered(struct rate *r, const struct conn *c, const struct answer *a)
{
	uint64_t now = now_ns(), slice = (now - r->start_ns) / r->slice_ns;

	r->waiting--;
	r->last_ns = now;
	if (a->status / 100 == 2 &&
	    memmem(c->buf + a->head, (size_t)a->length, r->expect, r->expect_len) != NULL) {
		r->count++;
		if (slice < r->nslices)
			r->slices[slice]++;
		keep_time(r, now - c->sent_ns);
		return;
	}
	if (r->failed++ == 0)
		(void)snprintf(r->error, sizeof(r->error), "%d: %.*s", a->status,
			       (int)(a->length < 150 ? a->length : 150), c->buf + a->head);
}

static void readable(struct rate *r, struct conn *c)
{
	size_t got = recv_some(c->fd, c->buf + c->len, ANSWER_MAX - 1 - c->len, 0);
	struct answer a;

	if (got == 0)
		die("the connection was closed");
	c->len += got;
	c->buf[c->len] = '\0';
	if (!parse_answer(c->buf, c->len, &a))
		return;
	answered(r, c, &a);
	ask(r, c);
}

static void print_rate(const struct rate *r)
{
	(void)printf("{\"count\": %llu, \"failed\": %llu, \"seconds\": %.6f, \"error\": \"",
		     (unsigned long long)r->count, (unsigned long long)r->failed,
		     (double)(r->last_ns - r->start_ns) / 1e9);
	print_text(r->error);
	(void)printf("\", ");
	print_list("slices", r->slices, r->nslices);
	(void)printf(", ");
	print_list("ns", r->times, r->ntimes);
	(void)printf("}\n");
}

static int do_rate(char **arg)
{
	static struct rate r = { .every = 1 };
	static struct conn conns[CONNECTIONS_MAX];
	unsigned int n = (unsigned int)number(arg[3]);
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

	if (n == 0 || n > CONNECTIONS_MAX || number(arg[4]) == 0 || number(arg[5]) == 0)
		die("connections and slices are numbers above 0");
	r.request = map(arg[1], &r.request_len);
	r.expect = arg[2];
	r.expect_len = strlen(arg[2]);
	r.slice_ns = number(arg[4]) * 1000000u;
	r.nslices = (unsigned int)number(arg[5]);
	r.slices = calloc(r.nslices, sizeof(*r.slices));
	for (unsigned int i = 0; i < n; i++) {
		struct epoll_event e = { .events = EPOLLIN, .data.ptr = &conns[i] };

		conns[i].fd = connect_to(arg[0]);
		conns[i].buf = malloc(ANSWER_MAX);
		if (r.slices == NULL || conns[i].buf == NULL ||
		    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, conns[i].fd, &e) < 0)
			die("out of memory");
	}
	r.start_ns = r.last_ns = now_ns();
	r.end_ns = r.start_ns + r.slice_ns * r.nslices;
	for (unsigned int i = 0; i < n; i++)
		ask(&r, &conns[i]);
	while (r.waiting > 0) {
		struct epoll_event e[64];
		int ready = epoll_wait(epoll_fd, e, 64, PATIENCE_MS);

		if (ready == 0 || (ready < 0 && errno != EINTR))
			die("no answer for %d s", PATIENCE_MS / 1000);
		for (int i = 0; i < ready; i++)
			readable(&r, e[i].data.ptr);
	}
	print_rate(&r);
	return 0;
}

/* --- flood ------------------------------------------------------------------------------------ */

static uint64_t count_of(const char *p, size_t n, char what)
{
	uint64_t found = 0;

	for (size_t at = 0; at < n; at += 255) {
		size_t end = n - at < 255 ? n : at + 255;
		unsigned char some = 0; /* narrow, so that the compiler can take many at once */

		for (size_t i = at; i < end; i++)
			some = (unsigned char)(some + (p[i] == what));
		found += some;
	}
	return found;
}

static int do_flood(char **arg)
{
	static char buf[PIECE], tail[TAIL + 1];
	size_t request_len, tail_len = 0, n;
	const char *request = map(arg[1], &request_len);
	uint64_t found = 0, wire = 0, start, ns;
	int fd = connect_to(arg[0]);
	struct answer a;

	start = now_ns();
	if (!send_all(fd, request, request_len))
		die("send: %s", strerror(errno));
	n = read_head(fd, buf, sizeof(buf), &a);
	if (a.status != 200)
		die("%d: %.*s", a.status, (int)(n - a.head < 200 ? n - a.head : 200), buf + a.head);
	(void)memmove(buf, buf + a.head, n - a.head);
	n -= a.head;
	for (;;) {
		size_t keep = n < TAIL ? n : TAIL,
		       old = TAIL - keep < tail_len ? TAIL - keep : tail_len;

		wire += n;
		found += count_of(buf, n, arg[2][0]);
		(void)memmove(tail, tail + tail_len - old, old);
		(void)memcpy(tail + old, buf + n - keep, keep);
		tail_len = old + keep;
		tail[tail_len] = '\0';
		if (tail_len >= 7 && memcmp(tail + tail_len - 7, "\r\n0\r\n\r\n", 7) == 0)
			break;
		n = recv_some(fd, buf, sizeof(buf), 0);
		if (n == 0)
			die("the stream was cut after %llu", (unsigned long long)found);
	}
	ns = now_ns() - start;
	if (strstr(tail, "event: result") == NULL || strstr(tail, "\"exit_code\":0") == NULL)
		die("no good end: %s", tail_len > 300 ? tail + tail_len - 300 : tail);
	(void)printf("{\"ns\": %llu, \"bytes\": %llu, \"wire_bytes\": %llu}\n",
		     (unsigned long long)ns, (unsigned long long)found, (unsigned long long)wire);
	return 0;
}

/* --- answer ----------------------------------------------------------------------------------- */

/* What the client can reach at all: nothing is parsed, allocated or logged. Ends with its input. */
static int do_answer(void)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
				     "Content-Length: 15\r\n\r\n{\"status\":\"ok\"}";
	static char buf[65536];
	struct sockaddr_in a = { .sin_family = AF_INET };
	struct epoll_event e = { .events = EPOLLIN };
	socklen_t len = sizeof(a);
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC), fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	e.data.fd = fd;
	if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 128) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &len) < 0 ||
	    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		die("listen: %s", strerror(errno));
	e.data.fd = STDIN_FILENO;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &e) < 0)
		die("standard input must be a pipe");
	(void)printf("%d\n", ntohs(a.sin_port));
	(void)fflush(stdout);
	for (;;) {
		struct epoll_event ready[64];
		int n = epoll_wait(epoll_fd, ready, 64, -1);

		for (int i = 0; i < n; i++) {
			int from = ready[i].data.fd, one = 1;

			if (from == STDIN_FILENO)
				return 0;
			if (from == fd) {
				e.data.fd = accept4(fd, (struct sockaddr *)&a, &len, SOCK_NONBLOCK);
				(void)setsockopt(e.data.fd, IPPROTO_TCP, TCP_NODELAY, &one,
						 sizeof(one));
				(void)epoll_ctl(epoll_fd, EPOLL_CTL_ADD, e.data.fd, &e);
			} else if (recv(from, buf, sizeof(buf), 0) <= 0) {
				(void)close(from);
			} else {
				(void)!send(from, answer, sizeof(answer) - 1, MSG_NOSIGNAL);
			}
		}
	}
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";

	(void)signal(SIGPIPE, SIG_IGN);
	if (strcmp(verb, "rate") == 0 && argc == 8)
		return do_rate(argv + 2);
	if (strcmp(verb, "paced") == 0 && argc == 7)
		return do_paced(argv + 2);
	if (strcmp(verb, "sessions") == 0 && argc == 9)
		return do_sessions(argv + 2);
	if (strcmp(verb, "socket") == 0 && argc == 8)
		return do_socket(argv + 2);
	if (strcmp(verb, "jupyter") == 0 && argc == 9)
		return do_jupyter(argv + 2);
	if (strcmp(verb, "kernels") == 0 && argc == 10)
		return do_kernels(argv + 2);
	if (strcmp(verb, "net-serve") == 0 && argc == 3)
		return do_net_serve(argv + 2);
	if (strcmp(verb, "net-connect") == 0 && argc == 5)
		return do_net_connect(argv + 2);
	if (strcmp(verb, "net-dns") == 0 && argc == 6)
		return do_net_dns(argv + 2);
	if (strcmp(verb, "net-stream") == 0 && argc == 6)
		return do_net_stream(argv + 2);
	if (strcmp(verb, "up") == 0 && (argc == 4 || argc == 5))
		return do_up(argv + 2);
	if (strcmp(verb, "put") == 0 && (argc == 5 || argc == 6))
		return do_put(argv + 2);
	if (strcmp(verb, "down") == 0 && (argc == 5 || argc == 6))
		return do_down(argv + 2);
	if (strcmp(verb, "chunks") == 0 && (argc == 4 || argc == 5))
		return do_chunks(argv + 2);
	if (strcmp(verb, "flood") == 0 && argc == 5)
		return do_flood(argv + 2);
	if (strcmp(verb, "answer") == 0 && argc == 2)
		return do_answer();
	die("load rate | paced | sessions | socket | jupyter | kernels | up | put | down | chunks "
	    "| flood | answer: see the top of load.c");
}
