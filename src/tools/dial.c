// SPDX-License-Identifier: Apache-2.0
/*
 * Connections to servers of MCP. This process can make no socket, and has no network to make one in: the keeper connects, to the places that the
 * operator named, by their number.
 */
#include "tools/tools.h"

#include "base/own.h"
#include "wire/chan.h"
#include "wire/ops.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

struct dialing {
	struct dialing *next;
	uint64_t request;
	struct fetch *x;
};

struct place_dialer {
	struct dialer dialer; /* the first member */
	struct tools *t;
	uint8_t which;
};

static int find(struct dialer *d, const struct endpoint *at, struct err *e)
{
	struct place_dialer *p = (struct place_dialer *)d;

	for (unsigned int i = 0; i < p->t->nplaces; i++)
		if (endpoint_is(&p->t->places[i], at)) {
			p->which = (uint8_t)i;
			return 0;
		}
	return err_set(e, ERR_INPUT, 0,
		       "'%s' is no place that servers may be at: name it in the configuration",
		       at->host);
}

static int dial(struct dialer *d, struct fetch *x, unsigned int nth)
{
	struct place_dialer *p = (struct place_dialer *)d;
	struct dialing *g;
	int r;

	if (nth > 0)
		return -ECONNREFUSED;
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return -ENOMEM;
	g->request = ++p->t->next_dial;
	g->x = x;
	r = chan_send(p->t->keeper_fd, OP_WAY_OPEN, g->request, &p->which, 1, NULL, 0);
	if (r < 0) {
		free(g);
		return r;
	}
	g->next = p->t->dialing;
	p->t->dialing = g;
	return 0;
}

static void drop(struct dialer *d, const struct fetch *x)
{
	struct dialing **at = &((struct place_dialer *)d)->t->dialing;

	while (*at != NULL && (*at)->x != x)
		at = &(*at)->next;
	if (*at != NULL) {
		struct dialing *g = *at;

		*at = g->next;
		free(g);
	}
}

void dial_answered(struct tools *t, uint64_t request, int fd)
{
	struct dialing **at = &t->dialing, *g;
	int one = 1;

	while (*at != NULL && (*at)->request != request)
		at = &(*at)->next;
	g = *at;
	if (g == NULL) { /* nobody wants it any more */
		fd_close(&fd);
		return;
	}
	*at = g->next;
	if (fd >= 0)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	fetch_dialed(g->x, fd >= 0 ? fd : -ECONNREFUSED);
	free(g);
}

static void done(struct dialer *d)
{
	free(d);
}

struct dialer *tools_dialer(struct tools *t)
{
	struct place_dialer *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->dialer = (struct dialer){
		.find = find, .dial = dial, .drop = drop, .done = done, .tls = &tools_tls
	};
	p->t = t;
	return &p->dialer;
}
