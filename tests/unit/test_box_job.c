/* SPDX-License-Identifier: Apache-2.0 */
/* src/box/job.c: the end of a job, on pipes that the test holds. The event loop is not there. */
#include "box/init.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/frame.h"
#include "wire/rlimits.h"

#include "test_help.h"

/* Those of init.c, which has a main() and would be the wrong one. */
int watch_add(struct init *in, int fd, enum watch what, unsigned int slot, uint32_t events)
{
	(void)in, (void)fd, (void)what, (void)slot, (void)events;
	return 0;
}

void watch_del(struct init *in, int fd)
{
	(void)in, (void)fd;
}

static struct init *in;
static int out[2], err[2]; /* what programs of the box write to */

/* A job without sweep whose leader has just been reaped, with `left` bytes of its own in stdout. */
static struct job *ended_job(uint64_t left)
{
	struct job *j;

	(void)signal(SIGPIPE, SIG_IGN);
	in = calloc(1, sizeof(*in));
	CHECK(in != NULL);
	in->gate_fd = in->sending = -1;
	CHECK(pipe2(out, O_CLOEXEC | O_NONBLOCK) == 0 && pipe2(err, O_CLOEXEC | O_NONBLOCK) == 0);
	j = &in->jobs[0];
	*j = (struct job){ .state = JOB_ENDED,
			   .id = 5,
			   .in_fd = -1,
			   .exec_fd = -1,
			   .channel_fd = -1,
			   .deadline_us = UINT64_MAX };
	j->out[0] = (struct out_stream){ .fd = out[0], .watched = true, .left = left };
	j->out[1] = (struct out_stream){ .fd = err[0], .watched = true };
	CHECK_EQ_INT(ring_init(&j->ring), 0);
	return j;
}

static void close_job(struct job *j)
{
	for (int i = 0; i < 2; i++)
		if (j->out[i].fd >= 0)
			(void)close(j->out[i].fd);
	ring_done(&j->ring);
	(void)close(out[1]);
	(void)close(err[1]);
	free(in);
}

TEST(box_job_sends_what_was_printed_and_then_its_exit)
{
	struct job *j = ended_job(3);
	struct frame f;
	ptrdiff_t n;

	CHECK_EQ_INT(write(out[1], "abcdaemon", 9), 9); /* three bytes are the job's */
	job_event(in, 0, WATCH_OUT);
	CHECK_EQ_INT(j->state, JOB_TOLD);
	n = frame_parse(j->ring.buf, (size_t)j->ring.head, FRAME_FROM_BOX, &f);
	CHECK(n > 0 && f.type == FRAME_OUTPUT && f.number == 1 && f.len == 3);
	CHECK_MEM(f.payload, "abc", 3);
	n = frame_parse(j->ring.buf + n, (size_t)j->ring.head - (size_t)n, FRAME_FROM_BOX, &f);
	CHECK(n > 0 && f.type == FRAME_EXIT && f.number == 2);
	/* What a daemon prints from then on is read and dropped. */
	job_event(in, 0, WATCH_OUT);
	CHECK_EQ_INT(write(out[1], "more", 4), 4);
	job_event(in, 0, WATCH_OUT);
	CHECK_EQ_INT(read(out[0], &(char){ 0 }, 1), -1); /* nothing left */
	CHECK_EQ_INT(j->ring.next_number, 3);
	close_job(j);
}

/*
 * The leader has ended with bytes of its own still in stdout; a daemon that it left writes to stderr, of which
 * nothing belongs to the job any more. That event may come first. The daemon must neither block nor die of it.
 */
TEST(box_job_leaves_a_daemon_its_pipe)
{
	struct job *j = ended_job(3);

	CHECK_EQ_INT(write(out[1], "abc", 3), 3);
	CHECK_EQ_INT(write(err[1], "daemon", 6), 6);
	job_event(in, 0, WATCH_ERR);
	CHECK_EQ_INT(write(err[1], "daemon", 6), 6); /* -1 and EPIPE: its pipe was closed */
	job_event(in, 0, WATCH_OUT);
	CHECK_EQ_INT(j->state, JOB_TOLD);
	CHECK_EQ_INT(write(err[1], "daemon", 6), 6);
	job_event(in, 0, WATCH_ERR);
	CHECK_EQ_INT(write(err[1], "daemon", 6), 6);
	close_job(j);
}

