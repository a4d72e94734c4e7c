/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terminal at standard input: its modes, its size, and that it is as it was whatever happens to us: also after
 * signals that end a process at once (SIGSEGV and the like), but for SIGKILL.
 */
#pragma once

#include <stdbool.h>

enum term_mode {
	TERM_AS_IT_WAS,
	TERM_QUIET, /* the same, but what is typed is not shown */
	TERM_EDIT, /* keys come as they are pressed, pasted text in brackets; line ends of ours are still made whole */
	TERM_RAW,  /* everything goes through */
	TERM_WAIT, /* nothing is for anybody, but Ctrl-C is SIGINT */
};

/* Remember how it is. false: standard input is no terminal. */
bool term_open(void);
/* -errno when it is gone. */
int term_set(enum term_mode mode);
enum term_mode term_get(void);
/* Others had it meanwhile, and left it as they like: its mode anew. */
void term_again(void);
/* Whether it is ours to read and to change now. */
bool term_is_in_front(void);
/* 80 and 24 where nobody knows. */
void term_size(unsigned int *cols, unsigned int *rows);
/* Stop as Ctrl-Z does: as it was while others have it, and back in its mode afterwards. */
void term_suspend(void);
