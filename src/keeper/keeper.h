/* SPDX-License-Identifier: Apache-2.0 */
/* The keeper's state: one struct, passed down. See README.md for who does what. */
#pragma once

#include "base/err.h"
#include "base/layers.h"
#include "wire/chan.h"
#include "wire/egressmsg.h"
#include "wire/endpoint.h"
#include "wire/envtable.h"
#include "wire/ops.h"
#include "wire/plan.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	REFUSAL_CALLS = 512, /* the highest call that is told is below */
	KEEPER_GATE_FD = 3,  /* channel to the gate, open at exec */
	BOXES_MAX = 4096,
	PORTS_MAX = 2048, /* of this machine that all boxes together can have */
	ROOTS_MAX = 64,
	BOX_USER = 65532, /* uid and gid of user code in a box */
	SETUP_US = 10 * 1000 * 1000,
};

/* --- ids.c --- */

struct ids {
	bool rootless;     /* in a user namespace of our own making */
	bool single;       /* only one id to give: boxes cannot have their own */
	bool can_groups;   /* setgroups(2) is allowed */
	bool can_shield;   /* CAP_SYS_RESOURCE of the host */
	uint32_t base;     /* first id for boxes, as seen here */
	uint32_t per_slot; /* ids per instance */
	uint32_t slots;
	char why_single[160];
};

/* Which host ids a box gets. */
struct box_ids {
	uint32_t root, user; /* as the keeper sees them; root == user when there is only one */
	uint32_t in_root, in_user; /* as the box sees them */
};

/* Become root of a namespace where we are not root already; find the ids to give. */
int ids_start(struct ids *ids, struct err *e);
/* How many boxes an instance can have, each with ids of its own. */
unsigned int ids_boxes(const struct ids *ids);
/* The ids of box number n of instance `slot`; n is below ids_boxes(). */
struct box_ids ids_for(const struct ids *ids, unsigned int slot, unsigned int n, bool root_user);
/* Write the maps of a new box's user namespace. 0 or -errno. */
int ids_map(const struct box_ids *b, pid_t pid);

/* Ids for the gate and the tools process of that instance, and for the store: the latter the same for every instance, because what
 * it writes stays. */
void ids_servants(const struct ids *ids, unsigned int slot, uint32_t *ret_gate, uint32_t *ret_store,
		  uint32_t *ret_tools);
uint32_t ids_egress(const struct ids *ids, unsigned int slot);

/* --- instance.c --- */

struct instance {
	char dir[64];
	int lock_fd;
	unsigned int slot;
	char tag[32]; /* first part of every name that we make on the host */
};

int instance_start(struct instance *i, unsigned int slots, uid_t uid, struct err *e);
/* Note where cgroups of this instance can be, for whoever sweeps after us. 0 or -errno. */
int instance_note(const struct instance *i, const char *cgroup_base);
/* Everything of ours is removed: nothing to sweep. */
void instance_done(struct instance *i);

/* --- cgroup.c --- */

enum cgroup_kind { CG_MEMORY, CG_PIDS, CG_CPU, CG_ACCT, CG_CPUSET, CG_KIND_MAX };
enum { CPU_LIST = 512 };

struct cgroups {
	int version;              /* 2, 1, or 0 for none */
	int base_fd[CG_KIND_MAX]; /* -1: not there. v2: all the same directory, only [0] is open */
	char base[CG_KIND_MAX][256];
	unsigned int have; /* bit per kind: can be used */
	char why[160];     /* why something is missing */
	/* Processors that boxes may use, as a list of the kernel's; "": all. v1 wants to know the memory, too. */
	char cpus[CPU_LIST], mems[CPU_LIST];
};

struct box_cgroup {
	char name[64];
	int fd[CG_KIND_MAX]; /* directory of the box, -1: none */
};

/* Find out what there is: what is missing is missing. Boxes are to leave so many processors alone. 0, or -1: they cannot be made to. */
int cgroups_start(struct cgroups *c, const char *wanted_base, bool rootless, unsigned int spare,
		  const struct instance *i, struct err *e);
