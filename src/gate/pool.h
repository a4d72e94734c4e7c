/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes made ahead: a thawed Python waits in each, for a program.
 *
 * A member is handed out when it has said that it is ready, to a one-shot that wants exactly such a box. It is never given to a second one. When none
 * fits, the one-shot makes its own: an empty pool is slower, not full.
 */
#pragma once

#include "gate/box.h"

struct pool_member {
	struct gate *g;
	struct pool_member *next;
	struct gbox *box;
	struct gjob job;
	struct box_request q;
	uint64_t born_us;
	struct deferred deferred;
	bool waits; /* ready to be handed out */
};

struct pool {
	struct pool_member *members;
	unsigned int n, making;
	unsigned int failures;
	struct timer later;
	uint64_t hits, misses, made, lost; /* for metrics */
};

/* Make what is missing, end what is old. */
void pool_turn(struct gate *g);
/* A box such as this one, with a program's job in it that waits for GO: box and job now are the caller's. NULL: make one. */
struct gbox *pool_take(struct gate *g, const struct box_request *q, struct gjob *job,
		       const struct gbox_ops *box_ops, const struct gjob_ops *job_ops, void *arg);
void pool_stop(struct gate *g);

/* How the job of a warm program is started, in a pool or not. */
int warm_job_start(struct gbox *b, struct gjob *j, uint64_t id, const struct gjob_ops *ops,
		   void *arg);
/* Let it run. */
struct warm_program {
	const char *const *argv, *const *envp;
	const char *
		input_path; /* a file that is its standard input, and is removed; NULL: what is sent to it */
	const char *source; /* what is in argv[1], to be written there first; NULL: it is there */
	size_t source_len;
	uint64_t timeout_us, output_max;
};
int warm_job_go(struct gjob *j, const struct warm_program *p);

#define PROGRAM_JOB (UINT64_MAX / 2) /* id of a program's job; other ids are times */
