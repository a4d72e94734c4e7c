/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 answers as servers send them, for our own clients: the head, and the body in whatever framing.
 *
 * As strict as http1.h. Invariants: (1) nothing is allocated, a head is at most HTTP_HEAD_MAX bytes; (2) pieces give the
 * same as the whole; (3) who was refused stays refused.
 */
#pragma once

#include "wire/http1.h"

enum http_answer_body {
	HTTP_ANSWER_NONE,
	HTTP_ANSWER_LENGTH,
	HTTP_ANSWER_CHUNKED,
	HTTP_ANSWER_TO_END, /* of the connection */
};

struct http_answer {
	int status; /* 0 until the head is whole */
	enum http_answer_body framing;
	uint64_t length;
	bool keep_alive; /* another request may follow on this connection */
	struct http_header h[HTTP_HEADERS_MAX];
	unsigned int nh;
	/* How far it is. */
	char head[HTTP_HEAD_MAX]; /* headers point into it: do not copy the struct */
	size_t nhead;
	uint64_t left;
	struct http_chunks chunks;
	unsigned int interim; /* answers that came before it */
	int interim_status;   /* of the last of them */
	bool done, refused;
};

void http_answer_init(struct http_answer *a);

/* Take bytes from the front of p. Returns how many were consumed, at least 1 until the end, and sets *data to a run of
 * body bytes inside p (n may be 0); a->done says when it is whole: what follows belongs to somebody else. -1: refused,
 * *why says for what. Interim answers (1xx) are passed over, some of them; 101 is an answer without a body. */
ptrdiff_t http_answer_feed(struct http_answer *a, const char *p, size_t n, struct http_slice *data,
			   const char **why);

/* The connection has ended. Whether the answer is whole. */
bool http_answer_end(struct http_answer *a);

/* The value of a header, in any case; n is 0 where there is none. The first where there are several. */
struct http_slice http_answer_get(const struct http_answer *a, const char *name);
