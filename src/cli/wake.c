// SPDX-License-Identifier: Apache-2.0
#include "cli/wake.h"

#include "base/own.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>

enum { LOOK_MS = 50 }; /* how often, while what came is somebody else's to take */

static volatile sig_atomic_t came_int, came_end, came_resize, came_cont, came_other;
static volatile sig_atomic_t pass_on, count_int;
static int pair[2] = { -1, -1 };

static void on_signal(int sig)
{
	int saved = errno;

	if (sig == SIGWINCH)
		came_resize = 1;
	else if (sig == SIGCONT)
		came_cont = 1;
	else if (pass_on)
		came_other = came_other | (sig_atomic_t)(1u << sig);
	else if (sig == SIGINT && count_int)
		came_int = came_int + 1;
	else
		came_end = sig;
	(void)!write(pair[1], "s", 1);
	errno = saved;
}

int wake_start(unsigned int flags)
{
	static const int signals[] = { SIGINT,  SIGTERM, SIGHUP,   SIGQUIT,
				       SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT };
	struct sigaction sa = { .sa_handler = on_signal }, old;

	if (pair[0] < 0 && pipe2(pair, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	pass_on = (flags & WAKE_PASS_ON) != 0;
	count_int = (flags & WAKE_INT) != 0;
	for (unsigned int i = 0; i < ARRAY_LEN(signals); i++) {
		bool rare = signals[i] == SIGUSR1 || signals[i] == SIGUSR2;

		if (rare && !pass_on)
			continue;
		if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &sa, NULL);
	}
	return 0;
}

void wake_take(struct wake *w)
{
	sigset_t all, old;
	char drop[64];

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old); /* what comes meanwhile is told the next time */
	while (pair[0] >= 0 && read(pair[0], drop, sizeof(drop)) > 0)
		;
	*w = (struct wake){ .fd = pair[0],
			    .ints = came_int,
			    .end = came_end,
			    .resized = came_resize != 0,
			    .goes_on = came_cont != 0,
			    .passed_on = (unsigned int)came_other };
	came_int = came_resize = came_cont = came_other = 0;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
}

int wake_end(void)
{
	return came_end;
}

bool wake_is_asked(void)
{
	return came_int != 0 || came_other != 0;
}

int wake_fd(void)
{
	return pair[0];
}

int wake_write(int fd, const void *p, size_t n, int (*heard)(void *arg, unsigned int times),
	       void *arg)
{
	const char *at = p;
	unsigned int times = 0;
	bool deaf = false;

	while (n > 0) {
		struct pollfd full[2] = { { .fd = fd, .events = POLLOUT },
					  { .fd = deaf ? -1 : pair[0], .events = POLLIN } };
		ssize_t w = 0;
		int r = 0;

		(void)poll(full, 2, deaf ? LOOK_MS : -1);
		if (full[0].revents != 0)
			w = write(fd, at,
				  n < PIPE_BUF ? n : PIPE_BUF); /* so much there is room for */
		if (w < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (w > 0) {
			at += w;
			n -= (size_t)w;
			times = 0;
			continue;
		}
		deaf |= full[1].revents != 0;
		if (heard == NULL) {
			r = came_end != 0 || came_other != 0 ? -EINTR : 0;
		} else if (wake_is_asked()) { /* and the window has not only another size */
			r = heard(arg, ++times);
			deaf = false;
		}
		if (r != 0)
			return r;
	}
	return 0;
}
