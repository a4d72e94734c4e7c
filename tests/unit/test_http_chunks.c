/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/http_chunks.c: chunked bodies in whatever pieces. */
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "wire/http1.h"

#include "test_help.h"

#define TEXT(s) s, sizeof(s) - 1

struct result {
	char body[200];
	size_t body_len, used;
	bool end, refused;
	struct http_refusal r;
};

/* One piece, to its end. */
static void feed(struct http_chunks *c, const char *p, size_t n, struct result *got)
{
	for (size_t at = 0; at < n && !got->end && !got->refused;) {
		struct http_slice data;
		ptrdiff_t used = http_chunks_feed(c, p + at, n - at, &data, &got->end, &got->r);

		got->refused = used < 0;
		if (used < 0)
			return;
		CHECK(used > 0 && (size_t)used <= n - at);
		CHECK(data.n == 0 || (data.p >= p + at && data.p + data.n <= p + at + used));
		CHECK(got->body_len + data.n <= sizeof(got->body));
		memcpy(got->body + got->body_len, data.p, data.n);
		got->body_len += data.n;
		got->used += (size_t)used;
		at += (size_t)used;
	}
}

static struct result feed_all(const char *p, size_t n, size_t first, size_t step)
{
	struct fence f = fence_open(n + 1);
	struct result got = { 0 };
	struct http_chunks c;

	http_chunks_init(&c);
	for (size_t at = 0, piece = first; at < n; at += piece, piece = step) {
		if (piece > n - at)
			piece = n - at;
		feed(&c, (const char *)fence_copy(&f, p + at, piece), piece, &got);
	}
	fence_close(&f);
	return got;
}

/* Whole, byte by byte, and cut once at every place. */
static struct result feed_all_ways(const char *p, size_t n)
{
	struct result whole = feed_all(p, n, n, n);

	for (size_t first = 1; first <= n; first++) {
		struct result got = feed_all(p, n, first, first == 1 ? 1 : n);

		CHECK(got.end == whole.end && got.refused == whole.refused);
		CHECK_EQ_INT(got.body_len, whole.body_len);
		CHECK_MEM(got.body, whole.body, whole.body_len);
		if (whole.refused)
			CHECK_STR(got.r.why, whole.r.why);
		else
			CHECK_EQ_INT(got.used, whole.used);
	}
	return whole;
}

TEST(http_chunks_reads_bodies)
{
	static const struct {
		const char *text;
		size_t n;
		const char *body;
		size_t left; /* bytes that belong to the next request */
	} good[] = {
		{ TEXT("0\r\n\r\n"), "", 0 },
		{ TEXT("0000000000000000\r\n\r\n"), "", 0 },
		{ TEXT("5\r\nhello\r\n0\r\n\r\n"), "hello", 0 },
		{ TEXT("05\r\nhello\r\n1\r\n \r\n0A\r\n0123456789\r\n0\r\n\r\nGET"),
		  "hello 0123456789", 3 },
		{ TEXT("000000000000000b\r\n\r\n0\r\n\r\n\r\n\r\n\r\n0\r\n\r\n0\r\n\r\n"),
		  "\r\n0\r\n\r\n\r\n\r\n", 5 },
		{ TEXT("1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n"),
		  "abcdefghijklmnopqrstuvwxyz", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct result got = feed_all_ways(good[i].text, good[i].n);

		if (got.refused)
			test_fail(__FILE__, __LINE__, "row %zu: %s", i, got.r.why);
		CHECK(got.end);
		CHECK_EQ_INT(got.body_len, strlen(good[i].body));
		CHECK_MEM(got.body, good[i].body, got.body_len);
		CHECK_EQ_INT(good[i].n - got.used, good[i].left);
	}
}

TEST(http_chunks_waits_for_every_byte)
{
	static const char text[] = "3\r\nabc\r\n0\r\n\r\n";

	for (size_t n = 0; n < sizeof(text) - 1; n++) {
		struct result got = feed_all_ways(text, n);

		CHECK(!got.end && !got.refused && got.used == n);
	}
}

TEST(http_chunks_refuses)
{
	static const struct {
		const char *text;
		size_t n;
	} bad[] = {
		{ TEXT("\r\n") },
		{ TEXT(" 1\r\na\r\n") },
		{ TEXT("1 \r\na\r\n") },
		{ TEXT("g\r\n") },
		{ TEXT("-1\r\n") },
		{ TEXT("+1\r\n") },
		{ TEXT("0x1\r\n") },
		{ TEXT("1\na\r\n") },
		{ TEXT("1\r\r\n") },
		{ TEXT("1;a=b\r\n") },
		{ TEXT("1;\r\n") },
		{ TEXT(";\r\n") },
		{ TEXT("1\r\nab") },
		{ TEXT("1\r\na\n") },
		{ TEXT("1\r\na\r\r") },
		{ TEXT("1\r\na\r\n\r\n") },
		{ TEXT("0\r\nA: b\r\n\r\n") },
		{ TEXT("0\r\n\n") },
		{ TEXT("0\r\n\r\r") },
		{ TEXT("0\n") },
		{ TEXT("00000000000000001\r\n") },
		{ TEXT("00000000000000000\r\n") },
		{ TEXT("4000000000000001\r\n") },
		{ TEXT("8000000000000000\r\n") },
		{ TEXT("ffffffffffffffff\r\n") },
		{ TEXT("10000000000000000\r\n") },
		{ TEXT("\0") },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct result got = feed_all_ways(bad[i].text, bad[i].n);

		if (!got.refused)
			test_fail(__FILE__, __LINE__, "row %zu was taken", i);
		CHECK(got.r.status == 400 && got.r.why != NULL);
	}
}

TEST(http_chunks_sizes_up_to_the_largest)
{
	struct http_chunks c;
	struct http_slice data;
	struct http_refusal r;
	bool end;

	http_chunks_init(&c);
	CHECK_EQ_INT(http_chunks_feed(&c, TEXT("4000000000000000\r\nab"), &data, &end, &r), 20);
	CHECK(data.n == 2 && !end);
	CHECK(c.left == (UINT64_C(1) << 62) - 2);
}

TEST(http_chunks_stays_refused_and_stays_at_its_end)
{
	struct http_chunks c;
	struct http_slice data;
	struct http_refusal r = { 0 };
	bool end = true;

	http_chunks_init(&c);
	CHECK_EQ_INT(http_chunks_feed(&c, TEXT("x"), &data, &end, &r), -1);
	r.status = 0;
	CHECK_EQ_INT(http_chunks_feed(&c, TEXT("0\r\n\r\n"), &data, &end, &r), -1);
	CHECK(r.status == 400 && !end);
	CHECK_EQ_INT(http_chunks_feed(&c, "", 0, &data, &end, &r), -1);

	http_chunks_init(&c);
	CHECK_EQ_INT(http_chunks_feed(&c, TEXT("0\r\n\r\nx"), &data, &end, &r), 5);
	CHECK(end);
	end = false;
	CHECK_EQ_INT(http_chunks_feed(&c, TEXT("0\r\n\r\n"), &data, &end, &r), 0);
	CHECK(end && data.n == 0);
}
