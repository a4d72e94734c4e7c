/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box as the gate sees it: a stream to its init, and jobs on that stream.
 *
 * What comes out of a box is hostile. A box that breaks the protocol is ended. Output is bounded by
 * init's ring: a job may have 256 KiB on the way that its owner has not acknowledged, then its
 * program waits; so the gate always reads.
 */
#pragma once

#include "base/loop.h"
#include "gate/buf.h"
#include "wire/frame.h"
#include "wire/job.h"
#include "wire/ops.h"

#include <stdbool.h>

struct gate;
struct gbox;
struct genv;
struct gjob;
struct tenant;

/* Why a box is gone. */
enum box_end {
	BOX_END_ASKED,    /* we asked for it */
	BOX_END_DEADLINE, /* its time was over */
	BOX_END_INIT,     /* its init died: out of memory, or killed */
	BOX_END_BROKEN,   /* it broke the protocol */
};

/* Who has a box. ready() or failed() comes first, once; gone() may come after ready(), once, and then the
 * box must not be used any more. */
struct gbox_ops {
	void (*ready)(void *arg, struct gbox *b);
	void (*failed)(void *arg, const struct err *e);
	void (*gone)(void *arg, enum box_end why, const struct box_figures *f);
	/* A program was refused this system call, for the first time; may come until done() of gbox_end(). May be NULL. */
	void (*refused)(void *arg, const char *call);
};

/* Who has a box with a network, as the audit tells it. */
struct gbox_owner {
	const struct tenant *tenant;
	const char *what; /* "box", "session", "request"; NULL: it has had none */
	char id[64];
	struct net_figures
		counted; /* what /metrics have of it; their box is 0: the gate before this one has had them */
};

struct gbox {
	struct gate *g;
	struct gbox *prev, *next;
	const struct gbox_ops *ops;
	void *arg;
	uint64_t id; /* the keeper's; 0: not yet */
	struct box_info info;
	struct genv *env; /* what it is made of */
	const char *cwd;  /* where its programs begin, and where its files are */
	struct gbox_owner owner;
	int fd;
	struct watch watch;
	struct deferred deferred;
	struct buf out; /* frames to init */
	uint8_t *part;  /* the beginning of a frame */
	size_t part_len;
	uint64_t next_job;
	struct gjob *jobs;
	bool making; /* the keeper has not answered yet */
	bool hello, ended, freed;
	bool made_ahead;   /* it waited in the pool */
	bool handing, bad; /* it is on its way to an owner; and of no use to that one */
	bool retried;
	uint8_t *request; /* what the keeper is asked for, should it be asked again */
	size_t request_len;
	struct timer handed;
	struct timer silent; /* its stream ended: the keeper should say why */
	bool dirty;          /* frames wait for the end of this turn */
	struct gbox *next_dirty;
	void (*on_end)(void *arg, const struct box_figures *f); /* of box_end() */
	void *end_arg;
};

/* A job's owner hears: output (to be acknowledged), room for input, and the end: ended() or failed(), once. */
struct gjob_ops {
	void (*output)(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n);
	/* What a kernel says, see wire/frame.h; may be NULL. */
	void (*message)(void *arg, uint64_t number, unsigned int flags, const uint8_t *p, size_t n);
	void (*want)(void *arg); /* room in the input window; may be NULL */
	void (*ended)(void *arg, const struct job_exit *x, uint64_t number);
	void (*failed)(void *arg, int error, const char *why);
	void (*ready)(void *arg); /* a held job waits for gjob_go(); may be NULL */
	void (*lost)(
		void *arg); /* the box has ended under it, which its owner hears, too; may be NULL */
};

