// SPDX-License-Identifier: Apache-2.0
#include "gate/net_default.h"

#include "gate/gate.h"

/* The supervisor has refused a configuration with a rule that is none. */
static void of_ci(const struct config *c, struct net_policy *p)
{
	unsigned int n;
	char *const *rules = config_list(c, CONF_CI_ALLOW, &n);
	struct net_rule r;
	struct err e;

	for (unsigned int i = 0; i < n; i++)
		if (net_rule_read(rules[i], &r, &e) < 0 || net_policy_add(p, &r, &e) < 0) {
			net_policy_done(p); /* one that denies must not be missing */
			return;
		}
	p->mode = n > 0 ? NET_ALLOW : NET_NONE;
}

static void of_se(const struct config *c, struct net_policy *p)
{
	p->mode = config_bool(c, CONF_SE_ALLOW_NETWORK) ? NET_OPEN : NET_NONE;
}

struct net_bounds net_bounds_default(const struct gate *g)
{
	const struct config *c = &g->config;

	return (struct net_bounds){
		.connections = (uint32_t)config_u64(c, CONF_BOX_NET_CONNECTIONS),
		.bytes = config_u64(c, CONF_BOX_NET_BYTES),
		.rate = config_u64(c, CONF_BOX_NET_RATE),
	};
}

const struct net_policy *net_default(const struct gate *g, enum net_default d)
{
	static void (*const of[NET_DEFAULT_MAX])(const struct config *, struct net_policy *) = {
		[NET_DEFAULT_CI] = of_ci,
		[NET_DEFAULT_SE] = of_se,
	};
	static struct net_policy p;

	net_policy_done(&p);
	net_policy_init(&p);
	p.bounds = net_bounds_default(g);
	if (of[d] != NULL)
		of[d](&g->config, &p);
	return &p;
}