void cgroups_done(struct cgroups *c);
/* Layers that boxes get from it. */
uint64_t cgroups_layers(const struct cgroups *c);
int cgroup_make(const struct cgroups *c, const char *name, const struct limits *l,
		struct box_cgroup *b, struct err *e);
/* Other limits for a box that has processes. 0 or -1; then some of them may be set. */
int cgroup_limit(const struct cgroups *c, const struct box_cgroup *b, const struct limits *l,
		 struct err *e);
void cgroup_figures(const struct cgroups *c, const struct box_cgroup *b, struct box_figures *f);
/* What its programs have of memory, files apart; 0: nobody knows. */
uint64_t cgroup_anonymous(const struct cgroups *c, const struct box_cgroup *b);
/* v1: descriptors to which a process writes "0" to enter; how many. */
int cgroup_join_fds(const struct cgroups *c, const struct box_cgroup *b, int fds[CG_KIND_MAX]);
/* Remove. 0, or -EBUSY while a process is still being taken down. */
int cgroup_remove(const struct cgroups *c, struct box_cgroup *b);
/* Kill what is in, and remove, every cgroup below `base` whose name starts with tag. */
void cgroup_sweep(const char *base, const char *tag);

/* --- hostmount.c --- */

struct mount_root {
	int fd; /* O_PATH */
	char path[PATH_MAX];
};

struct host_mount {
	int tree_fd; /* a detached mount, ready to be placed */
	char at[BOX_AT_MAX];
	bool read_only;
};

int host_mount_open(const struct mount_root *root, const struct box_mount *m, const struct ids *ids,
		    const struct box_ids *b, uid_t owner, gid_t group, struct host_mount *ret,
		    struct err *e);

/* --- tree.c --- */

/* The writable places of a box: a file system each. */
enum store { STORE_WORKSPACE, STORE_SCRATCH, STORE_SHM, STORE_MAX };

/* How many files a box can have in its writable places, all together. */
uint64_t store_inodes_all(const struct limits *l);
/* Other sizes for those of a box, by what CONTROL_STORES brought. 0 or -1; then some of them may be set. */
int stores_limit(const int fds[STORE_MAX], const struct limits *l, struct err *e);

/* --- blobs.c --- */

enum blob { BLOB_INIT, BLOB_THAW, BLOB_FREEZE, BLOB_KERNEL, BLOB_ARCHIVE, BLOB_MAX };

struct keeper;
/* Whether this build carries it: not every machine has all of them. */
bool blob_is_there(enum blob which);
/* A file that we carry, sealed; ours, made when it is first asked for. */
int blob_fd(struct keeper *k, enum blob which, struct err *e);
/* An empty memory file that can be sealed, or -1. */
int memory_file(const char *name);
/* Nobody changes it any more. 0 or -errno. */
int memory_file_seal(int fd);
/* The same file, opened once more. A descriptor, or -1. */
int memory_file_again(int fd, int flags);

/* --- images.c --- */

enum { IMAGES_MAX = 128 }; /* a message lists them all */

struct image_slot {
	uint32_t id; /* 0: free */
	int fd;
	uint32_t
		base; /* the image that this one refers to: a copy of a process that was thawed from it; 0: it is whole */
	bool sealed;
	bool dropped; /* no more boxes from it; it is there for images that refer to it, and for boxes that may yet be copied */
	pid_t helper; /* makes room in it, for a copy; 0: nobody does */
	uint64_t request; /* who is to be told when there is */
	uint64_t box;     /* and which box then gets it */
	uint64_t born_us;
	char label[IMAGE_LABEL_MAX];
};

/* --- envs.c --- */

enum { ENV_SLOTS = 2 * ENVS_MAX }; /* those of the table, and those that only boxes still show */

struct env_slot {
	struct env_row *row; /* NULL: free */
	int tree_fd, lock_fd;
	uint32_t gone_by; /* since which table it is not there any more */
};

