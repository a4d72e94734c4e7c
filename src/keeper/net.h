/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network of a box: routes, a packet filter and listeners in its own namespace. Everything here acts on the namespace of the calling
 * process, which has CAP_NET_ADMIN over it: the plan of a box, or a helper of the keeper's that has entered it. Raw netlink, libc only.
 *
 * (1) There is no interface but lo, and no route but local ones to lo: what has no route is ENETUNREACH at connect, v4 and v6. Routes give clear answers and are no
 *     fence: a program that names lo itself (SO_BINDTODEVICE) gets to our listener, and no further, with any address.
 * (2) TCP to anything but loopback arrives at NET_PORT; UDP to port 53 is ours whatever the address; all else that has a route is EPERM at send.
 * (3) Loopback, and what the box sends to its own address, is not touched. NET_PORT is the exception: connections straight to it are reset.
 * (4) No connection is tracked. What a box can have of them is bounded by who accepts them, and by NET_BACKLOG.
 */
#pragma once

#include "wire/netrule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	NET_PORT = 1,          /* where what goes elsewhere arrives, on 127.0.0.1 and ::1 */
	NET_PROXY_PORT = 1080, /* HTTP CONNECT and SOCKS 5, on 127.0.0.1 */
	NET_DNS_PORT = 53,     /* on all addresses */
	NET_BACKLOG = 128,
};

/* Addresses that stand for names. The first of each is the box's own, on lo: the source of what it sends. */
#define NET_V4_RANGE "198.18.0.0"
#define NET_V4_OWN   "198.18.0.1"
#define NET_V6_RANGE "fd67:6c6f:7665::"
#define NET_V6_OWN   "fd67:6c6f:7665::1"
enum { NET_V4_BITS = 15, NET_V6_BITS = 64 };

/*
 * Sockets that are made in the namespace and serve outside of it: close-on-exec, not blocking.
 *
 * NET_FD_TCP4, NET_FD_TCP6: getsockname of an accepted socket is where the program wanted to go, and getpeername the program.
 *     While it is there, its port is in use for programs that bind to all addresses without SO_REUSEADDR. NET_FD_TCP6 is -1 on a machine without IPv6.
 * NET_FD_DNS: datagrams for any address at port 53. An answer is sent with the control data of its question (recvmsg, at least NET_DNS_CONTROL bytes), which
 *     is what makes it come from whom was asked. Both families, IPv4 as ::ffff:a.b.c.d; one of AF_INET on a machine without IPv6.
 * NET_FD_DNS_TCP: port 53 of loopback and of the box's own address. To others it is TCP as any.
 */
enum net_fd { NET_FD_TCP4, NET_FD_TCP6, NET_FD_PROXY, NET_FD_DNS, NET_FD_DNS_TCP, NET_FD_MAX };
enum { NET_DNS_CONTROL = 64 };

/*
 * lo is up already. Once per namespace, a second time is -EEXIST and changes nothing: the packet filter, addresses on lo, the listeners. 0 or -errno with
 * *ret_what a word for what failed; then the namespace is of no use for this any more, and no socket is open.
 */
int net_prepare(int ret_fds[NET_FD_MAX], const char **ret_what);

/*
 * The routes of `now` in place of those of `before`. What is in both stays as it is, and at no moment has an address a route that neither gives it. What is there or
 * gone already is no failure. 0 or -errno; then some of them may be changed, and the same call may be made again. -EINVAL, before anything is changed: too many, or not a prefix.
 * Loopback and the box's own addresses are left alone whatever is said, and so is IPv6 on a machine without.
 */
int net_routes(const struct net_route *before, unsigned int nbefore, const struct net_route *now,
	       unsigned int nnow);
