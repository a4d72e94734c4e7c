/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/watch.c: records of what changes in a box, in whatever pieces. */
#include "wire/watch.h"

#include <errno.h>

#include "base/own.h"
#include "wire/msg.h"

#include "test_help.h"

static struct watch_record record(enum watched what, bool directory, const char *path,
				  const char *to)
{
	struct watch_record w = { .what = what, .is_directory = directory };

	memcpy(w.path, path, strlen(path) + 1);
	memcpy(w.to, to, strlen(to) + 1);
	return w;
}

struct seen {
	unsigned int n, stop_at;
	uint64_t hash;
	struct watch_record last;
};

static int see(void *arg, const struct watch_record *w)
{
	struct seen *s = arg;

	s->last = *w;
	s->hash = s->hash * 31 + (uint64_t)w->what * 2 + w->is_directory;
	for (const char *c = w->path; *c != '\0'; c++)
		s->hash = s->hash * 31 + (unsigned char)*c;
	return ++s->n == s->stop_at ? -EFBIG : 0;
}

TEST(watch_record_comes_back)
{
	static struct watch_reader r;
	struct seen s = { 0 };
	uint8_t buf[128];

	for (unsigned int i = 0; i < WATCHED_MAX; i++) {
		bool path = i != WATCHED_READY && i != WATCHED_OVERFLOW;
		struct watch_record w = record((enum watched)i, i % 2 != 0, path ? "a/\nb" : "",
					       i == WATCHED_MOVE ? "c\xff" : "");
		ptrdiff_t n = watch_encode(&w, buf, sizeof(buf));

		CHECK(n > 0);
		CHECK_EQ_INT(watch_feed(&r, buf, (size_t)n, see, &s), 0);
		CHECK_EQ_INT(s.n, i + 1);
		CHECK(s.last.what == w.what && s.last.is_directory == w.is_directory);
		CHECK_STR(s.last.path, w.path);
		CHECK_STR(s.last.to, w.to);
		CHECK_EQ_INT(watch_end(&r), 0);
	}
}

TEST(watch_record_is_laid_out_as_documented)
{
	static const uint8_t want[] = { 13, 0, 0, 0, 5, 1, 1, 0, 0, 0, 'x', 2, 0, 0, 0, 'y', 'z' };
	struct watch_record w = record(WATCHED_MOVE, true, "x", "yz");
	uint8_t buf[64];

	CHECK_EQ_INT(watch_encode(&w, buf, sizeof(buf)), sizeof(want));
	CHECK_MEM(buf, want, sizeof(want));
	for (size_t cap = 0; cap < sizeof(want); cap++)
		CHECK_EQ_INT(watch_encode(&w, buf, cap), -EMSGSIZE);
}

TEST(watch_kinds_have_names)
{
	static const char *const names[] = { "ready",  "create", "modify",  "attrib",
					     "delete", "move",   "overflow" };

	CHECK_EQ_INT(ARRAY_LEN(names), WATCHED_MAX);
	for (unsigned int i = 0; i < WATCHED_MAX; i++)
		CHECK_STR(watched_str((enum watched)i), names[i]);
}

TEST(watch_takes_the_longest_paths)
{
	static uint8_t buf[WATCH_HEADER + WATCH_RECORD_MAX];
	static struct watch_reader r;
	static char path[PATH_MAX];
	struct watch_record w;
	struct seen s = { 0 };

	for (size_t i = 0; i < sizeof(path) - 1; i++)
		path[i] = i % 256 == 255 ? '/' : 'p';
	w = record(WATCHED_MOVE, false, path, path);
	CHECK_EQ_INT(watch_encode(&w, buf, sizeof(buf)), sizeof(buf));
	CHECK_EQ_INT(watch_feed(&r, buf, sizeof(buf), see, &s), 0);
	CHECK_STR(s.last.to, path);
}

static size_t put_record(uint8_t *buf, size_t cap, unsigned int what, unsigned int directory,
			 const char *path, const char *to)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u32(&m, (uint32_t)(10 + strlen(path) + strlen(to)));
	msg_put_u8(&m, (uint8_t)what);
	msg_put_u8(&m, (uint8_t)directory);
	msg_put_str(&m, path);
	msg_put_str(&m, to);
	CHECK(!m.failed);
	return m.len;
}

