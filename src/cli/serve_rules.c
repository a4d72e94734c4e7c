// SPDX-License-Identifier: Apache-2.0
/*
 * What boxes may reach, how much of it, and what is put into their requests, by configuration. Rules are read by the gate and by egress; here they are looked at by somebody who can tell who wrote them.
 */
#include "cli/serve.h"

#include "wire/secretspec.h"

#include <string.h>

/* They can be read, and each has a name of its own. Whether they are there is another matter. */
static int look_at_secrets(const struct config *c, struct err *e)
{
	static struct secret_spec s;
	static char keys[SECRETS_MAX][NET_SECRET];
	unsigned int n;
	char *const *v = config_list(c, CONF_SECRET, &n);

	for (unsigned int i = 0; i < n; i++) {
		if (secret_spec_read(v[i], &s, e) < 0)
			return -1;
		secret_spec_key(&s, keys[i]);
		for (unsigned int k = 0; k < i; k++)
			if (strcmp(keys[k], keys[i]) == 0)
				return err_set(e, ERR_USAGE, 0, "secret: '%s' is there twice",
					       keys[i]);
	}
	return 0;
}

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
	if (look_at_secrets(c, e) < 0)
		return -1;
	net_policy_init(&p);
	for (unsigned int i = 0; i < n && r == 0; i++)
		if (net_rule_read(rules[i], &rule, e) < 0 || net_policy_add(&p, &rule, e) < 0)
			r = err_wrap(e, "ci_allow");
	if (r == 0 && net_policy_encode(&p, space, sizeof(space)) < 0)
		r = err_set(e, ERR_USAGE, 0, "ci_allow: the rules are too long in all");
	net_policy_done(&p);
	return r;
}
