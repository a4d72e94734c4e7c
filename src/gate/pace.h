/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often something may be: so many times at once, and then one in each interval. It is counted when it happens, and who wants it again asks
 * when that may be. One number: how far what has happened is ahead of the clock.
 */
#pragma once

#include <stdint.h>

struct pace {
	uint64_t ahead_us;
};

static inline void pace_count(struct pace *p, uint64_t now_us, uint64_t each_us)
{
	p->ahead_us = (p->ahead_us > now_us ? p->ahead_us : now_us) + each_us;
}

/* When it may be again; not later than now: at once. */
static inline uint64_t pace_at(const struct pace *p, uint64_t each_us, unsigned int at_once)
{
	uint64_t free_us = each_us * at_once;

	return p->ahead_us > free_us ? p->ahead_us - free_us : 0;
}
