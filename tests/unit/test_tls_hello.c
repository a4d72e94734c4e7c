/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls_hello.h"

#include "base/own.h"

#include <errno.h>

#include "test_help.h"
#include "test_tls_hello.h"

#define BYTES(s) s, sizeof(s) - 1

/* --- hellos, made by hand ------------------------------------------------------------------------- */

struct out {
	uint8_t p[140000];
	size_t n;
};

static void put(struct out *o, const void *p, size_t n)
{
	CHECK(n <= sizeof(o->p) - o->n);
	if (n > 0)
		memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void put_number(struct out *o, size_t v, unsigned int width)
{
	while (width-- > 0)
		put(o, &(uint8_t){ (uint8_t)(v >> (8 * width)) }, 1);
}

static void put_vec(struct out *o, unsigned int width, const void *p, size_t n)
{
	put_number(o, n, width);
	put(o, p, n);
}

static void put_extension(struct out *o, unsigned int type, const void *p, size_t n)
{
	put_number(o, type, 2);
	put_vec(o, 2, p, n);
}

/* server_name with one name of that kind. */
static void put_sni(struct out *o, unsigned int kind, const void *p, size_t n)
{
	put_number(o, 0, 2);
	put_number(o, n + 5, 2);
	put_number(o, n + 3, 2);
	put_number(o, kind, 1);
	put_vec(o, 2, p, n);
}

/* What a hello is made of; what is not set is as most have it. */
struct parts {
	unsigned int version;
	const char *session, *suites, *compression;
	size_t nsession, nsuites, ncompression;
	const struct out *extensions; /* NULL: there is no field for them */
	const char *tail;
	size_t ntail;
};

static void put_message(struct out *o, const struct parts *m)
{
	static struct out body;

	body.n = 0;
	put_number(&body, m->version != 0 ? m->version : 0x0303, 2);
	put(&body, "rrrrrrrrrrrrrrrrRRRRRRRRRRRRRRRR", 32);
	put_vec(&body, 1, m->session, m->nsession);
	put_vec(&body, 2, m->suites != NULL ? m->suites : "\x1a\x1a\x13\x01",
		m->suites != NULL ? m->nsuites : 4);
	put_vec(&body, 1, m->compression != NULL ? m->compression : "\0",
		m->compression != NULL ? m->ncompression : 1);
	if (m->extensions != NULL)
		put_vec(&body, 2, m->extensions->p, m->extensions->n);
	put(&body, m->tail, m->ntail);
	put_number(o, 1, 1);
	put_vec(o, 3, body.p, body.n);
}

/* In records of that many bytes. */
static void put_records(struct out *o, const uint8_t *p, size_t n, size_t size)
{
	for (size_t at = 0; at < n; at += size) {
		put(o, "\x16\x03\x01", 3);
		put_vec(o, 2, p + at, n - at < size ? n - at : size);
	}
}

static void make(struct out *o, const struct parts *m, size_t size)
{
	static struct out message;

	message.n = 0;
	put_message(&message, m);
	o->n = 0;
	put_records(o, message.p, message.n, size);
}

/* --- looking at them ------------------------------------------------------------------------------ */

static struct fence fence;

/* But for what they need. */
static bool same(const struct tls_hello *a, const struct tls_hello *b)
{
	return a->has_name == b->has_name && strcmp(a->name, b->name) == 0 &&
	       a->has_ech == b->has_ech && a->has_alpn == b->has_alpn &&
	       a->offers_h2 == b->offers_h2 && a->offers_http1 == b->offers_http1 &&
	       a->version == b->version;
}

static int look(const uint8_t *p, size_t n, struct tls_hello *h)
{
	int r;

	if (fence.map == NULL)
		fence = fence_open(140000);
	memset(h, 0x55, sizeof(*h));
	r = tls_hello_read(fence_copy(&fence, p, n), n, h);
	CHECK(r == 1 || same(h, &(struct tls_hello){ 0 }));
	CHECK(r != 0 || (h->needs > n && h->needs <= TLS_HELLO_MAX));
	CHECK(r != 1 || h->needs <= n);
	CHECK(r >= 0 || h->needs == 0);
	return r;
}

/* A hello with these extensions and nothing special, in one record. */
static int look_with(const struct out *extensions, struct tls_hello *h)
{
	static struct out o;

	make(&o, &(struct parts){ .extensions = extensions }, 16384);
	return look(o.p, o.n, h);
}

static int look_name(unsigned int kind, const void *p, size_t n, struct tls_hello *h)
{
	static struct out e;

	e.n = 0;
	put_sni(&e, kind, p, n);
	return look_with(&e, h);
}

/* --- what is taken -------------------------------------------------------------------------------- */

TEST(tls_hello_read_takes_what_openssl_sends)
{
	struct tls_hello h;

	CHECK_EQ_INT(look(of_openssl, sizeof(of_openssl), &h), 1);
	CHECK(h.has_name && h.has_alpn && h.offers_h2 && h.offers_http1 && !h.has_ech);
	CHECK_STR(h.name, "pypi.org");
	CHECK_EQ_INT(h.version, 0x0304);
	CHECK_EQ_INT(h.needs, sizeof(of_openssl));
}

TEST(tls_hello_read_takes_what_python_sends)
{
	struct tls_hello h;

	CHECK_EQ_INT(look(of_python, sizeof(of_python), &h), 1);
	CHECK(h.has_name && h.has_alpn && !h.offers_h2 && h.offers_http1 && !h.has_ech);
	CHECK_STR(h.name, "files.pythonhosted.org");
	CHECK_EQ_INT(h.version, 0x0304);
	CHECK_EQ_INT(h.needs, sizeof(of_python));
}

/* The extensions of a browser: GREASE wherever it may be, a key that is too long for a segment,
 * ECH. */
static void put_browser(struct out *e, const char *name)
{
	static uint8_t key[1300];

	e->n = 0;
	put_extension(e, 0x4a4a, NULL, 0);
	put_extension(e, 0x0017, NULL, 0);
	put_sni(e, 0, name, strlen(name));
	put_extension(e, 0x000a, BYTES("\x00\x08\x2a\x2a\x11\xec\x00\x1d\x00\x17"));
	put_extension(e, 0x0010, BYTES("\x00\x0f\x02\x5a\x5a\x02h2\x08http/1.1"));
	put_extension(e, 0xfe0d, BYTES("\0\0\1\0\1\x55\0\4eeee\0\4pppp"));
	put_extension(e, 0x0033, key, sizeof(key));
	put_extension(e, 0x002b, BYTES("\x06\xda\xda\x03\x04\x03\x03"));
	put_extension(e, 0xfafa, BYTES("\0"));
}

TEST(tls_hello_read_takes_grease_and_sees_ech)
{
	static struct out e;
	struct tls_hello h;

	put_browser(&e, "Www.Example.COM");
	CHECK_EQ_INT(look_with(&e, &h), 1);
	CHECK_STR(h.name, "www.example.com");
	CHECK(h.has_name && h.has_ech && h.has_alpn && h.offers_h2 && h.offers_http1);
	CHECK_EQ_INT(h.version, 0x0304);
}

TEST(tls_hello_read_takes_old_ones)
{
	static struct out o, e;
	struct tls_hello h;

	for (unsigned int v = 0x0301; v <= 0x0303; v++) {
		make(&o, &(struct parts){ .version = v }, 16384);
		CHECK_EQ_INT(look(o.p, o.n, &h), 1);
		CHECK_EQ_INT(h.version, v);
		CHECK(!h.has_name && !h.has_alpn && !h.has_ech);
		CHECK_STR(h.name, "");
	}
	make(&o, &(struct parts){ .extensions = &e }, 16384); /* a field for none */
	CHECK_EQ_INT(look(o.p, o.n, &h), 1);
	make(&o, &(struct parts){ .compression = "\1\0", .ncompression = 2 }, 16384);
	CHECK_EQ_INT(look(o.p, o.n, &h), 1);
}

TEST(tls_hello_read_knows_protocols_by_their_names)
{
	static const struct {
		const char *list;
		size_t n;
		bool h2, http1;
	} rows[] = {
		{ BYTES("\2h2"), true, false },
		{ BYTES("\10http/1.1"), false, true },
		{ BYTES("\10http/1.0"), false, true },
		{ BYTES("\3h2c\2h3\1h\10http/0.9\2H2\3dot"), false, false },
		{ BYTES("\1h\1"
			"2\2h2"),
		  true, false },
		{ BYTES("\2\0h\10http/1.1\2h2\2h2"), true, true },
	};
	struct tls_hello h;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		static struct out e, list;

		e.n = list.n = 0;
		put_vec(&list, 2, rows[i].list, rows[i].n);
		put_extension(&e, 16, list.p, list.n);
		CHECK_EQ_INT(look_with(&e, &h), 1);
		CHECK(h.has_alpn);
		CHECK_EQ_INT(h.offers_h2, rows[i].h2);
		CHECK_EQ_INT(h.offers_http1, rows[i].http1);
	}
}

