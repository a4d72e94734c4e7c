// SPDX-License-Identifier: Apache-2.0
/*
 * The plan: what the first process of a box does between clone3 and exec of init.
 *
 * Runs in a copy of the keeper's memory, inside the box's new namespaces, with all capabilities in
 * the box's user namespace and none outside it. No hostile code is in the box yet.
 *
 * Should: go through policy/plan.tbl in order; report the first step that fails, with errno.
 * Must not: return; leave a step out silently.
 */
#include "keeper/steps.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "wire/control.h"
#include "wire/rlimits.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

static const struct {
	const char *name;
	enum layer layer;
	int (*run)(struct work *w);
} steps[] = {
#define STEP(id, layer, doc) { #id, LAYER_##layer, step_##id },
#include "policy/plan.tbl"
#undef STEP
};

#ifdef GLOVEBOX_MUTANTS
bool mutant_is(const char *name)
{
	const char *m = getenv("GLOVEBOX_MUTANT");

	return m != NULL && strcmp(m, name) == 0;
}
#endif

static _Noreturn void give_up(const struct work *w, struct plan_report *r, unsigned int step,
			      int error)
{
	r->failed = 1;
	r->step = step;
	r->error = error;
	(void)snprintf(r->detail, sizeof(r->detail), "%s", w->detail);
	(void)io_write_all(w->s->report_fd, r, sizeof(*r));
	_exit(1);
}

/* May the box do without this layer? */
static bool may_miss(const struct setup *s, enum layer layer)
{
	return layer_row(layer)->need == LAYER_EXTRA || (s->waived & LAYER_BIT(layer)) != 0;
}

static int by_number(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

/* Close what the keeper has open: a copy of its own end of a pipe would hide its death from us, and a copy
 * of its lock would keep the next instance from sweeping. */
static void keep_only_ours(const struct setup *s)
{
	int keep[5 + CG_KIND_MAX + BOX_MOUNTS_MAX] = { s->go_fd, s->report_fd, s->control_fd,
						       s->init_fd };
	unsigned int n = 4, next = 0;

	for (int i = 0; i < s->njoin; i++)
		keep[n++] = s->join_fd[i];
	for (unsigned int i = 0; i < s->nmounts; i++)
		keep[n++] = s->mounts[i].tree_fd;
	if (s->env_tree_fd >= 0)
		keep[n++] = s->env_tree_fd;
	qsort(keep, n, sizeof(keep[0]), by_number);
	for (unsigned int i = 0; i < n; i++) {
		unsigned int fd = (unsigned int)keep[i];

		if (fd > next)
			(void)syscall(SYS_close_range, next, fd - 1, 0u);
		next = fd + 1;
	}
	(void)syscall(SYS_close_range, next, ~0u, 0u);
}

_Noreturn void plan_run(struct setup *s)
{
	static struct work w;
	static struct plan_report r;
	uint64_t t = clock_us();

	keep_only_ours(s);
	w = (struct work){ .s = s,
			   .root_fd = -1,
			   .env_fd = -1,
			   .proc_fd = -1,
			   .proc_sys_fd = -1,
			   .mqueue_fd = -1,
			   .trust_fd = -1 };
	for (int i = 0; i < STORE_MAX; i++)
		w.store_fs[i] = -1;
	for (unsigned int i = 0; i < ARRAY_LEN(steps); i++) {
		uint64_t now;
		int error;

		if (i == STEP_exec) {
			/* The last word before there is nobody left to say it. */
			r.layers = s->layers;
			(void)io_write_all(s->report_fd, &r, sizeof(r));
		}
		w.detail[0] = '\0';
		error = mutant_is(steps[i].name) ? 0 : steps[i].run(&w);
		if (error < 0 && may_miss(s, steps[i].layer))
			s->layers &= ~LAYER_BIT(steps[i].layer);
		else if (error < 0)
			give_up(&w, &r, i, -error);
		now = clock_us();
		r.step_us[i] = (uint32_t)(now - t);
		t = now;
	}
	give_up(&w, &r, STEP_exec, ENOEXEC);
}

/* --- the steps that are neither tree nor fence ----------------------------------------------- */

int step_ids_wait(struct work *w)
{
	char c;

	return io_read_full(w->s->go_fd, &c, 1) == 1 ? 0 : -EPIPE;
}

/* Priority of the processor and of disks as for any process. A caller that is nicer than most stays so:
 * taking that back needs a privilege of the host. */
static void reset_priority(void)
{
	static const struct sched_param none;

	(void)sched_setscheduler(0, SCHED_OTHER, &none);
	if (getpriority(PRIO_PROCESS, 0) < 0)
		(void)setpriority(PRIO_PROCESS, 0, 0);
	(void)syscall(SYS_ioprio_set, /* process */ 1, 0, 0);
}

int step_cgroup_join(struct work *w)
{
	reset_priority(); /* a real-time process is not let in */
	/* "0" into `tasks` moves the calling thread; there is only one. */
	for (int i = 0; i < w->s->njoin; i++)
		if (write(w->s->join_fd[i], "0", 1) != 1)
			return -errno;
	return 0;
}

int step_session(struct work *w)
{
	(void)w;
	if (setsid() < 0)
		return -errno;
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return -errno;
	return 0;
}

int step_box_root(struct work *w)
{
	long id = (long)w->s->ids.in_root;

	if (w->s->can_groups && setgroups(0, NULL) < 0)
		return -errno;
	if (syscall(SYS_setresgid, id, id, id) < 0 || syscall(SYS_setresuid, id, id, id) < 0)
		return -errno;
	return 0;
}

int step_cgroup_ns(struct work *w)
{
	(void)w;
	if (mutant_is("cgroup-namespace"))
		return 0;
	return unshare(CLONE_NEWCGROUP) < 0 ? -errno : 0;
}

int step_hostname(struct work *w)
{
	(void)w;
	if (mutant_is("uts-namespace"))
		return 0;
	return sethostname("glovebox", 8) < 0 ? -errno : 0;
}

/* By any of its sockets the namespace itself is to be had, also where there is no /proc. */
static int give_namespace(struct work *w, int socket)
{
	own_fd fd = ioctl(socket, SIOCGSKNS);
	const int fds[2] = { fd, w->trust_fd };
	int r = fd < 0 ? -errno : chan_send(w->s->control_fd, CONTROL_NET, 0, NULL, 0, fds, 2);

	fd_close(&w->trust_fd);
	return r;
}

int step_loopback(struct work *w)
{
	own_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	if (mutant_is("network-namespace"))
		return 0;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r) < 0)
		return -errno;
	return w->s->network ? give_namespace(w, fd) : 0;
}

