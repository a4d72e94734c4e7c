/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox mcp`: MCP on standard input and output, for programs that start their servers themselves.
 *
 *   client ── lines ──▶ mcp_calls.c ── POST /mcp, one connection each ──▶ the server, which has all of the protocol (src/mcp)
 *          ◀─ lines ── mcp_answers.c ◀── one JSON text, or a stream of events ──
 *
 * What is here is what the server cannot do: carry lines, keep a box for as long as the client is there (mcp_box.c), and files of this
 * machine (mcp_files.c, mcp_host_files.c). mcp_session.c has the session of an older client; mcp_lines.c lines, mcp_http.c
 * connections, mcp_params.c parameters that are also headers, mcp_opts.c and mcp_config.c the command line, mcp.c the loop.
 *
 * Invariants: (1) a request is answered once, unless it was cancelled; (2) what goes to standard output was looked through and
 * written anew, and is one line; (3) lines, requests and bytes that are held are bounded: where there are too many, nothing more is read.
 */
#pragma once

#include "cli/client_opts.h"
#include "cli/mcp_host_files.h"
#include "cli/mcp_http.h"
#include "cli/mcp_lines.h"
#include "cli/net_words.h"
#include "cli/server_near.h"
#include "wire/json_text.h"

enum {
	BRIDGE_CONNECTIONS_MAX = 64, /* requests under way at once */
	BRIDGE_QUIET_MAX =
		4, /* and of what wants no answer; the rest of EXCHANGES_MAX is for the box and the session */
	BRIDGE_PENDING_MAX = 256, /* with those that wait for their turn */
	BRIDGE_HELD_MAX =
		128 * 1024 * 1024,     /* bytes of them, and of answers, before less is read */
	BRIDGE_OUT_HIGH = 1024 * 1024, /* bytes that wait for who reads our output */
	BRIDGE_ANSWER_MAX = 64 * 1024 * 1024, /* one message of the server's */
	BRIDGE_ID_MAX = 256,                  /* of a request, as JSON */
	BRIDGE_VERSION_MAX = 64,
	BRIDGE_SESSION_MAX = 256,
	BRIDGE_BOX_MAX = 80,
	BRIDGE_ENV_MAX = 256,
	BRIDGE_BINDS_MAX = 16,
	BRIDGE_ERROR_MAX = 64 * 1024, /* of an answer that is a refusal of the own API */
};

/* Codes of JSON-RPC. */
enum {
	BRIDGE_PARSE_ERROR = -32700,
	BRIDGE_INVALID_REQUEST = -32600,
	BRIDGE_INVALID_PARAMS = -32602,
	BRIDGE_INTERNAL = -32603,
};

#define BRIDGE_META_VERSION "io.modelcontextprotocol/protocolVersion"

struct bridge_opts {
	struct client_opts o; /* the first member, see there */
	const char *box;      /* one that is there; NULL: a new one */
	bool as_ipybox;       /* its box is as one of ipybox */
	bool print_config;
	struct limits limits;
	bool limit_set[LIMIT_ID_MAX];
	const char *dirs[HOST_DIRS_MAX]; /* as written */
	unsigned int ndirs;
	const char *vars[BRIDGE_ENV_MAX]; /* NAME=VALUE, as given */
	unsigned int nvars;
	const char *env[BRIDGE_ENV_MAX]; /* those and those of a file, each name once */
	unsigned int nenv;
	const char *env_file;
	const char *binds[BRIDGE_BINDS_MAX]; /* as written */
	unsigned int nbinds;
	struct net_words net;
	const char *environment; /* NULL: the machine's own */
};

struct bridge;

/* A message of the client's that has not come to its end. */
struct pending {
	struct bridge *b;
	struct pending *next; /* in the order in which they came */
	char *text;           /* the line, until it is sent */
	size_t n;
	char id[BRIDGE_ID_MAX];           /* as JSON; "": it wants no answer */
	char *method;                     /* NULL: it is an answer */
	char *name;                       /* what Mcp-Name says; NULL: nothing */
	char version[BRIDGE_VERSION_MAX]; /* of its _meta */
	bool modern;
	bool needs_box;
	bool is_list, is_initialize, is_initialized; /* tools/list, and so on */
	bool answered;
	bool unwanted;      /* cancelled: it is not answered any more */
	struct exchange *x; /* NULL: it waits for its turn, or for the box */
	/* What comes back. */
	bool streams;
	struct sse sse;
	struct bytes body;
	const char *trouble; /* what was wrong with a message that came; NULL: nothing */
	/* Of a tool of our own: mcp_files.c. */
	struct transfer *transfer;
};

enum bridge_box_state { BRIDGE_BOX_NONE, BRIDGE_BOX_MAKING, BRIDGE_BOX_THERE };

struct bridge {
	const struct bridge_opts *o;
	struct client c;
	struct server_near near;
	struct exchanges all;
	struct lines_in in;
	struct lines_out out;
	struct host_dirs dirs;
	struct pending *pending, **last;
	unsigned int npending;
	bool left; /* the client has closed its end of our input, of which something may be left to read */
	bool over;                   /* no more is asked: what is left is to be tidied up */
	struct bridge_param *params; /* see mcp_params.c */
	unsigned int nparams;
	/* the box */
	enum bridge_box_state box_state;
	char box[BRIDGE_BOX_MAX];
	bool box_made; /* by us: it ends with us */
	char box_key[40];
	int64_t box_ttl_s;
	uint64_t box_alive_us, box_alive_each_us; /* when to say that it is needed */
	bool box_asking;
	struct bytes box_answer;
	/* the session of an older client */
	char session[BRIDGE_SESSION_MAX]; /* "": there is none, or it has no name */
	char version[BRIDGE_VERSION_MAX]; /* "": there is none */
	bool initializing;
	struct exchange *hear; /* its stream */
	uint64_t hear_us;      /* when to open that; UINT64_MAX: not at all */
	unsigned int hear_pause_ms;
	struct sse hear_sse;
	bool lost; /* the server did not answer the last time */
};

/* mcp_opts.c. 0, 1: all is done, -1. */
int bridge_opts_take(struct bridge_opts *o, int argc, char **argv, struct err *e);
/* The working directory of its box. */
const char *bridge_workdir(const struct bridge_opts *o);
/* mcp_config.c: what a program that starts us is told. 0, or -errno: nobody takes it. */
int bridge_print_config(bool as_ipybox, int argc, char **argv);

/* mcp_calls.c. A line, which is taken. */
void bridge_take_line(struct bridge *b, char *text, size_t n);
/* One that is too long, or for which there is no memory. */
void bridge_refuse_line(struct bridge *b, int error);
/* Start what can be started. */
void bridge_go(struct bridge *b);
/* Whether something is under way that comes to an end. */
bool bridge_is_awaited(const struct bridge *b);
/* It has come to its end, answered or not. */
void pending_free(struct pending *p);
/* All that need the box: there is none. */
void bridge_fail_for_box(struct bridge *b, const char *text);
/* Whether the server answered: who wonders is told. */
void bridge_heard(struct bridge *b, const struct err *e);
/* Headers that all requests to /mcp have. */
void bridge_headers(const struct bridge *b, struct exchange *x);

/* A text of the client's: what a header cannot say is in base64. */
void bridge_put_text(struct exchange *x, const char *name, const char *text);

/* mcp_answers.c. What came for a request, or on the stream of a session: p is NULL. */
int bridge_take_event(struct bridge *b, struct pending *p, const char *text, size_t n);
void bridge_error(struct bridge *b, const char *id, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The result of a tool of our own: text NULL is no content, otherwise it is an error. */
void bridge_tool_result(struct bridge *b, struct pending *p, const char *text);
/* What a body of the own API that is a refusal says. */
void bridge_refusal(const struct exchange *x, const struct bytes *body, char *text, size_t size);
/* Whether it is the name of one. */
bool bridge_is_own_tool(const char *name);

/* mcp_params.c: what a tool wants repeated in headers, of which its definition tells. */
void bridge_params_learn(struct bridge *b, struct json_text tool);
void bridge_params_put(const struct pending *p, struct exchange *x);
void bridge_params_done(struct bridge *b);

/* mcp_box.c */
void bridge_box_want(struct bridge *b);
void bridge_box_tick(struct bridge *b, uint64_t *deadline_us);
/* It has gone by itself. */
void bridge_box_gone(struct bridge *b);
/* On the way out: ends it, if it is ours. */
void bridge_box_end(struct bridge *b);

/* mcp_session.c */
/* Of an initialize: the name of its session, and later the version that was agreed on. */
void bridge_session_name(struct bridge *b, struct http_slice id);
void bridge_session_begin(struct bridge *b, const char *version);
void bridge_session_headers(const struct bridge *b, struct exchange *x);
/* The client is ready for what the server has to tell. */
void bridge_session_tick(struct bridge *b, uint64_t *deadline_us);
void bridge_session_hear(struct bridge *b);
void bridge_session_end(struct bridge *b);

/* mcp_files.c: upload_file and download_file. false: it was answered. */
bool bridge_transfer_take(struct pending *p, bool up, struct json_text arguments);
void bridge_transfer_start(struct pending *p);
void bridge_transfer_free(struct pending *p);
