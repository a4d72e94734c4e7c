/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of ours, in Python, that is run in a box to find something out there. What it prints is read as everything of a box
 * is: hostile. How many of them run, and how many of their answers are held here, is bounded, since a box can ask, too.
 */
#pragma once

#include "gate/boxes.h"
#include "gate/buf.h"

enum { IPY_SAID_MAX = 4 * 1024 * 1024, IPY_WORDS_MAX = HTTP_QUERY_MAX };

struct ipy_program;

struct ipy_program_ops {
	/* It has ended with this status by itself. */
	void (*ended)(struct ipy_program *p, int status);
	/* It has not; NULL: answered in words that fit to `what`. */
	void (*failed)(struct ipy_program *p, const char *why);
	/* It is freed; may be NULL. */
	void (*release)(struct ipy_program *p);
	const char *what; /* "modules could not be looked for" */
};

/* Part of a larger struct, its first member. */
struct ipy_program {
	struct req *r;  /* NULL: nobody waits any more */
	struct abox *a; /* NULL: nothing runs any more */
	struct gate *g;
	const struct ipy_program_ops *ops;
	struct gjob job;
	struct buf said, complaint; /* on standard output, and on standard error */
	bool too_much;
	struct deferred deferred;
};

/* `size` bytes, all zero but this. NULL: answered. */
struct ipy_program *ipy_program_new(struct req *r, struct abox *a,
				    const struct ipy_program_ops *ops, size_t size);
/* Run it; the input lives until its end. 0, or -1: answered. */
int ipy_program_run(struct ipy_program *p, const char *source, const char *const *words,
		    unsigned int n, const char *input, size_t input_len);
/* The box has nothing more to do with it: what it said is here. */
void ipy_program_ran(struct ipy_program *p);
/* It is over; the request is the caller's to answer. It stays until the end of this turn. */
struct req *ipy_program_close(struct ipy_program *p);
