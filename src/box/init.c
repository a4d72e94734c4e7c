// SPDX-License-Identifier: Apache-2.0
/*
 * Process 1 of a box.
 *
 * Starts with one descriptor, the control socket (3), under all the isolation that user code has.
 * The keeper sends the stream of a gate over it; from then on the gate speaks frames (conn.c) and
 * jobs run (job.c). When the keeper is gone the control socket ends, init exits, and the kernel
 * ends every process of the box.
 *
 * Should: never block on anything but epoll_wait; bound everything.
 * Must not: read a byte of the gate before its own posture is final; follow a path for the gate in
 * its own process (that is a child's work, under the user's uid).
 */
#include "box/init.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/chan.h"
#include "wire/control.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

int watch_add(struct init *in, int fd, enum watch what, unsigned int slot, uint32_t events)
{
	struct epoll_event e = {
		.events = events,
		.data.u64 = (uint64_t)what << 32 | slot,
	};

	return epoll_ctl(in->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

void watch_del(struct init *in, int fd)
{
	(void)epoll_ctl(in->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void take_kit(struct init *in, struct chan_msg *m)
{
	struct msg_in body;
	uint32_t has;
	unsigned int n = 0;

	msg_in_init(&body, m->body, m->len);
	has = msg_get_u32(&body);
	for (unsigned int i = 0; i < KIT_MAX; i++)
		if ((has & 1u << i) != 0 && n < m->nfds && in->kit_fd[i] < 0)
			in->kit_fd[i] = m->fds[n++];
	m->nfds = 0;
}

static void control_event(struct init *in)
{
	struct chan_msg m;
	int r = chan_recv(in->control_fd, &m);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r <= 0)
		_exit(0); /* the keeper is gone: so is the box */
	if (m.type == CONTROL_GATE && m.nfds == 1) {
		conn_open(in, m.fds[0]);
		m.nfds = 0;
	} else if (m.type == CONTROL_KIT) {
		take_kit(in, &m);
	} else if (m.type == CONTROL_COPY && m.nfds == 1) {
		fd_close(&in->copy_fd);
		in->copy_fd = m.fds[0];
		m.nfds = 0;
		cells_look(in);
	}
	chan_msg_close(&m);
}

static void children_event(struct init *in)
{
	struct signalfd_siginfo info;

	while (read(in->children_fd, &info, sizeof(info)) > 0)
		;
	jobs_reap(in);
}

static void dispatch(struct init *in, const struct epoll_event *e)
{
	enum watch what = (enum watch)(e->data.u64 >> 32);
	unsigned int slot = (unsigned int)e->data.u64;

	switch (what) {
	case WATCH_CONTROL:
		control_event(in);
		break;
	case WATCH_CHILDREN:
		children_event(in);
		break;
	case WATCH_GATE:
		conn_event(in, e->events);
		break;
	case WATCH_IN:
	case WATCH_OUT:
	case WATCH_ERR:
	case WATCH_CHANNEL:
		job_event(in, slot, what);
		break;
	}
}

static void loop(struct init *in)
{
	for (;;) {
		struct epoll_event events[32];
		uint64_t deadline = jobs_expire(in);
		int n;

		conn_flush(in);
		if (in->flush_again_us != 0 && in->flush_again_us < deadline)
			deadline = in->flush_again_us;
		n = epoll_wait(in->epoll_fd, events, (int)ARRAY_LEN(events),
			       clock_poll_ms(deadline));
		for (int i = 0; i < n; i++)
			dispatch(in, &events[i]);
	}
}

static bool has_init_proc(void)
{
	own_fd fd = open(INIT_PROC "/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0;
}

/* The limit for files is one for our programs. */
static void take_limit(struct init *in)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_FSIZE, &l) < 0)
		_exit(1);
	in->file_bytes = l.rlim_cur;
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_FSIZE, &l);
}

/* The posture that a process keeps only if it asks for it itself. */
static void settle(struct init *in)
{
	sigset_t chld;

	(void)prctl(PR_SET_NAME, "init");
	if (!init_lacks(in, "no-new-privs") && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(1);
	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		_exit(1);
	in->user = getuid(); /* the real one, see README.md */
	take_limit(in);
	in->shielded = has_init_proc();
	(void)sigemptyset(&chld);
	(void)sigaddset(&chld, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &chld, NULL) < 0)
		_exit(1);
	in->children_fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	in->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (in->children_fd < 0 || in->epoll_fd < 0)
		_exit(1);
}

int main(int argc, char **argv)
{
	static struct init in; /* large: zeroed pages, not bytes of the file */

	in.gate_fd = -1;
	in.sending = -1;
	for (unsigned int i = 0; i < KIT_MAX; i++)
		in.kit_fd[i] = in.kit_copy[i] = -1;
	in.copy_fd = -1;
	in.control_fd = INIT_CONTROL_FD;
	in.mutant = argc > 1 ? argv[1] : "";
	settle(&in);
	(void)watch_add(&in, in.control_fd, WATCH_CONTROL, 0, EPOLLIN);
	(void)watch_add(&in, in.children_fd, WATCH_CHILDREN, 0, EPOLLIN);
	loop(&in);
	return 0;
}