void envs_start(struct keeper *k);
/* The first one, by the argument that has its descriptor. */
int envs_argument(struct keeper *k, const char *text, struct err *e);
/* The supervisor's table, in a file. 0 or -errno. */
int envs_take(struct keeper *k, int fd);
/* A gate knows that table: it does not ask for boxes of what is not in it. */
void envs_are_taken(struct keeper *k, uint32_t table);
/* All that there are, for a gate: a file, or -errno. */
int envs_list(const struct keeper *k);
struct env_slot *env_find(struct keeper *k, uint32_t id);
/* Whether a box of it can be made. */
int env_check(struct keeper *k, const struct box_request *q, struct err *e);
/* Its tree as a mount for one box: a descriptor, or -1. */
int env_tree(struct keeper *k, uint32_t id, enum env_kind *ret_kind, struct err *e);
/* Let go of what nobody shows any more. */
void envs_turn(struct keeper *k);

/* --- plan.c: what the first process of a box needs; everything else it closes --- */

struct setup {
	const struct limits *limits;
	struct box_ids ids;
	bool two_ids, can_groups;
	bool can_shield;             /* init can be protected from out of memory */
	bool heard;                  /* the keeper listens to refused system calls */
	bool spare;                  /* its limits may still change */
	bool app, ports, tools, ray; /* BOX_APP, BOX_PORTS, BOX_TOOLS, BOX_RAY */
	bool network;                /* BOX_NETWORK */
	int env_tree_fd; /* a detached mount of what it shows beside the machine's own, or instead; -1: nothing */
	enum env_kind env_kind;
	uint64_t waived, layers; /* layers: in, what the keeper could give; out, what the box has */
	int go_fd, report_fd, control_fd, init_fd;
	int join_fd[CG_KIND_MAX], njoin;
	struct host_mount mounts[BOX_MOUNTS_MAX];
	unsigned int nmounts;
};

struct plan_report {
	uint32_t failed; /* 0: all steps but exec are done */
	uint32_t step;
	int32_t error;
	uint64_t layers;
	uint32_t step_us[PLAN_STEPS];
	char detail[160];
};

_Noreturn void plan_run(struct setup *s);

/* --- box.c --- */

enum box_state {
	BOX_FREE,
	BOX_SETUP,  /* the plan runs; BOX_NEW has not been answered */
	BOX_READY,  /* init runs */
	BOX_ENDING, /* init was killed; processes or cgroups are still there */
};

struct box {
	enum box_state state;
	uint64_t id;
	unsigned int number; /* index, decides its ids */
	uint32_t owner;      /* of its user namespace */
	pid_t pid;
	int pidfd, control_fd, report_fd;
	uint64_t request; /* to be answered: BOX_NEW or BOX_END; 0: none */
	bool asked_to_end, reaped;
	bool heard;              /* was asked for with BOX_HEARD */
	bool kit;                /* and with BOX_KIT */
	bool listens;            /* and with BOX_PORTS */
	bool tools;              /* and with BOX_TOOLS */
	bool spare;              /* nobody has it yet: BOX_LIMITS can come */
	int store_fd[STORE_MAX]; /* as long as that is so; -1: none */
	enum gone_why why;
	uint64_t born_us, deadline_us, setup_us;
	struct limits limits;
	uint64_t layers; /* those that it has */
	uint32_t step_us[PLAN_STEPS];
	struct box_cgroup cgroup;
	struct box_figures last; /* taken before the cgroup went */
	uint32_t image;          /* it was made from this one, or freezes into it; 0: none */
	uint32_t base;           /* what a copy of a process of it refers to; 0: none */
	uint32_t freezes;        /* the same, while it can be written to */
	uint32_t env;            /* environment that it shows; 0: the machine's own */
	uint8_t *record;
	size_t record_len;
	int refusals_fd; /* -1: nobody listens */
	uint32_t refusals_answered;
	uint64_t refusals_resume_us;
	uint64_t refused[REFUSAL_CALLS / 64]; /* bit per call: it was told */
	int port_fd[BOX_PORTS_MAX];           /* -1: none */
	uint16_t port[BOX_PORTS_MAX];
	bool network;       /* was asked for with BOX_NETWORK */
	struct boxnet *net; /* NULL: it has none, and cannot have one */
	struct net_figures
		net_figures; /* as egress has told them; their box is 0: it has had none */
};

/* --- boxnet.c: the network of a box --- */

struct boxnet;

/* --- ports.c --- */

/* Which ports of this machine's loopback a gate may have opened for boxes: the words of box_ports in
 * policy/config.tbl, in their order. */
