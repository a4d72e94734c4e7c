/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/http1.c: heads of requests, whole and in pieces, good and bad. */
#include "wire/http1.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

#include "test_help.h"

#define TEXT(s) s, sizeof(s) - 1

/* Bytes, not a string. */
static void put(char *at, const char *p, size_t n)
{
	memcpy(at, p, n);
}

#define REQUEST "GET / HTTP/1.1\r\n"
#define OLD     "GET / HTTP/1.0\r\n"
#define HOST    "Host: a\r\n"
#define END     "\r\n"
#define WS_KEY  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define WS_V    "Sec-WebSocket-Version: 13\r\n"
#define WS_UP   "Upgrade: websocket\r\nConnection: Upgrade\r\n"

/* What a call gave. */
struct result {
	ptrdiff_t n;
	size_t at; /* how many bytes had arrived by then */
	struct http_refusal r;
};

/* As a reader of a socket does it, step bytes at a time after the first; the buffer moves as it grows. */
static struct result parse(const struct fence *f, const char *p, size_t n, size_t first,
			   size_t step, struct http_head *h)
{
	struct result got = { 0 };
	size_t scanned = 0;

	for (got.at = first;; got.at = got.at + step < n ? got.at + step : n) {
		got.n = http_head_parse((const char *)fence_copy(f, p, got.at), got.at, &scanned, h,
					&got.r);
		if (got.n != 0 || got.at == n)
			return got;
	}
}

