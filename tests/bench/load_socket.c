// SPDX-License-Identifier: Apache-2.0
/*
 * load socket PORT PATH MESSAGE END EXPECT MS
 *
 * One WebSocket at PATH. MESSAGE goes out as text; what comes back is read up to the message that contains END, which must also contain
 * EXPECT; then MESSAGE goes out again, for MS milliseconds. Nothing here checks the key that the server answers with.
 *
 *   {"count", "failed", "error", "ns": [from the message to its END]}
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	TIMES_MAX = 1 << 16,
	OPCODE = 0x0f,
	OPCODE_TEXT = 1,
	OPCODE_CLOSE = 8,
	FIN = 0x80,
	MASKED = 0x80,
	FRAME_MAX = 1 << 16, /* of what is sent */
};

struct wire {
	int fd;
	size_t at, len;
	char buf[ANSWER_MAX];
};

static void hands(struct wire *w, const char *path)
{
	struct answer a;
	char request[1024];
	int n = snprintf(request, sizeof(request),
			 "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
			 "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
			 "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
			 path);

	if (!send_all(w->fd, request, (size_t)n))
		die("send: %s", strerror(errno));
	w->len = read_head(w->fd, w->buf, sizeof(w->buf), &a);
	if (a.status != 101)
		die("%d: %.*s", a.status, (int)(w->len - a.head < 150 ? w->len - a.head : 150),
		    w->buf + a.head);
	w->at = a.head;
}

/* A whole frame as it goes out; its length. */
static size_t frame(char *out, int opcode, const char *p, size_t n)
{
	static const unsigned char mask[4] = { 0x5a, 0xc3, 0x0f, 0x96 };
	size_t head = n < 126 ? 2 : 4;

	if (n >= FRAME_MAX)
		die("the message is too long");
	out[0] = (char)(FIN | opcode);
	out[1] = (char)(MASKED | (n < 126 ? n : 126));
	if (head == 4) {
		out[2] = (char)(n >> 8);
		out[3] = (char)n;
	}
	(void)memcpy(out + head, mask, sizeof(mask));
	head += sizeof(mask);
	for (size_t i = 0; i < n; i++)
		out[head + i] = (char)((unsigned char)p[i] ^ mask[i % 4]);
	return head + n;
}

/* Until this many bytes are there. */
static void fill(struct wire *w, size_t n)
{
	if (w->at > 0 && w->at + n > sizeof(w->buf)) {
		(void)memmove(w->buf, w->buf + w->at, w->len - w->at);
		w->len -= w->at;
		w->at = 0;
	}
	if (n > sizeof(w->buf))
		die("a large frame");
	while (w->len - w->at < n) {
		size_t got = recv_some(w->fd, w->buf + w->len, sizeof(w->buf) - w->len, 0);

		if (got == 0)
			die("the connection was closed");
		w->len += got;
	}
}

/* The next frame's opcode; its payload stays until the next call. */
static int next(struct wire *w, const char **ret, size_t *ret_n)
{
	const unsigned char *p;
	size_t head = 2;
	uint64_t n;

	if (w->at == w->len)
		w->at = w->len = 0;
	fill(w, head);
	p = (const unsigned char *)w->buf + w->at;
	n = p[1] & 0x7f;
	if (n >= 126) {
		size_t more = n == 126 ? 2 : 8;

		head += more;
		fill(w, head);
		p = (const unsigned char *)w->buf + w->at;
		n = 0;
		for (size_t i = 0; i < more; i++)
			n = n << 8 | p[2 + i];
	}
	if (n > ANSWER_MAX)
		die("a large frame");
	fill(w, head + (size_t)n);
	*ret = w->buf + w->at + head;
	*ret_n = (size_t)n;
	w->at += head + (size_t)n;
	return (unsigned char)w->buf[w->at - head - (size_t)n] & OPCODE;
}

/* Whether what came before the next END, and it itself, is as expected. */
static bool until(struct wire *w, const char *end, const char *expect, char *error, size_t size)
{
	for (;;) {
		const char *p;
		size_t n;
		int opcode = next(w, &p, &n);

		if (opcode == OPCODE_CLOSE)
			die("closed: %.*s", n > 2 ? (int)(n - 2) : 0, p + 2);
		if (opcode != OPCODE_TEXT || memmem(p, n, end, strlen(end)) == NULL)
			continue;
		if (memmem(p, n, expect, strlen(expect)) != NULL)
			return true;
		if (error[0] == '\0')
			(void)snprintf(error, size, "%.*s", (int)(n < 200 ? n : 200), p);
		return false;
	}
}

int do_socket(char **arg)
{
	static char out[FRAME_MAX + 16], error[256];
	static uint64_t times[TIMES_MAX];
	static struct wire w;
	unsigned int count = 0, failed = 0;
	size_t message_len, n;
	const char *message = map(arg[2], &message_len);
	uint64_t end_ns;

	w.fd = connect_to(arg[0]);
	hands(&w, arg[1]);
	n = frame(out, OPCODE_TEXT, message, message_len);
	end_ns = now_ns() + number(arg[5]) * 1000000u;
	while (now_ns() < end_ns && count < TIMES_MAX && failed < FAILURES_MAX) {
		uint64_t start = now_ns();

		if (!send_all(w.fd, out, n))
			die("send: %s", strerror(errno));
		if (until(&w, arg[3], arg[4], error, sizeof(error)))
			times[count++] = now_ns() - start;
		else
			failed++;
	}
	(void)printf("{\"count\": %u, \"failed\": %u, \"error\": \"", count, failed);
	print_text(error);
	(void)printf("\", ");
	print_list("ns", times, count);
	(void)printf("}\n");
	return 0;
}
