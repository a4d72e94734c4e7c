// SPDX-License-Identifier: Apache-2.0
/*
 * A box from birth to the last removed cgroup. See README.md for its life.
 *
 * BOX_SETUP -> BOX_READY when the plan's report says so and the report pipe ends (exec happened)
 * -> BOX_ENDING when it is told to end, its deadline passes or its init dies -> BOX_FREE when init
 * is reaped (so every process of its pid namespace is gone) and its cgroups are removed. The answer
 * to BOX_END, or the event GONE, is sent at that last moment.
 */
#include "keeper/keeper.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "wire/control.h"
#include "wire/msg.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct box *box_find(struct keeper *k, uint64_t id)
{
	for (unsigned int i = 0; i < k->nboxes; i++)
		if (k->boxes[i].state != BOX_FREE && k->boxes[i].id == id)
			return &k->boxes[i];
	return NULL;
}

static struct box *free_slot(struct keeper *k)
{
	unsigned int most = ids_boxes(&k->ids);

	for (unsigned int i = 0; i < most; i++)
		if (k->boxes[i].state == BOX_FREE) {
			k->boxes[i] = (struct box){
				.number = i,
				.pid = -1,
				.pidfd = -1,
				.control_fd = -1,
				.report_fd = -1,
				.refusals_fd = -1,
				.store_fd = { -1, -1, -1 },
				.deadline_us = UINT64_MAX,
			};
			for (unsigned int p = 0; p < BOX_PORTS_MAX; p++)
				k->boxes[i].port_fd[p] = -1;
			if (i >= k->nboxes)
				k->nboxes = i + 1;
			return &k->boxes[i];
		}
	return NULL;
}

void box_figures(const struct keeper *k, const struct box *b, struct box_figures *f)
{
	*f = (struct box_figures){
		.wall_us = clock_us() - b->born_us,
		.memory_limit_bytes = b->limits.v[LIMIT_MEMORY],
	};
	cgroup_figures(&k->cgroups, &b->cgroup, f);
	if (b->net_figures.box != 0) {
		f->has |= FIGURE_NET;
		f->net = b->net_figures;
	}
}

/* --- birth ------------------------------------------------------------------------------------- */

static uint64_t namespaces(void)
{
	static const struct {
		const char *layer;
		uint64_t flag;
	} rows[] = {
		{ "user-namespace", CLONE_NEWUSER }, { "pid-namespace", CLONE_NEWPID },
		{ "mount-namespace", CLONE_NEWNS },  { "network-namespace", CLONE_NEWNET },
		{ "ipc-namespace", CLONE_NEWIPC },   { "uts-namespace", CLONE_NEWUTS },
	};
	uint64_t flags = 0;

	for (unsigned int i = 0; i < ARRAY_LEN(rows); i++)
		if (!mutant_is(rows[i].layer))
			flags |= rows[i].flag;
	return flags; /* the cgroup namespace comes when the process is in its cgroup */
}

/* What this box will have before its plan has said anything. */
static uint64_t layers_before_plan(const struct keeper *k, bool shares_uid)
{
	uint64_t all = ((LAYER_BIT(LAYER_MAX - 1) << 1) - 1);
	uint64_t from_cgroups =
		LAYER_BIT(LAYER_MEMORY) | LAYER_BIT(LAYER_PROCESSES) | LAYER_BIT(LAYER_CPU);

	all = (all & ~from_cgroups) | cgroups_layers(&k->cgroups);
	if (shares_uid)
		all &= ~LAYER_BIT(LAYER_OWN_UIDS);
	return all;
}

static void add_reason(struct err *e, const char *why)
{
	size_t n = strlen(e->text);

	(void)snprintf(e->text + n, sizeof(e->text) - n, "; %s", why);
}

