/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/dns.h"

#include "base/own.h"

#include <errno.h>
#include <stdio.h>

#include "test_help.h"

/* A query as a stub resolver sends it: RD is set, no EDNS. */
#define HEAD      "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define HEAD_OPT  "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"
#define PYPI      "\x04PyPI\x03oRg\x00"
#define A_IN      "\x00\x01\x00\x01"
#define OPT(room) "\x00\x00\x29" room "\x00\x00\x00\x00\x00\x00"
#define BYTES(s)  s, sizeof(s) - 1

static struct fence fence;
static uint8_t answer[8192];

static int look(const void *p, size_t n, struct dns_query *q)
{
	if (fence.map == NULL)
		fence = fence_open(8192);
	memset(q, 0x55, sizeof(*q));
	return dns_read(fence_copy(&fence, p, n), n, q);
}

/* The answer to it, in memory that ends where it may end. */
static size_t write_to(const struct dns_query *q, const void *p, size_t n,
		       const struct dns_reply *r, size_t cap)
{
	static struct fence out;
	uint8_t *buf;
	size_t len;

	if (out.map == NULL)
		out = fence_open(8192);
	buf = fence_at(&out, cap);
	len = dns_write(q, p, n, r, buf, cap);
	CHECK(len <= cap);
	memcpy(answer, buf, len);
	return len;
}

static size_t reply_to(const void *p, size_t n, const struct dns_reply *r)
{
	struct dns_query q;

	CHECK(look(p, n, &q) >= 0);
	return write_to(&q, p, n, r, DNS_MESSAGE_MAX);
}

/* Bytes, not text: no NUL is behind them. */
static size_t put(uint8_t *to, const void *p, size_t n)
{
	memcpy(to, p, n);
	return n;
}

static unsigned int u16(size_t at)
{
	return (unsigned int)answer[at] << 8 | answer[at + 1];
}

/* --- reading -------------------------------------------------------------------------------------- */

TEST(dns_read_takes_a_question)
{
	struct dns_query q;

	CHECK_EQ_INT(look(BYTES(HEAD PYPI A_IN), &q), DNS_OK);
	CHECK_EQ_INT(q.id, 0x1234);
	CHECK_EQ_INT(q.type, DNS_A);
	CHECK(q.recursion && !q.edns);
	CHECK_EQ_INT(q.room, 512);
	CHECK_EQ_INT(q.question_end, 12 + 10 + 4);
	CHECK_STR(q.name, "pypi.org");

	CHECK_EQ_INT(look(BYTES("\0\0\0\0\0\1\0\0\0\0\0\0\0\xff\xff\0\1"), &q), DNS_OK);
	CHECK(!q.recursion);
	CHECK_EQ_INT(q.type, 0xffff);
	CHECK_STR(q.name, ""); /* the root */
	CHECK_EQ_INT(q.question_end, 17);

	/* What glibc and others set in the header of a query: AD, CD. */
	CHECK_EQ_INT(look(BYTES("\0\0\1\x30\0\1\0\0\0\0\0\0" PYPI A_IN), &q), DNS_OK);
}

TEST(dns_read_takes_edns)
{
	struct dns_query q;

	CHECK_EQ_INT(look(BYTES(HEAD_OPT PYPI A_IN OPT("\x04\xb0")), &q), DNS_OK);
	CHECK(q.edns);
	CHECK_EQ_INT(q.room, 1200);
	CHECK_EQ_INT(look(BYTES(HEAD_OPT PYPI A_IN OPT("\x10\x00")), &q), DNS_OK);
	CHECK_EQ_INT(q.room, DNS_MESSAGE_MAX);
	CHECK_EQ_INT(look(BYTES(HEAD_OPT PYPI A_IN OPT("\x00\x00")), &q), DNS_OK);
	CHECK_EQ_INT(q.room, 512);
	/* DO, and options: a cookie, padding of none. */
	CHECK_EQ_INT(look(BYTES(HEAD_OPT PYPI A_IN "\0\0\x29\x04\xd0\0\0\x80\0\0\x10\0\x0a\0\x08"
						   "12345678\0\x0c\0\0"),
			  &q),
		     DNS_OK);
	CHECK(q.edns);
	CHECK_EQ_INT(q.room, DNS_MESSAGE_MAX);
}

