/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a box's init: one struct, passed down. See README.md for who does what.
 */
#pragma once

#include "box/ring.h"
#include "wire/control.h"
#include "wire/frame.h"
#include "wire/job.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

enum {
	INIT_CONTROL_FD = 3, /* SEQPACKET socket to the keeper, open at exec */
	JOBS_MAX = 64,
	DONE_MAX = 256, /* ids of finished jobs that are still refused */
	INPUT_BYTES = 65536,
	REPLY_BYTES = 65536,
};

enum watch { /* what an epoll event speaks of; upper half of its data */
	     WATCH_CONTROL,
	     WATCH_CHILDREN,
	     WATCH_GATE,
	     WATCH_IN,
	     WATCH_OUT,
	     WATCH_ERR,
	     WATCH_CHANNEL,
};

enum job_state {
	JOB_FREE,    /* the slot is empty */
	JOB_RUNNING, /* the leader has not been reaped */
	JOB_ENDED,   /* reaped; its pipes may hold output that was printed before */
	JOB_TOLD,    /* EXIT is in the ring; what still arrives in the pipes is dropped */
};

struct out_stream {
	int fd;         /* -1 after end of file */
	bool watched;   /* is in the epoll set */
	uint64_t total; /* bytes read, dropped ones included */
	uint64_t kept;  /* bytes put into the ring */
	uint64_t left;  /* JOB_ENDED without sweep: how many more belong to the job */
	bool cut;
};

struct job {
	enum job_state state;
	uint64_t id;
	pid_t pid;
	uint32_t flags;
	int channel_fd; /* of a held job; -1: none */
	bool went;      /* GO came */
	bool ready;     /* it said that it waits for that */
	bool begun;     /* and that it has begun */
	uint64_t output_max;
	uint64_t started_us, deadline_us; /* deadline UINT64_MAX: none */
	bool timed_out;
	int status; /* of wait4 */
	uint64_t ended_us;
	struct rusage usage;
	int exec_errno; /* the child failed before exec */
	char exec_stage[JOB_STAGE_MAX];
	int exec_fd; /* the child reports such a failure here */

	struct out_stream out[2]; /* stdout or terminal, stderr */
	struct ring ring;

	int in_fd; /* -1: closed or none */
	bool in_watched;
	uint8_t *in_buf; /* INPUT_BYTES, linear, in_len bytes from in_at */
	size_t in_at, in_len;
	uint64_t in_received, in_taken;
	bool in_end;
};

struct init {
	int epoll_fd, control_fd, children_fd, gate_fd;
	int kit_fd[KIT_MAX]; /* -1: this box has none */
	unsigned int user;   /* uid and gid of user code */
	bool mutant_privs;   /* only in a build with mutants: leave no_new_privs out */
	bool shielded;       /* children must take init's shield off themselves */
	bool gate_hello;     /* the gate's HELLO was good */
	bool gate_watches_write;

	uint8_t in[FRAME_HEADER + FRAME_PAYLOAD_MAX]; /* bytes from the gate */
	size_t in_len;
	uint8_t reply[REPLY_BYTES]; /* unnumbered frames to the gate */
	size_t reply_len, reply_at;
	int sending;       /* job whose bytes are on the way, -1: none */
	int last_sender;   /* job whose turn was last */
	uint64_t send_end; /* up to here of its ring */

	struct job jobs[JOBS_MAX];
	uint64_t done[DONE_MAX];
	unsigned int ndone;
};

/* --- conn.c: the stream to the gate --- */

/* A new gate: drop the old one, say hello, send again what was not acknowledged. Takes fd. */
void conn_open(struct init *in, int fd);
void conn_close(struct init *in);
/* The gate's socket is readable or writable. */
void conn_event(struct init *in, uint32_t events);
/* Send what there is, as far as the socket takes it. */
void conn_flush(struct init *in);
void conn_refuse(struct init *in, uint64_t id, int error, const char *why);
void conn_input_ack(struct init *in, const struct job *j);
void conn_ready(struct init *in, const struct job *j);

/* --- job.c: jobs --- */

struct job *job_find(struct init *in, uint64_t id);
void job_run(struct init *in, const struct frame *f);
void job_go(struct init *in, const struct frame *f);
void job_input(struct init *in, const struct frame *f);
void job_input_end(struct init *in, const struct frame *f);
void job_signal(struct init *in, const struct frame *f);
void job_resize(struct init *in, const struct frame *f);
void job_ack(struct init *in, const struct frame *f);
/* A descriptor of the job in that slot is ready. */
void job_event(struct init *in, unsigned int slot, enum watch what);
/* Collect every process that has ended. */
void jobs_reap(struct init *in);
/* End the jobs whose time is over; the next deadline. */
uint64_t jobs_expire(struct init *in);

/* --- channel.c: packets to and from a held job --- */

/* One message, as whole packets. 0 or -errno: it does not read, or is gone. */
int channel_tell(const struct job *j, uint8_t type, const uint8_t *p, size_t n);
void channel_event(struct init *in, struct job *j);

/* --- spawn.c: from fork to exec --- */

struct exec_report { /* from a child that failed before exec, on its job's exec_fd */
	int error;
	char stage[JOB_STAGE_MAX];
};

/* Start the job's process. Fills pid and the descriptors of j. 0 or -errno. */
int spawn(struct init *in, struct job *j, const struct job_spec *spec);

/* --- files.c --- */

/* Run a file operation in the calling child; the exit status is 0 or an errno. */
int files_run(const struct job_spec *spec);

/* --- init.c --- */

void watch_add(struct init *in, int fd, enum watch what, unsigned int slot, uint32_t events);
void watch_del(struct init *in, int fd);
