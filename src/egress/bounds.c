// SPDX-License-Identifier: Apache-2.0
/*
 * What a box may use of the network: connections at once, bytes in all, bytes a second each way. Who has used up its second waits; nothing that a
 * program has sent is lost. Who has used up everything is cut.
 */
#include "egress/egress.h"

#include "base/clock.h"

enum {
	BURST_MIN = 64 * 1024, /* what may be used at once, after a pause */
	BURST_PART = 8,        /* or that part of a second */
	WORTH = 16 * 1024,     /* what is waited for: not a few bytes at a time */
};

#define WAIT_MIN_US (2 * US_PER_MS)
#define WAIT_MAX_US (1 * US_PER_S)

static int64_t burst(uint64_t rate)
{
	return rate / BURST_PART > BURST_MIN ? (int64_t)(rate / BURST_PART) : BURST_MIN;
}

/* What has been earned since the last time; a rest of a byte is not lost. */
static void earn(struct flow *f, uint64_t rate, uint64_t now_us)
{
	uint64_t since = now_us - f->at_us, gained;

	if (since > US_PER_S) {
		since = US_PER_S;
		f->at_us = now_us - since;
	}
	gained = since * rate / US_PER_S;
	if (gained == 0)
		return;
	f->at_us += gained * US_PER_S / rate;
	f->left += (int64_t)gained;
	if (f->left > burst(rate))
		f->left = burst(rate);
}

uint64_t bounds_allow(struct ebox *b, enum way w)
{
	const struct net_bounds *n = &b->policy.bounds;
	uint64_t used = b->figures.sent + b->figures.received, most = UINT64_MAX;

	if (n->bytes != 0)
		most = used < n->bytes ? n->bytes - used : 0;
	if (n->rate != 0) {
		struct flow *f = &b->flow[w];

		earn(f, n->rate, b->e->loop.now_us);
		if (f->left <= 0)
			return 0;
		if ((uint64_t)f->left < most)
			most = (uint64_t)f->left;
	}
	return most;
}

void bounds_spent(struct ebox *b, enum way w, uint64_t bytes)
{
	if (bytes == 0)
		return;
	if (w == WAY_UP)
		b->figures.sent += bytes;
	else
		b->figures.received += bytes;
	if (b->policy.bounds.rate != 0)
		b->flow[w].left -= (int64_t)bytes;
	figures_changed(b);
}

bool bounds_may_begin(const struct egress *e, int fd)
{
	return fd < e->fds / 2;
}

bool bounds_may_go_on(const struct egress *e, int fd)
{
	return fd < e->fds / 4 * 3;
}

bool bounds_reached(const struct ebox *b)
{
	uint64_t most = b->policy.bounds.bytes;

	return most != 0 && b->figures.sent + b->figures.received >= most;
}

/* --- waiting ---------------------------------------------------------------------------------------- */

static void on_earned(void *arg)
{
	struct ebox *b = arg;

	b->waits = false;
	for (struct econn *c = b->conns, *next; c != NULL; c = next) {
		next = c->next;
		conn_resume(c);
	}
}

void bounds_wait(struct ebox *b)
{
	uint64_t rate = b->policy.bounds.rate, us;
	int64_t missing = WORTH;

	if (b->waits || rate == 0)
		return;
	for (int w = 0; w < WAYS; w++)
		if (WORTH - b->flow[w].left > missing)
			missing = WORTH - b->flow[w].left;
	us = (uint64_t)missing * US_PER_S / rate;
	us = us < WAIT_MIN_US ? WAIT_MIN_US : us > WAIT_MAX_US ? WAIT_MAX_US : us;
	b->waits = timer_set(&b->e->loop, &b->earned, b->e->loop.now_us + us, on_earned, b) == 0;
}

void bounds_done(struct ebox *b)
{
	timer_clear(&b->e->loop, &b->earned);
}
