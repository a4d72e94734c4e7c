// SPDX-License-Identifier: Apache-2.0
/*
 * Links: connections to programs of the box, for clients outside of it. A link is a job without a process; stream.c moves its bytes as it moves those
 * of a program, and back-pressure is that of a job: a full ring stops reading from the program, a full window stops the gate.
 *
 * It goes to the box's own loopback and nowhere else, whatever is asked for: first to 127.0.0.1, and to ::1 where nobody listens there. Each half has a
 * descriptor, so that each can be watched and closed by itself.
 */
#include "box/init.h"

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

/* A connection that is there or under way, or -errno. */
static int dial(enum link_state to, uint16_t port)
{
	const struct sockaddr_in v4 = { .sin_family = AF_INET,
					.sin_port = htons(port),
					.sin_addr = { htonl(INADDR_LOOPBACK) } };
	const struct sockaddr_in6 v6 = { .sin6_family = AF_INET6,
					 .sin6_port = htons(port),
					 .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	own_fd fd = socket(to == LINK_V4 ? AF_INET : AF_INET6,
			   SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int one = 1;
	int r, error = 0;
	socklen_t n = sizeof(error);

	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	r = to == LINK_V4 ? connect(fd, (const struct sockaddr *)&v4, sizeof(v4))
			  : connect(fd, (const struct sockaddr *)&v6, sizeof(v6));
	if (r < 0 && errno != EINPROGRESS)
		return -errno;
	/* It is as good as never said by connect() itself, but there already. */
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0 || error != 0)
		return error != 0 ? -error : -errno;
	return fd_take(&fd);
}

static int dial_for(struct job *j, enum link_state to)
{
	own_fd fd = dial(to, j->link_port), second = -1;

	j->link = to;
	if (fd < 0)
		return fd;
	second = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (second < 0)
		return -errno;
	j->out[0].fd = fd_take(&fd);
	j->in_fd = fd_take(&second);
	return 0;
}

int link_open(struct init *in, struct job *j, const struct job_spec *spec)
{
	uint64_t port;
	int r;

	(void)in;
	if (str_to_u64(spec->argv[0], UINT16_MAX, &port) < 0 || port == 0)
		return -EINVAL;
	j->link_port = (uint16_t)port;
	r = dial_for(j, LINK_V4);
	return r == -ECONNREFUSED ? dial_for(j, LINK_V6) : r;
}

bool link_refused(struct init *in, struct job *j)
{
	int r = -ECONNREFUSED;

	if (j->link == LINK_NONE)
		return false;
	streams_close(in, j);
	if (j->in_watched)
		watch_del(in, j->in_fd);
	j->in_watched = false;
	fd_close(&j->in_fd);
	if (j->link == LINK_V4)
		r = dial_for(j, LINK_V6);
	if (r == 0)
		return true;
	j->exec_errno = -r;
	(void)strcpy(j->exec_stage, "connect");
	return false;
}

void link_ended(struct job *j)
{
	j->state = JOB_ENDED;
	j->ended_us = clock_us();
	j->deadline_us = UINT64_MAX;
}

void link_cut(struct init *in, struct job *j)
{
	j->status = SIGKILL; /* as of a program that was killed */
	streams_close(in, j);
	job_settle(in, j);
}
