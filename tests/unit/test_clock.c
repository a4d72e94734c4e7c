/* SPDX-License-Identifier: Apache-2.0 */
/* src/base/clock.h: deadlines for poll(2). */
#include "base/clock.h"

#include "test_help.h"

TEST(clock_goes_forward_in_microseconds)
{
	uint64_t a = clock_us(), b;

	(void)usleep(2000);
	b = clock_us();
	CHECK(b - a >= 2000 && b - a < 10 * US_PER_S);
}

/* Rounded up: a loop that wakes before its deadline would turn until it comes. */
TEST(clock_poll_ms_waits_long_enough_and_not_for_ever)
{
	uint64_t now = clock_us();

	CHECK_EQ_INT(clock_poll_ms(UINT64_MAX), -1);
	CHECK_EQ_INT(clock_poll_ms(0), 0);
	CHECK_EQ_INT(clock_poll_ms(now), 0);
	CHECK_EQ_INT(clock_poll_ms(UINT64_MAX - 1), 60000);
	CHECK_EQ_INT(clock_poll_ms(now + 120 * US_PER_S), 60000);
	for (int i = 0; i < 1000; i++) {
		uint64_t deadline = clock_us() + 5 * US_PER_S + (uint64_t)i;
		int ms = clock_poll_ms(deadline);
		uint64_t after = clock_us();

		CHECK(ms > 0 && ms <= 5001);
		CHECK(after + (uint64_t)ms * US_PER_MS >= deadline);
	}
}
