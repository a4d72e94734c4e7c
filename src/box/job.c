// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs: their life from RUN to the last acknowledgement. What goes in and out is stream.c's, and jobs
 * without a process are cell.c's and link.c's.
 *
 * JOB_RUNNING -> JOB_ENDED when the leader is reaped -> JOB_TOLD when all that it printed is in the
 * ring and EXIT behind it -> JOB_FREE when EXIT is acknowledged and the pipes are at their end.
 *
 * What belongs to a job: everything in its pipes at the moment its leader was reaped. With
 * JOB_SWEEP every other process is killed then and the pipes are read to their end. Without, a
 * daemon that kept the pipe open may go on writing; from then on it is read and dropped, so that
 * the daemon neither blocks nor dies of it.
 *
 * A thawed program has much memory, and to tear that down takes longer than many a program runs. So as its last act
 * it takes its status for a name, and stops: wait4(2) tells of that at once, with its figures. If nobody else is left
 * it is killed, its job has ended, and what is in the pipes then is all that it printed. It is reaped later, by the way.
 */
#include "box/init.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/own.h"
#include "wire/msg.h"
#include "wire/rlimits.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

unsigned int job_slot(const struct init *in, const struct job *j)
{
	return (unsigned int)(j - in->jobs);
}

struct job *job_find(struct init *in, uint64_t id)
{
	for (unsigned int i = 0; i < JOBS_MAX; i++)
		if (in->jobs[i].state != JOB_FREE && in->jobs[i].id == id && !in->jobs[i].forsaken)
			return &in->jobs[i];
	return NULL;
}

static bool was_done(const struct init *in, uint64_t id)
{
	for (unsigned int i = 0; i < DONE_MAX && i < in->ndone; i++)
		if (in->done[i] == id)
			return true;
	return false;
}

static void job_free(struct init *in, struct job *j)
{
	cell_free(j);
	input_close(in, j);
	streams_close(in, j);
	fd_close(&j->exec_fd);
	channel_close(in, j);
	free(j->kernel);
	ring_done(&j->ring);
	free(j->in_buf);
	*j = (struct job){ .state = JOB_FREE };
}

void job_done(struct init *in, struct job *j)
{
	in->done[in->ndone++ % DONE_MAX] = j->id;
	job_free(in, j);
}

/* --- the end -------------------------------------------------------------------------------- */

/* A child that has just been forked does not lead a group yet. */
void job_kill(const struct job *j, int sig)
{
	if (j->pid <= 0) /* it has no process: that would be our own */
		return;
	if (kill(-j->pid, sig) < 0)
		(void)kill(j->pid, sig);
}

static uint64_t timeval_us(struct timeval t)
{
	return (uint64_t)t.tv_sec * US_PER_S + (uint64_t)t.tv_usec;
}

/* So that nobody has to start a job to find out that a program left nothing behind. The directory is ours, its
 * entries are only read. */
static void look_for_files(char only[JOB_STAGE_MAX])
{
	DIR *d = opendir("/workspace");
	const struct dirent *e;
	unsigned int n = 0;

	while (d != NULL && n < 2 && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (n++ == 0 && strlen(e->d_name) < JOB_STAGE_MAX)
			(void)memcpy(only, e->d_name, strlen(e->d_name) + 1);
	}
	if (n != 1)
		only[0] = '\0';
	if (d != NULL)
		(void)closedir(d);
}

void job_tell_exit(struct init *in, struct job *j)
{
	uint8_t body[256];
	struct job_exit x = {
		.wall_us = j->ended_us - j->started_us,
		.user_us = timeval_us(j->usage.ru_utime),
		.sys_us = timeval_us(j->usage.ru_stime),
		.max_rss_bytes = (uint64_t)j->usage.ru_maxrss * 1024u,
		.stdout_bytes = j->out[0].total,
		.stderr_bytes = j->out[1].total,
	};
	ptrdiff_t n;

	if (j->exec_errno != 0) {
		x.how = JOB_FAILED;
		x.code = j->exec_errno;
		(void)memcpy(x.stage, j->exec_stage, sizeof(x.stage));
	} else if (WIFSIGNALED(j->status)) {
		x.how = JOB_SIGNALED;
		x.code = WTERMSIG(j->status);
	} else {
		x.how = JOB_EXITED;
		x.code = WEXITSTATUS(j->status);
	}
	x.flags = (j->timed_out ? JOB_TIMED_OUT : 0) | (j->out[0].cut ? JOB_CUT_STDOUT : 0) |
		  (j->out[1].cut ? JOB_CUT_STDERR : 0) |
		  ((j->flags & JOB_HELD) != 0 && !j->begun ? JOB_NOT_BEGUN : 0) |
		  (j->cell != NULL && j->cell->died ? JOB_KERNEL_DIED : 0);
	if ((j->flags & JOB_THAW) != 0 && (j->flags & JOB_SWEEP) != 0)
		look_for_files(x.only);
	n = job_exit_encode(&x, body, sizeof(body));
	j->exit_number = j->ring.next_number;
	if (n < 0 || ring_put(&j->ring, FRAME_EXIT, 0, j->id, body, (size_t)n) < 0)
		_exit(1); /* the ring keeps room for this frame */
	input_close(in, j);
	free(j->in_buf);
	j->in_buf = NULL;
	j->in_len = 0;
	j->deadline_us = UINT64_MAX;
	j->order = ++in->ntold;
	j->state = JOB_TOLD;
}

