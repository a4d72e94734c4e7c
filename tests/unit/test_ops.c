/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/ops.c: what gate and keeper tell each other. */
#include "wire/ops.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/layers.h"
#include "base/own.h"
#include "wire/chan.h"
#include "wire/msg.h"

#include "test_help.h"

enum { BODY = CHAN_MAX - CHAN_HEADER };

static void sample_request(struct box_request *q)
{
	memset(q, 0, sizeof(*q));
	q->flags = BOX_ROOT_USER;
	q->waived = layers_of(LAYER_REQUIRED) | layers_of(LAYER_EXTRA);
	limits_init(&q->limits);
	q->nmounts = 3;
	q->mounts[0] = (struct box_mount){ .root = 1, .path = "", .at = "/mnt/data" };
	q->mounts[1] = (struct box_mount){
		.root = UINT16_MAX, .read_only = true, .path = "a/b", .at = "/workspace/x"
	};
	q->mounts[2] = (struct box_mount){ .path = "caf\xc3\xa9", .at = "/m" };
}

static void check_same_request(const struct box_request *got, const struct box_request *want)
{
	CHECK(got->flags == want->flags && got->waived == want->waived);
	CHECK_MEM(&got->limits, &want->limits, sizeof(want->limits));
	CHECK_EQ_INT(got->nmounts, want->nmounts);
	for (unsigned int i = 0; i < want->nmounts; i++) {
		CHECK_EQ_INT(got->mounts[i].root, want->mounts[i].root);
		CHECK_EQ_INT(got->mounts[i].read_only, want->mounts[i].read_only);
		CHECK_STR(got->mounts[i].path, want->mounts[i].path);
		CHECK_STR(got->mounts[i].at, want->mounts[i].at);
	}
}

TEST(box_request_comes_back)
{
	static struct box_request want, got;
	static uint8_t buf[BODY];
	struct err e;
	ptrdiff_t n;

	sample_request(&want);
	n = box_request_encode(&want, buf, sizeof(buf));
	CHECK(n > 0);
	CHECK_EQ_INT(box_request_decode(buf, (size_t)n, &got, &e), 0);
	check_same_request(&got, &want);
}

TEST(box_request_fails_cleanly_at_every_size)
{
	static struct box_request q, got;
	static uint8_t whole[BODY];
	struct fence f = fence_open(sizeof(whole));
	ptrdiff_t n;

	sample_request(&q);
	n = box_request_encode(&q, whole, sizeof(whole));
	CHECK(n > 0);
	for (size_t len = 0; len <= (size_t)n + 4; len++) {
		struct err e = { .kind = ERR_NONE };

		CHECK_EQ_INT(box_request_encode(&q, fence_at(&f, len), len),
			     len < (size_t)n ? -EMSGSIZE : n);
		CHECK_EQ_INT(box_request_decode(fence_copy(&f, whole, len), len, &got, &e),
			     len == (size_t)n ? 0 : -1);
		CHECK_EQ_INT(e.kind, len == (size_t)n ? ERR_NONE : ERR_PROTO);
	}
	fence_close(&f);
}

TEST(box_request_with_every_mount_comes_back)
{
	static struct box_request want, got;
	static uint8_t buf[BODY];
	struct err e;
	ptrdiff_t n;

	sample_request(&want);
	want.nmounts = BOX_MOUNTS_MAX;
	for (unsigned int i = 0; i < BOX_MOUNTS_MAX; i++) {
		want.mounts[i].root = (uint16_t)i;
		(void)snprintf(want.mounts[i].path, sizeof(want.mounts[i].path), "p/%u", i);
		want.mounts[i].at[0] = '/';
		memset(want.mounts[i].at + 1, 'a' + (int)i, 253);
		want.mounts[i].at[254] = '\0';
	}
	n = box_request_encode(&want, buf, sizeof(buf));
	CHECK(n > 0);
	CHECK_EQ_INT(box_request_decode(buf, (size_t)n, &got, &e), 0);
	check_same_request(&got, &want);
}

/* Encodes q with one thing wrong and expects that kind of error. */
static void check_refused(const struct box_request *q, enum err_kind kind)
{
	static struct box_request got;
	static uint8_t buf[BODY];
	struct err e = { .kind = ERR_NONE };
	ptrdiff_t n = box_request_encode(q, buf, sizeof(buf));

	CHECK(n > 0);
	CHECK_EQ_INT(box_request_decode(buf, (size_t)n, &got, &e), -1);
	CHECK_EQ_INT(e.kind, kind);
	CHECK(e.text[0] != '\0');
}

