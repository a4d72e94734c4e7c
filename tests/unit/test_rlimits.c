/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/rlimits.c: limits of a box that are limits of each process. */
#include "wire/rlimits.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/own.h"
#include "wire/msg.h"

#include "test_help.h"

static uint64_t soft(const struct rlimits *r, int which)
{
	for (unsigned int i = 0; i < RLIMITS_N; i++)
		if (r->v[i].which == which)
			return r->v[i].soft;
	test_fail(__FILE__, __LINE__, "limit %d is missing", which);
}

static uint64_t hard(const struct rlimits *r, int which)
{
	for (unsigned int i = 0; i < RLIMITS_N; i++)
		if (r->v[i].which == which)
			return r->v[i].hard;
	test_fail(__FILE__, __LINE__, "limit %d is missing", which);
}

TEST(rlimits_are_those_of_the_box)
{
	struct rlimits r;
	struct limits l;

	limits_init(&l);
	l.v[LIMIT_OPEN_FILES] = 77;
	l.v[LIMIT_PROCESSES] = 20;
	l.v[LIMIT_WORKSPACE] = 1 << 20;
	rlimits_of(&l, &r);
	CHECK_EQ_INT(soft(&r, RLIMIT_NOFILE), 77);
	CHECK_EQ_INT(hard(&r, RLIMIT_NOFILE), 77);
	CHECK_EQ_INT(hard(&r, RLIMIT_NPROC), 21); /* and init */
	CHECK(hard(&r, RLIMIT_FSIZE) > 1 << 20);  /* the workspace is full first */
	CHECK(hard(&r, RLIMIT_FSIZE) <= (1 << 20) + 65536);
	CHECK(soft(&r, RLIMIT_CPU) == RLIM_INFINITY && hard(&r, RLIMIT_CPU) == RLIM_INFINITY);
	l.v[LIMIT_FILE] = 5000;
	l.v[LIMIT_CPU_SECONDS] = 3;
	rlimits_of(&l, &r);
	CHECK_EQ_INT(soft(&r, RLIMIT_FSIZE), 5000);
	CHECK_EQ_INT(hard(&r, RLIMIT_FSIZE), 5000);
	CHECK_EQ_INT(soft(&r, RLIMIT_CPU), 3);
	CHECK_EQ_INT(hard(&r, RLIMIT_CPU), 4); /* a second for who handles the signal */
}

/* Whatever a box may be asked for is a step down from there. */
TEST(rlimits_most_is_above_all)
{
	struct rlimits top, r;
	struct limits l;

	rlimits_most(&top);
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		l.v[i] = limit_row((enum limit_id)i)->max;
	for (int file = 0; file <= 1; file++) {
		if (file == 0)
			l.v[LIMIT_FILE] = 0;
		else
			l.v[LIMIT_FILE] = limit_row(LIMIT_FILE)->max;
		rlimits_of(&l, &r);
		for (unsigned int i = 0; i < RLIMITS_N; i++) {
			CHECK_EQ_INT(r.v[i].which, top.v[i].which);
			CHECK(r.v[i].hard <= top.v[i].hard && r.v[i].soft <= top.v[i].soft);
		}
	}
}

TEST(rlimits_come_back_at_every_size)
{
	struct fence f = fence_open(RLIMITS_BYTES + 8);
	uint8_t whole[RLIMITS_BYTES + 8] = { 0 };
	struct rlimits want, got;
	struct limits l;

	limits_init(&l);
	l.v[LIMIT_CPU_SECONDS] = 9;
	rlimits_of(&l, &want);
	CHECK_EQ_INT(rlimits_encode(&l, whole, sizeof(whole)), RLIMITS_BYTES);
	for (size_t len = 0; len <= sizeof(whole); len++) {
		CHECK_EQ_INT(rlimits_encode(&l, fence_at(&f, len), len),
			     len < RLIMITS_BYTES ? -EMSGSIZE : RLIMITS_BYTES);
		CHECK_EQ_INT(rlimits_decode(fence_copy(&f, whole, len), len, &got),
			     len == RLIMITS_BYTES ? 0 : -EPROTO);
	}
	CHECK_EQ_INT(rlimits_decode(whole, RLIMITS_BYTES, &got), 0);
	for (unsigned int i = 0; i < RLIMITS_N; i++)
		CHECK(got.v[i].which == want.v[i].which && got.v[i].soft == want.v[i].soft &&
		      got.v[i].hard == want.v[i].hard);
	fence_close(&f);
}

/* No files at all, or more than any box has, is what no gate says. */
TEST(rlimits_refuse_what_no_box_has)
{
	struct rlimits r;
	struct limits l;
	uint8_t body[RLIMITS_BYTES];

	limits_init(&l);
	for (unsigned int i = 0; i < RLIMITS_N; i++)
		for (int much = 0; much <= 1; much++) {
			struct msg_out m;

			CHECK_EQ_INT(rlimits_encode(&l, body, sizeof(body)), RLIMITS_BYTES);
			msg_out_init(&m, body + (size_t)8 * i, 8);
			msg_put_u64(&m, much ? UINT64_MAX : 0);
			CHECK_EQ_INT(rlimits_decode(body, sizeof(body), &r),
				     !much && i == RLIMITS_N - 1 ? 0 : -EPROTO);
		}
	CHECK_EQ_INT(r.v[RLIMITS_N - 1].which, RLIMIT_CPU); /* where 0 is: any */
}