enum ports_allowed { PORTS_NONE, PORTS_FREE, PORTS_ANY };

/* --- ways.c --- */

/* A place that the gate may be connected to. */
struct way {
	bool known, v6;
	uint8_t address[16]; /* in network order; of IPv4 the first four bytes */
	uint16_t port;
};

struct ways {
	struct way v[WAYS_MAX];
	unsigned int n;
};

/* --- servants.c: the gate and the store of a server --- */

enum { PASS_MAX = 64, STORE_ARGS_MAX = 32, STARTS_MAX = 5 };

/* What a role of `glovebox-gate` is started with: these descriptors of ours become 5, 6, … of it. */
struct servant {
	pid_t pid;           /* 0: not running */
	bool asked;          /* whether it lives, and has not answered */
	unsigned int missed; /* questions in a row */
	int pass[PASS_MAX];
	unsigned int npass;
	const char *args[STORE_ARGS_MAX]; /* beside its ids */
	unsigned int nargs;
};

struct server {
	bool on;      /* we were started by a supervisor, not by a gate */
	bool ending;  /* asked to stop, or the supervisor is gone: no more gates */
	bool serving; /* this gate said that it accepts connections */
	int sup_fd, exec_fd;
	int store_fd;          /* its end tells the store that we are gone */
	unsigned int failures; /* gates in a row that never served */
	uint64_t restarts;
	uint64_t start_us; /* when to start the next pair; UINT64_MAX: not now */
	uint64_t hang_us;  /* how long one may be silent; 0: as long as it likes */
	uint64_t ask_us;   /* when to ask next whether they live */
	struct servant gate, store;
	struct servant tools; /* runs if a gate has use for it */
	int tools_fd;         /* -1: it does not run */
	uint64_t tools_born_us;
	unsigned int tools_failures; /* in a row, soon after they began */
};

/* --- egress.c --- */

struct egress_child {
	struct servant servant;
	int exec_fd;    /* -1: there is no such program */
	int secrets_fd; /* the supervisor's, in place of which others come; -1: it gets none */
	int fd;         /* -1: it does not run */
	uint64_t born_us, again_us;
	unsigned int failures; /* in a row, soon after it began */
};

struct keeper {
	int gate_fd, epoll_fd, children_fd;
	int blob_fd[BLOB_MAX]; /* 0: not made yet */
	bool hello, gate_gone;
	bool hearing_out; /* a gate that has died: what it asked for is done, and not answered */
	struct server server;
	struct egress_child egress;
	struct ids ids;
	struct instance instance;
	struct cgroups cgroups;
	unsigned int spare_cpus; /* processors that boxes are to leave alone */
	struct mount_root roots[ROOTS_MAX];
	unsigned int nroots;
	uid_t owner; /* who started us: owns what boxes write to host directories */
	gid_t owner_group;
	uint64_t next_box;
	struct box boxes[BOXES_MAX];
	unsigned int nboxes; /* highest index in use + 1 */
	struct image_slot images[IMAGES_MAX];
	uint32_t next_image;
	struct env_slot envs[ENV_SLOTS];
	const char *envs_given;          /* by an argument */
	uint32_t env_tables, envs_taken; /* how many there were, and which the gate knows */
	struct refused_call refusals[REFUSALS_MAX];
	unsigned int nrefusals;
	bool refusals_told; /* the gate knows that there are some */
	enum ports_allowed ports_allowed;
	unsigned int nports;         /* of this machine that boxes have */
	struct ways ways, tool_ways; /* of the gate, and of the tools process */
};

struct box *box_find(struct keeper *k, uint64_t id);
int box_new(struct keeper *k, const struct box_request *q, uint64_t request, struct err *e);
/* Give init the stream of a new gate; *ret_fd is the gate's end. */
int box_attach(struct box *b, int *ret_fd, struct err *e);
/* Other limits for a spare box, all of them or it is ended. 0 or -1. */
int box_limit(struct keeper *k, struct box *b, const struct limits *l, struct err *e);
/* Somebody has it: its limits stay as they are. */
void box_taken(struct box *b);
void box_end(struct keeper *k, struct box *b);
void box_figures(const struct keeper *k, const struct box *b, struct box_figures *f);
/* The plan reported, or ended. */
void box_report_event(struct keeper *k, struct box *b);
/* The plan asks for help. */
void box_control_event(struct keeper *k, struct box *b);
/* Its first process ended. */
void boxes_reap(struct keeper *k);
/* End what is over its deadline, finish what is ending; when to look again. */
uint64_t boxes_turn(struct keeper *k);

