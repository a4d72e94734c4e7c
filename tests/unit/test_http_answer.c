/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/http_answer.c: answers of a server in whatever pieces. */
#include "wire/http_answer.h"

#include <stdio.h>

#include "test_help.h"

#define TEXT(s) s, sizeof(s) - 1

struct result {
	int status;
	char body[256];
	size_t n, used;
	bool done, refused, keep_alive;
	const char *why;
	char type[64];
};

static struct http_answer a;

static void feed(const char *p, size_t n, struct result *got)
{
	for (size_t at = 0; at < n && !a.done && !got->refused;) {
		struct http_slice data;
		ptrdiff_t used = http_answer_feed(&a, p + at, n - at, &data, &got->why);

		got->refused = used < 0;
		if (used < 0)
			return;
		CHECK(used > 0 && (size_t)used <= n - at);
		CHECK(data.n == 0 || (data.p >= p + at && data.p + data.n <= p + at + used));
		CHECK(got->n + data.n <= sizeof(got->body));
		memcpy(got->body + got->n, data.p, data.n);
		got->n += data.n;
		got->used += (size_t)used;
		at += (size_t)used;
	}
}

static struct result read_answer(const char *p, size_t n, size_t step)
{
	struct fence f = fence_open(n + 1);
	struct result got = { .why = "" };
	struct http_slice type;

	http_answer_init(&a);
	for (size_t at = 0; at < n; at += step) {
		size_t part = n - at < step ? n - at : step;

		feed((const char *)fence_copy(&f, p + at, part), part, &got);
	}
	got.done = http_answer_end(&a);
	got.status = a.status;
	got.keep_alive = a.keep_alive;
	if (got.status != 0 && !got.refused) {
		type = http_answer_get(&a, "content-type");
		(void)snprintf(got.type, sizeof(got.type), "%.*s", (int)type.n, type.p);
	}
	fence_close(&f);
	return got;
}

/* In pieces of every size, with the same result. */
static struct result read_all_ways(const char *p, size_t n)
{
	struct result whole = read_answer(p, n, n);

	for (size_t step = 1; step < n; step++) {
		struct result got = read_answer(p, n, step);

		CHECK(got.done == whole.done && got.refused == whole.refused);
		CHECK_EQ_INT(got.n, whole.n);
		CHECK_MEM(got.body, whole.body, whole.n);
		CHECK_STR(got.why, whole.why);
		if (!whole.refused) {
			CHECK_EQ_INT(got.used, whole.used);
			CHECK_EQ_INT(got.status, whole.status);
			CHECK_STR(got.type, whole.type);
		}
	}
	return whole;
}

TEST(http_answer_reads_what_servers_send)
{
	static const struct {
		const char *text;
		int status;
		const char *body;
		bool done, keep_alive;
		size_t left; /* bytes behind it */
	} rows[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP", 200, "hello", true, true,
		  4 },
		{ "HTTP/1.1 201\r\nContent-Length: 0\r\n\r\n", 201, "", true, true, 0 },
		{ "HTTP/1.1 204 No Content\r\n\r\nx", 204, "", true, true, 1 },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", 200, "hello", false, true,
		  0 },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
		  "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nz",
		  200, "abcde", true, true, 1 },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 200, "abc",
		  false, true, 0 },
		{ "HTTP/1.1 200 OK\r\n\r\nto the end", 200, "to the end", true, false, 0 },
		{ "HTTP/1.0 404 Not Found\r\nContent-Length: 1\r\n\r\n!", 404, "!", true, false,
		  0 },
		{ "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\n!", 200, "!",
		  true, false, 0 },
		{ "HTTP/1.1 200 OK\r\nConnection: foo ,\tClose , x\r\nContent-Length: 0\r\n\r\n",
		  200, "", true, false, 0 },
		{ "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n!", 200,
		  "!", true, true, 0 },
		{ "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x01x", 101,
		  "", true, true, 3 },
		{ "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n", 200,
		  "", true, true, 0 },
		{ "HTTP/1.1 200 OK\r\nContent", 0, "", false, false, 0 },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct result got = read_all_ways(rows[i].text, strlen(rows[i].text));

		CHECK(!got.refused);
		CHECK_EQ_INT(got.status, rows[i].status);
		CHECK_EQ_INT(got.n, strlen(rows[i].body));
		CHECK_MEM(got.body, rows[i].body, got.n);
		CHECK_EQ_INT(got.done, rows[i].done);
		if (rows[i].status != 0)
			CHECK_EQ_INT(got.keep_alive, rows[i].keep_alive);
		CHECK_EQ_INT(strlen(rows[i].text) - got.used, rows[i].left);
	}
}

TEST(http_answer_finds_headers)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nCONTENT-TYPE:  text/event-stream  \r\n\r\n";
	struct result got = read_all_ways(TEXT(text));

	CHECK_STR(got.type, "text/event-stream");
	CHECK_EQ_INT(http_answer_get(&a, "retry-after").n, 0);
}

TEST(http_answer_refuses_what_is_none)
{
	static const char *const rows[] = {
		"SSH-2.0-OpenSSH_9.2\r\n",
		"\x15\x03\x01\x00\x02\x02\x46", /* TLS */
		"HTTP/2 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\n\n",
		"HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 999 OK\r\n\r\n",
		"HTTP/1.1 2000\r\n\r\n",
		"HTTP/1.2 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
		"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\na: \x01\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct result got = read_all_ways(rows[i], strlen(rows[i]));

		CHECK(got.refused && !got.done && got.why[0] != '\0');
	}
}

TEST(http_answer_bounds_its_head)
{
	static char text[HTTP_HEAD_MAX + 64] = "HTTP/1.1 200 OK\r\na: ";
	struct result got;
	size_t n;

	memset(text + strlen(text), 'x', sizeof(text) - strlen(text));
	got = read_answer(text, sizeof(text), 1000);
	CHECK(got.refused);
	CHECK_STR(got.why, "the head is too long");
	memset(text, 0, sizeof(text));
	n = (size_t)snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\n");
	for (unsigned int i = 0; i < HTTP_HEADERS_MAX + 1; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "a: b\r\n");
	(void)snprintf(text + n, sizeof(text) - n, "\r\n");
	got = read_answer(text, strlen(text), 1000);
	CHECK(got.refused);
	CHECK_STR(got.why, "too many headers");
}

TEST(http_answer_bounds_what_comes_before_it)
{
	static const char one[] = "HTTP/1.1 100 Continue\r\n\r\n";
	static const char last[] = "HTTP/1.1 204 No Content\r\n\r\n";
	char text[32 * sizeof(one)] = "";
	struct result got;

	for (unsigned int i = 0; i < 10; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", one);
	(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", last);
	got = read_all_ways(text, strlen(text));
	CHECK_EQ_INT(got.status, 204);
	text[0] = '\0';
	for (unsigned int i = 0; i < 30; i++)
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s", one);
	got = read_all_ways(text, strlen(text));
	CHECK(got.refused);
	CHECK_STR(got.why, "too many answers before the answer");
}