/* --- limits ------------------------------------------------------------------------------------------------------- */

static struct frame limits_frame(uint64_t open_files, uint64_t processes)
{
	static uint8_t body[RLIMITS_BYTES];
	struct limits l;

	limits_init(&l);
	l.v[LIMIT_OPEN_FILES] = open_files;
	l.v[LIMIT_PROCESSES] = processes;
	l.v[LIMIT_CPU_SECONDS] = 1000;
	CHECK_EQ_INT(rlimits_encode(&l, body, sizeof(body)), RLIMITS_BYTES);
	return (struct frame){ .type = FRAME_LIMITS, .payload = body, .len = sizeof(body) };
}

static uint64_t limit_of(pid_t pid, int which)
{
	struct rlimit l;

	CHECK(prlimit(pid, which, NULL, &l) == 0);
	CHECK(l.rlim_cur == l.rlim_max || which == RLIMIT_CPU);
	return l.rlim_cur;
}

/* A job that waits for GO: a process that does nothing. */
static pid_t held_job(struct job *j)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		(void)alarm(60); /* should nobody be left to end it */
		for (;;)
			(void)pause();
	}
	*j = (struct job){ .state = JOB_RUNNING, .id = 9, .pid = pid, .flags = JOB_HELD };
	return pid;
}

TEST(box_job_limits_hold_for_init_and_for_who_waits)
{
	struct frame f = limits_frame(100, 4000);
	pid_t pid;

	in = calloc(1, sizeof(*in));
	CHECK(in != NULL);
	pid = held_job(&in->jobs[3]);
	CHECK_EQ_INT(jobs_limit(in, &f), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ_INT(limit_of(i == 0 ? 0 : pid, RLIMIT_NOFILE), 100);
		CHECK_EQ_INT(limit_of(i == 0 ? 0 : pid, RLIMIT_NPROC), 4001);
		CHECK_EQ_INT(limit_of(i == 0 ? 0 : pid, RLIMIT_CPU), 1000);
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	free(in);
}

/* Once something of a caller's has run it is too late: what that left could have more. */
TEST(box_job_limits_come_first)
{
	static uint8_t go[16];
	struct frame f = limits_frame(50, 4000), bad = f, run = { .type = FRAME_RUN, .id = 5 };
	uint64_t before = limit_of(0, RLIMIT_NOFILE);

	in = calloc(1, sizeof(*in));
	CHECK(in != NULL);
	in->gate_fd = in->sending = -1;
	bad.len--;
	CHECK_EQ_INT(jobs_limit(in, &bad), -EPROTO);
	job_run(in, &run); /* malformed, and a job all the same */
	CHECK_EQ_INT(jobs_limit(in, &f), -EPROTO);
	in->used = false;
	in->jobs[3] = (struct job){
		.state = JOB_RUNNING, .id = 9, .pid = getpid(), .flags = JOB_HELD, .channel_fd = -1
	};
	CHECK_EQ_INT(ring_init(&in->jobs[3].ring), 0);
	CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, out), 0);
	in->jobs[3].channel_fd = out[0];
	in->jobs[3].out[0].fd = in->jobs[3].out[1].fd = in->jobs[3].in_fd = -1;
	job_go(in, &(struct frame){ .type = FRAME_GO, .id = 9, .payload = go, .len = sizeof(go) });
	CHECK_EQ_INT(jobs_limit(in, &f), -EPROTO);
	CHECK_EQ_INT(limit_of(0, RLIMIT_NOFILE), before);
	ring_done(&in->jobs[3].ring);
	(void)close(out[0]);
	(void)close(out[1]);
	free(in);
}

