/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command of a box: a job of its init, and the log of what it says.
 *
 * Numbers of events are those of init's frames, so that the next gate goes on with the same ones. The rule for
 * acknowledging frames: while a command runs, init is left with what it printed last (as much as its ring can hold
 * without making the program wait), and when it has ended, with all of that and its EXIT until a client has had the
 * answer, or BOX_UNHEARD_MAX others wait behind it. So whatever a client has not had survives a gate, up to that much;
 * what is older is a gap, and marked as truncated in the answer.
 */
#pragma once

#include "gate/boxes.h"

enum command_status {
	COMMAND_RUNNING,
	COMMAND_OK,
	COMMAND_ERROR,
	COMMAND_TIMEOUT,
	COMMAND_INTERRUPTED,
	COMMAND_OOM,
	COMMAND_CRASHED,
	COMMAND_CANCELLED,
	COMMAND_STATUS_MAX
};

enum command_flags {
	COMMAND_BASE64 = 1u << 0,
	COMMAND_STDIN = 1u << 1,   /* takes input */
	COMMAND_FEEDING = 1u << 2, /* not all that was given at its start was sent */
	COMMAND_CANCEL = 1u << 3,  /* we ended it */
	COMMAND_SIGINT = 1u << 4,  /* its client left */
	COMMAND_STREAM = 1u << 5,  /* how it was asked for */
	COMMAND_DETACH = 1u << 6,
	COMMAND_ON_LEAVE = 1u << 7, /* a client that leaves interrupts it */
};

enum { COMMAND_ERROR_TEXT = 160, COMMAND_SUMMARY = 160 };

struct command {
	struct run run;
	struct gate *g;
	struct abox *a; /* NULL: its box has ended; it stays for its readers */
	struct command *prev, *next;
	struct gjob job;
	uint64_t job_id;
	enum command_status status;
	unsigned int flags;
	struct job_exit exit;
	bool has_exit;
	bool told;       /* a client had the answer */
	bool held;       /* init has its end, and was not told to let go */
	bool adopted;    /* the gate before this one started it */
	bool released;   /* it stays for its readers only */
	uint64_t number; /* of its EXIT */
	size_t unacked;  /* bytes of frames, about */
	struct buf input;
	bool input_end;
	uint64_t started_ms, ended_ms;
	struct idem_key idem; /* cut short, see command_key() */
	char error[COMMAND_ERROR_TEXT];
	char summary[COMMAND_SUMMARY]; /* what it is, for lists */
	struct timer grace, late;
};

/* What is to be run. */
struct command_spec {
	const char *const *argv;
	const char *const *envp;
	const char *cwd;
	uint64_t timeout_us; /* 0: until the box ends */
	const char *input;
	size_t input_len;
	bool input_open;
	unsigned int flags;
	const char *summary;
};

/* A key as a record has room for: the beginnings of its hashes. */
void command_key(struct idem_key *k);
/* Start it. NULL: *ret_error is -errno. */
struct command *command_start(struct abox *a, const struct command_spec *spec,
			      const struct idem_key *key, int *ret_error);
/* Input: 0, -ENOBUFS: the program does not read. */
int command_feed(struct command *c, const void *p, size_t n, bool end);
void command_kill(struct command *c, uint64_t grace_us);
/* A client of it has left before its end. */
void command_left(void *arg);
const char *command_status_str(enum command_status s);
/* Its log as it is told, without its output. */
void command_put(void *arg, struct json *j);
/* A client had its answer. */
void command_told(void *arg);
/* The command of the path; NULL: answered. */
struct command *command_find(struct req *r);
