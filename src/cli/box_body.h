/* SPDX-License-Identifier: Apache-2.0 */
/* What a verb that makes a box writes into the body of its request: limits, environment, directories of this machine. */
#pragma once

#include "base/err.h"
#include "base/json.h"
#include "base/limits.h"

#include <limits.h>

/* Those that were set. */
void box_put_limits(struct json *j, const struct limits *l, const bool set[LIMIT_ID_MAX]);
/* NAME=VALUE each. */
void box_put_env(struct json *j, const char *const *env, unsigned int n);

struct box_bind {
	char root[PATH_MAX], path[PATH_MAX], at[PATH_MAX];
	bool read_only;
};

/* Whether a text is DIR:PATH[:ro]; option is its name, for the error. */
int box_bind_check(const char *option, const char *text, struct err *e);
/* Take such a text apart. What is relative in the box lies below base. ours: the server is our own, and has it of this machine, where it
 * is made if it is missing; another server's is ROOT[//PATH]:PATH[:ro]. */
int box_bind_take(const char *text, const char *base, bool ours, struct box_bind *ret,
		  struct err *e);
int box_put_binds(struct json *j, const char *const *texts, unsigned int n, const char *base,
		  bool ours, struct err *e);
