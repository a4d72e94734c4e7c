// SPDX-License-Identifier: Apache-2.0
/*
 * Ways out for the gate: connections to a few places that the operator named.
 *
 * The gate can make no socket, and has no network to make one in. It asks for one by number and is handed a stream that is
 * being connected; the addresses come with the arguments of this process, as numbers.
 *
 * Must not: connect to anything that a gate says; look up a name; wait for the other side.
 */
#include "keeper/keeper.h"

#include "base/own.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int ways_argument(struct keeper *k, const char *text, struct err *e)
{
	const char *colon = strrchr(text, ':');
	struct way *w = &k->ways[k->nways < ENDPOINTS_MAX ? k->nways : 0];
	char host[INET6_ADDRSTRLEN];
	uint64_t port;

	if (k->nways >= ENDPOINTS_MAX)
		return err_set(e, ERR_USAGE, 0, "more than %d arguments 'way=' of the keeper",
			       ENDPOINTS_MAX);
	*w = (struct way){ 0 };
	if (text[0] == '\0') {
		k->nways++;
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
	k->nways++;
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

int way_open(const struct keeper *k, unsigned int which, struct err *e)
{
	const struct way *w = which < k->nways ? &k->ways[which] : NULL;
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
