/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jupyter's dialect: a kernel gateway to whoever speaks its protocol.
 *
 *   jup_kernels.c   REST: kernels. Each has a box of its own, which ends with it
 *   jup_sessions.c  REST: sessions, which are names for kernels
 *   jup_specs.c     REST: what kinds of kernels there are, and what else clients ask for first
 *   jup_channels.c  the WebSocket: who is connected, and what they say
 *   jup_queue.c     what they ask the kernel, and what becomes of it
 *   jup_taps.c      how far each of them has read which cell
 *   jup_tell.c      what is sent to them: the log of a cell as messages
 *
 * A request on shell becomes a cell of the engine, one after the other; what waits behind them waits here. Its
 * header is the cell's label. What the cell says is read from its log (run.h) by a tap for each client: so a client that
 * does not read costs nothing, and one that comes late gets what was said while nobody was there. Everybody hears
 * iopub; replies and questions go to who asked, or, if that one has gone, to all.
 *
 * Ids of kernels are UUIDs, made of the id of the box and the name of the kernel: nobody needs to keep them.
 */
#pragma once

#include "gate/kernels.h"
#include "gate/ports.h"
#include "gate/ws.h"
#include "wire/jupyter.h"

enum {
	JUP_CLIENTS_MAX = 64,                 /* of one kernel */
	JUP_WAITING_MAX = 4096,               /* requests that wait for one kernel */
	JUP_WAITING_BYTES = 64 * 1024 * 1024, /* and their bytes */
	JUP_MESSAGE_MAX = 16 * 1024 * 1024,   /* of a client */
	JUP_LARGE = 256 * 1024,               /* a message of more is looked at twice: */
	JUP_SEND_MAX = 128 * 1024 * 1024,     /* what waits to be sent to all clients of a tenant */
	JUP_BEHIND_MAX =
		4 * 1024 * 1024,  /* who has not read so much is told no more by the gate itself */
	JUP_TAPS_MAX = 1024,      /* cells that one client has not read to their ends */
	JUP_STATES_MAX = 4,       /* states of a kernel that wait behind one of them */
	JUP_KEY = JUP_ID_MAX + 1, /* which client it is: session_id of its URL */
};

/* A request on shell that waits for its turn. */
struct jup_request {
	struct jup_request *next;
	char key[JUP_KEY];
	char type[JUP_TYPE_MAX + 1];
	bool stop_on_error;
	bool aborted; /* it will not run */
	char *label;  /* see jup_label() */
	struct json body;
};

struct jup_client;

/* Of a kernel that somebody of this dialect knows. */
struct jup {
	struct kernel *k;
	struct jup_client *clients;
	unsigned int nclients;
	struct jup_request *first, *last;
	unsigned int nwaiting;
	size_t waiting_bytes;
	char session[33]; /* of what we say ourselves */
	uint64_t next_message;
	uint64_t active_ms;
	unsigned int deaths; /* since a cell ended well */
	bool feeding;
	struct timer again; /* there are more requests to be answered */
};

/* Somebody who reads a cell. */
struct jup_tap {
	struct run_reader rd;
	struct jup_client *c;
	struct jup_tap *next;
	bool anew; /* from the beginning, after another gate: what was shown is cleared */
	const char *states[JUP_STATES_MAX]; /* of its kernel, to be told behind it */
	unsigned int nstates;
	struct deferred deferred;
};

/* What has not left yet: up to which byte of the connection it goes, and which event of which cell it was. */
struct jup_unsent {
	uint64_t end, job, seq;
};

struct jup_client {
	struct gate *g;
	struct jup *jup; /* NULL: its kernel has gone */
	struct jup_client *next;
	struct ws *ws;
	enum jup_framing framing;
	char key[JUP_KEY];
	bool named;           /* the client has chosen its key */
	bool inside;          /* it is in the box: neither takes nor says more than JUP_LARGE */
	struct jup_tap *taps; /* in the order of their cells */
	unsigned int ntaps;
	struct jup_unsent *unsent; /* [first_unsent, nunsent) */
	size_t first_unsent, nunsent, cap_unsent;
	struct timer slow, again;
	bool closing, closed;
	struct deferred deferred;
};

/* What is told, and in answer to what. */
struct jup_say {
	enum jup_channel channel;
	const char *type;
	const char *label; /* of what it answers; NULL: nothing */
	const char *content;
	size_t ncontent;
	struct json_text metadata;
	const struct jup_bytes *buffers;
	size_t nbuffers;
};

/* --- jup_channels.c --- */

void jup_channels(struct req *r);
/* Whose request a cell was, and its header: a key, a line's end, JSON. */
const char *jup_label_header(const char *label);
bool jup_label_is_of(const char *label, const char *key);

/* --- jup_queue.c --- */

/* NULL: no memory. */
struct jup *jup_of(struct kernel *k);
/* The kernel is about to go. */
void jup_drop(struct kernel *k);
/* "x_request" is answered by "x_reply"; false: by nothing. */
bool jup_reply_to(const char *type, char reply[JUP_TYPE_MAX + 1]);
/* An error instead of the reply. why goes into JSON as it is. */
void jup_refuse(struct jup *jup, enum jup_channel channel, const char *type, const char *label,
		const char *why);
