/* SPDX-License-Identifier: Apache-2.0 */
/* Time inside Glovebox is microseconds of CLOCK_MONOTONIC, always. */
#pragma once

#include <stdint.h>
#include <time.h>

#define US_PER_S  1000000ULL
#define US_PER_MS 1000ULL

static inline uint64_t clock_us(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_nsec / 1000u;
}

/* Milliseconds from now to a deadline for poll(2) and epoll_wait(2), rounded up; -1 for "never". */
static inline int clock_poll_ms(uint64_t deadline_us)
{
	uint64_t now;

	if (deadline_us == UINT64_MAX)
		return -1;
	now = clock_us();
	if (deadline_us <= now)
		return 0;
	if (deadline_us - now > 60000u * US_PER_MS)
		return 60000;
	return (int)((deadline_us - now + US_PER_MS - 1) / US_PER_MS);
}
