// SPDX-License-Identifier: Apache-2.0
#include "cli/net_words.h"

#include <string.h>

int net_words_mode(struct net_words *w, const char *word, struct err *e)
{
	for (int i = 0; i < NET_MODE_MAX; i++)
		if (strcmp(net_mode_str[i], word) == 0) {
			w->policy.mode = (enum net_mode)i;
			w->said = true;
			return 0;
		}
	return err_set(e, ERR_USAGE, 0, "--network '%s': it is none, allow, open or learn", word);
}

int net_words_rule(struct net_words *w, const char *option, const char *text, struct err *e)
{
	struct net_rule r;

	if (net_rule_read(text, &r, e) < 0 || net_policy_add(&w->policy, &r, e) < 0) {
		e->kind = ERR_USAGE;
		return err_wrap(e, "--%s", option);
	}
	return 0;
}

int net_words_check(struct net_words *w, enum net_mode standard, struct err *e)
{
	w->policy.bounds.connections = NET_CONNS_MAX;
	if (!w->said)
		w->policy.mode = w->policy.nrules > 0 ? NET_ALLOW : standard;
	if (w->policy.mode == NET_NONE && w->policy.nrules > 0)
		return err_set(e, ERR_USAGE, 0, "--network none leaves nothing to rules");
	return 0;
}

void net_words_put(const struct net_words *w, struct json *j)
{
	char text[NET_RULE_TEXT];

	json_open(j, "network", '{');
	json_str(j, "policy", net_mode_str[w->policy.mode]);
	json_open(j, "rules", '[');
	for (unsigned int i = 0; i < w->policy.nrules; i++) {
		net_rule_text(&w->policy.rules[i], text);
		json_str(j, NULL, text);
	}
	json_close(j, ']');
	json_close(j, '}');
}
