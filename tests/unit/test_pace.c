// SPDX-License-Identifier: Apache-2.0
#include "gate/pace.h"
#include "test.h"

enum { EACH = 500, AT_ONCE = 3, NOW = 1000000 };

TEST(pace_lets_so_many_through_at_once_and_then_one_in_each_interval)
{
	struct pace p = { 0 };

	for (unsigned int i = 0; i < AT_ONCE; i++) {
		CHECK(pace_at(&p, EACH, AT_ONCE) <= NOW);
		pace_count(&p, NOW, EACH);
	}
	CHECK(pace_at(&p, EACH, AT_ONCE) <= NOW);
	pace_count(&p, NOW, EACH);
	CHECK_EQ_INT(pace_at(&p, EACH, AT_ONCE), NOW + EACH);
	pace_count(&p, NOW + EACH, EACH);
	CHECK_EQ_INT(pace_at(&p, EACH, AT_ONCE), NOW + 2 * EACH);
}

TEST(pace_forgets_what_was_long_ago)
{
	struct pace p = { 0 };

	for (unsigned int i = 0; i < 2 * AT_ONCE; i++)
		pace_count(&p, NOW, EACH);
	CHECK(pace_at(&p, EACH, AT_ONCE) > NOW);
	for (unsigned int i = 0; i < AT_ONCE; i++) {
		CHECK(pace_at(&p, EACH, AT_ONCE) <= 2 * NOW);
		pace_count(&p, 2 * NOW, EACH);
	}
}
