/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between a gate and the keeper: types, and the contents that both sides share.
 *
 * The keeper takes ids, numbers and enums. The two strings of a mount are the exception: a path
 * below one of the keeper's own allowed roots, opened beneath it without following a symbolic
 * link, and a place inside the box.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "wire/egressmsg.h"
#include "wire/netrule.h"
#include "wire/plan.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEEPER_PROTO_VERSION = 1, KEEPER_PROTO_OLDEST = 1 };

enum op_type {
	OP_NONE,
#define OP(id, state, min, max, fds, doc) OP_##id,
#include "wire/ops.tbl"
#undef OP
	OP_TYPE_MAX,
};

/* From the keeper. */
enum reply_type {
	REPLY_OK = 128,
	REPLY_FAILED,
	EVENT_GONE,    /* u64 box, u32 why, box_figures */
	EVENT_STOP,    /* finish what is under way and exit */
	EVENT_CONFIG,  /* three descriptors: configuration, certificate, key */
	EVENT_REFUSED, /* there is something to ask REFUSALS for */
	EVENT_PING,    /* to be answered by ALIVE; the store sends it back */
	EVENT_RENEW,   /* what the machine itself has, has changed */
	EVENT_ENVS,    /* there are others: ENV_LIST */
	EVENT_BUILT,   /* an envbuilt: what came of ENV_BUILD */
	EVENT_NET, /* an egress_record: what became of a connection, or of a question for a name */
	EVENT_NET_FIGURES, /* a net_figures for each box that has used its network */
	EVENT_PEER,        /* to the tools process, one descriptor: the stream of another gate */
};

/* Between the keeper of a server and its supervisor. */
enum supervise_type {
	SUPERVISE_STOP = 192, /* to the keeper: let the gate finish, then end everything */
	SUPERVISE_RENEW, /* to the keeper: what the machine itself has, has changed, images are old */
	SUPERVISE_ENVS, /* to the keeper, one descriptor: the table of environments, rows of wire/envtable.h */
	SUPERVISE_BUILD, /* to the supervisor: an envbuild of the gate's */
	SUPERVISE_BUILT, /* from it: an envbuilt, for the gate */
	SUPERVISE_CONFIG, /* to the keeper, the same three, and secrets for egress: for these and the next ones */
	SUPERVISE_SERVING, /* u64 how many gates there were before this one */
	SUPERVISE_TRIED,   /* the body of OP_TRIED */
	SUPERVISE_LOST,    /* a gate or store ended by itself: u32 wait status, string role */
	SUPERVISE_HUNG,    /* one does not answer, and was killed: string role */
	SUPERVISE_PING,    /* to the keeper, to be answered by the next */
	SUPERVISE_ALIVE,
};

enum {
	BOX_MOUNTS_MAX = 16,
	BOX_RECORD_MAX = 12288,
	BOX_AT_MAX = 256,
	REFUSALS_MAX = 512, /* in one answer */
	IMAGE_LABEL_MAX = 64,
	WAYS_MAX = 64, /* places that gate or tools process may be connected to */
};

/* A system call that a program of a box was refused, told once per box and call. */
struct refused_call {
	uint64_t box;
	uint32_t number;
};

#define REFUSAL_DEAF UINT32_MAX /* instead of a number: nobody can listen to this box */

enum box_flags {
	BOX_ROOT_USER = 1u << 0, /* user code is uid 0 of the box instead of 65532 */
	BOX_HEARD = 1u << 1,     /* refused system calls are told: OP_REFUSALS */
	BOX_FREEZES = 1u << 2,   /* its image is empty, and for it to write */
	BOX_SPARE = 1u << 3,     /* made ahead: OP_BOX_LIMITS, and FRAME_LIMITS to its init */
	BOX_KIT = 1u << 4,       /* has what a kernel is started with, also without an image */
	BOX_APP = 1u << 5,       /* its workspace is at /app, too */
	BOX_PORTS = 1u << 6,     /* it has listeners in its own network: enum box_port */
	BOX_TOOLS = 1u << 7,     /* it has a socket for calls of tools: PORT_TOOLS */
	BOX_RAY = 1u << 8,       /* with BOX_TOOLS: it is at /tmp/mcp.sock, too */
	BOX_NETWORK = 1u << 9,   /* it may be given a network: OP_BOX_NET */
	BOX_FLAGS_ALL = (1u << 10) - 1,
};

/* Listeners of a box: on this machine's loopback, opened by OP_BOX_PORT, and on the box's own, there from its birth. The socket for tools is
 * there from its birth, too, and refuses until it is asked for. */
enum box_port {
	PORT_EXECUTOR,
	PORT_RESOURCE,
	PORT_INSIDE_EXECUTOR,
	PORT_INSIDE_RESOURCE,
	PORT_TOOLS,
	PORT_PUBLISHED, /* on this machine's loopback: the first of PUBLISHED_MAX, each for a port on which a program of the box listens */
};