bool job_reads_to_end(const struct job *j)
{
	return (j->flags & JOB_SWEEP) != 0 && !j->said;
}

/* Whether everything that comes before its EXIT is in the ring. */
static bool is_drained(const struct job *j)
{
	if ((j->kernel != NULL && !j->kernel->over) || j->tells)
		return false;
	if (job_reads_to_end(j))
		return j->out[0].fd < 0 && j->out[1].fd < 0;
	return !streams_behind(j);
}

void job_settle(struct init *in, struct job *j)
{
	kernel_settle(in, j);
	if (j->state == JOB_FREE)
		return; /* a cell that was given up */
	if (j->tells)
		channel_event(in, j);
	if (j->link != LINK_NONE && j->state == JOB_RUNNING && j->out[0].fd < 0)
		link_ended(j);
	if (j->state == JOB_ENDED) {
		streams_pump(in, j);
		if (is_drained(j))
			job_tell_exit(in, j);
	}
	if (j->state == JOB_TOLD && j->ring.tail == j->ring.head && j->out[0].fd < 0 &&
	    j->out[1].fd < 0) {
		job_done(in, j);
		return;
	}
	streams_watch(in, j);
}

static void read_exec_report(struct job *j)
{
	struct exec_report report;

	if (j->exec_fd >= 0 && read(j->exec_fd, &report, sizeof(report)) == sizeof(report)) {
		j->exec_errno = report.error;
		(void)memcpy(j->exec_stage, report.stage, sizeof(j->exec_stage));
	}
	fd_close(&j->exec_fd);
}

static void leader_ended(struct init *in, struct job *j, int status, const struct rusage *usage)
{
	j->state = JOB_ENDED;
	j->status = status;
	j->usage = *usage;
	j->ended_us = clock_us();
	j->deadline_us = UINT64_MAX;
	read_exec_report(j);
	if (j->kernel != NULL)
		kernel_ended(j);
	else
		channel_event(in, j);
	if ((j->flags & JOB_SWEEP) != 0)
		(void)kill(-1, SIGKILL);
	streams_mark(j);
	job_settle(in, j);
}

/* The status that is its name; -1: it has another. */
static int named_status(pid_t pid)
{
	static const char said[] = JOB_ENDED_NAME;
	char path[32], name[32];
	unsigned int status = 0;
	const char *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	if (io_read_text(AT_FDCWD, path, name, sizeof(name)) <= 0 ||
	    strncmp(name, said, strlen(said)) != 0)
		return -1;
	p = name + strlen(said);
	while (*p >= '0' && *p <= '9' && status <= 255)
		status = status * 10 + (unsigned int)(*p++ - '0');
	return *p == '\0' && p[-1] != ' ' && status <= 255 ? (int)status : -1;
}

/* Somebody stopped it, which is nothing to us if it is a program of the box; or it has come to its end. Those that leave somebody behind, who may print until
 * he is gone, are to exit by themselves: SIGCONT. User code can say it, too: that is a way to end, as there are many. */
static void leader_stopped(struct init *in, struct job *j, const struct rusage *usage)
{
	int status;

	if (j->is_file) { /* whoever waits for it would wait as long as others in the box like */
		job_kill(j, SIGKILL);
		return;
	}
	if (j->kernel == NULL)
		channel_event(in, j); /* it may have begun just now */
	status = j->begun ? named_status(j->pid) : -1;
	if (status < 0)
		return;
	if ((j->flags & JOB_SWEEP) == 0 || j->timed_out || !usage_is_alone(j->pid)) {
		(void)kill(j->pid, SIGCONT);
		return;
	}
	j->said = true;
	leader_ended(in, j, status << 8, usage);
}