TEST(box_request_refuses_flags_and_layers_that_nobody_can_have)
{
	static struct box_request q;

	for (unsigned int bit = 0; bit < 32; bit++) {
		sample_request(&q);
		q.flags = 1u << bit;
		if ((q.flags & BOX_FLAGS_ALL) == 0)
			check_refused(&q, ERR_PROTO);
	}
	for (unsigned int bit = 0; bit < 64; bit++) {
		sample_request(&q);
		q.waived = 1ULL << bit;
		if (bit >= LAYER_MAX || layer_row((enum layer)bit)->need == LAYER_ALWAYS)
			check_refused(&q, ERR_PROTO);
	}
}

TEST(box_request_refuses_limits_out_of_their_row)
{
	static struct box_request q;

	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++) {
		const struct limit_row *row = limit_row((enum limit_id)i);

		sample_request(&q);
		q.limits.v[i] = row->max + 1;
		check_refused(&q, ERR_INPUT);
		q.limits.v[i] = UINT64_MAX;
		check_refused(&q, ERR_INPUT);
		if (row->min > 0) {
			q.limits.v[i] = row->min - 1;
			check_refused(&q, ERR_INPUT);
		}
	}
}

TEST(box_request_refuses_mounts_that_lead_elsewhere)
{
	static const char *const paths[] = { "/",    "/etc", "..",  "a/../..", ".",
					     "a//b", "a/",   "a\n", "\x7f",    "./a" };
	static const char *const places[] = { "",      "mnt", "/",     "/..", "/a/../b",
					      "/a//b", "/a/", "/a\nb", "//a", "/." };
	static struct box_request q;

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		sample_request(&q);
		(void)snprintf(q.mounts[2].path, sizeof(q.mounts[2].path), "%s", paths[i]);
		check_refused(&q, ERR_INPUT);
	}
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		sample_request(&q);
		(void)snprintf(q.mounts[2].at, sizeof(q.mounts[2].at), "%s", places[i]);
		check_refused(&q, ERR_INPUT);
	}
}

/* Where the counts and the first mount's strings are. */
enum {
	AT_NLIMITS = 12,
	AT_NMOUNTS = 14 + 8 * LIMIT_ID_MAX + 8,
	/* behind image and environment */ AT_PATH = AT_NMOUNTS + 2 + 3
};

TEST(box_request_does_not_believe_counts)
{
	static struct box_request q;
	static uint8_t buf[BODY];
	struct fence f = fence_open(sizeof(q)); /* no room for a mount too many */
	struct box_request *got = fence_at(&f, sizeof(*got));
	struct err e;
	ptrdiff_t n;

	sample_request(&q);
	n = box_request_encode(&q, buf, sizeof(buf));
	CHECK_EQ_INT(buf[AT_NLIMITS], LIMIT_ID_MAX);
	CHECK_EQ_INT(buf[AT_NMOUNTS], 3);
	for (unsigned int count = 0; count <= UINT16_MAX; count += count < 20 ? 1 : 4369) {
		memcpy(buf + AT_NLIMITS, (uint8_t[]){ (uint8_t)count, (uint8_t)(count >> 8) }, 2);
		CHECK_EQ_INT(box_request_decode(buf, (size_t)n, got, &e),
			     count == LIMIT_ID_MAX ? 0 : -1);
		CHECK(count == LIMIT_ID_MAX || e.kind == ERR_PROTO);
	}
	n = box_request_encode(&q, buf, sizeof(buf));
	for (unsigned int count = 0; count <= UINT16_MAX; count += count < 20 ? 1 : 4369) {
		memcpy(buf + AT_NMOUNTS, (uint8_t[]){ (uint8_t)count, (uint8_t)(count >> 8) }, 2);
		CHECK_EQ_INT(box_request_decode(buf, (size_t)n, got, &e), count == 3 ? 0 : -1);
		CHECK(count == 3 || e.kind == ERR_PROTO);
	}
	fence_close(&f);
}

