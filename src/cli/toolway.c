// SPDX-License-Identifier: Apache-2.0
#include "cli/toolway.h"

#include "base/clock.h"
#include "cli/wake.h"

#include <errno.h>
#include <signal.h>

enum { FLUSH_US = 1000000, LEAVE_US = 2000000 };

struct toolway *toolway_open(const struct mcp_place *p, const struct mcpc_bounds *bounds,
			     struct err *e)
{
	struct mcpc_bounds usual;
	struct dialer *d;

	mcpc_bounds_init(&usual);
	if (bounds == NULL)
		bounds = &usual;
	(void)signal(SIGPIPE, SIG_IGN); /* who has gone is an error of write(2) */
	if (wake_start(0) < 0) {
		(void)err_set(e, ERR_SYS, errno, "wait for signals");
		return NULL;
	}
	if (p->argv != NULL)
		return toolway_stdio_open(p, bounds, e);
	d = toolway_dialer();
	if (d == NULL) {
		(void)err_set(e, ERR_SYS, ENOMEM, "speak to a server");
		return NULL;
	}
	return toolway_http_open(p, bounds, d, e);
}

void toolway_nothing(struct mcpc_request *r)
{
	(void)r;
}

bool toolway_turn(struct toolway *l, uint64_t until_us, bool heed_signals)
{
	struct pollfd p[MCP_POLL_MAX + 1];
	uint64_t deadline = mcpc_deadline(&l->client);
	unsigned int n;
	struct wake w;

	deadline = deadline < until_us ? deadline : until_us;
	n = l->transport->wait(l, p, &deadline);
	p[n] = (struct pollfd){ .fd = heed_signals ? wake_fd() : -1, .events = POLLIN };
	(void)poll(p, n + 1, clock_poll_ms(deadline));
	l->transport->step(l, p, n, clock_us());
	mcpc_tick(&l->client, clock_us());
	if (!heed_signals)
		return true;
	wake_take(&w);
	return w.end == 0;
}

void toolway_await(struct toolway *l, struct mcpc_request *r)
{
	while (r->outcome == MCPC_PENDING)
		if (!toolway_turn(l, UINT64_MAX, true))
			mcpc_cancel(r, "interrupted", clock_us());
}

void toolway_close(struct toolway *l)
{
	uint64_t until;

	if (l == NULL)
		return;
	until = clock_us() + FLUSH_US;
	while (l->client.broken[0] == '\0' && !l->transport->is_idle(l) && clock_us() < until)
		(void)toolway_turn(l, until, false);
	mcpc_done(&l->client);
	if (l->transport->leave != NULL)
		l->transport->leave(l);
	until = clock_us() + LEAVE_US;
	while (l->transport->leave != NULL && !l->transport->is_idle(l) && clock_us() < until)
		(void)toolway_turn(l, until, false);
	l->transport->end(l);
}
