/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command lines from tables: one row per option; --help is printed from the same rows.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stdio.h>

enum opt_arg { OPT_NO_ARG, OPT_ARG, OPT_MAYBE_ARG };

struct opt {
	const char *name;
	char letter; /* 0: none */
	enum opt_arg arg;
	const char *arg_name;
	const char *doc;
	/* Take the option; 0 or -1 with e set. */
	int (*take)(void *ctx, const char *value, struct err *e);
	void (*more)(const struct opt *o, FILE *f); /* rest of its help; NULL: none */
};

/* Parse up to the first argument that is no option, or "--". Returns its index, or -1. */
int opts_parse(const struct opt *rows, unsigned int n, int argc, char **argv, void *ctx,
	       struct err *e);

void opts_help(const struct opt *rows, unsigned int n, FILE *f);

/* The value of an option that is a limit of boxes: 0, or -1 with e set. */
int opt_limit(enum limit_id id, const char *v, uint64_t *ret, struct err *e);
