/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/socks.h"

#include "base/own.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "test_help.h"

static struct fence fence;

static ptrdiff_t greet(const void *p, size_t n)
{
	if (fence.map == NULL)
		fence = fence_open(1024);
	return socks_greeting(fence_copy(&fence, p, n), n);
}

/* What is not > 0 leaves *ret alone. */
static ptrdiff_t ask(const void *p, size_t n, struct socks_request *ret)
{
	struct socks_request before;
	ptrdiff_t r;

	if (fence.map == NULL)
		fence = fence_open(1024);
	memset(ret, 0x55, sizeof(*ret));
	memcpy(&before, ret, sizeof(before));
	r = socks_request_read(fence_copy(&fence, p, n), n, ret);
	if (r <= 0)
		CHECK_MEM(ret, &before, sizeof(before));
	return r;
}

/* A request by name; how long it is. */
static size_t by_name(uint8_t buf[300], const char *name, size_t n, uint16_t port)
{
	const uint8_t head[] = { 5, 1, 0, 3, (uint8_t)n };

	memcpy(buf, head, sizeof(head));
	memcpy(buf + 5, name, n);
	buf[5 + n] = (uint8_t)(port >> 8);
	buf[6 + n] = (uint8_t)port;
	return 7 + n;
}

static ptrdiff_t ask_name(const char *name, size_t n, struct socks_request *ret)
{
	uint8_t buf[300];

	return ask(buf, by_name(buf, name, n, 443), ret);
}

static const uint8_t v4[] = { 5, 1, 0, 1, 198, 18, 0, 7, 1, 187 };
static const uint8_t v6[] = { 5, 1, 0, 4, 0x20, 1, 0xd, 0xb8, 0, 0, 0,
			      0, 0, 0, 0, 0,    0, 0,   0,    1, 0, 80 };

TEST(socks_greeting_finds_our_method)
{
	CHECK_EQ_INT(greet("\5\1\0", 3), 3);
	CHECK_EQ_INT(greet("\5\2\2\0", 4), 4);
	CHECK_EQ_INT(greet("\5\2\0\2", 4), 4);
	CHECK_EQ_INT(greet("\5\1\2", 3), -EPROTONOSUPPORT);
	CHECK_EQ_INT(greet("\5\2\1\2", 4), -EPROTONOSUPPORT);
	/* What stands behind it is no method. */
	CHECK_EQ_INT(greet("\5\1\2\0", 4), -EPROTONOSUPPORT);
	CHECK_EQ_INT(greet("\5\1\0\5\1\0", 6), 3);
	CHECK_EQ_INT(greet("\4\1\0", 3), -EBADMSG);
	CHECK_EQ_INT(greet("G", 1), -EBADMSG);
	CHECK_EQ_INT(greet("\5\0", 2), -EBADMSG);
	CHECK_EQ_INT(greet("\5\0\0", 3), -EBADMSG);
}

TEST(socks_greeting_wants_the_whole_at_every_size)
{
	uint8_t all[257] = { 5, 255 };

	for (unsigned int i = 0; i < 255; i++)
		all[2 + i] = (uint8_t)(255 - i);
	for (size_t n = 0; n < sizeof(all); n++)
		CHECK_EQ_INT(greet(all, n), 0);
	CHECK_EQ_INT(greet(all, sizeof(all)), -EPROTONOSUPPORT);
	all[256] = 0;
	CHECK_EQ_INT(greet(all, sizeof(all)), 257);
}

