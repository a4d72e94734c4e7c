/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client half of MCP, without a transport: messages in, messages out. No file descriptor, no clock, no loop; time is
 * given, in microseconds of any clock that does not go back. See README.md.
 *
 * A server is hostile. Invariants: (1) each request ends exactly once, by its done(), whatever the server does, if the
 * caller has given it a deadline and calls mcpc_tick(); (2) what is kept of what a server says is bounded by struct mcpc_bounds;
 * (3) nothing that a server says makes the client fetch anything; (4) schemas and results are kept byte for byte.
 */
#pragma once

#include "base/json.h"
#include "wire/json_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MCPC_VERSION = 16,     /* of a protocol, with its NUL */
	MCPC_NAME = 256,       /* of a tool, likewise; one with a longer name is left off */
	MCPC_ERROR = 512,      /* a text about what went wrong */
	MCPC_CURSOR = 4096,    /* of a page */
	MCPC_HEADERS_MAX = 48, /* of one message; a tool that needs more is left off */
	MCPC_INPUTS_MAX = 16,  /* asked for by one answer */
};

#define MCPC_MODERN "2026-07-28"
#define MCPC_LEGACY "2025-11-25" /* the newest of the legacy era */

struct mcpc_bounds {
	size_t message_bytes; /* of one message; a transport refuses a longer one before it is whole */
	size_t list_bytes;    /* of all tools together */
	unsigned int list_pages; /* of a list */
	unsigned int list_tools;
	unsigned int rounds;   /* how often the server may ask back for one request */
	unsigned int strays;   /* messages that are none, or belong to nobody */
	unsigned int requests; /* under way */
	uint64_t probe_us;     /* for an answer to whether it speaks the modern era */
};

void mcpc_bounds_init(struct mcpc_bounds *b);

/* --- what goes out -------------------------------------------------------------------------------- */

struct mcpc_header {
	const char *name, *value; /* fit for a header as they are */
};

struct mcpc_message {
	const char *text; /* one line of JSON, without its end */
	size_t n;
	uint64_t id; /* of a request: answers come with it; 0: no answer is due */
	/* Only where struct mcpc_way says that there are headers. */
	const struct mcpc_header *headers;
	unsigned int nheaders;
	bool opens;  /* an initialize: a session may come of it */
	bool opened; /* the notification that follows it: nothing is to overtake it */
};

/* The transport, and who answers questions. Part of something larger. None of them calls the client. */
struct mcpc_way {
	bool http;   /* there are headers, and who hangs up has cancelled */
	bool legacy; /* nobody there speaks the modern era: the old HTTP+SSE */
	/* A message. It is copied or gone when this returns. 0; -errno: it cannot be sent, and no other. */
	int (*send)(struct mcpc_way *w, const struct mcpc_message *m);
	/* Nobody waits for the answer to this request any more. May be NULL. */
	void (*drop)(struct mcpc_way *w, uint64_t id);
	/* The server asks the person: write the answer, an object. false, or NULL: it is declined. */
	bool (*elicit)(struct mcpc_way *w, struct json_text params, struct json *j);
	/* What the server tells: logs, lists that have changed. May be NULL. */
	void (*told)(struct mcpc_way *w, const char *method, struct json_text params);
};

/* --- requests ------------------------------------------------------------------------------------- */

enum mcpc_outcome {
	MCPC_PENDING,
	MCPC_DONE,      /* result, or tools */
	MCPC_REFUSED,   /* the server answered with an error: code, error, data */
	MCPC_FAILED,    /* there is no answer: error */
	MCPC_CANCELLED, /* by mcpc_cancel() */
};

struct mcpc_tool {
	char name[MCPC_NAME];
	char *text; /* the whole object as it came; the rest points into it */
	size_t n;
	struct json_text title, description, input, output,
		annotations; /* may be none; input is an object */
};

struct mcpc_tools {
	struct mcpc_tool *v; /* in the order of the server */
	unsigned int n;
	size_t bytes;
	unsigned int dropped; /* that cannot be used */
	char why[MCPC_ERROR]; /* the first of those */
};

struct mcpc;

