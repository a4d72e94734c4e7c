/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox cp`: files between this machine and a box.
 *
 * What travels is a tar archive. In the box tar runs on one end of a pipe; a command of ours holds the other end open, and
 * pieces go through it by further commands, each of which ends when its piece is through. So nothing depends on how much
 * output of a command the server keeps, and nobody has to wait for a reader by asking again and again.
 *
 * A client that is killed cannot end what it started: what holds the pipe waits for a word now and then, and ends without.
 *
 * cp.c has the command line and the pipe, cp_in.c packs, cp_out.c unpacks and trusts nothing that it is told, cp_names.c
 * looks at names.
 */
#pragma once

#include "cli/box_api.h"
#include "cli/follow.h"
#include "wire/tar.h"

#include <limits.h>

enum { CP_PIECE = 4 * 1024 * 1024, CP_SKIPPED_SHOWN = 10 };

/* In a script that holds a pipe: waits until it is let go, or nothing was heard for so many seconds. */
#define CP_AWAIT_END "while read -r -t 1200 _; do :; done\n"
/* Before the names of what a box leaves out, a line each on standard error. */
#define CP_LEFT_NAME "left out, name: "
#define CP_LEFT_KIND "left out, kind: "

struct cp {
	struct client_opts o; /* the first member, see there */
	uint64_t max_bytes;
	struct client c;
	const char *box;
	/* the pipe */
	char holder[FOLLOW_ID]; /* the command that holds it; "": none */
	char pid[16];           /* of that, in the box */
	uint64_t word_us;       /* when it was told last that we are there */
	size_t piece;           /* how much goes through at once, at most */
	/* how it went */
	uint64_t files, bytes, skipped;
};

/* Run a command in the box to its end. 0: *r is its answer, whatever its status. */
int cp_run(struct cp *cp, const char *const *argv, const char *input, struct reply *r,
	   struct err *e);
/* Start the script that holds a pipe, with one argument. */
int cp_hold(struct cp *cp, const char *script, const char *arg, struct err *e);
/* Tell it that we are still there, if it is time. */
void cp_keep(struct cp *cp);
/* End it, and take tar's own end for ours: 0, or -1 with what it said. */
int cp_release(struct cp *cp, struct err *e);
/* End it, whatever it does. */
void cp_drop(struct cp *cp);
/* Something that is left out, and why. */
void cp_skip(struct cp *cp, const char *path, const char *why);

/* cp_in.c: a file or directory of this machine into the box. */
int cp_in(struct cp *cp, const char *from, const char *to, struct err *e);
/* cp_out.c: the other way. */
int cp_out(struct cp *cp, const char *from, const char *to, struct err *e);

/* cp_names.c. The last part of a path, without slashes behind it. "": there is none that could be a name. */
void cp_base(const char *path, char name[NAME_MAX + 1]);
/* Whether a link that stands `depth` directories below the top of what is copied stays below it: relative, and going up
 * at its beginning only, where every part is a directory. */
bool cp_link_stays(const char *link, unsigned int depth);
