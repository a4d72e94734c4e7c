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
	JOBS_MAX = 128,
	CELLS_LINGER_MAX = 32, /* cells of one kernel that have ended and still have their pipes */
	DONE_MAX = 256,        /* ids of finished jobs that are still refused */
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
	JOB_RUNNING, /* the leader has not been reaped, nor said that it is over */
	JOB_ENDED,   /* it has; its pipes may hold output that was printed before */
	JOB_TOLD,    /* EXIT is in the ring; what still arrives is late (a cell's), or dropped */
};

enum link_state {
	LINK_NONE, /* the job is none */
	LINK_V4,   /* 127.0.0.1 is tried, or has answered */
	LINK_V6,   /* ::1, where nobody listens on the other */
};

struct out_stream {
	int fd;            /* -1 after end of file */
	bool watched;      /* is in the epoll set */
	uint64_t total;    /* bytes read, dropped ones included */
	uint64_t kept;     /* bytes put into the ring */
	uint64_t left;     /* how many more come before something that waits: EXIT, a message */
	uint64_t later_us; /* it is not watched, and read then; 0: as soon as there is something */
	bool cut;
};

/* What a job with JOB_KERNEL has beside; see cell.c. */
struct kernel {
	struct job *cell;  /* that runs; NULL: none */
	bool blocked;      /* its channel takes no more for the moment */
	bool over;         /* has ended, and so have its cells */
	uint64_t again_us; /* then a packet is tried again for which there was no memory */
	uint64_t left;     /* JOB_ENDED: bytes in the channel that are still to be read */
	struct job *to;    /* whose ring the packet waits for; NULL: there is none */
	size_t len;
	uint8_t packet[CHANNEL_HEADER + CHANNEL_PAYLOAD_MAX];
};

/* What a JOB_CELL has beside. */
struct cell {
	struct job *kernel; /* NULL: it has ended, or the cell was given up */
	bool copies;        /* the third of these is to come with the keeper's next one */
	int lent_fd[3]; /* stdout, stderr, an image: until the first packet has taken them along */
	uint64_t timeout_us;
	bool asked;          /* the whole request is in the channel */
	bool died;           /* its kernel ended before it */
	uint64_t told;       /* number of the last TELL */
	uint64_t cpu_us;     /* of its kernel, when it was asked */
	uint64_t nudge_us;   /* then its kernel is nudged, see cell_nudge(); 0: it is not */
	unsigned int nudges; /* since it was interrupted */
};

struct job {
	enum job_state state;
	uint64_t id;
	pid_t pid;
	uint32_t flags;
	int channel_fd;          /* of a held job; -1: none */
	uint32_t channel_events; /* what it is watched for */
	bool went;               /* GO came */
	bool ready;              /* it said that it waits for that */
	bool begun;              /* and that it has begun */
	bool tells;              /* and that there will be messages */
	bool said;               /* and how it ended, before it was reaped */
	bool forsaken;           /* its gate is gone, and it is to go, too */
	bool is_file;            /* a JOB_FILE */
	enum link_state link;
	uint16_t link_port;
	struct kernel *kernel; /* NULL: it is none */
	struct cell *cell;     /* NULL: it is none */
	uint64_t order;        /* JOB_TOLD: the lower, the earlier */
	uint64_t exit_number;  /* of its EXIT */
	bool heard;            /* that was acknowledged */
	bool paused;           /* the gate wants nothing of it for now */
	uint64_t output_max;
	uint64_t started_us, deadline_us; /* deadline UINT64_MAX: none */
	uint64_t left_us;                 /* of a job whose time stands still; 0: it does not */
	bool timed_out;
	int status; /* of wait4 */
	uint64_t ended_us;
	struct rusage usage;
	int exec_errno; /* the child failed before exec */
	char exec_stage[JOB_STAGE_MAX];
	int exec_fd; /* the child reports such a failure here */

	struct out_stream out[2]; /* stdout or terminal, stderr */
	uint64_t drop_us;         /* when a few bytes were read last */
	unsigned int drop_from;   /* of which stream, from 1; 0: there was much, or nothing */
	struct ring ring;

	int in_fd; /* -1: closed or none */
	bool in_watched;
	uint8_t *in_buf; /* in_cap, linear, in_len bytes from in_at */
	size_t in_cap;
	size_t in_at, in_len;
	uint64_t in_received, in_taken;
	bool in_end;
};