TEST(tls_hello_read_finds_the_highest_version)
{
	static const struct {
		const char *list;
		size_t n;
		int version;
	} rows[] = {
		{ BYTES("\2\3\4"), 0x0304 },
		{ BYTES("\4\3\3\3\4"), 0x0304 },
		{ BYTES("\2\3\1"), 0x0301 }, /* whatever the hello itself says */
		{ BYTES("\4\x7f\x1c\3\3"), 0x0303 },
		{ BYTES("\2\x1a\x1a"), -EBADMSG },
		{ BYTES("\2\3\0"), -EBADMSG },
		{ BYTES("\0"), -EBADMSG },
		{ BYTES(""), -EBADMSG },
		{ BYTES("\3\3\4\3"), -EBADMSG },
		{ BYTES("\2\3\4\3"), -EBADMSG },
		{ BYTES("\4\3\4"), -EBADMSG },
	};
	struct tls_hello h;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		static struct out e;
		int r;

		e.n = 0;
		put_extension(&e, 43, rows[i].list, rows[i].n);
		r = look_with(&e, &h);
		CHECK_EQ_INT(r == 1 ? h.version : r, rows[i].version);
	}
}

/* --- what is not ---------------------------------------------------------------------------------- */

TEST(tls_hello_read_refuses_names_that_are_none)
{
	static const char *const rows[] = { "",           "127.0.0.1", "1.2.3.4.", "0x7f.1",
					    "2130706433", "::1",       "[::1]",    "a..b",
					    ".a",         ".",         "a b",      "a\n",
					    "\xc3\xa4",   "a:443",     "*.a",      "a\x7f",
					    "a/b" };
	char longest[300];
	struct tls_hello h;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		CHECK_EQ_INT(look_name(0, rows[i], strlen(rows[i]), &h), -EBADMSG);
	CHECK_EQ_INT(look_name(0, "pypi.org\0", 9, &h), -EBADMSG);
	CHECK_EQ_INT(look_name(0, "pypi.org\0.evil.example", 22, &h), -EBADMSG);
	CHECK_EQ_INT(look_name(0, "pypi.org.", 9, &h), 1);
	CHECK_STR(h.name, "pypi.org");

	memset(longest, 'a', sizeof(longest));
	longest[63] = longest[127] = longest[191] = '.';
	CHECK_EQ_INT(look_name(0, longest, 253, &h), 1);
	CHECK_EQ_INT(strlen(h.name), 253);
	for (size_t n = 254; n <= sizeof(longest); n++)
		CHECK_EQ_INT(look_name(0, longest, n, &h), -EBADMSG);
	longest[253] = '.';
	CHECK_EQ_INT(look_name(0, longest, 254, &h), 1);
	CHECK_EQ_INT(strlen(h.name), 253);
}

