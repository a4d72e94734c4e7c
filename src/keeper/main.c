// SPDX-License-Identifier: Apache-2.0
/*
 * The keeper role: `glovebox keeper`, started by another role with its channel on descriptor 3.
 *
 * Start: take the arguments of the (trusted) starter, become root of a namespace if need be, lock
 * an instance, see what cgroups there are. Then one loop over the gate's channel, the boxes'
 * reports and the children. The gate's end of the channel closed: end every box and exit. Of a server
 * the channel is the supervisor's, and the gate is a child of ours: see servants.c.
 */
#include "keeper/keeper.h"
#include "keeper/role.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* What the keeper asks of itself before it takes its first message. */
static int settle(struct keeper *k, struct err *e)
{
	sigset_t set;

	/* Effective ids change around clone3; capabilities must not go with them. */
	if (!k->ids.single && prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0)
		return err_set(e, ERR_SYS, errno, "keep capabilities over a change of uid");
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)prctl(PR_SET_DUMPABLE, 0);
	io_raise_limit(RLIMIT_NOFILE);
	io_raise_limit(RLIMIT_FSIZE);
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	/* The terminal's Ctrl-C is the gate's business; our end comes by the channel. */
	(void)signal(SIGINT, SIG_IGN);
	(void)signal(SIGQUIT, SIG_IGN);
	(void)signal(SIGTERM, SIG_IGN);
	(void)signal(SIGHUP, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_SETMASK, &set, NULL) < 0)
		return err_set(e, ERR_SYS, errno, "block signals");
	k->children_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	k->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (k->children_fd < 0 || k->epoll_fd < 0)
		return err_set(e, ERR_SYS, errno, "make the event loop");
	return 0;
}

/* Whether the next gate can go on with a box: it is complete, and there is a record of what it is. */
static bool outlives_gate(const struct keeper *k, const struct box *b)
{
	return k->server.on && !k->server.ending && b->state == BOX_READY && b->record_len > 0;
}

void keeper_drop_gate(struct keeper *k)
{
	if (k->gate_gone)
		return;
	k->gate_gone = true;
	k->hello = false;
	(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, k->gate_fd, NULL);
	fd_close(&k->gate_fd);
	images_forget_gate(k);
	for (unsigned int i = 0; i < k->nboxes; i++) {
		struct box *b = &k->boxes[i];

		if (b->state == BOX_FREE || outlives_gate(k, b))
			continue;
		b->request = 0; /* nobody waits for the answer */
		b->asked_to_end = true;
		box_end(k, b);
	}
}

static void gate_event(struct keeper *k)
{
	static struct chan_msg m;
	int r = chan_recv(k->gate_fd, &m);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r > 0 && ops_handle(k, &m) == 0)
		return;
	keeper_drop_gate(k);
}

static void children_event(struct keeper *k)
{
	struct signalfd_siginfo info;

	while (read(k->children_fd, &info, sizeof(info)) > 0)
		;
	boxes_reap(k);
}