static int check_layers(const struct keeper *k, uint64_t layers, uint64_t waived, struct err *e)
{
	uint64_t missing = layers_of(LAYER_REQUIRED) & ~layers & ~waived;
	char names[256] = "";

	if (missing == 0)
		return 0;
	for (int i = 0; i < LAYER_MAX; i++) {
		size_t n = strlen(names);

		if ((missing & LAYER_BIT(i)) != 0)
			(void)snprintf(names + n, sizeof(names) - n, "%s%s", n > 0 ? "," : "",
				       layer_row((enum layer)i)->name);
	}
	(void)err_set(e, ERR_LAYER, 0, "this box would lack %s", names);
	if ((missing & LAYER_BIT(LAYER_OWN_UIDS)) != 0)
		add_reason(e, k->ids.single ? k->ids.why_single
					    : "to write to directories of the caller its user must "
					      "be the caller");
	if ((missing & LAYER_BIT(LAYER_MEMORY)) != 0)
		add_reason(e, k->cgroups.why);
	return err_hint(e,
			"'glovebox doctor' says how to get it; '--accept-missing %s' does without",
			names);
}

static void setup_close(struct setup *s)
{
	fd_close(&s->go_fd);
	fd_close(&s->report_fd);
	fd_close(&s->control_fd);
	fd_close(&s->env_tree_fd);
	for (int i = 0; i < s->njoin; i++)
		fd_close(&s->join_fd[i]);
	for (unsigned int i = 0; i < s->nmounts; i++)
		fd_close(&s->mounts[i].tree_fd);
}

/* clone3 under the box's own id, so that the kernel's per-user counters are its own. */
static pid_t clone_box(const struct keeper *k, struct setup *s, const struct box *b, int *ret_pidfd)
{
	struct clone_args a = {
		.flags = namespaces() | CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
	};
	long own = (long)s->ids.root;
	pid_t pid;
	int saved;

	if (k->cgroups.version == 2) {
		a.flags |= CLONE_INTO_CGROUP;
		a.cgroup = (uint64_t)(unsigned int)b->cgroup.fd[0];
	}
	if (s->two_ids && syscall(SYS_setresuid, -1L, own, -1L) < 0)
		return -1;
	/* A changed uid makes us non-dumpable, and then the child's maps belong to the host's root. */
	(void)prctl(PR_SET_DUMPABLE, 1);
	pid = (pid_t)syscall(SYS_clone3, &a, sizeof(a));
	if (pid == 0)
		plan_run(s);
	saved = errno;
	if (s->two_ids)
		(void)syscall(SYS_setresuid, -1L, 0L, -1L);
	(void)prctl(PR_SET_DUMPABLE, 0);
	errno = saved;
	return pid;
}

static int open_mounts(const struct keeper *k, const struct box_request *q, struct setup *s,
		       struct err *e)
{
	for (unsigned int i = 0; i < q->nmounts; i++) {
		if (q->mounts[i].root >= k->nroots)
			return err_set(e, ERR_PROTO, 0, "no allowed root %u", q->mounts[i].root);
		if (host_mount_open(&k->roots[q->mounts[i].root], &q->mounts[i], &k->ids, &s->ids,
				    k->owner, k->owner_group, &s->mounts[i], e) < 0)
			return -1;
		s->nmounts = i + 1;
	}
	return 0;
}

static int open_pipes(struct box *b, struct setup *s, int *ret_go, struct err *e)
{
	int go[2], report[2], control[2], r;

	if (pipe2(go, O_CLOEXEC) < 0)
		return err_set(e, ERR_SYS, errno, "make a pipe");
	*ret_go = go[1];
	s->go_fd = go[0];
	if (pipe2(report, O_CLOEXEC) < 0)
		return err_set(e, ERR_SYS, errno, "make a pipe");
	b->report_fd = report[0];
	s->report_fd = report[1];
	r = chan_pair(control);
	if (r < 0)
		return err_set(e, ERR_SYS, -r, "make a socket");
	b->control_fd = control[0];
	(void)io_set_nonblock(b->control_fd, 1);
	s->control_fd = control[1];
	return 0;
}

static int box_start(struct keeper *k, struct box *b, const struct box_request *q, struct setup *s,
		     struct err *e)
{
	own_fd go = -1;
	int r;

