// SPDX-License-Identifier: Apache-2.0
/* `glovebox run`: what the program could not reach, and what it has learned. */
#include "cli/run.h"

#include "cli/keeper_client.h"

#include <stdio.h>

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