void jobs_reap(struct init *in)
{
	struct rusage usage;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG | WUNTRACED, &usage)) > 0)
		for (unsigned int i = 0; i < JOBS_MAX; i++) {
			struct job *j = &in->jobs[i];

			if (j->state != JOB_RUNNING || j->cell != NULL || j->pid != pid)
				continue;
			if (WIFSTOPPED(status))
				leader_stopped(in, j, &usage);
			else
				leader_ended(in, j, status, &usage);
		}
}

/* Its input is not closed: what has come so far must not be taken for all of it. Jobs are freed later, by jobs_expire(): our caller may
 * be in the middle of one. */
void jobs_forsake(struct init *in)
{
	for (unsigned int i = 0; i < JOBS_MAX; i++) {
		struct job *j = &in->jobs[i];

		if (j->state == JOB_FREE || (j->flags & JOB_ATTENDED) == 0)
			continue;
		j->forsaken = true;
		if (j->link != LINK_NONE)
			j->state = JOB_ENDED;
		else if (j->state == JOB_RUNNING)
			job_kill(j, SIGKILL);
	}
}

static void expired(struct init *in, struct job *j)
{
	if (j->cell != NULL) {
		cell_expired(in, j);
		return;
	}
	j->timed_out = true;
	j->deadline_us = UINT64_MAX;
	if (j->link != LINK_NONE)
		link_cut(in, j);
	else if ((j->flags & JOB_SWEEP) != 0)
		(void)kill(-1, SIGKILL);
	else
		job_kill(j, SIGKILL);
}

uint64_t jobs_expire(struct init *in)
{
	uint64_t next = UINT64_MAX, now = clock_us();

	for (unsigned int i = 0; i < JOBS_MAX; i++) {
		struct job *j = &in->jobs[i];
		uint64_t again;

		if (j->forsaken && j->state != JOB_RUNNING)
			job_free(in, j);
		if (j->state == JOB_FREE)
			continue;
		again = streams_due(in, j, now);
		if (again < next)
			next = again;
		if (j->state != JOB_RUNNING)
			continue;
		if (j->deadline_us <= now)
			expired(in, j);
		if (j->deadline_us < next)
			next = j->deadline_us;
		again = j->kernel != NULL ? kernel_again(in, j, now)
			: j->cell != NULL ? cell_nudge(j, now)
					  : UINT64_MAX;
		if (again < next)
			next = again;
	}
	return next;
}

/* --- limits --------------------------------------------------------------------------------- */

/* Down, that is, as far as the host let us have them: as the keeper's plan does. pid 0: for us; our files are not those
 * of our programs. */
static int limit(struct init *in, pid_t pid, const struct rlimits *r)
{
	for (unsigned int i = 0; i < RLIMITS_N; i++) {
		struct rlimit now, l = { .rlim_cur = r->v[i].soft, .rlim_max = r->v[i].hard };

		if (pid == 0 && r->v[i].which == RLIMIT_FSIZE) {
			if (l.rlim_cur < in->file_bytes)
				in->file_bytes = l.rlim_cur;
			if (l.rlim_max < INIT_FILE_BYTES)
				l.rlim_max = INIT_FILE_BYTES;
			l.rlim_cur = l.rlim_max;
		}
		if (prlimit(pid, r->v[i].which, NULL, &now) < 0)
			return -errno;
		if (l.rlim_max > now.rlim_max)
			l.rlim_max = now.rlim_max;
		if (l.rlim_cur > l.rlim_max)
			l.rlim_cur = l.rlim_max;
		if (prlimit(pid, r->v[i].which, &l, NULL) < 0)
			return -errno;
	}
	return 0;
}

int jobs_limit(struct init *in, const struct frame *f)
{
	struct rlimits r;

	if (in->used || rlimits_decode(f->payload, f->len, &r) < 0)
		return -EPROTO;
	if (init_lacks(in, "spare-rlimits"))
		return 0;
	/* Nothing runs with more than it should have: rather nothing runs. */
	if (limit(in, 0, &r) < 0)
		_exit(1);
	for (unsigned int i = 0; i < JOBS_MAX; i++)
		if (in->jobs[i].state == JOB_RUNNING && limit(in, in->jobs[i].pid, &r) < 0)
			_exit(1);
	return 0;
}

/* --- requests ------------------------------------------------------------------------------- */

/* A free one, or that of the oldest job of which nothing is kept: somebody may still write there,
 * but nobody has to read it. */
static struct job *slot_for(struct init *in)
{
	struct job *old = NULL;

