/* SPDX-License-Identifier: Apache-2.0 */
/* Clients of a gate, and boxes for them; see test_gate_http.c. */
#pragma once

#include "test_gate.h"

extern char answer[1 << 20];
extern struct chan_msg message;

/* A connection to the gate. */
int client(void);
/* Send a request; "`" in its body is '"'. */
void ask(int c, const char *line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void ask_with_key(int c, const char *line, const char *key, const char *text);
/* What has come so far: the status, 0 for nothing; the text is in `answer`. */
int heard(int c);
bool says(const char *text);
/* The keeper's next message of that type; others are answered. */
bool keeper_gets(uint16_t type, struct chan_msg *m);
/* A box for who asked for one: init's end of its stream. */
int make_box(void);
/* A box that is ready, asked for by c: init's end of its stream. The keeper's record of it is in `message`. */
int ready_box(int c, const char *body);
/* The id of the last job that init is asked for; 0: none. Its argv[0] must be this one. */
uint64_t asked_to_run(int box, const char *program);
/* The client leaves, the box ends, and nothing is left. */
void finish(int c, int box);

#define CHECK_SAYS(text)                                                             \
	do {                                                                         \
		if (!says(text))                                                     \
			test_fail(__FILE__, __LINE__, "no %s in\n%s", text, answer); \
		test_count();                                                        \
	} while (0)
