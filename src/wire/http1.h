/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 requests as clients send them: the head, chunked bodies, the target.
 *
 * Strict where leniency lets two readers of one stream disagree: line ends, white space, lengths,
 * repeated headers. What is not certainly a request is refused, and the refusal says how to
 * answer; the connection ends after that answer, because nobody knows where the next request would
 * begin.
 *
 * Invariants: (1) nothing is allocated, everything is bounded; (2) results point into the bytes
 * that were given, or into the caller's struct; (3) bytes in pieces give the same result as the
 * whole, refusals included; (4) results are meaningful only after success.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HTTP_HEAD_MAX = 32768,
	HTTP_HEADERS_MAX = 100,
	HTTP_TARGET_MAX = 8192,
	HTTP_METHOD_MAX = 16,
	HTTP_SEGMENTS_MAX = 32,
	HTTP_QUERY_MAX = 32,
};

struct http_slice {
	const char *p; /* where a reader found nothing: a place in its input, with n 0 */
	size_t n;
};

struct http_header {
	struct http_slice name, value; /* value without white space around it */
};

/* How to answer what was refused. */
struct http_refusal {
	int status;
	const char *why; /* static text, lower case, for people */
};

/* --- the head ------------------------------------------------------------------------------- */

enum http_framing { HTTP_NO_BODY, HTTP_LENGTH, HTTP_CHUNKED };

struct http_head {
	struct http_slice method, target; /* target: "/..." in VCHARs, or "*" for OPTIONS */
	struct http_slice host;           /* host[:port]; n is 0 where HTTP/1.0 sent none */
	int minor;                        /* HTTP/1.minor: 0 or 1 */
	struct http_header h[HTTP_HEADERS_MAX];
	unsigned int nh;
	enum http_framing framing;
	uint64_t length; /* of the body, for HTTP_LENGTH; may be 0 */
	bool keep_alive;
	bool expect_continue;     /* the client waits for a 100 before it sends its body */
	bool upgrade_websocket;   /* a whole and valid request for one, version 13 */
	struct http_slice ws_key; /* then: Sec-WebSocket-Key */
};

/* Look for a whole head at the front of buf. *scanned, 0 for a new head, remembers how far the
 * search for its end got: give it back with the same bytes and more, so that a slow sender costs
 * linear time. >0: bytes of the head, *h points into buf. 0: more bytes are needed. -1: refused,
 * see *r. Bytes that cannot begin a request, line ends that are none and a bad request line are
 * refused as they arrive, headers when the head is whole. */
ptrdiff_t http_head_parse(const char *buf, size_t len, size_t *scanned, struct http_head *h,
			  struct http_refusal *r);

/* The header of that name in any case, or NULL; the first where there are several. There is at
 * most one Host, Content-Length, Transfer-Encoding, Authorization, Content-Type, Origin, Expect,
 * Upgrade, Sec-WebSocket-Key, Sec-WebSocket-Version, Idempotency-Key, Last-Event-ID and
 * traceparent. */
const struct http_header *http_find(const struct http_head *h, const char *name);

/* --- chunked bodies ------------------------------------------------------------------------- */

struct http_chunks {
	uint64_t left; /* of the size line: its value; of the data: bytes to come */
	unsigned char state, digits;
};

void http_chunks_init(struct http_chunks *c);

/* Take bytes from the front of p. Returns how many were consumed, at least 1 of what is given
 * until the end, and sets *data to a run of body bytes inside p (n may be 0); *end is true once
 * the last chunk was read whole: what follows belongs to the next request. Call again with the
 * rest. -1: refused, now and ever after. Extensions and trailers are refused; a size has at most
 * 16 digits and is at most 2^62; the sum of sizes is for the caller to bound. */
ptrdiff_t http_chunks_feed(struct http_chunks *c, const char *p, size_t n, struct http_slice *data,
			   bool *end, struct http_refusal *r);

/* --- targets -------------------------------------------------------------------------------- */

/* Every slice but `path` is valid UTF-8 without control characters, decoded once, and followed by a NUL. */
struct http_target {
	struct http_slice path; /* as it came, without its first slash: part of the caller's text */
	struct http_slice seg[HTTP_SEGMENTS_MAX]; /* an encoded slash is a character like others */
	unsigned int nseg;
	struct http_refusal
		bad,       /* of http_target_parse_open(): the segment behind; status 0: none */
		bad_query; /* the parameter behind; status 0: none */
	struct {
		struct http_slice key, value;
	} query[HTTP_QUERY_MAX];
	unsigned int nquery;
	bool repeated;                 /* of http_target_parse_open(): a parameter is there twice */
	char buf[HTTP_TARGET_MAX + 1]; /* the slices point into it: do not copy the struct */
};

/* Take a target apart. 0, or -1: refused. "/" has no segment, and "*" is taken for it; a slash at
 * the end makes an empty last segment; any other empty one is refused, as are "." and "..".
 * Parameters have names, each another; one without '=' has an empty value; '+' is a space there. */
int http_target_parse(struct http_slice target, struct http_target *t, struct http_refusal *r);

/* The same for who wants the first segments, and reads the rest in another way: a segment that is refused ends the
 * list of segments, and t->bad says why; so does a parameter, and t->bad_query. One may be there more than once, and t->repeated says so. */
int http_target_parse_open(struct http_slice target, struct http_target *t, struct http_refusal *r);

/* Say that of a parameter that is there twice. -1. */
int http_refuse_repeated(struct http_refusal *r);

/* What follows the first n segments and a slash, as it came; p is NULL where no slash follows. */
struct http_slice http_target_rest(const struct http_target *t, unsigned int n);

/* Decode a rest, once: any bytes but NUL, and an encoded slash is a slash. Its length without the NUL behind it, or -1:
 * refused. */
ptrdiff_t http_path_decode(struct http_slice from, char *to, size_t size, struct http_refusal *r);

/* The value of a parameter, or NULL. */
const struct http_slice *http_query(const struct http_target *t, const char *key);

/* --- pieces, also for other readers --------------------------------------------------------- */

bool http_slice_is(struct http_slice s, const char *text);        /* exactly */
bool http_slice_is_nocase(struct http_slice s, const char *text); /* ASCII letters in any case */

/* Whether a name of a header is this one to a server that has its headers as variables: "X_Key" is "X-Key" there. */
bool http_name_is_like(struct http_slice name, const char *header);

/* One or more characters of RFC 9110's token. */
bool http_is_token(struct http_slice s);

/* Valid UTF-8 without control characters; empty is fine. */
bool http_is_text(struct http_slice s);

/* What a hexadecimal digit is worth, -1 for other characters. */
int http_hex(char c);

/* One header line, without its line end. 0, or -1: refused. */
int http_header_parse(struct http_slice line, struct http_header *ret, struct http_refusal *r);

/* Fill *r; -1. */
static inline int http_refuse(struct http_refusal *r, int status, const char *why)
{
	r->status = status;
	r->why = why;
	return -1;
}
