/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Code Interpreter dialect: what its handlers share. Translation only: the engine is oneshot.c, ci_sessions.c and
 * the store.
 */
#pragma once

#include "gate/gate.h"
#include "gate/oneshot.h"
#include "wire/fields.h"

enum { CI_BODY_MAX = 16 * 1024 * 1024, CI_FILES_MAX = 999 };

/* --- requests --- */

struct ci_file {
	struct field_str path, file_id, content, content_base64;
	int64_t mode;
};

struct ci_execute {
	struct field_str code, input;
	int64_t timeout_ms;
	bool timeout_set, last_line_interactive;
	struct field_list files;
};

struct ci_session {
	struct field_list files;
	int64_t ttl_seconds;
	bool ttl_set;
};

struct ci_bash {
	struct field_str cmd;
	int64_t timeout_ms;
	bool timeout_set;
};

extern const struct fields ci_execute_fields, ci_session_fields, ci_bash_fields;

/* A decoded body; lives in the request's own memory. */
struct ci_body {
	struct jsonr doc;
	struct fields_block mem;
};

/* Decode the body of a request. 0, or -1: answered (415, 422). */
int ci_decode(struct req *r, const struct fields *table, struct ci_body *b, void *out);
void ci_body_done(struct ci_body *b);

/* {"detail": text} */
void ci_detail(struct req *r, int status, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* --- files to be staged --- */

/* files[first…] from the list of a request: paths checked and put into their plainest form, base64 decoded. Strings
 * that had to be made are chained to *strings. 0, or -1: answered. */
struct ci_strings {
	struct ci_strings *next;
	char text[];
};
int ci_stage(struct req *r, const struct field_list *list, bool session, struct stage_file *files,
	     size_t *n, struct ci_strings **strings);
void ci_strings_free(struct ci_strings *s);
/* "./a//b/" to "a/b"; `to` has room for all of it. What is wrong with it, or NULL. */
const char *ci_plain_path(const char *from, char *to);
/* A string of n bytes that belongs to the chain, or NULL. */
char *ci_string(struct ci_strings **chain, size_t n);

/* --- executions --- */

/* What both execute routes make of their request. */
struct ci_run {
	struct ci_body body;
	struct ci_execute in;
	struct stage_file *files;
	struct ci_strings *strings;
	struct oneshot_spec spec;
};

/* Decode and check a request to execute. 0, or -1: answered. */
int ci_run_prepare(struct req *r, struct ci_run *run, enum operation op);
void ci_run_done(struct ci_run *run);
/* The parts of a spec that come from the configuration and not from the request. */
void ci_spec(struct gate *g, struct oneshot_spec *spec, uint64_t timeout_us, bool input_file);
/* Limits of a box of this dialect. */
void ci_limits(struct gate *g, struct box_request *q);
/* Environment of its programs. */
const char *const *ci_environment(void);
/* The same with TERM. */
const char *const *ci_tty_environment(void);

/* Answer a failure that came before anything was run, or instead of the answer. */
void ci_failure(struct req *r, const struct oneshot_failure *f, const struct oneshot_spec *spec);

/* A stream of a batch answer by the reference's rule: what is too long loses its end, and says so. */
void ci_put_stream(struct json *j, const char *key, struct buf *b, bool cut, uint64_t max);
/* "exit_code", "timed_out", "duration_ms" and "files", as both routes have them. */
void ci_put_exit(struct json *j, const struct job_exit *x);
void ci_put_files(struct json *j, const struct oneshot_result *res);
enum outcome ci_outcome(const struct job_exit *x);

/* --- handlers --- */

void ci_health(struct req *r);
void ci_ready(struct req *r);
void ci_metrics(struct req *r);
void ci_execute_run(struct req *r);
void ci_stream_run(struct req *r);
void ci_file_upload(struct req *r);
void ci_file_list(struct req *r);
void ci_file_get(struct req *r);
void ci_file_delete(struct req *r);
void ci_session_create(struct req *r);
void ci_session_delete(struct req *r);
void ci_session_bash(struct req *r);
void ci_session_tty(struct req *r);

/* Go on with a streaming run of another gate. 0, or -1: it cannot be. */
int ci_stream_adopt(struct gate *g, const struct box_info *info, const uint8_t *record, size_t n);
int ci_session_adopt(struct gate *g, const struct box_info *info, const uint8_t *record, size_t n);
