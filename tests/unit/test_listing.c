/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/listing.c, listing_read.c, pieces.c: records that come out of a box, in whatever pieces. */
#include "wire/listing.h"

#include <errno.h>
#include <string.h>

#include "base/own.h"
#include "wire/msg.h"

#include "test_help.h"

static struct listing_entry entry(char type, const char *path)
{
	struct listing_entry e = { .type = type,
				   .mode = 0100644,
				   .size = UINT64_MAX,
				   .mtime_ns = 1,
				   .ctime_ns = 2,
				   .inode = 3 };

	CHECK(strlen(path) < sizeof(e.path));
	memcpy(e.path, path, strlen(path) + 1);
	return e;
}

/* What came out. */
struct seen {
	unsigned int n, stop_at;
	int stop_with;
	struct listing_entry last;
	uint64_t hash;
};

static int see(void *arg, const struct listing_entry *e)
{
	struct seen *s = arg;

	s->n++;
	s->last = *e;
	s->hash = s->hash * 31 + e->inode;
	for (const char *c = e->path; *c != '\0'; c++)
		s->hash = s->hash * 31 + (unsigned char)*c;
	return s->n == s->stop_at ? s->stop_with : 0;
}

TEST(listing_record_comes_back)
{
	static const char types[] = "fdlo";
	static struct listing_reader r;
	struct seen s = { 0 };
	uint8_t buf[128];

	for (unsigned int i = 0; i < 4; i++) {
		struct listing_entry e = entry(types[i], "a/b c/\xc3\xa9");
		ptrdiff_t n = listing_encode(&e, buf, sizeof(buf));

		CHECK(n > 0);
		CHECK_EQ_INT(listing_feed(&r, buf, (size_t)n, see, &s), 0);
		CHECK_EQ_INT(s.n, i + 1);
		CHECK(s.last.type == e.type && s.last.mode == e.mode && s.last.size == e.size);
		CHECK(s.last.mtime_ns == 1 && s.last.ctime_ns == 2 && s.last.inode == 3);
		CHECK_EQ_INT(s.last.flags, 0);
		CHECK_STR(s.last.path, e.path);
		CHECK_STR(s.last.target, "");
		CHECK_EQ_INT(listing_end(&r), 0);
	}
}

TEST(listing_record_is_laid_out_as_documented)
{
	static const uint8_t want[] = {
		49,   0,    0,    0,                            /* length of the rest */
		'l',                                            /* type */
		1,                                              /* flags */
		0xa4, 0x81, 0,    0,                            /* mode */
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* size */
		1,    0,    0,    0,    0,    0,    0,    0,    /* mtime */
		2,    0,    0,    0,    0,    0,    0,    0,    /* ctime */
		3,    0,    0,    0,    0,    0,    0,    0,    /* inode */
		1,    0,    0,    0,    'x',                    /* path */
		2,    0,    0,    0,    '.',  '.',              /* target */
	};
	struct listing_entry e = entry('l', "x");
	uint8_t buf[128];

	e.flags = LISTING_NEW | LISTING_RAW; /* the second is not sent */
	memcpy(e.target, "..", 3);

	CHECK_EQ_INT(listing_encode(&e, buf, sizeof(buf)), sizeof(want));
	CHECK_MEM(buf, want, sizeof(want));
}

TEST(listing_encode_fails_cleanly_at_every_size)
{
	struct fence f = fence_open(256);
	struct listing_entry e = entry('f', "some/path");
	uint8_t whole[256];
	ptrdiff_t n = listing_encode(&e, whole, sizeof(whole));

	CHECK(n > 0);
	for (size_t cap = 0; cap <= (size_t)n + 4; cap++) {
		uint8_t *buf = fence_at(&f, cap);

		CHECK_EQ_INT(listing_encode(&e, buf, cap), cap < (size_t)n ? -EMSGSIZE : n);
		if (cap >= (size_t)n)
			CHECK_MEM(buf, whole, (size_t)n);
	}
	fence_close(&f);
}

