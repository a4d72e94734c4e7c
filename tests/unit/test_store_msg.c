/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/store.c: what gate and store tell each other. */
#include "wire/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"
#include "wire/chan.h"
#include "wire/msg.h"

#include "test_help.h"

enum { BODY = CHAN_MAX - CHAN_HEADER };

#define AN_ID "01234567-89ab-4cde-8f01-23456789abcd"

/* --- samples: the smallest and the largest of each ------------------------------------------------------------- */

static void fill(char *s, size_t n, char c)
{
	memset(s, c, n);
	s[n] = '\0';
}

static struct store_put *sample_put(bool large)
{
	static struct store_put p;

	memset(&p, 0, sizeof(p));
	if (large) {
		fill(p.tenant, STORE_TENANT_MAX, 't');
		fill(p.filename, STORE_FILENAME_MAX, 'f');
		p.max_bytes = UINT64_MAX;
		p.has_unless = true;
		memset(p.unless_sha256, 0xa5, sizeof(p.unless_sha256));
	}
	return &p;
}

static struct store_name *sample_name(bool large)
{
	static struct store_name n;

	memset(&n, 0, sizeof(n));
	if (large) {
		fill(n.tenant, STORE_TENANT_MAX, 't');
		fill(n.id, STORE_ASKED_ID_MAX, 'i');
	}
	return &n;
}

static struct store_get *sample_get(bool large)
{
	static struct store_get g;

	g.name = *sample_name(large);
	g.offset = large ? UINT64_MAX : 0;
	g.length = large ? UINT64_MAX - 1 : 0;
	return &g;
}

static struct store_meta *sample_meta(bool large)
{
	static struct store_meta m;

	memset(&m, 0, sizeof(m));
	memcpy(m.id, AN_ID, sizeof(m.id));
	if (large) {
		fill(m.filename, STORE_FILENAME_MAX, 'f');
		m.size = UINT64_MAX;
		m.upload_time_us = UINT64_MAX - 1;
		memset(m.sha256, 0x5a, sizeof(m.sha256));
	}
	return &m;
}

static const char *sample_line(bool large)
{
	static char line[STORE_LINE_MAX + 1];

	fill(line, large ? STORE_LINE_MAX : 1, 'l');
	return line;
}

/* --- every request and answer by one interface ----------------------------------------------------------------- */

static ptrdiff_t put_enc(bool large, void *buf, size_t cap)
{
	return store_put_encode(sample_put(large), buf, cap);
}

static int put_dec(bool large, const void *buf, size_t len)
{
	struct store_put got;
	int r = store_put_decode(buf, len, &got);

	if (r == 0) {
		const struct store_put *want = sample_put(large);

		CHECK_STR(got.tenant, want->tenant);
		CHECK_STR(got.filename, want->filename);
		CHECK(got.max_bytes == want->max_bytes && got.has_unless == want->has_unless);
		CHECK_MEM(got.unless_sha256, want->unless_sha256, STORE_SHA256);
	}
	return r;
}

static ptrdiff_t commit_enc(bool large, void *buf, size_t cap)
{
	const struct store_commit c = { large ? UINT64_MAX : 0, large ? 1ULL << 63 : 0 };

	return store_commit_encode(&c, buf, cap);
}

static int commit_dec(bool large, const void *buf, size_t len)
{
	struct store_commit got;
	int r = store_commit_decode(buf, len, &got);

	CHECK(r < 0 ||
	      (got.put == (large ? UINT64_MAX : 0) && got.size == (large ? 1ULL << 63 : 0)));
	return r;
}

static ptrdiff_t abort_enc(bool large, void *buf, size_t cap)
{
	return store_abort_encode(large ? UINT64_MAX : 0, buf, cap);
}

static int abort_dec(bool large, const void *buf, size_t len)
{
	uint64_t got = 7;
	int r = store_abort_decode(buf, len, &got);

	CHECK(got == (r < 0 ? 7 : large ? UINT64_MAX : 0));
	return r;
}

