// SPDX-License-Identifier: Apache-2.0
/*
 * The egress role: `glovebox-gate egress`, started by the keeper when the first box is to have a network, with its channel on descriptor 3.
 *
 * Start: find out which servers this machine looks names up at, take the secrets (descriptor 4, if there are any), give up everything, then one loop over the keeper's channel, the listeners of boxes and
 * their connections. The keeper gone: exit.
 */
#include "egress/role.h"
#include "egress/tunnel.h"

#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct arguments {
	uint32_t uid, gid;
	const char *servers; /* "": those of the machine */
	bool secrets;
};

static int take_argument(struct arguments *a, const char *arg)
{
	uint64_t v;

	if (strcmp(arg, "secrets") == 0) {
		a->secrets = true;
		return 0;
	}
	if (strncmp(arg, "servers=", 8) == 0) {
		a->servers = arg + 8;
		return 0;
	}
	if ((strncmp(arg, "uid=", 4) != 0 && strncmp(arg, "gid=", 4) != 0) ||
	    str_to_u64(arg + 4, UINT32_MAX - 1, &v) < 0)
		return -1;
	if (arg[0] == 'u')
		a->uid = (uint32_t)v;
	else
		a->gid = (uint32_t)v;
	return 0;
}

static int descriptors(void)
{
	struct rlimit l;

	return getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur > INT_MAX ? INT_MAX : (int)l.rlim_cur;
}

static int start(struct egress *e, const struct arguments *a,
		 int (*confine)(uint32_t uid, uint32_t gid, struct err *e), struct err *err)
{
	int r = loop_init(&e->loop);

	if (r == 0)
		r = pipes_start(e);
	if (r < 0)
		return err_set(err, ERR_SYS, -r, "make the event loop");
	(void)io_set_nonblock(EGRESS_KEEPER_FD, 1);
	if (a->secrets && secrets_read(e, EGRESS_SECRETS_FD, err) < 0)
		return -1;
	if (a->secrets)
		(void)close(EGRESS_SECRETS_FD);
	if (lookups_start(e, a->servers, err) < 0 || confine(a->uid, a->gid, err) < 0)
		return -1;
	r = keeper_start(e, EGRESS_KEEPER_FD);
	return r < 0 ? err_set(err, ERR_SYS, -r, "listen to the keeper") : 0;
}

int egress_main(int argc, char **argv, int (*confine)(uint32_t uid, uint32_t gid, struct err *e))
{
	static struct egress e;
	struct arguments a = { .servers = "" };
	struct err err;

	for (int i = 1; i < argc; i++)
		if (take_argument(&a, argv[i]) < 0)
			return 2;
	(void)signal(SIGPIPE, SIG_IGN);
	io_raise_limit(RLIMIT_NOFILE);
	e.fds = descriptors();
	if (start(&e, &a, confine, &err) < 0) {
		(void)dprintf(STDERR_FILENO, "glovebox egress: %s\n", err.text);
		return 1;
	}
	loop_run(&e.loop);
	_exit(0);
}