	if (q->env != 0)
		s->env_tree_fd = env_tree(k, q->env, &s->env_kind, e);
	if ((q->env != 0 && s->env_tree_fd < 0) || open_mounts(k, q, s, e) < 0 ||
	    open_pipes(b, s, &go, e) < 0)
		return -1;
	s->njoin = cgroup_join_fds(&k->cgroups, &b->cgroup, s->join_fd);
	b->pid = clone_box(k, s, b, &b->pidfd);
	if (b->pid < 0) {
		int error = errno;

		(void)err_set(e, ERR_SYS, error, "make the namespaces of a box");
		if (error == EPERM || error == ENOSPC || error == ENOSYS)
			(void)err_hint(e, "'glovebox doctor' says what forbids it");
		else if (error == EACCES && k->cgroups.version == 2)
			(void)err_hint(e, "cgroup.procs in '%s' must belong to this user and group",
				       k->cgroups.base[0]);
		return -1;
	}
	if (!mutant_is("user-namespace")) {
		r = ids_map(&s->ids, b->pid);
		if (r < 0)
			return err_set(e, ERR_SYS, -r, "map the ids of a box");
	}
	(void)io_set_nonblock(b->report_fd, 1);
	keeper_watch(k, b->report_fd, WATCH_REPORTS + b->number);
	keeper_watch(k, b->control_fd, WATCH_CONTROLS + b->number);
	r = io_write_all(go, "g", 1);
	return r < 0 ? err_set(e, ERR_SYS, -r, "start the plan of a box") : 0;
}

/* Whether the box's user is the caller itself: with one id only, or without privileges where it is
 * to write to the caller's own directories. */
static bool shares_uid(const struct keeper *k, const struct box_request *q)
{
	if (k->ids.single)
		return true;
	for (unsigned int i = 0; i < q->nmounts; i++)
		if (k->ids.rootless && !q->mounts[i].read_only)
			return true;
	return false;
}

int box_new(struct keeper *k, const struct box_request *q, uint64_t request, struct err *e)
{
	struct setup s = { .limits = &q->limits,
			   .waived = q->waived,
			   .init_fd = k->blob_fd[BLOB_INIT],
			   .env_tree_fd = -1 };
	struct box *b = free_slot(k);
	char name[64];
	int r;

	if (b == NULL)
		return err_set(e, ERR_LIMIT, 0, "there are %u boxes already", ids_boxes(&k->ids));
	b->born_us = clock_us();
	s.layers = layers_before_plan(k, shares_uid(k, q));
	if (check_layers(k, s.layers, q->waived, e) < 0 || image_check(k, q, e) < 0 ||
	    env_check(k, q, e) < 0)
		return -1;
	s.go_fd = s.report_fd = s.control_fd = -1;
	s.ids = ids_for(&k->ids, k->instance.slot, b->number, (q->flags & BOX_ROOT_USER) != 0);
	s.two_ids = !k->ids.single;
	s.can_groups = k->ids.can_groups;
	s.heard = b->heard = (q->flags & BOX_HEARD) != 0;
	s.spare = b->spare = (q->flags & BOX_SPARE) != 0;
	s.app = (q->flags & BOX_APP) != 0;
	s.ports = b->listens = (q->flags & BOX_PORTS) != 0;
	s.tools = b->tools = (q->flags & BOX_TOOLS) != 0;
	s.ray = (q->flags & BOX_RAY) != 0;
	s.network = b->network = (q->flags & BOX_NETWORK) != 0;
	b->kit = q->image != 0 || (q->flags & BOX_KIT) != 0;
	s.can_shield = k->ids.can_shield && s.ids.in_user != s.ids.in_root;
	if (s.two_ids && shares_uid(k, q))
		s.ids.user = 0;
	b->owner = s.two_ids ? s.ids.root : 0;
	b->id = ++k->next_box;
	b->limits = q->limits;
	b->image = q->image;
	b->base = (q->flags & BOX_FREEZES) != 0 ? 0 : image_base(k, q->image);
	b->env = q->env;
	b->freezes = (q->flags & BOX_FREEZES) != 0 ? q->image : 0;
	b->request = request;
	(void)snprintf(name, sizeof(name), "%s%llu", k->instance.tag, (unsigned long long)b->id);
	if (cgroup_make(&k->cgroups, name, &q->limits, &b->cgroup, e) < 0)
		return -1;
	b->state = BOX_SETUP;
	b->deadline_us = b->born_us + SETUP_US;
	r = box_start(k, b, q, &s, e);
	setup_close(&s);
	if (r < 0) {
		b->request = 0; /* answered by our caller */
		b->asked_to_end = true;
		box_end(k, b);
	}
	return r;
}

