/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox env`: what boxes can be made of, beside the machine's own.
 *
 * env.c has the verb and what needs no box; env_fill.c what an environment is filled with; env_make.c a version from its beginning to its name; env_box.c what runs in a box, by `glovebox run`; boxed/ has the programs that run
 * there. The directory is envdir.h.
 */
#pragma once

#include "base/err.h"
#include "cli/envdir.h"
#include "cli/envtree.h"

#include <stdbool.h>

enum { ENV_RULES_MAX = 32, ENV_REQUIREMENTS_MAX = 256 };

#define ENV_BYTES_USUAL (UINT64_C(10) << 30)

struct env_opts {
	bool help, json, isolated, no_index;
	const char *dir; /* NULL: the usual one */
	const char *name;
	/* build */
	const char *requirements; /* a file; NULL: none */
	const char *words[ENV_REQUIREMENTS_MAX];
	unsigned int nwords; /* requirements, as words */
	const char *python, *index_url, *find_links, *imports;
	/* import */
	const char *source, *platform;
	/* both */
	const char *rules[ENV_RULES_MAX];
	unsigned int nrules;
	const char *resolver, *missing, *timeout, *memory;
	uint32_t pool;
	uint64_t bytes;
};

/* Another version of o->name, which fill() fills; then it is looked at in a box of its own, and named. 0, or how to exit: why has been said. */
int env_make(const struct env_opts *o, enum env_kind kind,
	     int (*fill)(const struct env_opts *o, const char *tree, struct env_row *row));

/* --- env_fill.c: for env_make() --- */

int env_fill_packages(const struct env_opts *o, const char *tree, struct env_row *row);
int env_fill_root(const struct env_opts *o, const char *tree, struct env_row *row);
/* What is wrong, and how to exit. */
int env_bad(const char *text, int sys);

/* --- env_box.c --- */

enum boxed_program { BOXED_BUILD, BOXED_IMPORT, BOXED_PROBE };

/* A program of boxed/, in a box. */
struct boxed {
	enum boxed_program program;
	const char *argument;     /* NULL: none */
	const char *const *words; /* and further ones, up to NULL; may be NULL */
	const char *input;        /* a file for its standard input; NULL: none */
	const char *const *more;  /* options of `glovebox run`, up to NULL; may be NULL */
	const char *environment;  /* what it runs in; NULL: the machine's own */
	const char *tree;         /* it can write to this, at ENV_PLACE; NULL: nothing */
	char *said;               /* what it printed, instead of showing it; NULL: it is shown */
	size_t size;
};

/* From here on a signal ends the program in the box, and we clean up behind it. */
void env_guard(void);
/* The signal by which we were asked to end; 0: none. */
int env_asked(void);
/* Whether what there is may stay; what is wrong has been said. */
bool env_fits(const struct env_opts *o, const char *tree, struct envtree_size *ret);
/* 0, or how to exit: why has been said. */
int env_run(const struct env_opts *o, const struct boxed *b);