struct init {
	int epoll_fd, control_fd, children_fd, gate_fd;
	int kit_fd[KIT_MAX];   /* -1: this box has none */
	int kit_copy[KIT_MAX]; /* -1: not made yet */
	int copy_fd;           /* an image for the next cell with JOB_COPIES; -1: none */
	unsigned int user;     /* uid and gid of user code */
	uint64_t file_bytes;   /* RLIMIT_FSIZE of programs */
	const char *mutant;    /* only in a build with mutants: what is left out */
	bool shielded;         /* children must take init's shield off themselves */
	bool used;             /* something has run that did not wait for GO, or went */
	bool gate_hello;       /* the gate's HELLO was good */
	bool gate_watches_write;
	bool gate_deaf;          /* it takes nothing any more; what it had sent is still heard */
	uint64_t flush_again_us; /* then it is tried again to send; 0: as soon as there is room */

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
	uint64_t ntold;
};

#ifdef GLOVEBOX_MUTANTS
#define init_lacks(in, name) (strcmp((in)->mutant, (name)) == 0)
#else
#define init_lacks(in, name) false
#endif

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

/* --- job.c: life and death of a job --- */

struct job *job_find(struct init *in, uint64_t id);
unsigned int job_slot(const struct init *in, const struct job *j);
/* Move a job on as far as it can go now; it may be free then. */
void job_settle(struct init *in, struct job *j);
/* Whether its end is that of its pipes, rather than what was in them when its leader ended. */
bool job_reads_to_end(const struct job *j);
/* Its EXIT into the ring: it is JOB_TOLD. */
void job_tell_exit(struct init *in, struct job *j);
/* It is over and everything of it was acknowledged: free, and its id remembered. */
void job_done(struct init *in, struct job *j);
/* To the job's process group. */
void job_kill(const struct job *j, int sig);
uint64_t job_deadline(uint64_t from, uint64_t timeout_us);

/* Limits for us and all that comes after. -EPROTO: too late, or malformed. */
int jobs_limit(struct init *in, const struct frame *f);
void job_run(struct init *in, const struct frame *f);
void job_go(struct init *in, const struct frame *f);
void job_signal(struct init *in, const struct frame *f);
void job_resize(struct init *in, const struct frame *f);
void job_ack(struct init *in, const struct frame *f);
void job_pause(struct init *in, const struct frame *f);
void job_clock(struct init *in, const struct frame *f);
/* A descriptor of the job in that slot is ready. */
void job_event(struct init *in, unsigned int slot, enum watch what);
/* Collect every process that has ended. */
void jobs_reap(struct init *in);
/* The gate is gone: so are the jobs that have nobody else. */
void jobs_forsake(struct init *in);
/* End the jobs whose time is over; the next deadline. */
uint64_t jobs_expire(struct init *in);

/* --- stream.c: what goes in and what comes out --- */

/* Watch what can make progress now, and nothing else. */
void streams_watch(struct init *in, struct job *j);
void streams_close(struct init *in, struct job *j);
/* What is in the pipes at this moment comes before what happens next. */
void streams_mark(struct job *j);
/* Read what was marked, as far as the ring has room. */
void streams_pump(struct init *in, struct job *j);
/* Whether some of it is still to be read. */
bool streams_behind(const struct job *j);
void out_event(struct init *in, struct job *j, unsigned int i);
/* Read what was left to be collected, if it is time. When to be called again; UINT64_MAX: not. The job may be free then. */
uint64_t streams_due(struct init *in, struct job *j, uint64_t now);
void input_close(struct init *in, struct job *j);
void input_feed(struct init *in, struct job *j);
void job_input(struct init *in, const struct frame *f);
void job_input_end(struct init *in, const struct frame *f);

/* --- channel.c: packets to and from a held job --- */

/* One packet, with two descriptors unless fds is NULL. 0 or -errno. */
int channel_send(const struct job *j, uint8_t type, uint8_t flags, uint64_t cell, const void *p,
		 size_t n, const int *fds, size_t nfds);
/* One message, as whole packets. 0 or -errno: it does not read, or is gone. */
int channel_tell(const struct job *j, uint8_t type, const uint8_t *p, size_t n);
/* The head of a kernel's next packet, which stays in the channel. As the next one. */
ssize_t channel_look(const struct job *k);
/* The next packet of a kernel. Its length, which may be more than there is room for; 0 at the end,
 * -errno. Descriptors that came along are closed by the system: nobody asked for them. */
