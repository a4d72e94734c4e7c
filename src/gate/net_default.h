/* SPDX-License-Identifier: Apache-2.0 */
/* What boxes of a dialect may reach when nobody says so. docs/network.md has it for users. */
#pragma once

#include "wire/netrule.h"

struct gate;

enum net_default {
	NET_DEFAULT_NONE,
	NET_DEFAULT_CI, /* what ci_allow names */
	NET_DEFAULT_SE, /* se_allow_network: public addresses */
	NET_DEFAULT_MAX,
};

/* How much of the network a box has unless a request wants less. */
struct net_bounds net_bounds_default(const struct gate *g);

/* By the configuration of now. It is there until this is called again. */
const struct net_policy *net_default(const struct gate *g, enum net_default d);