/* Who is root of the box can open the pipe for reading. What is not there any more is not waited for. */
TEST(box_job_whose_output_was_stolen_ends)
{
	struct job *j = ended_job(3);

	job_event(in, 0, WATCH_OUT);
	CHECK_EQ_INT(j->state, JOB_TOLD);
	CHECK_EQ_INT(j->ring.next_number, 2);
	close_job(j);
}

/* --- the end, told by the job itself --------------------------------------------------------------------------------- */

/* A process with this name that stops, and how that looks to who waits for it. */
static pid_t stopped(const char *name)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_NAME, name);
		(void)alarm(60);
		(void)kill(getpid(), SIGSTOP);
		_exit(9);
	}
	CHECK_EQ_INT(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WSTOPPED | WNOWAIT), 0);
	return pid;
}

/* A program that has stopped with this name. Not with JOB_SWEEP: that would end all processes that we may end. */
static struct job *stopped_job(const char *name)
{
	struct job *j = ended_job(0);

	j->state = JOB_RUNNING;
	j->pid = stopped(name);
	j->flags = JOB_HELD | JOB_THAW;
	j->went = j->ready = j->begun = true;
	return j;
}

TEST(box_job_without_sweep_exits_by_itself)
{
	struct job *j = stopped_job("gb-ended 9");

	while (j->state == JOB_RUNNING)
		jobs_reap(in);
	CHECK(!j->said && WIFEXITED(j->status) && WEXITSTATUS(j->status) == 9);
	close_job(j);
}

/* Who was stopped by somebody stays so. */
TEST(box_job_that_has_stopped_is_left_alone)
{
	static const char *const names[] = { "python3",        "gb-ended ",   "gb-ended",
					     "gb-ended 256",   "gb-ended -1", "gb-ended 1 ",
					     "gb-ended 99999", "gb-ended 0x1" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct job *j = stopped_job(names[i]);
		siginfo_t now = { 0 };

		jobs_reap(in);
		CHECK_EQ_INT(j->state, JOB_RUNNING);
		CHECK_EQ_INT(j->ring.next_number, 1);
		CHECK_EQ_INT(kill(j->pid, SIGKILL), 0);
		CHECK_EQ_INT(waitid(P_PID, (id_t)j->pid, &now, WEXITED | WNOWAIT), 0);
		CHECK(now.si_code == CLD_KILLED);
		jobs_reap(in);
		close_job(j);
	}
}

/* Somebody waits for it, and others in the box could make that as long as they like. */
TEST(box_job_of_files_that_is_stopped_is_ended)
{
	struct job *j = stopped_job("glovebox-init");

	j->is_file = true;
	while (j->state == JOB_RUNNING)
		jobs_reap(in);
	CHECK(WIFSIGNALED(j->status) && WTERMSIG(j->status) == SIGKILL);
	close_job(j);
}

