/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environments: what boxes may show instead of the machine's own programs, or beside them. The supervisor finds them (src/cli/serve_envs.c), the keeper opens
 * them, the gate names them by their numbers. The machine's own has number 0 and is in no table.
 */
#pragma once

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ENVS_MAX = 32,
	ENV_NAME = 64, /* with its NUL */
	ENV_PATH = 256,
	ENV_IMPORTS = 1024,
	ENV_VARIABLES = 4096, /* of all of them, "NAME=VALUE" and NUL */
	ENV_VERSION_TEXT = 32,
	ENV_TABLE_MAX = ENVS_MAX * (ENV_NAME + 2 * ENV_PATH + ENV_IMPORTS + ENV_VARIABLES +
				    ENV_VERSION_TEXT + PATH_MAX + 64),
};

/* Where the packages of an environment are in a box. */
#define ENV_PLACE "/opt/environment"

enum env_kind {
	ENV_PACKAGES, /* the machine's own tree, and this one at ENV_PLACE */
	ENV_ROOT,     /* this one in place of the machine's own */
	ENV_KIND_MAX,
};

extern const char *const env_kind_str[ENV_KIND_MAX];

struct env_row {
	uint32_t id; /* of this version, never 0 */
	char name[ENV_NAME];
	enum env_kind kind;
	char python[ENV_PATH]; /* in a box; "": it has none */
	char path[ENV_PATH];   /* the variable PATH; "": as ever */
	char imports[ENV_IMPORTS];
	char variables[ENV_VARIABLES];
	size_t variables_len;
	char version[ENV_VERSION_TEXT]; /* of Python */
	bool cells;                     /* IPython is there */
	uint32_t pool;                  /* sessions made ahead */
	uint64_t bytes, made_ms;
	char tree[PATH_MAX]; /* on the host; "" for who need not know */
	bool gone;           /* only boxes that run still have it */
};

/* a-z, 0-9, '-', '_', '.', beginning with a letter or digit; and not one of the machine's own names. */
bool env_is_name(const char *name);
/* The machine's own: "default", "python", "python3". */
bool env_is_own(const char *name);

struct msg_out;
struct msg_in;

void env_row_put(struct msg_out *m, const struct env_row *r);
/* 0 or -EPROTO: it cannot be one. */
int env_row_get(struct msg_in *m, struct env_row *r);
