/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/str.c: text to numbers and back, and which paths are plain. */
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/own.h"

#include "test_help.h"

#define K (1ULL << 10)
#define M (1ULL << 20)
#define G (1ULL << 30)
#define T (1ULL << 40)

#define UNTOUCHED 0xdeadbeefcafef00dULL

struct parse_case {
	const char *text;
	int result;
	uint64_t value;
};

static void check_parse(int (*parse)(const char *, uint64_t *), const struct parse_case *c,
			size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t got = UNTOUCHED;
		int r = parse(c[i].text, &got);
		uint64_t want = c[i].result == 0 ? c[i].value : UNTOUCHED;

		if (r != c[i].result || got != want)
			test_fail(__FILE__, __LINE__, "'%s' gives %d and %llu, wanted %d and %llu",
				  c[i].text, r, (unsigned long long)got, c[i].result,
				  (unsigned long long)want);
		test_count();
	}
}

static int parse_u64(const char *s, uint64_t *ret)
{
	return str_to_u64(s, UINT64_MAX, ret);
}

TEST(str_to_u64_takes_digits_only)
{
	static const struct parse_case cases[] = {
		{ "0", 0, 0 },
		{ "7", 0, 7 },
		{ "007", 0, 7 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "00018446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "18446744073709551620", -ERANGE, 0 },
		{ "20000000000000000000", -ERANGE, 0 },
		{ "184467440737095516150", -ERANGE, 0 },
		{ "99999999999999999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "1\n", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1.0", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "1_000", -EINVAL, 0 },
		{ "/", -EINVAL, 0 }, /* the characters beside '0' and '9' */
		{ ":", -EINVAL, 0 },
		{ "\xd9\xa1", -EINVAL, 0 }, /* a digit, but not one of ours */
		{ "max", -EINVAL, 0 },
	};

	check_parse(parse_u64, cases, ARRAY_LEN(cases));
}

TEST(str_to_u64_keeps_to_its_maximum)
{
	uint64_t v = 5;

	CHECK_EQ_INT(str_to_u64("9", 9, &v), 0);
	CHECK_EQ_INT(v, 9);
	CHECK_EQ_INT(str_to_u64("10", 9, &v), -ERANGE);
	CHECK_EQ_INT(v, 9);
	CHECK_EQ_INT(str_to_u64("0", 0, &v), 0);
	CHECK_EQ_INT(v, 0);
	CHECK_EQ_INT(str_to_u64("1", 0, &v), -ERANGE);
}

TEST(str_to_u64_reads_what_printf_wrote)
{
	uint64_t seed = 1;

	for (int i = 0; i < 10000; i++) {
		uint64_t want = rnd(&seed) >> rnd_below(&seed, 64), got = ~want;
		char text[32];

		(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)want);
		CHECK_EQ_INT(str_to_u64(text, want, &got), 0);
		CHECK(got == want);
		if (want > 0)
			CHECK_EQ_INT(str_to_u64(text, want - 1, &got), -ERANGE);
	}
}