enum {
	PUBLISHED_MAX = 8,
	BOX_PORTS_MAX = PORT_PUBLISHED + PUBLISHED_MAX,
	PORTS_OUTSIDE =
		PORT_INSIDE_EXECUTOR, /* how many of them are this machine's, but for PORT_PUBLISHED */
	PORTS_INSIDE = PORT_TOOLS - PORT_INSIDE_EXECUTOR,
	PORT_LOWEST = 1024,             /* that can be asked for */
	PORT_INSIDE_EXECUTOR_AT = 8888, /* those of the box's own loopback */
	PORT_INSIDE_RESOURCE_AT = 8900,
};

/* Why a box is gone without having been asked to go. */
enum gone_why {
	GONE_INIT,     /* its init ended: killed by out of memory, or by somebody on the host */
	GONE_DEADLINE, /* its deadline passed */
	GONE_WHY_MAX,
};

struct box_mount {
	uint16_t root; /* index into the keeper's table of allowed roots */
	bool read_only;
	char path[PATH_MAX]; /* below the root; "" is the root itself */
	char at[BOX_AT_MAX]; /* absolute, inside the box */
};

struct box_request {
	uint32_t flags;
	uint64_t waived; /* layers that may be missing */
	struct limits limits;
	uint32_t image; /* what Python in it is thawed from; 0: none */
	uint32_t env;   /* environment that it shows; 0: the machine's own */
	uint16_t nmounts;
	struct box_mount mounts[BOX_MOUNTS_MAX];
};

/* Where its programs begin, and where its files are. */
static inline const char *box_workdir(uint32_t flags)
{
	return (flags & BOX_APP) != 0 ? "/app" : "/workspace";
}

struct box_info {
	uint64_t box;
	uint64_t layers;   /* those that it has */
	uint64_t setup_us; /* how long it took to make */
	uint32_t image;    /* what it was made from; 0: none */
	uint32_t env;      /* what it shows; 0: the machine's own */
	uint32_t step_us[PLAN_STEPS];
};

enum { BOX_INFO_BYTES = 32 + 4 * PLAN_STEPS };

struct box_figures {
	uint64_t wall_us;           /* since it was made */
	uint64_t cpu_us;            /* of all its processes */
	uint64_t peak_memory_bytes; /* of all its processes, files in memory included */
	uint64_t memory_limit_bytes;
	uint64_t oom_kills;     /* processes that the kernel ended for want of memory */
	uint64_t has;           /* which of the above and below were measured: FIGURE_* bits */
	struct net_figures net; /* as egress has told them last */
};

enum figure_bits {
	FIGURE_CPU = 1u << 0,
	FIGURE_PEAK = 1u << 1,
	FIGURE_OOM = 1u << 2,
	FIGURE_NET = 1u << 3, /* it has had a network */
};

ptrdiff_t box_request_encode(const struct box_request *q, void *buf, size_t cap);

/* Decode and check: limits within their rows, places plain and absolute, no unknown flag. On -1 *e
 * says which field is wrong (ERR_INPUT), or ERR_PROTO where no honest gate sends such a thing. */
int box_request_decode(const void *buf, size_t len, struct box_request *q, struct err *e);

/* Of BOX_LIMITS: decoded and checked as those of a box_request are. */
ptrdiff_t box_limits_encode(uint64_t box, const struct limits *l, void *buf, size_t cap);
int box_limits_decode(const void *buf, size_t len, uint64_t *ret_box, struct limits *l,
		      struct err *e);

ptrdiff_t box_info_encode(const struct box_info *b, void *buf, size_t cap);
int box_info_decode(const void *buf, size_t len, struct box_info *b);

ptrdiff_t box_figures_encode(const struct box_figures *f, void *buf, size_t cap);
int box_figures_decode(const void *buf, size_t len, struct box_figures *f);

/* Of BOX_NET: routes for the keeper, which are numbers, and the policy for egress, which the keeper does not read. */
struct box_net {
	uint64_t box;
	struct net_route routes[NET_ROUTES_MAX];
	unsigned int nroutes;
	const uint8_t *policy; /* decoded: part of what was */
	size_t policy_len;     /* 0: none, and egress has nothing to do with it any more */
};

ptrdiff_t box_net_encode(const struct box_net *n, void *buf, size_t cap);
int box_net_decode(const void *buf, size_t len, struct box_net *ret);
/* The same of a policy. -errno: it has too many rules. */
ptrdiff_t box_net_of_policy(uint64_t box, const struct net_policy *p, void *buf, size_t cap);

/* FAILED carries an err. */
ptrdiff_t failed_encode(const struct err *e, void *buf, size_t cap);
int failed_decode(const void *buf, size_t len, struct err *e);
