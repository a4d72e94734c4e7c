/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Environments as the gate knows them: what boxes can be made of. The machine's own is always there, and the first; the others are versions that the keeper
 * has told, by number. One that is told no more, or whose name has another version, stays for as long as a box has it.
 */
#pragma once

#include "gate/warm.h"
#include "wire/envtable.h"

struct gate;
struct req;
struct box_env;

struct genv {
	struct genv *next;
	struct gate *g;
	struct env_row row; /* id 0: the machine's own */
	const char *python; /* what runs it in a box; NULL: it has none */
	char *path;         /* "PATH=…" */
	char **variables;   /* further ones, up to NULL */
	unsigned int boxes; /* that have it */
	struct warm warm;
	struct deferred freed;
};

/* Before anything else: the machine's own. 0 or -1. */
int genvs_start(struct gate *g, struct err *e);
/* Ask the keeper which there are; done (may be NULL) follows. */
void genvs_ask(struct gate *g, void (*done)(struct gate *g));
struct genv *genv_own(const struct gate *g);
/* The one that a name means now; NULL: there is none. */
struct genv *genv_find(const struct gate *g, const char *name);
struct genv *genv_by_id(const struct gate *g, uint32_t id);
/* A box has it, or has it no more. */
void genv_take(struct genv *v);
void genv_give(struct genv *v);

/* The variables of whatever runs in a box of it: those of every program, then its own. box_env_done() follows in any case. 0 or -errno. */
int genv_begin(struct box_env *e, const struct genv *v);
/* Variables of programs in its boxes, "NAME=VALUE" up to NULL: they go before those of every program. */
const char *const *genv_variables(const struct genv *v);

/* GET /v1/environments, and one of them. */
void environments_list(struct req *r);
void environment_get(struct req *r);
