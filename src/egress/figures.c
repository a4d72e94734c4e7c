// SPDX-License-Identifier: Apache-2.0
/*
 * What boxes have done, told to the keeper: a moment later, and many at once. It keeps them for whoever asks, and for the next egress.
 */
#include "egress/egress.h"

#include "base/clock.h"
#include "wire/msg.h"

#include <errno.h>

#define LATER_US (100 * US_PER_MS)

static void put(struct msg_out *m, struct ebox *b)
{
	b->untold = false;
	b->figures.box = b->id;
	b->figures.open = b->nconns;
	net_figures_put(m, &b->figures);
}

/* Those of some boxes. -EAGAIN: the keeper is busy. */
static int tell_some(struct egress *e, unsigned int *ret_n)
{
	static uint8_t body[NET_FIGURES_AT_ONCE * NET_FIGURES_BYTES];
	struct ebox *told[NET_FIGURES_AT_ONCE];
	unsigned int n = 0;
	struct msg_out m;
	int r;

	msg_out_init(&m, body, sizeof(body));
	for (struct ebox *b = e->boxes; b != NULL && n < NET_FIGURES_AT_ONCE; b = b->next)
		if (b->untold) {
			put(&m, b);
			told[n++] = b;
		}
	*ret_n = n;
	if (n == 0)
		return 0;
	r = chan_send(e->keeper.fd, EGRESS_FIGURES, 0, body, m.len, NULL, 0);
	for (unsigned int i = 0; i < n && r < 0; i++)
		told[i]->untold = true;
	return r;
}

static void later(struct egress *e);

static void on_timer(void *arg)
{
	struct egress *e = arg;
	unsigned int n = 0;
	int r;

	e->telling = false;
	do
		r = tell_some(e, &n);
	while (r == 0 && n == NET_FIGURES_AT_ONCE);
	if (r == -EAGAIN)
		later(e);
}

static void later(struct egress *e)
{
	if (!e->telling)
		e->telling =
			timer_set(&e->loop, &e->tell, e->loop.now_us + LATER_US, on_timer, e) == 0;
}

void figures_changed(struct ebox *b)
{
	b->untold = true;
	later(b->e);
}

void figures_last(struct ebox *b)
{
	uint8_t body[NET_FIGURES_BYTES];
	struct msg_out m;

	msg_out_init(&m, body, sizeof(body));
	put(&m, b);
	(void)chan_send(b->e->keeper.fd, EGRESS_FIGURES, 0, body, m.len, NULL, 0);
}
