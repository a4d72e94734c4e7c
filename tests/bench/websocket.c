// SPDX-License-Identifier: Apache-2.0
/*
 * WebSockets, as far as this client needs them. A message is one frame, of any size. Nothing here checks the key that the server
 * answers with, and what is sent is masked with the same four bytes every time.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
	OPCODE = 0x0f,
	FIN = 0x80,
	MASKED = 0x80,
	PIECE = 1 << 18,    /* is read at once, and stays in the cache of a core */
	WIRE_MAX = 1 << 29, /* all that waits to be taken, the largest message among it */
};

/* --- frames ----------------------------------------------------------------------------------- */

bool parse_frame(const char *p, size_t n, struct frame *f)
{
	const unsigned char *b = (const unsigned char *)p;
	size_t more;
	uint64_t len;

	f->whole = 2;
	if (n < f->whole)
		return false;
	if ((b[0] & FIN) == 0 || (b[1] & MASKED) != 0)
		die("a message in pieces, or one that is masked");
	len = b[1];
	more = len < 126 ? 0 : len == 126 ? 2 : 8;
	f->whole += more;
	if (n < f->whole)
		return false;
	if (more > 0)
		len = 0;
	for (size_t i = 0; i < more; i++)
		len = len << 8 | b[2 + i];
	if (len > WIRE_MAX)
		die("a large frame");
	*f = (struct frame){
		.opcode = b[0] & OPCODE,
		.p = p + f->whole,
		.n = (size_t)len,
		.whole = f->whole + (size_t)len,
	};
	return n >= f->whole;
}

size_t put_frame(char *out, int opcode, const char *p, size_t n)
{
	static const unsigned char mask[4] = { 0x5a, 0xc3, 0x0f, 0x96 };
	size_t head = n < 126 ? 2 : 4;

	if (n >= FRAME_MAX - 4 - sizeof(mask))
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

/* --- the handshake ---------------------------------------------------------------------------- */

size_t put_upgrade(char *out, const char *path, const char *protocol)
{
	int n = snprintf(out, UPGRADE_MAX,
			 "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
			 "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
			 "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n%s%s%s\r\n",
			 path, protocol != NULL ? "Sec-WebSocket-Protocol: " : "",
			 protocol != NULL ? protocol : "", protocol != NULL ? "\r\n" : "");

	if (n >= UPGRADE_MAX)
		die("the path is too long");
	return (size_t)n;
}

bool is_upgraded(const char *p, size_t n, const struct answer *a, const char *protocol, char *error,
		 size_t size)
{
	size_t body = n - a->head < 150 ? n - a->head : 150;

	if (a->status != 101)
		(void)snprintf(error, size, "%d: %.*s", a->status, (int)body, p + a->head);
	else if (protocol != NULL && memmem(p, a->head, protocol, strlen(protocol)) == NULL)
		(void)snprintf(error, size, "the server does not take %s", protocol);
	else
		return true;
	return false;
}

/* --- one connection --------------------------------------------------------------------------- */

void wire_open(struct wire *w, const char *port, const char *path, const char *protocol)
{
	char request[UPGRADE_MAX], error[256];
	size_t n = put_upgrade(request, path, protocol);
	struct answer a;

	w->fd = connect_to(port);
	w->buf = mmap(NULL, WIRE_MAX, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (w->buf == MAP_FAILED)
		die("out of memory");
	if (!send_all(w->fd, request, n))
		die("send: %s", strerror(errno));
	w->len = read_head(w->fd, w->buf, PIECE, &a);
	if (!is_upgraded(w->buf, w->len, &a, protocol, error, sizeof(error)))
		die("%s", error);
	w->at = a.head;
}

/* Until this many bytes are there. */
static void fill(struct wire *w, size_t n)
{
	if (w->at >= PIECE) {
		(void)memmove(w->buf, w->buf + w->at, w->len - w->at);
		w->len -= w->at;
		w->at = 0;
	}
	while (w->len - w->at < n) {
		size_t lacks = n - (w->len - w->at), want = lacks > PIECE ? lacks : PIECE, got;

		if (w->len + want > WIRE_MAX)
			die("a large frame");
		got = recv_some(w->fd, w->buf + w->len, want, 0);
		if (got == 0)
			die("the connection was closed");
		w->len += got;
	}
}

int wire_next(struct wire *w, const char **ret, size_t *ret_n)
{
	struct frame f;

	for (;;) {
		if (w->at == w->len)
			w->at = w->len = 0;
		while (!parse_frame(w->buf + w->at, w->len - w->at, &f))
			fill(w, f.whole);
		w->at += f.whole;
		if (f.opcode == WS_PING) {
			char pong[FRAME_MAX];

			if (!send_all(w->fd, pong, put_frame(pong, WS_PONG, f.p, f.n)))
				die("send: %s", strerror(errno));
		} else if (f.opcode != WS_PONG) {
			*ret = f.p;
			*ret_n = f.n;
			return f.opcode;
		}
	}
}
