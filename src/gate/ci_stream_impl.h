/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the streaming route share. */
#pragma once

#include "gate/ci.h"

#include <openssl/sha.h>

enum { CARRY_MAX = 3 };

struct carry { /* the beginning of a character */
	unsigned char p[CARRY_MAX];
	size_t n;
};

struct held {
	struct held *next;
	uint64_t number;
	unsigned int stream;
	uint64_t end; /* of the connection's bytes, once it was sent; 0: not sent */
	size_t n;
	unsigned char p[];
};

struct ci_stream {
	struct gate *g;
	struct ci_stream *prev, *next;
	struct req *r; /* NULL: nobody listens */
	struct ci_run run;
	struct oneshot *o;
	uint64_t began_us;
	struct carry carry[2];
	uint64_t ack_later; /* the connection's queue is full */
	bool running;

	bool resumable;
	uint8_t key[SHA256_DIGEST_LENGTH], body[SHA256_DIGEST_LENGTH];
	struct timer timer;
	char *text; /* the request's body, into which `run` points: the request may go first */
	struct held *first, *last;
	size_t held;        /* bytes */
	uint64_t confirmed; /* frames up to this number are not held any more */
	uint64_t seen;      /* what the client says it has */
	uint64_t
		told; /* the last that this connection was sent; the first frame, STARTED, is for us */
	char *result; /* the last event without its id, when there is one */
	size_t result_len;
	uint64_t result_number, result_end;
	uint64_t moved, moved_us; /* how far the client has come with it, since when */
	bool ended;
	struct deferred deferred;
};

/* --- ci_stream.c --- */

/* What a run tells a stream. */
extern const struct oneshot_ops stream_ops;

/* Put a new one among the gate's. */
void stream_insert(struct gate *g, struct ci_stream *s);
/* Hear when the client leaves, or can take more. */
void stream_listen(struct ci_stream *s, struct req *r);
/* End it and its run. It is freed at the end of the turn. */
void stream_end(struct ci_stream *s);
/* Its client cannot be told everything: it has to come again, or the run ends. */
void stream_lose_client(struct ci_stream *s);

/* --- ci_stream_events.c --- */

void stream_begin_answer(struct ci_stream *s);
/* Send what a frame holds, as whole characters; the rest waits for the next one. */
void stream_send_output(struct ci_stream *s, uint64_t number, unsigned int stream,
			const unsigned char *p, size_t n);
/* Number is next. What lies between it and the last one is not held any more: that is said, never passed over. */
void stream_tell_gap(struct ci_stream *s, uint64_t number);
/* Send the last event. What is not resumable ends with it. */
void stream_send_result(struct ci_stream *s);

/* --- ci_stream_resume.c --- */

/* Hold output until the client has it, and send it. 0, or -1: no memory, or too much of it. */
int stream_keep(struct ci_stream *s, uint64_t number, unsigned int stream, const uint8_t *p,
		size_t n);
/* Let go of what has certainly arrived. */
void stream_confirm(struct ci_stream *s);
/* Nobody listens: for a while. */
void stream_detach(struct ci_stream *s);
/* Let a new stream outlive its connection and this gate. 0 or -errno. */
int stream_make_resumable(struct ci_stream *s);
/* Whether the run of this key is there already. 0: it is new; -1: the request was answered, or goes on with that run. */
int stream_resume_or_new(struct req *r, struct ci_stream *s, struct http_slice key);
