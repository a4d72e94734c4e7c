/* SPDX-License-Identifier: Apache-2.0 */
/* src/box/cell.c: cells of a kernel that the test plays. The event loop is the test's, too. */
#include "box/init.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "wire/msg.h"

#include "test_help.h"

enum { KERNEL = 1, PACKET_MAX = CHANNEL_HEADER + CHANNEL_PAYLOAD_MAX };

static struct init *in;
static int channel; /* the kernel's end */
static pid_t pid;

/* --- init ----------------------------------------------------------------------------------------------------- */

static struct job *kernel(void)
{
	return &in->jobs[0];
}

static void start_kernel(void)
{
	int pair[2];
	struct job *k;

	(void)signal(SIGPIPE, SIG_IGN);
	in = calloc(1, sizeof(*in));
	CHECK(in != NULL);
	in->gate_fd = in->sending = in->copy_fd = in->kit_fd[KIT_BASE] = -1;
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	channel = pair[1];
	pid = fork();
	if (pid == 0) {
		/* A shell's background jobs are born with it ignored. */
		(void)signal(SIGINT, SIG_DFL);
		for (;;)
			(void)pause();
	}
	CHECK(pid > 0);
	k = kernel();
	*k = (struct job){ .state = JOB_RUNNING,
			   .id = KERNEL,
			   .pid = pid,
			   .flags = JOB_HELD | JOB_KERNEL,
			   .channel_fd = pair[0],
			   .went = true,
			   .in_fd = -1,
			   .exec_fd = -1,
			   .deadline_us = UINT64_MAX,
			   .out = { { .fd = -1 }, { .fd = -1 } },
			   .kernel = calloc(1, sizeof(struct kernel)) };
	CHECK(k->kernel != NULL);
	CHECK_EQ_INT(ring_init(&k->ring), 0);
	channel_watch(in, k, EPOLLIN);
}

static bool is_ready(const struct out_stream *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };

	return s->watched && poll(&p, 1, 0) > 0;
}

/* As epoll reports it: streams that are ready; of channels whatever is watched, what is not ready says so. */
static void turn(void)
{
	for (unsigned int i = 0; i < JOBS_MAX; i++) {
		struct job *j = &in->jobs[i];

		if (j->state != JOB_FREE && j->channel_events != 0)
			job_event(in, i, WATCH_CHANNEL);
		if (j->state != JOB_FREE && is_ready(&j->out[0]))
			job_event(in, i, WATCH_OUT);
		if (j->state != JOB_FREE && is_ready(&j->out[1]))
			job_event(in, i, WATCH_ERR);
	}
	(void)jobs_expire(in);
	jobs_reap(in);
}

static void end_kernel(void)
{
	if (pid == 0)
		return;
	CHECK(kill(pid, SIGKILL) == 0);
	CHECK(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT) == 0);
	jobs_reap(in);
	pid = 0;
}

/* Everything is acknowledged; then nothing of any job may be left. */
static void finish(void)
{
	end_kernel();
	(void)close(channel);
	for (int round = 0; round < 100; round++) {
		(void)usleep(50); /* what is collected is read after a millisecond */
		turn();
		for (unsigned int i = 0; i < JOBS_MAX; i++) {
			struct job *j = &in->jobs[i];
			struct frame all = { .id = j->id, .number = UINT64_MAX };

			if (j->state == JOB_FREE)
				continue;
			j->ring.sent = j->ring.head;
			job_ack(in, &all);
		}
	}
	for (unsigned int i = 0; i < JOBS_MAX; i++)
		CHECK_EQ_INT(in->jobs[i].state, JOB_FREE);
	free(in);
}

/* --- the gate --------------------------------------------------------------------------------------------------- */

static void run_cell(uint64_t id, const char *of, uint32_t flags)
{
	static const char *const none[] = { NULL };
	const char *const argv[] = { of, NULL };
	const struct job_spec spec = {
		.kind = JOB_CELL, .flags = JOB_STDIN | flags, .cwd = "", .argv = argv, .envp = none
	};
	uint8_t body[512];
	ptrdiff_t n = job_spec_encode(&spec, body, sizeof(body));
	struct frame f = { .type = FRAME_RUN, .id = id, .payload = body };

	CHECK(n > 0);
	f.len = (size_t)n;
	job_run(in, &f);
}

static void input(uint64_t id, uint64_t at, const void *p, size_t n)
{
	struct frame f = { .type = FRAME_INPUT, .id = id, .number = at, .payload = p, .len = n };

	job_input(in, &f);
}

