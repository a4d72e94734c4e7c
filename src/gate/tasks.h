/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task of a box: something that runs as a job of its init, and the log of what it says. Commands and cells are tasks.
 *
 * Events are numbered as init's frames come, so that the next gate goes on with the same numbers. The rule for
 * acknowledging frames: while a task runs, init is left with all that it said, up to a part of the box's memory, and
 * when it has ended, with all of that and its EXIT until a client has had the answer, or BOX_UNHEARD_MAX others wait
 * behind it. So whatever a client has not had survives a gate, up to that much; what is older is a gap, and marked as
 * truncated in the answer.
 */
#pragma once

#include "gate/boxes.h"
#include "wire/msg.h"

enum task_status {
	TASK_RUNNING,
	TASK_OK,
	TASK_ERROR,
	TASK_TIMEOUT,
	TASK_INTERRUPTED,
	TASK_OOM,
	TASK_CRASHED,
	TASK_CANCELLED,
	TASK_QUEUED, /* a cell that waits for its kernel */
	TASK_STATUS_MAX
};

enum task_flags {
	TASK_BASE64 = 1u << 0,
	TASK_STDIN = 1u << 1,   /* takes input */
	TASK_FEEDING = 1u << 2, /* not all that was given at its start was sent */
	TASK_CANCEL = 1u << 3,  /* we ended it */
	TASK_SIGINT = 1u << 4,  /* we interrupted it: its client left, or asked for it */
	TASK_STREAM = 1u << 5,  /* how it was asked for */
	TASK_DETACH = 1u << 6,
	TASK_ON_LEAVE = 1u << 7, /* a client that leaves interrupts it */
	TASK_OUTPUTS = 1u << 8,  /* of a cell: its answer has nbformat's outputs, too */
	TASK_WAITS = 1u << 9,    /* of a cell: it has not begun */
	TASK_OVER = 1u << 10,    /* in records: it has ended */
	TASK_ACKED = 1u << 11,   /* in records: something of it was acknowledged */
	TASK_SPILL = 1u << 12,   /* of a cell: its ring is small, see cell_spill.c */
	TASK_WHOLE = 1u << 13,   /* of a cell: its reply is an event, as it came */
	TASK_ASIDE = 1u << 14,   /* of a cell: no code, but a question; no list has it */
	TASK_TALKS = 1u << 15,   /* of such a one: more may be said for it behind its end */
	TASK_COPIES =
		1u << 16, /* of such a one: its kernel gets the image that its box was sent last */
};

enum { TASK_ERROR_TEXT = 160, TASK_SUMMARY = 160, TASK_POINTS = 16, TASK_LABEL = 1024 };

struct task;

/* How commands and cells differ. */
struct task_kind {
	const char *name; /* under which events have the id */
	enum operation operation;
	/* Members of the answer but id, status, figures and times. */
	void (*put)(const struct task *t, struct json *j);
	/* Output besides stdout and stderr; may be NULL. */
	void (*put_output)(const struct task *t, struct json *j, unsigned int parts);
	/* How much of what it printed is not part of the answer any more; may be NULL. */
	size_t (*text_from)(const struct task *t, unsigned int stream);
	/* How it ended, by its exit. */
	enum task_status (*status)(const struct task *t, bool oom);
	/* What its job tells; task_on_…() or around them. */
	const struct gjob_ops *job;
	/* What a record calls it: 0 a command, 1 and more a cell of that kernel; KERNEL_GONE, and then its name. */
	void (*save)(const struct task *t, struct msg_out *m);
	/* SIGINT, because its client left. */
	void (*interrupt)(struct task *t);
	/* The gate that sent its input died over it. */
	void (*cut)(struct task *t);
	/* Its end was told to the log; may be NULL. */
	void (*finished)(struct task *t);
	/* Nobody can ask for it any more: its box does not know it; may be NULL. */
	void (*release)(struct task *t);
	void (*free)(struct task *t);
};

struct task {
	struct run run;
	const struct task_kind *kind;
	struct gate *g;
	struct abox *a; /* NULL: its box has ended; it stays for its readers */
	struct task *prev, *next;
	struct gjob job;
	uint64_t job_id;
	enum task_status status;
	unsigned int flags;
	struct job_exit exit;
	bool has_exit;
	bool told;    /* a client had the answer */
	bool held;    /* init has its end, and was not told to let go */
	bool adopted; /* the gate before this one started it */
	uint64_t adopted_us;
	bool released;   /* it stays for its readers only */
	uint64_t number; /* of its EXIT */
	/* Bytes of frames so far, and places between them up to which they could be acknowledged, the oldest first. */
	uint64_t total, acked_total;
	struct task_point {
		uint64_t frame, seq, total;
	} points[TASK_POINTS];
	unsigned int npoints;
	bool held_back; /* it spills faster than its file is written */
	bool paused;    /* it flows faster than its readers read */
	bool partly;    /* a message has begun and is not whole: no time to acknowledge anything */
	uint64_t acked_frame, acked_seq; /* what was acknowledged while it ran */
	struct buf input;
	bool input_end;
	uint64_t started_ms, ended_ms;
	struct idem_key idem;        /* cut short, see task_key() */
	char error[TASK_ERROR_TEXT]; /* ours */
	char summary[TASK_SUMMARY];  /* what it is, for lists */
	char *label;    /* what a dialect has to know of it; the next gate is told. NULL: nothing */
	uint64_t heard; /* of a dialect's: the last event that any of its clients was sent */
	bool answered;  /* and who asked has its end */
	bool awaited;   /* of one that was taken over: its clients had time to come back */
	struct timer grace, late;
	uint64_t late_left_us; /* while its time stands still; 0: it does not */
};

