// SPDX-License-Identifier: Apache-2.0
/* The service manager's protocol: a datagram with lines of KEY=VALUE. */
#include "base/own.h"
#include "cli/serve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

void notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = path != NULL ? strlen(path) : 0;
	own_fd fd = -1;

	if (n == 0 || n >= sizeof(a.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	(void)memcpy(a.sun_path, path, n);
	if (path[0] == '@') /* of the abstract kind */
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&a,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
}