/* --- the plan's report ----------------------------------------------------------------------- */

/* A failed step whose layer may be waived is a missing layer; any other is our trouble. */
static void explain(const struct plan_report *r, struct err *e)
{
	static const enum layer layer_of[] = {
#define STEP(id, layer, doc) LAYER_##layer,
#include "policy/plan.tbl"
#undef STEP
	};
	const struct layer_row *row;

	if (r->failed == 0 || r->step >= PLAN_STEPS) {
		(void)err_set(e, ERR_SYS, 0, "make a box: its first process ended");
		return;
	}
	row = layer_row(layer_of[r->step]);
	(void)err_set(e, row->need == LAYER_ALWAYS ? ERR_SYS : ERR_LAYER, r->error,
		      "make a box, step '%s'%s%s", plan_step_str(r->step),
		      r->detail[0] != '\0' ? " at " : "", r->detail);
	if (row->need != LAYER_ALWAYS)
		(void)err_hint(e,
			       "this box would lack %s: 'glovebox doctor' says how to get it; "
			       "'--accept-missing %s' does without",
			       row->name, row->name);
}

static void setup_failed(struct keeper *k, struct box *b, const struct plan_report *r)
{
	struct err e;

	explain(r, &e);
	ops_failed(k, b->request, &e);
	b->request = 0;
	b->asked_to_end = true;
	box_end(k, b);
}

/* From outside: the kernel wants CAP_SYS_RESOURCE of the host for this. */
static bool shield(pid_t pid)
{
	char path[48];

	if (mutant_is("init-oom-shield"))
		return true;
	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
	return io_write_text(AT_FDCWD, path, "-999") == 0;
}

static void setup_done(struct keeper *k, struct box *b)
{
	struct box_info info = {
		.box = b->id, .layers = b->layers, .image = b->image, .env = b->env
	};
	uint8_t body[1024];
	own_fd stream = -1;
	struct err e;
	ptrdiff_t n;

	/* Said before the report, in this order, and perhaps not heard yet. */
	if (b->spare && b->store_fd[0] < 0)
		box_control_event(k, b);
	if (b->tools && b->port_fd[PORT_TOOLS] < 0)
		box_control_event(k, b);
	if (b->network && b->net == NULL)
		box_control_event(k, b);
	if (b->listens && b->port_fd[PORTS_OUTSIDE] < 0)
		box_control_event(k, b);
	if (b->heard && b->refusals_fd < 0)
		box_control_event(k, b);
	if (b->heard && b->refusals_fd < 0)
		refusals_deaf(k, b);
	if ((b->layers & LAYER_BIT(LAYER_INIT_SHIELD)) != 0 && !shield(b->pid))
		b->layers = info.layers &= ~LAYER_BIT(LAYER_INIT_SHIELD);
	if (kit_send(k, b, &e) < 0 || box_attach(b, &stream, &e) < 0) {
		ops_failed(k, b->request, &e);
		b->request = 0;
		b->asked_to_end = true;
		box_end(k, b);
		return;
	}
	b->state = BOX_READY;
	b->deadline_us = UINT64_MAX;
	b->setup_us = info.setup_us = clock_us() - b->born_us;
	(void)memcpy(info.step_us, b->step_us, sizeof(info.step_us));
	n = box_info_encode(&info, body, sizeof(body));
	ops_ok(k, b->request, body, (size_t)n, &stream);
	b->request = 0;
}

