/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of a box, and their cells.
 *
 * A kernel is a Python that keeps its state from cell to cell: a held job of the box's init. It has a name, runs one cell
 * at a time and lets others wait. Cells are sent to it only after it has said what it is: a kernel that died before
 * that has run nothing of anybody's, and is started again, cold. One that dies later takes the state of its session
 * with it; the cell that ran then says so (state_lost), and the next one starts another kernel and says that
 * (kernel_restarted).
 */
#pragma once

#include "gate/tasks.h"

enum {
	BOX_KERNELS_MAX = 8,
	KERNEL_QUEUE_MAX = 64,                       /* cells that wait */
	CELL_MESSAGE_MAX = 16 * 1024 * 1024 + 65536, /* of one message of a kernel */
	KERNEL_SAID = 160,
	KERNEL_UUID = 37, /* with its NUL */
	KERNEL_INFO_MAX = 16 * 1024,
	KERNEL_THAW_TRIES =
		4, /* the stack comes anywhere, one time of a thousand to where an image has memory */
};

/* KERNEL_DYING: its process is about to be gone. */
enum kernel_state { KERNEL_NONE, KERNEL_STARTING, KERNEL_IDLE, KERNEL_BUSY, KERNEL_DYING };

/* Why the last process of a kernel is not there any more. */
enum kernel_death {
	DEATH_NONE,
	DEATH_CRASHED,
	DEATH_OOM,
	DEATH_TIMEOUT,
	DEATH_EXITED,
	DEATH_CANCELLED, /* a cell that had to go did not go otherwise */
	DEATH_MAX
};

struct cell;
struct jup;

/* Somebody waits until its process is gone. */
struct kernel_waiter {
	struct kernel_waiter *next;
	struct gate *g;
	struct req *r;
	struct deferred deferred;
};

struct kernel {
	struct abox *a;
	struct kernel *next;
	char name[KERNEL_NAME];
	char uuid[KERNEL_UUID]; /* the same for the same box and name */
	struct table_item by_uuid;
	uint8_t number; /* in records: 1 and up */
	enum kernel_state state;
	enum kernel_death death;
	struct gjob job;
	uint64_t job_id;
	bool warm, adopted;
	bool chilled; /* a thawed one failed: start cold from now on */
	bool copy;    /* what is to be thawed is a copy of another box's: nothing else will do */
	unsigned int tries; /* in vain, to thaw one */
	bool again;         /* start another one when this is gone */
	bool unwanted;      /* drop it when its process is gone */
	bool shunned;       /* the end that is under way is no accident */
	struct cell *running;
	struct cell *queue, *last; /* the next one first */
	unsigned int nqueued;
	uint64_t started_ms;
	int64_t count; /* execution_count of the last cell; 0: none */
	char said[KERNEL_SAID];
	size_t nsaid;
	bool gone;       /* its process; its cell waits to be told why */
	bool failed;     /* it could not be started */
	char *info;      /* what it said that it is: JSON, or NULL */
	struct jup *jup; /* NULL: nobody of Jupyter's dialect knows it */
	struct kernel_waiter *waiters;
	struct timer late;
	struct deferred deferred;
};

struct cell {
	struct task t;
	struct kernel *k; /* NULL: it has ended */
	char kernel[KERNEL_NAME];
	struct cell *next; /* in the queue */
	uint64_t timeout_us;
	bool allow_stdin;
	char *request; /* for the kernel; NULL: it has it */
	size_t request_len, request_cap, parts_counted;
	struct buf message; /* parts of one that is not whole */
	bool too_large;     /* that one is */
	unsigned int asked; /* how many input() wait */
	bool reply_ok, reply_interrupted, reply_aborted;
	bool replied;  /* its log has the reply */
	bool stops;    /* its failure ends what waits behind it */
	int64_t count; /* 0: none */
	char *failure; /* members name, value, traceback; NULL: none */
	size_t nfailure;
	enum kernel_death restarted;
	struct spill *spill; /* NULL: it does not */
};

/* What is to be run. */
struct cell_spec {
	const char *code;
	size_t code_len;
	const struct json
		*request;    /* for the kernel, instead of code; as kernel/README.md has it */
	const char *label;   /* of at most TASK_LABEL - 1 bytes; NULL: none */
	uint64_t timeout_us; /* 0: until the box ends */
	bool allow_stdin, spill;
	unsigned int flags;
};

extern const struct task_kind cell_kind;

/* --- kernels.c --- */

/* The one of this name; NULL: there is none. */
struct kernel *kernel_named(const struct abox *a, const char *name, size_t n);
/* Make the record of one; its process comes with its first cell. NULL: no memory, or too many. */
struct kernel *kernel_new(struct abox *a, const char *name);
/* One of a tenant's that has this UUID; NULL: there is none. */
struct kernel *kernel_with_uuid(const struct gate *g, const struct tenant *t, const char *uuid,
				size_t n);
/* Whether a text may be the name of one. */
bool kernel_name_ok(const char *name, size_t n);
/* Let it do what there is to do: start, or run the next cell. */
void kernel_turn(struct kernel *k);
/* End its process, and then start another one, or let go of the kernel. */
void kernel_end(struct kernel *k, bool again);
/* Its cell could not be made to go otherwise. */
void kernel_kill(struct kernel *k, enum kernel_death why);
/* Answer r with 204 when its process is gone. */
void kernel_await(struct kernel *k, struct req *r);
const char *kernel_death_str(enum kernel_death d);
const char *kernel_state_str(const struct kernel *k);

/* --- cells.c --- */

/* Put it behind the others of its kernel. NULL: *ret_error is -errno. */
struct cell *cell_new(struct kernel *k, const struct cell_spec *spec, const struct idem_key *key,
		      int *ret_error);
/* To its kernel. 0 or -errno. */
int cell_send(struct cell *c);
/* It waits, and is not going to run. */
void cell_cancel(struct cell *c, const char *why);
/* SIGINT; and after grace_us, unless that is 0, the end of its kernel. */
void cell_interrupt(struct cell *c, uint64_t grace_us);
/* What input() returns; end: there is nothing. 0 or -errno. */
int cell_answer(struct cell *c, const char *p, size_t n, bool end);

/* --- cells_calls.c --- */

/* The kernel of this name, made where there is none, if it takes one more cell. NULL: answered. */
struct kernel *cell_kernel(struct req *r, struct abox *a, const struct field_str *name);

/* --- cell_flow.c --- */

void cell_flow_init(struct cell *c);
/* How many bytes init may keep of it. */
uint64_t cell_flow_ring(const struct cell *c);
/* Something was said, read, or somebody has left: let go, pause, go on. */
void cell_flow(struct cell *c);
/* It was paused, and goes on. */
void cell_resume(struct cell *c);

/* --- cell_spill.c --- */

struct spill;

struct spill *spill_new(struct cell *c);
void spill_free(struct spill *s);
/* The cell printed n bytes, of which its log kept so many. */
void spill_output(struct spill *s, const uint8_t *p, size_t n, size_t kept);
/* It has ended like this. Whether that is told later, when its file is complete. */
bool spill_end(struct spill *s, const struct job_exit *x, uint64_t number);
/* Where all that it printed is; NULL: nowhere. */
const char *spill_path(const struct spill *s);