TEST(tls_hello_read_takes_one_name_only)
{
	static const struct {
		const char *p;
		size_t n;
	} rows[] = {
		{ BYTES("") }, /* a server may say that */
		{ BYTES("\0\0") },
		{ BYTES("\0\3\0\0\0") },
		{ BYTES("\0\4\1\0\1a") },         /* another kind */
		{ BYTES("\0\10\0\0\1a\0\0\1b") }, /* two */
		{ BYTES("\0\10\0\0\1a\0\0\1a") }, /* the same twice */
		{ BYTES("\0\10\0\0\1a\1\0\1b") }, /* and another kind */
		{ BYTES("\0\5\0\0\1a\0") },       /* bytes behind the name, */
		{ BYTES("\0\4\0\0\1a\0") },       /* behind the list */
		{ BYTES("\0\5\0\0\1a") },         /* a list that is too long, */
		{ BYTES("\0\3\0\0\1a") },         /* too short */
		{ BYTES("\0\4\0\0\2a") },         /* a name that is too long, */
		{ BYTES("\0\5\0\0\1ab") },        /* too short */
		{ BYTES("\0\2\0\0") },
		{ BYTES("\0") },
	};
	struct tls_hello h;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		static struct out e;

		e.n = 0;
		put_extension(&e, 0, rows[i].p, rows[i].n);
		CHECK_EQ_INT(look_with(&e, &h), -EBADMSG);
	}
	CHECK_EQ_INT(look_name(0, "a", 1, &h), 1);
	for (unsigned int kind = 1; kind < 256; kind++)
		CHECK_EQ_INT(look_name(kind, "a", 1, &h), -EBADMSG);
}