/* --- ops.c --- */

/* One message of the gate. -1: the gate broke the protocol. */
int ops_handle(struct keeper *k, struct chan_msg *m);
/* A gate has ended: what it had said before counts, as its clients may have seen what came of it. */
void ops_hear_out(struct keeper *k);
void ops_tell(struct keeper *k, uint16_t type, uint64_t request, const void *body, size_t len,
	      const int *fd);
/* The same of what a gate that does not come to read may miss: boxes can have it said as often as they like. */
void ops_mention(struct keeper *k, uint16_t type, const void *body, size_t len);
void ops_ok(struct keeper *k, uint64_t request, const void *body, size_t len, const int *fd);
void ops_failed(struct keeper *k, uint64_t request, const struct err *e);

/* --- proc.c --- */

/* Mount /proc for a box that may not, by a process that enters its pid namespace; the answer goes to
 * the box's plan. Does not wait. */
void proc_help(const struct box *b);

/* --- images.c --- */

struct image_slot *image_find(struct keeper *k, uint32_t id);
int image_new(struct keeper *k, const char *label, uint32_t *ret_id, struct err *e);
/* bytes: how many are used; 0: all. */
int image_seal(struct keeper *k, uint32_t id, uint64_t bytes, uint64_t *ret_bytes, struct err *e);
void image_drop(struct keeper *k, uint32_t id);
/* Give an empty one to a box that runs, when there is room in it: request is answered then. */
int image_copy(struct keeper *k, const struct box *b, uint32_t id, uint64_t bytes, uint64_t request,
	       struct err *e);
/* Whether that was a helper of ours. */
bool images_reaped(struct keeper *k, pid_t pid, int status);
/* Nobody waits for answers any more. */
void images_forget_gate(struct keeper *k);
/* What a copy of a process in a box with this image refers to. */
uint32_t image_base(const struct keeper *k, uint32_t id);
/* A box has gone: so may images that were kept for it. */
void images_turn(struct keeper *k);
/* Whether a box with this image can be made. */
int image_check(struct keeper *k, const struct box_request *q, struct err *e);
/* Give a box's init what Python is started with, if it is to have that, and what makes archives. */
int kit_send(struct keeper *k, const struct box *b, struct err *e);

/* --- refusals.c --- */

/* fd is the listener of the box's filter, and ours from here on. */
void refusals_listen(struct keeper *k, struct box *b, int fd);
/* This box wants a listener and could not have one. */
void refusals_deaf(struct keeper *k, const struct box *b);
void refusals_event(struct keeper *k, struct box *b);
/* Go on listening to a box that was told to wait; when to look again. */
uint64_t refusals_turn(struct keeper *k, struct box *b, uint64_t now);
/* The body of the answer to REFUSALS: what was heard, which is forgotten. */
size_t refusals_take(struct keeper *k, void *body, size_t cap);
void refusals_new_gate(struct keeper *k);

/* --- ports.c --- */

/* The argument that says which ports are allowed. */
int ports_argument(struct keeper *k, const char *number, struct err *e);
/* The listener of a box, which is opened where it is not there yet: in b->port_fd and b->port. */
int port_open(struct keeper *k, struct box *b, enum box_port which, uint16_t port, struct err *e);
void port_close(struct keeper *k, struct box *b, enum box_port which);
void ports_close(struct keeper *k, struct box *b);

/* --- ways.c: places that a gate or the tools process may be connected to, by their number --- */

/* The next one: ADDRESS:PORT, or nothing where nobody knows the address. */
int ways_argument(struct ways *w, const char *text, struct err *e);
/* A stream that is being connected. */
int way_open(const struct ways *w, unsigned int which, struct err *e);

/* --- boxnet.c --- */