void box_report_event(struct keeper *k, struct box *b)
{
	struct plan_report r = { 0 };
	ssize_t n = read(b->report_fd, &r, sizeof(r));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == (ssize_t)sizeof(r) && r.failed == 0) {
		b->layers = r.layers;
		(void)memcpy(b->step_us, r.step_us, sizeof(b->step_us));
		return; /* exec is next: the pipe ends, or a second report comes */
	}
	(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, b->report_fd, NULL);
	fd_close(&b->report_fd);
	if (b->state != BOX_SETUP)
		return;
	if (n == 0 && b->layers != 0)
		setup_done(k, b);
	else
		setup_failed(k, b, &r);
}

void box_control_event(struct keeper *k, struct box *b)
{
	static struct chan_msg m;
	int r = chan_recv(b->control_fd, &m);

	if (r == -EAGAIN || r == -EINTR)
		return;
	if (r > 0 && m.type == CONTROL_PROC_WANT && m.nfds == 0 && b->state == BOX_SETUP) {
		proc_help(b);
		return;
	}
	if (r > 0 && m.type == CONTROL_LISTENER && m.nfds == 1 && b->state == BOX_SETUP &&
	    b->heard && b->refusals_fd < 0) {
		refusals_listen(k, b, m.fds[0]);
		return;
	}
	if (r > 0 && m.type == CONTROL_STORES && m.nfds == STORE_MAX && b->state == BOX_SETUP &&
	    b->spare && b->store_fd[0] < 0) {
		(void)memcpy(b->store_fd, m.fds, sizeof(b->store_fd));
		return;
	}
	if (r > 0 && m.type == CONTROL_TOOLS && m.nfds == 1 && b->state == BOX_SETUP && b->tools &&
	    b->port_fd[PORT_TOOLS] < 0) {
		b->port_fd[PORT_TOOLS] = m.fds[0];
		return;
	}
	if (r > 0 && m.type == CONTROL_NET && m.nfds == 2 && b->state == BOX_SETUP && b->network &&
	    b->net == NULL) {
		b->net = boxnet_new(m.fds[0], m.fds[1]);
		return;
	}
	if (r > 0 && m.type == CONTROL_PORTS && m.nfds == PORTS_INSIDE && b->state == BOX_SETUP &&
	    b->listens && b->port_fd[PORTS_OUTSIDE] < 0) {
		(void)memcpy(&b->port_fd[PORTS_OUTSIDE], m.fds, PORTS_INSIDE * sizeof(int));
		return;
	}
	/* init never speaks here: its end, or what only a hostile one would say. */
	if (r > 0)
		chan_msg_close(&m);
	(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, b->control_fd, NULL);
}

int box_attach(struct box *b, int *ret_fd, struct err *e)
{
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_set(e, ERR_SYS, errno, "make a stream");
	r = chan_send(b->control_fd, CONTROL_GATE, 0, NULL, 0, &pair[1], 1);
	(void)close(pair[1]);
	if (r < 0) {
		(void)close(pair[0]);
		return err_set(e, ERR_SYS, -r, "reach the init of a box");
	}
	*ret_fd = pair[0];
	return 0;
}

/* --- whose it is ----------------------------------------------------------------------------- */

void box_taken(struct box *b)
{
	b->spare = false;
	for (int s = 0; s < STORE_MAX; s++)
		fd_close(&b->store_fd[s]);
}

static int set_limits(struct keeper *k, struct box *b, const struct limits *l, struct err *e)
{
	if (!mutant_is("spare-cgroup") && cgroup_limit(&k->cgroups, &b->cgroup, l, e) < 0)
		return -1;
	return mutant_is("spare-stores") ? 0 : stores_limit(b->store_fd, l, e);
}

int box_limit(struct keeper *k, struct box *b, const struct limits *l, struct err *e)
{
	int r;

	if (!b->spare || b->store_fd[0] < 0)
		return err_set(e, ERR_INPUT, 0, "the limits of this box do not change");
	r = set_limits(k, b, l, e);
	box_taken(b);
	b->limits = *l;
	if (r < 0) { /* who asked is told: there is no other word about its end */
		b->asked_to_end = true;
		box_end(k, b);
	}
	return r;
}

