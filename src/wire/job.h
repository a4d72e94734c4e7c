/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: what init runs on a gate's behalf. RUN carries a job_spec, EXIT a job_exit.
 *
 * A job is a program, or one of init's own file operations: those run in a child of init under the
 * user's uid, with the same standard input, output, limits and exit as a program has.
 *
 * A kernel is a program that runs cells (kernel/README.md). It is held, and goes on after GO until
 * somebody ends it. A cell is a job, too, without a process of its own: its standard input is the
 * request, its output is what the kernel prints and says for it, and it ends with the kernel's reply.
 *
 * A link is a connection to a program of the box that listens on the box's own loopback. It has no process either: what is sent to
 * that program is its standard input, what comes is its output, and it ends when the program has nothing more to say.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum job_kind {
	JOB_EXEC, /* argv is a command line */
	JOB_FILE, /* argv: one of fileops.tbl, a path, and so on; no flag but JOB_STDIN, JOB_KEEP, JOB_ATTENDED, JOB_BENEATH */
	JOB_CELL, /* argv: id of the kernel's job, decimal; JOB_STDIN, and no other flag but JOB_KEEP, JOB_FLOW, JOB_COPIES */
	JOB_LINK, /* argv: a port, decimal; JOB_STDIN and JOB_ATTENDED, and no other flag but JOB_PROMPT */
	JOB_KIND_MAX,
};

enum job_flags {
	JOB_PTY = 1u << 0,   /* on a terminal of its own; one stream */
	JOB_STDIN = 1u << 1, /* standard input comes by INPUT frames; else it is /dev/null */
	JOB_SWEEP =
		1u << 2, /* when the leader has ended, every other process of the box ends too */
	JOB_HELD =
		1u
		<< 3, /* has a channel on descriptor 3 and waits there for GO; its time counts from GO */
	JOB_THAW = 1u << 4, /* goes on from the box's image; argv[0] is only its name */
	JOB_KIT =
		1u
		<< 5, /* has the kernel on descriptor 6; in a box that freezes the image and freeze on 4 and 5 */
	JOB_KERNEL = 1u << 6, /* a held job that runs cells after GO */
	JOB_KEEP =
		1u
		<< 7, /* never waits for a reader: up to 2 * output_max + 64 MiB are kept, 256 MiB at most */
	JOB_FLOW =
		1u
		<< 8, /* with JOB_KEEP: nothing is cut; output_max is what is kept, then it waits for a reader */
	JOB_ATTENDED =
		1u
		<< 9, /* ends with the stream to its gate, and nobody is told; not of a held job */
	JOB_BENEATH =
		1u
		<< 10, /* of a JOB_FILE: no link leads out of the working directory; EXDEV for one that does */
	JOB_PROMPT =
		1u
		<< 11, /* what it prints is an answer that somebody waits for: it is not collected */
	JOB_COPIES =
		1u
		<< 12, /* of a cell: the kernel gets the image that the keeper sends, to freeze into; it waits for that */
	JOB_FLAGS_ALL = (1u << 13) - 1,
};

/* How many bytes of input may be on their way that a job has not taken. More for files, of which nothing else is the measure. */
static inline size_t job_window(enum job_kind kind)
{
	return kind == JOB_FILE ? 256 * 1024 : 64 * 1024;
}

/* Packets on the channel of a held job start with this header: u8 type, u8 flags, u16 0, u32 0, u64 cell. */
enum {
	CHANNEL_HEADER = 16,
	CHANNEL_PAYLOAD_MAX = 49152,
};

enum channel_type {
	CHANNEL_CONFIG = 1,    /* to the job: the bytes of GO */
	CHANNEL_RUN = 2,       /* a request; the first packet has the cell's stdout and stderr */
	CHANNEL_STDIN = 3,     /* what input() returns */
	CHANNEL_SYNCED = 4,    /* the bytes of a SYNC: everything before it was taken */
	CHANNEL_INTERRUPT = 5, /* SIGINT is on its way, and it is for this cell */
	CHANNEL_BEGUN = 14,    /* from the job: it has CONFIG, and the caller's program begins */
	CHANNEL_WAITING = 15,  /* from the job: it waits for CONFIG */
	CHANNEL_READY = 16,    /* a kernel has had it, and says what it is */
	CHANNEL_MESSAGE = 17,
	CHANNEL_END = 18,  /* the reply: the cell is over */
	CHANNEL_SYNC = 19, /* to be answered by SYNCED */
};

/* The name of a thawed program that has come to its end and stopped: this, and its exit status. */
#define JOB_ENDED_NAME "gb-ended "

enum channel_flags {
	CHANNEL_MORE = 1u << 0,         /* the message goes on in the next packet */
	CHANNEL_END_OF_INPUT = 1u << 1, /* STDIN: there is none */
	CHANNEL_TELLS = 1u << 2,        /* BEGUN: a program that is no kernel has messages, too */
};

enum {
	JOB_GO_MAX = 2 * CHANNEL_PAYLOAD_MAX,
	JOB_ARGV_MAX = 4096,
	JOB_ENV_MAX = 4096,
	JOB_STAGE_MAX = 32,
};

struct job_spec {
	enum job_kind kind;
	uint32_t flags;
	uint64_t timeout_us;  /* wall clock from the start; 0: none */
	uint64_t output_max;  /* bytes kept per stream, the rest is dropped; 0: all */
	uint64_t cpu_seconds; /* RLIMIT_CPU; 0: the box's */
	uint64_t file_bytes;  /* RLIMIT_FSIZE; 0: the box's */
	uint64_t open_files;  /* RLIMIT_NOFILE; 0: the box's */
	uint16_t rows, cols;
	const char *cwd;
	const char *const *argv; /* NULL-terminated */
	const char *const *envp; /* NULL-terminated */
};

enum job_how {
	JOB_EXITED,   /* code = exit status */
	JOB_SIGNALED, /* code = signal */
	JOB_FAILED,   /* never ran: code = errno, stage = what failed */
	JOB_HOW_MAX,
};

enum job_exit_flags {
	JOB_TIMED_OUT = 1u << 0,
	JOB_CUT_STDOUT = 1u << 1,
	JOB_CUT_STDERR = 1u << 2,
	/* A held job that ended before it had begun: nothing of the caller's was run. */
	JOB_NOT_BEGUN = 1u << 3,
	JOB_KERNEL_DIED = 1u << 4, /* a cell without a reply: how and code are its kernel's */
	JOB_EXIT_FLAGS_ALL = (1u << 5) - 1,
};

struct job_exit {
	enum job_how how;
	int code;
	uint32_t flags;
	uint64_t wall_us, user_us, sys_us, max_rss_bytes;
	uint64_t stdout_bytes, stderr_bytes; /* printed in all, dropped ones included */
	char stage[JOB_STAGE_MAX];
	char only
		[JOB_STAGE_MAX]; /* of a thawed job: the only file in /workspace. "": it was not looked, there is
				   * none or more, or its name is longer */
};

/* Encode into buf; the length, or -EMSGSIZE. */
ptrdiff_t job_spec_encode(const struct job_spec *s, void *buf, size_t cap);

/* Decode a RUN payload. On success *s points into one block at *ret_block, to be freed by the
 * caller. -EPROTO, or -ENOMEM. */
int job_spec_decode(const void *buf, size_t len, struct job_spec *s, void **ret_block);

ptrdiff_t job_exit_encode(const struct job_exit *x, void *buf, size_t cap);
int job_exit_decode(const void *buf, size_t len, struct job_exit *x);
