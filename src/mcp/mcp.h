/* SPDX-License-Identifier: Apache-2.0 */
/* The server half of MCP, without a transport. See README.md. */
#pragma once

#include "base/json.h"
#include "wire/http1.h"
#include "wire/jsonr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MCP_ID_MAX = 256,        /* of a request, as JSON */
	MCP_SESSION_ID = 33,     /* with its NUL */
	MCP_VERSION = 16,        /* of a protocol */
	MCP_SESSIONS_MAX = 4096, /* of a server; of one owner an eighth of them */
	MCP_CALLS_MAX = 1024,    /* under way, likewise; with an owner's, listeners do not count */
	MCP_LISTENERS_MAX = 256, /* of one owner a half of them */
	MCP_SUBSCRIPTIONS_MAX = 64, /* of a session or listener */
	MCP_URI_MAX = 4096,
	MCP_INPUTS_MAX = 8, /* asked of the client for one call */
	MCP_STATE_MAX = 4096,
	MCP_CONTEXT = 96, /* with its NUL; a longer one is cut */
	MCP_PAGE = 50,    /* of a list */
	MCP_KEY = 32,
};

#define MCP_MODERN "2026-07-28"

/* Codes of JSON-RPC and of MCP. */
enum mcp_code {
	MCP_PARSE_ERROR = -32700,
	MCP_INVALID_REQUEST = -32600,
	MCP_NO_METHOD = -32601,
	MCP_INVALID_PARAMS = -32602,
	MCP_INTERNAL = -32603,
	MCP_NO_RESOURCE = -32002, /* of the legacy era */
	MCP_HEADER_MISMATCH = -32020,
	MCP_NO_CAPABILITY = -32021,
	MCP_NO_VERSION = -32022,
};

enum mcp_level {
	MCP_DEBUG,
	MCP_INFO,
	MCP_NOTICE,
	MCP_WARNING,
	MCP_ERROR,
	MCP_CRITICAL,
	MCP_ALERT,
	MCP_EMERGENCY,
	MCP_SILENT,
};

struct mcp_call;
struct mcp_link;
struct mcp_server;
struct mcp_session;

/* --- what there is ---------------------------------------------------------------------------- */

struct mcp_tool {
	const char *name, *title, *doc;
	const char *input;       /* JSON Schema, an object */
	const char *output;      /* the same for structuredContent; NULL: there is none */
	const char *annotations; /* members of an object; NULL: none */
	/* A parameter that a client repeats in a header, and what of that header follows "Mcp-Param-"; NULL: none. */
	const char *header_param, *header;
	/* A capability without which it cannot be called; NULL: none. */
	const char *capability;
	/* Call it: c->args is an object, or NULL. Ends by an answer, now or later, or by mcp_input() that has none yet. */
	void (*run)(struct mcp_call *c);
};

struct mcp_argument {
	const char *name, *doc;
	bool required;
};

struct mcp_prompt {
	const char *name, *title, *doc;
	const struct mcp_argument *args;
	unsigned int nargs;
	void (*run)(struct mcp_call *c);
};

struct mcp_template {
	const char *name, *uri, *doc, *mime;
};

struct mcp_table {
	const char *name, *title, *version, *instructions;
	const struct mcp_tool *tools;
	unsigned int ntools;
	const struct mcp_prompt *prompts;
	unsigned int nprompts;
	const struct mcp_template *templates;
	unsigned int ntemplates;
	bool tools_change, prompts_change, resources_change; /* lists can become others */
	/* Each answers. NULL: there are no resources, or no completion. */
	void (*resources)(struct mcp_call *c); /* resources/list, from c->cursor on */
	void (*read)(struct mcp_call *c);      /* resources/read of c->uri */
	void (*complete)(struct mcp_call *c);  /* completion/complete */
	/* Whether updates of a resource can be told, now that somebody wants to hear of them; may be NULL: never. Each true is followed
	 * by one unsubscribe(). */
	bool (*subscribe)(struct mcp_server *s, const void *owner, const char *uri);
	void (*unsubscribe)(struct mcp_server *s, const void *owner, const char *uri);
	/* Whether updates are told by now: 1 yes, -1 they never will be, 0 that takes a moment, and mcp_settled() follows. May be NULL: yes. */
	int (*subscribed)(struct mcp_server *s, const void *owner, const char *uri);
	/* A session is over: what belongs to it may go. May be NULL. */
	void (*session_over)(struct mcp_session *se);
	/* A session that is not known, by its name: whether it is to be one, after a restart. May be NULL. */
	bool (*session_known)(struct mcp_server *s, const void *owner, const char *id);
};

