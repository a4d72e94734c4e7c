/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request and its answer, as a handler sees them.
 *
 * A handler is called once, with the body complete (BODY_WHOLE), or with the body still to come
 * (BODY_STREAM: it sets take_body). It answers at once or later; req_end(), or req_reply() which
 * includes it, is the last thing that it does with the request. When the client goes away first,
 * gone() is called instead and is the last thing: the handler lets its work go.
 */
#pragma once

#include "base/json.h"
#include "wire/http1.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gate;
struct conn;
struct req;
struct fields;
struct tenant;

enum body_mode { BODY_NONE, BODY_WHOLE, BODY_STREAM };

/* How a refusal looks: each dialect has its own. */
enum shape { SHAPE_OWN, SHAPE_DETAIL, SHAPE_REASON, SHAPE_SANDBOX, SHAPE_MAX };

enum route_flags {
	ROUTE_OPEN = 1u << 0,       /* needs neither token nor a matching Host */
	ROUTE_QUIET = 1u << 1,      /* logged at debug level only */
	ROUTE_HIDDEN = 1u << 2,     /* not part of the API's description */
	ROUTE_IDEMPOTENT = 1u << 4, /* looks at Idempotency-Key */
	ROUTE_RUN = 1u << 5, /* a run, which is answered with events or at once (202) if asked to */
	ROUTE_WS = 1u << 3,  /* a WebSocket: anything but an upgrade is refused; ?token= is taken */
	ROUTE_IN_BOX =
		1u
		<< 7, /* of a dialect: {box_id} is the first parameter, and the rest is about that box */
	ROUTE_TOKEN = 1u << 6, /* ?token= is taken here, too */
	ROUTE_BOXED =
		1u
		<< 8, /* a program of a box answers, whose pages have no origin: they may ask for more of it */

	ROUTE_ANY_QUERY = 1u << 9, /* its query is not ours to read */

	ROUTE_REPEATED = 1u << 15, /* a parameter of the query may be there more than once */

	/* Where it exists; none of these: on the server's own listeners. */
	ROUTE_MAIN = 1u << 16,
	ROUTE_EXECUTOR = 1u << 17,  /* on executor ports of boxes, see ports.h */
	ROUTE_RESOURCE = 1u << 18,  /* on their resource ports */
	ROUTE_TOOLS = 1u << 19,     /* on their sockets for calls of tools */
	ROUTE_PUBLISHED = 1u << 20, /* on ports that are for a program of a box, see published.h */
	ROUTE_PLACES = ROUTE_MAIN | ROUTE_EXECUTOR | ROUTE_RESOURCE | ROUTE_TOOLS | ROUTE_PUBLISHED,
};

struct route {
	const char *method; /* "*": any */
	const char *path;   /* "/v1/files/{file_id}" */
	enum shape shape;
	enum body_mode body;
	uint64_t body_max;
	unsigned int flags;
	void (*run)(struct req *r);
	const struct fields *in; /* of a JSON body; NULL: none */
	int status;              /* of success; from 400 on: it is refused always */
	const char *answer;      /* name of what is answered, see openapi.h */
	const char *doc;
};

struct run;

/* A request that did not come as one of HTTP: where its answer goes. */
struct req_via {
	void (*reply)(struct req *r, int status, const void *body, size_t n);
	/* Its answer is the events of a run, from behind `after`. */
	void (*follow)(struct req *r, struct run *run, uint64_t after, void (*left)(void *arg),
		       void *arg);
};

enum { REQ_PARAMS = 4, REQ_ID = 27, REQ_TRACE = 33 };

struct req {
	struct gate *g;
	struct conn *conn;
	const struct route *route;
	const struct tenant *tenant;
	struct http_head head;
	struct http_target target;
	struct http_slice param[REQ_PARAMS]; /* what stood for {…} in the path */
	char id[REQ_ID];
	char trace[REQ_TRACE]; /* trace id of the caller, or "" */
	uint64_t began_us;

	char *body; /* BODY_WHOLE; NUL-terminated */
	size_t body_len, body_cap;

	const struct req_via *via; /* NULL: HTTP */
	uint64_t via_after;        /* the last event that its client has */

	/* Set by the handler. */
	void *work;
	void (*gone)(struct req *r);
	void (*drained)(struct req *r); /* less than REQ_LOW bytes wait to be sent */
	void (*stop)(
		struct req *r); /* the server stops: come to an end (what has none by itself) */
	/* BODY_STREAM: take from p; how many bytes were taken, or -1 after an answer was given. Fewer than n
	 * stops reading until req_body_more(). */
	ptrdiff_t (*take_body)(struct req *r, const char *p, size_t n);
	void (*body_end)(struct req *r);

	/* The answer. */
	int status;
	bool begun, chunked, head_only, close;
	int64_t length;      /* announced; -1: not known */
	uint64_t body_bytes; /* so far */
	char *extra;         /* further header lines */
	size_t extra_len;
};

enum { REQ_LOW = 128 * 1024, REQ_HIGH = 1024 * 1024 };

/* A header line of the answer, before it begins. The value must not hold line breaks. */
void req_header(struct req *r, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Begin an answer of `length` bytes, or of unknown length (-1). */
void req_begin(struct req *r, int status, const char *type, int64_t length);
/* Queue bytes of the body. -1: there is no memory for them, and the connection is being closed; the handler
 * goes on as usual and hears of it by gone(), never before this returns. */
int req_write(struct req *r, const void *p, size_t n);
/* A head alone goes out with what follows it. This is for who does not know when that will be. */
void req_flush(struct req *r);
/* How many bytes wait to be sent; a producer stops at REQ_HIGH and waits for drained(). */
size_t req_queued(const struct req *r);
/* Bytes of the answer (its head included) that have left this process, and those that reached the other
 * side for certain. */
uint64_t req_sent(const struct req *r);
uint64_t req_confirmed(const struct req *r);
void req_end(struct req *r);
/* The answer cannot be completed: the connection is cut, so that nobody takes it for whole. */
void req_abort(struct req *r);

/* A whole answer. */
void req_reply(struct req *r, int status, const char *type, const void *body, size_t n);
/* The same with what was written into j, which is released. */
void req_json(struct req *r, int status, struct json *j);

/* Refuse in the shape of the route. code and field are for our own shape; field may be NULL. */
void req_refuse(struct req *r, int status, const char *code, const char *field, const char *fmt,
		...) __attribute__((format(printf, 5, 6)));

/* The same with a value of any length. */
void req_header_slice(struct req *r, const char *name, struct http_slice value);

/* Switch to the WebSocket protocol: from here on take_body() gets every byte that comes; req_write()
 * sends bytes as they are. req_end() closes. */
void req_upgrade(struct req *r, const char *accept, const char *protocol);

/* Nothing of the body is read for now: whoever takes it is not there yet. */
void req_body_wait(struct req *r);
/* Room for more of the body. */
void req_body_more(struct req *r);

/* What a status is called. */
const char *req_reason(int status);

/* The text of a header, or an empty slice. */
struct http_slice req_get(const struct req *r, const char *name);
/* A value of the query, or an empty slice. */
struct http_slice req_query(const struct req *r, const char *key);
