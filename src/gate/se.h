/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Sandbox Runtime dialect, below /workspace/se: what its handlers share. Translation only, as the other dialects are.
 *
 *   se.c           limits and environment of its boxes
 *   se_answers.c   answers and refusals, and the words of a request: session, path, body
 *   se_sessions.c  sessions: a session is a box of the own API, made by whoever uses its name first
 *   se_queue.c     what is run in a session: one after the other, as commands of its box
 *   se_execute.c   execute and execute_code: what there is to be run
 *   se_script.c    files from what is in memory: a script, and what create is given
 *   se_variables.c the variables of a script that were asked for
 *   se_files.c     create, upload, download, preview, files, status
 *   se_read.c      readfile
 *   se_decode.c    texts that are not in UTF-8
 *   se_efast.c     download_from_efast; se_efast_fetch.c: one document of it
 *   se_handler.c   v2/execute_code: a function of the caller's, called once, in a fresh interpreter
 */
#pragma once

#include "gate/ci.h"
#include "wire/ops.h"

#include <limits.h>

enum {
	SE_NAME = 256,                       /* of a session, with its NUL */
	SE_QUEUE_MAX = 64,                   /* executions that wait for one session */
	SE_FILES_DEPTH = 3,                  /* segments of /workspace/se/files */
	SE_VARIABLES_MAX = 16 * 1024 * 1024, /* bytes of output_variables */
};

#define SE_MOUNT_POINT "/workspace"

struct abox;

/* --- se.c --- */

/* Limits of a box of this dialect. */
void se_limits(struct gate *g, struct box_request *q);
/* Environment of its programs: /workspace is their home, too. */
const char *const *se_environment(void);

/* --- se_answers.c --- */

enum se_error {
#define SE_ERROR(id, status, message) SE_##id,
#include "gate/se_errors.tbl"
#undef SE_ERROR
	SE_ERROR_MAX
};

/* "detail" of a refusal, into an object. */
void se_put_error(struct json *j, const char *message, const char *detail);
void se_refuse(struct req *r, enum se_error e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int se_status_of(enum se_error e);
const char *se_message_of(enum se_error e);

/* Answer 200 with an object, which is released: its members, and once more under "result", where older clients look. */
void se_answer(struct req *r, struct json *j);

/* The rest of a path is a session and nothing else. 0, or -1: answered. */
int se_take_name(struct req *r, char name[SE_NAME]);
/* The same with the path of a directory behind it, which may be empty; or with that of a file. */
int se_take_directory(struct req *r, char name[SE_NAME], char path[PATH_MAX]);
int se_take_file(struct req *r, char name[SE_NAME], char path[PATH_MAX]);
/* The name of a file that is decoded already. 0, or -1: answered. */
int se_take_filename(struct req *r, const char *text, size_t n, char path[PATH_MAX]);

/* Where a path of a client leads, below the workspace: "//a/./b/" to "a/b". NULL, or what is wrong with it. */
const char *se_join(const char *from, size_t n, char to[PATH_MAX]);
/* "100M", as mount has it; a percentage is one of max. 0, or -EINVAL. */
int se_size(const char *text, uint64_t max, uint64_t *ret);
/* A number of the query, if it is there. 0, or -1: answered. */
int se_query_u64(struct req *r, const char *key, uint64_t *ret);
/* The same for what is true or false. */
int se_query_bool(struct req *r, const char *key, bool *ret);
/* What is behind the last dot of a file's name, or NULL. */
const char *se_extension(const char *path);

/* --- se_sessions.c --- */

/* What a session is called; NULL: this box is none. */
const char *se_name(const struct abox *a);
/* One that is there and can be used, or NULL. */
struct abox *se_find(const struct gate *g, const struct tenant *t, const char *name);
/* The session of this name, which is made if there is none: ready() is called with it, perhaps at once. Else the request is answered, or its
 * client has left; drop() is called then, and may be NULL. */
void se_with(struct req *r, const char *name,
	     void (*ready)(void *arg, struct req *r, struct abox *a), void (*drop)(void *arg),
	     void *arg);

/* --- se_queue.c --- */

struct se_exec;

/* How executions differ. Each step must end in the call that is named with it. */
struct se_steps {
	/* Before it is run: se_exec_run() or se_exec_refuse(). NULL: nothing. */
	void (*before)(struct se_exec *x);
	/* Its words, which live until the next call, and what it is, for lists. */
	const char *const *(*argv)(struct se_exec *x, const char **ret_summary);
	/* It has ended: se_exec_answer(). NULL: nothing. */
	void (*after)(struct se_exec *x);
	/* Members of the answer besides those of all; may be NULL. */
	void (*put)(const struct se_exec *x, struct json *j);
	void (*free)(struct se_exec *x);
};

/* Part of a larger struct, its first member; zeroed but for steps and body. */
struct se_exec {
	struct run_reader rd; /* of its command, from the moment that it runs */
	const struct se_steps *steps;
	struct gate *g;
	struct abox *a; /* NULL: it has ended, or its box has */
	struct req *r;  /* NULL: its client has left, or was answered */
	struct se_exec *next;
	struct task *task;
	bool ran;
	char *text; /* the body of its request, into which the rest of it points */
	size_t text_len;
	struct ci_body body;
	char program[256];
	struct deferred deferred;
};

/* It waits for its turn, or is refused. */
void se_exec_new(struct se_exec *x, struct req *r, struct abox *a);
void se_exec_run(struct se_exec *x);
void se_exec_answer(struct se_exec *x);
/* It is not run. Its client may have left. */
void se_exec_refuse(struct se_exec *x, enum se_error e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Whether something runs or waits in a session. */
bool se_is_busy(const struct abox *a);
/* The box has ended, and with it what ran and waited. */
void se_end(struct abox *a);

/* --- handlers --- */

void se_healthy(struct req *r);
void se_handler(struct req *r);
void se_session_create(struct req *r);
void se_session_delete(struct req *r);
void se_workspaces(struct req *r);
void se_cleanup(struct req *r);
void se_execute(struct req *r);
void se_execute_code(struct req *r);
void se_create(struct req *r);
void se_upload(struct req *r);
void se_download(struct req *r);
void se_preview(struct req *r);
void se_list(struct req *r);
void se_list_here(struct req *r);
void se_status(struct req *r);
void se_readfile(struct req *r);
void se_efast(struct req *r);

extern const struct fields se_session_fields, se_cleanup_fields, se_execute_fields, se_code_fields,
	se_create_fields, se_efast_fields;
