/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of a network as clients write them, and as they are told: see net_rules.c. */
#pragma once

#include "gate/req.h"
#include "wire/fields.h"
#include "wire/netrule.h"

/* Of one rule: a text, or an object. */
extern const struct fields net_rule_fields;

/* All of them, into a policy. field: what they are called. 0, or -1: answered. */
int net_rules_take(struct req *r, const char *field, const struct field_list *list,
		   struct net_policy *p);
/* One of them, as an element of a list. */
void net_rule_put(const struct net_rule *r, struct json *j);
