// SPDX-License-Identifier: Apache-2.0
/*
 * Addresses and routes of a box.
 *
 * All are in the table of local routes, where an exception and what it is an exception from can be compared by length. One that is local brings a packet back to lo,
 * and says that its source is the box's own address: without, it would be the destination.
 * An exception is of type throw, which is as if nothing had been found: ENETUNREACH, where unreachable would be EHOSTUNREACH.
 */
#include "keeper/net_parts.h"

#include "keeper/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>

enum { LO = 1 }; /* lo has this index in every namespace */

static const struct own_address {
	int family;
	uint8_t bits;
	const char *text;
} own[] = {
	[false] = { AF_INET, 32, NET_V4_OWN },
	[true] = { AF_INET6, 128, NET_V6_OWN },
};

static size_t own_bytes(bool v6, uint8_t ret[16])
{
	(void)inet_pton(own[v6].family, own[v6].text, ret);
	return own[v6].bits / 8;
}

/* --- which routes ------------------------------------------------------------------------------------------ */

static bool same(const struct net_route *a, const struct net_route *b)
{
	return a->address.v6 == b->address.v6 && a->bits == b->bits && a->refused == b->refused &&
	       memcmp(a->address.a, b->address.a, a->address.v6 ? 16 : 4) == 0;
}

static bool is_among(const struct net_route *r, const struct net_route *list, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (same(r, &list[i]))
			return true;
	return false;
}

/* No more bits than the address has, and none behind the prefix: the kernel would take some of those for something else. */
static bool is_prefix(const struct net_route *r)
{
	unsigned int size = r->address.v6 ? 16 : 4;

	if (r->bits > size * 8)
		return false;
	for (unsigned int i = r->bits; i < size * 8; i++)
		if ((r->address.a[i / 8] & (0x80 >> i % 8)) != 0)
			return false;
	return true;
}

static bool are_prefixes(const struct net_route *list, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (!is_prefix(&list[i]))
			return false;
	return n <= NET_ROUTES_MAX;
}

/* Loopback and our own address: these routes are the kernel's. */
static bool is_kept(const struct net_route *r)
{
	uint8_t mine[16];
	size_t n = own_bytes(r->address.v6, mine);

	if (r->bits == n * 8 && memcmp(r->address.a, mine, n) == 0)
		return true;
	if (r->address.v6)
		return r->bits == 128 &&
		       memcmp(r->address.a, &in6addr_loopback, sizeof(in6addr_loopback)) == 0;
	return r->bits >= 8 && r->address.a[0] == IN_LOOPBACKNET;
}

/* --- changing them ----------------------------------------------------------------------------------------- */

static void put_route(struct nl *nl, bool add, const struct net_route *r)
{
	struct rtmsg header = { .rtm_family = (uint8_t)own[r->address.v6].family,
				.rtm_dst_len = r->bits,
				.rtm_table = RT_TABLE_LOCAL,
				.rtm_protocol = RTPROT_STATIC,
				.rtm_scope = r->refused ? RT_SCOPE_UNIVERSE : RT_SCOPE_HOST,
				.rtm_type = r->refused ? RTN_THROW : RTN_LOCAL };
	uint8_t source[16];
	size_t n = own_bytes(r->address.v6, source);

	nl_begin(nl, add ? RTM_NEWROUTE : RTM_DELROUTE,
		 add ? NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK : NLM_F_ACK, &header, sizeof(header));
	nl_put(nl, RTA_DST, r->address.a, n);
	if (r->refused)
		return;
	nl_u32(nl, RTA_OIF, LO);
	nl_put(nl, RTA_PREFSRC, source, n);
}

/* Those of a list that are refused or are not, and are not in the other list: all added, or all removed. */
static int change(struct nl *nl, bool add, bool refused, bool v6, const struct net_route *list,
		  unsigned int n, const struct net_route *other, unsigned int nother)
{
	int tolerated = add ? EEXIST : ESRCH, r = 0;

	for (unsigned int i = 0; i < n && r == 0; i++) {
		const struct net_route *route = &list[i];

		if (route->refused != refused || (route->address.v6 && !v6) || is_kept(route) ||
		    is_among(route, other, nother))
			continue;
		if (nl->nmessages == NL_MESSAGES_MAX)
			r = nl_send(nl, tolerated);
		put_route(nl, add, route);
	}
	return r < 0 ? r : nl_send(nl, tolerated);
}

int net_routes(const struct net_route *before, unsigned int nbefore, const struct net_route *now,
	       unsigned int nnow)
{
	/* In this order nothing has a route on the way that it has neither before nor after. */
	static const struct {
		bool add, refused;
	} steps[] = { { false, false }, { true, true }, { false, true }, { true, false } };
	bool v6 = net_has_v6();
	struct nl nl;
	int r;

	if (!are_prefixes(before, nbefore) || !are_prefixes(now, nnow))
		return -EINVAL;
	r = nl_open(&nl, NETLINK_ROUTE);
	if (r < 0)
		return r;
	for (unsigned int i = 0; i < sizeof(steps) / sizeof(steps[0]) && r == 0; i++)
		r = steps[i].add
			    ? change(&nl, true, steps[i].refused, v6, now, nnow, before, nbefore)
			    : change(&nl, false, steps[i].refused, v6, before, nbefore, now, nnow);
	nl_close(&nl);
	return r;
}

/* --- our own addresses ------------------------------------------------------------------------------------- */

static void put_address(struct nl *nl, bool v6)
{
	struct ifaddrmsg header = { .ifa_family = (uint8_t)own[v6].family,
				    .ifa_prefixlen = own[v6].bits,
				    .ifa_scope = RT_SCOPE_UNIVERSE,
				    .ifa_index = LO };
	uint8_t address[16];
	size_t n = own_bytes(v6, address);

	nl_begin(nl, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, &header, sizeof(header));
	nl_put(nl, IFA_LOCAL, address, n);
	nl_put(nl, IFA_ADDRESS, address, n);
	if (v6)
		nl_u32(nl, IFA_FLAGS, IFA_F_NODAD | IFA_F_NOPREFIXROUTE);
}

/*
 * The kernel adds the route to a new address of IPv6 when it comes to it, and a wider one that refuses it at once: for a moment packets to it would vanish. So it
 * is told to leave the wider one out, and gets ours.
 */
int net_addresses(void)
{
	struct net_route to_own = { .address = { .v6 = true }, .bits = own[true].bits };
	struct nl nl;
	int r = nl_open(&nl, NETLINK_ROUTE);

	if (r < 0)
		return r;
	put_address(&nl, false);
	if (net_has_v6()) {
		(void)own_bytes(true, to_own.address.a);
		put_address(&nl, true);
		put_route(&nl, true, &to_own);
	}
	r = nl_send(&nl, EEXIST);
	nl_close(&nl);
	return r;
}