TEST(box_request_refuses_strings_that_do_not_fit)
{
	static struct box_request q, got;
	static uint8_t buf[BODY];
	struct msg_out m;
	struct err e;

	sample_request(&q);
	q.nmounts = 1;
	(void)box_request_encode(&q, buf, sizeof(buf));
	for (size_t len = BOX_AT_MAX - 2; len <= BOX_AT_MAX; len++) {
		char at[BOX_AT_MAX + 1];

		memset(at, 'a', sizeof(at));
		at[0] = '/';
		at[len] = '\0';
		/* a name may have 255 bytes, and "/" with 254 makes 255 */
		msg_out_init(&m, buf + AT_PATH, sizeof(buf) - AT_PATH);
		msg_put_str(&m, "");
		msg_put_str(&m, at);
		CHECK_EQ_INT(box_request_decode(buf, AT_PATH + m.len, &got, &e),
			     len < BOX_AT_MAX ? 0 : -1);
	}
	CHECK_EQ_INT(e.kind, ERR_PROTO);
	for (size_t len = PATH_MAX - 1; len <= PATH_MAX; len++) {
		static char path[PATH_MAX + 1];

		for (size_t i = 0; i < len; i++)
			path[i] = i % 200 == 199 ? '/' : 'p';
		path[len] = '\0';
		msg_out_init(&m, buf + AT_PATH, sizeof(buf) - AT_PATH);
		msg_put_str(&m, path);
		msg_put_str(&m, "/m");
		CHECK_EQ_INT(box_request_decode(buf, AT_PATH + m.len, &got, &e),
			     len < PATH_MAX ? 0 : -1);
	}
	CHECK_EQ_INT(e.kind, ERR_PROTO);
}

/* --- answers ------------------------------------------------------------------------------------------------ */

TEST(box_limits_come_back_and_fail_cleanly)
{
	struct fence f = fence_open(512);
	struct limits want, got;
	uint8_t whole[512] = { 0 };
	uint64_t box = 0;
	ptrdiff_t n;

	limits_init(&want);
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		want.v[i] = limit_row((enum limit_id)i)->max - i;
	n = box_limits_encode(UINT64_MAX - 5, &want, whole, sizeof(whole));
	CHECK_EQ_INT(n, 8 + 2 + 8 * LIMIT_ID_MAX);
	for (size_t len = 0; len <= (size_t)n + 4; len++) {
		struct err e = { .kind = ERR_NONE };

		CHECK_EQ_INT(box_limits_encode(1, &want, fence_at(&f, len), len),
			     len < (size_t)n ? -EMSGSIZE : n);
		CHECK_EQ_INT(box_limits_decode(fence_copy(&f, whole, len), len, &box, &got, &e),
			     len == (size_t)n ? 0 : -1);
		CHECK_EQ_INT(e.kind, len == (size_t)n ? ERR_NONE : ERR_PROTO);
	}
	CHECK(box == UINT64_MAX - 5);
	CHECK_MEM(&got, &want, sizeof(want));
	fence_close(&f);
}

TEST(box_limits_are_checked_as_those_of_a_request)
{
	uint8_t body[512];
	uint64_t box;

	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		for (int much = 0; much <= 1; much++) {
			const struct limit_row *row = limit_row((enum limit_id)i);
			struct err e = { .kind = ERR_NONE };
			struct limits l;
			ptrdiff_t n;

			if (!much && row->min == 0)
				continue;
			limits_init(&l);
			l.v[i] = much ? row->max + 1 : row->min - 1;
			n = box_limits_encode(7, &l, body, sizeof(body));
			CHECK_EQ_INT(box_limits_decode(body, (size_t)n, &box, &l, &e), -1);
			CHECK_EQ_INT(e.kind, ERR_INPUT);
			CHECK(strstr(e.text, row->key) != NULL);
		}
}

TEST(box_limits_do_not_believe_their_count)
{
	struct err e = { .kind = ERR_NONE };
	struct limits l;
	uint8_t body[512];
	uint64_t box;
	ptrdiff_t n;

	limits_init(&l);
	n = box_limits_encode(7, &l, body, sizeof(body));
	for (unsigned int count = 0; count < 256; count++) {
		body[8] = (uint8_t)count;
		CHECK_EQ_INT(box_limits_decode(body, (size_t)n, &box, &l, &e),
			     count == LIMIT_ID_MAX ? 0 : -1);
	}
	CHECK_EQ_INT(e.kind, ERR_PROTO);
}

TEST(box_info_comes_back_and_fails_cleanly)
{
	struct box_info want = { .box = 1, .layers = UINT64_MAX, .setup_us = 3 }, got;
	uint8_t whole[512] = { 0 };
	struct fence f = fence_open(sizeof(whole));
	ptrdiff_t n;

	for (unsigned int i = 0; i < PLAN_STEPS; i++)
		want.step_us[i] = UINT32_MAX - i;
	n = box_info_encode(&want, whole, sizeof(whole));
	CHECK(n > 0 && (size_t)n + 4 <= sizeof(whole));
	for (size_t len = 0; len <= (size_t)n + 4; len++) {
		CHECK_EQ_INT(box_info_encode(&want, fence_at(&f, len), len),
			     len < (size_t)n ? -EMSGSIZE : n);
		CHECK_EQ_INT(box_info_decode(fence_copy(&f, whole, len), len, &got),
			     len == (size_t)n ? 0 : -EPROTO);
	}
	memset(&got, 0, sizeof(got));
	CHECK_EQ_INT(box_info_decode(whole, (size_t)n, &got), 0);
	CHECK(got.box == 1 && got.layers == UINT64_MAX && got.setup_us == 3);
	CHECK_MEM(got.step_us, want.step_us, sizeof(want.step_us));
	fence_close(&f);
}

