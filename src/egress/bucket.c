// SPDX-License-Identifier: Apache-2.0
#include "egress/egress.h"

#include "base/clock.h"

bool bucket_take(struct bucket *b, uint64_t now_us, uint64_t a_second, uint64_t at_once)
{
	uint64_t since = now_us - b->at_us, most = at_once * US_PER_S;

	b->at_us = now_us;
	if (since > most)
		since = most;
	b->left += since * a_second;
	if (b->left > most)
		b->left = most;
	if (b->left < US_PER_S)
		return false;
	b->left -= US_PER_S;
	return true;
}