	for (unsigned int i = 0; i < JOBS_MAX; i++) {
		struct job *j = &in->jobs[i];

		if (j->state == JOB_FREE)
			return j;
		if (j->state == JOB_TOLD && j->ring.tail == j->ring.head &&
		    (old == NULL || j->order < old->order))
			old = j;
	}
	if (old != NULL && cell_lingers(old))
		cell_shut(in, old);
	else if (old != NULL)
		job_done(in, old);
	return old;
}

uint64_t job_deadline(uint64_t from, uint64_t timeout_us)
{
	return timeout_us == 0 || timeout_us > UINT64_MAX / 2 ? UINT64_MAX : from + timeout_us;
}

/* With JOB_KEEP there is room for all that will be kept of both streams, and for messages. With JOB_FLOW nothing is cut. */
static void set_output_max(struct job *j, uint64_t output_max)
{
	const uint64_t beside = 64ull << 20;

	if ((j->flags & JOB_FLOW) != 0) {
		ring_limit(&j->ring, output_max);
		return;
	}
	j->output_max = output_max;
	if ((j->flags & JOB_KEEP) != 0)
		ring_limit(&j->ring, output_max == 0 || output_max > RING_LARGE_BYTES
					     ? RING_LARGE_BYTES
					     : 2 * output_max + beside);
}

/* What a job has before there is anything to run. On failure it has nothing. */
static int prepare(struct init *in, struct job *j, uint64_t id, const struct job_spec *spec)
{
	bool takes_input = (spec->flags & (JOB_STDIN | JOB_PTY)) != 0;
	bool is_kernel = (spec->flags & JOB_KERNEL) != 0;
	uint8_t *input = takes_input ? malloc(job_window(spec->kind)) : NULL;
	struct kernel *kernel = is_kernel ? calloc(1, sizeof(*kernel)) : NULL;
	int r;

	if ((takes_input && input == NULL) || (is_kernel && kernel == NULL)) {
		free(input);
		free(kernel);
		return -ENOMEM;
	}
	*j = (struct job){
		.state = JOB_FREE,
		.id = id,
		.flags = spec->flags,
		.is_file = spec->kind == JOB_FILE,
		.kernel = kernel,
		.in_buf = input,
		.in_cap = job_window(spec->kind),
		.in_fd = -1,
		.channel_fd = -1,
		.exec_fd = -1,
		.out = { { .fd = -1 }, { .fd = -1 } },
	};
	r = (spec->flags & JOB_KEEP) != 0 ? ring_init_large(&j->ring) : ring_init(&j->ring);
	if (r < 0) {
		job_free(in, j);
		return r;
	}
	set_output_max(j, spec->output_max);
	j->started_us = clock_us();
	j->deadline_us = (spec->flags & JOB_HELD) != 0
				 ? UINT64_MAX
				 : job_deadline(j->started_us, spec->timeout_us);
	return 0;
}

static int start(struct init *in, struct job *j, uint64_t id, const struct job_spec *spec)
{
	uint8_t pid[4];
	struct msg_out m;
	int r = prepare(in, j, id, spec);

	if (r < 0)
		return r;
	r = spec->kind == JOB_CELL   ? cell_open(in, j, spec)
	    : spec->kind == JOB_LINK ? link_open(in, j, spec)
				     : spawn(in, j, spec);
	if (r < 0) {
		job_free(in, j);
		return r;
	}
	j->state = JOB_RUNNING;
	channel_watch(in, j, EPOLLIN);
	msg_out_init(&m, pid, sizeof(pid));
	msg_put_u32(&m, (uint32_t)j->pid);
	(void)ring_put(&j->ring, FRAME_STARTED, 0, id, pid, m.len);
	streams_watch(in, j);
	return 0;
}

static const char *why_not(enum job_kind kind, int error)
{
	if (kind == JOB_CELL && error == ESRCH)
		return "no such kernel";
	if (kind == JOB_CELL && error == EBUSY)
		return "the kernel runs another cell";
	if (kind == JOB_CELL && error == EAGAIN)
		return "the kernel has not been told to go";
	if (kind == JOB_LINK)
		return "nobody listens there";
	return "the job could not be started";
}