static void input_end(uint64_t id, uint64_t at)
{
	struct frame f = { .type = FRAME_INPUT_END, .id = id, .number = at };

	job_input_end(in, &f);
}

/* A cell with the request "{}". */
static struct job *ask(uint64_t id)
{
	struct job *c;

	run_cell(id, "1", 0);
	c = job_find(in, id);
	CHECK(c != NULL);
	input(id, 0, "{}", 2);
	input_end(id, 2);
	return c;
}

static void ack(struct job *j)
{
	struct frame f = { .type = FRAME_ACK, .id = j->id, .number = UINT64_MAX };

	j->ring.sent = j->ring.head;
	job_ack(in, &f);
}

/* The next frame that was not looked at. False: there is none. */
static bool next_frame(struct job *j, struct frame *f, uint8_t buf[FRAME_HEADER + RING_READ_MAX])
{
	struct iovec iov[2] = { { 0 } };
	size_t len = 0;
	ptrdiff_t n;

	if (j->ring.sent == j->ring.head)
		return false;
	for (int i = 0, k = ring_unsent(&j->ring, j->ring.head, iov); i < k; i++) {
		size_t part = FRAME_HEADER + RING_READ_MAX - len;

		part = part < iov[i].iov_len ? part : iov[i].iov_len;
		memcpy(buf + len, iov[i].iov_base, part);
		len += part;
	}
	n = frame_parse(buf, len, FRAME_FROM_BOX, f);
	CHECK(n > 0);
	j->ring.sent += (uint64_t)n;
	return true;
}

/* All frames as text: O stdout, E stderr, M message, R reply, X exit, S started; + is MORE, ' is late. */
static const char *story(struct job *j)
{
	static char text[4096];
	static uint8_t buf[FRAME_HEADER + RING_READ_MAX];
	struct frame f;
	size_t at = 0;

	while (next_frame(j, &f, buf)) {
		const char *late = (f.flags & FRAME_LATE) != 0 ? "'" : "";
		int n = (int)f.len;

		CHECK(at + 100 + f.len < sizeof(text));
		if (f.type == FRAME_OUTPUT)
			at += (size_t)sprintf(text + at, "%c%s(%.*s)",
					      (f.flags & 3) == 1 ? 'O' : 'E', late, n,
					      (const char *)f.payload);
		else if (f.type == FRAME_MESSAGE)
			at += (size_t)sprintf(text + at, "%c%s%s(%.*s)",
					      (f.flags & FRAME_END) != 0 ? 'R' : 'M', late,
					      (f.flags & FRAME_MORE) != 0 ? "+" : "", n,
					      (const char *)f.payload);
		else
			at += (size_t)sprintf(text + at, "%c",
					      f.type == FRAME_EXIT      ? 'X'
					      : f.type == FRAME_STARTED ? 'S'
					      : f.type == FRAME_READY   ? 'W'
									: '?');
	}
	text[at] = '\0';
	return text;
}

/* --- the kernel --------------------------------------------------------------------------------------------------- */

