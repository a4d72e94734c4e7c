/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/fileop.c: which operation it is, and which part of a file is meant. */
#include "wire/fileop.h"

#include <errno.h>

#include "base/own.h"

#include "test_help.h"

TEST(fileop_is_found_by_its_name_and_the_number_of_words)
{
	static const struct {
		const char *argv[9];
		int op;
	} cases[] = {
		{ { "stat", "x" }, FILEOP_STAT },
		{ { "stat", "x", "nofollow" }, FILEOP_STAT },
		{ { "stat", "x", "nofollow", "" }, -EINVAL },
		{ { "stat" }, -EINVAL },
		{ { "read", "x", "follow", "0", "", "", "" }, FILEOP_READ },
		{ { "read", "x", "follow", "0", "", "" }, -EINVAL },
		{ { "read", "x", "follow", "0", "", "", "", "" }, -EINVAL },
		{ { "write", "x", "", "", "" }, FILEOP_WRITE },
		{ { "tree", "x" }, FILEOP_TREE },
		{ { "tree", "x", "y" }, -EINVAL },
		{ { "unpack", "x", "auto", "0", "0" }, FILEOP_UNPACK },
		{ { "Stat", "x" }, -ENOSYS },
		{ { "", "x" }, -ENOSYS },
		{ { "statx", "x" }, -ENOSYS },
		{ { NULL }, -ENOSYS },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_EQ_INT(fileop_find(cases[i].argv), cases[i].op);
}

TEST(fileop_range_is_what_the_words_say)
{
	static const struct {
		uint64_t size;
		const char *from, *count;
		int result;
		uint64_t start, n;
	} cases[] = {
		{ 100, "0", "", 0, 0, 100 },
		{ 100, "0", "100", 0, 0, 100 },
		{ 100, "0", "1", 0, 0, 1 },
		{ 100, "99", "", 0, 99, 1 },
		{ 100, "99", "7", 0, 99, 1 },
		{ 100, "100", "", -ERANGE, 0, 0 },
		{ 100, "100", "1", -ERANGE, 0, 0 },
		{ 100, "-1", "", 0, 99, 1 },
		{ 100, "-100", "", 0, 0, 100 },
		{ 100, "-101", "", 0, 0, 100 },
		{ 100, "-10", "3", 0, 90, 3 },
		{ 100, "-0", "", -ERANGE, 0, 0 },
		{ 100, "50", "0", 0, 50, 0 },
		{ 0, "0", "", 0, 0, 0 },
		{ 0, "0", "1", -ERANGE, 0, 0 },
		{ 0, "1", "", -ERANGE, 0, 0 },
		{ 0, "-1", "", -ERANGE, 0, 0 },
		/* More than a number holds is more than every file has. */
		{ 100, "5", "99999999999999999999999", 0, 5, 95 },
		{ 100, "99999999999999999999999", "", -ERANGE, 0, 0 },
		{ 100, "-99999999999999999999999", "", 0, 0, 100 },
		{ UINT64_MAX, "1", "", 0, 1, UINT64_MAX - 1 },
		{ UINT64_MAX, "-18446744073709551615", "", 0, 0, UINT64_MAX },
		{ 100, "", "", -EINVAL, 0, 0 },
		{ 100, "-", "", -EINVAL, 0, 0 },
		{ 100, "--1", "", -EINVAL, 0, 0 },
		{ 100, "+1", "", -EINVAL, 0, 0 },
		{ 100, " 1", "", -EINVAL, 0, 0 },
		{ 100, "1x", "", -EINVAL, 0, 0 },
		{ 100, "0", "-1", -EINVAL, 0, 0 },
		{ 100, "0", "x", -EINVAL, 0, 0 },
		{ 100, "0", "99999999999999999999999x", -EINVAL, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t start = 0, n = 0;

		CHECK_EQ_INT(fileop_range(cases[i].size, cases[i].from, cases[i].count, &start, &n),
			     cases[i].result);
		CHECK(start == cases[i].start && n == cases[i].n);
	}
}

TEST(fileop_send_is_what_the_conditions_leave)
{
	struct listing_entry e = {
		.type = 'f', .size = 1000, .inode = 1, .mtime_ns = 2, .ctime_ns = 3
	};
	char etag[LISTING_ETAG];
	uint64_t start, n;
	struct fileop_read q = { "follow", "100", "10", "", "" };

	listing_etag(&e, etag);
	CHECK_EQ_INT(fileop_send(&e, &q, &start, &n), FILEOP_BYTES);
	CHECK(start == 100 && n == 10);
	q.if_range = etag;
	CHECK_EQ_INT(fileop_send(&e, &q, &start, &n), FILEOP_BYTES);
	CHECK(start == 100 && n == 10);
	q.if_range = "\"another\""; /* then all of it, even if the range were none */
	q.from = "5000";
	CHECK_EQ_INT(fileop_send(&e, &q, &start, &n), FILEOP_BYTES);
	CHECK(start == 0 && n == 1000);
	q.if_range = "*"; /* is no tag here */
	CHECK_EQ_INT(fileop_send(&e, &q, &start, &n), FILEOP_BYTES);
	CHECK(start == 0 && n == 1000);
	q.if_range = "";
	CHECK_EQ_INT(fileop_send(&e, &q, &start, &n), FILEOP_NO_RANGE);
	q.if_none_match = etag;
	CHECK_EQ_INT(fileop_send(&e, &q, &start, &n), FILEOP_UNCHANGED);
	q.if_none_match = "*";
	CHECK_EQ_INT(fileop_send(&e, &q, &start, &n), FILEOP_UNCHANGED);
	q.if_none_match = "\"another\"";
	q.from = "x";
	CHECK_EQ_INT(fileop_send(&e, &q, &start, &n), -EINVAL);
}
