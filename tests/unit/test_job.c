/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/job.c: what RUN and EXIT carry. */
#include "wire/job.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "wire/frame.h"
#include "wire/msg.h"

#include "test_help.h"

static const char *const sample_argv[] = { "python3", "", "-c", "print('\xc3\xa9')\n", NULL };
static const char *const sample_envp[] = { "PATH=/bin", "EMPTY=", "", NULL };
static const char *const no_strings[] = { NULL };

static struct job_spec sample_spec(void)
{
	return (struct job_spec){
		.kind = JOB_FILE,
		.flags = JOB_STDIN | JOB_ATTENDED,
		.timeout_us = 0x0102030405060708,
		.output_max = UINT64_MAX,
		.cpu_seconds = 3,
		.file_bytes = 4,
		.open_files = 5,
		.rows = 24,
		.cols = UINT16_MAX,
		.cwd = "/workspace",
		.argv = sample_argv,
		.envp = sample_envp,
	};
}

static void check_strings(const char *const *got, const char *const *want)
{
	for (; *want != NULL; got++, want++)
		CHECK_STR(*got, *want);
	CHECK(*got == NULL);
}

static void check_spec(const struct job_spec *got, const struct job_spec *want)
{
	CHECK_EQ_INT(got->kind, want->kind);
	CHECK_EQ_INT(got->flags, want->flags);
	CHECK(got->timeout_us == want->timeout_us && got->output_max == want->output_max);
	CHECK(got->cpu_seconds == want->cpu_seconds && got->file_bytes == want->file_bytes);
	CHECK(got->open_files == want->open_files);
	CHECK(got->rows == want->rows && got->cols == want->cols);
	CHECK_STR(got->cwd, want->cwd);
	check_strings(got->argv, want->argv);
	check_strings(got->envp, want->envp);
}

TEST(job_spec_comes_back)
{
	const struct job_spec want = sample_spec();
	struct job_spec got;
	void *block = NULL;
	uint8_t buf[512];
	ptrdiff_t n = job_spec_encode(&want, buf, sizeof(buf));

	CHECK(n > 0);
	CHECK_EQ_INT(job_spec_decode(buf, (size_t)n, &got, &block), 0);
	check_spec(&got, &want);
	free(block);
}

TEST(job_spec_with_nothing_in_it_comes_back)
{
	static const char *const argv[] = { "", NULL };
	const struct job_spec want = { .cwd = "", .argv = argv, .envp = no_strings };
	struct job_spec got;
	void *block = NULL;
	uint8_t buf[512];
	ptrdiff_t n = job_spec_encode(&want, buf, sizeof(buf));

	CHECK(n > 0);
	CHECK_EQ_INT(job_spec_decode(buf, (size_t)n, &got, &block), 0);
	check_spec(&got, &want);
	free(block);
}

TEST(job_spec_encode_fails_cleanly_at_every_size)
{
	const struct job_spec s = sample_spec();
	uint8_t whole[512];
	ptrdiff_t n = job_spec_encode(&s, whole, sizeof(whole));
	struct fence f = fence_open(sizeof(whole));

	CHECK(n > 0);
	for (size_t cap = 0; cap < (size_t)n; cap++)
		CHECK_EQ_INT(job_spec_encode(&s, fence_at(&f, cap), cap), -EMSGSIZE);
	CHECK_EQ_INT(job_spec_encode(&s, fence_at(&f, (size_t)n), (size_t)n), n);
	CHECK_MEM(fence_at(&f, (size_t)n), whole, (size_t)n);
	fence_close(&f);
}

TEST(job_spec_decode_fails_cleanly_at_every_length)
{
	const struct job_spec s = sample_spec();
	uint8_t whole[512] = { 0 };
	ptrdiff_t n = job_spec_encode(&s, whole, sizeof(whole));
	struct fence f = fence_open(sizeof(whole));

	CHECK(n > 0);
	for (size_t len = 0; len <= (size_t)n + 4; len++) {
		struct job_spec got;
		void *block = &got;
		int r = job_spec_decode(fence_copy(&f, whole, len), len, &got, &block);

		CHECK_EQ_INT(r, len == (size_t)n ? 0 : -EPROTO);
		if (r == 0)
			free(block);
		else
			CHECK(block == &got); /* untouched on failure */
	}
	fence_close(&f);
}

