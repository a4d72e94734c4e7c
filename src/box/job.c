// SPDX-License-Identifier: Apache-2.0
/*
 * Jobs: start, feed, read, end.
 *
 * JOB_RUNNING -> JOB_ENDED when the leader is reaped -> JOB_TOLD when all that it printed is in the
 * ring and EXIT behind it -> JOB_FREE when EXIT is acknowledged and the pipes are at their end.
 *
 * What belongs to a job: everything in its pipes at the moment its leader was reaped. With
 * JOB_SWEEP every other process is killed then and the pipes are read to their end. Without, a
 * daemon that kept the pipe open may go on writing; from then on it is read and dropped, so that
 * the daemon neither blocks nor dies of it.
 */
#include "box/init.h"

#include "base/clock.h"
#include "base/own.h"
#include "wire/msg.h"

#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>

static unsigned int slot_of(const struct init *in, const struct job *j)
{
	return (unsigned int)(j - in->jobs);
}

struct job *job_find(struct init *in, uint64_t id)
{
	for (unsigned int i = 0; i < JOBS_MAX; i++)
		if (in->jobs[i].state != JOB_FREE && in->jobs[i].id == id)
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

/* --- descriptors ---------------------------------------------------------------------------- */

static void out_close(struct init *in, struct out_stream *s)
{
	if (s->fd >= 0 && s->watched)
		watch_del(in, s->fd);
	s->watched = false;
	fd_close(&s->fd);
}

static void in_close(struct init *in, struct job *j)
{
	if (j->in_fd >= 0 && j->in_watched)
		watch_del(in, j->in_fd);
	j->in_watched = false;
	fd_close(&j->in_fd);
}

/* Watch exactly what can make progress. A pipe that hung up is reported whatever is asked for, so
 * "not now" means out of the set. */
static void update_watches(struct init *in, struct job *j)
{
	bool room = j->state == JOB_TOLD || ring_has_room(&j->ring);

	for (unsigned int i = 0; i < 2; i++) {
		struct out_stream *s = &j->out[i];
		bool want = s->fd >= 0 && room;

		if (want && !s->watched)
			watch_add(in, s->fd, i == 0 ? WATCH_OUT : WATCH_ERR, slot_of(in, j),
				  EPOLLIN);
		else if (!want && s->watched && s->fd >= 0)
			watch_del(in, s->fd);
		s->watched = want;
	}
	if (j->in_fd >= 0) {
		bool want = j->in_len > 0;

		if (want && !j->in_watched)
			watch_add(in, j->in_fd, WATCH_IN, slot_of(in, j), EPOLLOUT);
		else if (!want && j->in_watched)
			watch_del(in, j->in_fd);
		j->in_watched = want;
	}
}

static void job_free(struct init *in, struct job *j)
{
	in_close(in, j);
	out_close(in, &j->out[0]);
	out_close(in, &j->out[1]);
	fd_close(&j->exec_fd);
	fd_close(&j->channel_fd);
	ring_done(&j->ring);
	free(j->in_buf);
	*j = (struct job){ .state = JOB_FREE };
}

/* --- the end -------------------------------------------------------------------------------- */

/* To the job's process group; a child that has just been forked does not lead one yet. */
static void kill_group(const struct job *j, int sig)
{
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

static void tell_exit(struct init *in, struct job *j)
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
		  ((j->flags & JOB_HELD) != 0 && !j->begun ? JOB_NOT_BEGUN : 0);
	if ((j->flags & JOB_THAW) != 0 && (j->flags & JOB_SWEEP) != 0)
		look_for_files(x.only);
	n = job_exit_encode(&x, body, sizeof(body));
	if (n < 0 || ring_put(&j->ring, FRAME_EXIT, 0, j->id, body, (size_t)n) < 0)
		_exit(1); /* the ring keeps room for this frame */
	in_close(in, j);
	j->state = JOB_TOLD;
}

/* Move a job on as far as it can go now. */
static void settle_job(struct init *in, struct job *j)
{
	if (j->state == JOB_ENDED) {
		bool drained = true;

		for (unsigned int i = 0; i < 2; i++)
			if (j->out[i].fd >= 0 &&
			    ((j->flags & JOB_SWEEP) != 0 || j->out[i].left > 0))
				drained = false;
		if (drained)
			tell_exit(in, j);
	}
	if (j->state == JOB_TOLD && j->ring.tail == j->ring.head && j->out[0].fd < 0 &&
	    j->out[1].fd < 0) {
		in->done[in->ndone++ % DONE_MAX] = j->id;
		job_free(in, j);
		return;
	}
	update_watches(in, j);
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
	channel_event(in, j);
	if ((j->flags & JOB_SWEEP) != 0)
		(void)kill(-1, SIGKILL);
	for (unsigned int i = 0; i < 2; i++) {
		int left = 0;

		if (j->out[i].fd >= 0 && ioctl(j->out[i].fd, FIONREAD, &left) == 0 && left > 0)
			j->out[i].left = (uint64_t)left;
	}
	settle_job(in, j);
}

void jobs_reap(struct init *in)
{
	struct rusage usage;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0)
		for (unsigned int i = 0; i < JOBS_MAX; i++)
			if (in->jobs[i].state == JOB_RUNNING && in->jobs[i].pid == pid)
				leader_ended(in, &in->jobs[i], status, &usage);
}

