/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals, for verbs that wait in poll(2): what came is counted, and a descriptor becomes readable. This is the one thing
 * of theirs that has to be global.
 *
 * What the caller ignores (nohup) stays ignored. No SA_RESTART: a wait is to end.
 */
#pragma once

#include <stdbool.h>

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

/* A look at what has come, without taking it: the signal that ends us, 0: none; how often SIGINT. */
int wake_end(void);
int wake_ints(void);
int wake_fd(void);
