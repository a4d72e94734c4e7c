/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of one box, put into another: packed there, unpacked here, and nothing of it is kept on the way. The bytes are those of a box, and hostile; the
 * box that unpacks them refuses what an upload would be refused for.
 */
#pragma once

#include "gate/box.h"
#include "gate/buf.h"

struct carry {
	struct gbox *from, *to;
	const char *const *dirs; /* absolute; up to NULL */
	struct gjob out, in;
	struct buf held; /* what the other box has not taken */
	uint64_t number; /* of the last frame in it */
	bool packed;     /* all of this directory is here */
	bool told;       /* that there is no more of it */
	bool runs;
	char why[160]; /* what one of both said last */
	/* why: NULL: everything is there. Called once, unless carry_end() comes first. */
	void (*done)(void *arg, const char *why);
	void *arg;
};

/* dirs stays until the end. */
void carry_begin(struct carry *c, struct gbox *from, struct gbox *to, const char *const *dirs,
		 void (*done)(void *arg, const char *why), void *arg);
/* Let go of it, at any time. */
void carry_end(struct carry *c);