TEST(tls_hello_read_refuses_lists_of_protocols_that_do_not_add_up)
{
	static const struct {
		const char *p;
		size_t n;
	} rows[] = {
		{ BYTES("") },           { BYTES("\0\0") },         { BYTES("\0\1\0") },
		{ BYTES("\0\4\2h2\0") }, { BYTES("\0\3\2h2\0") },   { BYTES("\0\2\2h2") },
		{ BYTES("\0\4\2h2") },   { BYTES("\0\3\3h2") },     { BYTES("\0\5\2h2\2h") },
		{ BYTES("\0") },         { BYTES("\0\5\0\2h2\0") },
	};
	struct tls_hello h;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		static struct out e;

		e.n = 0;
		put_extension(&e, 16, rows[i].p, rows[i].n);
		CHECK_EQ_INT(look_with(&e, &h), -EBADMSG);
	}
}

TEST(tls_hello_read_takes_each_extension_once)
{
	static const unsigned int types[] = { 0x0a0a, 1, 7, 8, 35, 0xfe0d, 0xffff, 0x0100 };
	static struct out e;
	struct tls_hello h;

	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		e.n = 0;
		for (size_t k = 0; k < ARRAY_LEN(types); k++)
			put_extension(&e, types[k], "x", 1);
		CHECK_EQ_INT(look_with(&e, &h), 1);
		put_extension(&e, types[i], "", 0);
		CHECK_EQ_INT(look_with(&e, &h), -EBADMSG);
	}
	e.n = 0;
	put_sni(&e, 0, "a", 1);
	put_sni(&e, 0, "a", 1);
	CHECK_EQ_INT(look_with(&e, &h), -EBADMSG);
	/* However many there are, and whatever is between the two. */
	e.n = 0;
	for (unsigned int type = 44; e.n + 8 < 65000; type++)
		put_extension(&e, type, NULL, 0);
	CHECK_EQ_INT(look_with(&e, &h), 1);
	put_extension(&e, 44, NULL, 0);
	CHECK_EQ_INT(look_with(&e, &h), -EBADMSG);
}

TEST(tls_hello_read_refuses_messages_that_do_not_add_up)
{
	static struct out o, e;
	const struct parts rows[] = {
		{ .version = 0x0300 },
		{ .version = 0x0304 },
		{ .version = 0x0203 },
		{ .version = 0xfefd },
		{ .session = "012345678901234567890123456789012", .nsession = 33 },
		{ .suites = "", .nsuites = 0 },
		{ .suites = "\x13\x01\x13", .nsuites = 3 },
		{ .compression = "", .ncompression = 0 },
		{ .compression = "\1", .ncompression = 1 },
		{ .tail = "\0", .ntail = 1 },             /* half a length */
		{ .tail = "\0\0\0", .ntail = 3 },         /* behind extensions */
		{ .tail = "\0\5\0\1\0\0", .ntail = 6 },   /* extensions are too long */
		{ .tail = "\0\3\0\1\0\0", .ntail = 6 },   /* too short */
		{ .tail = "\0\4\0\1\0\1", .ntail = 6 },   /* one is too long */
		{ .tail = "\0\5\0\1\0\0\0", .ntail = 7 }, /* half of one */
		{ .extensions = &e, .tail = "\0", .ntail = 1 },
	};
	struct tls_hello h;

	put_sni(&e, 0, "pypi.org", 8);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		make(&o, &rows[i], 16384);
		CHECK_EQ_INT(look(o.p, o.n, &h), -EBADMSG);
	}
	make(&o,
	     &(struct parts){ .extensions = &e,
			      .session = "01234567890123456789012345678901",
			      .nsession = 32 },
	     16384);
	CHECK_EQ_INT(look(o.p, o.n, &h), 1);
	/* A message that ends within each of its fields: its length is one of its own. */
	for (size_t n = o.n - 9; n-- > 0;) {
		static struct out cut;

		cut.n = 0;
		put(&cut, "\x16\x03\x01", 3);
		put_number(&cut, n + 4, 2);
		put(&cut, "\1", 1);
		put_vec(&cut, 3, o.p + 9, n);
		/* In front of its extensions there may be an end. */
		CHECK_EQ_INT(look(cut.p, cut.n, &h), n == o.n - 9 - 2 - e.n ? 1 : -EBADMSG);
		CHECK(!h.has_name);
	}
}

