/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a box on a command line: `--network WORD`, and rules. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "wire/netrule.h"

struct net_words {
	struct net_policy policy;
	bool said; /* --network */
};

int net_words_mode(struct net_words *w, const char *word, struct err *e);
/* option is its name, for the error. */
int net_words_rule(struct net_words *w, const char *option, const char *text, struct err *e);
/* When all options are known. Rules alone mean "allow"; without anything it is `standard`. */
int net_words_check(struct net_words *w, enum net_mode standard, struct err *e);
/* The member "network" of a request. */
void net_words_put(const struct net_words *w, struct json *j);
