/* SPDX-License-Identifier: Apache-2.0 */
/* What net_prepare() is made of. All act on the namespace that we are in; 0 or -errno. */
#pragma once

#include "keeper/net.h"

/* The packet filter: all of it, or -EEXIST and nothing. */
int net_filter(void);
/* The box's own addresses, on lo. */
int net_addresses(void);
int net_listen(int ret_fds[NET_FD_MAX]);

/* Does lo have IPv6? A kernel can be without it, and a machine can have it turned off. */
bool net_has_v6(void);
