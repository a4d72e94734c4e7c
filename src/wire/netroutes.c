// SPDX-License-Identifier: Apache-2.0
/*
 * Routes of a box: what has none is "Network is unreachable" in the kernel, before egress hears of it. Egress decides all the same, so a route too many lets nobody
 * out; one too few would keep somebody in.
 */
#include "wire/netrule.h"

#include <errno.h>
#include <string.h>

struct routes {
	struct net_route *v;
	int n;
};

static void add(struct routes *r, const struct net_address *a, uint8_t bits, bool refused)
{
	if (r->n < 0)
		return;
	/* The same twice: who refuses stays. */
	for (int i = 0; i < r->n; i++)
		if (r->v[i].bits == bits && memcmp(&r->v[i].address, a, sizeof(*a)) == 0) {
			r->v[i].refused = refused;
			return;
		}
	if (r->n == NET_ROUTES_MAX) {
		r->n = -E2BIG;
		return;
	}
	r->v[r->n++] = (struct net_route){ .address = *a, .bits = bits, .refused = refused };
}

static void add_world(struct routes *r)
{
	struct net_address a = { 0 };
	uint8_t bits;

	add(r, &a, 0, false);
	a.v6 = true;
	a.a[0] = 0x20;
	add(r, &a, 3, false);
	for (unsigned int i = 0; net_special(i, &a, &bits); i++)
		if (a.v6 || a.a[0] != 127)
			add(r, &a, bits, true);
}

int net_policy_routes(const struct net_policy *p, struct net_route v[NET_ROUTES_MAX])
{
	static const uint8_t names[4] = { 198, 18 };
	struct routes r = { .v = v };
	struct net_address a;

	if (p->mode == NET_NONE)
		return 0;
	if (net_mode_is_open(p->mode))
		add_world(&r);
	net_address_v4(names, &a);
	add(&r, &a, 15, false);
	for (int deny = 0; deny < 2; deny++)
		for (unsigned int i = 0; i < p->nrules; i++) {
			const struct net_rule *rule = &p->rules[i];

			/* Of a network of which some ports are denied the others may be allowed. */
			if (rule->kind == NET_CIDR && rule->deny == (deny != 0) &&
			    (!rule->deny || rule->nports == 0))
				add(&r, &rule->address, rule->bits, rule->deny);
		}
	return r.n;
}