uint64_t jobs_expire(struct init *in)
{
	uint64_t next = UINT64_MAX, now = clock_us();

	for (unsigned int i = 0; i < JOBS_MAX; i++) {
		struct job *j = &in->jobs[i];

		if (j->state != JOB_RUNNING)
			continue;
		if (j->deadline_us <= now) {
			j->timed_out = true;
			j->deadline_us = UINT64_MAX;
			if ((j->flags & JOB_SWEEP) != 0)
				(void)kill(-1, SIGKILL);
			else
				kill_group(j, SIGKILL);
		}
		if (j->deadline_us < next)
			next = j->deadline_us;
	}
	return next;
}

/* --- output --------------------------------------------------------------------------------- */

/* Read and drop. The count, 0 at the end, -errno. */
static ssize_t discard(int fd, size_t max)
{
	static uint8_t sink[RING_READ_MAX];
	ssize_t n = read(fd, sink, max < sizeof(sink) ? max : sizeof(sink));

	return n < 0 ? -errno : n;
}

/* Whether what arrives now was printed after the job's end, by a daemon. */
static bool is_over(const struct job *j, const struct out_stream *s)
{
	return j->state == JOB_TOLD ||
	       (j->state == JOB_ENDED && (j->flags & JOB_SWEEP) == 0 && s->left == 0);
}

static ssize_t read_stream(struct job *j, unsigned int i)
{
	struct out_stream *s = &j->out[i];
	size_t max = RING_READ_MAX;

	if (is_over(j, s))
		return discard(s->fd, max);
	if (j->state == JOB_ENDED && (j->flags & JOB_SWEEP) == 0 && s->left < max)
		max = (size_t)s->left;
	if (j->output_max != 0 && s->kept >= j->output_max) {
		ssize_t n = discard(s->fd, max);

		if (n > 0)
			s->cut = true;
		return n;
	}
	if (j->output_max != 0 && j->output_max - s->kept < max)
		max = (size_t)(j->output_max - s->kept);
	return ring_read_from(&j->ring, s->fd, FRAME_OUTPUT, (uint16_t)(i + 1), j->id, max);
}

static void out_event(struct init *in, struct job *j, unsigned int i)
{
	struct out_stream *s = &j->out[i];
	bool over = s->fd >= 0 && is_over(j, s);
	ssize_t n;

	if (s->fd < 0 || (!over && !ring_has_room(&j->ring)))
		return;
	n = read_stream(j, i);
	if (n == -EAGAIN || n == -EINTR)
		return;
	if (n <= 0) { /* a terminal ends with EIO */
		out_close(in, s);
	} else if (!over) {
		s->total += (uint64_t)n;
		if (!s->cut)
			s->kept += (uint64_t)n;
		s->left -= (uint64_t)n < s->left ? (uint64_t)n : s->left;
	}
	settle_job(in, j);
}

/* --- input ---------------------------------------------------------------------------------- */

static void feed(struct init *in, struct job *j)
{
	while (j->in_fd >= 0 && j->in_len > 0) {
		ssize_t n = write(j->in_fd, j->in_buf + j->in_at, j->in_len);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n < 0) { /* nobody reads any more: take the rest and forget it */
			j->in_taken += j->in_len;
			j->in_len = 0;
			in_close(in, j);
			break;
		}
		j->in_at += (size_t)n;
		j->in_len -= (size_t)n;
		j->in_taken += (uint64_t)n;
	}
	if (j->in_len == 0) {
		j->in_at = 0;
		if (j->in_end && j->in_fd >= 0) {
			static const char eot = 4;

			if ((j->flags & JOB_PTY) != 0)
				(void)!write(j->in_fd, &eot, 1);
			in_close(in, j);
		}
	}
	conn_input_ack(in, j);
	update_watches(in, j);
}

void job_input(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);
	const uint8_t *p = f->payload;
	size_t n = f->len;

	if (j == NULL || j->in_buf == NULL || j->state != JOB_RUNNING) {
		conn_refuse(in, f->id, ESRCH, "no such job, or it takes no input");
		return;
	}
	/* A gate that took over may repeat what its predecessor had sent. */
	if (f->number < j->in_received) {
		uint64_t known = j->in_received - f->number;

		if (known >= n)
			return;
		p += known;
		n -= (size_t)known;
	}
	if (f->number > j->in_received || n > INPUT_BYTES - j->in_len || j->in_end) {
		conn_refuse(in, f->id, EINVAL, "input beyond the window or after its end");
		return;
	}
	if (j->in_at > 0) {
		(void)memmove(j->in_buf, j->in_buf + j->in_at, j->in_len);
		j->in_at = 0;
	}
	(void)memcpy(j->in_buf + j->in_len, p, n);
	j->in_len += n;
	j->in_received += n;
	if (j->in_fd < 0) { /* closed by the reader: swallowed */
		j->in_taken += j->in_len;
		j->in_len = 0;
	}
	feed(in, j);
}