void keeper_watch(struct keeper *k, int fd, uint64_t what)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = what };

	(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void dispatch(struct keeper *k, uint64_t what)
{
	if (what == WATCH_GATE) {
		gate_event(k);
	} else if (what == WATCH_CHILDREN) {
		children_event(k);
	} else if (what == WATCH_SUPERVISOR) {
		server_sup_event(k);
	} else if (what == WATCH_STORE) {
		server_store_event(k);
	} else if (what == WATCH_TOOLS) {
		server_tools_event(k);
	} else if (what == WATCH_EGRESS) {
		egress_event(k);
	} else if (what >= WATCH_NETS) {
		struct box *b = &k->boxes[what - WATCH_NETS];

		if (b->state != BOX_FREE && b->net != NULL)
			boxnet_event(k, b);
	} else if (what >= WATCH_REFUSALS) {
		struct box *b = &k->boxes[what - WATCH_REFUSALS];

		if (b->state != BOX_FREE && b->refusals_fd >= 0)
			refusals_event(k, b);
	} else if (what >= WATCH_CONTROLS) {
		struct box *b = &k->boxes[what - WATCH_CONTROLS];

		if (b->state != BOX_FREE && b->control_fd >= 0)
			box_control_event(k, b);
	} else {
		struct box *b = &k->boxes[what - WATCH_REPORTS];

		if (b->state != BOX_FREE && b->report_fd >= 0)
			box_report_event(k, b);
	}
}

static void loop(struct keeper *k)
{
	keeper_watch(k, k->children_fd, WATCH_CHILDREN);
	for (;;) {
		struct epoll_event events[32];
		uint64_t deadline = boxes_turn(k), due = server_turn(k), net = egress_turn(k);
		int n;

		if (k->gate_gone && k->nboxes == 0 && server_is_over(k))
			return;
		if (due < deadline)
			deadline = due;
		if (net < deadline)
			deadline = net;
		n = epoll_wait(k->epoll_fd, events, (int)ARRAY_LEN(events),
			       clock_poll_ms(deadline));
		for (int i = 0; i < n; i++)
			dispatch(k, events[i].data.u64);
	}
}

/* Arguments: root=DIR (repeated), cgroup=DIR, ports=NUMBER, egress-exec=FD, egress-secrets=FD, envs=FD and egress:WORD (repeated), way=ADDRESS:PORT and tool-way=ADDRESS:PORT (repeated), and those of servants.c. They come from whoever starts us, not from a gate. */
static int take_argument(struct keeper *k, char *arg, const char **ret_cgroup, struct err *e)
{
	int r = server_argument(&k->server, arg, e);

	if (r != 0)
		return r < 0 ? -1 : 0;
	if (strncmp(arg, "root=", 5) == 0 && k->nroots < ROOTS_MAX) {
		(void)snprintf(k->roots[k->nroots++].path, sizeof(k->roots[0].path), "%s", arg + 5);
		return 0;
	}
	if (strncmp(arg, "cgroup=", 7) == 0) {
		*ret_cgroup = arg + 7;
		return 0;
	}
	if (strncmp(arg, "spare_cpus=", 11) == 0) {
		k->spare_cpus = (unsigned int)strtoul(arg + 11, NULL, 10); /* the supervisor's */
		return 0;
	}
	if (strncmp(arg, "egress-exec=", 12) == 0) {
		k->egress.exec_fd = (int)strtoul(arg + 12, NULL, 10); /* the supervisor's */
		return fcntl(k->egress.exec_fd, F_SETFD, FD_CLOEXEC) < 0
			       ? err_set(e, ERR_USAGE, errno, "descriptor %d", k->egress.exec_fd)
			       : 0;
	}
	if (strncmp(arg, "envs=", 5) == 0) {
		k->envs_given = arg + 5;
		return 0;
	}
	if (strncmp(arg, "egress-secrets=", 15) == 0)
		return egress_secrets_argument(k, arg + 15, e);
	if (strncmp(arg, "egress:", 7) == 0 && k->egress.servant.nargs < STORE_ARGS_MAX) {
		k->egress.servant.args[k->egress.servant.nargs++] = arg + 7;
		return 0;
	}
	if (strncmp(arg, "ports=", 6) == 0)
		return ports_argument(k, arg + 6, e);
	if (strncmp(arg, "way=", 4) == 0)
		return ways_argument(&k->ways, arg + 4, e);
	if (strncmp(arg, "tool-way=", 9) == 0)
		return ways_argument(&k->tool_ways, arg + 9, e);
	return err_set(e, ERR_USAGE, 0, "unknown argument '%s' of the keeper", arg);
}

/* In the mount namespace that we stay in: a descriptor of another one cannot be mounted from. */
static int open_roots(struct keeper *k, struct err *e)
{
	for (unsigned int i = 0; i < k->nroots; i++) {
		k->roots[i].fd = open(k->roots[i].path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (k->roots[i].fd < 0)
			return err_set(e, ERR_INPUT, errno, "open mount root '%s'",
				       k->roots[i].path);
	}
	return 0;
}

static int start(struct keeper *k, int argc, char **argv, struct err *e)
{
	const char *cgroup = NULL;

	k->owner = getuid();
	k->owner_group = getgid();
	for (int i = 1; i < argc; i++)
		if (take_argument(k, argv[i], &cgroup, e) < 0)
			return -1;
	if (ids_start(&k->ids, e) < 0 ||
	    instance_start(&k->instance, k->ids.slots, k->owner, e) < 0 || settle(k, e) < 0 ||
	    blob_fd(k, BLOB_INIT, e) < 0 || open_roots(k, e) < 0)
		return -1;
	if (k->envs_given != NULL && envs_argument(k, k->envs_given, e) < 0)
		return -1;
	if (cgroups_start(&k->cgroups, cgroup, k->ids.rootless, k->spare_cpus, &k->instance, e) < 0)
		return -1;
	if (k->server.on)
		return server_start(k, e);
	(void)io_set_nonblock(k->gate_fd, 1);
	keeper_watch(k, k->gate_fd, WATCH_GATE);
	return 0;
}

int keeper_main(int argc, char **argv)
{
	static struct keeper k;
	struct err e;

	k.gate_fd = KEEPER_GATE_FD; /* or the supervisor */
	k.egress.fd = k.egress.exec_fd = k.egress.secrets_fd = -1;
	envs_start(&k);
	(void)fcntl(k.gate_fd, F_SETFD, FD_CLOEXEC);
	if (start(&k, argc, argv, &e) < 0) {
		if (k.server.on)
			k.gate_fd = KEEPER_GATE_FD;
		ops_failed(&k, 0, &e); /* request 0: the start itself */
		return 1;
	}
	loop(&k);
	cgroups_done(&k.cgroups);
	instance_done(&k.instance);
	return 0;
}