static ptrdiff_t get_enc(bool large, void *buf, size_t cap)
{
	return store_get_encode(sample_get(large), buf, cap);
}

static int get_dec(bool large, const void *buf, size_t len)
{
	struct store_get got;
	int r = store_get_decode(buf, len, &got);

	if (r == 0) {
		const struct store_get *want = sample_get(large);

		CHECK_STR(got.name.tenant, want->name.tenant);
		CHECK_STR(got.name.id, want->name.id);
		CHECK(got.offset == want->offset && got.length == want->length);
	}
	return r;
}

static ptrdiff_t name_enc(bool large, void *buf, size_t cap)
{
	return store_name_encode(sample_name(large), buf, cap);
}

static int name_dec(bool large, const void *buf, size_t len)
{
	struct store_name got;
	int r = store_name_decode(buf, len, &got);

	if (r == 0) {
		CHECK_STR(got.tenant, sample_name(large)->tenant);
		CHECK_STR(got.id, sample_name(large)->id);
	}
	return r;
}

static ptrdiff_t audit_enc(bool large, void *buf, size_t cap)
{
	const char *line = sample_line(large);

	return store_audit_encode(line, strlen(line), buf, cap);
}

static int audit_dec(bool large, const void *buf, size_t len)
{
	const uint8_t *line;
	size_t n;
	int r = store_audit_decode(buf, len, &line, &n);

	if (r == 0) {
		CHECK_EQ_INT(n, strlen(sample_line(large)));
		CHECK_MEM(line, sample_line(large), n);
	}
	return r;
}

static ptrdiff_t meta_enc(bool large, void *buf, size_t cap)
{
	return store_meta_encode(sample_meta(large), buf, cap);
}

static void check_meta(const struct store_meta *got, const struct store_meta *want)
{
	CHECK_STR(got->id, want->id);
	CHECK_STR(got->filename, want->filename);
	CHECK(got->size == want->size && got->upload_time_us == want->upload_time_us);
	CHECK_MEM(got->sha256, want->sha256, STORE_SHA256);
}

static int meta_dec(bool large, const void *buf, size_t len)
{
	struct store_meta got;
	int r = store_meta_decode(buf, len, &got);

	if (r == 0)
		check_meta(&got, sample_meta(large));
	return r;
}

static ptrdiff_t figures_enc(bool large, void *buf, size_t cap)
{
	const struct store_figures f = { 1, 2, 3, 4, 5, large ? UINT64_MAX : 6 };

	return store_figures_encode(&f, buf, cap);
}

static int figures_dec(bool large, const void *buf, size_t len)
{
	struct store_figures f;
	int r = store_figures_decode(buf, len, &f);

	CHECK(r < 0 || (f.files == 1 && f.bytes == 2 && f.puts == 3 && f.gets == 4 &&
			f.audit_lines == 5 && f.audit_failures == (large ? UINT64_MAX : 6)));
	return r;
}

static ptrdiff_t failure_enc(bool large, void *buf, size_t cap)
{
	struct store_failure f = { .reason = large ? STORE_BUSY : STORE_NOT_FOUND };

	fill(f.text, large ? STORE_TEXT_MAX : 0, 'x');
	return store_failure_encode(&f, buf, cap);
}

static int failure_dec(bool large, const void *buf, size_t len)
{
	struct store_failure f;
	int r = store_failure_decode(buf, len, &f);

	CHECK(r < 0 || (f.reason == (large ? STORE_BUSY : STORE_NOT_FOUND) &&
			strlen(f.text) == (large ? STORE_TEXT_MAX : 0)));
	return r;
}

static const struct codec {
	unsigned int op; /* 0: an answer */
	ptrdiff_t (*encode)(bool large, void *buf, size_t cap);
	int (*decode)(bool large, const void *buf, size_t len);
} codecs[] = {
	{ STORE_OP_PUT, put_enc, put_dec },
	{ STORE_OP_COMMIT, commit_enc, commit_dec },
	{ STORE_OP_ABORT, abort_enc, abort_dec },
	{ STORE_OP_GET, get_enc, get_dec },
	{ STORE_OP_STAT, name_enc, name_dec },
	{ STORE_OP_DELETE, name_enc, name_dec },
	{ STORE_OP_LIST, name_enc, name_dec },
	{ STORE_OP_AUDIT, audit_enc, audit_dec },
	{ 0, meta_enc, meta_dec },
	{ 0, figures_enc, figures_dec },
	{ 0, failure_enc, failure_dec },
};

