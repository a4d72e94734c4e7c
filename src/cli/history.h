/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells that were typed before, over sessions: $XDG_STATE_HOME/glovebox/history or ~/.local/state/glovebox/history, for
 * its owner only.
 *
 * One line each, with \n for a line end and \\ for a backslash. Several sessions may add to it; each reads it once.
 * When it has become too long, who begins next puts its end in its place.
 */
#pragma once

#include <stddef.h>

enum {
	HISTORY_ENTRIES = 5000,           /* at most, and the newest of them */
	HISTORY_BYTES = 2 * 1024 * 1024,  /* of the file, its end; */
	HISTORY_LONG = 2 * HISTORY_BYTES, /* a longer one is cut to that */
	HISTORY_ENTRY = 64 * 1024,        /* a longer one is not kept in the file */
};

struct history {
	char **v; /* the oldest first */
	size_t n, cap;
	char *path; /* NULL: it is kept nowhere */
};

/* Where it is, and what is in it. A file that cannot be used is none: nobody wants to hear of it before each session. */
void history_load(struct history *h, const char *path);
/* The path by the environment; NULL: nowhere. To be freed. */
char *history_path(void);
void history_done(struct history *h);

/* The newest one now, in the file too, without blanks at its end. One that repeats the last is not added again. */
void history_add(struct history *h, const char *text);