/* --- records -------------------------------------------------------------------------------------- */

TEST(tls_hello_may_be_looks_at_six_bytes)
{
	static const uint8_t first[] = { 22, 3, 1, 2, 5, 1 };

	for (size_t n = 0; n <= sizeof(first); n++)
		CHECK(tls_hello_may_be(first, n));
	for (size_t i = 0; i < sizeof(first); i++)
		for (unsigned int c = 0; c < 256; c++) {
			uint8_t p[sizeof(first)];
			bool good = i == 0   ? c == 22
				    : i == 1 ? c == 3
				    : i == 2 ? c >= 1 && c <= 3
				    : i == 3 ? c <= 64
				    : i == 4 ? true
					     : c == 1;

			memcpy(p, first, sizeof(p));
			p[i] = (uint8_t)c;
			CHECK_EQ_INT(tls_hello_may_be(p, i + 1), good);
			if (i == 3 && c == 64)
				good = false; /* 16389 */
			CHECK_EQ_INT(tls_hello_may_be(p, sizeof(p)), good);
			CHECK(tls_hello_may_be(p, i));
		}
	CHECK(!tls_hello_may_be((const uint8_t *)"\x16\3\1\0\0\1", 6));
	CHECK(!tls_hello_may_be((const uint8_t *)"\x16\3\1\0\0", 5));
	CHECK(tls_hello_may_be((const uint8_t *)"\x16\3\1\x40\0\1", 6));
	CHECK(!tls_hello_may_be((const uint8_t *)"\x16\3\1\x40\1\1", 6));
	CHECK(!tls_hello_may_be((const uint8_t *)"GET / HTTP/1.1", 14));
	CHECK(!tls_hello_may_be((const uint8_t *)"SSH-2.0-x", 9));
	CHECK(!tls_hello_may_be((const uint8_t *)"\x80\x2e\1\3\1", 5)); /* as SSL 2 had it */
}

TEST(tls_hello_read_wants_the_whole_at_every_size)
{
	static const struct {
		const uint8_t *p;
		size_t n;
	} rows[] = { { of_openssl, sizeof(of_openssl) }, { of_python, sizeof(of_python) } };
	static struct out o, e;
	struct tls_hello h;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t n = 0; n < rows[i].n; n++)
			CHECK_EQ_INT(look(rows[i].p, n, &h), 0);
	put_browser(&e, "www.example.com");
	for (size_t size = 30; size < 1600; size += 97) {
		make(&o, &(struct parts){ .extensions = &e }, size);
		for (size_t n = 0; n < o.n; n++)
			CHECK_EQ_INT(look(o.p, n, &h), 0);
		CHECK_EQ_INT(look(o.p, o.n, &h), 1);
		CHECK_STR(h.name, "www.example.com");
	}
}

