/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: how many executions run at once, who waits for a turn and for how long.
 *
 * A slot is held from admission until nothing of the execution is left, its box included.
 */
#pragma once

#include "base/loop.h"

#include <stdbool.h>

struct gate;

/* What asks for admission; the names are labels of metrics. */
enum operation {
	OPERATION_EXECUTE,
	OPERATION_STREAM,
	OPERATION_SESSION,
	OPERATION_BASH,
	OPERATION_HANDLER,
	OPERATION_BOX,
	OPERATION_COMMAND, /* these two are counted; they have no slot: their box bounds them */
	OPERATION_CELL,
	OPERATION_MAX
};

struct ticket {
	struct gate *g;
	enum operation operation;
	struct ticket *prev, *next; /* in the queue */
	struct timer timer;
	uint64_t asked_us, admitted_us;
	bool waiting, holds;
	void (*turn)(void *arg);      /* it is your turn */
	void (*sent_away)(void *arg); /* no slot came free in time */
	void *arg;
};

struct admit {
	unsigned int active;
	unsigned int by_operation[OPERATION_MAX];
	struct ticket *first, *last;
	unsigned int waiting;
	bool letting_in; /* guards admit_done() against itself: as deep as the queue is long */
};

const char *operation_str(enum operation op);

/* Ask. turn() or sent_away() is called, perhaps at once. */
void admit_ask(struct gate *g, struct ticket *t, enum operation op, void (*turn)(void *arg),
	       void (*sent_away)(void *arg), void *arg);
/* Take a slot for what was admitted by the gate before this one and still runs, also where none is free. */
void admit_hold(struct gate *g, struct ticket *t, enum operation op);
/* Give the slot back, or leave the queue. Does nothing for a ticket that has neither. */
void admit_done(struct ticket *t);
