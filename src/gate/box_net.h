/* SPDX-License-Identifier: Apache-2.0 */
/* What a box may reach, as the gate has it: see box_net.c. */
#pragma once

#include "gate/keeper_link.h"
#include "wire/fields.h"
#include "wire/netrule.h"

struct abox;
struct gate;
struct gbox;
struct req;
struct tenant;

struct box_network {
	struct field_str policy;
	struct field_list rules;
	int64_t connections, bytes, rate; /* 0: not said */
};

extern const struct fields box_network_fields;

/* Check it. prefix: of the names of its fields. 0, or -1: answered. */
int box_net_take(struct req *r, const char *prefix, const struct box_network *in,
		 struct net_policy *ret);
/* Variables of its programs by which they trust its own authority, where it has one; ends in NULL. */
const char *const *box_net_variables(const struct abox *a);
/* The members of an answer. */
void box_net_put(const struct abox *a, struct json *j);
/* The member "network" of figures. */
struct box_figures;
void box_net_put_figures(const struct abox *a, struct json *j, const struct box_figures *f);
/* As the audit calls it. */
const char *box_net_audit(const struct net_policy *p);
/* Put it into force. 0, or -errno: fn is not called. */
int box_net_ask(struct gbox *b, const struct net_policy *p, keeper_fn fn, void *arg);
/* Who has it; to be said before box_net_ask(), and by a gate that takes it over. */
void box_net_owner(struct gbox *b, const struct tenant *t, const char *what, const char *id);
/* It is gone. What became of its last connections is told later. */
void box_net_gone(const struct gbox *b);
/* Ask the keeper what a box has that another gate made. */
void box_net_adopt(struct abox *a);
/* EVENT_NET, EVENT_NET_FIGURES. */
void box_net_event(struct gate *g, const struct chan_msg *m);
void box_net_figures(struct gate *g, const struct chan_msg *m);
