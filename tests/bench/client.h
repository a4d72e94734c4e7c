/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every part of the benchmark's client needs: connections to a server of this machine, heads of answers, output as JSON. What goes
 * wrong ends the program with a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ANSWER_MAX = 1 << 20, /* of a small request */
	CONNECTIONS_MAX = 1024,
	FAILURES_MAX = 100,
	PATIENCE_MS = 60 * 1000,
};

_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_ns(void);
uint64_t number(const char *text);

int connect_to(const char *port);
/* A whole file in memory that is never given back. */
const char *map(const char *path, size_t *ret_n);
bool send_all(int fd, const char *p, size_t n);
size_t recv_some(int fd, void *p, size_t n, int flags);
/* What comes next is acknowledged without a delay: a server that holds back small pieces until then does not wait for this kernel. */
void acknowledge(int fd);

struct answer {
	int status;
	size_t head;     /* bytes up to the body */
	uint64_t length; /* of the body; UINT64_MAX: it does not say */
};

/* Whether the head is there whole. */
bool parse_head(const char *p, size_t n, struct answer *a);
/* Read a head into p; how many bytes came in all. */
size_t read_head(int fd, char *p, size_t size, struct answer *a);
/* Whether an answer to a small request is there whole, of which n bytes have come. */
bool parse_answer(const char *p, size_t n, struct answer *a);

/* --- websocket.c: frames, each a whole message -------------------------------------------------- */

enum {
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
	FRAME_MAX = 1 << 16,   /* of what is sent */
	UPGRADE_MAX = 1 << 11, /* a request for a WebSocket */
};

struct frame {
	int opcode;
	const char *p;
	size_t n;
	size_t whole; /* bytes of head and payload; as long as it is not there, as many as are needed for more to be known */
};

/* Whether a whole frame of a server is there, of which n bytes have come. */
bool parse_frame(const char *p, size_t n, struct frame *f);
/* A frame of a client in FRAME_MAX bytes; its length. */
size_t put_frame(char *out, int opcode, const char *p, size_t n);
/* A request for a WebSocket in UPGRADE_MAX bytes; its length. NULL: without a protocol. */
size_t put_upgrade(char *out, const char *path, const char *protocol);
/* Whether the answer to it, with what has come behind, is as wanted; otherwise why not. */
bool is_upgraded(const char *p, size_t n, const struct answer *a, const char *protocol, char *error,
		 size_t size);

/* One WebSocket of one client, which waits for what is to come. */
struct wire {
	int fd;
	size_t at, len;
	char *buf;
};

void wire_open(struct wire *w, const char *port, const char *path, const char *protocol);
/* The next frame's opcode; its payload stays until the next call. Pings are answered. */
int wire_next(struct wire *w, const char **ret, size_t *ret_n);

/* --- output ------------------------------------------------------------------------------------- */

/* What JSON cannot have inside of a text becomes an apostrophe. */
void print_text(const char *text);
/* "name": [numbers] */
void print_list(const char *name, const uint64_t *v, size_t n);

/* Verbs; the arguments follow the verb. See load.c. */
int do_chunks(char **arg);
int do_down(char **arg);
int do_jupyter(char **arg);
int do_kernels(char **arg);
int do_net_connect(char **arg);
int do_net_dns(char **arg);
int do_net_serve(char **arg);
int do_net_stream(char **arg);
int do_paced(char **arg);
int do_put(char **arg);
int do_sessions(char **arg);
int do_socket(char **arg);
int do_up(char **arg);