TEST(dns_read_knows_one_version_of_edns)
{
	static const char query[] = HEAD_OPT PYPI A_IN "\0\0\x29\x04\xd0\0\1\0\0\0\0";
	struct dns_reply r = { .code = DNS_BADVERS };
	struct dns_query q;

	CHECK_EQ_INT(look(BYTES(query), &q), DNS_BADVERS);
	CHECK(q.edns);
	CHECK_EQ_INT(reply_to(BYTES(query), &r), 26 + 11);
	CHECK_EQ_INT(u16(2), 0x8180);    /* the lower four bits are 0, */
	CHECK_EQ_INT(answer[26 + 5], 1); /* the upper eight are here */
	CHECK_EQ_INT(answer[26 + 6], 0);
	/* Without a place for them it is another failure, not a success. */
	q.edns = false;
	CHECK(write_to(&q, BYTES(query), &r, 512) > 0);
	CHECK_EQ_INT(answer[3] & 15, DNS_SERVFAIL);
}

TEST(dns_read_refuses_opts_that_are_none)
{
	static const struct {
		const char *p;
		size_t n;
	} rows[] = {
		{ BYTES("") },                                         /* one was promised */
		{ BYTES("\0\0\x29\x04\xd0\0\0\0\0\0") },               /* cut */
		{ BYTES("\0\0\x29\x04\xd0\0\0\0\0\0\0\0") },           /* a byte behind it */
		{ BYTES("\0\0\x29\x04\xd0\0\0\0\0\0\1") },             /* data is missing */
		{ BYTES("\0\0\x29\x04\xd0\0\0\0\0\0\3\0\x0a\0") },     /* an option is cut, */
		{ BYTES("\0\0\x29\x04\xd0\0\0\0\0\0\4\0\x0a\0\1") },   /* is too long */
		{ BYTES("\0\0\x29\x04\xd0\0\0\0\0\0\5\0\x0a\0\0\0") }, /* has a byte behind it */
		{ BYTES("\5\0\x29\x04\xd0\0\0\0\0\0\0") },   /* has another byte for its name, */
		{ BYTES("\1a\0\x29\x04\xd0\0\0\0\0\0") },    /* has a name */
		{ BYTES("\0\0\1\0\1\0\0\0\0\0\4\1\2\3\4") }, /* an A */
		{ BYTES("\0\0\xfa\0\xff\0\0\0\0\0\0") },     /* a TSIG */
	};
	uint8_t buf[100] = HEAD_OPT PYPI A_IN;
	struct dns_query q;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		memcpy(buf + 26, rows[i].p, rows[i].n);
		CHECK_EQ_INT(look(buf, 26 + rows[i].n, &q), DNS_FORMERR);
		CHECK(!q.edns);
		CHECK_EQ_INT(q.question_end, 26);
	}
	CHECK_EQ_INT(
		look(BYTES("\0\0\1\0\0\1\0\0\0\0\0\2" PYPI A_IN OPT("\4\xd0") OPT("\4\xd0")), &q),
		DNS_FORMERR);
}