/* --- the server ------------------------------------------------------------------------------- */

struct mcp_server {
	const struct mcp_table *table;
	void *arg;            /* of whoever has the table */
	uint8_t key[MCP_KEY]; /* random: seals states */
	struct mcp_session *sessions;
	unsigned int nsessions;
	struct mcp_call *calls;
	unsigned int ncalls, nlisteners;
	uint64_t next_id; /* of what is asked of clients */
};

void mcp_init(struct mcp_server *s, const struct mcp_table *table, void *arg,
	      const uint8_t key[MCP_KEY]);
/* Ends all sessions and calls. */
void mcp_done(struct mcp_server *s);

/* --- for transports --------------------------------------------------------------------------- */

/* Where the answer to one message goes. Part of something larger. What is called here does not call the server back: some other call
 * may be in the middle of something. */
struct mcp_link {
	/* A message that is not the last one: a notification, or a question; n == 0: the first of them comes later. false: it was not taken. */
	bool (*send)(struct mcp_link *l, const char *p, size_t n, bool droppable);
	/* The last one, with a status of HTTP. n == 0: there is none. Nothing is called after this. */
	void (*end)(struct mcp_link *l, int status, const char *p, size_t n);
	/* Of an initialize: the session that was made, to be told before the end. */
	void (*session)(struct mcp_link *l, const char *id);
	struct mcp_call *call; /* ours; NULL: it has ended */
};

struct mcp_envelope {
	const void *owner;
	uint64_t now_us;
	struct http_slice context; /* for functions of the table: what a message is about */
	/* The text of a header, or an empty slice. NULL: there are no headers, and none are missed. */
	struct http_slice (*header)(const void *arg, const char *name);
	const void *arg;
};

/* A message. The text may be changed and must live until the link's end; free() is how it goes, and it is ours from here on. */
void mcp_take(struct mcp_server *s, const struct mcp_envelope *env, struct mcp_link *l, char *text,
	      size_t n);
/* The client of a link has left: what it waits for is not needed any more. */
void mcp_left(struct mcp_link *l);
/* A client wants to hear what its session is told: GET. */
void mcp_hear(struct mcp_server *s, const struct mcp_envelope *env, struct mcp_link *l);
/* DELETE of a session. The status to answer with. */
int mcp_end_session(struct mcp_server *s, const struct mcp_envelope *env);

/* --- sessions --------------------------------------------------------------------------------- */

struct mcp_session {
	struct mcp_session *next;
	struct mcp_server *s;
	const void *owner;
	char id[MCP_SESSION_ID];
	char version[MCP_VERSION];
	char client[128]; /* what it calls itself */
	enum mcp_level level;
	bool can_sample, can_elicit, can_roots;
	uint64_t used_us;
	struct mcp_call *hearing; /* its GET stream, or NULL */
	char *uris[MCP_SUBSCRIPTIONS_MAX];
	unsigned int nuris;
	char work[MCP_CONTEXT]; /* of the table's: "" at first */
};

void mcp_session_end(struct mcp_session *se);

/* --- for functions of a table ----------------------------------------------------------------- */

struct mcp_input {
	char *key, *method, *params;
	char id[24];                     /* of the question that was asked; "": none was */
	char *text;                      /* of the answer */
	struct jsonr own;                /* taken apart, if it came as a message of its own */
	const struct jsonr *doc;         /* where the answer is */
	const struct jsonr_node *answer; /* NULL: it is not there yet, or was refused */
	bool refused;                    /* the client answered with an error */
};