TEST(store_messages_come_back_and_fail_cleanly_at_every_size)
{
	static uint8_t whole[BODY];
	struct fence f = fence_open(sizeof(whole));

	for (size_t i = 0; i < ARRAY_LEN(codecs); i++)
		for (int large = 0; large <= 1; large++) {
			ptrdiff_t n = codecs[i].encode(large, whole, sizeof(whole));

			CHECK(n > 0);
			memset(whole + n, 0, 4);
			for (size_t len = 0; len <= (size_t)n + 4; len++) {
				CHECK_EQ_INT(codecs[i].encode(large, fence_at(&f, len), len),
					     len < (size_t)n ? -EMSGSIZE : n);
				CHECK_EQ_INT(
					codecs[i].decode(large, fence_copy(&f, whole, len), len),
					len == (size_t)n ? 0 : -EPROTO);
			}
		}
	fence_close(&f);
}

TEST(store_table_has_the_bounds_of_its_messages)
{
	static uint8_t buf[BODY];
	bool seen[STORE_OP_MAX] = { false };

	for (size_t i = 0; i < ARRAY_LEN(codecs); i++) {
		const struct store_op_row *row = store_op_row(codecs[i].op);

		if (codecs[i].op == 0)
			continue;
		seen[codecs[i].op] = true;
		CHECK_EQ_INT(codecs[i].encode(false, buf, sizeof(buf)), row->min);
		CHECK_EQ_INT(codecs[i].encode(true, buf, sizeof(buf)), row->max);
	}
	for (unsigned int op = 1; op < STORE_OP_MAX; op++) {
		const struct store_op_row *row = store_op_row(op);
		size_t n = strlen(row->doc);

		CHECK(seen[op] || op == STORE_OP_FIGURES);
		CHECK(row->min <= row->max && row->max <= BODY && row->fds <= CHAN_FDS);
		CHECK(n > 0 && row->doc[n - 1] != '.' && row->doc[n - 1] != ' ');
		CHECK_EQ_INT(row->fds, op == STORE_OP_PUT ? 1 : 0);
	}
	CHECK(store_op_row(STORE_OP_FIGURES)->max == 0);
	CHECK(store_op_row(0) == NULL && store_op_row(STORE_OP_MAX) == NULL);
	CHECK((int)STORE_OP_MAX <= (int)STORE_OK);
}

/* --- what is refused -------------------------------------------------------------------------------------------- */

TEST(store_id_is_valid_for_a_version_4_uuid_only)
{
	static const char *const bad[] = {
		"",
		"x",
		"../x",
		"/etc/passwd",
		"01234567-89AB-4CDE-8F01-23456789ABCD",
		"01234567-89ab-4cde-8f01-23456789abc",
		"01234567-89ab-4cde-8f01-23456789abcde",
		"01234567-89ab-1cde-8f01-23456789abcd",
		"01234567-89ab-4cde-7f01-23456789abcd",
		"01234567-89ab-4cde-cf01-23456789abcd",
		"01234567089ab-4cde-8f01-23456789abcd",
		"0123456-789ab-4cde-8f01-23456789abcd",
		"01234567-89ab-4cde-8f01-23456789abcg",
		"01234567-89ab-4cde-8f01-23456789abc/",
		"01234567-89ab-4cde-8f01-23456789abc\n",
	};
	struct fence f = fence_open(64);

	CHECK(store_id_is_valid(AN_ID));
	CHECK(store_id_is_valid("00000000-0000-4000-b000-000000000000"));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!store_id_is_valid((const char *)fence_copy(&f, bad[i], strlen(bad[i]) + 1)));
	for (size_t n = 0; n < STORE_ID_LEN; n++) {
		char *cut = fence_at(&f, n + 1);

		memcpy(cut, AN_ID, n);
		cut[n] = '\0';
		CHECK(!store_id_is_valid(cut));
	}
	fence_close(&f);
}