struct gjob {
	struct gbox *box; /* NULL: not running */
	struct gjob *next;
	const struct gjob_ops *ops;
	void *arg;
	uint64_t id;
	uint64_t last; /* highest number that was seen: what init repeats is passed over */
	uint64_t in_sent, in_taken;
	size_t window; /* between them */
	bool in_open, started, told_end;
	bool adopted;   /* another gate has started it, and sent it input */
	bool in_known;  /* of one that was adopted: where its input goes on */
	bool lingers;   /* of a cell: it may say more behind its end, until it is dropped */
	uint64_t told;  /* how many answers to its input() were sent */
	const char *in; /* input that lies in memory */
	size_t in_len;
};

/* Ask the keeper for a box. NULL: no memory or the keeper cannot be asked (e says). */
struct gbox *gbox_new(struct gate *g, const struct box_request *q, const struct gbox_ops *ops,
		      void *arg, struct err *e);
/* Take over a box of another gate. */
struct gbox *gbox_adopt(struct gate *g, const struct box_info *info, const struct gbox_ops *ops,
			void *arg, struct err *e);
/* End it and let go of it: no ops is called any more. Jobs are forgotten without a word. done (may be NULL) is
 * called when nothing of it is left. */
void gbox_end(struct gbox *b, void (*done)(void *arg, const struct box_figures *f), void *arg);
/* A signal for every process of it but init. */
void gbox_signal(struct gbox *b, int sig);
/* In ready(): its stream, on which nothing was said, for somebody else to speak with its init. No jobs here from then on. */
int gbox_give_stream(struct gbox *b);
/* A box of the pool, whose limits are `has`, for somebody who wants q: ready() or failed() comes later, as after gbox_new().
 * When it turns out that it cannot be made what is wanted, another one is made in its place, and its jobs are lost. -errno: it
 * is still the pool's, and no good. */
int gbox_hand_out(struct gbox *b, const struct limits *has, const struct box_request *q,
		  const struct gbox_ops *ops, void *arg);
/* Send what was said in this turn. */
void gboxes_flush(struct gate *g);
/* EVENT_GONE of the keeper. */
void gboxes_gone(struct gate *g, uint64_t id, enum gone_why why, const struct box_figures *f);
/* What the keeper heard of a box. */
void gboxes_refused(struct gate *g, uint64_t id, const char *call);

/* Start a job in a box; j is the caller's and stays until its end was told or gjob_drop(). id 0: the next one.
 * 0, or -errno. */
int gjob_start(struct gbox *b, struct gjob *j, uint64_t id, const struct job_spec *spec,
	       const struct gjob_ops *ops, void *arg);
/* A held job may go: its time counts from here. 0 or -errno. */
int gjob_go(struct gjob *j, uint64_t timeout_us, uint64_t output_max, const void *p, size_t n);
/* From here on it is somebody else's. */
void gjob_give(struct gjob *from, struct gjob *to, const struct gjob_ops *ops, void *arg);
/* Input that lies in memory until the job ends. */
void gjob_input_all(struct gjob *j, const void *p, size_t n);
/* Whether input can be sent: not before init has said how much of it another gate had sent. */
bool gjob_listens(const struct gjob *j);
/* Input piece by piece: how many bytes were taken. */
size_t gjob_input(struct gjob *j, const void *p, size_t n);
void gjob_input_end(struct gjob *j);
/* Nothing of it is to be sent for now, or again. It goes on until its ring is full. */
void gjob_pause(struct gjob *j, bool on);
/* Whether its time runs. */
void gjob_clock(struct gjob *j, bool on);
void gjob_signal(struct gjob *j, int sig, unsigned int scope);
/* What input() of a cell returns; end: there is nothing. 0 or -errno. */
int gjob_tell(struct gjob *j, const void *p, size_t n, bool end);
/* The size of its terminal. */
void gjob_resize(struct gjob *j, uint16_t rows, uint16_t cols);
/* Everything up to this number is delivered or stored. */
void gjob_ack(struct gjob *j, uint64_t number);
/* Not interested any more: what it still says is dropped. It goes on running. */
void gjob_drop(struct gjob *j);