/* Wherever it is cut: in the head of the message, in lengths, in the name. */
TEST(tls_hello_read_does_not_care_how_records_are_cut)
{
	static struct out o, e, message;
	struct tls_hello whole, h;

	put_sni(&e, 0, "pypi.org", 8);
	put_extension(&e, 16, BYTES("\0\14\2h2\10http/1.1"));
	put_extension(&e, 43, BYTES("\4\3\4\3\3"));
	put_message(&message, &(struct parts){ .extensions = &e });
	CHECK(message.n > 64 && message.n < 128);
	put_records(&o, message.p, message.n, 16384);
	CHECK_EQ_INT(look(o.p, o.n, &whole), 1);
	for (size_t size = 2; size <= message.n; size++) {
		o.n = 0;
		put_records(&o, message.p, message.n, size);
		CHECK_EQ_INT(look(o.p, o.n, &h), 1);
		CHECK_EQ_INT(h.needs, o.n);
		CHECK(same(&h, &whole));
	}
	for (size_t cut = 1; cut < message.n; cut++) {
		o.n = 0;
		put_records(&o, message.p, cut, 16384);
		put(&o, "\x16\3\3", 3); /* another version is no matter */
		put_vec(&o, 2, message.p + cut, message.n - cut);
		CHECK_EQ_INT(look(o.p, o.n, &h), 1);
		CHECK_STR(h.name, "pypi.org");
		/* What is behind it is another's. */
		put(&o, "\x14\3\3\0\1\1 and anything", 19);
		CHECK_EQ_INT(look(o.p, o.n, &h), 1);
		CHECK_EQ_INT(h.needs, o.n - 19);
	}
}

TEST(tls_hello_read_refuses_what_is_between_or_behind_in_records)
{
	static const char *const others[] = { "\x14\3\1\0\1",  "\x15\3\1\0\1", "\x17\3\1\0\1",
					      "\x16\3\0\0\1",  "\x16\3\4\0\1", "\x16\2\1\0\1",
					      "\x16\3\1\x40\1" };
	static struct out o;
	struct tls_hello h;

	for (size_t i = 0; i < ARRAY_LEN(others); i++) {
		o.n = 0;
		put_records(&o, of_openssl + 5, 100, 100);
		put(&o, others[i], 5);
		put(&o, of_openssl + 105, sizeof(of_openssl) - 105);
		CHECK_EQ_INT(look(o.p, o.n, &h), -EBADMSG);
	}
	o.n = 0;
	put_records(&o, of_openssl + 5, 100, 100);
	put(&o, "\x16\3\1\0\0", 5); /* an empty one */
	put_records(&o, of_openssl + 105, sizeof(of_openssl) - 105, 16384);
	CHECK_EQ_INT(look(o.p, o.n, &h), -EBADMSG);
	/* A byte behind the message, in its record; refused as soon as lengths say so. */
	o.n = 0;
	put(&o, "\x16\3\1", 3);
	put_number(&o, sizeof(of_openssl) - 5 + 1, 2);
	put(&o, of_openssl + 5, sizeof(of_openssl) - 5);
	put(&o, "", 1);
	CHECK_EQ_INT(look(o.p, o.n, &h), -EBADMSG);
	CHECK_EQ_INT(look(o.p, 9, &h), -EBADMSG);
	CHECK_EQ_INT(look(o.p, 8, &h), 0);
	/* Another message, known by its first byte. */
	o.n = 0;
	put(&o, of_openssl, sizeof(of_openssl));
	for (unsigned int type = 0; type < 256; type++) {
		o.p[5] = (uint8_t)type;
		CHECK_EQ_INT(look(o.p, o.n, &h), type == 1 ? 1 : -EBADMSG);
		CHECK_EQ_INT(look(o.p, 6, &h), type == 1 ? 0 : -EBADMSG);
	}
	CHECK_EQ_INT(look((const uint8_t *)"\x16\3\1\0\4\2\0\0\0", 9, &h), -EBADMSG);
	CHECK_EQ_INT(look((const uint8_t *)"\x16\3\1\0\4\1\0\0\0", 9, &h), -EBADMSG);
}