static int say(uint8_t type, uint8_t flags, uint64_t cell, const void *p, size_t n)
{
	static uint8_t buf[2 * PACKET_MAX];
	struct msg_out m;

	msg_out_init(&m, buf, sizeof(buf));
	msg_put_u8(&m, type);
	msg_put_u8(&m, flags);
	msg_put_u16(&m, 0);
	msg_put_u32(&m, 0);
	msg_put_u64(&m, cell);
	CHECK(n <= sizeof(buf) - m.len);
	memcpy(buf + m.len, p, n);
	return send(channel, buf, m.len + n, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int say_text(uint8_t type, uint64_t cell, const char *text)
{
	return say(type, 0, cell, text, strlen(text));
}

/* The next packet; its length, -EAGAIN. fds: -1 where there was none. */
static ssize_t hear(uint8_t buf[PACKET_MAX + 1], int fds[2])
{
	union {
		struct cmsghdr head;
		uint8_t space[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = buf, .iov_len = PACKET_MAX + 1 };
	struct msghdr mh = { .msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(channel, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *h = n >= 0 ? CMSG_FIRSTHDR(&mh) : NULL;

	fds[0] = fds[1] = -1;
	if (h != NULL) {
		CHECK_EQ_INT(h->cmsg_len, CMSG_LEN(2 * sizeof(int)));
		memcpy(fds, CMSG_DATA(h), 2 * sizeof(int));
	}
	return n < 0 ? -errno : n;
}

/* The request of a small cell; fds are its pipes. */
static void hear_request(int fds[2])
{
	static uint8_t buf[PACKET_MAX + 1];

	CHECK_EQ_INT(hear(buf, fds), CHANNEL_HEADER + 2);
	CHECK(buf[0] == CHANNEL_RUN && buf[1] == 0 && fds[0] >= 0 && fds[1] >= 0);
}

static void print(int fd, const char *text)
{
	CHECK_EQ_INT(write(fd, text, strlen(text)), strlen(text));
}

static void close_both(int fds[2])
{
	fd_close(&fds[0]);
	fd_close(&fds[1]);
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

TEST(box_cell_keeps_text_and_messages_in_order)
{
	struct job *c;
	int fds[2];

	start_kernel();
	CHECK_EQ_INT(say_text(CHANNEL_WAITING, 0, ""), 0);
	CHECK_EQ_INT(say_text(CHANNEL_READY, 0, "hello"), 0);
	CHECK_EQ_INT(say_text(CHANNEL_READY, 0, "hello again"), 0); /* once */
	turn();
	turn();
	turn();
	CHECK_STR(story(kernel()), "M(hello)");
	CHECK(kernel()->ready && kernel()->begun);
	c = ask(7);
	hear_request(fds);
	print(fds[0], "one");
	CHECK_EQ_INT(say_text(CHANNEL_MESSAGE, 7, "two"), 0);
	turn();
	print(fds[1], "three");
	print(fds[0], "four");
	CHECK_EQ_INT(say(CHANNEL_END, CHANNEL_MORE, 7, "fi", 2), 0);
	CHECK_EQ_INT(say_text(CHANNEL_END, 7, "ve"), 0);
	turn();
	turn();
	CHECK_STR(story(c), "SO(one)M(two)O(four)E(three)R+(fi)R(ve)X");
	CHECK_EQ_INT(c->state, JOB_TOLD);
	CHECK(kernel()->kernel->cell == NULL);
	/* It lingers. */
	ack(c);
	print(fds[0], "late");
	turn();
	print(fds[1], "text");
	CHECK_EQ_INT(say_text(CHANNEL_MESSAGE, 7, "and"), 0);
	CHECK_EQ_INT(say_text(CHANNEL_END, 7, "never"), 0);
	turn();
	turn();
	CHECK_STR(story(c), "O'(late)E'(text)M'(and)");
	ack(c);
	CHECK_EQ_INT(c->state, JOB_TOLD);
	close_both(fds);
	turn();
	CHECK_EQ_INT(c->state, JOB_FREE);
	finish();
}

/* Whoever asks is answered behind what came before; a question that is too long is none. */
TEST(box_cell_syncs)
{
	uint8_t buf[PACKET_MAX + 1];
	struct job *c;
	int fds[2];

	start_kernel();
	c = ask(7);
	hear_request(fds);
	CHECK_EQ_INT(say_text(CHANNEL_MESSAGE, 7, "one"), 0);
	CHECK_EQ_INT(say_text(CHANNEL_SYNC, 7, "12"), 0);
	turn();
	CHECK_EQ_INT(recv(channel, buf, sizeof(buf), MSG_DONTWAIT), -1);
	turn();
	CHECK_STR(story(c), "SM(one)");
	CHECK_EQ_INT(recv(channel, buf, sizeof(buf), MSG_DONTWAIT), CHANNEL_HEADER + 2);
	CHECK(buf[0] == CHANNEL_SYNCED && buf[8] == 7);
	CHECK_MEM(buf + CHANNEL_HEADER, "12", 2);
	CHECK_EQ_INT(say_text(CHANNEL_SYNC, 7, "a question of more than 32 bytes."), 0);
	turn();
	CHECK_EQ_INT(recv(channel, buf, sizeof(buf), MSG_DONTWAIT), -1);
	close_both(fds);
	finish();
}

/* A request larger than the channel's buffer: it waits, nothing is lost, and the pipes go with its first packet. */
TEST(box_cell_request_streams)
{
	static uint8_t data[3 << 20], got[sizeof(data)], buf[PACKET_MAX + 1];
	uint64_t seed = 1;
	size_t sent = 0, heard = 0, packets = 0;
	struct job *c;
	int fds[2];

	rnd_fill(&seed, data, sizeof(data));
	start_kernel();
	run_cell(7, "1", 0);
	c = job_find(in, 7);
	CHECK(c != NULL);
	for (bool over = false; !over;) {
		size_t room = c->in_cap - (size_t)(sent - c->in_taken);
		size_t part = sizeof(data) - sent < room ? sizeof(data) - sent : room;
		ssize_t n;

		if (part > 0) {
			part = 1 + rnd_below(&seed, part);
			input(7, sent, data + sent, part);
			input(7, sent, data + sent, part); /* said twice */
			sent += part;
			CHECK_EQ_INT(c->in_received, sent);
			if (sent == sizeof(data)) {
				input_end(7, sent);
				input_end(7, sent);
			}
		}
		turn();
		/* The kernel reads only when nothing moves any more. */
		if (part > 0 && rnd_below(&seed, 50) != 0)
			continue;
		while ((n = hear(buf, fds)) > 0) {
			CHECK(n >= CHANNEL_HEADER && n <= PACKET_MAX);
			CHECK(buf[0] == CHANNEL_RUN && (fds[0] >= 0) == (packets == 0));
			close_both(fds);
			packets++;
			n -= CHANNEL_HEADER;
			CHECK(!over && heard + (size_t)n <= sizeof(got));
			memcpy(got + heard, buf + CHANNEL_HEADER, (size_t)n);
			heard += (size_t)n;
			over = (buf[1] & CHANNEL_MORE) == 0;
			CHECK(over || n == CHANNEL_PAYLOAD_MAX);
		}
		CHECK_EQ_INT(n, -EAGAIN);
	}
	CHECK_EQ_INT(heard, sizeof(data));
	CHECK_MEM(got, data, sizeof(data));
	CHECK(c->cell->asked && c->in_taken == sizeof(data));
	finish();
}

TEST(box_cell_is_refused)
{
	start_kernel();
	run_cell(5, "2", 0); /* no such job */
	run_cell(5, "", 0);  /* no number */
	run_cell(5, "-1", 0);
	run_cell(0, "1", 0); /* in packets 0 is the kernel */
	CHECK(job_find(in, 5) == NULL && job_find(in, 0) == NULL);
	kernel()->went = false;
	run_cell(5, "1", 0);
	CHECK(job_find(in, 5) == NULL);
	kernel()->went = true;
	run_cell(5, "1", 0);
	CHECK(job_find(in, 5) != NULL);
	run_cell(6, "1", 0); /* one at a time */
	run_cell(6, "5", 0); /* a cell is no kernel */
	CHECK(job_find(in, 6) == NULL);
	finish();
}

/* Its pipes fill the ring: the message behind them waits, the channel is not read, and goes on with the acknowledgement. */
TEST(box_cell_message_waits_for_what_was_printed)
{
	static uint8_t page[4096], buf[FRAME_HEADER + RING_READ_MAX];
	size_t printed = 0, kept = 0;
	struct frame f = { 0 };
	struct job *c;
	int fds[2];

	start_kernel();
	c = ask(7);
	hear_request(fds);
	CHECK(fcntl(fds[0], F_SETPIPE_SZ, 1 << 20) >= 1 << 20);
	CHECK(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
	while (write(fds[0], page, sizeof(page)) > 0)
		printed += sizeof(page);
	CHECK(printed > 2 * RING_BYTES);
	CHECK_EQ_INT(say_text(CHANNEL_MESSAGE, 7, "m"), 0);
	CHECK_EQ_INT(say_text(CHANNEL_END, 7, "e"), 0);
	for (int i = 0; i < 100; i++)
		turn();
	CHECK(kernel()->channel_events == 0 && kernel()->kernel->to == c);
	/* Printed behind the message: not before it in the ring. */
	CHECK(write(fds[0], page, sizeof(page)) > 0);
	printed += sizeof(page);
	while (c->state == JOB_RUNNING) {
		while (next_frame(c, &f, buf) && f.type != FRAME_MESSAGE)
			kept += f.type == FRAME_OUTPUT ? f.len : 0;
		if (f.type == FRAME_MESSAGE && f.len == 1 && f.payload[0] == 'm')
			CHECK_EQ_INT(kept, printed - sizeof(page));
		struct frame a = { .id = 7, .number = f.number };

		job_ack(in, &a);
		turn();
	}
	while (next_frame(c, &f, buf))
		kept += f.type == FRAME_OUTPUT ? f.len : 0;
	CHECK_EQ_INT(f.type, FRAME_EXIT);
	CHECK_EQ_INT(kept, printed);
	close_both(fds);
	finish();
}

/* Who is root of the box can open the pipe for reading: what was counted may be gone. */
TEST(box_cell_whose_output_was_stolen_goes_on)
{
	static uint8_t page[4096];
	char path[64];
	struct job *c;
	int fds[2], thief;

	start_kernel();
	c = ask(7);
	hear_request(fds);
	CHECK(fcntl(fds[0], F_SETPIPE_SZ, 1 << 20) >= 1 << 20);
	CHECK(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
	while (write(fds[0], page, sizeof(page)) > 0)
		;
	CHECK_EQ_INT(say_text(CHANNEL_END, 7, "e"), 0);
	turn();
	CHECK(kernel()->kernel->to == c);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	thief = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	CHECK(thief >= 0);
	while (read(thief, page, sizeof(page)) > 0)
		;
	(void)close(thief);
	ack(c);
	CHECK_EQ_INT(c->state, JOB_TOLD);
	close_both(fds);
	finish();
}

/* Asked again by a gate that takes over: with what it is refused, 0 if it is not. */
static int ask_again(uint64_t id)
{
	struct frame f;
	int error = 0;

	in->gate_fd = channel; /* nothing is sent there */
	run_cell(id, "1", 0);
	in->gate_fd = -1;
	if (in->reply_len > 0) {
		struct msg_in m;

		CHECK(frame_parse(in->reply, in->reply_len, FRAME_FROM_BOX, &f) > 0);
		CHECK(f.type == FRAME_REFUSED && f.id == id);
		msg_in_init(&m, f.payload, f.len);
		error = (int)msg_get_u32(&m);
	}
	in->reply_len = 0;
	return error;
}

/* Whether a cell that lingers has still to be heard. */
TEST(box_cell_that_was_heard_is_not_run_again)
{
	struct frame late = { .type = FRAME_ACK, .id = 7 };
	struct job *c;
	int fds[2];

	start_kernel();
	c = ask(7);
	hear_request(fds);
	CHECK_EQ_INT(say_text(CHANNEL_END, 7, ""), 0);
	turn();
	CHECK_STR(story(c), "SR()X");
	late.number = 2; /* all but its end */
	job_ack(in, &late);
	CHECK_EQ_INT(ask_again(7), 0);
	ack(c);
	print(fds[0], "late");
	turn();
	CHECK_EQ_INT(ask_again(7), EALREADY); /* whatever is still to be said */
	CHECK_STR(story(c), "O'(late)");
	close_both(fds);
	finish();
}

TEST(box_cell_lingers_and_the_oldest_goes_first)
{
	enum { CELLS = CELLS_LINGER_MAX + 8 };
	int fds[CELLS][2];
	struct job *c[CELLS];

	start_kernel();
	for (int i = 0; i < CELLS; i++) {
		c[i] = ask(100 + (uint64_t)i);
		hear_request(fds[i]);
		CHECK_EQ_INT(say_text(CHANNEL_END, 100 + (uint64_t)i, ""), 0);
		turn();
		CHECK_EQ_INT(c[i]->state, JOB_TOLD);
		if (i >= 2)
			ack(c[i]); /* of the first two something is kept */
	}
	/* The two with something to keep stay, though they are the oldest; eight others went, the oldest of them. */
	for (int i = 0; i < CELLS; i++) {
		bool open = i < 2 || i >= 10;

		CHECK_EQ_INT(write(fds[i][0], "late", 4), open ? 4 : -1);
		turn();
		CHECK_EQ_INT(job_find(in, 100 + (uint64_t)i) != NULL, open);
	}
	CHECK_STR(story(c[10]), "O'(late)");
	for (int i = 0; i < CELLS; i++)
		close_both(fds[i]);
	finish();
}

/* None of them was acknowledged: pipes are closed all the same, what was said is kept. */
TEST(box_cell_descriptors_are_bounded)
{
	enum { CELLS = CELLS_LINGER_MAX + 3 };
	int fds[CELLS][2];

	start_kernel();
	for (int i = 0; i < CELLS; i++) {
		(void)ask(100 + (uint64_t)i);
		hear_request(fds[i]);
		CHECK_EQ_INT(say_text(CHANNEL_END, 100 + (uint64_t)i, "kept"), 0);
		turn();
	}
	for (int i = 0; i < CELLS; i++) {
		CHECK_EQ_INT(write(fds[i][0], "x", 1), i < 3 ? -1 : 1);
		CHECK_STR(story(job_find(in, 100 + (uint64_t)i)), "SR(kept)X");
		close_both(fds[i]);
	}
	finish();
}

/* All slots are taken by what was acknowledged and lingers, or still runs. */
TEST(box_cell_makes_place)
{
	int fds[2], fd;

	start_kernel();
	(void)ask(7);
	hear_request(fds);
	CHECK_EQ_INT(say_text(CHANNEL_END, 7, ""), 0);
	turn();
	ack(job_find(in, 7));
	CHECK_EQ_INT(job_find(in, 7)->state, JOB_TOLD);
	for (unsigned int i = 0; i < JOBS_MAX; i++)
		if (in->jobs[i].state == JOB_FREE)
			in->jobs[i] = (struct job){ .state = JOB_RUNNING,
						    .id = 1000 + i,
						    .pid = pid,
						    .deadline_us = UINT64_MAX };
	fd = fds[1];
	run_cell(8, "1", 0);
	CHECK(job_find(in, 8) != NULL && job_find(in, 7) == NULL);
	CHECK_EQ_INT(write(fd, "x", 1), -1);
	for (unsigned int i = 0; i < JOBS_MAX; i++)
		if (in->jobs[i].id >= 1000)
			in->jobs[i] = (struct job){ .state = JOB_FREE };
	close_both(fds);
	finish();
}

static struct job_exit exit_of(struct job *j)
{
	static uint8_t buf[FRAME_HEADER + RING_READ_MAX];
	struct job_exit x;
	struct frame f = { 0 };

	while (next_frame(j, &f, buf))
		;
	CHECK_EQ_INT(f.type, FRAME_EXIT);
	CHECK_EQ_INT(job_exit_decode(f.payload, f.len, &x), 0);
	return x;
}

TEST(box_cell_ends_with_its_kernel)
{
	struct job *c, *late;
	struct job_exit x;
	int fds[2], old[2];

	start_kernel();
	late = ask(6);
	hear_request(old);
	CHECK_EQ_INT(say_text(CHANNEL_END, 6, ""), 0);
	turn();
	c = ask(7);
	hear_request(fds);
	print(fds[0], "printed");
	print(old[0], "late");
	CHECK_EQ_INT(say_text(CHANNEL_MESSAGE, 7, "said"), 0);
	CHECK_EQ_INT(say_text(CHANNEL_MESSAGE, 6, "too"), 0);
	end_kernel();
	CHECK_STR(story(late), "SR()XO'(late)M'(too)");
	CHECK_EQ_INT(late->state, JOB_TOLD);
	CHECK_EQ_INT(write(old[0], "x", 1), -1);
	CHECK_EQ_INT(c->state, JOB_TOLD);
	x = exit_of(c);
	CHECK(x.how == JOB_SIGNALED && x.code == SIGKILL && x.flags == JOB_KERNEL_DIED);
	CHECK_EQ_INT(x.stdout_bytes, 7);
	ring_rewind(&c->ring);
	CHECK_STR(story(c), "SO(printed)M(said)X");
	x = exit_of(kernel());
	CHECK(x.how == JOB_SIGNALED && x.code == SIGKILL && x.flags == JOB_NOT_BEGUN);
	run_cell(8, "1", 0);
	CHECK(job_find(in, 8) == NULL);
	close_both(fds);
	close_both(old);
	finish();
}

/* The last words of a kernel wait for room in the ring of its cell: both ends are told when there is some. */
TEST(box_cell_end_waits_for_last_words)
{
	static uint8_t page[4096], buf[FRAME_HEADER + RING_READ_MAX];
	struct frame f = { 0 };
	struct job *c;
	size_t said = 0;
	int fds[2];

	start_kernel();
	c = ask(7);
	hear_request(fds);
	while (kernel()->kernel->to == NULL) {
		CHECK_EQ_INT(say(CHANNEL_MESSAGE, 0, 7, page, sizeof(page)), 0);
		said++;
		turn();
	}
	CHECK_EQ_INT(say_text(CHANNEL_MESSAGE, 7, "last"), 0);
	said++;
	end_kernel();
	CHECK(c->state == JOB_RUNNING && kernel()->state == JOB_ENDED);
	while (next_frame(c, &f, buf))
		said -= f.type == FRAME_MESSAGE;
	ack(c);
	CHECK(c->state == JOB_TOLD && kernel()->state == JOB_TOLD);
	while (next_frame(c, &f, buf))
		said -= f.type == FRAME_MESSAGE;
	CHECK(said == 0 && f.type == FRAME_EXIT);
	CHECK_STR(story(kernel()), "X");
	close_both(fds);
	finish();
}

/* It replied, and ended at once: the reply counts. */
TEST(box_cell_reply_of_a_kernel_that_is_gone)
{
	struct job *c;
	int fds[2];

	start_kernel();
	c = ask(7);
	hear_request(fds);
	print(fds[0], "x");
	CHECK_EQ_INT(say_text(CHANNEL_END, 7, "bye"), 0);
	end_kernel();
	CHECK_STR(story(c), "SO(x)R(bye)X");
	ring_rewind(&c->ring);
	CHECK_EQ_INT(exit_of(c).flags, 0);
	close_both(fds);
	finish();
}

/* Time is over: an interrupt, and after a grace the end of the kernel. */
TEST(box_cell_time)
{
	struct job *c;
	struct job_exit x;
	int fds[2];

	start_kernel();
	CHECK(kernel()->state == JOB_RUNNING);
	c = ask(7);
	hear_request(fds);
	c->deadline_us = 1;
	/* The process of the test has no handler: the interrupt is its end. */
	(void)jobs_expire(in);
	CHECK(c->timed_out && c->deadline_us > clock_us());
	CHECK(waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT) == 0);
	jobs_reap(in);
	pid = 0;
	x = exit_of(c);
	CHECK(x.how == JOB_SIGNALED && x.code == SIGINT);
	CHECK_EQ_INT(x.flags, JOB_TIMED_OUT | JOB_KERNEL_DIED);
	close_both(fds);
	finish();
}

/* The rest of a request never comes: the kernel gets what there is, and is not signalled. */
TEST(box_cell_request_that_is_cut)
{
	static uint8_t buf[PACKET_MAX + 1];
	struct job *c;
	int fds[2];

	start_kernel();
	run_cell(7, "1", 0);
	c = job_find(in, 7);
	CHECK(c != NULL);
	input(7, 0, "{\"co", 4);
	turn();
	CHECK_EQ_INT(hear(buf, fds), -EAGAIN);
	c->deadline_us = 1;
	(void)jobs_expire(in);
	CHECK_EQ_INT(hear(buf, fds), CHANNEL_HEADER + 4);
	CHECK(buf[1] == 0 && fds[0] >= 0);
	CHECK_EQ_INT(say_text(CHANNEL_END, 7, "what?"), 0);
	turn();
	CHECK_EQ_INT(exit_of(c).flags, JOB_TIMED_OUT);
	CHECK_EQ_INT(kernel()->state, JOB_RUNNING);
	close_both(fds);
	finish();
}

/* Its end of the channel is closed: a kernel no more. */
TEST(box_cell_kernel_without_a_channel_is_ended)
{
	struct job *c;
	int fds[2];

	start_kernel();
	c = ask(7);
	hear_request(fds);
	CHECK(shutdown(channel, SHUT_WR) == 0);
	while (c->state == JOB_RUNNING)
		turn();
	pid = 0;
	CHECK_EQ_INT(exit_of(c).flags, JOB_KERNEL_DIED);
	close_both(fds);
	finish();
}

/* --- any kernel at all ------------------------------------------------------------------------------------------- */

enum { WILD_CELLS = 48 };

struct wild {
	uint64_t next, running; /* ids */
	int fds[WILD_CELLS][2];
	unsigned int nfds;
	uint64_t seen[JOBS_MAX]; /* number of the last frame, by slot */
	uint64_t id[JOBS_MAX];
	bool exited[JOBS_MAX];
};

/* Numbers follow each other, one EXIT, and what is behind it is late. */
static void check_frames(struct wild *w, unsigned int slot)
{
	static uint8_t buf[FRAME_HEADER + RING_READ_MAX];
	struct job *j = &in->jobs[slot];
	struct frame f;

	if (w->id[slot] != j->id) {
		w->id[slot] = j->id;
		w->seen[slot] = 0;
		w->exited[slot] = false;
	}
	while (next_frame(j, &f, buf)) {
		bool late = (f.flags & FRAME_LATE) != 0;

		CHECK(f.number == ++w->seen[slot] && f.id == j->id);
		CHECK(late == w->exited[slot]);
		if (f.type == FRAME_EXIT) {
			CHECK(!w->exited[slot]);
			w->exited[slot] = true;
		} else {
			CHECK(f.type == FRAME_OUTPUT || f.type == FRAME_MESSAGE ||
			      f.type == FRAME_STARTED || f.type == FRAME_READY);
		}
	}
}

static void wild_packet(struct wild *w, uint64_t *seed)
{
	static const uint8_t types[] = { 15, 16, 17, 17, 17, 17, 18, 2, 0, 255 };
	static uint8_t data[PACKET_MAX + 100];
	size_t n = rnd_below(seed, rnd_below(seed, 4) == 0 ? sizeof(data) : 300);
	uint64_t cell = rnd_below(seed, 3) == 0 ? rnd_below(seed, w->next + 3) : w->running;

	if (rnd_below(seed, 20) == 0) { /* not even a header */
		rnd_fill(seed, data, n);
		if (n > 0) /* an empty packet is the end of the channel */
			(void)send(channel, data, n, MSG_DONTWAIT | MSG_NOSIGNAL);
		return;
	}
	(void)say(types[rnd_below(seed, sizeof(types))], (uint8_t)rnd_below(seed, 4), cell, data,
		  n);
}

static void wild_step(struct wild *w, uint64_t *seed)
{
	static uint8_t data[100000];
	unsigned int slot = (unsigned int)rnd_below(seed, JOBS_MAX);
	struct job *j = &in->jobs[slot], *c = job_find(in, w->running);
	size_t n = rnd_below(seed, 3000);
	int fds[2];

	switch (rnd_below(seed, 24)) {
	case 0:
	case 1:
	case 2:
		wild_packet(w, seed);
		break;
	case 3: /* prints, into one of the cells it knows */
		if (w->nfds > 0)
			(void)!write(w->fds[rnd_below(seed, w->nfds)][rnd_below(seed, 2)], data, n);
		break;
	case 4: /* listens */
		if (hear(data, fds) > 0 && fds[0] >= 0) {
			if (w->nfds == WILD_CELLS)
				close_both(w->fds[--w->nfds]);
			(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
			(void)fcntl(fds[1], F_SETFL, O_NONBLOCK);
			memcpy(w->fds[w->nfds++], fds, sizeof(fds));
		}
		break;
	case 5: /* closes a pipe */
		if (w->nfds > 0 && rnd_below(seed, 40) == 0)
			close_both(w->fds[--w->nfds]);
		break;
	case 6:
	case 7:
		if (kernel()->kernel != NULL && kernel()->kernel->cell == NULL) {
			w->running = w->next++;
			run_cell(w->running, "1", rnd_below(seed, 2) == 0 ? JOB_KEEP : 0);
		}
		if (c != NULL && c->state == JOB_RUNNING && !c->in_end) {
			size_t part = c->in_cap - c->in_len;

			part = rnd_below(seed, part < sizeof(data) ? part : sizeof(data));
			if (part > 0)
				input(w->running, c->in_received, data, part);
			if (rnd_below(seed, 2) == 0 && c->state == JOB_RUNNING)
				input_end(w->running, c->in_received);
		}
		break;
	case 8: { /* the user answers */
		struct frame f = { .id = w->running, .payload = data, .len = n };

		cell_tell(in, &f);
		break;
	}
	case 9: /* somebody reads */
		if (j->state != JOB_FREE)
			check_frames(w, slot);
		break;
	case 10:
		for (unsigned int i = 0; i < JOBS_MAX; i++)
			if (in->jobs[i].state != JOB_FREE && rnd_below(seed, 3) == 0) {
				struct frame f = { .id = in->jobs[i].id, .number = UINT64_MAX };

				check_frames(w, i);
				job_ack(in, &f);
			}
		break;
	default:
		turn();
	}
}

TEST(box_cell_survives_any_kernel)
{
	uint64_t seed = 77;

	for (int round = 0; round < 3; round++) {
		struct wild w = { .next = 10 };

		start_kernel();
		for (int i = 0; i < 60000; i++)
			wild_step(&w, &seed);
		CHECK(w.next > 100 && kernel()->state == JOB_RUNNING); /* cells came and went */
		end_kernel();
		for (unsigned int i = 0; i < JOBS_MAX; i++)
			if (in->jobs[i].state != JOB_FREE)
				check_frames(&w, i);
		while (w.nfds > 0)
			close_both(w.fds[--w.nfds]);
		finish();
	}
}