TEST(socks_request_read_takes_names)
{
	struct socks_request req;

	CHECK_EQ_INT(ask_name("PyPI.org", 8, &req), 15);
	CHECK_EQ_INT(req.by, SOCKS_BY_NAME);
	CHECK_STR(req.name, "pypi.org");
	CHECK_EQ_INT(req.port, 443);
	CHECK_MEM(req.address, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	CHECK_EQ_INT(ask_name("pypi.org.", 9, &req), 16);
	CHECK_STR(req.name, "pypi.org");
}

TEST(socks_request_read_takes_addresses)
{
	uint8_t mapped[sizeof(v6)];
	struct socks_request req;

	CHECK_EQ_INT(ask(v4, sizeof(v4), &req), sizeof(v4));
	CHECK_EQ_INT(req.by, SOCKS_BY_V4);
	CHECK_MEM(req.address, "\xc6\x12\0\7\0\0\0\0\0\0\0\0\0\0\0", 16);
	CHECK_STR(req.name, "");
	CHECK_EQ_INT(req.port, 443);

	CHECK_EQ_INT(ask(v6, sizeof(v6), &req), sizeof(v6));
	CHECK_EQ_INT(req.by, SOCKS_BY_V6);
	CHECK_MEM(req.address, v6 + 4, 16);
	CHECK_STR(req.name, "");
	CHECK_EQ_INT(req.port, 80);

	memset(mapped, 0, sizeof(mapped));
	memcpy(mapped, v6, 4);
	mapped[14] = mapped[15] = 0xff;
	mapped[16] = 127;
	mapped[19] = mapped[20] = 1; /* port 256 */
	CHECK_EQ_INT(ask(mapped, sizeof(mapped), &req), sizeof(mapped));
	CHECK_EQ_INT(req.by, SOCKS_BY_V4);
	CHECK_MEM(req.address, "\x7f\0\0\1\0\0\0\0\0\0\0\0\0\0\0", 16);
	mapped[13] = 1;
	CHECK_EQ_INT(ask(mapped, sizeof(mapped), &req), sizeof(mapped));
	CHECK_EQ_INT(req.by, SOCKS_BY_V6);
}

TEST(socks_request_read_takes_the_text_of_an_address_for_one)
{
	struct socks_request req;

	CHECK_EQ_INT(ask_name("198.18.0.7", 10, &req), 17);
	CHECK_EQ_INT(req.by, SOCKS_BY_V4);
	CHECK_MEM(req.address, "\xc6\x12\0\7\0\0\0\0\0\0\0\0\0\0\0", 16);
	CHECK_STR(req.name, "");
}

TEST(socks_request_read_refuses_names_that_are_none)
{
	static const char *const rows[] = {
		"0x7f.1",    "2130706433", "127.1",     "1.2.3.4.",     "01.2.3.4",   "0177.0.0.1",
		"1.2.3.256", "0x7f000001", "[::1]",     "::1",          "fe80::1%lo", "a..b",
		".a",        "..",         ".",         "a b",          "a\r\nb",     "\xc3\xa4.de",
		"a\x7f",     "a/b",        "user@host", "pypi.org:443", "1.2.3.4.5",
	};
	char longest[255];
	struct socks_request req;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		CHECK_EQ_INT(ask_name(rows[i], strlen(rows[i]), &req), -EBADMSG);
	CHECK_EQ_INT(ask_name("", 0, &req), -EBADMSG);
	CHECK_EQ_INT(ask_name("pypi.org\0.evil.example", 22, &req), -EBADMSG);
	CHECK_EQ_INT(ask_name("1.2.3.4\0", 8, &req), -EBADMSG);

	memset(longest, 'a', sizeof(longest));
	longest[63] = longest[127] = longest[191] = '.';
	CHECK_EQ_INT(ask_name(longest, 253, &req), 260);
	CHECK_EQ_INT(strlen(req.name), 253);
	CHECK_EQ_INT(ask_name(longest, 254, &req), -EBADMSG);
	CHECK_EQ_INT(ask_name(longest, 255, &req), -EBADMSG);
	CHECK_EQ_INT(ask_name(longest, 64, &req), 71); /* its dot is at the end */
	longest[63] = 'a';
	CHECK_EQ_INT(ask_name(longest, 64, &req), -EBADMSG);
}

TEST(socks_request_read_says_what_it_does_not_do)
{
	uint8_t buf[sizeof(v4)];
	struct socks_request req;

	for (unsigned int i = 0; i < 256; i++) {
		memcpy(buf, v4, sizeof(v4));
		buf[0] = (uint8_t)i;
		CHECK_EQ_INT(ask(buf, sizeof(buf), &req), i == 5 ? 10 : -EBADMSG);
		memcpy(buf, v4, sizeof(v4));
		buf[1] = (uint8_t)i;
		CHECK_EQ_INT(ask(buf, sizeof(buf), &req), i == 1 ? 10 : -EPROTONOSUPPORT);
		memcpy(buf, v4, sizeof(v4));
		buf[2] = (uint8_t)i;
		CHECK_EQ_INT(ask(buf, sizeof(buf), &req), i == 0 ? 10 : -EBADMSG);
		memcpy(buf, v4, sizeof(v4));
		buf[3] = (uint8_t)i;
		if (i != 1 && i != 3 && i != 4)
			CHECK_EQ_INT(ask(buf, sizeof(buf), &req), -EAFNOSUPPORT);
	}
	memcpy(buf, v4, sizeof(v4));
	buf[8] = buf[9] = 0;
	CHECK_EQ_INT(ask(buf, sizeof(buf), &req), -EBADMSG);
	buf[9] = 1;
	CHECK_EQ_INT(ask(buf, sizeof(buf), &req), 10);
	CHECK_EQ_INT(req.port, 1);
}

/* What begins like it says the same of it, or wants more; what follows is not its own. */
static void check_every_size(const uint8_t *p, size_t n)
{
	uint8_t more[300];
	struct socks_request whole, req;
	ptrdiff_t r = ask(p, n, &whole);
	bool decided = false;

	CHECK(r != 0);
	for (size_t i = 0; i < n; i++) {
		ptrdiff_t part = ask(p, i, &req);

		if (r > 0)
			CHECK_EQ_INT(part, 0);
		else
			CHECK(part == r || (part == 0 && !decided));
		decided = part != 0;
	}
	memcpy(more, p, n);
	memset(more + n, 0, sizeof(more) - n);
	CHECK_EQ_INT(ask(more, sizeof(more), &req), r);
	CHECK_MEM(&req, &whole, sizeof(req));
}

TEST(socks_request_read_wants_the_whole_at_every_size)
{
	uint8_t buf[300];
	size_t n = by_name(buf, "pypi.org", 8, 443);

	check_every_size(v4, sizeof(v4));
	check_every_size(v6, sizeof(v6));
	check_every_size(buf, n);
	buf[7] = ' ';
	check_every_size(buf, n);
	check_every_size(buf, by_name(buf, "", 0, 443));
	check_every_size(buf, by_name(buf, "pypi.org", 8, 0));
	buf[1] = 2;
	buf[2] = 1;
	check_every_size(buf, n);
}

/* A byte that is another one leads elsewhere, or nowhere; but for letter case and the dot at the
 * end, which mean nothing. */
TEST(socks_request_read_sees_every_byte_that_differs)
{
	uint8_t buf[300];
	size_t n = by_name(buf, "pypi.org", 8, 443);
	struct socks_request plain, req;

	CHECK(ask(buf, n, &plain) > 0);
	for (size_t i = 0; i < n; i++) {
		uint8_t was = buf[i];

		for (unsigned int c = 0; c < 256; c++) {
			bool same_letter = i >= 5 && i < n - 2 && (c | 32u) == was && c != '.';

			buf[i] = (uint8_t)c;
			if (ask(buf, n, &req) <= 0)
				continue;
			CHECK_EQ_INT(memcmp(&req, &plain, sizeof(req)) == 0,
				     c == was || (same_letter && was >= 'a'));
		}
		buf[i] = was;
	}
}

/* And none of its bytes is waited for longer than it takes to see it. */
TEST(socks_request_read_refuses_at_the_first_wrong_byte)
{
	static const struct {
		const char *p;
		size_t n; /* of which the last one is wrong */
		int r;
	} rows[] = {
		{ "\4", 1, -EBADMSG },
		{ "\5\2", 2, -EPROTONOSUPPORT },
		{ "\5\1\1", 3, -EBADMSG },
		{ "\5\1\0\2", 4, -EAFNOSUPPORT },
		{ "\5\1\0\3\0", 5, -EBADMSG },
		{ "\5\1\0\3\3a..", 8, -EBADMSG }, /* a name is looked at when it is whole */
		{ "\5\1\0\1\1\2\3\4\0\0", 10, -EBADMSG },
	};
	struct socks_request req;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		CHECK_EQ_INT(ask(rows[i].p, rows[i].n - 1, &req), 0);
		CHECK_EQ_INT(ask(rows[i].p, rows[i].n, &req), rows[i].r);
	}
	CHECK_EQ_INT(greet("\4", 1), -EBADMSG);
	CHECK_EQ_INT(greet("\5\0", 2), -EBADMSG);
}

TEST(socks_reply_is_an_answer)
{
	uint8_t buf[SOCKS_REPLY_MAX];

	CHECK_EQ_INT(socks_reply(SOCKS_OK, buf), 10);
	CHECK_MEM(buf, "\5\0\0\1\0\0\0\0\0\0", 10);
	CHECK_EQ_INT(socks_reply(SOCKS_NO_ADDRESS, buf), 10);
	CHECK_MEM(buf, "\5\10\0\1\0\0\0\0\0\0", 10);
}
