/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox shell`: a session in a box, from a terminal.
 *
 * shell_opts.c takes the command line; shell_box.c makes, finds and ends the box; shell.c goes from cell to cell;
 * shell_read.c has the prompt, shell_ask.c what the kernel is asked there; shell_cell.c runs one; shell_tty.c is the
 * other kind of session, a shell of the box with a terminal of its own.
 */
#pragma once

#include "base/limits.h"
#include "cli/client_opts.h"
#include "cli/line.h"
#include "cli/server_near.h"
#include "cli/show.h"

enum { SHELL_ENV_MAX = 256, SHELL_MOUNTS_MAX = 8, SHELL_ROOTS_MAX = 2 };

struct shell_opts {
	struct client_opts client; /* the first member, see there */
	const char *box;           /* NULL: a new one */
	const char *name, *kernel, *images, *environment;
	bool keep, sh;
	uint64_t timeout_us; /* of a cell; 0: none */
	struct limits limits;
	bool limit_set[LIMIT_ID_MAX];
	const char *env[SHELL_ENV_MAX]; /* NAME=VALUE */
	unsigned int nenv;
	const char *mounts[SHELL_MOUNTS_MAX]; /* as written */
	unsigned int nmounts;
};

struct shell {
	const struct shell_opts *o;
	struct client c;
	struct server_near near;
	/* the box */
	char box[80];      /* its id, or name:x as it was given */
	bool made;         /* by us: it ends with us */
	bool ended;        /* it is gone: there is nothing to end */
	int64_t ttl_s;     /* what to ask for again and again, if it is ours */
	uint64_t alive_us; /* when to say that it is still needed */
	uint64_t alive_each_us;
	/* the session */
	bool interactive;
	int64_t count; /* of the next cell */
	bool leaving;  /* a cell said exit() */
	bool over;     /* it cannot go on: there is no box any more, or no terminal */
	struct line line;
	struct history history;
	struct show show;
	struct bytes typed;               /* keys that came before somebody wanted them */
	bool no_complete, no_is_complete; /* the server does not know these calls */
};

int shell_opts(struct shell_opts *o, int argc, char **argv, struct err *e);

/* shell_box.c. open: the server, and the box. close: whatever happened before. */
int shell_open(struct shell *s, struct err *e);
void shell_close(struct shell *s);
/* Say that the box is still needed, if it is time. How long until the next time is in alive_us. */
void shell_keep_alive(struct shell *s);
/* "/v1/boxes/ID" and what follows. */
const char *shell_path(const struct shell *s, const char *tail);
/* The end of a box that an answer tells of: whether it was that. */
bool shell_is_gone(const struct reply *r);

/* shell_read.c: the next cell, in s->line.text. */
enum shell_read { SHELL_CELL, SHELL_DROPPED, SHELL_EOF, SHELL_END };
enum shell_read shell_read(struct shell *s);
/* Bytes of the terminal into s->typed. false: it is gone. */
bool shell_take_keys(struct shell *s);
/* The size of the terminal may have changed. */
void shell_resize(struct shell *s);
/* Ctrl-Z while a line is edited, until we are called back. */
void shell_suspend(struct shell *s);
/* We were called back without having gone by Ctrl-Z: the line is drawn anew. */
void shell_again(struct shell *s);
/* Write what the line editor has to say. */
void shell_flush(struct shell *s);

/* shell_ask.c */
/* Whether the text in the editor is a whole cell; otherwise *indent says how the next line begins. */
bool shell_is_complete(struct shell *s, unsigned int *indent);
/* Complete the word before the cursor. again: it was asked for twice in a row. */
void shell_complete(struct shell *s, bool again);

/* shell_cell.c: run a cell to its end. 0: it ended ok. 1: another way. -1: it cannot be followed; e->sys is EINTR when a
 * signal is to end us. */
int shell_cell(struct shell *s, const char *code, size_t n, struct err *e);

/* shell_tty.c: an exit status. */
int shell_tty(struct shell *s, struct err *e);