TEST(str_to_bytes_knows_powers_of_1024)
{
	static const struct parse_case cases[] = {
		{ "0", 0, 0 },
		{ "512", 0, 512 },
		{ "512B", 0, 512 },
		{ "64k", 0, 64 * K },
		{ "64K", 0, 64 * K },
		{ "64KiB", 0, 64 * K },
		{ "64KB", 0, 64 * K },
		{ "3m", 0, 3 * M },
		{ "3M", 0, 3 * M },
		{ "256MiB", 0, 256 * M },
		{ "3MB", 0, 3 * M },
		{ "2g", 0, 2 * G },
		{ "2G", 0, 2 * G },
		{ "2GiB", 0, 2 * G },
		{ "2GB", 0, 2 * G },
		{ "4T", 0, 4 * T },
		{ "4TiB", 0, 4 * T },
		{ "1.5G", 0, G + G / 2 },
		{ "0.5k", 0, 512 },
		{ "0.25M", 0, 256 * K },
		{ "0.000001G", 0, 1073 },
		{ "1.000000k", 0, K },
		{ "0.0", 0, 0 },
		{ "9223372036854775807", 0, INT64_MAX },
		{ "8388607T", 0, 8388607 * T },
		{ "8388608T", -ERANGE, 0 },
		{ "9223372036854775808", -ERANGE, 0 },
		{ "18446744073709551615", -ERANGE, 0 },
		{ "18446744073709551616", -ERANGE, 0 },
		{ "99999999999999999999999999T", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "k", -EINVAL, 0 },
		{ ".5k", -EINVAL, 0 },
		{ "1.", -EINVAL, 0 },
		{ "1.k", -EINVAL, 0 },
		{ "1.5.5", -EINVAL, 0 },
		{ "1,5", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 k", -EINVAL, 0 },
		{ "1k ", -EINVAL, 0 },
		{ "1kk", -EINVAL, 0 },
		{ "1kib", -EINVAL, 0 },
		{ "1P", -EINVAL, 0 },
		{ "1e9", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1s", -EINVAL, 0 },
		{ "unlimited", -EINVAL, 0 },
	};

	check_parse(str_to_bytes, cases, ARRAY_LEN(cases));
}

TEST(str_to_bytes_fraction_never_reaches_the_next_whole)
{
	uint64_t v;

	CHECK_EQ_INT(str_to_bytes("8388607.999999T", &v), 0);
	CHECK(v > 8388607 * T && v < 8388608 * T);
	CHECK_EQ_INT(str_to_bytes("0.99999999999999999999999999999999k", &v), 0);
	CHECK(v < K);
	CHECK_EQ_INT(str_to_bytes("9223372036854775807.999999", &v), 0);
	CHECK_EQ_INT(v, INT64_MAX);
}

TEST(str_to_duration_us_knows_its_units)
{
	static const struct parse_case cases[] = {
		{ "0", 0, 0 },
		{ "2", 0, 2000000 },
		{ "0.5s", 0, 500000 },
		{ "0.000001", 0, 1 },
		{ "1.5", 0, 1500000 },
		{ "250ms", 0, 250000 },
		{ "0.5ms", 0, 500 },
		{ "7us", 0, 7 },
		{ "3m", 0, 180000000 },
		{ "3min", 0, 180000000 },
		{ "1h", 0, 3600000000 },
		{ "0.5h", 0, 1800000000 },
		{ "2562047788h", 0, 2562047788 * 3600000000ULL },
		{ "2562047789h", -ERANGE, 0 },
		{ "9223372036854775807us", 0, INT64_MAX },
		{ "9223372036854775808us", -ERANGE, 0 },
		{ "99999999999999999999s", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "s", -EINVAL, 0 },
		{ "ms", -EINVAL, 0 },
		{ "-1s", -EINVAL, 0 },
		{ "1 s", -EINVAL, 0 },
		{ "1S", -EINVAL, 0 },
		{ "1d", -EINVAL, 0 },
		{ "1k", -EINVAL, 0 },
		{ "1m30s", -EINVAL, 0 },
		{ "1:30", -EINVAL, 0 },
	};

	check_parse(str_to_duration_us, cases, ARRAY_LEN(cases));
}

TEST(str_to_milli_takes_no_unit)
{
	static const struct parse_case cases[] = {
		{ "0", 0, 0 },
		{ "2", 0, 2000 },
		{ "0.5", 0, 500 },
		{ "0.001", 0, 1 },
		{ "1.234", 0, 1234 },
		{ "1.2345", 0, 1234 },
		{ "9223372036854775", 0, 9223372036854775000 },
		{ "9223372036854776", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ ".5", -EINVAL, 0 },
		{ "5.", -EINVAL, 0 },
		{ "1k", -EINVAL, 0 },
		{ "50%", -EINVAL, 0 },
		{ "-0.5", -EINVAL, 0 },
	};

	check_parse(str_to_milli, cases, ARRAY_LEN(cases));
}

TEST(str_from_bytes_reads_like_a_person_writes)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{ 0, "0 B" },
		{ 1, "1 B" },
		{ 1023, "1023 B" },
		{ K, "1 KiB" },
		{ K + 102, "1 KiB" },
		{ K + 103, "1.1 KiB" },
		{ K + K / 2, "1.5 KiB" },
		{ 2 * K - 1, "1.9 KiB" },
		{ M - 1, "1023.9 KiB" },
		{ M, "1 MiB" },
		{ 256 * M, "256 MiB" },
		{ G + G / 2, "1.5 GiB" },
		{ 4 * T, "4 TiB" },
		{ 1024 * T, "1024 TiB" },
		{ UINT64_MAX, "16777215.9 TiB" },
	};
	char buf[32];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(str_from_bytes(cases[i].bytes, buf, sizeof(buf)), cases[i].text);
}