/* The fixed part of a RUN payload, with counts of strings that follow or do not. */
static size_t put_spec(uint8_t *buf, size_t cap, unsigned int kind, uint32_t flags, const char *cwd,
		       unsigned int argc, unsigned int envc)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u8(&m, (uint8_t)kind);
	msg_put_u32(&m, flags);
	for (int i = 0; i < 5; i++)
		msg_put_u64(&m, 0);
	msg_put_u32(&m, 0);
	msg_put_str(&m, cwd);
	msg_put_u16(&m, (uint16_t)argc);
	msg_put_u16(&m, (uint16_t)envc);
	CHECK(!m.failed);
	return m.len;
}

static int decode(const uint8_t *buf, size_t len)
{
	struct job_spec s;
	void *block;
	int r = job_spec_decode(buf, len, &s, &block);

	if (r == 0)
		free(block);
	return r;
}

/* Which flags a job of a kind may have, written down a second time. */
static bool flags_fit(unsigned int kind, uint32_t flags, size_t argc)
{
	bool copies = (flags & JOB_COPIES) != 0;

	if (kind >= JOB_KIND_MAX || (flags & ~(uint32_t)JOB_FLAGS_ALL) != 0)
		return false;
	flags &= ~(uint32_t)JOB_COPIES;
	if (kind == JOB_CELL)
		return argc == 1 && (flags == JOB_STDIN || flags == (JOB_STDIN | JOB_KEEP) ||
				     flags == (JOB_STDIN | JOB_KEEP | JOB_FLOW));
	if ((flags & JOB_FLOW) != 0 || copies)
		return false;
	if (kind == JOB_FILE)
		return argc >= 2 && (flags & (JOB_PTY | JOB_SWEEP | JOB_HELD | JOB_THAW | JOB_KIT |
					      JOB_KERNEL | JOB_PROMPT)) == 0;
	if ((flags & JOB_BENEATH) != 0)
		return false;
	if (kind == JOB_LINK)
		return argc == 1 && (flags == (JOB_STDIN | JOB_ATTENDED) ||
				     flags == (JOB_STDIN | JOB_ATTENDED | JOB_PROMPT));
	if ((flags & JOB_HELD) != 0)
		return (flags & JOB_ATTENDED) == 0;
	return (flags & JOB_KERNEL) == 0;
}

TEST(job_spec_decode_knows_kinds_and_flags)
{
	uint8_t buf[128];

	for (unsigned int kind = 0; kind < 256; kind++)
		for (uint32_t flags = 0; flags <= 2 * JOB_FLAGS_ALL; flags++)
			for (unsigned int argc = 1; argc <= 2; argc++) {
				size_t n =
					put_spec(buf, sizeof(buf) - 8, kind, flags, "/", argc, 0);

				memset(buf + n, 0, 8); /* empty strings */
				CHECK_EQ_INT(decode(buf, n + argc * (size_t)4),
					     flags_fit(kind, flags, argc) ? 0 : -EPROTO);
			}
	for (unsigned int bit = 0; bit < 32; bit++) {
		size_t n = put_spec(buf, sizeof(buf) - 4, 0, 1u << bit, "/", 1, 0);

		memset(buf + n, 0, 4);
		CHECK_EQ_INT(decode(buf, n + 4), flags_fit(JOB_EXEC, 1u << bit, 1) ? 0 : -EPROTO);
	}
}

TEST(job_spec_decode_counts_strings)
{
	static uint8_t buf[65536];
	static const struct {
		unsigned int argc, envc;
		int result;
	} cases[] = {
		{ 0, 0, -EPROTO },
		{ 0, 1, -EPROTO },
		{ 1, 0, 0 },
		{ 1, JOB_ENV_MAX, 0 },
		{ JOB_ARGV_MAX, 0, 0 },
		{ JOB_ARGV_MAX, JOB_ENV_MAX, 0 },
		{ JOB_ARGV_MAX + 1, 0, -EPROTO },
		{ 1, JOB_ENV_MAX + 1, -EPROTO },
		{ UINT16_MAX, UINT16_MAX, -EPROTO },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t n = put_spec(buf, sizeof(buf), 0, 0, "", cases[i].argc, cases[i].envc);
		size_t strings = ((size_t)cases[i].argc + cases[i].envc) * 4; /* all empty */

		if (strings > sizeof(buf) - n)
			strings = sizeof(buf) - n;
		memset(buf + n, 0, strings);
		CHECK_EQ_INT(decode(buf, n + strings), cases[i].result);
		if (cases[i].result == 0)
			CHECK_EQ_INT(decode(buf, n + strings - 1), -EPROTO);
	}
}

/* Many strings announced, none sent. The decoder must not write one terminator for each of them: the block that
 * it allocated is as large as the payload, and the payload is small. */