TEST(box_figures_come_back_and_fail_cleanly)
{
	const struct box_figures want = { 1, 2, 3, 4, 5, UINT64_MAX, { 6, 7, 8, 9, 10, 11, 12 } };
	struct box_figures got = { 0 };
	uint8_t whole[128] = { 0 };
	struct fence f = fence_open(sizeof(whole));
	ptrdiff_t n = box_figures_encode(&want, whole, sizeof(whole));

	CHECK(n > 0);
	for (size_t len = 0; len <= (size_t)n + 4; len++) {
		CHECK_EQ_INT(box_figures_encode(&want, fence_at(&f, len), len),
			     len < (size_t)n ? -EMSGSIZE : n);
		CHECK_EQ_INT(box_figures_decode(fence_copy(&f, whole, len), len, &got),
			     len == (size_t)n ? 0 : -EPROTO);
	}
	CHECK_EQ_INT(box_figures_decode(whole, (size_t)n, &got), 0);
	CHECK(got.wall_us == 1 && got.cpu_us == 2 && got.peak_memory_bytes == 3);
	CHECK(got.memory_limit_bytes == 4 && got.oom_kills == 5 && got.has == UINT64_MAX);
	CHECK(got.net.box == 6 && got.net.open == 7 && got.net.connections == 8);
	CHECK(got.net.refused == 9 && got.net.questions == 10);
	CHECK(got.net.sent == 11 && got.net.received == 12);
	fence_close(&f);
}

TEST(failed_comes_back_with_texts_of_every_length)
{
	static const size_t lengths[][2] = {
		{ 0, 0 }, { 1, 0 }, { 0, 1 }, { ERR_TEXT - 1, ERR_HINT - 1 }
	};

	for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
		uint8_t whole[ERR_TEXT + ERR_HINT + 32] = { 0 };
		struct err want = { .kind = ERR_LIMIT, .sys = 5 }, got;
		struct fence f = fence_open(sizeof(whole));
		ptrdiff_t n;

		memset(want.text, 't', lengths[i][0]);
		memset(want.hint, 'h', lengths[i][1]);
		n = failed_encode(&want, whole, sizeof(whole));
		CHECK(n > 0);
		for (size_t len = 0; len <= (size_t)n + 4; len++) {
			CHECK_EQ_INT(failed_encode(&want, fence_at(&f, len), len),
				     len < (size_t)n ? -EMSGSIZE : n);
			CHECK_EQ_INT(failed_decode(fence_copy(&f, whole, len), len, &got),
				     len == (size_t)n ? 0 : -EPROTO);
		}
		memset(&got, 'x', sizeof(got));
		CHECK_EQ_INT(failed_decode(whole, (size_t)n, &got), 0);
		CHECK(got.kind == ERR_LIMIT && got.sys == 5);
		CHECK_STR(got.text, want.text);
		CHECK_STR(got.hint, want.hint);
		fence_close(&f);
	}
}

TEST(failed_decode_refuses_unknown_kinds_and_long_texts)
{
	char text[ERR_TEXT + 1];
	uint8_t buf[2 * ERR_TEXT];
	struct msg_out m;
	struct err e;

	for (uint32_t kind = 0; kind < 2 * ERR_KIND_MAX; kind++) {
		msg_out_init(&m, buf, sizeof(buf));
		msg_put_u32(&m, kind);
		msg_put_u32(&m, 0);
		msg_put_str(&m, "text");
		msg_put_str(&m, "");
		CHECK_EQ_INT(failed_decode(buf, m.len, &e), kind < ERR_KIND_MAX ? 0 : -EPROTO);
	}
	memset(text, 't', sizeof(text));
	for (size_t len = ERR_TEXT - 1; len <= ERR_TEXT; len++) {
		msg_out_init(&m, buf, sizeof(buf));
		msg_put_u32(&m, ERR_SYS);
		msg_put_u32(&m, UINT32_MAX);
		msg_put_bytes(&m, text, len);
		msg_put_str(&m, "");
		CHECK_EQ_INT(failed_decode(buf, m.len, &e), len < ERR_TEXT ? 0 : -EPROTO);
	}
}
