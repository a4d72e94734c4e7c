// SPDX-License-Identifier: Apache-2.0
#include "cli/term.h"

#include "base/io.h"
#include "base/own.h"
#include "cli/wake.h"

#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

#define PASTE_ON  "\033[?2004h"
#define PASTE_OFF "\033[?2004l"

enum { DRAINS = 3 }; /* how often to wait until what was written is seen */

static struct termios as_it_was;
static bool is_open;
static volatile sig_atomic_t mode_now = TERM_AS_IT_WAS;

bool term_is_in_front(void)
{
	pid_t front = tcgetpgrp(STDIN_FILENO);

	return front < 0 || front == getpgrp();
}

/* Who is told to end while others have the terminal leaves it to them: to change it would only stop us again. */
static bool is_ours(void)
{
	return mode_now != TERM_AS_IT_WAS && (wake_end() == 0 || term_is_in_front());
}

/* Only what a handler of signals may call. Signals may come in between, and a terminal that was stopped drains nothing. */
static void restore(void)
{
	int tries = 0;

	if (mode_now == TERM_EDIT && is_ours())
		(void)!write(STDOUT_FILENO, PASTE_OFF, sizeof(PASTE_OFF) - 1);
	while (is_ours() &&
	       tcsetattr(STDIN_FILENO, tries < DRAINS ? TCSADRAIN : TCSANOW, &as_it_was) < 0 &&
	       errno == EINTR && tries < 2 * DRAINS)
		tries++;
	mode_now = TERM_AS_IT_WAS;
}

static void on_fatal(int sig)
{
	restore();
	(void)signal(sig, SIG_DFL);
	(void)raise(sig);
}

bool term_open(void)
{
	static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
	struct sigaction sa = { .sa_handler = on_fatal, .sa_flags = SA_RESETHAND };

	if (is_open)
		return true;
	if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &as_it_was) < 0)
		return false;
	is_open = true;
	for (unsigned int i = 0; i < ARRAY_LEN(fatal); i++)
		(void)sigaction(fatal[i], &sa, NULL);
	(void)atexit(restore);
	return true;
}

/* A background process that changes a terminal is stopped: what the one in front does is not ours to change. One that is
 * told to end needs it no more. */
static int set_modes(const struct termios *t)
{
	while (wake_end() == 0) {
		if (tcsetattr(STDIN_FILENO, TCSADRAIN, t) == 0)
			return 0;
		if (errno != EINTR)
			return -errno;
	}
	return -EINTR;
}

int term_set(enum term_mode mode)
{
	struct termios t = as_it_was;
	int r;

	if (!is_open || mode == (enum term_mode)mode_now)
		return 0;
	if (mode == TERM_AS_IT_WAS) {
		restore();
		return 0;
	}
	if (mode == TERM_RAW || mode == TERM_WAIT) {
		cfmakeraw(&t);
		t.c_lflag |= mode == TERM_WAIT ? ISIG : 0;
		t.c_cc[VQUIT] = t.c_cc[VSUSP] = _POSIX_VDISABLE;
	} else if (mode == TERM_QUIET) {
		t.c_lflag &= ~(tcflag_t)ECHO;
		t.c_lflag |= ECHONL | ICANON | ISIG;
	} else {
		t.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
		t.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | IGNCR | ISTRIP | BRKINT);
		t.c_oflag |= OPOST | ONLCR;
	}
	if (mode != TERM_QUIET) {
		t.c_cc[VMIN] = 1;
		t.c_cc[VTIME] = 0;
	}
	r = set_modes(&t);
	if (r < 0)
		return r;
	mode_now = mode;
	return mode == TERM_EDIT ? io_write_all(STDOUT_FILENO, PASTE_ON, sizeof(PASTE_ON) - 1) : 0;
}

enum term_mode term_get(void)
{
	return (enum term_mode)mode_now;
}

void term_again(void)
{
	enum term_mode mode = term_get();

	(void)term_set(TERM_AS_IT_WAS);
	(void)term_set(mode);
}

void term_size(unsigned int *cols, unsigned int *rows)
{
	struct winsize w = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 || w.ws_col == 0 || w.ws_row == 0)
		(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &w);
	*cols = w.ws_col != 0 ? w.ws_col : 80;
	*rows = w.ws_row != 0 ? w.ws_row : 24;
}

void term_suspend(void)
{
	enum term_mode mode = term_get();

	(void)term_set(TERM_AS_IT_WAS);
	(void)kill(0, SIGTSTP); /* all of the job: it is what the shell that started us looks at */
	(void)term_set(mode);
}
