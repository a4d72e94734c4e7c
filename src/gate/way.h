/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/1.1 request of the gate's own, to one of the places that the operator named (efast_url, efast_host, rayai_url).
 *
 * This process has no network: the keeper opens the connection, by the number of the place (OP_WAY_OPEN), and nothing can be asked
 * of it but those. The other side is not trusted: its answer is read as strictly as requests are, in bounded memory, and it has
 * until the deadline. Each call is a connection of its own.
 *
 * A way_call ends by one of end() and fail(), or by way_close(), after which nothing is heard of it. Every function of
 * way_ops may close it.
 */
#pragma once

#include "wire/endpoint.h"
#include "wire/http_answer.h"

struct gate;
struct way_call;

struct way_ops {
	/* The head of the answer is there. */
	void (*head)(void *arg, const struct http_answer *a);
	/* Bytes of its body: how many were taken. Fewer than n stops reading until way_more(). */
	size_t (*body)(void *arg, const char *p, size_t n);
	/* It is whole. */
	void (*end)(void *arg);
	void (*fail)(void *arg, const char *why);
};

/* The number of a place, or -1: it is none of those that were named. */
int way_find(struct gate *g, const struct endpoint *e);
/* Ask. request is taken, and must be from malloc(). NULL: out of memory; nothing is called before this returns. */
struct way_call *way_ask(struct gate *g, unsigned int which, char *request, size_t n,
			 uint64_t deadline_us, const struct way_ops *ops, void *arg);
/* There is room for more of the body. */
void way_more(struct way_call *w);
/* Let go of it, at any time. */
void way_close(struct way_call *w);
