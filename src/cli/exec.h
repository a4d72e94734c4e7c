/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox exec`: a command or a cell in a box that is there, as if it was here: streams, signals, exit status.
 *
 * exec_opts.c takes the command line, exec_feed.c gives it standard input, exec.c follows it.
 */
#pragma once

#include "cli/box_api.h"
#include "cli/follow.h"
#include "cli/show.h"

enum { EXEC_ENV_MAX = 256 };

struct exec_opts {
	struct client_opts client; /* the first member, see there */
	const char *box;
	const char *code, *kernel, *cwd, *images;
	char **argv;         /* NULL-terminated */
	uint64_t timeout_us; /* 0: none */
	bool detach, no_stdin;
	const char *env[EXEC_ENV_MAX]; /* NAME=VALUE */
	unsigned int nenv;
};

/* Standard input on its way into the box. */
struct feed {
	bool done;          /* there is no more, or nobody wants it */
	bool end;           /* its end was read, and is to be told */
	struct bytes piece; /* read, and not taken yet */
	uint64_t try_us;    /* the box had no room, or nobody answered: not before */
	unsigned int tries;
};

struct exec {
	const struct exec_opts *o;
	struct client c;      /* for everything but events */
	struct client events; /* the same server, on connections of its own */
	struct follow f;
	struct show show; /* of a cell */
	struct feed feed;
	bool begun;   /* it says something: it runs */
	bool asking;  /* a cell waits for a line */
	int ended_by; /* a signal that nobody was there to take; 0: none */
	/* how it ended */
	bool has_end;
	char status[16];
	int64_t exit_code, signal; /* -1: none */
	char error[256];
	bool cut;
	int write_error; /* -errno */
};

int exec_opts(struct exec_opts *o, int argc, char **argv, struct err *e);

/* exec_feed.c */
void feed_init(struct feed *f, bool wanted);
/* The descriptor to wait for; -1: none now. And for how long at most, as for poll(2). */
int feed_fd(const struct exec *x);
int feed_wait_ms(const struct exec *x, int ms);
/* readable: the descriptor is. -1: e. */
int feed_turn(struct exec *x, bool readable, struct err *e);