TEST(dns_read_refuses_what_is_no_single_question)
{
	static const struct {
		size_t at;
		uint8_t value;
		int code;
		size_t question_end;
	} rows[] = {
		{ 2, 0x81, -EBADMSG, 0 },   /* an answer */
		{ 2, 0x09, DNS_NOTIMP, 0 }, /* IQUERY */
		{ 2, 0x11, DNS_NOTIMP, 0 }, /* STATUS */
		{ 2, 0x21, DNS_NOTIMP, 0 }, /* NOTIFY */
		{ 2, 0x79, DNS_NOTIMP, 0 },
		{ 2, 0x03, DNS_FORMERR, 26 }, /* says that it is cut */
		{ 4, 1, DNS_FORMERR, 0 },     /* 257 questions */
		{ 5, 0, DNS_FORMERR, 0 },
		{ 5, 2, DNS_FORMERR, 0 },
		{ 6, 1, DNS_FORMERR, 26 },
		{ 7, 1, DNS_FORMERR, 26 }, /* answers, */
		{ 8, 1, DNS_FORMERR, 26 },
		{ 9, 1, DNS_FORMERR, 26 },  /* authorities, */
		{ 10, 1, DNS_FORMERR, 26 }, /* 256 others */
		{ 11, 1, DNS_FORMERR, 26 }, /* one that is not there */
		{ 11, 2, DNS_FORMERR, 26 },
		{ 12, 0xc0, DNS_FORMERR, 0 }, /* compressed */
		{ 17, 0xc0, DNS_FORMERR, 0 },
		{ 12, 0x40, DNS_FORMERR, 0 }, /* kinds of labels that never were */
		{ 12, 0x80, DNS_FORMERR, 0 },
		{ 12, 0x3f, DNS_FORMERR, 0 }, /* beyond the end */
		{ 25, 3, DNS_REFUSED, 26 },   /* CHAOS */
		{ 25, 255, DNS_REFUSED, 26 }, /* any class */
		{ 24, 1, DNS_REFUSED, 26 },
	};
	struct dns_query q;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint8_t buf[] = HEAD PYPI A_IN;

		buf[rows[i].at] = rows[i].value;
		CHECK_EQ_INT(look(buf, sizeof(buf) - 1, &q), rows[i].code);
		CHECK_EQ_INT(q.question_end, rows[i].question_end);
	}
}

/* Shorter ones say so; longer ones, too. */
TEST(dns_read_at_every_size)
{
	static const char query[] = HEAD_OPT PYPI A_IN OPT("\x04\xd0");
	static uint8_t longest[DNS_QUERY_MAX + 1] = HEAD_OPT PYPI A_IN OPT("\x04\xd0");
	struct dns_query q;

	for (size_t n = 0; n < sizeof(query) - 1; n++) {
		CHECK_EQ_INT(look(query, n, &q), n < 12 ? -EBADMSG : DNS_FORMERR);
		CHECK_EQ_INT(q.question_end, n < 26 ? 0 : 26);
	}
	CHECK_EQ_INT(look(query, sizeof(query) - 1, &q), DNS_OK);
	CHECK_EQ_INT(look(query, sizeof(query), &q), DNS_FORMERR);
	CHECK_EQ_INT(look(BYTES(HEAD PYPI A_IN "\0"), &q), DNS_FORMERR);
	CHECK_EQ_INT(look(NULL, 0, &q), -EBADMSG);

	/* One that is filled up by an option (37 bytes in front of it). */
	longest[35] = (DNS_QUERY_MAX - 37) >> 8;
	longest[36] = (DNS_QUERY_MAX - 37) & 0xff;
	longest[38] = 12;
	longest[39] = (DNS_QUERY_MAX - 41) >> 8;
	longest[40] = (DNS_QUERY_MAX - 41) & 0xff;
	CHECK_EQ_INT(look(longest, DNS_QUERY_MAX, &q), DNS_OK);
	longest[36]++;
	longest[40]++;
	CHECK_EQ_INT(look(longest, DNS_QUERY_MAX + 1, &q), -EBADMSG);
}

/* A question for a name of labels of these lengths, up to the first 0. */
static size_t question(uint8_t buf[600], const uint8_t *labels)
{
	size_t n = 12;

	(void)put(buf, HEAD, 12);
	for (; *labels != 0; labels++) {
		buf[n++] = *labels;
		memset(buf + n, 'x', *labels);
		n += *labels;
	}
	return n + put(buf + n, "\0" A_IN, 5);
}

