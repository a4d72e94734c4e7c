/* SPDX-License-Identifier: Apache-2.0 */
/* The gate's state: one struct, passed down. See README.md for who does what. */
#pragma once

#include "base/config.h"
#include "base/log.h"
#include "base/loop.h"
#include "gate/admit.h"
#include "gate/conn.h"
#include "gate/keeper_link.h"
#include "gate/metrics.h"
#include "gate/pool.h"
#include "gate/run.h"
#include "gate/store_link.h"
#include "gate/table.h"
#include "gate/tool_link.h"
#include "gate/trial.h"
#include "gate/warm.h"
#include "mcp/mcp.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	GATE_KEEPER_FD = 3,
	GATE_STORE_FD = 4,
	GATE_CONFIG_FD = 5,
	GATE_LOG_FD = 6,
	GATE_CERT_FD = 7, /* PEM; empty: no TLS */
	GATE_KEY_FD = 8,
	GATE_LISTEN_FD = 9, /* and the following, one per item of `listen` */
	GATE_PEM_MAX = 1024 * 1024,
	GATE_LISTENERS_MAX = 16,
	GATE_SCRATCH = 256 * 1024,
	GATE_TOKENS_MAX = 1024,
	GATE_TENANT = CONFIG_TENANT_MAX + 1,
	GATE_NET_GONE = 64,
};

/* Whom a token belongs to. Everything that a request makes is this tenant's. */
struct tenant {
	char name[GATE_TENANT];
	unsigned int boxes;   /* that it has, one-shots included */
	struct run_share log; /* of what its commands and cells said */
};

/* A box that has gone; see box_net.c. */
struct net_gone {
	uint64_t box;
	struct gbox_owner owner;
};

struct token {
	uint8_t sha256[32]; /* all that this process has of it */
	const struct tenant *tenant;
};

struct listener {
	struct gate *g;
	struct listener *prev, *next; /* of those that are accepted from */
	struct watch watch;
	int fd;
	bool local; /* cannot be reached from another machine */
	bool unix_socket;
	bool inside;        /* can be reached from one box only, by whoever is in it */
	unsigned int place; /* which routes are here: ROUTE_MAIN and the like */
	struct abox *box;   /* of a port: the box that it is about; NULL: it has ended */
	unsigned int conns; /* that came in here and are open */
	unsigned int most;  /* of them; 0: any number */
	uint64_t pause_us;  /* between two of them */
	bool full;          /* it waits until one of them ends, or for the end of the pause */
	struct timer again;
	void (*over)(struct listener *l); /* nobody needs it any more; may be NULL */
	bool accepting, gone;             /* gone: it is not coming back */
	char text[128];                   /* as configured */
	struct tls_context *tls;
};

struct figures { /* of which /metrics tells */
	uint64_t timeouts, malformed, accepted, paused;
};

struct audit_refused {
	uint64_t n; /* since the first one of this minute */
	struct timer over;
};

struct gbox;
struct ci_stream;
struct session;
struct abox;
struct se_making;
struct mcp_watch;

struct gate {
	struct loop loop;
	struct config config;
	struct log log;
	struct keeper_link keeper;
	struct store_link store;
	struct listener listeners[GATE_LISTENERS_MAX];
	unsigned int nlisteners;
	struct listener *accepting; /* those, and ports of boxes */
	bool listening;
	struct timer accept_again;
	struct tls_context *tls;
	void (*serve)(struct gate *g);
	bool adopting; /* until then */

	struct conn *conns, *conns_tail; /* the last used first */
	unsigned int nconns, ninside;    /* inside: those that came from a box */
	struct gbox *boxes;
	struct gbox *dirty_boxes; /* with frames for the end of this turn */
	bool unsaid;              /* one of those frames starts or changes something */
	unsigned int nboxes;
	struct ci_stream *streams;
	struct session *sessions;
	unsigned int nsessions;
	struct abox *aboxes; /* of the own API, the youngest first */
	struct table abox_table;
	struct abox *unsaved; /* whose records the keeper does not have yet */
	unsigned int naboxes;
	unsigned int looks;          /* for modules, see ipy_modules.c */
	struct se_making *se_making; /* sessions of the Sandbox Runtime that are on their way */
	unsigned int nefast;         /* of those that are filled from a document store */
	struct table kernel_table;   /* by their UUIDs */
	struct table tombs;          /* boxes that have ended */
	struct net_gone net_gone[GATE_NET_GONE]; /* and had a network, the last one first */
	struct table idems;                      /* answers to be given again */
	struct runs runs;
	unsigned int nforking; /* boxes that are being copied */
	struct mcp_server mcp;
	struct tool_link tools;
	struct mcp_watch *mcp_watches;
	char node[5]; /* of ids */