/* Whether its output is told as it comes, however much it is: see cell_flow.c. */
static inline bool task_flows(const struct task *t)
{
	return (t->flags & (TASK_WHOLE | TASK_ASIDE)) == TASK_WHOLE;
}

/* Into the list of its box; t is zeroed memory of the caller's, and freed by its kind. */
void task_init(struct task *t, const struct task_kind *kind, struct abox *a, unsigned int flags);
/* Its id, and the first event. */
void task_begin(struct task *t);
/* It is late when init does not keep to this time. */
void task_expect(struct task *t, uint64_t timeout_us);
/* Whether the time of what runs in a box runs, too: it does not while somebody is asked. */
void tasks_clock(struct abox *a, bool on);
/* It has ended like this. */
void task_finish(struct task *t, enum task_status status);
/* Nobody can ask for it any more; who follows it may read to the end. */
void task_release(struct task *t);
/* Input: 0, -ENOBUFS: the program does not read. */
int task_feed(struct task *t, const void *p, size_t n, bool end);
/* Frames of its job. Owners with more to hear call these from their own ops. */
void task_on_output(void *arg, uint64_t number, unsigned int stream, const uint8_t *p, size_t n);
void task_on_want(void *arg);
void task_on_ended(void *arg, const struct job_exit *x, uint64_t number);
void task_on_failed(void *arg, int error, const char *why);
/* A frame of n bytes was taken in: acknowledge what is enough. */
void task_took(struct task *t, uint64_t number, size_t n);
/* How many bytes init may be left with. */
size_t task_window(const struct task *t);
/* Frames that the last gate acknowledged were in its memory. */
void task_note_missing(struct task *t, uint64_t number);
/* A client of it has left before its end. */
void task_left(void *arg);
const char *task_status_str(enum task_status s);
/* Its log as it is told, without its output. */
void task_put(void *arg, struct json *j);
/* A client had its answer. */
void task_told(void *arg);
/* Whether the record of its box has its key beside it. */
bool task_saves_key(const struct task *t, enum record_room room);
/* How many of a kind have not ended. */
unsigned int tasks_running(const struct abox *a, const struct task_kind *kind);
/* The task of this kind that the path names; NULL: answered. */
struct task *task_find(struct req *r, const struct task_kind *kind);

/* --- keys (task_keys.c) --- */

/* What is known of one that is not held any more. TASK_RUNNING: that it has run, and not how it ended. */
struct task_ran {
	uint64_t job;
	enum task_status status;
};

/* A key as a record has room for: the beginnings of its hashes. */
void task_key(struct idem_key *k);
void task_key_put(struct msg_out *m, const struct idem_key *k);
void task_key_get(struct msg_in *in, struct idem_key *k);
/* It is about to go; its key stays. */
void task_remember(const struct task *t);
/* What had this key, and whether with this body; NULL: nothing that is known. */
const struct task_ran *task_ran(const struct abox *a, const struct idem_key *k, bool *ret_same);

/* --- calls that are the same for all kinds (tasks_calls.c) --- */

/* Whether its time may be that long: 0, or -1: answered. ms < 0: not said, 0: null. */
int task_take_timeout(struct req *r, bool set, int64_t ms, uint64_t *ret_us);
/* stream, detach, output_encoding, on_disconnect. 0, or -1: answered. */
int task_take_flags(struct req *r, bool stream, bool detach, const char *encoding,
		    const char *on_disconnect, unsigned int *flags);
/* It is not held any more: for who repeats a request, and for who looks at it. */
void task_refuse(void *arg, struct req *r);
/* How the one who starts it wants to hear of it. */
void task_follow(struct task *t, struct req *r);
/* The same request again: 0, or -1: answered, or follows. */
int task_repeat(struct req *r, struct abox *a, const struct task_kind *kind,
		const struct idem_key *k);
void task_list(struct req *r, const struct task_kind *kind, const char *key);
void task_get(struct req *r, const struct task_kind *kind);
void task_events(struct req *r, const struct task_kind *kind);
