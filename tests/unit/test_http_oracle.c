/* SPDX-License-Identifier: Apache-2.0 */
/*
 * src/wire/http1.c and http_chunks.c against a reader that others wrote: http-parser, which Node.js used for ten years.
 * Many small mutations of good requests; what we take, it must take too, and read the same.
 *
 * The claim goes one way. What http-parser 2.9.4 takes and we refuse, all of it on purpose:
 *   - bare LF as line end; folded headers; white space before a colon
 *   - bytes beyond ASCII and '#' in targets
 *   - any number of empty lines before a request; more than one space in the request line
 *   - targets that are no path ("http://a/", "a:80" for CONNECT), and "*" for other methods than OPTIONS
 *   - HTTP/0.9, HTTP/1.2, HTTP/2.0
 *   - HTTP/1.1 without Host; a Host that is none; Host, Authorization and the others of http_find() twice
 *   - Transfer-Encoding that is not just "chunked", or in HTTP/1.0; white space behind it or a Content-Length. With a tab
 *     behind "chunked", http-parser does not see that a body follows: the same bytes, two requests
 *   - chunk extensions; trailers; chunk sizes of more than 16 digits; LF alone behind a chunk
 *   - expectations other than 100-continue; "Connection" that is no list of tokens
 *   - requests for a WebSocket that are incomplete, or have a body
 *   - heads over 32 KiB, targets over 8 KiB, more than 100 headers
 * It is the stricter one about methods: it knows 34. HTTP/1.0 with "Connection: keep-alive, close" stays open for it,
 * not for us; it takes Proxy-Connection, which no standard has, for Connection, and does not see what follows an empty
 * first element of its list or stands before a tab.
 */
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "wire/http1.h"

#include "test_help.h"

#ifndef HAVE_HTTP_PARSER

TEST(http_oracle_agrees)
{
	SKIP("http_parser.h was not there when this was built: install libhttp-parser-dev");
}

#else

#include <http_parser.h>

enum { ROUNDS = 150000, REQUEST_MAX = 2048 };

#define GET  "GET /v1/boxes?limit=10 HTTP/1.1\r\nHost: a.example:8080\r\n"
#define POST "POST /v1/run HTTP/1.1\r\nHost: a\r\n"

static const char *const heads[] = {
	GET "\r\n",
	GET "User-Agent: x/1 (y; z)\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n\r\n",
	GET "Connection: keep-alive\r\nCookie: a=b; c=d\r\nX-Empty:\r\nX-Blank: \t\r\n\r\n",
	GET "Connection: close, x\r\nConnection: y\r\n\r\n",
	GET "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
	    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
	"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
	"\r\nDELETE /v1/boxes/a%2Fb HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer abc\r\n\r\n",
	POST "Content-Length: 12\r\nContent-Type: application/json\r\n\r\n",
	POST "Content-Length: 0\r\n\r\n",
	POST "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
	POST "Transfer-Encoding: Chunked\r\nContent-Type: multipart/form-data; boundary=x\r\n\r\n",
};

/* Pieces that a mutation may put in. */
static const char *const words[] = {
	"\r\n",
	"\n",
	"\r",
	" ",
	"\t",
	":",
	": ",
	"\r\n ",
	"\r\n\r\n",
	",",
	", ",
	"/",
	"*",
	"?",
	"#",
	"%00",
	"HTTP/1.0",
	"HTTP/1.1",
	"HTTP/2.0",
	"GET ",
	"POST ",
	"HEAD ",
	"CONNECT ",
	"PATCH ",
	"Host: b\r\n",
	"Content-Length: 3\r\n",
	"Content-Length: 0\r\n",
	"Content-Length: 003\r\n",
	"Transfer-Encoding: chunked\r\n",
	"transfer-encoding:\tchunked\r\n",
	"Transfer-Encoding: identity\r\n",
	"Connection: close\r\n",
	"Connection: keep-alive\r\n",
	"Connection: ,x, Upgrade\r\n",
	"Upgrade: h2c\r\n",
	"Proxy-Connection: close\r\n",
	"Expect: 100-continue\r\n",
	"X: \xff\x80\r\n",
	"A: 1\tb \t\r\n",
	"close",
	"chunked",
	"keep-alive",
	"upgrade",
	"0",
	"9",
	"a",
	"Z",
	"~",
	"\"",
	"\x7f",
	"\x80",
	"\x01",
};

/* What http-parser saw. */
struct seen {
	char target[REQUEST_MAX], body[REQUEST_MAX];
	size_t target_len, body_len;
	struct http_slice name[HTTP_HEADERS_MAX + 1], value[HTTP_HEADERS_MAX + 1];
	unsigned int headers;
	bool in_value, head_done, done;
};

static int on_target(http_parser *p, const char *at, size_t n)
{
	struct seen *s = p->data;

	memcpy(s->target + s->target_len, at, n);
	s->target_len += n;
	return 0;
}