TEST(listing_takes_the_longest_path)
{
	static struct listing_reader r;
	static uint8_t buf[LISTING_HEADER + LISTING_RECORD_MAX];
	static char path[PATH_MAX];
	struct listing_entry e;
	struct seen s = { 0 };
	ptrdiff_t n;

	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 256 == 255 ? '/' : 'p';
	path[sizeof(path) - 1] = '\0';
	e = entry('l', path);
	memcpy(e.target, path, sizeof(path));
	n = listing_encode(&e, buf, sizeof(buf));
	CHECK_EQ_INT(n, LISTING_HEADER + LISTING_RECORD_MAX);
	CHECK_EQ_INT(listing_feed(&r, buf, (size_t)n, see, &s), 0);
	CHECK_EQ_INT(s.n, 1);
	CHECK_STR(s.last.path, path);
	CHECK_STR(s.last.target, path);
}

TEST(listing_in_pieces_is_listing_as_a_whole)
{
	static uint8_t stream[100000];
	static struct listing_reader r;
	size_t len = 0;
	uint64_t seed = 8;
	struct seen whole = { 0 };

	for (unsigned int i = 0; len + 400 < sizeof(stream); i++) {
		struct listing_entry e = entry("fdlo"[i % 4], "x");
		size_t n = 1 + rnd_below(&seed, 250);

		memset(e.path, 'a' + (int)(i % 26), n);
		e.path[n] = '\0';
		e.inode = i;
		len += (size_t)listing_encode(&e, stream + len, sizeof(stream) - len);
	}
	CHECK_EQ_INT(listing_feed(&r, stream, len, see, &whole), 0);
	CHECK_EQ_INT(listing_end(&r), 0);
	CHECK(whole.n > 100);
	for (size_t max = 1; max < 2000; max = max * 2 + 1) {
		struct seen s = { 0 };

		for (size_t at = 0; at < len;) {
			size_t n = rnd_below(&seed, max + 1); /* also nothing at all */

			if (n > len - at)
				n = len - at;
			CHECK_EQ_INT(listing_feed(&r, stream + at, n, see, &s), 0);
			at += n;
		}
		CHECK_EQ_INT(listing_end(&r), 0);
		CHECK_EQ_INT(s.n, whole.n);
		CHECK(s.hash == whole.hash);
	}
}

TEST(listing_end_misses_the_rest_of_a_record)
{
	static struct listing_reader r;
	struct listing_entry e = entry('f', "path");
	struct seen s = { 0 };
	uint8_t buf[128];
	ptrdiff_t n = listing_encode(&e, buf, sizeof(buf));

	CHECK_EQ_INT(listing_end(&r), 0);
	for (ptrdiff_t i = 0; i < n; i++) {
		CHECK_EQ_INT(listing_feed(&r, buf + i, 1, see, &s), 0);
		CHECK_EQ_INT(listing_end(&r), i + 1 < n ? -EPROTO : 0);
	}
	CHECK_EQ_INT(s.n, 1);
}

/* A record by hand: what listing_encode() would not write. */
static size_t put_record(uint8_t *buf, size_t cap, char type, uint8_t flags, const void *path,
			 size_t n, const char *target)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u32(&m, (uint32_t)(46 + n + strlen(target)));
	msg_put_u8(&m, (uint8_t)type);
	msg_put_u8(&m, flags);
	msg_put_u32(&m, 0);
	for (int i = 0; i < 4; i++)
		msg_put_u64(&m, 0);
	msg_put_bytes(&m, path, n);
	msg_put_str(&m, target);
	CHECK(!m.failed);
	return m.len;
}