/* It waits for its turn, or is refused; either way it is not the caller's any more. */
void jup_enqueue(struct jup *jup, struct jup_request *q);
/* Nothing that waits is run. */
void jup_abort(struct kernel *k);
/* A client has read all there was: what waited for that. */
void jup_caught_up(struct jup *jup);
/* The kernel's process begins, is ready, has died, or is to end. */
void jup_state(struct kernel *k, const char *state);
/* It has died: whether it is to be started again. */
bool jup_died(struct kernel *k);
/* A cell of it has ended: if it failed, those that wait do not run. */
void jup_failed(struct kernel *k, struct cell *c);
/* The next one. */
void jup_ended(struct kernel *k);
/* Something was said by a cell that had ended. */
void jup_late(struct cell *c);

/* --- jup_taps.c --- */

/* The kernel of a cell, if it is there, and what a client reads of a cell, if anything. */
struct kernel *jup_kernel_of(const struct cell *cell);
const struct jup_tap *jup_tap_of(const struct jup_client *c, const struct cell *cell);
void jup_follow(struct jup_client *c, struct cell *cell, uint64_t after, bool late);
/* Tell a client what there is, as much as it takes. */
void jup_pump(struct jup_client *c);
void jup_taps_done(struct jup_client *c);
/* Where somebody who takes a client's place begins to read a cell; false: that client has all of it. */
bool jup_place(struct jup_client *c, const struct cell *cell, uint64_t *ret);
/* It goes, with messages that it never got: they are for the next one. */
void jup_unsend(struct jup_client *c);
/* Up to which event all who follow a cell have it. */
uint64_t jup_heard(const struct cell *c);
/* Whether anybody does. */
bool jup_is_followed(const struct cell *c);
/* A client has left: what was paused for it goes on. */
void jup_unpause(struct jup *jup);

/* --- jup_tell.c --- */

/* An event of a cell, for one client. */
struct jup_event {
	struct jup_tap *tap;
	const struct cell *cell;
	struct run_told told;
	const char *p; /* bytes of a stream, or members of an object */
	size_t n;
};

/* As messages. */
void jup_tell(const struct jup_event *e);
/* A message that could not be sent has ended the connection, and with it perhaps the log. */
bool jup_is_gone(const struct jup_event *e);
void jup_send(struct jup_client *c, const struct jup_say *s);
void jup_say_state(struct jup_client *c, const char *label, const char *state);
/* Of the kernel itself: behind what was said before it. */
void jup_status(struct jup *jup, const char *state);
/* An answer that the gate itself has: busy, reply, idle. Content is JSON. */
void jup_answer(struct jup *jup, enum jup_channel channel, const char *type, const char *label,
		const char *content);
/* Whether those that are told how a request ended have read what was before it. */
bool jup_has_read(const struct jup *jup, const char *label);
/* Who does not read is sent away after a while. */
void jup_await_reader(struct jup_client *c);
void jup_goodbye(struct jup_client *c, uint16_t code, const char *why);

/* --- REST --- */

void jup_api(struct req *r);
void jup_specs(struct req *r);
void jup_spec(struct req *r);
void jup_nothing(struct req *r);
void jup_kernel_list(struct req *r);
void jup_kernel_create(struct req *r);
void jup_kernel_get(struct req *r);
void jup_kernel_delete(struct req *r);
void jup_kernel_interrupt(struct req *r);
void jup_kernel_restart(struct req *r);
void jup_session_list(struct req *r);
void jup_session_create(struct req *r);
void jup_session_get(struct req *r);
void jup_session_patch(struct req *r);
void jup_session_delete(struct req *r);
void jup_status_get(struct req *r);
void jup_me(struct req *r);
void jup_swagger(struct req *r);

/* The body of a request: an object; none, and null, is an empty one. 0, or -1: answered. */
int jup_body(struct req *r, struct json_text *ret);
/* A kernel in a box of its own, of the name and with the env that body has. made() answers; a refusal is answered here. */
typedef void (*jup_made_fn)(struct req *r, struct kernel *k);
void jup_make(struct req *r, struct json_text body, jup_made_fn made);
/* End or restart it, and with it the box that is its own. */
void jup_end(struct kernel *k, bool again);
/* End it, and answer when that is done. */
void jup_end_for(struct kernel *k, struct req *r);
bool jup_is_spec(const struct gate *g, const char *name);
/* Where what was made is: a header of the answer. */
void jup_location(struct req *r, const char *what, const char *id);
/* Whether a kernel is to be seen by who asks. */
bool jup_sees(const struct req *r, const struct abox *scope, const struct kernel *k);
/* The kernel of the path; NULL: answered. */
struct kernel *jup_find(struct req *r);
/* As its model. */
void jup_put_kernel(struct json *j, const char *key, const struct kernel *k);
