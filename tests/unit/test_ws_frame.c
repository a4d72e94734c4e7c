/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/ws_frame.c: frames of a server, and ours for it. */
#include "wire/ws_frame.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "test_help.h"

#define TEXT(s) s, sizeof(s) - 1

enum { MAX = 300 };

/* Messages as "type:text|". */
struct seen {
	char text[2048];
	size_t n;
};

static int read_frames(const void *bytes, size_t n, size_t step, struct seen *seen)
{
	const uint8_t *p = bytes;
	struct fence f = fence_open(n + 1);
	struct ws_reader r;
	ptrdiff_t rc = 0;

	ws_reader_init(&r, MAX);
	for (size_t at = 0; at < n && rc >= 0; at += step) {
		size_t part = n - at < step ? n - at : step;
		const uint8_t *piece = fence_copy(&f, p + at, part);

		for (size_t used = 0; used < part && rc >= 0; used += (size_t)rc) {
			struct ws_message m;

			rc = ws_read(&r, piece + used, part - used, &m);
			if (rc <= 0)
				break;
			if (m.type != WS_NOTHING) {
				CHECK_EQ_INT(m.p[m.n], 0);
				seen->n += (size_t)snprintf(
					seen->text + seen->n, sizeof(seen->text) - seen->n,
					"%d:%.*s|", (int)m.type, (int)m.n, (const char *)m.p);
			}
		}
	}
	if (rc < 0) { /* and stays so */
		struct ws_message m;

		CHECK(ws_read(&r, (const uint8_t *)"\x81\x00", 2, &m) < 0);
	}
	ws_reader_done(&r);
	fence_close(&f);
	return rc < 0 ? (int)rc : 0;
}

static void check(const void *p, size_t n, int want, const char *messages)
{
	for (size_t step = 1; step <= n; step++) {
		struct seen seen = { .n = 0 };

		CHECK_EQ_INT(read_frames(p, n, step, &seen), want);
		CHECK_STR(seen.text, messages);
	}
}

TEST(ws_reads_messages)
{
	check(TEXT("\x81\x05hello"), 0, "1:hello|");
	check(TEXT("\x82\x03\x61\x62\x63\x81\x00"), 0, "2:abc|1:|");
	/* in pieces, with a ping among them */
	check(TEXT("\x01\x02he\x89\x01!\x00\x01l\x80\x02lo"), 0, "9:!|1:hello|");
	check(TEXT("\x88\x00"), 0, "8:|");
	check(TEXT("\x8a\x02ok\x81\x01x"), 0, "10:ok|1:x|");
	check(TEXT("\x81\x03\xe2\x82\xac"), 0, "1:\xe2\x82\xac|");
	check(TEXT("\x01\x01\xe2\x80\x02\x82\xac"), 0,
	      "1:\xe2\x82\xac|"); /* a character cut in two */
	check(TEXT("\x81\x05hel"), 0, "");
}

TEST(ws_reads_every_form_of_length)
{
	static const size_t lengths[] = { 125, 126, 127, 299, 300 };

	for (unsigned int i = 0; i < 5; i++) {
		uint8_t frame[400] = { 0x82, 126 };
		size_t n = lengths[i], head = n < 126 ? 2 : 4;
		char want[400];
		struct seen seen = { .n = 0 };

		frame[1] = (uint8_t)(n < 126 ? n : 126);
		frame[2] = (uint8_t)(n >> 8);
		frame[3] = (uint8_t)n;
		memset(frame + head, 'x', n);
		(void)snprintf(want, sizeof(want), "2:%.*s|", (int)n, (const char *)frame + head);
		CHECK_EQ_INT(read_frames(frame, head + n, 7, &seen), 0);
		CHECK_STR(seen.text, want);
	}
	/* 64 bits: only from 65536 on, which is too much here */
	check(TEXT("\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00"), -E2BIG, "");
	check(TEXT("\x82\x7e\x01\x2d"), -E2BIG, "");
}

TEST(ws_refuses_what_the_rfc_forbids)
{
	static const struct {
		const char *p;
		size_t n;
	} rows[] = {
		{ TEXT("\x81\x85\x01\x02\x03\x04hello") }, /* masked */
		{ TEXT("\xc1\x05hello") },                 /* a reserved bit */
		{ TEXT("\x83\x00") },                      /* opcodes that nobody knows */
		{ TEXT("\x8b\x00") },
		{ TEXT("\x80\x00") },           /* goes on with nothing */
		{ TEXT("\x01\x01x\x81\x01y") }, /* another before the end of one */
		{ TEXT("\x09\x00") },           /* half a ping */
		{ TEXT("\x89\x7e\x00\x7e") },   /* a long one */
		{ TEXT("\x82\x7e\x00\x7d") },   /* lengths in more bytes than needed */
		{ TEXT("\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff") },
		{ TEXT("\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00") },
		{ TEXT("\x81\x01\xff") }, /* no UTF-8 */
		{ TEXT("\x81\x02\xe2\x82") },
		{ TEXT("\x88\x01\x03") }, /* half a code, and bad ones */
		{ TEXT("\x88\x02\x00\x01") },
		{ TEXT("\x88\x02\x03\xed") },
		{ TEXT("\x88\x03\x03\xe8\xff") },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		check(rows[i].p, rows[i].n, -EPROTO, "");
}

TEST(ws_bounds_a_message_in_pieces)
{
	uint8_t frames[3 * 104];
	struct seen seen = { .n = 0 };
	size_t n = 0;

	for (unsigned int i = 0; i < 3; i++) {
		frames[n++] = i == 0 ? 0x02 : 0x00;
		frames[n++] = 101;
		memset(frames + n, 'x', 101);
		n += 101;
	}
	CHECK_EQ_INT(read_frames(frames, n, n, &seen), -E2BIG);
}

TEST(ws_writes_frames)
{
	static const uint8_t mask[4] = { 0x37, 0xfa, 0x21, 0x3d };
	uint8_t out[WS_HEAD_MAX], text[5] = { 'H', 'e', 'l', 'l', 'o' };

	/* the example of the RFC, 5.7 */
	CHECK_EQ_INT(ws_head(out, WS_TEXT, 5, mask), 6);
	CHECK_MEM(out, "\x81\x85\x37\xfa\x21\x3d", 6);
	ws_mask(text, 5, mask);
	CHECK_MEM(text, "\x7f\x9f\x4d\x51\x58", 5);
	CHECK_EQ_INT(ws_head(out, WS_BINARY, 256, mask), 8);
	CHECK_MEM(out, "\x82\xfe\x01\x00", 4);
	CHECK_EQ_INT(ws_head(out, WS_BINARY, 65536, mask), 14);
	CHECK_MEM(out, "\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00", 10);
}

TEST(ws_knows_the_answer_to_a_key)
{
	char got[WS_ACCEPT];

	ws_accept("dGhlIHNhbXBsZSBub25jZQ==", got); /* the example of the RFC, 1.3 */
	CHECK_STR(got, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(ws_tells_why_it_was_closed)
{
	struct ws_message m = { WS_CLOSE,
				(const uint8_t *)"\x03\xe8"
						 "bye",
				5 };
	const char *why;
	size_t n;

	CHECK_EQ_INT(ws_close_code(&m, &why, &n), 1000);
	CHECK_EQ_INT(n, 3);
	CHECK_MEM(why, "bye", 3);
	m.n = 0;
	CHECK_EQ_INT(ws_close_code(&m, &why, &n), 1005);
	CHECK_EQ_INT(n, 0);
}