TEST(dns_read_keeps_the_bounds_of_names)
{
	static const uint8_t most[] = { 63, 63, 63, 61, 0 }, more[] = { 63, 63, 63, 62, 0 },
			     far[] = { 63, 63, 63, 63, 63, 63, 0 }, label[] = { 63, 1, 0 };
	uint8_t buf[600];
	struct dns_query q;

	CHECK_EQ_INT(look(buf, question(buf, most), &q), DNS_OK);
	CHECK_EQ_INT(strlen(q.name), 253);
	CHECK_EQ_INT(q.question_end, 12 + 255 + 4);
	CHECK_EQ_INT(look(buf, question(buf, more), &q), DNS_FORMERR);
	CHECK_EQ_INT(look(buf, question(buf, far), &q), DNS_FORMERR);
	CHECK_EQ_INT(look(buf, question(buf, label), &q), DNS_OK);
	buf[12] = 64;
	CHECK_EQ_INT(look(buf, 12 + 66 + 5, &q), DNS_FORMERR);
}

TEST(dns_read_refuses_names_that_are_none)
{
	static const char *const rows[] = { "\3a.b",
					    "\2a.",
					    "\1.",
					    "\3a b",
					    "\2a\xe4",
					    "\3\xc3\xa4x",
					    "\4\x01"
					    "abc",
					    "\1*",
					    "\1"
					    "1",
					    "\3"
					    "127\1"
					    "1",
					    "\4"
					    "0x7f" };
	uint8_t buf[100] = HEAD;
	struct dns_query q;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t n = strlen(rows[i]);

		memcpy(buf + 12, rows[i], n);
		(void)put(buf + 12 + n, "\0" A_IN, 5);
		CHECK_EQ_INT(look(buf, 12 + n + 5, &q), DNS_REFUSED);
		CHECK_STR(q.name, "");
		CHECK_EQ_INT(q.question_end, 12 + n + 5);
	}
	/* A NUL inside of a label. */
	CHECK_EQ_INT(look(BYTES(HEAD "\4pypi\4org\0\0" A_IN), &q), DNS_REFUSED);
}

/* "a.b" as one label is not "a", "b"; and no byte of a question can be another without changing
 * what is asked. */
TEST(dns_read_sees_every_byte_that_differs)
{
	uint8_t buf[] = HEAD PYPI A_IN;
	struct dns_query plain, q;

	CHECK_EQ_INT(look(buf, sizeof(buf) - 1, &plain), DNS_OK);
	for (size_t i = 12; i < sizeof(buf) - 1; i++) {
		uint8_t was = buf[i];

		for (unsigned int c = 0; c < 256; c++) {
			bool same = c == was || ((was | 32u) >= 'a' && (c | 32u) == (was | 32u));

			buf[i] = (uint8_t)c;
			if (look(buf, sizeof(buf) - 1, &q) != DNS_OK)
				continue;
			CHECK_EQ_INT(q.type == plain.type && strcmp(q.name, plain.name) == 0, same);
		}
		buf[i] = was;
	}
	for (size_t i = 0; i < 12; i++) {
		uint8_t was = buf[i];

		for (unsigned int c = 0; c < 256; c++) {
			buf[i] = (uint8_t)c;
			if (look(buf, sizeof(buf) - 1, &q) == DNS_OK)
				CHECK_STR(q.name, "pypi.org");
		}
		buf[i] = was;
	}
}

/* --- writing -------------------------------------------------------------------------------------- */

TEST(dns_write_answers_with_an_address)
{
	struct dns_reply r = { .ttl = 60, .has_address = true, .address = { 198, 18, 0, 7 } };
	static const char query[] = HEAD PYPI A_IN;

	CHECK_EQ_INT(reply_to(BYTES(query), &r), 26 + 16);
	CHECK_MEM(answer, "\x12\x34\x81\x80\0\1\0\1\0\0\0\0", 12);
	CHECK_MEM(answer + 12, query + 12, 14); /* letter case, too */
	CHECK_MEM(answer + 26, "\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\0\7", 16);
}