TEST(str_from_bytes_stays_in_its_buffer)
{
	struct fence f = fence_open(64);

	for (size_t size = 1; size <= 16; size++) {
		char *buf = (char *)fence_at(&f, size);

		memset(buf, 'x', size);
		CHECK(str_from_bytes(UINT64_MAX, buf, size) == buf);
		CHECK_EQ_INT(strnlen(buf, size), size < 15 ? size - 1 : 14);
		CHECK_MEM(buf, "16777215.9 TiB", size < 15 ? size - 1 : 14);
	}
	fence_close(&f);
}

/* What is shown never claims more than there is, and not much less. */
TEST(str_from_bytes_can_be_typed_back)
{
	uint64_t seed = 2;

	for (int i = 0; i < 10000; i++) {
		uint64_t v = rnd(&seed) >> (1 + rnd_below(&seed, 63)), back;
		char buf[32], *space;

		(void)str_from_bytes(v, buf, sizeof(buf));
		space = strchr(buf, ' ');
		CHECK(space != NULL);
		memmove(space, space + 1, strlen(space));
		CHECK_EQ_INT(str_to_bytes(buf, &back), 0);
		CHECK(back <= v);
		CHECK(v - back <= v / 10 + 1);
	}
}

TEST(path_is_plain_looks_at_every_component)
{
	static const struct {
		const char *path;
		bool plain;
	} cases[] = {
		{ "a", true },        { "a/b/c", true },
		{ "...", true },      { ".a", true },
		{ "a.", true },       { "..a", true },
		{ "a..", true },      { "a/.b/..c/...", true },
		{ "-rf", true },      { "a b", true },
		{ "~", true },        { "caf\xc3\xa9", true },
		{ "\xff\xfe", true }, /* names are bytes */
		{ "a\\b", true },     { "", false },
		{ "/", false },       { "/a", false },
		{ "a/", false },      { "a//b", false },
		{ ".", false },       { "..", false },
		{ "./a", false },     { "../a", false },
		{ "a/.", false },     { "a/..", false },
		{ "a/./b", false },   { "a/../b", false },
		{ "a\nb", false },    { "a\x7f", false },
		{ "\x1b[2J", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char abs[64];

		(void)snprintf(abs, sizeof(abs), "/%s", cases[i].path);
		if (path_is_plain(cases[i].path) != cases[i].plain)
			test_fail(__FILE__, __LINE__, "'%s' misjudged", cases[i].path);
		if (path_is_below(cases[i].path) !=
		    (cases[i].plain || strpbrk(cases[i].path, "\n\x7f\x1b") != NULL))
			test_fail(__FILE__, __LINE__, "'%s' misjudged", cases[i].path);
		if (path_is_plain_abs(abs) != cases[i].plain)
			test_fail(__FILE__, __LINE__, "'%s' misjudged", abs);
		CHECK(cases[i].path[0] == '/' || !path_is_plain_abs(cases[i].path));
	}
}

/* path_is_below() has nothing against them. */
TEST(path_is_plain_refuses_control_characters_everywhere)
{
	for (int c = 1; c < 256; c++) {
		bool control = c < 0x20 || c == 0x7f;
		char name[] = { 'x', (char)c, 'y', '\0' }, end[] = { 'd', '/', 'x', (char)c, '\0' };

		if (c == '/')
			continue;
		CHECK_EQ_INT(path_is_plain(name), !control);
		CHECK_EQ_INT(path_is_plain(end), !control);
		CHECK(path_is_below(name) && path_is_below(end));
	}
}

TEST(path_is_plain_keeps_to_the_kernels_lengths)
{
	char path[2 * PATH_MAX];

	memset(path, 'n', sizeof(path));
	path[NAME_MAX] = '\0';
	CHECK(path_is_plain(path));
	path[NAME_MAX] = 'n';
	path[NAME_MAX + 1] = '\0';
	CHECK(!path_is_plain(path));

	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 200 == 199 ? '/' : 'n';
	path[PATH_MAX - 1] = '\0';
	CHECK_EQ_INT(strlen(path), 4095);
	CHECK(path_is_plain(path));
	path[PATH_MAX - 1] = 'n';
	path[PATH_MAX] = '\0';
	CHECK(!path_is_plain(path));
	path[PATH_MAX] = 'n';
	path[sizeof(path) - 1] = '\0';
	CHECK(!path_is_plain(path));
}

/* A buffer that holds no NUL in its first PATH_MAX bytes is not read beyond them. */
TEST(path_is_plain_does_not_read_on_for_ever)
{
	struct fence f = fence_open(PATH_MAX);
	char *path = (char *)fence_at(&f, PATH_MAX);

	memset(path, 'n', PATH_MAX);
	CHECK(!path_is_plain(path));
	fence_close(&f);
}
