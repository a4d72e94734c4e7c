/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `glovebox ipybox`: a box on two ports, for programs that are written for ipybox.
 *
 * ipybox_opts.c takes the command lines; ipybox_box.c makes, keeps and ends the box; ipybox.c has the verb and what else it
 * can do.
 */
#pragma once

#include "base/limits.h"
#include "cli/client_opts.h"
#include "cli/net_words.h"
#include "cli/server_near.h"
#include "wire/envtable.h"

enum { IPYBOX_ENV_MAX = 256, IPYBOX_BINDS_MAX = 16 };

struct ipybox_opts {
	struct client_opts o; /* the first member, see there */
	uint64_t executor_port, resource_port;
	struct limits limits;
	bool limit_set[LIMIT_ID_MAX];
	const char *env[IPYBOX_ENV_MAX]; /* NAME=VALUE */
	unsigned int nenv;
	const char *binds[IPYBOX_BINDS_MAX]; /* as written */
	unsigned int nbinds;
	struct net_words net;
	const char *environment; /* NULL: the machine's own */
};

struct ipybox_build_opts {
	struct client_opts o; /* the first member, see there */
	const char *tag, *dependencies;
	bool root;
	char **more; /* options of `glovebox env build`, up to NULL */
};

/* Of boxes that were made here, in their metadata. */
#define IPYBOX_MARK "made_by", "ipybox"

/* Command lines: 0, 1 where help was printed, or -1. */
int ipybox_serve_opts(struct ipybox_opts *q, int argc, char **argv, struct err *e);
int ipybox_build_opts(struct ipybox_build_opts *q, int argc, char **argv, struct err *e);
int ipybox_cleanup_opts(struct client_opts *o, int argc, char **argv, struct err *e);

/* A box until a signal comes, or until it is gone. 0 or -1. */
int ipybox_serve(const struct ipybox_opts *q, struct err *e);

/* ipybox_build.c. How to exit, or -1: e. */
int ipybox_build(const struct ipybox_build_opts *q, struct err *e);
/* The environment that a tag means; whether this machine has it. */
bool ipybox_environment(const char *tag, char ret[ENV_NAME]);
/* Whether a tag is the image that ipybox brings along, of whatever version: the machine's own programs stand for it. */
bool ipybox_is_own_image(const char *tag);

/* mcp.c: `ipybox mcp` is `glovebox mcp` with a box as ipybox has it. */
int ipybox_mcp(int argc, char **argv);