TEST(listing_shows_nobody_a_path_that_leads_elsewhere)
{
	static const struct {
		size_t n;
		const char *path;
	} paths[] = {
		{ 0, "" },     { 1, "/" },    { 4, "/etc" }, { 2, ".." }, { 2, "./" },
		{ 4, "a/.." }, { 4, "../b" }, { 4, "a//b" }, { 2, "a/" }, { 3, "a/." },
		{ 3, "a\0b" }, { 2, "a\0" },  { 3, "./a" },  { 2, "/." }, { 5, "a/./b" },
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct listing_reader r = { .len = 0 };
		struct seen s = { 0 };
		uint8_t buf[128];
		size_t n = put_record(buf, sizeof(buf), 'f', 0, paths[i].path, paths[i].n, "");

		CHECK_EQ_INT(listing_feed(&r, buf, n, see, &s), -EPROTO);
		CHECK_EQ_INT(s.n, 0);
	}
}

/* Whether one is UTF-8 is what the reader finds, whatever the box says. */
TEST(listing_takes_names_of_any_bytes)
{
	static const struct {
		const char *path;
		bool raw;
	} paths[] = {
		{ "a\nb", false },         { "\x1b[2J", false },     { ".", false },
		{ "caf\xc3\xa9", false },  { "\xff\xfe", true },     { "a/\xc3", true },
		{ "\xc3\xa9/\xe9", true }, { "\xed\xa0\x80", true }, { "\xc0\xaf", true },
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct listing_reader r = { .len = 0 };
		struct seen s = { 0 };
		uint8_t buf[128];
		size_t len = strlen(paths[i].path);
		size_t n = put_record(buf, sizeof(buf), 'f', LISTING_NEW, paths[i].path, len, "");

		CHECK_EQ_INT(listing_feed(&r, buf, n, see, &s), 0);
		CHECK_EQ_INT(s.n, 1);
		CHECK_STR(s.last.path, paths[i].path);
		CHECK_EQ_INT(s.last.flags, LISTING_NEW | (paths[i].raw ? LISTING_RAW : 0));
	}
}

TEST(listing_knows_one_flag)
{
	for (unsigned int flags = 0; flags < 256; flags++) {
		struct listing_reader r = { .len = 0 };
		struct seen s = { 0 };
		uint8_t buf[128];
		size_t n = put_record(buf, sizeof(buf), 'f', (uint8_t)flags, "p", 1, "");

		CHECK_EQ_INT(listing_feed(&r, buf, n, see, &s), flags <= LISTING_NEW ? 0 : -EPROTO);
	}
}

/* It says whatever it says, and only of a link. */
TEST(listing_has_the_target_of_a_link)
{
	static const char types[] = "fdlo";
	static const char *const targets[] = { "", "/etc/passwd", "../../..", "a\nb", "\xff" };

	for (unsigned int i = 0; i < 4; i++)
		for (size_t t = 0; t < ARRAY_LEN(targets); t++) {
			struct listing_reader r = { .len = 0 };
			struct seen s = { 0 };
			uint8_t buf[128];
			size_t n = put_record(buf, sizeof(buf), types[i], 0, "p", 1, targets[t]);
			bool good = types[i] == 'l' || t == 0;

			CHECK_EQ_INT(listing_feed(&r, buf, n, see, &s), good ? 0 : -EPROTO);
			CHECK_EQ_INT(s.n, good);
			if (good)
				CHECK_STR(s.last.target, targets[t]);
		}
}

/* A stream that goes on with something else behind its first record. */
TEST(listing_first_leaves_the_rest)
{
	static struct listing_reader r;
	struct listing_entry e = entry('f', "name");
	const struct listing_entry *got;
	uint8_t buf[256];
	size_t n = (size_t)listing_encode(&e, buf, sizeof(buf));

	memset(buf + n, 'b', 5);
	for (size_t cut = 0; cut <= n; cut++) {
		CHECK_EQ_INT(listing_first(&r, buf, cut, &got), cut);
		CHECK((got != NULL) == (cut == n));
		if (cut < n) {
			CHECK_EQ_INT(listing_first(&r, buf + cut, n + 5 - cut, &got), n - cut);
			CHECK(got != NULL);
		}
		CHECK_STR(got->path, "name");
		CHECK_EQ_INT(listing_end(&r), 0);
	}
	buf[4] = 'x';
	CHECK_EQ_INT(listing_first(&r, buf, n, &got), -EPROTO);
	CHECK(got == NULL);
}

