/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the own API as ordinary functions, for the verbs that make several of them. */
#pragma once

#include "cli/client_opts.h"

enum { BOX_PATH = 320 };

/* One call that has to succeed. 0: *r is to be released. -1: e says why, and *r is released. */
int api(struct client *c, const char *method, const char *path, const struct json *body,
	struct reply *r, struct err *e);

/* Whether the last call was refused because what it was about is not there, or not any more. */
bool api_is_gone(const struct client *c);

/* "/v1/boxes/BOX" and what follows. */
void api_path(char path[BOX_PATH], const char *box, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* A moment as the API writes it, in milliseconds since 1970; -1: none. And now. */
int64_t api_time_ms(const char *text);
int64_t api_now_ms(void);
/* How long it takes: "12s", "5m", "3h", "2d"; "-" if it is negative. */
const char *api_age(int64_t ms, char *buf, size_t size);

/* The client of a verb, whose server has to be there. */
int api_open(const struct client_opts *o, struct client *c, struct err *e);

/* Write a line of JSON, and free it. 0, or -errno: nobody takes it. */
int api_print_json(struct json *j);
/* The members of an object into one that is open. */
void api_put_members(const struct jsonr *d, const struct jsonr_node *object, struct json *j);
