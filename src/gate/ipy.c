// SPDX-License-Identifier: Apache-2.0
/* Calls of ipybox's resource server that ask nothing of the box. */
#include "gate/ipy.h"

#include <string.h>

struct abox *ipy_box(struct req *r)
{
	struct abox *a;

	return req_box(r, &a) == 0 ? a : NULL;
}

/* That it answers is all: the box is found, and ready. */
void ipy_status(struct req *r)
{
	static const char text[] = "{\"status\":\"ok\"}";

	if (ipy_box(r) != NULL)
		req_reply(r, 200, "application/json", text, sizeof(text) - 1);
}

void ipy_status_moved(struct req *r)
{
	struct http_slice path = r->head.target;
	const char *query = memchr(path.p, '?', path.n);

	if (query != NULL)
		path.n = (size_t)(query - path.p);
	req_header(r, "Location", "%.*s/", (int)path.n, path.p);
	req_reply(r, 307, NULL, "", 0);
}
