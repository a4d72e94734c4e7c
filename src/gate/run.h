/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a run: what a program says, in numbered events, held for whoever asks.
 *
 * A run has one of these, be it a command or anything else with an output. Bytes of stdout and stderr are kept as they
 * came, up to a limit each; an event is a mark that says which of them it covers, so the same bytes serve the answer
 * in one piece and every reader, and a reader is a place in the log and nothing more: a slow one costs no memory.
 * An event ends with a whole character; what is left of one begins the next event of its stream.
 *
 * Events are numbered without holes. Who writes says which frame of the box an event comes from; when frames are missing,
 * because another gate had them, so are the numbers of their events: one for each frame, unless it is known better.
 * What a reader wants and is not held any more it is told as a gap. Readers
 * hear of news at the end of the turn, so that many small writes become few sends, and whoever writes need not fear
 * what a reader does.
 */
#pragma once

#include "base/json.h"
#include "base/loop.h"
#include "gate/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum run_event {
#define EVENT(id, name) RUN_##id,
#include "gate/run_events.tbl"
#undef EVENT
	RUN_EVENT_MAX
};

enum {
	RUN_ID = 27,
	RUN_MARKS_MAX = 65536, /* events of a run; the older ones become a gap */
	RUN_OTHER_MAX = 32 * 1024 * 1024,
	RUN_END_MAX = 2 * 1024 * 1024, /* there is always room for the last event */
};

struct run_mark {
	uint64_t seq;
	size_t at; /* its first byte, of all that its stream ever had */
	uint32_t n, t_ms;
	uint8_t event;
};

/* What all runs of a gate hold together. */
struct runs {
	size_t bytes, max;
	/* Too much: let go of something. false: there is nothing. */
	bool (*evict)(void *arg);
	void *arg;
	const struct run *writing; /* for whom room is made: its own output is not let go */
};

/* What those of one owner hold of it. */
struct run_share {
	size_t bytes;
	uint64_t full_us; /* until then there was nothing to let go of for this one */
};

struct req;

struct run_ops {
	/* The members of the answer but those of its output. */
	void (*put)(void *arg, struct json *j);
	/* Members that are output besides stdout, stderr and truncated; may be NULL. */
	void (*put_output)(void *arg, struct json *j, unsigned int parts);
	/* How many bytes of stream 1 or 2 are not part of the answer any more; may be NULL. */
	size_t (*text_from)(void *arg, unsigned int stream);
	/* A client was given the answer, or all events; may be NULL. */
	void (*told)(void *arg);
	/* The last reader has left; may be NULL. */
	void (*alone)(void *arg);
	/* Answer a request that waits for the end of a run that was lost; not NULL where one can be. */
	void (*refuse)(void *arg, struct req *r);
};

struct run_reader;

struct run {
	struct loop *loop;
	struct runs *all;
	struct run_share *share;
	const char *what; /* the key under which events have the id: "command" */
	char id[RUN_ID];
	const struct run_ops *ops;
	void *arg;
	struct run_mark *marks; /* [first, nmarks) are held */
	size_t first, nmarks, cap;
	struct buf out[2], other;
	size_t taken[2]; /* bytes that events cover */
	size_t counted;  /* towards `all` and `share` */
	bool base64;
	bool cut[2];     /* something of it is missing */
	bool trimmed[2]; /* something of it was heard, and let go */
	bool cut_other;
	bool ended;
	bool lost;                       /* there was an end, and nobody knows it */
	uint64_t seq;                    /* of the last event */
	uint64_t frame;                  /* the last one that was told */
	uint64_t known_frame, known_seq; /* where the log of another gate was, at some moment */
	uint64_t began_us;               /* t_ms count from here */
	struct run_reader *readers;
	struct run_pieces *pieces; /* what is written now is told in pieces; else NULL */
	bool telling, dead;
	struct deferred tell, last;
	void (*gone)(void *arg);
	void *gone_arg;
};

/* Somebody who follows a run. Part of a larger struct. */
struct run_reader {
	struct run *run; /* NULL: not attached */
	struct run_reader *prev, *next;
	uint64_t after; /* the last event that it has */
	bool news;
	bool inside; /* it tells from the log, where it lies: nothing is let go meanwhile */
	void (*more)(struct run_reader *rd); /* there is something to read, or the run has ended */
};

/* An event as it is told. */
struct run_told {
	enum run_event event;
	uint64_t seq; /* of a gap: its last */
};

const char *run_event_str(enum run_event e);

/* Begin; `max` bytes of each stream are kept. The id is the caller's to fill in. */
void run_init(struct run *run, struct loop *loop, struct runs *all, struct run_share *share,
	      const char *what, size_t max, const struct run_ops *ops, void *arg);
/* Let go of everything. No reader is left; fn is called when nobody can be looking any more. */
void run_done(struct run *run, void (*fn)(void *arg), void *arg);

