// SPDX-License-Identifier: Apache-2.0
/* Connections to servers of MCP, from this machine: the addresses of a name, one after the other. */
#include "cli/toolway.h"

#include "base/own.h"
#include "tools/fetch.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

struct addresses {
	struct dialer dialer; /* the first member */
	struct addrinfo *list;
};

static int find(struct dialer *d, const struct endpoint *at, struct err *e)
{
	struct addresses *a = (struct addresses *)d;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	char port[8];
	int r;

	(void)snprintf(port, sizeof(port), "%u", (unsigned int)at->port);
	r = getaddrinfo(at->host, port, &hints, &a->list);
	if (r == 0)
		return 0;
	a->list = NULL;
	return err_set(e, ERR_INPUT, 0, "there is no host '%s': %s", at->host, gai_strerror(r));
}

/* Those that cannot even be tried are passed over. */
static int dial(struct dialer *d, struct fetch *x, unsigned int nth)
{
	const struct addrinfo *at = ((struct addresses *)d)->list;
	int error = ECONNREFUSED, one = 1;

	for (; at != NULL && nth > 0; nth--)
		at = at->ai_next;
	for (; at != NULL; at = at->ai_next, x->dials++) {
		fd_close(&x->fd);
		x->fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (x->fd < 0) {
			error = errno;
			continue;
		}
		(void)setsockopt(x->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		if (connect(x->fd, at->ai_addr, at->ai_addrlen) == 0 || errno == EINPROGRESS)
			return 0;
		error = errno;
	}
	fd_close(&x->fd);
	return -error;
}

static void done(struct dialer *d)
{
	struct addresses *a = (struct addresses *)d;

	if (a->list != NULL)
		freeaddrinfo(a->list);
	free(a);
}

struct dialer *toolway_dialer(void)
{
	struct addresses *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->dialer = (struct dialer){ .find = find, .dial = dial, .done = done };
	return &a->dialer;
}