static int on_name(http_parser *p, const char *at, size_t n)
{
	struct seen *s = p->data;

	if (s->headers > HTTP_HEADERS_MAX)
		return 1;
	s->name[s->headers] = (struct http_slice){ at, n };
	s->value[s->headers++] = (struct http_slice){ at, 0 };
	return 0;
}

static int on_value(http_parser *p, const char *at, size_t n)
{
	struct seen *s = p->data;

	while (n > 0 && (at[n - 1] == ' ' || at[n - 1] == '\t')) /* which it leaves there */
		n--;
	s->value[s->headers - 1] = (struct http_slice){ at, n };
	return 0;
}

static int on_head(http_parser *p)
{
	((struct seen *)p->data)->head_done = true;
	return 0;
}

static int on_body(http_parser *p, const char *at, size_t n)
{
	struct seen *s = p->data;

	memcpy(s->body + s->body_len, at, n);
	s->body_len += n;
	return 0;
}

static int on_done(http_parser *p)
{
	((struct seen *)p->data)->done = true;
	http_parser_pause(p, 1); /* what follows is no longer this request */
	return 0;
}

static void ask(const char *p, size_t n, http_parser *parser, struct seen *s)
{
	static const http_parser_settings settings = {
		.on_url = on_target,
		.on_header_field = on_name,
		.on_header_value = on_value,
		.on_headers_complete = on_head,
		.on_body = on_body,
		.on_message_complete = on_done,
	};

	memset(s, 0, sizeof(*s));
	http_parser_init(parser, HTTP_REQUEST);
	parser->data = s;
	(void)http_parser_execute(parser, &settings, p, n);
}

/* Bytes, not a string. */
static void put(char *at, const char *p, size_t n)
{
	memcpy(at, p, n);
}

static size_t mutate(uint64_t *seed, char *p, size_t n)
{
	size_t at = rnd_below(seed, n + 1), most = n - at, len;
	const char *word;

	switch (rnd_below(seed, 5)) {
	case 0: /* another character */
		if (at < n)
			p[at] = (char)rnd(seed);
		return n;
	case 1: /* some less */
		len = rnd_below(seed, most < 20 ? most + 1 : 20);
		memmove(p + at, p + at + len, n - at - len);
		return n - len;
	case 2: /* a line twice, or in another place */
		while (at > 0 && p[at - 1] != '\n')
			at--;
		word = memchr(p + at, '\n', n - at);
		len = word == NULL ? n - at : (size_t)(word + 1 - (p + at));
		if (n + len > REQUEST_MAX)
			return n;
		memmove(p + at + len, p + at, n - at);
		return n + len;
	default: /* some more */
		word = words[rnd_below(seed, ARRAY_LEN(words))];
		len = strlen(word);
		if (n + len > REQUEST_MAX)
			return n;
		memmove(p + at + len, p + at, n - at);
		memcpy(p + at, word, len);
		return n + len;
	}
}

static bool knows_method(struct http_slice method)
{
	for (int i = 0; i < 64; i++)
		if (http_slice_is(method, http_method_str((enum http_method)i)))
			return true;
	return false;
}

/* A name that goes on after "Transfer-Encoding" is taken for it when a Content-Length is there, too: its mistake. */
static bool misleads_it(const struct http_head *h)
{
	static const char te[] = "Transfer-Encoding";

	for (unsigned int i = 0; i < h->nh; i++) {
		struct http_slice front = { h->h[i].name.p, sizeof(te) - 1 };

		if (h->h[i].name.n >= sizeof(te) && http_slice_is_nocase(front, te))
			return true;
	}
	return false;
}

static void compare_heads(const char *text, size_t n, const struct http_head *h)
{
	static struct seen s;
	http_parser p;
	bool asked = false, unlike = false;

	ask(text, n, &p, &s);
	if (!s.head_done)
		test_fail(__FILE__, __LINE__, "taken by us alone (%s): %.*s",
			  http_errno_name(HTTP_PARSER_ERRNO(&p)), (int)n, text);
	CHECK(http_slice_is(h->method, http_method_str(p.method)));
	CHECK(h->target.n == s.target_len && memcmp(h->target.p, s.target, s.target_len) == 0);
	CHECK(p.http_major == 1 && p.http_minor == h->minor);
	CHECK_EQ_INT(h->nh, s.headers);
	for (unsigned int i = 0; i < h->nh; i++) {
		CHECK(h->h[i].name.p == s.name[i].p && h->h[i].name.n == s.name[i].n);
		CHECK(h->h[i].value.n == s.value[i].n);
		CHECK(h->h[i].value.n == 0 || h->h[i].value.p == s.value[i].p);
		unlike |= http_slice_is_nocase(h->h[i].name, "Proxy-Connection");
		if (http_slice_is_nocase(h->h[i].name, "Connection")) {
			asked = true;
			unlike |= s.value[i].p[0] == ',' ||
				  memchr(s.value[i].p, '\t', strcspn(s.value[i].p, "\r")) != NULL;
		}
	}
	CHECK_EQ_INT((p.flags & F_CHUNKED) != 0, h->framing == HTTP_CHUNKED);
	CHECK_EQ_INT((p.flags & F_CONTENTLENGTH) != 0, h->framing == HTTP_LENGTH);
	/* With no body to come it has reset its count already. */
	if (h->framing == HTTP_LENGTH && !s.done)
		CHECK(p.content_length == h->length);
	CHECK(!s.done || h->framing == HTTP_NO_BODY || h->length == 0);
	if (!unlike && (h->minor == 1 || !asked || h->keep_alive))
		CHECK_EQ_INT(http_should_keep_alive(&p) != 0, h->keep_alive);
	CHECK(unlike || !h->upgrade_websocket || p.upgrade);
}

