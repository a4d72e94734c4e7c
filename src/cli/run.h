/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox run`: what was asked for, and the pieces that carry it out.
 *
 * run_opts.c fills the request from the command line; run.c goes through its phases; collect.c
 * brings files in and out; run_report.c says how it went.
 */
#pragma once

#include "base/json.h"
#include "cli/box_client.h"
#include "cli/net_words.h"
#include "wire/envtable.h"
#include "wire/ops.h"

#include <stdbool.h>
#include <stdio.h>

enum { RUN_FILES_MAX = 256, RUN_ENV_MAX = 1024, RUN_ROOTS_MAX = 32 };

struct run_file {
	char host[PATH_MAX];
	char box[PATH_MAX]; /* relative to /workspace */
	unsigned int mode;
};

struct run_request {
	/* what runs */
	const char *code;   /* --code: the program itself */
	const char *source; /* a file, or "-" */
	char **args;
	const char *interpreter; /* --interpreter */
	bool shell, tty, json, help;
	/* its surroundings */
	struct box_request box;
	uint64_t timeout_us;
	const char *stdin_file; /* "": our own standard input; NULL: none */
	const char *env[RUN_ENV_MAX + 1];
	unsigned int nenv;
	struct run_file files[RUN_FILES_MAX];
	unsigned int nfiles;
	const char *out_dir;
	const char *roots[RUN_ROOTS_MAX]; /* directories that may be mounted */
	unsigned int nroots;
	const char *mounts[BOX_MOUNTS_MAX]; /* as written, resolved when all roots are known */
	unsigned int nmounts;
	const char *cgroup;
	struct net_words net;
	const char *resolver;                       /* NULL: that of the machine */
	const char *environment, *environments_dir; /* NULL: the machine's own; the usual one */
	const struct env_row *made_of;              /* NULL: the machine's own */
	int env_fd;                                 /* that, for the keeper; -1: none */
};

/* What it is to be made of: q->made_of and q->env_fd. 0 or -1. */
int run_env_open(struct run_request *q, struct err *e);

/* Captured output, for --json. */
struct capture {
	uint8_t *buf;
	size_t len, cap;
};

struct run_result {
	struct job_exit exit;
	bool ran;      /* exit is filled */
	bool box_gone; /* the box ended under the program */
	enum gone_why why;
	int interrupted; /* signal that ended us, 0: none */
	struct box_figures figures;
	struct box_info info;
	struct capture out[2];
	char **files; /* what --out collected */
	unsigned int nfiles, nskipped;
	const char *refused[REFUSALS_MAX]; /* system calls; for --json */
	unsigned int nrefused;
};

/* run_opts.c */
int run_opts(struct run_request *q, int argc, char **argv, struct err *e);

/* collect.c */
int stage_bytes(struct box_client *b, const void *p, size_t n, const char *at, unsigned int mode,
		struct err *e);
int stage_file(struct box_client *b, const struct run_file *f, struct err *e);
struct snapshot;
/* What is in the workspace now; to be freed with snapshot_free(). */
int snapshot_take(struct box_client *b, struct snapshot **ret, struct err *e);
void snapshot_free(struct snapshot *s);
/* Make and open the directory for collected files. To be called before the program runs: it may be
 * able to write to where that directory lies, and put a link in its place. */
int collect_open(const char *dir, int *ret_fd, struct err *e);
/* Fetch what is new or changed since into that directory. */
int collect(struct box_client *b, const struct snapshot *before, int out, uint64_t max_bytes,
	    struct run_result *res, struct err *e);

/* run_report.c */
/* The exit status for a result; e is the error that stopped us, or NULL. */
int run_status(const struct run_result *res, const struct err *e);
void run_say(const struct run_request *q, const struct run_result *res);
/* -1: it could not be written. */
int run_json(const struct run_request *q, const struct run_result *res, const struct err *e);

/* --- run_net.c --- */

struct keeper_client;

/* On our standard error, where the program's is as well: what it was refused, and how that is allowed. */
void run_net_say(const struct keeper_client *k, FILE *f);
