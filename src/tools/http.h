/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two HTTP transports of MCP, for http*.c: each message is a POST of its own. With the streamable one its answer is JSON or
 * a stream of events, and there may be a GET stream besides; with the old one (2024-11-05) all answers come on a GET stream, whose first
 * event says where to POST.
 *
 * http.c has the queue, the requests and their turn; http_answers.c what comes of answers. Redirects are never followed, and
 * nobody but the server that was named is spoken to.
 */
#pragma once

#include "tools/fetch.h"
#include "tools/way.h"
#include "wire/endpoint.h"

enum {
	HTTP_POSTS_MAX = 64,
	HTTP_QUEUE_MAX = 512, /* messages */
	HTTP_SESSION = 256,   /* with its NUL */
	HTTP_TARGET = 4096,
	HTTP_RETRY_MS = 1000, /* where the server does not say */
	HTTP_RETRY_MIN_MS = 20,
	HTTP_RETRY_MAX_MS = 60000,
	HTTP_STANDING_TRIES = 5, /* in a row, without an event */
};

/* How long messages wait for the GET stream to be there, on which they may be answered. */
#define HTTP_STANDING_WAIT_US 1000000u

enum post_kind {
	POST_MESSAGE,
	POST_RESUME,   /* GET: the rest of an answer whose stream has ended */
	POST_STANDING, /* GET: what else the server says; with the old transport, all that it says */
	POST_LEAVE,    /* DELETE: the session is over */
};

struct http;

struct post {
	struct fetch x;
	struct post *next;
	struct http *h;
	enum post_kind kind;
	uint64_t id; /* of the request that is to be answered; 0: none */
	bool opens, opened;
	bool has_head, over;
	int slot;          /* in the last poll(2); -1: none */
	uint64_t again_us; /* not before; UINT64_MAX: it is under way */
	unsigned int tries;
};

struct queued {
	struct queued *next;
	uint64_t id;
	bool opens, opened;
	char *head, *text; /* headers that it has of its own, each with its line end */
	size_t n;
};

struct http {
	struct toolway link; /* the first member */
	const struct mcp_place *place;
	struct endpoint at;
	struct dialer *dialer;
	bool secure;
	char host[ENDPOINT_HOST + 10];
	char shown[ENDPOINT_HOST + 64];
	char target[HTTP_TARGET], post_target[HTTP_TARGET]; /* "": not known yet */
	char session[HTTP_SESSION];                         /* "": none */
	bool old;
	bool answered;      /* somebody is there */
	uint64_t barred_us; /* messages wait until then; 0: they do not */
	struct post *posts;
	unsigned int nposts;
	struct queued *first, *last;
	unsigned int nqueued;
	size_t queued_bytes;
};

/* --- http.c --- */

/* A GET: of what follows after an event, or of all. */
void http_get(struct http *h, struct post *p);
struct post *http_post_new(struct http *h, enum post_kind kind);

/* --- http_answers.c --- */

/* Go on with one. */
void http_post_step(struct post *p, uint64_t now_us);
/* It cannot even be begun. */
void http_post_failed(struct post *p, uint64_t now_us);