/* Its namespace, and the file of what it trusts: both descriptors are taken. NULL: no memory. */
struct boxnet *boxnet_new(int ns_fd, int trust_fd);
void boxnet_free(struct keeper *k, struct box *b);
/* What it may reach; the request is answered when that is in force. -1: it is answered by who asks. */
int boxnet_set(struct keeper *k, struct box *b, const struct box_net *q, uint64_t request,
	       struct err *e);
void boxnet_event(struct keeper *k, struct box *b);
void boxnet_done(struct keeper *k, struct box *b, int error);
int boxnet_tell_again(struct keeper *k, const struct box *b);
const uint8_t *boxnet_policy(const struct box *b, size_t *ret_n);

/* --- egress.c --- */

/* A box's policy, and its listeners where egress does not know them. boxnet_done() follows. */
int egress_tell(struct keeper *k, const struct net_figures *f, const int fds[EGRESS_FDS],
		const uint8_t *policy, size_t n, struct err *e);
/* All that boxes have. 0 or -1. */
int egress_boxes(struct keeper *k);
/* Secrets of its own, by the supervisor: when it starts, and others from now on. */
int egress_secrets_argument(struct keeper *k, const char *text, struct err *e);
void egress_secrets(struct keeper *k, int fd);
void egress_forget(struct keeper *k, uint64_t box);
void egress_event(struct keeper *k);
/* What it has said until now: who hears that a box has ended has heard of its connections before. */
void egress_hear_out(struct keeper *k);
/* Whether that was it. */
bool egress_reaped(struct keeper *k, pid_t pid, int status);
uint64_t egress_turn(struct keeper *k);

/* --- main.c --- */

enum { /* what an event speaks of */
       WATCH_GATE = 0,
       WATCH_CHILDREN = 1,
       WATCH_SUPERVISOR = 2,
       WATCH_STORE = 3,
       WATCH_TOOLS = 4,
       WATCH_EGRESS = 5,
       WATCH_REPORTS = 16, /* plus number of the box */
       WATCH_CONTROLS = WATCH_REPORTS + BOXES_MAX,
       WATCH_REFUSALS = WATCH_CONTROLS + BOXES_MAX,
       WATCH_NETS = WATCH_REFUSALS + BOXES_MAX,
};

void keeper_watch(struct keeper *k, int fd, uint64_t what);

/* The gate is gone or broke the protocol: end its boxes, or those that no other gate can take over. */
void keeper_drop_gate(struct keeper *k);

/* --- servants.c --- */

/* A role of glovebox-gate: descriptor 3 is the channel, 4 its peer (-1: none), those that it was given follow. 0 or -errno. */
int servant_spawn(struct servant *s, const char *role, int channel, int peer, int exec_fd,
		  uint32_t id);
void servant_end(const struct servant *s);
/* It ended by itself: a word to the operator. */
void server_lost(struct keeper *k, const char *role, int status);
/* An argument of the keeper that concerns the server. 1: taken, 0: not ours, -1. */
int server_argument(struct server *s, char *arg, struct err *e);
int server_start(struct keeper *k, struct err *e);
void server_sup_event(struct keeper *k);
/* The store answered, or is gone. */
void server_store_event(struct keeper *k);
/* A stream for the gate to the tools process, which is started if need be. */
int server_tools(struct keeper *k, int *ret_fd, struct err *e);
/* The tools process has said something, or is gone. */
void server_tools_event(struct keeper *k);
/* A process ended that is no box's. */
void server_reaped(struct keeper *k, pid_t pid, int status);
/* Start what is due, end what hangs; when to look again. */
uint64_t server_turn(struct keeper *k);
/* What the gate says of itself, passed on to the supervisor. */
void server_serving(struct keeper *k);
/* Something for the supervisor to do. 0 or -1: there is none. */
int server_build(struct keeper *k, const struct chan_msg *m);
void server_tried(struct keeper *k, const struct chan_msg *m);
bool server_is_over(const struct keeper *k);

/* --- mutants: a build that can leave a layer out, to see which test notices --- */

#ifdef GLOVEBOX_MUTANTS
bool mutant_is(const char *name);
#else
#define mutant_is(name) false
#endif