void job_input_end(struct init *in, const struct frame *f)
{
	struct job *j = job_find(in, f->id);

	if (j == NULL || j->in_buf == NULL || j->state != JOB_RUNNING)
		return;
	if (f->number != j->in_received) {
		conn_refuse(in, f->id, EINVAL, "end of input at another place than its bytes");
		return;
	}
	j->in_end = true;
	feed(in, j);
}

/* --- requests ------------------------------------------------------------------------------- */

static struct job *slot_for(struct init *in)
{
	struct job *dropping = NULL;

	for (unsigned int i = 0; i < JOBS_MAX; i++) {
		struct job *j = &in->jobs[i];

		if (j->state == JOB_FREE)
			return j;
		if (j->state == JOB_TOLD && j->ring.tail == j->ring.head)
			dropping = j;
	}
	/* Only a daemon's output is still dropped there: it can have its broken pipe. */
	if (dropping != NULL) {
		in->done[in->ndone++ % DONE_MAX] = dropping->id;
		job_free(in, dropping);
	}
	return dropping;
}

static uint64_t deadline(uint64_t from, uint64_t timeout_us)
{
	return timeout_us == 0 || timeout_us > UINT64_MAX / 2 ? UINT64_MAX : from + timeout_us;
}

static int start(struct init *in, struct job *j, uint64_t id, const struct job_spec *spec)
{
	bool takes_input = (spec->flags & (JOB_STDIN | JOB_PTY)) != 0;
	uint8_t *input = takes_input ? malloc(INPUT_BYTES) : NULL;
	uint8_t pid[4];
	struct msg_out m;
	int r;

	if (takes_input && input == NULL)
		return -ENOMEM;
	*j = (struct job){
		.state = JOB_FREE,
		.id = id,
		.flags = spec->flags,
		.output_max = spec->output_max,
		.in_fd = -1,
		.channel_fd = -1,
		.in_buf = input,
		.exec_fd = -1,
		.out = { { .fd = -1 }, { .fd = -1 } },
	};
	r = ring_init(&j->ring);
	if (r < 0) {
		job_free(in, j);
		return r;
	}
	j->started_us = clock_us();
	j->deadline_us = (spec->flags & JOB_HELD) != 0 ? UINT64_MAX
						       : deadline(j->started_us, spec->timeout_us);
	r = spawn(in, j, spec);
	if (r < 0) {
		job_free(in, j);
		return r;
	}
	j->state = JOB_RUNNING;
	if (j->channel_fd >= 0)
		watch_add(in, j->channel_fd, WATCH_CHANNEL, slot_of(in, j), EPOLLIN);
	msg_out_init(&m, pid, sizeof(pid));
	msg_put_u32(&m, (uint32_t)j->pid);
	(void)ring_put(&j->ring, FRAME_STARTED, 0, id, pid, m.len);
	update_watches(in, j);
	return 0;
}

void job_run(struct init *in, const struct frame *f)
{
	struct job_spec spec;
	void *block = NULL;
	struct job *j;
	int r;

	if (job_find(in, f->id) != NULL)
		return; /* asked again by a gate that took over: its frames are on the way */
	if (was_done(in, f->id)) {
		conn_refuse(in, f->id, EALREADY, "this job has run already");
		return;
	}
	j = slot_for(in);
	if (j == NULL) {
		conn_refuse(in, f->id, EAGAIN, "too many jobs at once");
		return;
	}
	r = job_spec_decode(f->payload, f->len, &spec, &block);
	if (r == 0)
		r = start(in, j, f->id, &spec);
	if (r < 0)
		conn_refuse(in, f->id, -r, "the job could not be started");
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
	j->output_max = msg_get_u64(&m);
	j->went = true;
	j->started_us = clock_us();
	j->deadline_us = deadline(j->started_us, timeout_us);
	/* Who does not take it is gone, or never will: it is ended, and its EXIT is the answer. */
	if (channel_tell(j, CHANNEL_CONFIG, f->payload + m.at, f->len - m.at) < 0)
		kill_group(j, SIGKILL);
	update_watches(in, j);
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
	if (scope == 0)
		kill_group(j, (int)sig);
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
	settle_job(in, j);
}

void job_event(struct init *in, unsigned int slot, enum watch what)
{
	struct job *j = &in->jobs[slot];

	if (j->state == JOB_FREE)
		return; /* freed earlier in this turn */
	if (what == WATCH_IN)
		feed(in, j);
	else if (what == WATCH_CHANNEL)
		channel_event(in, j);
	else
		out_event(in, j, what == WATCH_OUT ? 0 : 1);
}
