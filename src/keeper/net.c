// SPDX-License-Identifier: Apache-2.0
#include "keeper/net_parts.h"

#include "base/own.h"

/* The filter first: of all these it alone can tell that somebody was here before, and it is there as a whole or not at all. */
int net_prepare(int ret_fds[NET_FD_MAX], const char **ret_what)
{
	int r;

	for (unsigned int i = 0; i < NET_FD_MAX; i++)
		ret_fds[i] = -1;
	*ret_what = "packet filter";
	r = net_filter();
	if (r < 0)
		return r;
	*ret_what = "addresses";
	r = net_addresses();
	if (r < 0)
		return r;
	*ret_what = "listeners";
	r = net_listen(ret_fds);
	for (unsigned int i = 0; r < 0 && i < NET_FD_MAX; i++)
		fd_close(&ret_fds[i]);
	return r;
}
