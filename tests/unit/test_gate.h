/* SPDX-License-Identifier: Apache-2.0 */
/* A gate whose keeper, store and boxes are sockets that the test holds; see test_gate.c. */
#pragma once

#include "gate/gate.h"

enum { BOX = 5, JOB = 77 };

extern struct gate g;
extern int keeper, store; /* their ends */
extern bool may_log;      /* an error of the gate is no failure of the test */

void gate_open(void);
void gate_close(void);
/* One wait for events and what they bring about, or a moment in which there is none. */
void turn(void);
/* What that much time brings about, without events. */
void pass(uint64_t us);

/* What init says. */
void say(int box, uint16_t type, uint64_t id, uint64_t number, const void *p, size_t n);
void say_hello(int box);
void say_refused(int box, uint64_t id);
void say_exit(int box, uint64_t id);
void say_output(int box, uint64_t id, uint64_t number, const char *text);
