/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong, for a person at the end: a kind, an errno and one line of text.
 *
 * An error lives on the caller's stack and never allocates. Library code returns -errno instead
 * and never logs; struct err is for operations whose failure is shown to somebody.
 */
#pragma once

#include <stdbool.h>

enum err_kind {
	ERR_NONE,
	ERR_USAGE, /* the command line or request is wrong */
	ERR_INPUT, /* a named file, directory or value cannot be used */
	ERR_LAYER, /* this machine lacks an isolation layer that was not waived */
	ERR_SYS,   /* the kernel refused something that we need */
	ERR_PROTO, /* a peer broke the protocol */
	ERR_LIMIT, /* a bound of ours was reached */
	ERR_KIND_MAX,
};

enum { ERR_TEXT = 512, ERR_HINT = 256 };

struct err {
	enum err_kind kind;
	int sys; /* errno of the cause, 0 where there is none */
	char text[ERR_TEXT];
	char hint[ERR_HINT]; /* what to do about it; may be empty */
};

/* Fill *e and return -1. The text gets ": strerror(sys)" appended when sys is not 0. */
int err_set(struct err *e, enum err_kind kind, int sys, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Put "context: " in front of the text. Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Say what to do about it. Returns -1. */
int err_hint(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Name of a kind, as it appears in JSON. */
const char *err_kind_str(enum err_kind kind);
