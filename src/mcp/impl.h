/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#pragma once

#include "mcp/mcp.h"

enum mcp_era { MCP_ERA_LEGACY = 1u << 0, MCP_ERA_MODERN = 1u << 1, MCP_ERA_ANY = 3 };

struct mcp_method {
	const char *name;
	enum mcp_era eras;
	bool (*there)(const struct mcp_table *t); /* whether the table has what it is about */
	const char *named;
	bool keep;
	void (*run)(struct mcp_call *c);
};

#define META_PREFIX "io.modelcontextprotocol/"

/* Legacy versions, the newest first; ends in NULL. */
extern const char *const mcp_legacy[];
/* Whether it is one of those. */
bool mcp_is_legacy(const char *version);

/* A member of an object, if it is of that type. */
const struct jsonr_node *member(const struct jsonr *d, const struct jsonr_node *o, const char *key,
				enum jsonr_type type);
/* Its text, or NULL. */
const char *member_text(const struct jsonr *d, const struct jsonr_node *o, const char *key);

/* --- server.c --- */

/* One more that is under way. NULL: no memory, or too many. */
struct mcp_call *call_new(struct mcp_server *s, const struct mcp_envelope *env, struct mcp_link *l);
/* Call the function of a call, again if answers have come. */
void call_step(struct mcp_call *c);
/* It has ended: let go of it. */
void call_free(struct mcp_call *c);
/* Nobody waits for an answer: tell its function, once. */
void call_cancel(struct mcp_call *c);
/* How many calls of an owner are under way, or listen. */
unsigned int calls_of(const struct mcp_server *s, const void *owner, bool listens);
bool table_has_changes(const struct mcp_table *t);
bool table_has_subscriptions(const struct mcp_table *t);

/* --- answer.c --- */

/* A text of JSON as a value. */
void put_json(struct json *j, const char *key, const char *text);
void answer_nothing(struct mcp_call *c);
/* {"jsonrpc":"2.0","method":…,"params":{ ; and its end. */
void notification_begin(struct json *j, const char *method);
void notification_end(struct json *j);
/* Send what is in j, which is released. */
bool link_send(struct mcp_link *l, struct json *j, bool droppable);
/* Refuse a message for which there is no call. id: JSON. */
void link_refuse(struct mcp_link *l, int status, const char *id, enum mcp_code code,
		 const char *data, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* Capabilities, as an object. */
void put_capabilities(const struct mcp_call *c, struct json *j);
/* What the server is, as an object. */
void put_server_info(const struct mcp_table *t, struct json *j, const char *key, bool title);
enum mcp_level level_named(const char *name);

/* --- input.c --- */

/* Answers and state of a modern request. 0, or -1: refused. */
int inputs_take(struct mcp_call *c);
/* The function has returned and wants something: ask. */
void inputs_ask(struct mcp_call *c);
/* A response of a client. Whether somebody had asked. */
bool inputs_answer(struct mcp_server *s, const struct mcp_session *se, const struct jsonr *doc,
		   const struct jsonr_node *root);
void inputs_done(struct mcp_call *c);

/* --- sessions.c --- */

/* The session that a message names. NULL: *ret_status says what is wrong. */
struct mcp_session *session_find(struct mcp_server *s, const struct mcp_envelope *env,
				 int *ret_status);
void session_initialize(struct mcp_call *c);
void session_set_level(struct mcp_call *c);
void session_subscribe(struct mcp_call *c);
/* Answer it, if there is an answer by now. */
void session_settle(struct mcp_call *c);
void session_unsubscribe(struct mcp_call *c);

/* --- listen.c --- */

/* As mcp_table.subscribed. */
int is_subscribed(const struct mcp_call *c, const char *uri);
void listen_start(struct mcp_call *c);
void listen_over(struct mcp_call *c);

/* --- lists.c --- */

void list_discover(struct mcp_call *c);
void list_tools(struct mcp_call *c);
void list_prompts(struct mcp_call *c);
void list_resources(struct mcp_call *c);
void list_templates(struct mcp_call *c);

/* --- calls.c --- */

void call_tool(struct mcp_call *c);
void call_prompt(struct mcp_call *c);
void call_read(struct mcp_call *c);
void call_complete(struct mcp_call *c);