/* Before anybody of the box could take the port; what comes to it waits until a gate accepts. */
static int listen_inside(unsigned int port)
{
	enum { BACKLOG = 16 };
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)port),
				 .sin_addr = { htonl(INADDR_LOOPBACK) } };
	own_fd fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
	    listen(fd, BACKLOG) < 0)
		return -errno;
	return fd_take(&fd);
}

int step_ports(struct work *w)
{
	static const unsigned int ports[PORTS_INSIDE] = { PORT_INSIDE_EXECUTOR_AT,
							  PORT_INSIDE_RESOURCE_AT };
	int fds[PORTS_INSIDE], r = 0;
	unsigned int n = 0;

	if (!w->s->ports || mutant_is("network-namespace"))
		return 0;
	for (; n < PORTS_INSIDE && r >= 0; n++) {
		r = fds[n] = listen_inside(ports[n]);
		if (r < 0)
			(void)snprintf(w->detail, sizeof(w->detail), "port %u", ports[n]);
	}
	if (r >= 0)
		r = chan_send(w->s->control_fd, CONTROL_PORTS, 0, NULL, 0, fds, n);
	for (unsigned int i = 0; i < n; i++)
		fd_close(&fds[i]);
	return r;
}

/* While the root can still be written to. Nobody can connect before it listens, and only the keeper can make it. */
int step_tools_socket(struct work *w)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = BOX_TOOLS_SOCKET };
	own_fd fd = -1;

	if (!w->s->tools)
		return 0;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || mkdir(BOX_TOOLS_DIR, 0755) < 0 ||
	    bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0 ||
	    chmod(BOX_TOOLS_SOCKET, 0666) < 0)
		return -errno;
	/* In a directory that is everybody's a link is followed if it is the follower's own. */
	if (w->s->ray && (symlink(BOX_TOOLS_SOCKET, BOX_RAY_SOCKET) < 0 ||
			  lchown(BOX_RAY_SOCKET, w->s->ids.in_user, w->s->ids.in_user) < 0))
		return -errno;
	return chan_send(w->s->control_fd, CONTROL_TOOLS, 0, NULL, 0, &fd, 1);
}

