// SPDX-License-Identifier: Apache-2.0
/* `glovebox run --allow`: what the program may reach, and what it could not reach. */
#include "cli/run.h"

#include "base/own.h"
#include "cli/keeper_client.h"

#include <stdio.h>
#include <string.h>

/* A network as a word, and rules. */
int run_net_mode(struct run_request *q, const char *word, struct err *e)
{
	for (int i = 0; i < NET_MODE_MAX; i++)
		if (strcmp(net_mode_str[i], word) == 0) {
			q->net.mode = (enum net_mode)i;
			q->net_said = true;
			return 0;
		}
	return err_set(e, ERR_USAGE, 0, "--network '%s': it is none, allow, open or learn", word);
}

int run_net_allow(struct run_request *q, const char *text, struct err *e)
{
	struct net_rule r;

	if (net_rule_read(text, &r, e) < 0 || net_policy_add(&q->net, &r, e) < 0) {
		e->kind = ERR_USAGE;
		return err_wrap(e, "--allow");
	}
	return 0;
}

/* When all options are known. */
int run_net_check(struct run_request *q, struct err *e)
{
	if (!q->net_said && q->net.nrules > 0)
		q->net.mode = NET_ALLOW;
	if (q->net_said && q->net.mode == NET_NONE && q->net.nrules > 0)
		return err_set(e, ERR_USAGE, 0, "--network none leaves nothing to --allow");
	if (q->net.mode != NET_NONE)
		q->box.flags |= BOX_NETWORK;
	return 0;
}

static void say_learned(const struct keeper_client *k, FILE *f)
{
	bool first = true;

	for (unsigned int i = 0; i < k->nnet; i++) {
		if (!k->net_learned[i])
			continue;
		(void)fprintf(f, "%s --allow '%s'", first ? "glovebox: learned:" : "", k->net[i]);
		first = false;
	}
	if (!first)
		(void)fputc('\n', f);
}

/* What was refused, as it would be allowed, and what was let through, as rules; each once. */
void run_net_say(const struct keeper_client *k, FILE *f)
{
	for (unsigned int i = 0; i < k->nnet; i++)
		if (!k->net_learned[i])
			(void)fprintf(f, "glovebox: the network refused %s; --allow %s allows it\n",
				      k->net[i], k->net[i]);
	say_learned(k, f);
	if (k->net_more > 0)
		(void)fprintf(f, "glovebox: and %u more of them\n", k->net_more);
}
