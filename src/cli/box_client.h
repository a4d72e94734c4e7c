/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate's side of a box's stream, for a client that runs one job after the other.
 *
 * Output is acknowledged when its receiver has taken it. What comes out of the box is hostile: it
 * is parsed by wire/ only, and anything that breaks the protocol ends the connection.
 */
#pragma once

#include "base/err.h"
#include "cli/keeper_client.h"
#include "wire/frame.h"
#include "wire/job.h"

#include <stdbool.h>

struct box_client {
	int fd;
	struct keeper_client *keeper; /* watched meanwhile for the box's end */
	uint64_t next_job;
	uint8_t in[FRAME_HEADER + FRAME_PAYLOAD_MAX];
	size_t in_len;
};

/* What goes in and out of one job. */
struct job_io {
	int in_fd;             /* read for standard input; -1: in_buf */
	const uint8_t *in_buf; /* standard input as bytes */
	size_t in_len;
	bool tty; /* in_fd is our terminal, resizes are passed on */

	/* Take output; 0, or -errno to end the job. */
	int (*out)(void *arg, unsigned int stream, const uint8_t *p, size_t n);
	/* Asked before every wait: a signal to send to the job's group, or 0; -1 kills the box. */
	int (*interrupt)(void *arg);
	int interrupt_fd; /* readable when interrupt() has something to say; -1: none */
	void *arg;
};

/* Take the stream (owned from here on) and exchange hellos. */
int box_open(struct box_client *b, int fd, struct keeper_client *k, struct err *e);
void box_close(struct box_client *b);

/* Run one job to its end. -1: the box is gone or broke the protocol (e says), or out() failed
 * (e->sys is its errno). */
int box_run(struct box_client *b, const struct job_spec *spec, const struct job_io *io,
	    struct job_exit *x, struct err *e);
