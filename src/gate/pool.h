/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes made ahead: in each a thawed Python waits, for a program or for cells.
 *
 * A member is handed out when it has said that it is ready, with the limits of whoever takes it, and never again. When none fits, who
 * asks makes its own: an empty pool is slower, not full. A full machine is not the pool's to fill: when there is no room for a
 * box that somebody waits for, the oldest member goes first.
 */
#pragma once

#include "gate/box.h"
#include "gate/warm.h"

/* What a member has that does not change. */
struct pool_want {
	const struct genv *env;
	enum warm_kind kind;
	uint32_t image, flags;
	uint64_t waived;
	struct limits limits; /* until somebody has it, who may want others */
};

struct pool_member {
	struct gate *g;
	struct pool_member *next;
	struct gbox *box;
	struct gjob job;
	struct pool_want is;
	uint64_t born_us;
	struct deferred deferred;
	bool waits; /* ready to be handed out */
};

struct pool {
	struct pool_member *members; /* the youngest first */
	unsigned int n, making;
	uint64_t rests_until_us; /* something was scarce: what is there is for others */
	struct timer later;
	/* for metrics */
	uint64_t hits[WARM_MAX], misses[WARM_MAX], made[WARM_MAX], lost[WARM_MAX];
	uint64_t replaced; /* boxes that could not be made what was wanted */
	uint64_t yielded;  /* members that were ended to make room */
};

/* Make what is missing, end what is old. When a member was taken that is a little later, or when its box has ended: to make a box takes the
 * processor that its program wants. */
void pool_turn(struct gate *g);
/* A box such as q, with a job in it that waits for GO. Both are the caller's, and as after gbox_new() ready() or failed() comes
 * later, once. The job may be lost by then, with the box, for which there is another one then: its box is NULL. NULL: make one. */
struct gbox *pool_take(struct gate *g, enum warm_kind kind, const struct box_request *q,
		       struct gjob *job, const struct gbox_ops *box_ops,
		       const struct gjob_ops *job_ops, void *arg);
/* The keeper has no room for a box: end the oldest member. done is called when nothing of it is left. False: there is none. */
bool pool_yield(struct gate *g, void (*done)(void *arg, const struct box_figures *f), void *arg);
void pool_stop(struct gate *g);
/* How many wait or are being made, and how old the oldest of those that wait is. */
void pool_count(const struct gate *g, enum warm_kind kind, unsigned int *ret_waiting,
		unsigned int *ret_making, uint64_t *ret_oldest_us);
/* Sessions of an environment that can be handed out. */
unsigned int pool_ready(const struct genv *v);

/* How the job of a warm program is started, in a pool or not. */
int warm_job_start(struct gbox *b, struct gjob *j, uint64_t id, const struct gjob_ops *ops,
		   void *arg);
/* The same for a kernel: from the box's image, which must be one of WARM_KERNEL, or cold. It waits for gjob_go(), and then runs until
 * somebody ends it. */
int kernel_job_start(struct gbox *b, struct gjob *j, uint64_t id, bool warm,
		     const struct gjob_ops *ops, void *arg);
/* Let it run. */
struct warm_program {
	const char *const *argv, *const *envp;
	const char *
		input_path; /* a file that is its standard input, and is removed; NULL: what is sent to it */
	const char *source; /* what is in argv[1], to be written there first; NULL: it is there */
	size_t source_len;
	bool handler; /* a call of a handler instead: what is sent to it is its request */
	uint64_t timeout_us, output_max;
};
int warm_job_go(struct gjob *j, const struct warm_program *p);

/* A call of a handler that is not thawed: as warm_job_start(). The box must have BOX_KIT, or an image. */
int handler_job_start(struct gbox *b, struct gjob *j, uint64_t id, const struct gjob_ops *ops,
		      void *arg);

/* Ids of jobs that are no times, as other ids are: a program's, which may be started a second time, cold, and a kernel's that waited
 * in the pool. */
#define PROGRAM_JOB     (UINT64_MAX / 2)
#define POOL_KERNEL_JOB (PROGRAM_JOB + 2)