TEST(dns_write_repeats_what_the_client_wants_to_see)
{
	struct dns_reply r = { .ttl = 1, .has_address = true };

	/* RD is repeated; AD, CD, Z and a code in the query are not. */
	CHECK(reply_to(BYTES("\xab\xcd\0\x7f\0\1\0\0\0\0\0\0" PYPI A_IN), &r) > 0);
	CHECK_MEM(answer, "\xab\xcd\x80\x80", 4);
	CHECK(reply_to(BYTES("\xab\xcd\5\x7f\0\1\0\0\0\0\0\0" PYPI A_IN), &r) > 0);
	CHECK_MEM(answer, "\xab\xcd\x81\x80", 4);
	/* An OPT for an OPT, without its options; DO is not for us. */
	CHECK_EQ_INT(reply_to(BYTES(HEAD_OPT PYPI A_IN "\0\0\x29\x10\0\0\0\x80\0\0\x0c\0\x0a\0\x08"
						       "12345678"),
			      &r),
		     26 + 16 + 11);
	CHECK_MEM(answer, "\x12\x34\x81\x80\0\1\0\1\0\0\0\1", 12);
	CHECK_MEM(answer + 26 + 16, "\0\0\x29\x04\xd0\0\0\0\0\0\0", 11);
}

#define SOA_DATA "\x08glovebox\x07invalid\0\x06nobody\x07invalid\0\0\0\0\1"

/* Behind 26 bytes: the SOA of the root, remembered for 30 s. */
static void check_soa(void)
{
	CHECK_MEM(answer + 26, "\0\0\6\0\1\0\0\0\x1e\0\x36" SOA_DATA, 11 + 38);
	CHECK_MEM(answer + 26 + 11 + 50, "\0\0\0\x1e", 4);
	CHECK_EQ_INT(0x36, sizeof(SOA_DATA) - 1 + 16);
}

TEST(dns_write_says_how_long_there_is_none)
{
	struct dns_reply r = { .ttl = 30 };

	CHECK_EQ_INT(reply_to(BYTES(HEAD PYPI A_IN), &r), 26 + 65);
	CHECK_MEM(answer + 2, "\x81\x80\0\1\0\0\0\1\0\0", 10);
	check_soa();
	r.code = DNS_NXDOMAIN;
	CHECK_EQ_INT(reply_to(BYTES(HEAD PYPI A_IN), &r), 26 + 65);
	CHECK_MEM(answer + 2, "\x81\x83\0\1\0\0\0\1\0\0", 10);
	check_soa();
	CHECK_EQ_INT(reply_to(BYTES(HEAD_OPT PYPI A_IN OPT("\4\xd0")), &r), 26 + 65 + 11);
	CHECK_MEM(answer + 2, "\x81\x83\0\1\0\0\0\1\0\1", 10);
	check_soa();
}