TEST(box_job_that_has_not_begun_cannot_have_ended)
{
	struct job *j = ended_job(0);

	j->state = JOB_RUNNING;
	j->pid = stopped("gb-ended 9");
	j->flags = JOB_HELD | JOB_THAW;
	j->went = j->ready = true;
	jobs_reap(in);
	CHECK_EQ_INT(kill(j->pid, SIGKILL), 0);
	CHECK_EQ_INT(waitid(P_PID, (id_t)j->pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	jobs_reap(in);
	CHECK(WIFSIGNALED(j->status));
	close_job(j);
}

/* It was said, and the leader is as good as dead: others still hold the pipes. */
TEST(box_job_that_said_its_end_does_not_wait_for_its_pipes)
{
	struct job *j = ended_job(3);

	j->flags = JOB_SWEEP;
	j->said = true;
	CHECK_EQ_INT(write(out[1], "abc", 3), 3);
	job_event(in, 0, WATCH_OUT);
	CHECK_EQ_INT(j->state, JOB_TOLD);
	CHECK_EQ_INT(j->ring.next_number, 3);
	CHECK_EQ_INT(write(out[1], "late", 4), 4);
	job_event(in, 0, WATCH_OUT);
	CHECK_EQ_INT(j->ring.next_number, 3);
	close_job(j);
}

/* --- a gate that is gone --------------------------------------------------------------------------------------------- */

/* A process of its own that waits, as a job with these flags. */
static struct job *waiting_job(unsigned int slot, uint32_t flags)
{
	struct job *j = &in->jobs[slot];
	pid_t pid = held_job(j);

	*j = (struct job){ .state = JOB_RUNNING,
			   .id = 100 + slot,
			   .pid = pid,
			   .flags = flags,
			   .in_fd = -1,
			   .exec_fd = -1,
			   .channel_fd = -1,
			   .deadline_us = UINT64_MAX,
			   .out = { { .fd = -1 }, { .fd = -1 } } };
	CHECK_EQ_INT(ring_init(&j->ring), 0);
	return j;
}

TEST(box_job_that_is_attended_goes_with_its_gate)
{
	struct job *attended, *other, *told;
	int first[2], second[2];
	uint8_t byte;

	in = calloc(1, sizeof(*in));
	CHECK(in != NULL);
	attended = waiting_job(1, JOB_ATTENDED | JOB_STDIN);
	other = waiting_job(2, JOB_STDIN);
	told = &in->jobs[3];
	*told = (struct job){ .state = JOB_TOLD,
			      .id = 103,
			      .flags = JOB_ATTENDED,
			      .in_fd = -1,
			      .exec_fd = -1,
			      .channel_fd = -1,
			      .out = { { .fd = -1 }, { .fd = -1 } } };
	CHECK_EQ_INT(ring_init(&told->ring), 0);
	CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first), 0);
	CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second), 0);
	CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out), 0);
	in->gate_fd = first[0];
	in->sending = -1;
	attended->in_fd = out[0];

	conn_open(in, second[0]); /* another gate */
	CHECK(job_find(in, 101) == NULL && job_find(in, 102) == other && job_find(in, 103) == NULL);
	/* Its input has not ended: it could take what it has for all of it. */
	CHECK_EQ_INT(recv(out[1], &byte, 1, MSG_DONTWAIT), -1);
	CHECK_EQ_INT(errno, EAGAIN);
	(void)jobs_expire(in);
	CHECK_EQ_INT(told->state, JOB_FREE);
	CHECK_EQ_INT(waitid(P_PID, (id_t)attended->pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	jobs_reap(in);
	(void)jobs_expire(in);
	CHECK_EQ_INT(attended->state, JOB_FREE);
	CHECK_EQ_INT(in->ndone, 0); /* nobody was told, so nothing is remembered */
	CHECK_EQ_INT(recv(out[1], &byte, 1, MSG_DONTWAIT), 0);

	CHECK_EQ_INT(other->state, JOB_RUNNING);
	CHECK_EQ_INT(kill(other->pid, SIGKILL), 0);
	CHECK_EQ_INT(waitid(P_PID, (id_t)other->pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	jobs_reap(in);
	CHECK_EQ_INT(other->state, JOB_TOLD);
	ring_done(&other->ring);
	(void)close(in->gate_fd);
	(void)close(first[1]);
	(void)close(second[1]);
	(void)close(out[1]);
	free(in);
}

/* A client may have been told of it. Both ways to lose it: an answer that cannot be sent, and the next gate. */
static void hear_a_last_word(bool replaced)
{
	uint8_t frame[FRAME_HEADER + 8] = { 0 };
	int first[2], second[2];
	struct job *j;

	in = calloc(1, sizeof(*in));
	CHECK(in != NULL);
	j = waiting_job(2, 0);
	CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first), 0);
	CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second), 0);
	in->gate_fd = first[0];
	in->sending = -1;
	in->gate_hello = true;
	frame_put_header(frame, FRAME_SIGNAL, 0, j->id, 0, 8);
	frame[FRAME_HEADER] = SIGKILL;
	frame[FRAME_HEADER + 4] = 1; /* its leader */
	CHECK_EQ_INT(write(first[1], frame, sizeof(frame)), sizeof(frame));
	if (!replaced)
		CHECK_EQ_INT(close(first[1]), 0);
	conn_input_ack(in, j);
	if (replaced) {
		conn_open(in, second[0]);
		CHECK(in->gate_fd == second[0] && !in->gate_deaf);
		CHECK_EQ_INT(close(first[1]), 0);
	} else {
		conn_flush(in);
		conn_input_ack(in, j); /* for nobody */
		for (int n = 0; n < 2; n++)
			conn_event(in, EPOLLIN);
		CHECK(in->gate_fd == -1 && !in->gate_deaf);
		CHECK_EQ_INT(close(second[0]), 0);
	}
	CHECK_EQ_INT(waitid(P_PID, (id_t)j->pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT), 0);
	jobs_reap(in);
	CHECK(WIFSIGNALED(j->status) && WTERMSIG(j->status) == SIGKILL);
	conn_close(in);
	CHECK_EQ_INT(close(second[1]), 0);
	ring_done(&j->ring);
	free(in);
}

