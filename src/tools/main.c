// SPDX-License-Identifier: Apache-2.0
/*
 * The tools role: `glovebox-gate tools`, started by the keeper when a gate first has use for it.
 *
 * Start: read what the operator has configured, give up everything, then one loop over the keeper's channel, the gate's stream and the links to
 * servers. The keeper gone: exit. The gate gone: forget what it asked, but for servers that clients have registered, and wait for the next one.
 */
#include "tools/role.h"
#include "tools/tools.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "base/str.h"
#include "wire/chan.h"
#include "wire/ops.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { KEEPER, GATE, FIRST };
enum { POLL_MAX = 8192 };

/* --- the keeper ----------------------------------------------------------------------------------- */

static void keeper_event(struct tools *t)
{
	static struct chan_msg m;
	int r = chan_recv(t->keeper_fd, &m);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0) {
		t->stop = true;
		return;
	}
	if (m.type == EVENT_PING) {
		(void)chan_send(t->keeper_fd, EVENT_PING, 0, NULL, 0, NULL, 0);
	} else if (m.type == EVENT_PEER && m.nfds == 1) {
		gate_open(t, m.fds[0]);
		m.nfds = 0;
	} else if (m.type == REPLY_OK || m.type == REPLY_FAILED) {
		dial_answered(t, m.request, m.nfds == 1 ? m.fds[0] : -1);
		m.nfds = m.nfds == 1 ? 0 : m.nfds;
	}
	chan_msg_close(&m);
}

/* --- the loop --------------------------------------------------------------------------------------- */

static void turn(struct tools *t)
{
	static struct pollfd p[FIRST + POLL_MAX];
	uint64_t deadline = UINT64_MAX;
	unsigned int n = servers_wait(t, p + FIRST, POLL_MAX, &deadline);

	if (t->gate.fd >= 0 && toolmsg_flush(&t->gate) < 0)
		gate_event(t, POLLHUP);
	p[KEEPER] = (struct pollfd){ .fd = t->keeper_fd, .events = POLLIN };
	p[GATE] = (struct pollfd){ .fd = t->gate.fd,
				   .events = (short)(toolmsg_queued(&t->gate) > 0 ? POLLIN | POLLOUT
										  : POLLIN) };
	(void)poll(p, FIRST + n, clock_poll_ms(deadline));
	servers_step(t, p + FIRST, clock_us());
	if (p[GATE].revents != 0)
		gate_event(t, p[GATE].revents);
	if (p[KEEPER].revents != 0)
		keeper_event(t);
}

static int take_id(const char *arg, const char *key, uint32_t *ret)
{
	size_t n = strlen(key);
	uint64_t v;

	if (strncmp(arg, key, n) != 0 || str_to_u64(arg + n, UINT32_MAX - 1, &v) < 0)
		return -1;
	*ret = (uint32_t)v;
	return 0;
}

int tools_main(int argc, char **argv, int (*confine)(uint32_t uid, uint32_t gid, struct err *e))
{
	static struct tools t = { .keeper_fd = TOOLS_KEEPER_FD };
	uint32_t uid = 0, gid = 0;
	struct err e;

	for (int i = 1; i < argc; i++)
		if (take_id(argv[i], "uid=", &uid) < 0 && take_id(argv[i], "gid=", &gid) < 0)
			return 2;
	(void)signal(SIGPIPE, SIG_IGN);
	io_raise_limit(RLIMIT_NOFILE);
	t.gate.fd = -1;
	(void)io_set_nonblock(TOOLS_GATE_FD, 1);
	gate_open(&t, TOOLS_GATE_FD);
	if (settings_read(&t, TOOLS_SETTINGS_FD, &e) < 0 || tools_tls_start(t.ca_file, &e) < 0 ||
	    confine(uid, gid, &e) < 0) {
		(void)dprintf(STDERR_FILENO, "glovebox tools: %s\n", e.text);
		return 1;
	}
	(void)close(TOOLS_SETTINGS_FD);
	while (!t.stop)
		turn(&t);
	_exit(0);
}
