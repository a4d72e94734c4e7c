/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a server of MCP is, as files of the common shape have it: {command, args, env | url, type, headers}, and ours: {cwd, limits, mounts} of
 * the box that a program runs in.
 *
 * ${NAME} in its texts is a variable, so that a file need not have secrets in it; one that is not set is an error.
 */
#pragma once

#include "base/limits.h"
#include "tools/way.h"
#include "wire/jsonr.h"

enum {
	SPEC_NAME = 65, /* of a server, with its NUL */
	SPEC_MOUNTS_MAX = 16,
	SPEC_PLACE = 256,
};

/* Texts that were put together, until all of them go. */
struct texts_own {
	char **v;
	unsigned int n;
};

/* What a variable says; NULL: there is none. */
typedef const char *spec_variable(void *arg, const char *name);

struct spec_mount {
	const char *root, *path, *at;
	bool writable;
};

struct spec {
	struct mcp_place place;
	char **argv, **env;
	const char *cwd; /* NULL: where programs of a box begin */
	bool typed;      /* which transport it is was said */
	uint64_t limits[LIMIT_ID_MAX];
	uint32_t limited; /* bit per limit: it was said */
	struct spec_mount mounts[SPEC_MOUNTS_MAX];
	unsigned int nmounts;
	struct texts_own own;
};

/* One of them. 0 or -1; spec_done() in any case. Nothing of d is kept. */
int spec_read(struct spec *s, const struct jsonr *d, const struct jsonr_node *n,
	      spec_variable *variable, void *arg, struct err *e);
void spec_done(struct spec *s);

/* Whether it can be the name of a server: a-z, A-Z, 0-9, '_', '-', '.'. */
bool spec_is_name(const char *name);

/* A text with its variables; kept in own. NULL: e. */
const char *spec_expand(struct texts_own *own, const char *text, spec_variable *variable, void *arg,
			struct err *e);
void texts_own_done(struct texts_own *own);
