/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's side of the keeper's channel: each operation as an ordinary function.
 */
#pragma once

#include "base/err.h"
#include "wire/ops.h"

#include <sys/types.h>

enum { KEEPER_NET_MAX = 16 };

struct keeper_client {
	int fd;
	pid_t pid;
	uint64_t next_request;
	bool box_gone; /* EVENT_GONE came */
	enum gone_why gone_why;
	struct box_figures gone;                 /* its last figures */
	char net[KEEPER_NET_MAX][NET_RULE_TEXT]; /* what no rule allows, as rules */
	bool net_learned[KEEPER_NET_MAX];        /* which was let through: NET_LEARN */
	unsigned int nnet, net_more;
};

/* Start a keeper of our own with these arguments (NULL-terminated) and say hello. */
int keeper_start(struct keeper_client *k, const char *const *args, struct err *e);
/* Let it go; it ends its boxes and exits. Waits for that. When it was killed instead, another one is
 * started for a moment: whoever starts removes what a dead one left. */
void keeper_stop(struct keeper_client *k);
/* Remove what a keeper that was killed left. */
void keeper_sweep(void);

int keeper_box_new(struct keeper_client *k, const struct box_request *q, struct box_info *info,
		   int *ret_stream, struct err *e);
int keeper_box_deadline(struct keeper_client *k, uint64_t box, uint64_t us, struct err *e);
int keeper_box_end(struct keeper_client *k, uint64_t box, struct box_figures *f, struct err *e);
int keeper_box_figures(struct keeper_client *k, uint64_t box, struct box_figures *f, struct err *e);
/* Names of the system calls that programs of our boxes were refused, as many as fit. How many, or -1. */
int keeper_refused(struct keeper_client *k, const char **names, unsigned int max, struct err *e);
int keeper_box_attach(struct keeper_client *k, uint64_t box, int *ret_stream, struct err *e);

/* What a box with BOX_NETWORK may reach from now on. */
int keeper_box_net(struct keeper_client *k, uint64_t box, const struct net_policy *p,
		   struct err *e);

/* Take an event that is waiting. -1: the keeper is gone. */
int keeper_event(struct keeper_client *k, struct err *e);
