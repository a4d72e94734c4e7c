// SPDX-License-Identifier: Apache-2.0
/*
 * The sockets by which a box is served from outside of it.
 *
 * Their ports are below 1024, which the caller may have and a box's programs may not, but for the proxy's: that one is taken before a program runs.
 */
#include "keeper/net_parts.h"

#include "base/own.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

union address {
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* clang-format off */
static const struct kind {
	int family;
	int type;
	uint16_t port;
	bool any;     /* on all addresses; with IPv6, also on those of IPv4 */
	bool foreign; /* it is given what was sent to other addresses (net_filter.c) */
} sockets[NET_FD_MAX] = {
	[NET_FD_TCP4]    = { AF_INET,  SOCK_STREAM, NET_PORT,       false, true },
	[NET_FD_TCP6]    = { AF_INET6, SOCK_STREAM, NET_PORT,       false, true },
	[NET_FD_PROXY]   = { AF_INET,  SOCK_STREAM, NET_PROXY_PORT, false, false },
	[NET_FD_DNS]     = { AF_INET6, SOCK_DGRAM,  NET_DNS_PORT,   true,  false },
	[NET_FD_DNS_TCP] = { AF_INET6, SOCK_STREAM, NET_DNS_PORT,   true,  false },
};
/* clang-format on */

static socklen_t address_of(int family, uint16_t port, bool any, union address *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (family == AF_INET) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(port);
		ret->v4.sin_addr.s_addr = htonl(any ? INADDR_ANY : INADDR_LOOPBACK);
		return sizeof(ret->v4);
	}
	ret->v6.sin6_family = AF_INET6;
	ret->v6.sin6_port = htons(port);
	ret->v6.sin6_addr = any ? in6addr_any : in6addr_loopback;
	return sizeof(ret->v6);
}

bool net_has_v6(void)
{
	own_fd fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	union address a;
	socklen_t len = address_of(AF_INET6, 0, false, &a);

	return fd >= 0 && bind(fd, &a.sa, len) == 0;
}

/* Questions come with the address that they went to, and answers may have any address that has a route, on lo or not. */
static int tell_addresses(int fd, int family)
{
	int on = 1;

	if (family == AF_INET)
		return setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)) < 0)
		return -1;
	return setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on));
}

static int set_options(int fd, int family, const struct kind *k)
{
	int on = 1, v6only = !k->any;

	if (family == AF_INET6 &&
	    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only)) < 0)
		return -1;
	if (k->foreign && family == AF_INET)
		return setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &on, sizeof(on));
	if (k->foreign)
		return setsockopt(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, &on, sizeof(on));
	return k->type == SOCK_DGRAM ? tell_addresses(fd, family) : 0;
}

static int open_one(int family, const struct kind *k)
{
	own_fd fd = socket(family, k->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	union address a;
	socklen_t len = address_of(family, k->port, k->any, &a);
	int on = 1;

	if (fd < 0 || set_options(fd, family, k) < 0)
		return -errno;
	/* Not for datagrams: with it another socket could have the same port, and get the questions. */
	if (k->type == SOCK_STREAM && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return -errno;
	if (bind(fd, &a.sa, len) < 0)
		return -errno;
	if (k->type == SOCK_STREAM && listen(fd, NET_BACKLOG) < 0)
		return -errno;
	return fd_take(&fd);
}

int net_listen(int ret_fds[NET_FD_MAX])
{
	bool v6 = net_has_v6();

	for (unsigned int i = 0; i < NET_FD_MAX; i++) {
		if (!v6 && i == NET_FD_TCP6)
			continue;
		ret_fds[i] = open_one(v6 ? sockets[i].family : AF_INET, &sockets[i]);
		if (ret_fds[i] < 0)
			return ret_fds[i];
	}
	return 0;
}