static bool same_slice(struct http_slice a, struct http_slice b)
{
	return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

static bool same_head(const struct http_head *a, const struct http_head *b)
{
	for (unsigned int i = 0; i < a->nh && i < b->nh; i++)
		if (!same_slice(a->h[i].name, b->h[i].name) ||
		    !same_slice(a->h[i].value, b->h[i].value))
			return false;
	return same_slice(a->method, b->method) && same_slice(a->target, b->target) &&
	       same_slice(a->host, b->host) && same_slice(a->ws_key, b->ws_key) && a->nh == b->nh &&
	       a->minor == b->minor && a->framing == b->framing && a->length == b->length &&
	       a->keep_alive == b->keep_alive && a->expect_continue == b->expect_continue &&
	       a->upgrade_websocket == b->upgrade_websocket;
}

/* Whole, byte by byte, and cut once at every place: one result. *h is of the whole, and points into p. */
static struct result parse_all_ways(const char *p, size_t n, struct http_head *h)
{
	struct fence f = fence_open(n + 1);
	static struct http_head other;
	size_t scanned = 0;
	struct result whole = { .at = n }, got;

	whole.n = http_head_parse(p, n, &scanned, h, &whole.r);
	for (size_t first = 0; first <= n; first++) {
		got = parse(&f, p, n, first, first == 0 ? 1 : n, &other);
		CHECK_EQ_INT(got.n, whole.n);
		if (whole.n < 0) {
			CHECK_EQ_INT(got.r.status, whole.r.status);
			CHECK_STR(got.r.why, whole.r.why);
		} else if (whole.n > 0) {
			CHECK(same_head(h, &other));
			CHECK(first > 0 || got.at == (size_t)whole.n);
		}
	}
	fence_close(&f);
	return whole;
}

/* --- what is taken ----------------------------------------------------------------------------------------- */

static const struct {
	const char *text;
	size_t n;
	const char *method, *target, *host;
	int minor;
	unsigned int headers;
	enum http_framing framing;
	uint64_t length;
	const char *flags; /* k: keep alive, e: expects 100, w: WebSocket */
} good[] = {
	{ TEXT(REQUEST HOST END), "GET", "/", "a", 1, 1, HTTP_NO_BODY, 0, "k" },
	{ TEXT(OLD END), "GET", "/", "", 0, 0, HTTP_NO_BODY, 0, "" },
	{ TEXT(OLD HOST END), "GET", "/", "a", 0, 1, HTTP_NO_BODY, 0, "" },
	{ TEXT(END REQUEST HOST END), "GET", "/", "a", 1, 1, HTTP_NO_BODY, 0, "k" },
	{ TEXT("OPTIONS * HTTP/1.1\r\n" HOST END), "OPTIONS", "*", "a", 1, 1, HTTP_NO_BODY, 0,
	  "k" },
	{ TEXT("M-x!#$%&'*+.^_`| /~?a=%00\"<>[]{|}\\^` HTTP/1.1\r\n" HOST END), "M-x!#$%&'*+.^_`|",
	  "/~?a=%00\"<>[]{|}\\^`", "a", 1, 1, HTTP_NO_BODY, 0, "k" },

	{ TEXT("POST /x HTTP/1.1\r\nhOST:a:8080\r\nContent-length:  12\r\n" END), "POST", "/x",
	  "a:8080", 1, 2, HTTP_LENGTH, 12, "k" },
	{ TEXT(REQUEST HOST "Content-Length: 0\r\n" END), "GET", "/", "a", 1, 2, HTTP_LENGTH, 0,
	  "k" },
	{ TEXT(REQUEST HOST "Content-Length: 00000000000000000000007\r\n" END), "GET", "/", "a", 1,
	  2, HTTP_LENGTH, 7, "k" },
	{ TEXT(REQUEST HOST "Content-Length: 9223372036854775807\r\n" END), "GET", "/", "a", 1, 2,
	  HTTP_LENGTH, INT64_MAX, "k" },
	{ TEXT(REQUEST HOST "Transfer-Encoding: ChunkeD\r\n" END), "GET", "/", "a", 1, 2,
	  HTTP_CHUNKED, 0, "k" },

	{ TEXT(REQUEST HOST "Connection: close\r\n" END), "GET", "/", "a", 1, 2, HTTP_NO_BODY, 0,
	  "" },
	{ TEXT(REQUEST HOST "Connection: ,x ,\tCLOSE , y\r\n" END), "GET", "/", "a", 1, 2,
	  HTTP_NO_BODY, 0, "" },
	{ TEXT(REQUEST HOST "Connection: closed, x-close\r\nConnection:\r\n" END), "GET", "/", "a",
	  1, 3, HTTP_NO_BODY, 0, "k" },
	{ TEXT(REQUEST HOST "Connection: x\r\nConnection: close\r\n" END), "GET", "/", "a", 1, 3,
	  HTTP_NO_BODY, 0, "" },
	{ TEXT(OLD "Connection: Keep-Alive\r\n" END), "GET", "/", "", 0, 1, HTTP_NO_BODY, 0, "k" },
	{ TEXT(OLD "Connection: keep-alive, close\r\n" END), "GET", "/", "", 0, 1, HTTP_NO_BODY, 0,
	  "" },

	{ TEXT(REQUEST HOST "Expect: 100-Continue\r\nContent-Length: 1\r\n" END), "GET", "/", "a",
	  1, 3, HTTP_LENGTH, 1, "ke" },
	{ TEXT(REQUEST HOST "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n" END), "GET",
	  "/", "a", 1, 3, HTTP_CHUNKED, 0, "ke" },
	{ TEXT(REQUEST HOST "Expect: 100-continue\r\n" END), "GET", "/", "a", 1, 2, HTTP_NO_BODY, 0,
	  "k" },
	{ TEXT(REQUEST HOST "Expect: 100-continue\r\nContent-Length: 0\r\n" END), "GET", "/", "a",
	  1, 3, HTTP_LENGTH, 0, "k" },
	{ TEXT(OLD "Expect: 100-continue\r\nContent-Length: 1\r\n" END), "GET", "/", "", 0, 2,
	  HTTP_LENGTH, 1, "" },

	{ TEXT(REQUEST HOST WS_UP WS_KEY WS_V END), "GET", "/", "a", 1, 5, HTTP_NO_BODY, 0, "kw" },
	{ TEXT(REQUEST HOST WS_KEY WS_V
	       "Connection: keep-alive, uPGRADE\r\nUpgrade: x, WebSocket\r\n"
	       "Content-Length: 0\r\n" END),
	  "GET", "/", "a", 1, 6, HTTP_LENGTH, 0, "kw" },
	{ TEXT(REQUEST HOST "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n" END), "GET",
	  "/", "a", 1, 3, HTTP_NO_BODY, 0, "k" },
	{ TEXT(REQUEST HOST "Connection: upgrade\r\n" WS_KEY END), "GET", "/", "a", 1, 3,
	  HTTP_NO_BODY, 0, "k" },
	{ TEXT(REQUEST HOST "Upgrade: xwebsocket, websocket/13\r\n" END), "GET", "/", "a", 1, 2,
	  HTTP_NO_BODY, 0, "k" },

	{ TEXT(REQUEST HOST "A:\r\nB: \r\nC:\t\r\nD: d d\td\r\nE:\xff\x80\r\n" END), "GET", "/",
	  "a", 1, 6, HTTP_NO_BODY, 0, "k" },
	{ TEXT(REQUEST HOST "Cookie: a\r\nCookie: b\r\n" END), "GET", "/", "a", 1, 3, HTTP_NO_BODY,
	  0, "k" },
};

TEST(http1_reads_good_heads_whole_and_in_pieces)
{
	static struct http_head h;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct result got = parse_all_ways(good[i].text, good[i].n, &h);

		if (got.n != (ptrdiff_t)good[i].n)
			test_fail(__FILE__, __LINE__, "row %zu: %td: %s", i, got.n,
				  got.n < 0 ? got.r.why : "");
		CHECK(http_slice_is(h.method, good[i].method));
		CHECK(http_slice_is(h.target, good[i].target));
		CHECK(http_slice_is(h.host, good[i].host));
		CHECK_EQ_INT(h.minor, good[i].minor);
		CHECK_EQ_INT(h.nh, good[i].headers);
		CHECK_EQ_INT(h.framing, good[i].framing);
		CHECK_EQ_INT(h.length, good[i].length);
		CHECK_EQ_INT(h.keep_alive, strchr(good[i].flags, 'k') != NULL);
		CHECK_EQ_INT(h.expect_continue, strchr(good[i].flags, 'e') != NULL);
		CHECK_EQ_INT(h.upgrade_websocket, strchr(good[i].flags, 'w') != NULL);
		CHECK(http_slice_is(h.ws_key,
				    h.upgrade_websocket ? "dGhlIHNhbXBsZSBub25jZQ==" : ""));
	}
}

