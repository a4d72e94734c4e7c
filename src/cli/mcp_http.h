/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a server that are under way at once, each on a connection of its own; nobody waits for one.
 *
 * An exchange is made, gets its headers and body, and is started; from then on the loop drives it by exchanges_poll() and
 * exchanges_step(), and its functions are called from the latter only. It is gone behind its end(), or after a function of it
 * that has had enough, or by exchange_drop().
 */
#pragma once

#include "base/err.h"
#include "cli/http_client.h"

#include <poll.h>
#include <sys/socket.h>

enum {
	EXCHANGES_MAX = 76,         /* see mcp.h: 64 requests, 4 quiet ones, some of our own */
	EXCHANGE_ADDRESSES_MAX = 8, /* of a server */
};

struct exchange;

struct exchange_ops {
	/* Head and pieces of the answer, x->answer; either may be NULL. Not 0: it has had enough. */
	int (*head)(struct exchange *x);
	int (*body)(struct exchange *x, const char *p, size_t n);
	/* The answer is whole, or e says why it is not. */
	void (*end)(struct exchange *x, const struct err *e);
};

enum exchange_state {
	EXCHANGE_NEW,
	EXCHANGE_CONNECTING,
	EXCHANGE_SENDING,
	EXCHANGE_READING,
	EXCHANGE_FAILED
};

struct exchanges;

struct exchange {
	struct exchanges *all;
	const struct exchange_ops *ops;
	void *arg;
	enum exchange_state state;
	int fd;
	unsigned int address; /* which one is tried */
	unsigned int tried;
	struct bytes head;  /* of the request; ends with its last header */
	char *body;         /* owned; NULL: none */
	size_t nbody, sent; /* sent: of head and body together */
	int file;           /* owned: a file to be sent in place of a body; -1: none */
	uint64_t file_size, file_at;
	unsigned int answer_ms; /* how long nothing may come; 0: for ever */
	uint64_t deadline_us;
	bool paused;         /* nothing is read from it for now */
	unsigned int polled; /* its place when poll() was called, from 1 on; 0: it was not there */
	bool is_get;
	struct err e;
	struct http_answer answer;
};

/* All of a server. */
struct exchanges {
	struct client *c; /* which server, and its token */
	struct {
		struct sockaddr_storage a;
		socklen_t len;
	} addresses[EXCHANGE_ADDRESSES_MAX];
	unsigned int naddresses, good; /* good: the one that answered last */
	struct exchange *x[EXCHANGES_MAX];
	unsigned int n;
};

void exchanges_init(struct exchanges *all, struct client *c);
/* Drops all of them. */
void exchanges_done(struct exchanges *all);

/* NULL: too many, or no memory. */
struct exchange *exchange_new(struct exchanges *all, const char *method, const char *path,
			      const struct exchange_ops *ops, void *arg);
void exchange_header(struct exchange *x, const char *name, const char *value);
/* Both take what they are given. */
void exchange_body(struct exchange *x, const char *type, char *body, size_t n);
void exchange_file(struct exchange *x, int fd, uint64_t size);
void exchange_start(struct exchange *x);
void exchange_drop(struct exchange *x);

/* Fill in what to wait for, EXCHANGES_MAX at most; how many there are. *deadline_us becomes earlier if need be. */
unsigned int exchanges_poll(struct exchanges *all, struct pollfd *p, uint64_t *deadline_us);
/* What came of that. */
void exchanges_step(struct exchanges *all, const struct pollfd *p);

/* Whether a header of the answer begins so. */
bool exchange_says(const struct exchange *x, const char *header, const char *begins);
