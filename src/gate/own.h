/* SPDX-License-Identifier: Apache-2.0 */
/* What the calls of our own API share: refusals by a table, bodies, ids, times. */
#pragma once

#include "gate/ci.h"
#include "gate/run.h"

enum own_error {
#define ERROR(id, status, code, hint) OWN_##id,
#include "gate/errors.tbl"
#undef ERROR
	OWN_ERROR_MAX
};

enum {
	OWN_ID = RUN_ID, /* 26 characters of base32; the first 4 name the node */
	OWN_TIME = 32,
	OWN_BODY_MAX = 256 * 1024,
};

/* Refuse. field may be NULL. */
void own_refuse(struct req *r, enum own_error code, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The same with further members in the error: pairs of key and text (NULL: null) up to NULL. */
void own_refuse_with(struct req *r, enum own_error code, const char *field,
		     const char *const *pairs, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));

/* Its status. */
int own_status(enum own_error code);

/* Decode the body of a request; none at all is an empty object. 0, or -1: answered. */
int own_decode(struct req *r, const struct fields *table, struct ci_body *b, void *out);

/* A number of the query: *ret stays where it is not there. 0, or -1: answered. */
int own_query_u64(struct req *r, const char *key, uint64_t min, uint64_t max, uint64_t *ret);

/* Make the node's part of all ids, from the configuration or the host's name. Before the gate is confined. */
void own_node(struct gate *g);
/* A fresh id: later ones sort behind earlier ones. 0 or -errno. */
int own_id(struct gate *g, char id[OWN_ID]);
/* The id of a job in a box: always the same, so nobody needs to keep it. */
void own_job_id(const struct gate *g, const char *box, uint64_t job, char id[OWN_ID]);

/* Milliseconds since 1970. */
uint64_t own_now_ms(void);
/* RFC 3339, UTC, with milliseconds. */
void own_time_text(char text[OWN_TIME], uint64_t unix_ms);
void own_time(struct json *j, const char *key, uint64_t unix_ms);
