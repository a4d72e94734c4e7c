/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox invoke`, also `sandbox-run`: calls the handler of a script in a box, once.
 *
 *   invoke.c        the request, the server, the exit status
 *   invoke_opts.c   the command line
 *   invoke_print.c  what came of it, in three formats
 *
 * Exit statuses are the reference's: that of the handler (0; 1 it does not load, 2 it raised, 3 its result is not JSON, 6 it ended
 * without one, 7 there is no code), 2 for bad input, 4 for time that was over or a box that could not be had, 137 for who was killed, 130
 * after Ctrl-C, 1 for the rest.
 */
#pragma once

#include "cli/client_opts.h"
#include "wire/json_text.h"

enum invoke_status {
	INVOKE_OTHER = 1,
	INVOKE_INPUT = 2,
	INVOKE_NO_BOX = 4,
	INVOKE_INTERRUPTED = 130,
};

enum invoke_format { INVOKE_PRETTY, INVOKE_JSON, INVOKE_YAML };

struct invoke_opts {
	struct client_opts client; /* the first member, see there */
	const char *script;
	const char *event, *event_file, *context, *context_file;
	uint64_t timeout_ms; /* 0: it was not said */
	bool verbose, quiet, profile, version;
	const char *output;
	enum invoke_format format;
};

/* 0, or -1 with e set. */
int invoke_opts(struct invoke_opts *o, int argc, char **argv, struct err *e);
void invoke_help(void);

/* What the server answered, in parts. */
struct invoke_answer {
	struct json_text out, err, result, metrics;
	int64_t exit_code;
};

/* Tell it, to standard output or to the file. 0, or -errno. */
int invoke_print(const struct invoke_opts *o, const struct invoke_answer *a);