TEST(store_put_refuses_hashes_of_other_lengths)
{
	uint8_t hash[STORE_SHA256 + 1] = { 1 };

	for (size_t n = 0; n <= sizeof(hash); n++) {
		uint8_t buf[128];
		struct store_put p;
		struct msg_out m;

		msg_out_init(&m, buf, sizeof(buf));
		msg_put_str(&m, "t");
		msg_put_str(&m, "f");
		msg_put_u64(&m, 1);
		msg_put_bytes(&m, hash, n);
		CHECK_EQ_INT(store_put_decode(buf, m.len, &p),
			     n == 0 || n == STORE_SHA256 ? 0 : -EPROTO);
	}
}

TEST(store_strings_that_are_too_long_or_have_a_nul_are_refused)
{
	static const size_t max[] = { STORE_TENANT_MAX, STORE_ASKED_ID_MAX };

	for (unsigned int which = 0; which < 2; which++)
		for (size_t n = max[which]; n <= max[which] + 1; n++)
			for (int nul = 0; nul <= 1; nul++) {
				char s[STORE_ASKED_ID_MAX + 2];
				struct store_name name;
				uint8_t buf[256];
				struct msg_out m;

				memset(s, 's', sizeof(s));
				s[nul ? n / 2 : sizeof(s) - 1] = '\0';
				msg_out_init(&m, buf, sizeof(buf));
				msg_put_bytes(&m, s, which == 0 ? n : 1);
				msg_put_bytes(&m, s, which == 1 ? n : 1);
				CHECK_EQ_INT(store_name_decode(buf, m.len, &name),
					     n == max[which] && !nul ? 0 : -EPROTO);
			}
}

TEST(store_audit_takes_one_line_only)
{
	static char line[STORE_LINE_MAX + 1];
	static uint8_t buf[BODY];
	const uint8_t *got;
	struct msg_out m;
	size_t n;

	memset(line, 'x', sizeof(line));
	CHECK_EQ_INT(store_audit_encode(line, 0, buf, sizeof(buf)), -EMSGSIZE);
	CHECK_EQ_INT(store_audit_encode(line, sizeof(line), buf, sizeof(buf)), -EMSGSIZE);
	CHECK_EQ_INT(store_audit_encode("a\nb", 3, buf, sizeof(buf)), -EMSGSIZE);
	for (size_t i = 0; i < 4; i++) {
		static const struct {
			const char *text;
			size_t n;
		} bad[] = { { "", 0 }, { "a\n", 2 }, { "\n", 1 }, { "a\0b", 3 } };

		msg_out_init(&m, buf, sizeof(buf));
		msg_put_bytes(&m, bad[i].text, bad[i].n);
		CHECK_EQ_INT(store_audit_decode(buf, m.len, &got, &n), -EPROTO);
	}
	msg_out_init(&m, buf, sizeof(buf));
	msg_put_bytes(&m, line, sizeof(line));
	CHECK_EQ_INT(store_audit_decode(buf, m.len, &got, &n), -EPROTO);
}

TEST(store_meta_refuses_ids_and_hashes_that_are_none)
{
	for (unsigned int wrong = 0; wrong < 4; wrong++) {
		const char *id = wrong == 1   ? "01234567-89AB-4CDE-8F01-23456789ABCD"
				 : wrong == 2 ? ".."
					      : AN_ID;
		uint8_t buf[256], hash[STORE_SHA256] = { 0 };
		struct store_meta got;
		struct msg_out m;

		msg_out_init(&m, buf, sizeof(buf));
		msg_put_str(&m, id);
		msg_put_str(&m, "name");
		msg_put_u64(&m, 1);
		msg_put_u64(&m, 2);
		msg_put_bytes(&m, hash, wrong == 3 ? STORE_SHA256 - 1 : STORE_SHA256);
		CHECK_EQ_INT(store_meta_decode(buf, m.len, &got), wrong == 0 ? 0 : -EPROTO);
	}
}

