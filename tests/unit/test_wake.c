/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/wake.c: signals for who waits, and for who writes to somebody that does not read. */
#include "cli/wake.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "test_help.h"

/* A pipe that nobody reads, and that is full. */
static void open_full(int pair[2])
{
	static const char zeros[4096];

	CHECK_EQ_INT(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(pair[1], zeros, sizeof(zeros)) > 0)
		;
	CHECK_EQ_INT(errno, EAGAIN);
}

/* And that of the signals, which a program never closes. */
static void close_both(const int pair[2])
{
	(void)close(pair[0]);
	(void)close(pair[1]);
	(void)close(wake_fd());
	(void)close(wake_fd() + 1);
}

TEST(wake_write_is_ended_by_what_ends_us)
{
	char buf[65536];
	int pair[2];

	open_full(pair);
	CHECK_EQ_INT(wake_start(0), 0);
	CHECK_EQ_INT(raise(SIGTERM), 0);
	CHECK_EQ_INT(wake_write(pair[1], "x", 1, NULL, NULL), -EINTR);
	CHECK_EQ_INT(wake_end(), SIGTERM);
	/* Where there is room it is written all the same: last words are wanted. */
	CHECK(read(pair[0], buf, sizeof(buf)) > 0);
	CHECK_EQ_INT(wake_write(pair[1], "x", 1, NULL, NULL), 0);
	close_both(pair);
}

struct heard {
	unsigned int times;
	int drain; /* the pipe that is read when it has heard enough; -1: none */
};

static int on_heard(void *arg, unsigned int times)
{
	static char buf[1 << 20];
	struct heard *h = arg;
	struct wake w;

	wake_take(&w);
	CHECK_EQ_INT(w.passed_on, 1u << SIGINT);
	CHECK_EQ_INT(times, ++h->times);
	if (times < 3) {
		CHECK_EQ_INT(raise(SIGINT), 0);
		return 0;
	}
	if (h->drain < 0)
		return -ECANCELED;
	CHECK(read(h->drain, buf, sizeof(buf)) > 0);
	return 0;
}

TEST(wake_write_asks_what_comes_of_a_signal)
{
	struct heard gives_up = { .drain = -1 }, goes_on;
	int pair[2];

	open_full(pair);
	CHECK_EQ_INT(wake_start(WAKE_PASS_ON), 0);
	CHECK_EQ_INT(raise(SIGWINCH), 0); /* which is nobody's business */
	CHECK_EQ_INT(raise(SIGINT), 0);
	CHECK_EQ_INT(wake_write(pair[1], "x", 1, on_heard, &gives_up), -ECANCELED);
	CHECK_EQ_INT(gives_up.times, 3);
	goes_on = (struct heard){ .drain = pair[0] };
	CHECK_EQ_INT(raise(SIGINT), 0);
	CHECK_EQ_INT(wake_write(pair[1], "x", 1, on_heard, &goes_on), 0);
	CHECK_EQ_INT(goes_on.times, 3);
	close_both(pair);
}

TEST(wake_write_tells_what_is_wrong)
{
	int pair[2], full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	CHECK_EQ_INT(wake_write(full, "x", 1, NULL, NULL), -ENOSPC);
	(void)close(full);
	CHECK_EQ_INT(pipe2(pair, O_CLOEXEC), 0);
	(void)close(pair[0]);
	(void)signal(SIGPIPE, SIG_IGN);
	CHECK_EQ_INT(wake_write(pair[1], "x", 1, NULL, NULL), -EPIPE);
	(void)close(pair[1]);
}