struct mcp_call {
	struct mcp_server *s;
	struct mcp_link *link;
	struct mcp_call *prev, *next;
	struct mcp_session *session; /* NULL in the modern era */
	const void *owner;
	uint64_t now_us; /* when it came */
	char context[MCP_CONTEXT];
	bool modern;
	const struct mcp_method *method;
	char *text;
	struct jsonr doc;
	const struct jsonr_node *params, *args, *meta, *capabilities;
	char id[MCP_ID_MAX]; /* as JSON; "": of a notification */
	enum mcp_level level;
	const struct jsonr_node *progress; /* its token */
	const struct mcp_tool *tool;
	const struct mcp_prompt *prompt;
	const char *uri;    /* resources/read */
	const char *cursor; /* of a list; "": from its beginning */
	struct mcp_input inputs[MCP_INPUTS_MAX];
	unsigned int ninputs, nwanted; /* wanted: those that have no answer */
	char *state;                   /* what mcp_state() said last time; NULL: nothing */
	char *next_state;
	bool inside; /* its function is being called */
	bool over;   /* it has ended meanwhile: to be freed when its function returns */
	/* Of a listener. */
	bool listens, tools, prompts, resources;
	bool settles; /* it waits until it is subscribed to all that it wants */
	bool missed;  /* something has changed meanwhile */
	char *uris[MCP_SUBSCRIPTIONS_MAX];
	unsigned int nuris;
	/* The function's own. cancel() is called at most once, when nobody waits for an answer any more: no answer is given then. */
	void *work;
	void (*cancel)(struct mcp_call *c);
};

/* An argument by its name, of a type; NULL: there is none. */
const struct jsonr_node *mcp_arg(const struct mcp_call *c, const char *name, enum jsonr_type type);

/* The answer: begin, write members of the result, end. The last thing that a function does with its call. */
void mcp_result_begin(struct mcp_call *c, struct json *j);
void mcp_result_end(struct mcp_call *c, struct json *j);
/* The result of a tool that is one text. */
void mcp_text(struct mcp_call *c, bool is_error, const char *p, size_t n);
void mcp_textf(struct mcp_call *c, bool is_error, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* An error of the protocol. data: a JSON value, or NULL. */
void mcp_error(struct mcp_call *c, enum mcp_code code, const char *data, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* There is no such resource. */
void mcp_no_resource(struct mcp_call *c);

/* How far it is, if somebody wants to know: thousandths. text may be NULL. */
void mcp_progress(struct mcp_call *c, uint64_t done, uint64_t total, const char *text);
/* For the log of the client. data: a JSON value. */
void mcp_log(struct mcp_call *c, enum mcp_level level, const char *logger, const char *data);

/* What the client answers to a question (params: a JSON object); NULL: it is not there yet. Then, when all that are wanted were asked
 * for, the function returns without an answer, and is called again. */
const struct mcp_input *mcp_input(struct mcp_call *c, const char *key, const char *method,
				  const char *params);
/* Whether the client can do that: "sampling", "elicitation", "roots". */
bool mcp_can(const struct mcp_call *c, const char *capability);
/* What is to be known the next time. */
void mcp_state(struct mcp_call *c, const char *text);

/* --- changes ---------------------------------------------------------------------------------- */

enum mcp_list { MCP_TOOLS, MCP_PROMPTS, MCP_RESOURCES };

/* A list is another one; owner NULL: for everybody. */
void mcp_changed(struct mcp_server *s, const void *owner, enum mcp_list what);
/* What subscribed() says of a resource is another thing now. */
void mcp_settled(struct mcp_server *s, const void *owner, const char *uri);
/* A resource is another one: who has subscribed to it is told. */
void mcp_updated(struct mcp_server *s, const void *owner, const char *uri);
