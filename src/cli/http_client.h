/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a server: one at a time on a connection that is kept, and answers that are streams of events on connections
 * of their own. Everything is bounded: heads, bodies, events, and time.
 *
 * What the server says is not trusted: it is read by src/wire, and shown to people by say().
 */
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "cli/url.h"
#include "wire/http_answer.h"
#include "wire/jsonr.h"
#include "wire/sse.h"

enum {
	CALL_TIMEOUT_MS = 60000, /* from the last byte that came or went */
	CONNECT_TIMEOUT_MS = 10000,
	REPLY_MAX = 64 * 1024 * 1024,
	EVENT_MAX = 128 * 1024 * 1024,
};

struct client {
	struct url url;
	char token[URL_TOKEN];
	int fd;           /* the connection that is kept; -1: none */
	uint64_t used_us; /* when it was used last */
	/* How the last call went. */
	int status;  /* 0: there was no answer */
	bool unsure; /* there was none, and the request may have been done all the same */
};

enum call_flag {
	CALL_INT = 1u << 0, /* SIGINT ends the waiting, and what is to be passed on; otherwise only
				* signals that end us */
	CALL_NO_INT = 1u << 1, /* no signal does: for what has to be done on the way out */
	CALL_LATE = 1u << 2, /* as CALL_INT, but only where nothing has come for a while: an answer
				* that is on its way is needed to act on the signal */
	CALL_TEXT = 1u << 3, /* the body of the answer is left as it is: there is no document */
};

struct call {
	const char *method, *path;
	const struct json *body; /* NULL: none */
	const char *key;         /* Idempotency-Key; NULL: none */
	uint64_t after;          /* Last-Event-ID; 0: none */
	unsigned int timeout_ms; /* 0: CALL_TIMEOUT_MS */
	unsigned int flags;
};

/* An answer, whatever its status. */
struct reply {
	int status;
	unsigned int retry_after_s;
	struct bytes body;
	struct jsonr doc; /* empty where it is no JSON; spoils the body */
};

void client_init(struct client *c, const struct url *url, const char *token);
void client_done(struct client *c);

/* 0: there is an answer, to be released by reply_free(). -1: none; e->sys is EINTR after a signal, ETIMEDOUT, ECONNREFUSED,
 * ENOENT (no such socket), or what else was wrong. A request that may have been done is not sent twice, unless it does
 * no harm: GET, DELETE, PATCH, and what has a key. */
int client_call(struct client *c, const struct call *q, struct reply *r, struct err *e);
void reply_free(struct reply *r);
/* The document, NULL: none. */
const struct jsonr_node *reply_root(const struct reply *r);

/* NULs in strings, which the reader refuses, become U+FFFD, where they stand. */
void client_no_nul(char *json, size_t n);

/* What an answer that is a refusal says, as an error. Returns -1. */
int reply_refused(const struct reply *r, struct err *e);
/* Its error.code; "" where there is none. */
const char *reply_code(const struct reply *r);

/* Make room for the words of an error that has them. Values of members, never NULL and -1 for a number that is none. */
const char *node_str(const struct jsonr *d, const struct jsonr_node *object, const char *key);
int64_t node_int(const struct jsonr *d, const struct jsonr_node *object, const char *key,
		 int64_t otherwise);
bool node_bool(const struct jsonr *d, const struct jsonr_node *object, const char *key);

/* --- streams of events ---------------------------------------------------------------------------- */

struct stream {
	int fd; /* -1: closed */
	struct http_answer answer;
	struct sse sse;
	struct bytes early; /* what came with the head */
	uint64_t heard_us;  /* when something came last */
};

void stream_init(struct stream *s);
void stream_close(struct stream *s);

/* 0: events follow. 1: another answer, in *r. -1: none. *r is to be released in both cases. */
int stream_open(struct client *c, const struct call *q, struct stream *s, struct reply *r,
		struct err *e);
/* Whether there are events without waiting for the descriptor. */
bool stream_has_early(const struct stream *s);
/* Take what is there. 1: goes on. 0: the stream has ended properly. -errno: lost. What fn returns but 0 ends it, as in
 * sse_feed(). */
int stream_step(struct stream *s, int (*fn)(void *arg, struct sse_event *e), void *arg);

/* --- pieces, also for WebSockets ------------------------------------------------------------------ */

/* A new connection; -1 with e set. */
int client_connect(const struct client *c, unsigned int flags, struct err *e);
/* Wait until a descriptor is ready. 0, -ETIMEDOUT, -EINTR. flags: enum call_flag. */
int client_wait(int fd, short events, uint64_t deadline_us, unsigned int flags);
int client_send(int fd, const void *p, size_t n, unsigned int timeout_ms, unsigned int flags);
/* Request line and headers that all requests have, without the empty line at the end. */
void client_head(const struct client *c, struct bytes *b, const char *method, const char *path);