TEST(dns_write_sends_a_record_only_where_it_is_asked_for)
{
	struct dns_reply r = { .ttl = 30, .has_address = true, .address = { 1, 2, 3, 4 } };
	uint8_t query[] = HEAD PYPI A_IN;

	for (unsigned int type = 0; type < 300; type++) {
		query[22] = (uint8_t)(type >> 8);
		query[23] = (uint8_t)type;
		CHECK(reply_to(query, 26, &r) > 26);
		CHECK_EQ_INT(u16(6), type == DNS_A || type == DNS_ANY);
		CHECK_EQ_INT(u16(8), !(type == DNS_A || type == DNS_ANY));
		if (type == DNS_A || type == DNS_ANY)
			CHECK_MEM(answer + 26, "\xc0\x0c\0\1", 4);
		else
			check_soa();
	}
	query[22] = 0;
	query[23] = DNS_A;
	for (unsigned int code = DNS_FORMERR; code <= DNS_REFUSED; code++) {
		r.code = (enum dns_code)code;
		CHECK_EQ_INT(reply_to(query, 26, &r), code == DNS_NXDOMAIN ? 26 + 65 : 26);
		CHECK_EQ_INT(answer[3], 0x80 | code);
		CHECK_EQ_INT(u16(6), 0);
		CHECK_EQ_INT(u16(8), code == DNS_NXDOMAIN);
	}
	/* A pointer is for those who ask for pointers. */
	r = (struct dns_reply){ .ttl = 30, .pointer = "pypi.org" };
	CHECK_EQ_INT(reply_to(query, 26, &r), 26 + 65);
}

TEST(dns_write_answers_with_a_pointer)
{
	static const char query[] = HEAD "\1"
					 "7\1"
					 "0\2"
					 "18\3"
					 "198\7in-addr\4arpa\0\0\x0c\0\1";
	struct dns_reply r = { .ttl = 5, .pointer = "Files.PyPI.org" };
	struct dns_query q;
	uint8_t address[4];

	CHECK_EQ_INT(look(BYTES(query), &q), DNS_OK);
	CHECK_EQ_INT(dns_pointer_address(q.name, address), 0);
	CHECK_MEM(address, "\xc6\x12\0\7", 4);
	CHECK_EQ_INT(reply_to(BYTES(query), &r), sizeof(query) - 1 + 12 + 16);
	CHECK_MEM(answer + 2, "\x81\x80\0\1\0\1\0\0\0\0", 10);
	CHECK_MEM(answer + sizeof(query) - 1, "\xc0\x0c\0\x0c\0\1\0\0\0\5\0\x10\5files\4pypi\3org",
		  28);

	r.code = DNS_NXDOMAIN; /* then nobody looks at it */
	r.pointer = "no name";
	CHECK_EQ_INT(reply_to(BYTES(query), &r), sizeof(query) - 1 + 65);
	CHECK_EQ_INT(answer[3] & 15, DNS_NXDOMAIN);
	r.code = DNS_OK;
	CHECK_EQ_INT(reply_to(BYTES(query), &r), sizeof(query) - 1);
	CHECK_MEM(answer + 2, "\x81\x82\0\1\0\0\0\0\0\0", 10);
	r.pointer = "";
	CHECK_EQ_INT(reply_to(BYTES(query), &r), sizeof(query) - 1);
	CHECK_EQ_INT(answer[3] & 15, DNS_SERVFAIL);
}

TEST(dns_write_cuts_what_does_not_fit)
{
	static const uint8_t most[] = { 63, 63, 63, 61, 0 };
	uint8_t buf[600];
	size_t n = question(buf, most), whole = 271 + 12 + 255;
	char pointer[254];
	struct dns_reply r = { .ttl = 5, .pointer = pointer };
	struct dns_query q;

	memset(pointer, 'y', 253);
	pointer[253] = '\0';
	pointer[63] = pointer[127] = pointer[191] = '.';
	buf[n - 3] = DNS_PTR;
	CHECK_EQ_INT(look(buf, n, &q), DNS_OK);
	CHECK_EQ_INT(write_to(&q, buf, n, &r, 4096), 271); /* 512 by UDP */
	CHECK_MEM(answer + 2, "\x83\x80\0\1\0\0\0\0\0\0", 10);
	CHECK_MEM(answer + 12, buf + 12, 271 - 12);
	q.room = whole;
	CHECK_EQ_INT(write_to(&q, buf, n, &r, 4096), whole);
	CHECK_MEM(answer + 2, "\x81\x80\0\1\0\1\0\0\0\0", 10);
	CHECK_EQ_INT(write_to(&q, buf, n, &r, whole - 1), 271);
	CHECK_EQ_INT(answer[2], 0x83);
	q.edns = true; /* wants its place */
	CHECK_EQ_INT(write_to(&q, buf, n, &r, 4096), 271 + 11);
	CHECK_MEM(answer + 2, "\x83\x80\0\1\0\0\0\0\0\1", 10);
	q.room += 11;
	CHECK_EQ_INT(write_to(&q, buf, n, &r, 4096), whole + 11);
}