struct mcpc_request {
	/* The caller's. done() is the last that happens to it, and may be called before the function that started it returns; it may
	 * start others, and free this one after mcpc_request_done(). */
	void (*done)(struct mcpc_request *r);
	void (*progress)(struct mcpc_request *r, struct json_text params); /* NULL: not wanted */
	void *arg;
	uint64_t deadline_us; /* UINT64_MAX: never */
	/* What came of it. */
	enum mcpc_outcome outcome;
	int64_t code;           /* of a refusal */
	char error[MCPC_ERROR]; /* of a refusal or failure */
	char *text;             /* of result or data */
	struct json_text result, data;
	struct mcpc_tools tools; /* of mcpc_list() */
	/* Ours. */
	struct mcpc *c;
	struct mcpc_request *prev, *next;
	int kind;
	uint64_t id, probe_us;
	const char *method;
	char *members, *named, *inputs, *state;
	const struct mcpc_tool *tool;
	unsigned int rounds, pages;
	uint64_t *cursors; /* hashes of those that there were */
};

/* Let go of what came of it. */
void mcpc_request_done(struct mcpc_request *r);

/* --- the client ----------------------------------------------------------------------------------- */

enum mcpc_era { MCPC_ERA_NONE, MCPC_ERA_MODERN, MCPC_ERA_LEGACY };

struct mcpc {
	struct mcpc_way *way;
	struct mcpc_bounds bounds;
	const char *name, *version; /* what we are */
	enum mcpc_era era;
	char spoken[MCPC_VERSION]; /* the version that both speak; "": none yet */
	char server[128];          /* what it calls itself, and its version */
	struct mcpc_request *requests;
	unsigned int nrequests, strays;
	uint64_t next_id;
	char broken[MCPC_ERROR]; /* why nothing works any more; "": it does */
};

/* name and version of this program, which live as long. */
void mcpc_init(struct mcpc *c, struct mcpc_way *way, const struct mcpc_bounds *b, const char *name,
	       const char *version);
/* Requests that are under way end. */
void mcpc_done(struct mcpc *c);

/* Find out what the server speaks. Nothing else may be asked before this is done. */
void mcpc_connect(struct mcpc *c, struct mcpc_request *r, uint64_t now_us);
/* Its tools, all pages. */
void mcpc_list(struct mcpc *c, struct mcpc_request *r, uint64_t now_us);
/* Call one. arguments: a JSON object, or none. tool: as it was listed, and as long as the request lives; NULL: nothing is
 * known of it but its name. */
void mcpc_call(struct mcpc *c, struct mcpc_request *r, const char *name, struct json_text arguments,
	       const struct mcpc_tool *tool, uint64_t now_us);
/* Anything else. method is a constant; members: of params, without braces, may be empty; named: what the header Mcp-Name
 * repeats, or NULL. */
void mcpc_ask(struct mcpc *c, struct mcpc_request *r, const char *method, const char *members,
	      size_t n, const char *named, uint64_t now_us);
/* Ends it now; the server is told where that is the way. */
void mcpc_cancel(struct mcpc_request *r, const char *reason, uint64_t now_us);

/* --- for transports ------------------------------------------------------------------------------- */

/* A message has come. of: the request that it came in answer to, where the transport knows; else 0. */
void mcpc_take(struct mcpc *c, uint64_t of, const char *p, size_t n, uint64_t now_us);
/* Whether the answer to this is still to come. */
bool mcpc_is_open(const struct mcpc *c, uint64_t id);
/* There will be none. final: nor to any other that is like it. */
void mcpc_fail(struct mcpc *c, uint64_t id, bool final, uint64_t now_us, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* The server has gone, or cannot be spoken with: all that is under way fails, and all that is asked from here on. */
void mcpc_lost(struct mcpc *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* When to call mcpc_tick(), UINT64_MAX: never. */
uint64_t mcpc_deadline(const struct mcpc *c);
void mcpc_tick(struct mcpc *c, uint64_t now_us);

/* --- pieces --------------------------------------------------------------------------------------- */

/* A tool of a list by its name; NULL: there is none. */
const struct mcpc_tool *mcpc_tool_find(const struct mcpc_tools *t, const char *name);
/* "accept", with the defaults that the schema of a question names. false: it is no question that can be answered so. */
bool mcpc_elicit_defaults(struct json_text params, struct json *j);
/* Whether what a schema says about headers keeps the rules; otherwise why says which it does not. */
bool mcpc_headers_check(struct json_text schema, char why[MCPC_ERROR]);
/* A value for a header: as it is, or as =?base64?…?=. Ends in a NUL; to be freed. NULL: no memory. */
char *mcpc_header_value(const char *p, size_t n);