	struct admit admit;
	struct metrics metrics;
	struct figures figures;

	unsigned int counted_boxes;                 /* of all tenants */
	struct tenant tenants[GATE_TOKENS_MAX + 1]; /* [0] is "local" */
	unsigned int ntenants;
	struct token tokens[GATE_TOKENS_MAX];
	unsigned int ntokens;

	bool stopping;
	bool refused_unseen; /* the keeper cannot hear which system calls boxes are refused */
	struct timer drain;
	struct trial trial;
	struct genv *envs; /* the machine's own first */
	void (*envs_told)(struct gate *g);
	struct env_build *env_builds;
	struct warm_counts warmed;
	struct pool pool;
	uint64_t audit_failed_us; /* the audit file could not be written, last seen; 0: it can */
	struct audit_refused audit_refused;

	uint64_t started_ms; /* since 1970 */
	uint64_t date_s;
	char date[32];
	uint64_t request_seed[2], next_request;
	char scratch[GATE_SCRATCH];
};

/* --- main.c --- */

/* The time for a Date header. */
const char *gate_date(struct gate *g);
/* A fresh request id. */
void gate_request_id(struct gate *g, char id[REQ_ID]);
/* An error of ours into the log. */
void gate_log_err(struct gate *g, const char *event, const struct err *e);
void gate_log_request(struct gate *g, const struct req *r, const char *how, uint64_t us);

/* --- listen.c --- */

int listeners_start(struct gate *g, struct err *e);
void listeners_stop(struct gate *g);
/* A connection ended: accept again, where it was paused. */
void listeners_resume(struct gate *g);
/* Accept from one more, from now on. Its fd is its own. 0 or -errno. */
int listener_add(struct gate *g, struct listener *l);
/* No more: what has come in comes to its end, and then, perhaps at once, over() is called. */
void listener_end(struct listener *l);
/* A connection that came in here has ended. */
void listener_left(struct listener *l);

/* --- route.c --- */

/* Find the route of a request and check who asks. 0, or -1: it was answered. */
int route_find(struct req *r);
extern const struct route routes[];
extern const unsigned int nroutes;

/* --- auth.c --- */

int auth_start(struct gate *g, struct err *e);
/* Whether the request may go on: Host, Origin, token. Sets its tenant. 0, or -1: it was answered. */
int auth_check(struct req *r, bool open);
/* The tenant of that name, or NULL. */
const struct tenant *tenant_find(const struct gate *g, const char *name);
/* Count a box of a tenant; false: it, or the server, has as many as it may. */
bool quota_take(struct gate *g, const struct tenant *t);
void quota_give(struct gate *g, const struct tenant *t);

/* --- refused.c --- */

/* EVENT_REFUSED of the keeper. */
void refused_ask(struct gate *g);

/* --- audit.c --- */

/* One event into the audit file: `event`, the request (may be NULL), and pairs of key and text up to NULL. */
#define audit(g, event, r, ...) audit_write(g, event, r, (const char *const[]){ __VA_ARGS__ })
void audit_write(struct gate *g, const char *event, const struct req *r, const char *const *pairs);
/* A request whose token was refused. Of many in a minute only the first have a line of their own: who has no token must
 * not be able to rotate away what others did. */
void audit_token_refused(struct req *r, const char *why);
/* The line about those that have none, if there are any, now. */
void audit_sum_refused(struct gate *g);
/* Whether events can be written; if not, and the operator wants it so, nothing may be run. */
bool audit_allows(const struct gate *g);

/* --- adopt.c --- */

/* Take over what the last gate had; serve() is called when that is done. */
void adopt_start(struct gate *g, void (*serve)(struct gate *g));

/* --- confine.c --- */

/* Give up everything. 0 or -1. */
int confine_gate(uint32_t uid, uint32_t gid, struct err *e);
/* The same for who connects to the world. */
int confine_egress(uint32_t uid, uint32_t gid, struct err *e);