TEST(http_oracle_agrees_about_heads)
{
	static struct http_head h;
	char text[REQUEST_MAX];
	unsigned int taken = 0;
	uint64_t seed = 42;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		const char *from = heads[round % ARRAY_LEN(heads)];
		size_t n = strlen(from), scanned = 0;
		struct http_refusal r;
		ptrdiff_t got;

		put(text, from, n);
		for (uint64_t k = rnd_below(&seed, 4); k > 0; k--)
			n = mutate(&seed, text, n);
		got = http_head_parse(text, n, &scanned, &h, &r);
		if (got <= 0 || !knows_method(h.method) || misleads_it(&h))
			continue;
		compare_heads(text, (size_t)got, &h);
		taken++;
	}
	CHECK(taken > ROUNDS / 4);
}

/* The body behind a head that is always the same. */
static void compare_bodies(const char *text, size_t head, size_t n, const char *body,
			   size_t body_len)
{
	static struct seen s;
	http_parser p;

	ask(text, head + n, &p, &s);
	if (!s.done)
		test_fail(__FILE__, __LINE__, "taken by us alone (%s): %.*s",
			  http_errno_name(HTTP_PARSER_ERRNO(&p)), (int)n, text + head);
	CHECK(s.body_len == body_len && memcmp(s.body, body, body_len) == 0);
}

/* Our reading of a body: its length, or -1 when it is refused or does not end. *ret_n: bytes that it took up. */
static ptrdiff_t read_body(const char *p, size_t n, char *out, size_t *ret_n)
{
	struct http_slice data;
	struct http_chunks c;
	struct http_refusal r;
	bool end = false;
	size_t at = 0, len = 0;

	http_chunks_init(&c);
	while (at < n && !end) {
		ptrdiff_t used = http_chunks_feed(&c, p + at, n - at, &data, &end, &r);

		if (used < 0)
			return -1;
		memcpy(out + len, data.p, data.n);
		len += data.n;
		at += (size_t)used;
	}
	*ret_n = at;
	return end ? (ptrdiff_t)len : -1;
}

TEST(http_oracle_agrees_about_chunks)
{
	static const char head[] = POST "Transfer-Encoding: chunked\r\n\r\n";
	static const char *const bodies[] = {
		"0\r\n\r\n",
		"5\r\nhello\r\n0\r\n\r\n",
		"00000b\r\nhello\r\n\r\n12\r\n1\r\n,\r\n0a\r\n0\r\n\r\n567\r\n\r\n000\r\n\r\n",
	};
	char text[sizeof(head) + REQUEST_MAX], out[REQUEST_MAX];
	unsigned int taken = 0;
	uint64_t seed = 43;

	memcpy(text, head, sizeof(head) - 1);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		const char *from = bodies[round % ARRAY_LEN(bodies)];
		char *body = text + sizeof(head) - 1;
		size_t n = strlen(from), used;
		ptrdiff_t len;

		put(body, from, n);
		for (uint64_t k = rnd_below(&seed, 4); k > 0; k--)
			n = mutate(&seed, body, n);
		len = read_body(body, n, out, &used);
		if (len < 0)
			continue;
		compare_bodies(text, sizeof(head) - 1, used, out, (size_t)len);
		taken++;
	}
	CHECK(taken > ROUNDS / 10);
}

/* Each line of the list at the top that a request can show: it takes them, we do not. */
TEST(http_oracle_is_more_lenient)
{
	static const char *const lenient[] = {
		"GET / HTTP/1.1\nHost: a\n\n",
		GET "A: b\r\n c\r\n\r\n",
		GET "A : b\r\n\r\n",
		"GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n",
		"\r\n\r\n" GET "\r\n",
		"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.2\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n",
		GET "Host: b\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
		POST "Transfer-Encoding: gzip, chunked\r\n\r\n",
		POST "Expect: x\r\n\r\n",
		GET "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
	};
	static struct seen s;
	static struct http_head h;

	for (size_t i = 0; i < ARRAY_LEN(lenient); i++) {
		size_t n = strlen(lenient[i]), scanned = 0;
		struct http_refusal r;
		http_parser p;

		ask(lenient[i], n, &p, &s);
		if (!s.head_done)
			test_fail(__FILE__, __LINE__, "row %zu: it refuses this, too", i);
		CHECK_EQ_INT(http_head_parse(lenient[i], n, &scanned, &h, &r), -1);
	}
}

#endif