TEST(watch_refuses_what_no_box_of_ours_says)
{
	static const struct {
		unsigned int what, directory;
		const char *path, *to;
	} bad[] = {
		{ WATCHED_MAX, 0, "a", "" },         { 255, 0, "a", "" },
		{ WATCHED_CREATE, 2, "a", "" },      { WATCHED_CREATE, 0, "", "" },
		{ WATCHED_CREATE, 0, "a", "b" },     { WATCHED_CREATE, 0, "/a", "" },
		{ WATCHED_DELETE, 0, "../a", "" },   { WATCHED_DELETE, 0, ".", "" },
		{ WATCHED_MODIFY, 0, "a/../b", "" }, { WATCHED_ATTRIB, 0, "a/", "" },
		{ WATCHED_MOVE, 0, "a", "" },        { WATCHED_MOVE, 0, "", "a" },
		{ WATCHED_MOVE, 0, "a", "../b" },    { WATCHED_MOVE, 0, "/a", "b" },
		{ WATCHED_READY, 0, "a", "" },       { WATCHED_OVERFLOW, 0, "", "a" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct watch_reader r = { .len = 0 };
		struct seen s = { 0 };
		uint8_t buf[128];
		size_t n = put_record(buf, sizeof(buf), bad[i].what, bad[i].directory, bad[i].path,
				      bad[i].to);

		CHECK_EQ_INT(watch_feed(&r, buf, n, see, &s), -EPROTO);
		CHECK_EQ_INT(s.n, 0);
	}
}

TEST(watch_refuses_lengths_that_do_not_fit)
{
	for (int wrong = -11; wrong <= 3; wrong++) {
		struct watch_reader r = { .len = 0 };
		struct seen s = { 0 };
		uint8_t buf[128] = { 0 };
		size_t n = put_record(buf, sizeof(buf), WATCHED_CREATE, 0, "p", "");

		buf[0] = (uint8_t)(11 + wrong);
		CHECK_EQ_INT(watch_feed(&r, buf, n + (wrong > 0 ? (size_t)wrong : 0), see, &s),
			     wrong == 0 ? 0 : -EPROTO);
		CHECK_EQ_INT(s.n, wrong == 0);
	}
	for (int i = 0; i < 2; i++) {
		struct watch_reader r = { .len = 0 };
		struct seen s = { 0 };
		uint8_t buf[8] = { 0 };
		struct msg_out m;

		msg_out_init(&m, buf, sizeof(buf));
		msg_put_u32(&m, i == 0 ? WATCH_RECORD_MAX + 1 : UINT32_MAX);
		CHECK_EQ_INT(watch_feed(&r, buf, sizeof(buf), see, &s), -EPROTO);
	}
}

TEST(watch_in_pieces_is_watch_as_a_whole)
{
	static uint8_t stream[20000];
	static struct watch_reader r;
	struct seen whole = { 0 };
	uint64_t seed = 3;
	size_t len = 0;

	for (unsigned int i = 0; len + 400 < sizeof(stream); i++) {
		struct watch_record w = record(WATCHED_CREATE, i % 2 != 0, "x", "");

		memset(w.path, 'a' + (int)(i % 26), 1 + rnd_below(&seed, 250));
		len += (size_t)watch_encode(&w, stream + len, sizeof(stream) - len);
	}
	CHECK_EQ_INT(watch_feed(&r, stream, len, see, &whole), 0);
	CHECK(whole.n > 50);
	for (size_t max = 1; max < 1000; max = max * 2 + 1) {
		struct seen s = { 0 };

		for (size_t at = 0; at < len;) {
			size_t n = rnd_below(&seed, max + 1);

			if (n > len - at)
				n = len - at;
			CHECK_EQ_INT(watch_feed(&r, stream + at, n, see, &s), 0);
			at += n;
		}
		CHECK_EQ_INT(watch_end(&r), 0);
		CHECK(s.n == whole.n && s.hash == whole.hash);
	}
	whole = (struct seen){ .stop_at = 2 };
	CHECK_EQ_INT(watch_feed(&r, stream, len, see, &whole), -EFBIG);
	CHECK_EQ_INT(whole.n, 2);
}

TEST(watch_end_misses_the_rest_of_a_record)
{
	static struct watch_reader r;
	struct watch_record w = record(WATCHED_CREATE, false, "path", "");
	struct seen s = { 0 };
	uint8_t buf[64];
	ptrdiff_t n = watch_encode(&w, buf, sizeof(buf));

	for (ptrdiff_t i = 0; i < n; i++) {
		CHECK_EQ_INT(watch_feed(&r, buf + i, 1, see, &s), 0);
		CHECK_EQ_INT(watch_end(&r), i + 1 < n ? -EPROTO : 0);
	}
}
