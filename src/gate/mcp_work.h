/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of MCP about a box: what is asked of the own API's handlers for it, one request after the other. Such a request has no connection; its answer comes
 * back here (req.h: via), and a refusal of theirs is an error of the tool, in their words.
 *
 * Which box: the one that the call names; else the one that the connection has (header Glovebox-Box); else that of its session; else a
 * new one. The box of a session is known by its metadata, so the next gate finds it, too.
 */
#pragma once

#include "gate/boxes.h"
#include "gate/mcp.h"
#include "wire/json_text.h"

#define MCP_BOX_KEY "mcp.session"
#define MCP_BOX_DOC \
	"which box: what create_box returned, or name:x; without, the one of this connection"

enum { MCP_BOX_NAME = MCP_CONTEXT }; /* an id, or name:x */

struct mcp_work {
	struct req r; /* its first member */
	struct run_reader rd;
	struct gate *g;
	struct mcp_call *c; /* NULL: nobody waits for it any more */
	/* What it is asked: fields of a table, which point into this. */
	void *in;
	char *args;
	struct ci_body body;
	const struct field_str *box_in; /* the member that names a box */
	char box[MCP_BOX_NAME];
	bool made;  /* there was none, and the client has to be told of it */
	bool waits; /* for another call that makes the box of the same session */
	bool making;
	/* The box is there. */
	void (*go)(struct mcp_work *w);
	/* An answer, if it was not a refusal. */
	void (*replied)(struct mcp_work *w, const char *body, size_t n);
	/* What was started has ended. */
	void (*ran)(struct mcp_work *w, struct run *run);
	/* Some of what a function needs besides: released by free(). */
	void *extra;
	void (*left)(void *arg);
	void *left_arg;
	uint64_t told_us;
	struct deferred deferred;
};

/* Decode the arguments of a tool; `box_at` is where in the struct its box is. NULL: answered. */
struct mcp_work *mcp_work_new(struct mcp_call *c, const struct fields *table, size_t box_at,
			      void (*go)(struct mcp_work *w));
/* With the box that it is about, which is made if there is none: go(). */
void mcp_work_begin(struct mcp_work *w);
/* The box that it would be about, if there is one; go() is called only then. */
bool mcp_work_find_box(struct mcp_work *w);
/* Whether the box that it names is there, and ready. */
bool mcp_work_has_box(const struct mcp_work *w);
/* A box of a tenant that is ready, by its id or as name:x; NULL: there is none. */
struct abox *mcp_box(const struct gate *g, const struct tenant *t, const char *name);
/* That of a session, by what is known of it; by its id. NULL: it has none. */
struct abox *mcp_session_box(const struct gate *g, const struct mcp_session *se);
struct abox *mcp_box_of_session(const struct gate *g, const struct tenant *t, const char *id);
/* Ask a handler: the body goes to the request. */
void mcp_work_ask(struct mcp_work *w, void (*handler)(struct req *r), struct json *body);

/* Answers. The work is over then. */
struct mcp_call *mcp_work_end(struct mcp_work *w);
void mcp_work_fail(struct mcp_work *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Another content block that says which box it was, where the client does not know. */
void mcp_work_put_box(const struct mcp_work *w, struct json *j);
/* A member of an answer of theirs. */
struct json_text mcp_get(struct json_text object, const char *key);
void mcp_put_text(struct json *j, const char *p, size_t n);

/* The box and path of a URI. false: it is none of ours. */
bool mcp_take_uri(const char *uri, char box[MCP_BOX_NAME], char path[MCP_URI_MAX]);

/* --- functions of the table --- */

bool mcp_watch_add(struct mcp_server *s, const void *owner, const char *uri);
int mcp_watch_state(struct mcp_server *s, const void *owner, const char *uri);
void mcp_watch_remove(struct mcp_server *s, const void *owner, const char *uri);
void mcp_cell(struct mcp_call *c);
void mcp_command(struct mcp_call *c);
void mcp_install(struct mcp_call *c);
void mcp_register(struct mcp_call *c);
void mcp_reset(struct mcp_call *c);
void mcp_create_box(struct mcp_call *c);
void mcp_fork_box(struct mcp_call *c);
void mcp_delete_box(struct mcp_call *c);
void mcp_list_files(struct mcp_call *c);
void mcp_read_file(struct mcp_call *c);
void mcp_write_file(struct mcp_call *c);
void mcp_resources(struct mcp_call *c);
void mcp_resource(struct mcp_call *c);
void mcp_complete(struct mcp_call *c);

extern const char mcp_register_schema[];
extern const struct fields mcp_cell_fields, mcp_command_fields, mcp_install_fields,
	mcp_reset_fields, mcp_create_fields, mcp_fork_fields, mcp_delete_fields, mcp_list_fields,
	mcp_read_fields, mcp_write_fields;
