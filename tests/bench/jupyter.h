/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jupyter's messages as this client needs them: a request to run a cell in both framings, and whether what is answered is right.
 */
#pragma once

#include "client.h"

#define JUPYTER_V1 "v1.kernel.websocket.jupyter.org"

struct slice {
	const char *p;
	size_t n;
};

struct member {
	const char *key;
	struct slice value; /* as it stands there; NULL: there is no such member */
};

/* Look up members of an object; false: it is none. What is looked up more than once is the last one. */
bool find_members(struct slice object, struct member *m, size_t n);
/* Whether a value is this text. */
bool is_text(struct slice value, const char *text);

/* What a cell must print: a piece, so many times. */
struct output {
	struct slice piece;
	uint64_t times;
};

/* One request, and what has come of its answer. */
struct cell {
	char id[64];
	bool v1;
	struct output output;
	uint64_t printed; /* bytes so far, each of them as it must be */
	bool replied, idle;
	char error[200]; /* what was wrong first */
};

/* Whether a framing is v1: "legacy", or "v1". */
bool is_v1(const char *framing);
/* A new request in FRAME_MAX bytes, with an id that no other has; its length. */
size_t put_cell(char *out, struct cell *c, bool v1, const char *session, struct slice content,
		const struct output *output);
/* A message of the server; whether that was the last one: reply and idle have come. */
bool hear(struct cell *c, int opcode, const char *p, size_t n);
/* Whether a cell of which everything was heard is right; otherwise its error says why not. */
bool is_right(struct cell *c);
