/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of HTTP and its answer, without waiting: a connection of its own, bytes out, a head, and then events or a body.
 * Everything is bounded by what it was started with.
 */
#pragma once

#include "base/bytes.h"
#include "base/err.h"
#include "wire/endpoint.h"
#include "wire/http_answer.h"
#include "wire/sse.h"

#include <sys/types.h>

struct fetch;

/* What is spoken over a stream instead of bytes as they are. */
struct fetch_layer {
	/* The stream is connected. 0 or -errno. */
	int (*begin)(struct fetch *x);
	/* As send(2) and recv(2); with EAGAIN x->wants says what to wait for. */
	ssize_t (*send)(struct fetch *x, const void *p, size_t n);
	ssize_t (*recv)(struct fetch *x, void *p, size_t n);
	void (*done)(struct fetch *x);
};

/* Who makes connections. Part of something larger. */
struct dialer {
	/* There is such a place, and it may be spoken to. 0, or -1. */
	int (*find)(struct dialer *d, const struct endpoint *at, struct err *e);
	/* Connect x, for the nth time from 0. 0: x->fd is a stream that is being connected, or fetch_dialed() follows. -errno:
	 * there is no way, or none any more. */
	int (*dial)(struct dialer *d, struct fetch *x, unsigned int nth);
	/* x wants none any more. NULL where fetch_dialed() is never called. */
	void (*drop)(struct dialer *d, const struct fetch *x);
	void (*done)(struct dialer *d);
	const struct fetch_layer *tls; /* NULL: https cannot be spoken */
};

struct fetch {
	int fd; /* -1: not connected */
	struct dialer *dialer;
	const struct fetch_layer *layer; /* NULL: none */
	void *layered;                   /* its own */
	const char *host;                /* whose name it is to show; as long as this lives */
	short wants;                     /* of the layer; 0: what is usual */
	unsigned int dials;
	bool dialing, connecting; /* there is no stream yet; there is, and it is not connected */
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

/* Begin with what is in x->out; secure: over d->tls, with who can show that it is this host. 0, or -errno. */
int fetch_start(struct fetch *x, struct dialer *d, const char *host, bool secure);
/* The stream that a dialer has, or -errno. x is to go on then. */
void fetch_dialed(struct fetch *x, int fd);
/* What to wait for, while there is a descriptor. */
short fetch_events(const struct fetch *x);
/* Go on. 0: there is more to come. 1: the answer is whole. -errno, with x->why: there is none, or not all of it; -ECANCELED: fn
 * said so. -ECONNREFUSED and the like: nobody is there. */
int fetch_step(struct fetch *x, fetch_event *fn, void *arg);

/* Whether the head has come, and what its Content-Type is, without parameters. */
bool fetch_has_head(const struct fetch *x);
bool fetch_is_type(const struct fetch *x, const char *type);
