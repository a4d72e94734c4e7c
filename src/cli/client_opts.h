/* SPDX-License-Identifier: Apache-2.0 */
/* Which server a verb talks to: options that all of them have, the environment, and what is there without being told. */
#pragma once

#include "cli/http_client.h"
#include "cli/opts.h"

/* The first member of a verb's own options. */
struct client_opts {
	const char *url, *token, *token_file;
	bool json, help;
};

/* clang-format off */
#define CLIENT_ROWS \
	{ "url", 0, OPT_ARG, "URL", "the server: http://HOST:PORT, unix:/PATH [GLOVEBOX_URL, or the one of this machine]", client_take_url, NULL }, \
	{ "token-file", 0, OPT_ARG, "FILE", "its first line is the token [GLOVEBOX_TOKEN_FILE]", client_take_token_file, NULL }, \
	{ "token", 0, OPT_ARG, "TOKEN", "the token; others can see it in ps [GLOVEBOX_TOKEN]", client_take_token, NULL }, \
	{ "help", 'h', OPT_NO_ARG, NULL, "this text", client_take_help, NULL }
#define CLIENT_JSON_ROW(doc) { "json", 0, OPT_NO_ARG, NULL, doc, client_take_json, NULL }
/* clang-format on */

int client_take_url(void *ctx, const char *v, struct err *e);
int client_take_token(void *ctx, const char *v, struct err *e);
int client_take_token_file(void *ctx, const char *v, struct err *e);
int client_take_json(void *ctx, const char *v, struct err *e);
int client_take_help(void *ctx, const char *v, struct err *e);

/* Find the server. 0, and *c is to be released by client_done(); -1 with e set. *nobody: no URL was given, and none of ours
 * answers where one would be. */
int client_find(const struct client_opts *o, struct client *c, bool *nobody, struct err *e);

/* An id as the API takes it, or name:x; refused is what is neither. */
int box_name_check(const char *name, struct err *e);