TEST(box_conn_what_a_dead_gate_had_sent_counts)
{
	hear_a_last_word(false);
}

TEST(box_conn_what_a_replaced_gate_had_sent_counts)
{
	hear_a_last_word(true);
}

/* --- figures of who still runs --------------------------------------------------------------------------------------- */

TEST(box_usage_is_of_who_runs)
{
	enum { BIG = 64 << 20 };
	struct rusage u;
	char *big = malloc(BIG);
	uint64_t before = usage_cpu_us(getpid());

	CHECK(big != NULL && before > 0);
	explicit_bzero(big, BIG);
	CHECK(usage_peak_kib(getpid()) >= BIG / 1024);
	free(big);
	CHECK(usage_peak_kib(getpid()) >= BIG / 1024);
	while (usage_cpu_us(getpid()) < before + 10000)
		;
	usage_set(&u, 2500000, 77);
	CHECK(u.ru_utime.tv_sec == 2 && u.ru_utime.tv_usec == 500000 && u.ru_maxrss == 77);
	CHECK(u.ru_stime.tv_sec == 0 && u.ru_stime.tv_usec == 0);
}

TEST(box_usage_knows_who_is_not_alone)
{
	CHECK(getpid() == 1 || !usage_is_alone(getpid())); /* there is always a process 1 */
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

/* A job that was told to go; channel[1] is its end. */
static struct job *going_job(int channel[2])
{
	struct job *j = ended_job(0);

	CHECK_EQ_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, channel),
		     0);
	j->state = JOB_RUNNING;
	j->flags = JOB_HELD;
	j->channel_fd = channel[0];
	j->ready = j->went = true;
	return j;
}

static ssize_t say(int fd, uint8_t type, uint8_t flags, size_t n)
{
	static uint8_t packet[CHANNEL_HEADER + CHANNEL_PAYLOAD_MAX + 1];

	packet[0] = type;
	packet[1] = flags;
	return send(fd, packet, CHANNEL_HEADER + n, MSG_DONTWAIT);
}

static void end_going(struct job *j, const int channel[2])
{
	if (j->channel_fd >= 0)
		(void)close(channel[0]);
	(void)close(channel[1]);
	close_job(j);
}

TEST(box_job_that_tells_nothing_is_not_listened_to)
{
	int channel[2];
	struct job *j = going_job(channel);

	CHECK(say(channel[1], CHANNEL_BEGUN, 0, 0) > 0);
	CHECK(say(channel[1], CHANNEL_MESSAGE, 0, 3) > 0);
	job_event(in, 0, WATCH_CHANNEL);
	CHECK(j->begun && !j->tells);
	job_event(in, 0, WATCH_CHANNEL);
	CHECK_EQ_INT(j->ring.next_number, 1);
	end_going(j, channel);
}