/* --- the end --------------------------------------------------------------------------------- */

void box_end(struct keeper *k, struct box *b)
{
	if (b->state == BOX_ENDING)
		return;
	if (b->report_fd >= 0) {
		(void)epoll_ctl(k->epoll_fd, EPOLL_CTL_DEL, b->report_fd, NULL);
		fd_close(&b->report_fd);
	}
	if (b->pid < 0)
		b->reaped = true;
	else if (!b->reaped)
		(void)syscall(SYS_pidfd_send_signal, b->pidfd, SIGKILL, NULL, 0);
	box_taken(b);
	ports_close(k, b);
	boxnet_free(k, b);
	b->state = BOX_ENDING;
	b->deadline_us = UINT64_MAX;
}

void boxes_reap(struct keeper *k)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (egress_reaped(k, pid, status) || images_reaped(k, pid, status))
			continue;
		server_reaped(k, pid, status);
		for (unsigned int i = 0; i < k->nboxes; i++) {
			struct box *b = &k->boxes[i];

			if (b->state == BOX_FREE || b->pid != pid || b->reaped)
				continue;
			b->reaped = true;
			if (b->state == BOX_SETUP && b->report_fd >= 0)
				continue; /* its report says why */
			if (b->state == BOX_READY)
				b->why = GONE_INIT;
			box_end(k, b);
		}
	}
}

static void tell_end(struct keeper *k, struct box *b)
{
	uint8_t body[128];
	struct msg_out m;
	ptrdiff_t n;

	if (b->request != 0) {
		n = box_figures_encode(&b->last, body, sizeof(body));
		ops_ok(k, b->request, body, (size_t)n, NULL);
	} else if (!b->asked_to_end && !k->gate_gone) {
		msg_out_init(&m, body, sizeof(body));
		msg_put_u64(&m, b->id);
		msg_put_u32(&m, (uint32_t)b->why);
		n = box_figures_encode(&b->last, body + m.len, sizeof(body) - m.len);
		ops_tell(k, EVENT_GONE, 0, body, m.len + (size_t)n, NULL);
	}
}

/* Everything of it is gone but the cgroups. True when those are, too. */
static bool finish(struct keeper *k, struct box *b)
{
	if (b->last.wall_us == 0)
		box_figures(k, b, &b->last);
	if (cgroup_remove(&k->cgroups, &b->cgroup) == -EBUSY)
		return false;
	egress_hear_out(k);
	tell_end(k, b);
	fd_close(&b->pidfd);
	fd_close(&b->control_fd);
	fd_close(&b->refusals_fd);
	free(b->record);
	*b = (struct box){ .state = BOX_FREE };
	images_turn(k);
	envs_turn(k);
	return true;
}

uint64_t boxes_turn(struct keeper *k)
{
	uint64_t next = UINT64_MAX, now = clock_us();

	for (unsigned int i = 0; i < k->nboxes; i++) {
		struct box *b = &k->boxes[i];
		uint64_t resume;

		if (b->state == BOX_FREE)
			continue;
		if (b->deadline_us <= now && b->state == BOX_SETUP) {
			struct plan_report late = { .failed = 1, .error = ETIMEDOUT };

			setup_failed(k, b, &late);
		} else if (b->deadline_us <= now && b->state == BOX_READY) {
			b->why = GONE_DEADLINE;
			box_end(k, b);
		}
		if (b->state == BOX_ENDING && b->reaped && !finish(k, b) && next > now + US_PER_MS)
			next = now + US_PER_MS;
		if (b->state == BOX_FREE)
			continue;
		if (b->deadline_us < next)
			next = b->deadline_us;
		resume = refusals_turn(k, b, now);
		if (resume < next)
			next = resume;
	}
	while (k->nboxes > 0 && k->boxes[k->nboxes - 1].state == BOX_FREE)
		k->nboxes--;
	return next;
}
