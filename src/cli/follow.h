/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a cell or command, started here or by somebody else: as a stream, each once, over as many connections
 * as it takes. What was lost is asked for again; what was started is started once, by its Idempotency-Key.
 */
#pragma once

#include "cli/http_client.h"

enum {
	FOLLOW_PATH = 160,
	FOLLOW_ID = 64,
	FOLLOW_PATIENCE_S = 30, /* how long a server may be away */
};

struct follow_event {
	const char *name;
	uint64_t seq;
	const struct jsonr *doc;
	const struct jsonr_node *data; /* NULL: what came could not be read */
};

struct follow {
	struct client *c;
	char path[FOLLOW_PATH]; /* /v1/boxes/ID/cells or commands */
	char id[FOLLOW_ID];     /* "": not known yet */
	char key[40];
	const struct json *body; /* of what is started; NULL: it runs already */
	uint64_t last;           /* the last event */
	bool has_end; /* it was seen to end; what ran already may have said something behind that */
	bool ended;
	bool gone;     /* it was refused because there is no such box any more */
	bool not_held; /* or because there is nothing, or nothing any more, of that id */
	struct stream stream;
	uint64_t lost_us,
		try_us; /* since when nobody answers, and when to try again; 0: all is well */
	uint64_t open_us, futile_us; /* since when there is this connection; since when none of them
					has brought anything, 0: the last one did */
	unsigned int tries;
	bool said_lost;
	int (*event)(void *arg, const struct follow_event *e); /* other than 0 ends it */
	void *arg;
	int result; /* what event() ended it with */
};

/* Whether it can be the id of a cell or command: what a server says goes into paths, and is shown. */
bool follow_is_id(const char *id);

/* Start what the body says, which has to say `detach`; it is the caller's, until it has begun. */
void follow_start(struct follow *f, struct client *c, const char *path, const struct json *body);
/* Follow what runs, or has ended, from behind an event; also what its threads and children have said behind its end. */
void follow_run(struct follow *f, struct client *c, const char *path, const char *id,
		uint64_t after);
void follow_done(struct follow *f);

/* Whether there is no connection: who is asked to end need not wait. */
static inline bool follow_is_lost(const struct follow *f)
{
	return f->lost_us != 0;
}

/* What to wait for, and until when (as for poll(2), at most ms). */
int follow_fd(const struct follow *f);
int follow_wait_ms(const struct follow *f, int ms);
/* Go on: to be called when the descriptor is readable or that time is over. 1: goes on. 0: it has ended, or event() ended
 * it. -1: it cannot be followed; e->sys is EINTR when a signal came while a server did not answer. */
int follow_turn(struct follow *f, struct err *e);