TEST(store_failure_refuses_unknown_reasons)
{
	for (uint32_t reason = 0; reason < 2 * STORE_REASON_MAX; reason++) {
		struct store_failure f;
		struct msg_out m;
		uint8_t buf[64];

		msg_out_init(&m, buf, sizeof(buf));
		msg_put_u32(&m, reason);
		msg_put_str(&m, "text");
		CHECK_EQ_INT(store_failure_decode(buf, m.len, &f),
			     reason < STORE_REASON_MAX ? 0 : -EPROTO);
		CHECK(store_reason_str((enum store_reason)reason)[0] != '\0');
	}
	CHECK_STR(store_reason_str(STORE_REASON_MAX), "?");
}

/* --- lists ------------------------------------------------------------------------------------------------------ */

TEST(store_list_comes_back_as_far_as_it_fits)
{
	static uint8_t whole[BODY];
	struct fence f = fence_open(BODY);

	for (int large = 0; large <= 1; large++)
		for (size_t cap = 0; cap <= 4000; cap += cap < 300 ? 1 : 97) {
			const struct store_meta *want = sample_meta(large);
			size_t each = (size_t)store_meta_encode(want, whole, sizeof(whole));
			uint8_t *buf = fence_at(&f, cap);
			struct store_list_out out;
			struct store_list_in in;
			struct store_meta got;
			unsigned int n = 0;
			ptrdiff_t len;

			store_list_start(&out, buf, cap);
			while (store_list_add(&out, want))
				n++;
			len = store_list_end(&out, n % 2 != 0);
			if (cap < 3) {
				CHECK_EQ_INT(len, -EMSGSIZE);
				continue;
			}
			CHECK_EQ_INT(n, (cap - 3) / each);
			CHECK_EQ_INT(len, 3 + n * each);
			CHECK_EQ_INT(store_list_open(&in, buf, (size_t)len), 0);
			CHECK_EQ_INT(in.more, n % 2);
			for (; n > 0; n--) {
				CHECK_EQ_INT(store_list_next(&in, &got), 1);
				check_meta(&got, want);
			}
			CHECK_EQ_INT(store_list_next(&in, &got), 0);
			CHECK_EQ_INT(store_list_next(&in, &got), 0);
		}
	fence_close(&f);
}

/* How reading a list of len bytes ends: its count, or an error. */
static int read_list(const void *buf, size_t len)
{
	struct store_list_in in;
	struct store_meta got;
	int n = 0, r = store_list_open(&in, buf, len);

	if (r < 0)
		return r;
	while ((r = store_list_next(&in, &got)) > 0)
		n++;
	CHECK_EQ_INT(store_list_next(&in, &got), r);
	return r < 0 ? r : n;
}

TEST(store_list_does_not_believe_counts_or_lengths)
{
	uint8_t buf[1024] = { 0 };
	struct fence f = fence_open(sizeof(buf));
	struct store_list_out out;
	ptrdiff_t len;

	store_list_start(&out, buf, sizeof(buf));
	for (unsigned int i = 0; i < 3; i++)
		CHECK(store_list_add(&out, sample_meta(false)));
	len = store_list_end(&out, true);
	for (size_t n = 0; n <= (size_t)len + 4; n++)
		CHECK_EQ_INT(read_list(fence_copy(&f, buf, n), n), n == (size_t)len ? 3 : -EPROTO);
	for (unsigned int count = 0; count <= UINT16_MAX; count += count < 8 ? 1 : 4369) {
		buf[1] = (uint8_t)count;
		buf[2] = (uint8_t)(count >> 8);
		CHECK_EQ_INT(read_list(fence_copy(&f, buf, (size_t)len), (size_t)len),
			     count == 3 ? 3 : -EPROTO);
	}
	buf[1] = 3;
	buf[2] = 0;
	buf[0] = 2;
	CHECK_EQ_INT(read_list(buf, (size_t)len), -EPROTO);
	fence_close(&f);
}
