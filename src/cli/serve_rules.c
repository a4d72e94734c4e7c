// SPDX-License-Identifier: Apache-2.0
/*
 * What boxes may reach, and how much of it, by configuration. Rules are read by the gate and by egress; here they are looked at by somebody who can tell who wrote them.
 */
#include "cli/serve.h"

#include "wire/netrule.h"

int serve_rules(const struct config *c, struct err *e)
{
	static uint8_t space[NET_POLICY_BYTES];
	struct net_policy p;
	struct net_rule rule;
	unsigned int n;
	char *const *rules = config_list(c, CONF_CI_ALLOW, &n);
	int r = 0;

	if (config_u64(c, CONF_BOX_NET_RATE) != 0 &&
	    config_u64(c, CONF_BOX_NET_RATE) < NET_RATE_MIN)
		return err_set(e, ERR_USAGE, 0, "box_net_rate is 0, or at least %d", NET_RATE_MIN);
	net_policy_init(&p);
	for (unsigned int i = 0; i < n && r == 0; i++)
		if (net_rule_read(rules[i], &rule, e) < 0 || net_policy_add(&p, &rule, e) < 0)
			r = err_wrap(e, "ci_allow");
	if (r == 0 && net_policy_encode(&p, space, sizeof(space)) < 0)
		r = err_set(e, ERR_USAGE, 0, "ci_allow: the rules are too long in all");
	net_policy_done(&p);
	return r;
}