TEST(job_spec_decode_does_not_believe_counts)
{
	static const char *const cwds[] = { "", "/workspace" };
	uint8_t buf[128];

	for (size_t i = 0; i < ARRAY_LEN(cwds); i++) {
		size_t n = put_spec(buf, sizeof(buf), 0, 0, cwds[i], JOB_ARGV_MAX, JOB_ENV_MAX);
		void *more[64];

		CHECK_EQ_INT(decode(buf, n), -EPROTO);
		/* A damaged heap shows when it is used. */
		for (size_t k = 0; k < ARRAY_LEN(more); k++)
			CHECK((more[k] = malloc(1000 * (k + 1))) != NULL);
		for (size_t k = 0; k < ARRAY_LEN(more); k++)
			free(more[k]);
	}
}

TEST(job_spec_decode_bounds_the_directory)
{
	static uint8_t buf[2 * PATH_MAX];
	static char cwd[PATH_MAX + 1];

	memset(cwd, 'c', sizeof(cwd));
	for (size_t len = PATH_MAX - 2; len <= PATH_MAX; len++) {
		size_t n;

		cwd[len] = '\0';
		n = put_spec(buf, sizeof(buf), 0, 0, cwd, 1, 0);
		cwd[len] = 'c';
		memset(buf + n, 0, 4);
		CHECK_EQ_INT(decode(buf, n + 4), len < PATH_MAX ? 0 : -EPROTO);
	}
}

TEST(job_spec_decode_refuses_a_nul_in_a_string)
{
	uint8_t buf[128];
	size_t n = put_spec(buf, sizeof(buf), 0, 0, "/", 1, 1);
	struct msg_out m;

	msg_out_init(&m, buf + n, sizeof(buf) - n);
	msg_put_bytes(&m, "a\0b", 3);
	msg_put_str(&m, "E=1");
	CHECK_EQ_INT(decode(buf, n + m.len), -EPROTO);
	msg_out_init(&m, buf + n, sizeof(buf) - n);
	msg_put_str(&m, "a");
	msg_put_bytes(&m, "E=\0", 3);
	CHECK_EQ_INT(decode(buf, n + m.len), -EPROTO);
	msg_out_init(&m, buf + n, sizeof(buf) - n);
	msg_put_str(&m, "a");
	msg_put_str(&m, "E=");
	CHECK_EQ_INT(decode(buf, n + m.len), 0);
}

/* Specs of every shape, with strings of random bytes. */
TEST(job_spec_random_ones_come_back)
{
	static char text[64][128];
	static uint8_t buf[65536];
	uint64_t seed = 7;

	for (int round = 0; round < 2000; round++) {
		const char *strings[64 + 2];
		size_t argc = 1 + rnd_below(&seed, 20), envc = rnd_below(&seed, 20);
		struct job_spec want = sample_spec(), got;
		void *block = NULL;
		ptrdiff_t n;

		for (size_t i = 0; i < argc + envc; i++) {
			size_t len = rnd_below(&seed, sizeof(text[0]));

			for (size_t k = 0; k < len; k++)
				text[i][k] = (char)(1 + rnd_below(&seed, 255));
			text[i][len] = '\0';
		}
		for (size_t i = 0; i < argc; i++)
			strings[i] = text[i];
		strings[argc] = NULL;
		for (size_t i = 0; i < envc; i++)
			strings[argc + 1 + i] = text[argc + i];
		strings[argc + 1 + envc] = NULL;
		want.argv = strings;
		want.envp = strings + argc + 1;
		want.kind = (enum job_kind)rnd_below(&seed, JOB_KIND_MAX);
		want.flags = (uint32_t)rnd_below(&seed, JOB_FLAGS_ALL + 1);
		n = job_spec_encode(&want, buf, sizeof(buf));
		CHECK(n > 0);
		if (!flags_fit(want.kind, want.flags, argc)) {
			CHECK_EQ_INT(job_spec_decode(buf, (size_t)n, &got, &block), -EPROTO);
			continue;
		}
		CHECK_EQ_INT(job_spec_decode(buf, (size_t)n, &got, &block), 0);
		check_spec(&got, &want);
		free(block);
	}
}

/* --- EXIT --------------------------------------------------------------------------------------------------- */

static struct job_exit sample_exit(void)
{
	return (struct job_exit){
		.how = JOB_FAILED,
		.code = 4095, /* the largest errno there can be */
		.flags = JOB_EXIT_FLAGS_ALL,
		.wall_us = 1,
		.user_us = UINT64_MAX,
		.sys_us = 3,
		.max_rss_bytes = 4,
		.stdout_bytes = 5,
		.stderr_bytes = 6,
		.stage = "0123456789012345678901234567890",
	};
}

