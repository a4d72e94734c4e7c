/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/limits.c: values within the rows of policy/limits.tbl. The rows themselves: test_tables.c. */
#include "base/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "test_help.h"

/* A value as one types it: without the words that limit_format() adds for a reader. */
static const char *typed(enum limit_id id, uint64_t v, char *buf, size_t size)
{
	unsigned long long n = v;

	if (limit_row(id)->unit == LIMIT_MILLI)
		(void)snprintf(buf, size, "%llu.%03llu", n / 1000, n % 1000);
	else
		(void)snprintf(buf, size, "%llu", n);
	return buf;
}

TEST(limits_init_gives_defaults_that_pass)
{
	enum limit_id bad = LIMIT_ID_MAX;
	struct limits l;

	memset(&l, 0xff, sizeof(l));
	limits_init(&l);
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++)
		CHECK_EQ_INT(l.v[i], limit_row((enum limit_id)i)->def);
	CHECK_EQ_INT(limits_check(&l, &bad), 0);
	CHECK_EQ_INT(bad, LIMIT_ID_MAX);
}

TEST(limits_check_names_the_one_that_is_out_of_range)
{
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++) {
		const struct limit_row *row = limit_row((enum limit_id)i);
		enum limit_id bad = LIMIT_ID_MAX;
		struct limits l;

		limits_init(&l);
		l.v[i] = row->min;
		CHECK_EQ_INT(limits_check(&l, &bad), 0);
		l.v[i] = row->max;
		CHECK_EQ_INT(limits_check(&l, &bad), 0);
		l.v[i] = row->max + 1;
		CHECK_EQ_INT(limits_check(&l, &bad), -ERANGE);
		CHECK_EQ_INT(bad, i);
		if (row->min > 0) {
			bad = LIMIT_ID_MAX;
			l.v[i] = row->min - 1;
			CHECK_EQ_INT(limits_check(&l, &bad), -ERANGE);
			CHECK_EQ_INT(bad, i);
		}
		bad = LIMIT_ID_MAX;
		l.v[i] = UINT64_MAX;
		CHECK_EQ_INT(limits_check(&l, &bad), -ERANGE);
		CHECK_EQ_INT(bad, i);
	}
}

TEST(limits_check_names_the_first)
{
	enum limit_id bad = LIMIT_ID_MAX;
	struct limits l;

	memset(&l, 0xff, sizeof(l));
	CHECK_EQ_INT(limits_check(&l, &bad), -ERANGE);
	CHECK_EQ_INT(bad, 0);
}

TEST(limit_parse_refuses_and_never_clamps)
{
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++) {
		enum limit_id id = (enum limit_id)i;
		const struct limit_row *row = limit_row(id);
		uint64_t v = 1;
		char buf[40];

		CHECK_EQ_INT(limit_parse(id, typed(id, row->min, buf, sizeof(buf)), &v), 0);
		CHECK_EQ_INT(v, row->min);
		CHECK_EQ_INT(limit_parse(id, typed(id, row->max, buf, sizeof(buf)), &v), 0);
		CHECK_EQ_INT(v, row->max);
		CHECK_EQ_INT(limit_parse(id, typed(id, row->def, buf, sizeof(buf)), &v), 0);
		CHECK_EQ_INT(v, row->def);
		v = 77;
		CHECK_EQ_INT(limit_parse(id, typed(id, row->max + 1, buf, sizeof(buf)), &v),
			     -ERANGE);
		if (row->min > 0)
			CHECK_EQ_INT(limit_parse(id, typed(id, row->min - 1, buf, sizeof(buf)), &v),
				     -ERANGE);
		CHECK_EQ_INT(limit_parse(id, "99999999999999999999999", &v), -ERANGE);
		CHECK_EQ_INT(limit_parse(id, "", &v), -EINVAL);
		CHECK_EQ_INT(limit_parse(id, "-1", &v), -EINVAL);
		CHECK_EQ_INT(limit_parse(id, "unlimited", &v), -EINVAL);
		CHECK_EQ_INT(v, 77);
	}
}

TEST(limit_parse_uses_the_unit_of_the_row)
{
	uint64_t v;

	CHECK_EQ_INT(limit_parse(LIMIT_MEMORY, "1.5G", &v), 0);
	CHECK_EQ_INT(v, 3ULL << 29);
	CHECK_EQ_INT(limit_parse(LIMIT_CPUS, "0.5", &v), 0);
	CHECK_EQ_INT(v, 500);
	CHECK_EQ_INT(limit_parse(LIMIT_CPUS, "1k", &v), -EINVAL);
	CHECK_EQ_INT(limit_parse(LIMIT_PROCESSES, "64", &v), 0);
	CHECK_EQ_INT(v, 64);
	CHECK_EQ_INT(limit_parse(LIMIT_PROCESSES, "1k", &v), -EINVAL);
	CHECK_EQ_INT(limit_parse(LIMIT_PROCESSES, "64.0", &v), -EINVAL);
	CHECK_EQ_INT(limit_parse(LIMIT_CPU_SECONDS, "10", &v), 0);
	CHECK_EQ_INT(v, 10);
}

TEST(limit_format_says_the_unit)
{
	char buf[32];
	uint64_t v;

	CHECK(limit_format(LIMIT_MEMORY, 256ULL << 20, buf, sizeof(buf)) == buf);
	CHECK_STR(buf, "256 MiB");
	CHECK_EQ_INT(limit_parse(LIMIT_CPUS, limit_format(LIMIT_CPUS, 1050, buf, sizeof(buf)), &v),
		     0);
	CHECK_EQ_INT(v, 1050);
	CHECK_STR(limit_format(LIMIT_CPU_SECONDS, 10, buf, sizeof(buf)), "10 s");
	CHECK_STR(limit_format(LIMIT_PROCESSES, 64, buf, sizeof(buf)), "64");
	for (unsigned int i = 0; i < LIMIT_ID_MAX; i++) {
		CHECK(strlen(limit_format((enum limit_id)i, UINT64_MAX, buf, sizeof(buf))) > 0);
		CHECK(strnlen(limit_format((enum limit_id)i, UINT64_MAX, buf, 4), 4) < 4);
	}
}