TEST(box_job_passes_messages_on)
{
	int channel[2];
	struct job *j = going_job(channel);
	struct frame f;
	ptrdiff_t n;

	CHECK(say(channel[1], CHANNEL_BEGUN, CHANNEL_TELLS, 0) > 0);
	CHECK(say(channel[1], CHANNEL_MESSAGE, CHANNEL_MORE, 3) > 0);
	CHECK(say(channel[1], CHANNEL_END, 0, 3) > 0);                           /* none of its */
	CHECK(say(channel[1], CHANNEL_MESSAGE, 0, CHANNEL_PAYLOAD_MAX + 1) > 0); /* too long */
	CHECK_EQ_INT(send(channel[1], "x", 1, 0), 1);                            /* too short */
	CHECK(say(channel[1], CHANNEL_MESSAGE, 0, 2) > 0);
	job_event(in, 0, WATCH_CHANNEL);
	CHECK(j->begun && j->tells);
	n = frame_parse(j->ring.buf, (size_t)j->ring.head, FRAME_FROM_BOX, &f);
	CHECK(n > 0 && f.type == FRAME_MESSAGE && f.flags == FRAME_MORE && f.len == 3 && f.id == 5);
	n = frame_parse(j->ring.buf + n, (size_t)j->ring.head - (size_t)n, FRAME_FROM_BOX, &f);
	CHECK(n > 0 && f.type == FRAME_MESSAGE && f.flags == 0 && f.len == 2 && f.number == 2);
	CHECK_EQ_INT(j->ring.next_number, 3);
	end_going(j, channel);
}

/* What it said before its end comes before its EXIT, however full the ring is; a reader that is slow gets all of it. */
TEST(box_job_that_ended_has_its_messages_heard)
{
	int channel[2];
	struct job *j = going_job(channel);
	unsigned int said = 0;

	CHECK(say(channel[1], CHANNEL_BEGUN, CHANNEL_TELLS, 0) > 0);
	while (said < 40) {
		while (say(channel[1], CHANNEL_MESSAGE, 0, CHANNEL_PAYLOAD_MAX) > 0)
			said++;
		job_event(in, 0, WATCH_CHANNEL);
		if (!ring_fits(&j->ring, CHANNEL_PAYLOAD_MAX))
			break;
	}
	CHECK(said > j->ring.next_number - 1); /* some of it waits in the channel */
	j->state = JOB_ENDED;
	job_settle(in, j);
	CHECK_EQ_INT(j->state, JOB_ENDED);
	for (int i = 0; i < 100 && j->state == JOB_ENDED; i++) {
		j->ring.sent = j->ring.head;
		job_ack(in, &(struct frame){ .id = 5, .number = j->ring.next_number - 1 });
	}
	CHECK_EQ_INT(j->state, JOB_TOLD);
	CHECK_EQ_INT(j->ring.next_number - 1, said + 1);
	end_going(j, channel);
}

/* The other end is gone, and so is what it had to say. */
TEST(box_job_whose_channel_was_closed_tells_nothing)
{
	int channel[2];
	struct job *j = going_job(channel);

	CHECK(say(channel[1], CHANNEL_BEGUN, CHANNEL_TELLS, 0) > 0);
	job_event(in, 0, WATCH_CHANNEL);
	CHECK(j->tells);
	(void)shutdown(channel[1], SHUT_RDWR);
	job_event(in, 0, WATCH_CHANNEL);
	CHECK(!j->tells);
	end_going(j, channel);
}

/* A job may fail before its input has come; who sends that is not told that there is no such job, since its start may not
 * have been told yet. */
TEST(box_job_that_ended_takes_input_without_a_word)
{
	struct job *j = ended_job(3);
	struct frame f = {
		.type = FRAME_INPUT, .id = 5, .payload = (const uint8_t *)"x", .len = 1
	};

	in->gate_fd = out[1]; /* whatever: nothing is sent */
	job_input(in, &f);
	CHECK_EQ_INT(in->reply_len, 0);
	f.id = 6; /* of nobody */
	job_input(in, &f);
	CHECK(in->reply_len > 0);
	close_job(j);
}