/* Two requests in one buffer: the second is not touched. */
TEST(http1_stops_at_the_end_of_a_head)
{
	static const char two[] = REQUEST HOST END "\x16\n\n";
	struct fence f = fence_open(sizeof(two));
	static struct http_head h;

	CHECK_EQ_INT(parse(&f, TEXT(two), sizeof(two) - 1, 1, &h).n, sizeof(two) - 4);
	fence_close(&f);
}

TEST(http1_headers_are_found_by_name)
{
	static const char text[] = REQUEST "HOST: a\r\nX-One:  1 \r\nx-one: 2\r\nEmpty:\r\n" END;
	struct http_refusal r;
	static struct http_head h;
	size_t scanned = 0;

	CHECK(http_head_parse(TEXT(text), &scanned, &h, &r) > 0);
	CHECK(http_slice_is(http_find(&h, "host")->value, "a"));
	CHECK(http_slice_is(http_find(&h, "x-ONE")->name, "X-One"));
	CHECK(http_slice_is(http_find(&h, "x-ONE")->value, "1"));
	CHECK(http_slice_is(http_find(&h, "empty")->value, ""));
	CHECK(http_find(&h, "x-on") == NULL && http_find(&h, "x-one:") == NULL);
	CHECK(http_find(&h, "") == NULL);
}

TEST(http1_slices_compare)
{
	struct http_slice s = { "Abc[", 4 };

	CHECK(http_slice_is(s, "Abc[") && !http_slice_is(s, "abc[") && !http_slice_is(s, "Abc"));
	CHECK(http_slice_is_nocase(s, "aBC[") && !http_slice_is_nocase(s, "aBC{"));
	CHECK(!http_slice_is_nocase(s, "aBC") && !http_slice_is_nocase(s, "aBC[["));
	CHECK(http_slice_is((struct http_slice){ "", 0 }, ""));
	CHECK(http_slice_is((struct http_slice){ NULL, 0 }, ""));
	CHECK(!http_slice_is_nocase((struct http_slice){ NULL, 0 }, "a"));
}

TEST(http1_names_that_are_alike)
{
	static const struct {
		const char *name;
		bool like;
	} names[] = {
		{ "X-Key1", true },  { "x_kEY1", true },   { "X.Key1", true },
		{ "X-Key2", false }, { "X-Key", false },   { "X-Key1-", false },
		{ "XxKey1", false }, { "_X-Key1", false }, { "X1Key1", false },
		{ "", false },
	};

	for (unsigned int i = 0; i < ARRAY_LEN(names); i++) {
		struct http_slice s = { names[i].name, strlen(names[i].name) };

		CHECK(http_name_is_like(s, "X-Key1") == names[i].like);
	}
	CHECK(http_name_is_like((struct http_slice){ NULL, 0 }, ""));
}