/* Nothing else can be too long for the least that there is. */
TEST(dns_write_at_every_size)
{
	static const uint8_t most[] = { 63, 63, 63, 61, 0 };
	struct dns_reply r = { .ttl = 5 };
	uint8_t buf[600];
	size_t n = question(buf, most);
	struct dns_query q;

	CHECK_EQ_INT(look(buf, n, &q), DNS_OK);
	q.edns = true;
	for (size_t cap = 0; cap <= DNS_MESSAGE_MAX; cap++) {
		size_t len = write_to(&q, buf, n, &r, cap);

		CHECK_EQ_INT(len, cap < 271 + 11        ? 0
				  : cap < 271 + 65 + 11 ? 271 + 11
							: 271 + 65 + 11);
		if (len > 0)
			CHECK_EQ_INT((answer[2] & 2) != 0, cap < 271 + 65 + 11);
	}
	/* Nor is a query of other lengths than it said read behind its end. */
	for (size_t len = 0; len < n; len++)
		CHECK_EQ_INT(write_to(&q, fence_copy(&fence, buf, len), len, &r, 512), 0);
	q.question_end = 3;
	CHECK_EQ_INT(write_to(&q, buf, n, &r, 512), 0);
}

TEST(dns_write_answers_what_has_no_question)
{
	static const char notify[] = "\x12\x34\x21\0\0\1\0\0\0\0\0\0" PYPI A_IN;
	struct dns_reply r = { .code = DNS_NOTIMP, .has_address = true };
	struct dns_query q;

	CHECK_EQ_INT(reply_to(BYTES(notify), &r), 12);
	CHECK_MEM(answer, "\x12\x34\xa1\x84\0\0\0\0\0\0\0\0", 12);
	r.code = DNS_FORMERR;
	CHECK_EQ_INT(reply_to(BYTES("\x12\x34\0\0\0\2\0\0\0\0\0\0"), &r), 12);
	CHECK_MEM(answer, "\x12\x34\x80\x81\0\0\0\0\0\0\0\0", 12);
	/* There is no name that a record could be of. */
	r.code = DNS_OK;
	CHECK_EQ_INT(look(BYTES("\x12\x34\0\0\0\2\0\0\0\0\0\0"), &q), DNS_FORMERR);
	q.type = DNS_A;
	CHECK_EQ_INT(write_to(&q, BYTES("\x12\x34\0\0\0\2\0\0\0\0\0\0"), &r, 512), 12 + 65);
	CHECK_EQ_INT(u16(6), 0);
}

TEST(dns_pointer_address_takes_whole_addresses_only)
{
	static const char *const bad[] = {
		"",
		"in-addr.arpa",
		".in-addr.arpa",
		"0.18.198.in-addr.arpa",
		"1.7.0.18.198.in-addr.arpa",
		"07.0.18.198.in-addr.arpa",
		"256.0.18.198.in-addr.arpa",
		"7.0.18.198.in-addr.arpa.",
		"7.0.18.198in-addr.arpa",
		"7.0.18.198.in-addr.arpa.evil.example",
		"7.0.18.198.ip6.arpa",
		"x.0.18.198.in-addr.arpa",
		"7.0.18.198",
	};
	uint8_t address[4];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK_EQ_INT(dns_pointer_address(bad[i], address), -EINVAL);
	CHECK_EQ_INT(dns_pointer_address("0.2.1.255.in-addr.arpa", address), 0);
	CHECK_MEM(address, "\xff\1\2\0", 4);
}
