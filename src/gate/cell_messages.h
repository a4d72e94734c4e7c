/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel says about a cell, as events of the log of its run (run.h), and what comes of them in the end.
 *
 * A kernel shares its process with user code: its bytes may be anything. Events are one line of JSON, written anew from
 * what it sent (wire/json_text.h). Members of an event, in this order:
 *
 *   display   display_id data metadata                    display_data
 *   update    the same                                    update_display_data
 *   result    the same, execution_count                   execute_result
 *   error     name value traceback                        error
 *   clear     wait                                        clear_output
 *   input     prompt password                             input_request
 *   comm      type content metadata buffers               comm_open, comm_msg, comm_close
 *   code      code execution_count                        execute_input
 *   reply     type content                                what ends a request, where somebody wants it whole
 *
 * Beside what is no JSON, what has not the form of Jupyter's protocol 5.3 is refused: a member that is missing or of
 * another type. Of a member that stands there twice the last one counts. But these are not worth a refusal, because a
 * user's honest code can cause them:
 *   - data of a type that is not JSON must be a string; a list of strings is joined, anything else is left out
 *   - a display_id may be a number, which becomes a string; anything else is none: null
 *   - metadata and buffers may be missing: they are empty then
 *   - an execution_count may be missing or any number: it is null if it is no integer of 64 bits
 */
#pragma once

#include "base/json.h"
#include "gate/run.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a kernel said: an event of a cell's log, as the members of a JSON object without its braces. */
struct cell_said {
	enum run_event event; /* RUN_EVENT_MAX: nothing that a log has */
	struct json members;  /* buf, len; json_done() by the caller, always */
	bool wait;            /* of RUN_CLEAR */
};

/* One whole message. 0; -EPROTO: no message of a kernel's; -ENOMEM. ret->members is initialised in any case, and of no
 * use after a failure. */
int cell_said(const char *p, size_t n, struct cell_said *ret);

enum cell_reply_status { CELL_REPLY_OK, CELL_REPLY_ERROR, CELL_REPLY_ABORTED };

struct cell_reply {
	enum cell_reply_status status;
	bool has_count;
	int64_t execution_count;
	bool has_error; /* of CELL_REPLY_ERROR, where the content says more */
	struct json
		error; /* members name, value, traceback, without braces; json_done() by the caller, always */
	bool interrupted; /* the error's name is KeyboardInterrupt */
};

/* The reply of an execute request, the last word about a cell. As above; ret->error is initialised in any case. */
int cell_replied(const char *p, size_t n, struct cell_reply *ret);
/* The reply of any request, as an event. */
int cell_reply_said(const char *p, size_t n, struct cell_said *ret);

/* --- cell_results.c --- */

/*
 * The output of a cell as its answer has it. Two things that events say are done by then:
 *   - an update replaces data and metadata of all that was displayed before it under its display_id
 *   - a clear drops what was put out before it, text too; one that waits does so when more is put out: text, a display,
 *     a result or an error
 * What displays an update many times over makes an answer of any size out of few bytes: from the second time on an
 * update is copied only as long as its copies take no more than RUN_OTHER_MAX bytes, the latest displays first. Others
 * stay as they were.
 *
 * Writes "results": displays and results, each with its "type" and the members of its event. With `outputs` also "outputs":
 * all of it in order as nbformat 4 has it, where text is a stream's whole piece between two other outputs; if the run is
 * base64, the base64 of its bytes. Text whose events are held no longer is a part of the next piece of its stream.
 * Out of memory: j->failed.
 */
void cell_put_results(const struct run *run, struct json *j, bool outputs);

/* How many bytes of a stream, 1 or 2, were cleared away: they are no part of the answer's text. */
size_t cell_text_from(const struct run *run, unsigned int stream);