/* Output: stream 1 or 2, of a frame; 0: of none. What is over the limit, or finds no memory, is marked as cut. */
void run_output(struct run *run, uint64_t frame, unsigned int stream, const void *p, size_t n);
/* A frame of which nobody is told anything. */
void run_nothing(struct run *run, uint64_t frame);
/* Another event: members of a JSON object, without its braces. false: there was no room, and it is a gap. */
bool run_event(struct run *run, uint64_t frame, enum run_event e, const char *members, size_t n);
/* The last event, but for what comes late: that is part of the answer, too. */
void run_end(struct run *run, uint64_t frame);
/* It has ended, nobody knows how, and nothing more will come: whoever follows it is sent away. */
void run_lose(struct run *run);
/* Readers should look again. */
void run_tell(struct run *run);
/* Drop all that it printed and all events but the last: its answer then has no output. */
void run_forget(struct run *run);

/* Let go of events up to this one. */
void run_trim(struct run *run, uint64_t last);
/* Whether it holds so much that soon something would have to be cut. */
bool run_is_crowded(const struct run *run);

/* Bytes held. */
size_t run_bytes(const struct run *run);

/* The bytes of a mark that is held: of its stream, or the members of an object. */
const char *run_mark_bytes(const struct run *run, const struct run_mark *m);
/* A value of an event, as it stands in the log. */
void run_put_value(const struct run *run, struct json *j, const char *p, size_t n);
/* Bytes of a stream, 1 or 2, as the client wants them: text, or base64. */
void run_put_text(const struct run *run, struct json *j, const char *key, unsigned int stream,
		  size_t at, size_t n);

enum run_parts {
	RUN_OUTPUT = 1u << 0,  /* what it printed, and what its kind calls output */
	RUN_OUTPUTS = 1u << 1, /* of a cell: as nbformat has them, too */
};

/* The answer, with these parts. */
void run_answer(const struct run *run, struct json *j, unsigned int parts);

/* Follow from behind this number. */
void run_attach(struct run *run, struct run_reader *rd, uint64_t after,
		void (*more)(struct run_reader *rd));
void run_detach(struct run_reader *rd);
/* It does not tell from the log any more: what waited for that can be let go. */
void run_outside(struct run_reader *rd);
/* Both. */
void run_leave(struct run_reader *rd);
/* How many bytes the next event has; 0: there is none, or a gap. */
size_t run_next_bytes(const struct run_reader *rd);
/* The next event where it lies: the bytes of its stream, or members of an object; of a gap there are none. */
bool run_take(struct run_reader *rd, struct run_told *ret, const char **p, size_t *n);
/* The next event as a JSON object behind what is in j. false: there is none for now. If j failed the place stays. */
bool run_read(struct run_reader *rd, struct json *j, struct run_told *ret);

/* The number before that of the last event of a kind that is held; if there is none, that of the last one of all. */
uint64_t run_last(const struct run *run, enum run_event e);

/* What run_read() would read next. */
bool run_next(const struct run_reader *rd, struct run_told *ret);

/* --- run_pieces.c --- */

enum { RUN_TURN = 128 * 1024 }; /* so many bytes are told in one turn, then others are heard */

enum run_source { RUN_OF_STDOUT, RUN_OF_STDERR, RUN_OF_OTHER, RUN_SOURCES };

/* What of the log is missing in a text, and where. */
struct run_hole {
	size_t at, from, n;
	enum run_source of;
};

/* A text with holes, and how much of it was told. */
struct run_pieces {
	struct json j;
	struct run_hole *holes;
	unsigned int nholes, cap, hole;
	size_t at, filled;
};

/* Whether an answer with all its output is to be told in pieces. Until it is, a reader stays attached. */
bool run_is_long(const struct run *run);
/* What is long is left out of j, if it is written in pieces; true: it was, or j failed. */
bool run_leave_out(const struct run *run, struct json *j, enum run_source of, size_t from,
		   size_t n);
/* The next piece, behind what is in `to`. false: it was the last one. */
bool run_pieces_next(const struct run *run, struct run_pieces *p, struct json *to);
/* It can be used again. */
void run_pieces_done(struct run_pieces *p);

/* --- run_events.c --- */

/* Answer a request with the events behind `after`, until the last one. left() (may be NULL) is called when the client
 * leaves before that. */
void run_stream(struct run *run, struct req *r, uint64_t after, void (*left)(void *arg), void *arg);
/* The last event that a client has: Last-Event-ID, else ?after=, else 0. 0, or -1: answered. */
int run_after(struct req *r, uint64_t *ret);

/* --- run_wait.c --- */

/* Answer a request with these parts of the answer (0: with 204 instead) when the run has ended, or, unless wait_us is 0,
 * after that time. left() as above. */
void run_wait(struct run *run, struct req *r, uint64_t wait_us, unsigned int parts,
	      void (*left)(void *arg), void *arg);
/* Answer now. */
void run_reply(struct run *run, struct req *r, int status, unsigned int parts);
/* The same in the words of a dialect, which put() writes; of what it puts by run_put_text() or run_leave_out() the client may be
 * told later, and run stays until then. arg is not needed any more when this returns. */
typedef void (*run_put_fn)(const struct run *run, void *arg, struct json *j);
void run_reply_as(struct run *run, struct req *r, int status, run_put_fn put, void *arg);
