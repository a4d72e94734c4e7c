/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals, for verbs that wait in poll(2): what came is counted, and a descriptor becomes readable. This is the one thing
 * of theirs that has to be global.
 *
 * What the caller ignores (nohup) stays ignored. No SA_RESTART: a wait is to end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct wake {
	int fd;                 /* readable when something came; -1 before wake_start() */
	int ints;               /* how often SIGINT came */
	int end;                /* the signal that is to end us; 0: none */
	bool resized;           /* SIGWINCH */
	bool goes_on;           /* SIGCONT */
	unsigned int passed_on; /* those that are to be passed on: 1 << signal */
};

enum wake_flag {
	WAKE_INT = 1u << 0, /* SIGINT is counted; otherwise it ends us as the others do */
	WAKE_PASS_ON =
		1u
		<< 1, /* SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 are somebody else's */
};

int wake_start(unsigned int flags);

/* What has come since the last call: ints, resized, goes_on and passed_on begin anew with each; end stays. */
void wake_take(struct wake *w);

/* A look at what has come, without taking it: the signal that ends us, 0: none; whether SIGINT, or one that is to be passed
 * on. */
int wake_end(void);
bool wake_is_asked(void);
int wake_fd(void);

/* Write all of it. Nobody may take it for a while, and signals are heard meanwhile: heard() says what comes of them (other
 * than 0 is returned), and is told how many there were in a row without a byte being taken. NULL: what ends us, or
 * would be somebody else's, ends the writing. 0, -EINTR, or what was wrong. */
int wake_write(int fd, const void *p, size_t n, int (*heard)(void *arg, unsigned int times),
	       void *arg);
