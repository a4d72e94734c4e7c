/* SPDX-License-Identifier: Apache-2.0 */
/* src/gate/confine.c: what a gate that was taken over could still do with the sockets that it has. */
#include "gate/gate.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

enum { NOBODY = 65534, DENIED = 0, ALLOWED = 1, NOT_CONFINED = 2 };

static int listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	CHECK(fd >= 0);
	CHECK_EQ_INT(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	CHECK_EQ_INT(listen(fd, 4), 0);
	CHECK_EQ_INT(getsockname(fd, (struct sockaddr *)at, &len), 0);
	return fd;
}

/* A listener that was shut down is a socket like others, of the network in which it was opened. In the child: nothing but
 * system calls. */
static int try_to_connect(int fd, struct sockaddr_in *to)
{
	char byte = 'x';
	struct iovec v = { &byte, 1 };
	struct msghdr m = {
		.msg_name = to, .msg_namelen = sizeof(*to), .msg_iov = &v, .msg_iovlen = 1
	};

	(void)shutdown(fd, SHUT_RDWR);
	if (sendto(fd, &byte, 1, MSG_FASTOPEN, (struct sockaddr *)to, sizeof(*to)) >= 0 ||
	    errno != EPERM)
		return ALLOWED;
	if (sendmsg(fd, &m, MSG_FASTOPEN) >= 0 || errno != EPERM)
		return ALLOWED;
	if (connect(fd, (struct sockaddr *)to, sizeof(*to)) == 0 || errno != EPERM)
		return ALLOWED;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd < 0)
		return DENIED;
	(void)close(fd);
	return ALLOWED;
}

TEST(gate_makes_no_connection_of_a_listener)
{
	struct sockaddr_in own, other;
	int mine, theirs, status;
	pid_t pid;

	if (geteuid() != 0)
		SKIP("needs root to confine a process as the keeper does");
#if defined(__SANITIZE_ADDRESS__)
	SKIP("a sanitized gate has no filter");
#endif
	mine = listener(&own);
	theirs = listener(&other);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		struct err e;

		_exit(confine_gate(NOBODY, NOBODY, &e) < 0 ? NOT_CONFINED
							   : try_to_connect(mine, &other));
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ_INT(WEXITSTATUS(status), DENIED);
	CHECK(accept(theirs, NULL, NULL) < 0 && errno == EAGAIN);
	(void)close(mine);
	(void)close(theirs);
}
