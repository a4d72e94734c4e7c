/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tools process: it has the servers of MCP, what they may be told in secret, and calls of their tools for the gate.
 *
 * main.c has the role and its loop, settings.c what the operator has configured, server.c a server from its first call to its end, call.c
 * calls, gate.c what the gate says and is told, dial.c connections. Nothing but the loop waits.
 */
#pragma once

#include "tools/fetch.h"
#include "tools/spec.h"
#include "wire/ops.h"
#include "wire/toolmsg.h"

enum {
	TOOLS_KEEPER_FD = 3,
	TOOLS_GATE_FD = 4,
	TOOLS_SETTINGS_FD = 5,

	SERVERS_MAX = 256, /* configured and registered */
	SERVERS_OF_OWNER = 16,
	CALLS_MAX = 1024,
	CALLS_OF_SERVER = 64,
	OWNER_MAX = 64,
	TOOL_NAME = 256,
	SETTINGS_VARIABLES = 256,
	PLACES_MAX = WAYS_MAX,
};

struct tools;
struct server;

/* Something that the gate has asked of a server. */
struct call {
	struct call *next; /* of its server */
	struct server *server;
	uint64_t id; /* the gate's */
	bool is_list, asked;
	bool again; /* asked once more, in another session */
	uint64_t asked_us;
	uint64_t deadline_us;
	char tool[TOOL_NAME];
	char *arguments;
	size_t n;
	struct mcpc_request request;
};

enum server_state {
	SERVER_OFF,     /* nobody has asked */
	SERVER_WAITS,   /* it failed, and is not tried again before again_us */
	SERVER_BOX,     /* a box is being made for it */
	SERVER_OPENING, /* it is asked what it speaks */
	SERVER_ON,
	SERVER_LEAVING, /* it was not used for long */
};

struct server {
	struct server *next;
	struct tools *t;
	char owner[OWNER_MAX]; /* a box; "": the operator */
	char name[SPEC_NAME];
	struct spec spec;
	char *params; /* what a client wrote, for the next gate; NULL: the operator's */
	size_t nparams;
	enum server_state state;
	bool gone;      /* its owner is: it goes when its calls have */
	bool hung;      /* a call was not answered in time, and it has said nothing since */
	bool forgotten; /* it does not know our session any more */
	bool legacy;    /* it ends when it is asked for the modern era */
	uint64_t box;   /* of BOX_WANT; 0: none */
	struct toolway *link;
	struct mcpc_request opening;
	uint64_t opened_us, used_us, again_us, until_us;
	unsigned int failures;
	struct call *calls;
	unsigned int ncalls;
	unsigned int slot, nslots; /* in the last poll */
};

struct dialing;

/* A variable of the operator's; lent: servers of clients may have it, too. */
struct setting {
	char *name, *value;
	bool lent;
};

struct tools {
	int keeper_fd;
	struct toolmsg_stream gate;
	struct server *servers;
	unsigned int nservers, ncalls;
	uint64_t next_box, next_dial;
	struct dialing *dialing;
	struct setting settings[SETTINGS_VARIABLES];
	unsigned int nsettings;
	struct endpoint places[PLACES_MAX]; /* by the keeper's numbers */
	unsigned int nplaces;
	uint64_t idle_us;
	char ca_file[4096];
	bool stop;
};

/* --- stdio.c --- */

/* A program in the box whose stream this is, which is the link's from here on. s lives as long. NULL: e. */
struct toolway *toolway_box_open(const struct spec *s, const struct mcpc_bounds *b, int fd,
				 struct err *e);

/* --- settings.c --- */

/* What the operator has configured: servers and variables. 0 or -1. */
int settings_read(struct tools *t, int fd, struct err *e);
/* For the operator's own servers, and for those of clients. */
const char *settings_variable(void *tools, const char *name);
const char *settings_lent(void *tools, const char *name);

/* --- server.c --- */

/* One more, from {command…} or {url…}. NULL: e. */
struct server *server_new(struct tools *t, const char *owner, const char *name,
			  const struct jsonr *d, const struct jsonr_node *n,
			  spec_variable *variable, struct err *e);
/* The owner's, or the operator's; NULL: there is none. */
struct server *server_find(struct tools *t, const char *owner, const char *name);
/* Those of an owner go. */
void servers_forget(struct tools *t, const char *owner);
/* There is something for it to do: start what is not there. */
void server_wanted(struct server *s);
/* Its box is there, or is not. */
void server_box(struct tools *t, uint64_t box, int fd);
void server_no_box(struct tools *t, uint64_t box, const char *why);
/* All links end: there is no gate any more, and no boxes. What clients have registered stays: their boxes may live on. */
void servers_stop(struct tools *t);
/* What to wait for; what has come. */
unsigned int servers_wait(struct tools *t, struct pollfd *p, unsigned int max,
			  uint64_t *deadline_us);
void servers_step(struct tools *t, const struct pollfd *p, uint64_t now_us);

/* --- call.c --- */

/* tool NULL: its list of tools. */
void tool_call_new(struct tools *t, uint64_t id, struct server *s, const char *tool,
		   const char *arguments, size_t n, uint64_t timeout_us);
void tool_call_cancel(struct tools *t, uint64_t id);
/* The server is there: ask what waits. */
void calls_ask(struct server *s);
/* Whether an answer is waited for. */
bool calls_asked(const struct server *s);
/* It is not, and will not be. */
void calls_fail(struct server *s, enum tool_outcome how, const char *why);
/* Those whose time is over; when to look again. */
uint64_t calls_tick(struct server *s, uint64_t now_us);

/* --- gate.c --- */

/* A gate is there: what the last one asked is forgotten. */
void gate_open(struct tools *t, int fd);
void gate_event(struct tools *t, short events);
void gate_result(struct tools *t, uint64_t id, enum tool_outcome how, uint64_t code,
		 const char *text, size_t n);
/* What is for the log. */
void gate_say(struct tools *t, const char *event, const char *server, const char *text);
/* Ask for a box to run s in. 0 or -errno. */
int gate_want_box(struct tools *t, struct server *s);
void gate_end_box(struct tools *t, uint64_t box);

/* --- tls.c --- */

/* Whom to trust. Before the process is confined. 0 or -1. */
int tools_tls_start(const char *ca_file, struct err *e);
extern const struct fetch_layer tools_tls;

/* --- dial.c --- */

/* Connections that the keeper makes, to places that the operator named. NULL: no memory. */
struct dialer *tools_dialer(struct tools *t);
/* The keeper has answered. */
void dial_answered(struct tools *t, uint64_t request, int fd);
