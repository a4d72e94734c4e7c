/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of HTTP and its answer, without waiting: a connection of its own, bytes out, a head, and then events or a body.
 * Everything is bounded by what it was started with.
 */
#pragma once

#include "cli/bytes.h"
#include "wire/http_answer.h"
#include "wire/sse.h"

#include <netdb.h>

struct fetch {
	int fd; /* -1: not connected */
	const struct addrinfo *at;
	bool connecting;
	struct bytes out;
	size_t sent;
	struct http_answer answer;
	bool is_stream; /* of events */
	struct sse sse;
	struct bytes body; /* of what is no stream */
	char why[128];     /* of a failure */
};

/* Where events go; what it returns but 0 ends the exchange. */
typedef int fetch_event(void *arg, struct sse_event *e);

/* max: of a body, and of one event. */
void fetch_init(struct fetch *x, size_t max);
void fetch_done(struct fetch *x);

/* Begin with what is in x->out. list lives as long as the exchange. 0, or -errno. */
int fetch_start(struct fetch *x, const struct addrinfo *list);
/* What to wait for. */
short fetch_events(const struct fetch *x);
/* Go on. 0: there is more to come. 1: the answer is whole. -errno, with x->why: there is none, or not all of it; -ECANCELED: fn
 * said so. -ECONNREFUSED and the like: nobody is there. */
int fetch_step(struct fetch *x, fetch_event *fn, void *arg);

/* Whether the head has come, and what its Content-Type is, without parameters. */
bool fetch_has_head(const struct fetch *x);
bool fetch_is_type(const struct fetch *x, const char *type);