ssize_t channel_receive(const struct job *k);
/* Watch it for these events; 0: not at all. */
void channel_watch(struct init *in, struct job *j, uint32_t events);
void channel_close(struct init *in, struct job *j);
/* A held job that is no kernel has said something. */
void channel_event(struct init *in, struct job *j);

/* --- cell.c: kernels and their cells --- */

/* 0 or -errno: no such kernel, or it has a cell that runs. */
int cell_open(struct init *in, struct job *c, const struct job_spec *spec);
void cell_free(struct job *c);
/* Its request to the kernel, as far as that takes it. */
void cell_feed(struct init *in, struct job *c);
/* An image has come, for a cell that waits for one. */
void cells_look(struct init *in);
/* The request is complete: from now on time counts. */
void cell_asked(struct job *c);
void cell_signal(struct init *in, struct job *c, int sig);
/* When to be called again; UINT64_MAX: not. */
uint64_t cell_nudge(struct job *c, uint64_t now);
void cell_tell(struct init *in, const struct frame *f);
void cell_expired(struct init *in, struct job *c);
/* Whether a cell has ended and is listened to all the same. */
bool cell_lingers(const struct job *j);
/* Whether a packet waits until what was printed before it is in the ring of this job. */
bool cell_held(const struct job *j);
/* Give up a cell that lingers: whoever still writes there gets a broken pipe. It may be free then. */
void cell_shut(struct init *in, struct job *c);
/* The oldest one. False: there is none. */
bool cell_shut_oldest(struct init *in);

/* The channel of a kernel is ready. */
void kernel_event(struct init *in, struct job *k);
/* Its process has ended. */
void kernel_ended(struct job *k);
/* Packets that wait go where they belong, if there is room by now. j: the kernel or a cell. */
void kernel_settle(struct init *in, struct job *j);
/* Try again what had no memory; when to do so next. */
uint64_t kernel_again(struct init *in, struct job *k, uint64_t now);

/* --- link.c: connections to programs of the box --- */

/* 0 or -errno: nobody listens there. */
int link_open(struct init *in, struct job *j, const struct job_spec *spec);
/* It was refused. Whether another address is tried; else the job keeps why. */
bool link_refused(struct init *in, struct job *j);
/* Its program has no more to say: JOB_ENDED. */
void link_ended(struct job *j);
/* End it, whoever has something to say. It may be free then. */
void link_cut(struct init *in, struct job *j);

/* --- usage.c: what a process has used that still runs --- */

/* Processor time, of all its threads; 0: unknown. */
uint64_t usage_cpu_us(pid_t pid);
/* Its largest size so far; 0: unknown, because its memory is gone. */
long usage_peak_kib(pid_t pid);
/* Whether there is no process but it and us, not even one that has ended. */
bool usage_is_alone(pid_t pid);
void usage_set(struct rusage *u, uint64_t cpu_us, long peak_kib);

/* --- kit.c: what Python is started with --- */

/* A descriptor for a job, which stays ours. -ENOENT: this box was not given it; another -errno. */
int kit_part(struct init *in, enum kit part);
/* A process was thawed. What it was a copy of is for that one alone: the next one begins where every kernel does. */
void kit_copied(struct init *in);

/* --- spawn.c: from fork to exec --- */

struct exec_report { /* from a child that failed before exec, on its job's exec_fd */
	int error;
	char stage[JOB_STAGE_MAX];
};

/* Start the job's process. Fills pid and the descriptors of j. 0 or -errno. */
int spawn(struct init *in, struct job *j, const struct job_spec *spec);
/* Our end does not block. */
int pipe_open(int *ours, int *theirs, bool we_read);

/* --- files.c --- */

/* Run a file operation in the calling child; the exit status is 0 or an errno. */
int files_run(const struct job_spec *spec, int archive_fd);
/* Whether it is one that needs the program for archives. */
bool files_need_archive(const struct job_spec *spec);

/* --- init.c --- */

/* 0 or -errno. */
int watch_add(struct init *in, int fd, enum watch what, unsigned int slot, uint32_t events);
void watch_del(struct init *in, int fd);
