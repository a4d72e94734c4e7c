// SPDX-License-Identifier: Apache-2.0
/*
 * Listeners of a box on this machine's loopback.
 *
 * The gate can make no socket. It asks for one here, by number, and is handed a listener; the keeper keeps its own copy, so that
 * connections wait in the kernel while there is no gate, and the next one gets the same. The box's end closes it.
 *
 * Should: refuse what another process of this machine has, and what only root may have.
 * Must not: listen on anything but 127.0.0.1.
 */
#include "keeper/keeper.h"

#include "base/own.h"
#include "base/str.h"

#include <netinet/in.h>
#include <sys/socket.h>

enum { BACKLOG = 128 };

int ports_argument(struct keeper *k, const char *number, struct err *e)
{
	uint64_t n;

	if (str_to_u64(number, PORTS_ANY, &n) < 0)
		return err_set(e, ERR_USAGE, 0, "bad argument 'ports=%s' of the keeper", number);
	k->ports_allowed = (enum ports_allowed)n;
	return 0;
}

static int check(const struct keeper *k, uint16_t port, struct err *e)
{
	if (k->ports_allowed == PORTS_NONE)
		return err_set(e, ERR_USAGE, 0, "boxes have no ports here (box_ports)");
	if (k->ports_allowed == PORTS_FREE && port != 0)
		return err_set(e, ERR_USAGE, 0,
			       "no port of this machine can be chosen here (box_ports)");
	if (port != 0 && port < PORT_LOWEST)
		return err_set(e, ERR_USAGE, 0, "port %u is below %d", port, PORT_LOWEST);
	if (k->nports >= PORTS_MAX)
		return err_set(e, ERR_LIMIT, 0, "boxes have %d ports already", PORTS_MAX);
	return 0;
}

static int listen_on(uint16_t port, uint16_t *ret_port, int *ret_fd, struct err *e)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr = { htonl(INADDR_LOOPBACK) } };
	own_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(a);
	int one = 1;

	if (fd < 0)
		return err_set(e, ERR_SYS, errno, "make a socket for a box");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, BACKLOG) < 0)
		return err_set(e, errno == EADDRINUSE ? ERR_INPUT : ERR_SYS, errno,
			       "listen on port %u of 127.0.0.1", port);
	if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
		return err_set(e, ERR_SYS, errno, "see which port a box has");
	*ret_port = ntohs(a.sin_port);
	*ret_fd = fd_take(&fd);
	return 0;
}

static bool is_outside(unsigned int which)
{
	return which < PORTS_OUTSIDE || which >= PORT_PUBLISHED;
}

int port_open(struct keeper *k, struct box *b, enum box_port which, uint16_t port, struct err *e)
{
	if (b->port_fd[which] >= 0 && which == PORT_TOOLS && listen(b->port_fd[which], BACKLOG) < 0)
		return err_set(e, ERR_SYS, errno, "listen for calls of tools");
	if (b->port_fd[which] >= 0)
		return 0;
	if (!is_outside(which))
		return err_set(e, ERR_INPUT, 0, "this box was made without %s",
			       which == PORT_TOOLS ? "a socket for tools" : "ports");
	if (check(k, port, e) < 0 || listen_on(port, &b->port[which], &b->port_fd[which], e) < 0)
		return -1;
	k->nports++;
	return 0;
}

/* Who waits there is refused at once, also where a gate has a copy of it. */
void port_close(struct keeper *k, struct box *b, enum box_port which)
{
	if (b->port_fd[which] < 0)
		return;
	if (is_outside(which)) {
		(void)shutdown(b->port_fd[which], SHUT_RDWR);
		k->nports--;
	}
	fd_close(&b->port_fd[which]);
}

void ports_close(struct keeper *k, struct box *b)
{
	for (unsigned int i = 0; i < BOX_PORTS_MAX; i++)
		port_close(k, b, (enum box_port)i);
}
