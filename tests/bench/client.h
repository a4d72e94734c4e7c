/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every part of the benchmark's client needs: connections to a server of this machine, heads of answers, output as JSON. What goes
 * wrong ends the program with a message.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ANSWER_MAX = 1 << 20, /* of a small request */
	CONNECTIONS_MAX = 1024,
	FAILURES_MAX = 100,
	PATIENCE_MS = 60 * 1000,
};

_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_ns(void);
uint64_t number(const char *text);

int connect_to(const char *port);
/* A whole file in memory that is never given back. */
const char *map(const char *path, size_t *ret_n);
bool send_all(int fd, const char *p, size_t n);
size_t recv_some(int fd, void *p, size_t n, int flags);

struct answer {
	int status;
	size_t head;     /* bytes up to the body */
	uint64_t length; /* of the body; UINT64_MAX: it does not say */
};

/* Whether the head is there whole. */
bool parse_head(const char *p, size_t n, struct answer *a);
/* Read a head into p; how many bytes came in all. */
size_t read_head(int fd, char *p, size_t size, struct answer *a);
/* Whether an answer to a small request is there whole, of which n bytes have come. */
bool parse_answer(const char *p, size_t n, struct answer *a);

/* What JSON cannot have inside of a text becomes an apostrophe. */
void print_text(const char *text);
/* "name": [numbers] */
void print_list(const char *name, const uint64_t *v, size_t n);

/* Verbs; the arguments follow the verb. See load.c. */
int do_paced(char **arg);
int do_sessions(char **arg);
int do_socket(char **arg);