TEST(tls_hello_read_keeps_its_bounds)
{
	static struct out o, e, message;
	static uint8_t filling[66000];
	struct tls_hello h;
	size_t room = TLS_HELLO_MAX - 4 * 5; /* four records are enough for the longest */

	/* Exactly as long as it may be, and a byte more. */
	put_extension(&e, 21, filling, 60000);
	put_message(&message, &(struct parts){ .extensions = &e });
	for (unsigned int more = 0; more < 2; more++) {
		size_t n = 60000 + room - message.n + more;

		e.n = 0;
		put_extension(&e, 21, filling, n);
		o.n = 0;
		make(&o, &(struct parts){ .extensions = &e }, 16384);
		CHECK_EQ_INT(o.n, TLS_HELLO_MAX + more);
		CHECK_EQ_INT(look(o.p, o.n, &h), more == 0 ? 1 : -E2BIG);
	}
	/* What says so from the beginning is not waited for. */
	CHECK_EQ_INT(look((const uint8_t *)"\x16\3\1\x40\0\1\1\0\0", 9, &h), -E2BIG);
	CHECK_EQ_INT(look((const uint8_t *)"\x16\3\1\x40\0\1\0\xff\xf7", 9, &h), 0);
	CHECK_EQ_INT(look((const uint8_t *)"\x16\3\1\x40\0\1\0\xff\xf8", 9, &h), -E2BIG);
	CHECK_EQ_INT(look((const uint8_t *)"\x16\3\1\x40\0\1\xff\xff\xff", 9, &h), -E2BIG);

	/* 64 records, and one more, which is not waited for. */
	e.n = message.n = 0;
	put_extension(&e, 21, filling, 640);
	put_message(&message, &(struct parts){ .extensions = &e });
	for (size_t size = 1; size <= message.n; size++) {
		size_t count = (message.n + size - 1) / size;

		o.n = 0;
		put_records(&o, message.p, message.n, size);
		CHECK_EQ_INT(look(o.p, o.n, &h), count <= 64 ? 1 : -E2BIG);
		if (count > 64)
			CHECK_EQ_INT(look(o.p, 64 * (5 + size), &h), -E2BIG);
	}
}

TEST(tls_hello_needs_makes_looking_again_rare)
{
	static struct out o, e, message;
	struct tls_hello h;

	/* What may be one is known by 6 bytes; then it is whole records and their heads. */
	put_records(&o, of_openssl + 5, sizeof(of_openssl) - 5, 100);
	for (size_t n = 0; n < 3 * 105; n++) {
		size_t at = n % 105;

		CHECK_EQ_INT(look(o.p, n, &h), 0);
		CHECK_EQ_INT(h.needs, n < 6 ? 6 : n - at + (at < 5 ? 5 : 105));
	}
	put_browser(&e, "www.example.com");
	put_message(&message, &(struct parts){ .extensions = &e });
	for (size_t size = 30; size < message.n + 100; size += 10) {
		size_t needs = 0, records = (message.n + size - 1) / size, looks = 0;
		int r = 0;

		o.n = 0;
		put_records(&o, message.p, message.n, size);
		/* A byte at a time. */
		for (size_t n = 1; n <= o.n; n++) {
			if (n < needs)
				continue;
			CHECK_EQ_INT(r, 0);
			r = look(o.p, n, &h);
			needs = h.needs;
			looks++;
		}
		CHECK_EQ_INT(r, 1);
		CHECK(looks <= 2 * records + 1);
	}
}

/* --- every byte counts ---------------------------------------------------------------------------- */

/* One byte that is another: refused, or not the same name, or not in the name. */
static void corrupt(const uint8_t *p, size_t n, size_t name_at, size_t name_len)
{
	static uint8_t buf[1024];
	struct tls_hello plain, h;

	CHECK(n <= sizeof(buf));
	memcpy(buf, p, n);
	CHECK_EQ_INT(look(p, n, &plain), 1);
	for (size_t i = 0; i < n; i++) {
		bool in_name = i >= name_at && i < name_at + name_len;

		for (unsigned int c = 0; c < 256; c++) {
			bool as_before = p[i] == c || (p[i] >= 'a' && (c | 32u) == p[i]);
			int r;

			buf[i] = (uint8_t)c;
			r = look(buf, n, &h);
			if (r == 1 && in_name)
				CHECK_EQ_INT(strcmp(h.name, plain.name) == 0, as_before);
			/* Or there is none, where its extension is another. */
			else if (r == 1)
				CHECK_STR(h.name, h.has_name ? plain.name : "");
		}
		buf[i] = p[i];
	}
}

TEST(tls_hello_read_sees_every_byte_of_the_name)
{
	static const struct {
		const uint8_t *p;
		size_t n;
		const char *name;
	} rows[] = {
		{ of_openssl, sizeof(of_openssl), "pypi.org" },
		{ of_python, sizeof(of_python), "files.pythonhosted.org" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		size_t len = strlen(rows[i].name);
		const uint8_t *at = memmem(rows[i].p, rows[i].n, rows[i].name, len);

		CHECK(at != NULL);
		corrupt(rows[i].p, rows[i].n, (size_t)(at - rows[i].p), len);
	}
}
