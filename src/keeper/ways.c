// SPDX-License-Identifier: Apache-2.0
/*
 * Ways out for the gate and the tools process: connections to a few places that the operator named.
 *
 * They can make no socket, and have no network to make one in. They ask for one by number and are handed a stream that is
 * being connected; the addresses come with the arguments of this process, as numbers.
 *
 * Must not: connect to anything that they say; look up a name; wait for the other side.
 */
#include "keeper/keeper.h"

#include "base/own.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int ways_argument(struct ways *all, const char *text, struct err *e)
{
	const char *colon = strrchr(text, ':');
	struct way *w = &all->v[all->n < WAYS_MAX ? all->n : 0];
	char host[INET6_ADDRSTRLEN];
	uint64_t port;

	if (all->n >= WAYS_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d arguments 'way=' of the keeper",
			       WAYS_MAX);
	*w = (struct way){ 0 };
	if (text[0] == '\0') {
		all->n++;
		return 0;
	}
	if (colon == NULL || (size_t)(colon - text) >= sizeof(host) ||
	    str_to_u64(colon + 1, UINT16_MAX, &port) < 0 || port == 0)
		return err_set(e, ERR_USAGE, 0, "bad argument 'way=%s' of the keeper", text);
	(void)snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
	w->v6 = strchr(host, ':') != NULL;
	if (inet_pton(w->v6 ? AF_INET6 : AF_INET, host, w->address) != 1)
		return err_set(e, ERR_USAGE, 0, "bad argument 'way=%s' of the keeper", text);
	w->port = (uint16_t)port;
	w->known = true;
	all->n++;
	return 0;
}

static int begin_connect(const struct way *w, int fd)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(w->port) };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(w->port) };

	(void)memcpy(&v6.sin6_addr, w->address, sizeof(v6.sin6_addr));
	(void)memcpy(&v4.sin_addr, w->address, sizeof(v4.sin_addr));
	return w->v6 ? connect(fd, (const struct sockaddr *)&v6, sizeof(v6))
		     : connect(fd, (const struct sockaddr *)&v4, sizeof(v4));
}

int way_open(const struct ways *all, unsigned int which, struct err *e)
{
	const struct way *w = which < all->n ? &all->v[which] : NULL;
	own_fd fd = -1;

	if (w == NULL)
		return err_set(e, ERR_INPUT, 0, "there is no such place");
	if (!w->known)
		return err_set(e, ERR_INPUT, 0, "its name led to no address when the server began");
	fd = socket(w->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, ERR_SYS, errno, "make a socket");
	if (begin_connect(w, fd) < 0 && errno != EINPROGRESS)
		return err_set(e, ERR_SYS, errno, "connect");
	return fd_take(&fd);
}