static int set_limit(struct work *w, int which, uint64_t soft, uint64_t hard)
{
	struct rlimit now, l = { .rlim_cur = soft, .rlim_max = hard };

	if (which == RLIMIT_NPROC && mutant_is("process-limit"))
		return 0;
	(void)snprintf(w->detail, sizeof(w->detail), "limit %d", which);
	if (getrlimit(which, &now) < 0)
		return -errno;
	/* Without CAP_SYS_RESOURCE on the host a limit can only go down. */
	if (l.rlim_max > now.rlim_max)
		l.rlim_max = now.rlim_max;
	if (l.rlim_cur > l.rlim_max)
		l.rlim_cur = l.rlim_max;
	return setrlimit(which, &l) < 0 ? -errno : 0;
}

int step_rlimits(struct work *w)
{
	static const struct {
		int which;
		uint64_t soft, hard;
	} rows[] = {
		{ RLIMIT_CORE, 0, 0 },
		{ RLIMIT_SIGPENDING, 256, 256 },
		{ RLIMIT_MSGQUEUE, 131072, 131072 },
		{ RLIMIT_MEMLOCK, 65536, 65536 },
		{ RLIMIT_RTPRIO, 0, 0 },
		{ RLIMIT_NICE, 0, 0 },
		{ RLIMIT_STACK, 8u << 20, RLIM_INFINITY },
		{ RLIMIT_AS, RLIM_INFINITY, RLIM_INFINITY },
		{ RLIMIT_DATA, RLIM_INFINITY, RLIM_INFINITY },
	};
	struct rlimits own;
	int r = 0;

	/* A box made ahead gets its own when it is known whose it is: init can lower them, and nobody could raise them. */
	if (w->s->spare)
		rlimits_most(&own);
	else
		rlimits_of(w->s->limits, &own);
	for (unsigned int i = 0; i < ARRAY_LEN(rows) && r == 0; i++)
		r = set_limit(w, rows[i].which, rows[i].soft, rows[i].hard);
	for (unsigned int i = 0; i < RLIMITS_N && r == 0; i++) {
		uint64_t hard = own.v[i].hard;

		/* init makes files of its own (src/box/kit.c), and gives its programs the soft one. */
		if (own.v[i].which == RLIMIT_FSIZE && hard < INIT_FILE_BYTES)
			hard = INIT_FILE_BYTES;
		r = set_limit(w, own.v[i].which, own.v[i].soft, hard);
	}
	return r;
}

int step_inherited(struct work *w)
{
	static const unsigned long action[4]; /* as the kernel has it: all default */
	sigset_t none;

	(void)w;
	/* Not by the C library, which keeps two signals to itself: those could be ignored, too. */
	for (long s = 1; s <= 64; s++)
		(void)syscall(SYS_rt_sigaction, s, &action, NULL, 8L);
	(void)sigemptyset(&none);
	(void)umask(022);
	(void)prctl(PR_SET_TIMERSLACK, 50000); /* 0 would mean the caller's */
	(void)prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	if (personality(PER_LINUX) < 0)
		return -errno;
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

int step_descriptors(struct work *w)
{
	struct setup *s = w->s;
	int control, report, init;

	/* Out of the way of 0..5 first, whatever numbers they have. */
	control = fcntl(s->control_fd, F_DUPFD, 10);
	report = fcntl(s->report_fd, F_DUPFD, 10);
	init = fcntl(s->init_fd, F_DUPFD, 10);
	if (control < 0 || report < 0 || init < 0)
		return -errno;
	/* Nothing that init opens may become 0, 1 or 2. */
	for (int i = 0; i < 3; i++) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null < 0 || dup2(null, i) < 0)
			return -errno;
	}
	if (dup2(control, 3) < 0 || dup3(report, 4, O_CLOEXEC) < 0 || dup3(init, 5, O_CLOEXEC) < 0)
		return -errno;
	s->control_fd = 3;
	s->report_fd = 4;
	s->init_fd = 5;
	return syscall(SYS_close_range, 6u, ~0u, 0u) < 0 ? -errno : 0;
}

int step_exec(struct work *w)
{
	static char name[] = "init";
	bool lacks =
		mutant_is("no-new-privs") || mutant_is("thaw-hidden") || mutant_is("spare-rlimits");
	char *const argv[] = { name, lacks ? getenv("GLOVEBOX_MUTANT") : NULL, NULL };
	char *const envp[] = { NULL };

	(void)syscall(SYS_execveat, w->s->init_fd, "", argv, envp, AT_EMPTY_PATH);
	return -errno;
}
