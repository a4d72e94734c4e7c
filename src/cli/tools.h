/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox tools`: what servers of MCP have, for a person and for scripts.
 *
 * tools.c has the verb; tools_opts.c the command lines; tools_config.c files that name servers; tools_args.c arguments of a call; tools_gen.c Python for
 * tools; tools_show.c and tools_save.c results. The way to a server is toolway.h.
 */
#pragma once

#include "cli/toolway.h"
#include "tools/spec.h"

enum { TOOLS_WORDS_MAX = 256, TOOLS_TIMEOUT_S = 60 };

enum tools_exit { TOOLS_OK, TOOLS_ERROR, TOOLS_USAGE, TOOLS_NO_SERVER };

struct tools_config {
	char *text; /* the file, spoilt */
	struct spec spec;
	struct texts_own own; /* what was put together besides */
};

struct tools_opts {
	bool help, json, accept, verbose, old, new;
	const char *config, *images;
	const char *out,
		*name; /* of Python for it: where, and what its package is called (NULL: as the server) */
	const char *named;    /* its name in the file; NULL: there is none */
	uint64_t timeout_us;  /* of each answer */
	char *const *program; /* behind "--"; NULL: none */
	struct mcp_place place;
	struct tools_config file;
	const char *words[TOOLS_WORDS_MAX]; /* without the server */
	unsigned int nwords;
};

/* A command line. 0; 1: help was printed; -1. tools_opts_done() in any case. */
int tools_opts(struct tools_opts *o, int argc, char **argv, const char *usage, struct err *e);
void tools_opts_done(struct tools_opts *o);
void tools_help(const char *usage);

/* The server of that name in a file {"mcpServers": {NAME: {command, args, env | url, type, headers}}}. */
int tools_config_read(struct tools_opts *o, const char *name, struct err *e);
void tools_config_done(struct tools_config *c);
/* ${NAME} from the environment; kept until tools_config_done(). NULL: e. */
const char *tools_expand(struct tools_config *c, const char *text, struct err *e);

/* Connect, and list. TOOLS_OK, or how to exit: why has been said. mcpc_request_done(list) in any case. */
int tools_fetch(const struct tools_opts *o, struct toolway *l, struct mcpc_request *list);

/* Arguments as words, by the schema of a tool: one JSON object, or key=value. 0 or -1. */
int tools_arguments(const char *const *words, unsigned int n, const struct mcpc_tool *tool,
		    struct json *j, struct err *e);

/* Python for tools: those that words name to standard output, else all of them as files. 0 or -1. */
int tools_gen(const struct tools_opts *o, const struct toolway *l, const struct mcpc_tools *t,
	      struct err *e);

/* --- for a person ---------------------------------------------------------------------------------- */

int tools_show_list(const struct mcpc_tools *t);
int tools_show_list_json(const struct mcpc_tools *t);
/* *is_error: the tool says so. images: where files go. */
int tools_show_result(const char *tool, struct json_text result, const char *images,
		      bool *is_error);
int tools_show_json(struct json_text t);
/* On standard error, if that is a terminal; NULL ends it. */
void tools_show_progress(const struct json_text *params);

/* Save what is base64 as a new file in a directory that is made if need be; its name is ours. 0 or -errno; path says where. */
int tools_save(const char *dir, const char *tool, const char *mime, struct json_text data,
	       char *path, size_t size);
