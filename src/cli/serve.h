/* SPDX-License-Identifier: Apache-2.0 */
/* What `glovebox serve` opens for the processes that it starts. */
#pragma once

#include "base/config.h"
#include "base/err.h"
#include "cli/envdir.h"
#include "wire/envbuild.h"

enum { LISTENERS_MAX = 16 };

struct listen_socket {
	int fd;
	char url[160];  /* http://127.0.0.1:8000, unix:/path */
	char path[108]; /* of a Unix socket, to be removed */
};

struct listeners {
	struct listen_socket v[LISTENERS_MAX];
	unsigned int n;
};

/* Open every listener of the configuration. An address that is taken: e says by whom. */
int listeners_open(struct listeners *l, const struct config *c, struct err *e);
void listeners_close(struct listeners *l);

enum { SERVE_WAY = 64 };

/* Where each place is that the server may speak to, in the order of endpoints_read(): ADDRESS:PORT, or "" where that is not known,
 * which is said. How many, or -1. */
int serve_ways(const struct config *c, char addresses[][SERVE_WAY], struct err *e);

/* ADDRESS:PORT of a place. 0, or an error of getaddrinfo(). */
struct endpoint;
int serve_look_up(const struct endpoint *p, char address[SERVE_WAY]);

/* What the tools process is to know, in a file that nobody can change: servers, variables, and places, whose addresses are told in the same order. 0 or -1. */
struct tool_settings {
	int fd;
	char ways[64][SERVE_WAY];
	int nways;
};
int serve_tools(const struct config *c, struct tool_settings *ret, struct err *e);

/* Whether the rules of ci_allow are rules, box_net_rate a rate, and secrets described as they should be. */
int serve_rules(const struct config *c, struct err *e);

/* What egress is to put into requests (src/egress/secrets.c), fetched anew each time, in a file that nobody can change. The same seed makes the same authorities of boxes. 0 or -1. */
enum { SERVE_SEED = 32 };
int serve_secrets(const struct config *c, const uint8_t seed[SERVE_SEED], int *ret_fd,
		  struct err *e);

/* What boxes can be made of beside the machine's own. */
struct environments {
	struct envdir dir;
	int watch_fd;
	struct {
		char version[ENVDIR_VERSION];
		uint32_t id;
	} known[4 * ENVS_MAX];
	uint32_t next_id;
};

int serve_envs_start(struct environments *v, const char *path, struct err *e);
/* Those that are there now, for the keeper. 0 or -1. */
int serve_envs_table(struct environments *v, int *ret_fd, struct err *e);
/* Whether there may be others since this was asked last. */
bool serve_envs_changed(struct environments *v);

/* One environment at a time is built or removed for clients. */
struct building {
	pid_t pid; /* 0: none is under way */
	int fd;    /* what it says */
	struct envbuilt built;
	size_t nlog;
};

/* 0; -EBUSY, or another errno. */
int serve_build_start(struct building *w, const struct envbuild *b, const char *dir);
/* It has said something. True: it has ended, and w->built says how. */
bool serve_build_event(struct building *w);
void serve_build_end(struct building *w);

/* A directory, made with what is missing above it, private where it is made. */
int directory_open(const char *path, int *ret_fd, struct err *e);

/* Tell the service manager, if there is one (NOTIFY_SOCKET). */
void notify(const char *state);