TEST(listing_etag_changes_with_the_file)
{
	struct listing_entry e = entry('f', "x"), other;
	char first[LISTING_ETAG], tag[LISTING_ETAG];

	listing_etag(&e, first);
	CHECK_STR(first, "\"3-ffffffffffffffff-1-2\"");
	for (int i = 0; i < 4; i++) {
		other = e;
		(*(uint64_t *[]){ &other.size, &other.mtime_ns, &other.ctime_ns,
				  &other.inode }[i])--;
		listing_etag(&other, tag);
		CHECK(strcmp(first, tag) != 0);
	}
	e.inode = e.mtime_ns = e.ctime_ns = UINT64_MAX;
	listing_etag(&e, tag);
	CHECK_EQ_INT(strlen(tag), LISTING_ETAG - 1);
}

TEST(listing_knows_four_types)
{
	for (int type = 0; type < 256; type++) {
		struct listing_reader r = { .len = 0 };
		bool known = type != 0 && strchr("fdlo", type) != NULL;
		struct seen s = { 0 };
		uint8_t buf[128];
		size_t n = put_record(buf, sizeof(buf), (char)type, 0, "p", 1, "");

		CHECK_EQ_INT(listing_feed(&r, buf, n, see, &s), known ? 0 : -EPROTO);
		CHECK_EQ_INT(s.n, known);
	}
}

TEST(listing_refuses_lengths_out_of_bounds)
{
	static const uint32_t lengths[] = { 0, LISTING_RECORD_MAX + 1, 0x7fffffff, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_LEN(lengths); i++)
		for (unsigned int split = 0; split <= 1; split++) {
			struct listing_reader r = { .len = 0 };
			uint8_t buf[64] = { 0 };
			struct seen s = { 0 };
			struct msg_out m;

			msg_out_init(&m, buf, sizeof(buf));
			msg_put_u32(&m, lengths[i]);
			if (split) {
				/* A length of 0 may be noticed now or with the next byte. */
				int now = listing_feed(&r, buf, 4, see, &s);

				CHECK(now == -EPROTO || listing_end(&r) == -EPROTO);
				CHECK(now == -EPROTO ||
				      listing_feed(&r, buf + 4, 60, see, &s) == -EPROTO);
			} else {
				CHECK_EQ_INT(listing_feed(&r, buf, sizeof(buf), see, &s), -EPROTO);
			}
			CHECK_EQ_INT(s.n, 0);
		}
}

TEST(listing_refuses_a_record_that_is_longer_or_shorter_than_its_fields)
{
	for (int wrong = -46; wrong <= 3; wrong++) {
		struct listing_reader r = { .len = 0 };
		struct seen s = { 0 };
		uint8_t buf[128] = { 0 };
		size_t n = put_record(buf, sizeof(buf), 'f', 0, "p", 1, "");
		int rc;

		buf[0] = (uint8_t)(47 + wrong);
		rc = listing_feed(&r, buf, n + (wrong > 0 ? (size_t)wrong : 0), see, &s);
		CHECK_EQ_INT(rc, wrong == 0 ? 0 : -EPROTO);
		CHECK_EQ_INT(s.n, wrong == 0);
	}
}

TEST(listing_stops_when_the_caller_says_so)
{
	static struct listing_reader r;
	struct listing_entry e = entry('f', "x");
	struct seen s = { .stop_at = 2, .stop_with = -EFBIG };
	uint8_t buf[256];
	size_t len = 0;

	for (int i = 0; i < 3; i++)
		len += (size_t)listing_encode(&e, buf + len, sizeof(buf) - len);
	CHECK_EQ_INT(listing_feed(&r, buf, len, see, &s), -EFBIG);
	CHECK_EQ_INT(s.n, 2);
}