void job_run(struct init *in, const struct frame *f)
{
	struct job_spec spec = { 0 };
	void *block = NULL;
	struct job *j;
	int r;

	j = job_find(in, f->id);
	if (j != NULL && !j->heard)
		return; /* asked again by a gate that took over: its frames are on the way */
	if (j != NULL || was_done(in, f->id)) {
		conn_refuse(in, f->id, EALREADY, "this job has run already");
		return;
	}
	j = slot_for(in);
	if (j == NULL) {
		conn_refuse(in, f->id, EAGAIN, "too many jobs at once");
		return;
	}
	r = job_spec_decode(f->payload, f->len, &spec, &block);
	in->used = in->used || r < 0 || (spec.flags & JOB_HELD) == 0;
	if (r == 0) /* descriptors are short: those of cells that have ended are the first to go */
		while ((r = start(in, j, f->id, &spec)) == -EMFILE && cell_shut_oldest(in))
			;
	if (r < 0)
		conn_refuse(in, f->id, -r, why_not(spec.kind, -r));
	free(block);
}

void job_go(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);
	uint64_t timeout_us;
	struct msg_in m;

	if (j == NULL || (j->flags & JOB_HELD) == 0 || j->state != JOB_RUNNING) {
		if (j == NULL || (j->flags & JOB_HELD) == 0)
			conn_refuse(in, f->id, ESRCH, "no such job, or it is not held");
		return; /* it has ended: its EXIT says how */
	}
	if (j->went)
		return; /* said again by a gate that took over */
	msg_in_init(&m, f->payload, f->len);
	timeout_us = msg_get_u64(&m);
	set_output_max(j, msg_get_u64(&m));
	j->went = in->used = true;
	j->started_us = clock_us();
	j->deadline_us = job_deadline(j->started_us, timeout_us);
	/* Who does not take it is gone, or never will: it is ended, and its EXIT is the answer. */
	if (channel_tell(j, CHANNEL_CONFIG, f->payload + m.at, f->len - m.at) < 0)
		job_kill(j, SIGKILL);
	streams_watch(in, j);
}

void job_signal(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);
	struct msg_in m;
	uint32_t sig, scope;

	msg_in_init(&m, f->payload, f->len);
	sig = msg_get_u32(&m);
	scope = msg_get_u32(&m);
	if (msg_end(&m) < 0 || sig == 0 || sig > 64 || scope > 2) {
		conn_refuse(in, f->id, EINVAL, "no such signal or scope");
		return;
	}
	if (scope == 2) {
		(void)kill(-1, (int)sig);
		return;
	}
	if (j == NULL || j->state != JOB_RUNNING) {
		conn_refuse(in, f->id, ESRCH, "no such job");
		return;
	}
	if (j->cell != NULL)
		cell_signal(in, j, (int)sig);
	else if (j->link != LINK_NONE)
		link_cut(in, j);
	else if (scope == 0)
		job_kill(j, (int)sig);
	else
		(void)kill(j->pid, (int)sig);
}

void job_resize(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);
	struct winsize w = { 0 };
	struct msg_in m;

	msg_in_init(&m, f->payload, f->len);
	w.ws_row = msg_get_u16(&m);
	w.ws_col = msg_get_u16(&m);
	if (j == NULL || (j->flags & JOB_PTY) == 0 || j->out[0].fd < 0 || msg_end(&m) < 0) {
		conn_refuse(in, f->id, ENOTTY, "no such job, or it has no terminal");
		return;
	}
	(void)ioctl(j->out[0].fd, TIOCSWINSZ, &w);
}

void job_ack(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);

	if (j == NULL)
		return;
	ring_ack(&j->ring, f->number);
	j->heard = j->heard || (j->state == JOB_TOLD && f->number >= j->exit_number);
	if (cell_lingers(j))
		ring_rest(&j->ring);
	job_settle(in, j);
}

void job_pause(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);

	if (j != NULL)
		j->paused = f->number != 0;
}

/* What it has left it still has when it goes on. */
void job_clock(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);
	uint64_t now = clock_us();

	if (j == NULL)
		return;
	if (f->number == 0 && j->left_us == 0 && j->deadline_us != UINT64_MAX) {
		j->left_us = j->deadline_us > now ? j->deadline_us - now : 1;
		j->deadline_us = UINT64_MAX;
	} else if (f->number != 0 && j->left_us != 0) {
		j->deadline_us = now + j->left_us;
		j->left_us = 0;
	}
}

void job_event(struct init *in, unsigned int slot, enum watch what)
{
	struct job *j = &in->jobs[slot];

	if (j->state == JOB_FREE)
		return; /* freed earlier in this turn */
	if (what == WATCH_IN)
		input_feed(in, j);
	else if (what == WATCH_CHANNEL && j->kernel != NULL)
		kernel_event(in, j);
	else if (what == WATCH_CHANNEL)
		channel_event(in, j);
	else
		out_event(in, j, what == WATCH_OUT ? 0 : 1);
}