/* --- what is refused --------------------------------------------------------------------------------------- */

static const struct {
	const char *text;
	size_t n;
	int status;
} bad[] = {
	/* what begins like no request */
	{ TEXT("\x16\x03\x01\x02"), 400 },
	{ TEXT("\n" REQUEST HOST END), 400 },
	{ TEXT("\r\r\n" REQUEST HOST END), 400 },
	{ TEXT(END END REQUEST HOST END), 400 },
	{ TEXT(" " REQUEST HOST END), 400 },
	{ TEXT("\0" REQUEST HOST END), 400 },
	{ TEXT("SSH-2.0-OpenSSH_9.2\r\n"), 501 }, /* a very long method */
	{ TEXT("SSH-2.0-x\r\n"), 400 },

	/* the request line */
	{ TEXT("GET /\r\n" HOST END), 400 },
	{ TEXT("GET\r\n" HOST END), 400 },
	{ TEXT("GET  / HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET /  HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET / HTTP/1.1 \r\n" HOST END), 400 },
	{ TEXT("GET\t/ HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET /\tHTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET /a b HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET /\r HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET /\0 HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET /\x7f HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET /\xc3\xa9 HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET /#a HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET http://a/ HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET a HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET ?a HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("GET * HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("OPTIONS ** HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("CONNECT a:80 HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("CONNECT /a HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("G\"T / HTTP/1.1\r\n" HOST END), 400 },
	{ TEXT("ABCDEFGHIJKLMNOPQ / HTTP/1.1\r\n" HOST END), 501 },

	/* versions */
	{ TEXT("GET / HTTP/1.2\r\n" HOST END), 505 },
	{ TEXT("GET / HTTP/0.9\r\n" HOST END), 505 },
	{ TEXT("GET / HTTP/2.0\r\n" HOST END), 505 },
	{ TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505 },
	{ TEXT("GET / HTTP/1.10\r\n" HOST END), 400 },
	{ TEXT("GET / HTTP/11\r\n" HOST END), 400 },
	{ TEXT("GET / http/1.1\r\n" HOST END), 400 },
	{ TEXT("GET / HTTP/1,1\r\n" HOST END), 400 },
	{ TEXT("GET / HTTP/a.1\r\n" HOST END), 400 },
	{ TEXT("GET / \r\n" HOST END), 400 },
	{ TEXT("GET / ICY/1.1\r\n" HOST END), 400 },

	/* line ends */
	{ TEXT("GET / HTTP/1.1\n" HOST END), 400 },
	{ TEXT(REQUEST "Host: a\n\r\n"), 400 },
	{ TEXT(REQUEST HOST "\n"), 400 },
	{ TEXT(REQUEST HOST "A: b\n\nC: d\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A: b\rC: d\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A: b\r\r\n" END), 400 },
	{ TEXT(REQUEST HOST "\r\r\n\r\n"), 400 },

	/* header lines */
	{ TEXT(REQUEST HOST "A: b\r\n c\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A: b\r\n\tc\r\n" END), 400 },
	{ TEXT(REQUEST " " HOST END), 400 },
	{ TEXT(REQUEST HOST "A : b\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A\t: b\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A b: c\r\n" END), 400 },
	{ TEXT(REQUEST HOST ": b\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A(: b\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A\xc3\xa9: b\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A\0: b\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A: b\0\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A: b\x01\r\n" END), 400 },
	{ TEXT(REQUEST HOST "A: 12345678\x7f"
			    "901234567\r\n" END),
	  400 },
	{ TEXT(REQUEST HOST "A: 12345678\x1b"
			    "901234567\r\n" END),
	  400 },

	/* Host */
	{ TEXT(REQUEST END), 400 },
	{ TEXT(REQUEST "Hos: a\r\n" END), 400 },
	{ TEXT(REQUEST HOST HOST END), 400 },
	{ TEXT(OLD HOST "host: b\r\n" END), 400 },

	/* lengths */
	{ TEXT(REQUEST HOST "Content-Length: 1\r\nContent-Length: 1\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: 1\r\ncontent-length: 2\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: 1, 1\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: +1\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: -1\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: 0x1\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: 1 1\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: 1 \r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length:\t1\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: chunked\t\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: \tchunked\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: \r\n" END), 501 },
	{ TEXT(REQUEST HOST "Content-Length: 1.0\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length:\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: 9223372036854775808\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: 18446744073709551617\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: 99999999999999999999999\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n" END),
	  400 },
	{ TEXT(OLD "Transfer-Encoding: chunked\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: xchunked\r\n" END), 501 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: chunked, chunked\r\n" END), 501 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: gzip, chunked\r\n" END), 501 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: identity\r\n" END), 501 },
	{ TEXT(REQUEST HOST "Transfer-Encoding: chunked;q=1\r\n" END), 501 },
	{ TEXT(REQUEST HOST "Transfer-Encoding:\r\n" END), 501 },

	/* others that must not come twice */
	{ TEXT(REQUEST HOST "Authorization: a\r\nAuthorization: a\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Content-Type: a\r\nContent-Type: a\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Origin: a\r\nORIGIN: a\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Expect: 100-continue\r\nExpect: 100-continue\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Upgrade: a\r\nUpgrade: a\r\n" END), 400 },
	{ TEXT(REQUEST HOST WS_KEY WS_KEY END), 400 },
	{ TEXT(REQUEST HOST WS_V WS_V END), 400 },
	{ TEXT(REQUEST HOST "Idempotency-Key: a\r\nIdempotency-key: a\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Last-Event-ID: a\r\nLast-Event-Id: a\r\n" END), 400 },
	{ TEXT(REQUEST HOST "traceparent: a\r\nTraceparent: a\r\n" END), 400 },

	/* expectations, connections */
	{ TEXT(REQUEST HOST "Expect: 200-ok\r\n" END), 417 },
	{ TEXT(REQUEST HOST "Expect:\r\n" END), 417 },
	{ TEXT(REQUEST HOST "Expect: 100-continue, x\r\n" END), 417 },
	{ TEXT(REQUEST HOST "Connection: a b\r\n" END), 400 },
	{ TEXT(REQUEST HOST "Connection: close;\r\n" END), 400 },

	/* WebSockets */
	{ TEXT("POST / HTTP/1.1\r\n" HOST WS_UP WS_KEY WS_V END), 400 },
	{ TEXT(OLD HOST WS_UP WS_KEY WS_V END), 400 },
	{ TEXT(REQUEST HOST "Upgrade: websocket\r\n" WS_KEY WS_V END), 400 },
	{ TEXT(REQUEST HOST "Upgrade: websocket\r\nConnection: close\r\n" WS_KEY WS_V END), 400 },
	{ TEXT(REQUEST HOST WS_UP WS_KEY END), 400 },
	{ TEXT(REQUEST HOST WS_UP WS_KEY "Sec-WebSocket-Version: 8\r\n" END), 426 },
	{ TEXT(REQUEST HOST WS_UP WS_KEY "Sec-WebSocket-Version: 13, 8\r\n" END), 426 },
	{ TEXT(REQUEST HOST WS_UP WS_V END), 400 },
	{ TEXT(REQUEST HOST WS_UP WS_V "Sec-WebSocket-Key:\r\n" END), 400 },
	{ TEXT(REQUEST HOST WS_UP WS_V "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n" END), 400 },
	{ TEXT(REQUEST HOST WS_UP WS_V "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSE=\r\n" END),
	  400 },
	{ TEXT(REQUEST HOST WS_UP WS_V "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ!=\r\n" END),
	  400 },
	{ TEXT(REQUEST HOST WS_UP WS_KEY WS_V "Content-Length: 1\r\n" END), 400 },
	{ TEXT(REQUEST HOST WS_UP WS_KEY WS_V "Transfer-Encoding: chunked\r\n" END), 400 },
};

TEST(http1_refuses_bad_heads_whole_and_in_pieces)
{
	static struct http_head h;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct result got = parse_all_ways(bad[i].text, bad[i].n, &h);

		if (got.n != -1 || got.r.status != bad[i].status)
			test_fail(__FILE__, __LINE__, "row %zu: %td, %d, not %d", i, got.n,
				  got.n < 0 ? got.r.status : 0, bad[i].status);
		CHECK(got.r.why != NULL && got.r.why[0] != '\0');
	}
}

/* Refused with these bytes already, and not one byte earlier. */
TEST(http1_refuses_early)
{
	static const struct {
		const char *text;
		size_t n;
		int status;
	} early[] = {
		{ TEXT("\x16"), 400 },
		{ TEXT("\x80"), 400 },
		{ TEXT("\n"), 400 },
		{ TEXT(" "), 400 },
		{ TEXT("\r\r"), 400 },
		{ TEXT("\r\n\r"), 400 },
		{ TEXT("GET\t"), 400 },
		{ TEXT("GET\r"), 400 },
		{ TEXT("ABCDEFGHIJKLMNOPQ"), 501 },
		{ TEXT("GET /\n"), 400 },
		{ TEXT("GET /\r\n"), 400 },
		{ TEXT("GET / HTTP/2.0\r\n"), 505 },
		{ TEXT(END "GET / HTTP/2.0\r\n"), 505 },
		{ TEXT("GET x HTTP/1.1\r\n"), 400 },
		{ TEXT(REQUEST "A: b\n"), 400 },
	};
	struct fence f = fence_open(100);
	static struct http_head h;

	for (size_t i = 0; i < ARRAY_LEN(early); i++) {
		struct result got = parse(&f, early[i].text, early[i].n, 0, 1, &h);

		CHECK_EQ_INT(got.n, -1);
		CHECK_EQ_INT(got.at, early[i].n);
		CHECK_EQ_INT(got.r.status, early[i].status);
	}
	fence_close(&f);
}

TEST(http1_host_is_host_and_port)
{
	static const char *const hosts[] = {
		"a",
		"a.b-c.example",
		"127.0.0.1:1",
		"a:65535",
		"[::1]",
		"[::1]:443",
		"A_b~1",
		"%2Frun%2fx",
		"a:00080",
		"1",
		"[::ffff:1.2.3.4]",
		"-.-",
	};
	static const char *const no_hosts[] = {
		"",
		":80",
		"a:",
		"a:65536",
		"a:123456",
		"a:8o",
		"a:+1",
		"a b",
		"a,b",
		"a/",
		"a/b",
		"a?b",
		"a#b",
		"u@a",
		"a:1:2",
		"[::1",
		"::1",
		"[]",
		"[:]x",
		"[::1]x",
		"[::1]80",
		"[::1]:",
		"[fe80::1%25eth0]",
		"[v1.a]",
		"a%",
		"a%2",
		"a%2g",
		"a\\b",
		"a\"",
		"caf\xc3\xa9",
		"a;b",
		"a=b",
		"(a)",
		"*",
		"a\tb",
		"a:1,",
		"[::1]]",
		"%%41",
	};
	static struct http_head h;
	struct http_refusal r;
	char text[200];

	for (size_t i = 0; i < ARRAY_LEN(hosts) + ARRAY_LEN(no_hosts); i++) {
		bool is_host = i < ARRAY_LEN(hosts);
		const char *host = is_host ? hosts[i] : no_hosts[i - ARRAY_LEN(hosts)];

		for (int minor = 0; minor < 2; minor++) {
			int n = snprintf(text, sizeof(text), "GET / HTTP/1.%d\r\nHost: %s\r\n\r\n",
					 minor, host);
			size_t scanned = 0;
			ptrdiff_t got = http_head_parse(text, (size_t)n, &scanned, &h, &r);

			if (got != (is_host ? n : -1))
				test_fail(__FILE__, __LINE__, "host '%s': %td", host, got);
			CHECK(is_host ? http_slice_is(h.host, host) : r.status == 400);
		}
	}
}

/* Every byte at every kind of place, by rules written a second time. */
TEST(http1_characters_where_they_may_be)
{
	static const char text[] = "GxT /x HTTP/1.1\r\nHost: a\r\nAxx: 12345678xabcdefgh\r\n\r\n";
	const size_t method = 1, target = 5, name = 27, value = 39;
	static struct http_head h;
	struct http_refusal r;

	CHECK(text[method] == 'x' && text[target] == 'x' && text[name] == 'x' &&
	      text[value] == 'x');
	for (unsigned int c = 0; c < 256; c++) {
		bool letter =
			(c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
		bool token = letter || (c != 0 && strchr("!#$%&'*+-.^_`|~", (int)c) != NULL);
		const struct {
			size_t at;
			bool good;
		} places[] = {
			{ method, token },
			{ target, c > 0x20 && c < 0x7f && c != '#' },
			{ name, token || c == ':' },
			{ value, c == '\t' || (c >= 0x20 && c != 0x7f) },
		};

		for (size_t i = 0; i < ARRAY_LEN(places); i++) {
			char changed[sizeof(text)];
			size_t scanned = 0;
			ptrdiff_t got;

			memcpy(changed, text, sizeof(text));
			changed[places[i].at] = (char)c;
			got = http_head_parse(changed, sizeof(text) - 1, &scanned, &h, &r);
			if (got != (places[i].good ? (ptrdiff_t)sizeof(text) - 1 : -1) ||
			    (got < 0 && r.status != 400))
				test_fail(__FILE__, __LINE__, "byte %#x at %zu: %td", c,
					  places[i].at, got);
		}
	}
	CHECK(true);
}

/* --- bounds -------------------------------------------------------------------------------------------------- */

static int parse_status(const char *p, size_t n, size_t step)
{
	static struct http_head h;
	struct http_refusal r = { 0 };
	size_t scanned = 0;

	for (size_t at = step < n ? step : n;; at = at + step < n ? at + step : n) {
		ptrdiff_t got = http_head_parse(p, at, &scanned, &h, &r);

		if (got < 0)
			return r.status;
		if (got > 0)
			return 200;
		if (at == n)
			return 0;
	}
}

static void check_status(const char *p, size_t n, int want)
{
	static const size_t steps[] = { 1, 2, 1000, SIZE_MAX / 2 };

	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		CHECK_EQ_INT(parse_status(p, n, steps[i]), want);
}

TEST(http1_targets_have_a_longest)
{
	static char text[3 * HTTP_TARGET_MAX];
	static const char tail[] = " HTTP/1.1\r\n" HOST END;

	for (size_t extra = 0; extra < 3; extra++) {
		size_t n = 4;

		put(text, TEXT("GET "));
		memset(text + n, '/', HTTP_TARGET_MAX + extra);
		n += HTTP_TARGET_MAX + extra;
		put(text + n, TEXT(tail));
		check_status(text, n + sizeof(tail) - 1, extra == 0 ? 200 : 414);
	}
	memset(text, '/', sizeof(text));
	put(text, TEXT("GET "));
	check_status(text, sizeof(text), 414);
	text[sizeof(text) - 1] = '\n'; /* a second thing that is wrong, too late */
	check_status(text, sizeof(text), 414);
}

TEST(http1_heads_have_a_longest)
{
	static char text[HTTP_HEAD_MAX + 100];
	static const char start[] = REQUEST HOST "A: ";

	for (size_t extra = 0; extra < 3; extra++) {
		size_t n = HTTP_HEAD_MAX + extra;

		memset(text, 'x', sizeof(text));
		put(text, TEXT(start));
		put(text + n - 4, TEXT("\r\n\r\n"));
		check_status(text, n, extra == 0 ? 200 : 431);
		check_status(text, n - 1, extra == 0 ? 0 : 431);
	}
	memset(text, 'x', sizeof(text));
	put(text, TEXT(start));
	check_status(text, HTTP_HEAD_MAX - 1, 0);
	check_status(text, HTTP_HEAD_MAX, 431);
	check_status(text, sizeof(text), 431);
	text[HTTP_HEAD_MAX + 3] = '\n';
	check_status(text, sizeof(text), 431);
	text[HTTP_HEAD_MAX - 3] = '\n';
	check_status(text, sizeof(text), 400);
}

TEST(http1_headers_have_a_largest_number)
{
	static char text[HTTP_HEAD_MAX];

	for (unsigned int extra = 0; extra < 2; extra++) {
		size_t n = 0;

		n += (size_t)snprintf(text, sizeof(text), REQUEST HOST);
		for (unsigned int i = 1; i < HTTP_HEADERS_MAX + extra; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "a%u:\r\n", i);
		n += (size_t)snprintf(text + n, sizeof(text) - n, END);
		check_status(text, n, extra == 0 ? 200 : 431);
	}
}