TEST(job_exit_comes_back)
{
	const struct job_exit want = sample_exit();
	struct job_exit got;
	uint8_t buf[256];
	ptrdiff_t n = job_exit_encode(&want, buf, sizeof(buf));

	CHECK_EQ_INT(strlen(want.stage), JOB_STAGE_MAX - 1);
	CHECK(n > 0);
	memset(&got, 'x', sizeof(got));
	CHECK_EQ_INT(job_exit_decode(buf, (size_t)n, &got), 0);
	CHECK(got.how == want.how && got.code == want.code && got.flags == want.flags);
	CHECK(got.wall_us == want.wall_us && got.user_us == want.user_us);
	CHECK(got.sys_us == want.sys_us && got.max_rss_bytes == want.max_rss_bytes);
	CHECK(got.stdout_bytes == want.stdout_bytes && got.stderr_bytes == want.stderr_bytes);
	CHECK_STR(got.stage, want.stage);
}

TEST(job_exit_fails_cleanly_at_every_size)
{
	const struct job_exit x = sample_exit();
	uint8_t whole[256] = { 0 };
	ptrdiff_t n = job_exit_encode(&x, whole, sizeof(whole));
	struct fence f = fence_open(sizeof(whole));

	CHECK(n > 0);
	for (size_t len = 0; len <= (size_t)n + 4; len++) {
		struct job_exit got;

		CHECK_EQ_INT(job_exit_encode(&x, fence_at(&f, len), len),
			     len < (size_t)n ? -EMSGSIZE : n);
		CHECK_EQ_INT(job_exit_decode(fence_copy(&f, whole, len), len, &got),
			     len == (size_t)n ? 0 : -EPROTO);
	}
	fence_close(&f);
}

TEST(job_exit_decode_refuses_what_init_never_sends)
{
	struct job_exit x = sample_exit(), got;
	uint8_t buf[256];
	ptrdiff_t n;

	x.code = 1;
	for (unsigned int how = 0; how < 256; how++) {
		n = job_exit_encode(&x, buf, sizeof(buf));
		buf[0] = (uint8_t)how;
		CHECK_EQ_INT(job_exit_decode(buf, (size_t)n, &got),
			     how < JOB_HOW_MAX ? 0 : -EPROTO);
	}
	for (unsigned int bit = 0; bit < 32; bit++) {
		x = sample_exit();
		x.flags = 1u << bit;
		n = job_exit_encode(&x, buf, sizeof(buf));
		CHECK_EQ_INT(job_exit_decode(buf, (size_t)n, &got),
			     (x.flags & JOB_EXIT_FLAGS_ALL) != 0 ? 0 : -EPROTO);
	}
	static const int largest[] = {
		[JOB_EXITED] = 255, [JOB_SIGNALED] = 64, [JOB_FAILED] = 4095
	};

	for (unsigned int how = 0; how < JOB_HOW_MAX; how++) {
		x = sample_exit();
		x.how = (enum job_how)how;
		x.code = largest[how];
		n = job_exit_encode(&x, buf, sizeof(buf));
		CHECK_EQ_INT(job_exit_decode(buf, (size_t)n, &got), 0);
		x.code++;
		n = job_exit_encode(&x, buf, sizeof(buf));
		CHECK_EQ_INT(job_exit_decode(buf, (size_t)n, &got), -EPROTO);
	}
	x = sample_exit();
	x.code = -1;
	n = job_exit_encode(&x, buf, sizeof(buf));
	CHECK_EQ_INT(job_exit_decode(buf, (size_t)n, &got), -EPROTO);
	x.code = INT_MIN;
	n = job_exit_encode(&x, buf, sizeof(buf));
	CHECK_EQ_INT(job_exit_decode(buf, (size_t)n, &got), -EPROTO);
}

TEST(job_exit_decode_bounds_the_stage)
{
	struct job_exit x = sample_exit(), got;
	uint8_t buf[256];
	ptrdiff_t n = job_exit_encode(&x, buf, sizeof(buf));
	size_t at = (size_t)n - (JOB_STAGE_MAX - 1) - 4 - 4; /* behind it: an empty name */

	CHECK_EQ_INT(buf[at], JOB_STAGE_MAX - 1);
	buf[at]++; /* one byte longer, and it is there */
	(void)memmove(buf + n - 3, buf + n - 4, 4);
	buf[n - 4] = 'x';
	CHECK_EQ_INT(job_exit_decode(buf, (size_t)n + 1, &got), -EPROTO);
}
