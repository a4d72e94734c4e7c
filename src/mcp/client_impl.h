/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the client half share. */
#pragma once

#include "mcp/client.h"

#define MCPC_META "io.modelcontextprotocol/"

enum mcpc_kind {
	MCPC_PROBE,       /* connecting: server/discover */
	MCPC_PROBE_AGAIN, /* the same, after the server has said which versions it speaks */
	MCPC_INITIALIZE,  /* connecting: the legacy era */
	MCPC_LIST,
	MCPC_CALL,
	MCPC_OTHER,
};

/* Codes that are acted on. */
enum {
	MCPC_E_NO_METHOD = -32601,
	MCPC_E_INVALID_PARAMS = -32602,
	MCPC_E_NO_VERSION = -32022,
};

/* --- client.c --- */

/* One more that is under way. false: it has ended. */
bool mcpc_begin(struct mcpc *c, struct mcpc_request *r, enum mcpc_kind kind, const char *method);
/* It has ended: done() is called. */
void mcpc_finish(struct mcpc_request *r, enum mcpc_outcome outcome);
void mcpc_finish_failed(struct mcpc_request *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* An answer to something of ours: a result, or an error. */
void mcpc_answered(struct mcpc_request *r, struct json_text result, struct json_text error,
		   uint64_t now_us);
/* With a NUL behind it. NULL: no memory. */
char *mcpc_copy(const char *p, size_t n);
/* Keep a value beyond the message that it came in. false: no memory, and the request has ended. */
bool mcpc_keep(struct mcpc_request *r, struct json_text t, struct json_text *ret);

/* --- client_connect.c --- */

void mcpc_probe_answered(struct mcpc_request *r, struct json_text result, struct json_text error,
			 uint64_t now_us);
void mcpc_initialize_answered(struct mcpc_request *r, struct json_text result);
/* It does not speak the modern era. */
void mcpc_fall_back(struct mcpc_request *r);

/* --- client_send.c --- */

/* Send it, with a new id. It may have ended when this returns. */
void mcpc_send_request(struct mcpc_request *r);
/* {"jsonrpc":"2.0","method":…,"params":{members}}; members may be NULL. */
void mcpc_send_notification(struct mcpc *c, const char *method, const char *members, bool opened);
/* The answer to a question. id: JSON. A result (object) or, where that is NULL, an error. */
void mcpc_send_answer(struct mcpc *c, struct json_text id, const struct json *result, int64_t code,
		      const char *text);
/* Members of params: what we are and can do, in the legacy initialize. */
void mcpc_put_client(const struct mcpc *c, struct json *j, const char *info,
		     const char *capabilities);

/* --- client_tools.c --- */

/* A page of the list has come. */
void mcpc_list_page(struct mcpc_request *r, struct json_text result, uint64_t now_us);
void mcpc_tools_done(struct mcpc_tools *t);
void mcpc_cut(struct json_text t, char *buf, size_t size);

/* --- client_headers.c --- */

struct mcpc_headers {
	struct mcpc_header v[MCPC_HEADERS_MAX];
	char *own[2 * MCPC_HEADERS_MAX];
	unsigned int n, nowned;
	bool failed;
};

/* name is a constant, or is copied where it has a prefix; value is written as mcpc_header_value() does. */
void mcpc_headers_add(struct mcpc_headers *h, const char *prefix, const char *name,
		      const char *value, size_t n);
/* What the schema says is to be repeated of these arguments. */
void mcpc_headers_params(struct mcpc_headers *h, struct json_text schema,
			 struct json_text arguments);
void mcpc_headers_done(struct mcpc_headers *h);

/* --- client_input.c --- */

/* A question of the server, in the legacy era. */
void mcpc_question(struct mcpc *c, struct json_text id, const char *method,
		   struct json_text params);
/* The result is "input_required": answer, and ask again. */
void mcpc_input_required(struct mcpc_request *r, struct json_text result);
