/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes of the own API, /v1/boxes: what its handlers share.
 *
 *   boxes.c         the table: finding one, its life and end, GET, PATCH, DELETE
 *   boxes_make.c    POST: what is asked for, and the way to a box
 *   boxes_list.c    GET /v1/boxes
 *   boxes_record.c  what the next gate is told, and taking over
 *   tasks.c         what runs in one: its job, its log, its end
 *   tasks_calls.c   the calls that are the same for everything that runs
 *   task_keys.c     the Idempotency-Keys of what has run
 *   commands.c, commands_calls.c  commands, and the calls about them
 *   kernels.c, kernels_calls.c    the Pythons of sessions, and the calls about them
 *   cells.c, cells_calls.c        cells, and the calls about them
 *   box_tty.c       terminals
 *   box_stream.c    all of these calls on a WebSocket
 *   box_files.c, box_files_list.c, box_upload.c, box_watch.c, box_archive.c  its files, see files.h
 *   box_env.c       environment variables
 *   ports.c         listeners of its own
 *   published.c, inbound.c        its programs that listen, see published.h
 *   box_net.c       what it may reach
 *   idem.c          answers that are given again for the same Idempotency-Key
 */
#pragma once

#include "gate/box.h"
#include "gate/genv.h"
#include "gate/own.h"
#include "gate/pace.h"

#include <openssl/sha.h>

enum {
	BOX_NAME = 64, /* with its NUL */
	BOX_TEXTS_MAX =
		1536, /* bytes of env and metadata together: they must fit into the record */
	BOX_COMMANDS_MAX = 32, /* that run at once */
	BOX_ENDED_MAX =
		168, /* commands and cells that have ended and are held: more than can be begun at once, so that each can be asked for */
	BOX_UNHEARD_MAX = 8, /* of those, that init still holds because nobody asked for them */
	BOX_TTYS_MAX = 8,
	BOX_QUEUED_BYTES = 64 * 1024 * 1024,
	BOX_PARTS_BYTES = 32 * 1024 * 1024,
	BOX_LIST_MAX = 500,
	KERNEL_NAME = 32,  /* with its NUL */
	KERNEL_GONE = 255, /* in records, for the number of one that is not there any more */
};

/* In the metadata of a box that is a session of the Sandbox Runtime: its name there. Nobody else may set it. */
#define BOX_SESSION_KEY "sandbox_runtime.session"

enum abox_state { ABOX_CREATING, ABOX_READY, ABOX_ENDING };

/* Why a box has ended. */
enum abox_reason {
	REASON_TTL,
	REASON_IDLE,
	REASON_DELETED,
	REASON_OOM,
	REASON_RESTART,
	REASON_CRASHED,
	REASON_MAX
};

/* Pairs of texts, one behind the other with their NULs: what a record can hold. */
struct texts {
	char *p;
	size_t n;
};

/* An Idempotency-Key, as it is kept. Keys are a tenant's own, and one route's. */
struct idem_key {
	bool set;
	uint8_t key[SHA256_DIGEST_LENGTH], body[SHA256_DIGEST_LENGTH];
};

struct making;
struct port;
struct published;
struct task;
struct kernel;
struct stream;
struct tty;
struct deletion;
struct file_call;
struct se_queue;

/* A server of MCP that a client has registered with a box. */
struct tool_server {
	struct tool_server *next;
	char name[65];
	char *params; /* what it is, as JSON */
	size_t n;
};

struct abox {
	struct gate *g;
	struct abox *prev, *next;
	struct table_item by_id;
	struct abox *next_unsaved;
	bool unsaved;
	char id[OWN_ID];
	char name[BOX_NAME];        /* "": none */
	char environment[ENV_NAME]; /* as it was asked for */
	struct genv *made_of;       /* what that meant then */
	const struct tenant *tenant;
	struct gbox *box;
	enum abox_state state;
	bool counted; /* against max_boxes */
	uint64_t layers;
	struct limits limits;
	uint64_t created_ms, expires_ms; /* since 1970 */
	uint64_t ttl_us, idle_us;        /* idle_us 0: as long as it lives */
	uint64_t ends_us, idle_at_us;    /* by our clock */
	uint64_t told_us;                /* the keeper's deadline */
	struct timer life;
	struct texts env, metadata;
	struct texts tools; /* which it may call: see tool_rules.h */
	struct net_policy net;
	struct texts
		wanted; /* rules that would allow what none has allowed, as keys: refused, or (NET_LEARN) let through */
	struct idem_key idem;
	uint64_t oom_kills;      /* those that somebody was told of */
	bool app;                /* its working directory is /app */
	bool mounted;            /* it shows directories of the host */
	bool filling;            /* it is to be a copy of another one, and is not yet */
	bool held;               /* its processes are stopped, while it is copied */
	struct forking *forking; /* a copy of it is being made */
	bool listens;            /* it has ports: */
	uint16_t port[PORTS_OUTSIDE];
	struct port *ports[BOX_PORTS_MAX];
	struct published *published; /* by their numbers */
	unsigned int npublished, ninbound;
	unsigned int looks;              /* for modules, under way */
	struct tool_server *servers;     /* that were registered with it */
	struct registering *registering; /* that wait for its socket for tools */
	struct approval *approvals;      /* calls that wait for somebody */
	struct approver *approvers;
	struct tool_run *calls;          /* of tools, under way */
	unsigned int ncalls, calls_left; /* how many there may be until calls_at_us + 1 s */
	uint64_t calls_at_us;

	struct task *tasks, *last_task; /* the oldest first */
	unsigned int running, ended;
	struct table keys; /* of those that are not held any more */
	struct kernel *kernels;
	struct pace deaths; /* of kernels, which nobody asked for */
	size_t queued_bytes,
		parts_bytes; /* of requests that wait, and of messages that are not whole */
	struct stream *streams;
	struct tty *ttys;
	unsigned int nttys, attached;
	struct file_call *files; /* operations that are under way */
	unsigned int nfiles;

	struct gjob
		pooled; /* a kernel that waited in the pool, for whoever has a first cell: gjob_give() */
	bool has_pooled;

	struct se_queue
		*se; /* of a session of the Sandbox Runtime: what waits and runs; else NULL */

	struct making *making;
	enum abox_reason reason; /* of the end that is under way */
	struct deletion *deletions;
	struct deferred deferred;
};

/* --- boxes.c --- */

struct abox *abox_new(struct gate *g, const struct tenant *tenant);
/* What it is made of: the machine's own, unless said. */
void abox_make_of(struct abox *a, struct genv *v);
/* It has its id: from now on it can be found by that. -ENOMEM. */
int abox_known(struct abox *a);
/* One of a tenant's, or NULL. */
struct abox *abox_with_id(const struct gate *g, const struct tenant *t, const char *id, size_t n);
/* The box of the path, or NULL: answered (404, 410; 409 if it is to be ready and is not). */
struct abox *abox_find(struct req *r, bool ready);
/* One of a tenant that has this name, or NULL. */
struct abox *abox_named(const struct gate *g, const struct tenant *t, const char *name, size_t n);
/* End it. What runs in it ends, and says why. */
void abox_end(struct abox *a, enum abox_reason reason);
/* It never came to be: nobody is to hear of it. */
void abox_drop(struct abox *a);
/* It was used: its idle time begins anew. */
void abox_touch(struct abox *a);
/* End it, and answer when nothing of it is left. */
void abox_delete_for(struct abox *a, struct req *r);
/* The same for others: done() is called then. Also for one that is ending. -ENOMEM. */
int abox_delete_then(struct abox *a, void (*done)(void *arg), void *arg);
/* Look after its deadlines, here and at the keeper. */
void abox_schedule(struct abox *a);
const char *abox_reason_str(enum abox_reason reason);
const char *abox_state_str(const struct abox *a);
/* The members of an answer. figures may be NULL: none are shown. */
void abox_put(const struct abox *a, struct json *j);
void abox_put_figures(const struct abox *a, struct json *j, const struct box_figures *f);
/* What the keeper's stream tells of it. */
extern const struct gbox_ops abox_ops;

/* Add a pair. -ENOMEM. */
int texts_add(struct texts *t, const char *key, size_t nkey, const char *value, size_t nvalue);
void texts_remove(struct texts *t, const char *key);
void texts_done(struct texts *t);
/* The value of a key; NULL: none. */
const char *texts_get(const struct texts *t, const char *key);
/* The next pair behind *at; false: there is none. */
bool texts_next(const struct texts *t, size_t *at, const char **key, const char **value);

/* --- box_env.c --- */

struct box_env {
	const char *v[JOB_ENV_MAX]; /* for a job; ends in NULL */
	size_t n;
	struct ci_strings *strings;
};

/* Of what runs in this box: ours, what its network needs, its own. box_env_done() follows in any case. 0; -ENOMEM, -E2BIG. */
int box_env_begin(struct box_env *e, const struct abox *a, const char *const *ours);
/* And these; the texts may go then. 0 or -errno. */
int box_env_add(struct box_env *e, const struct texts *t);
void box_env_done(struct box_env *e);

/* --- boxes_make.c --- */

/* What the keeper is asked for where the maker of a box wants nothing in particular. */
void box_standard(struct gate *g, struct box_request *q);

/* What a dialect wants a box to be: by what is configured for the dialect, and within no other bounds. */
struct box_wish {
	const struct abox *like; /* of the same environment, and so on; NULL: of the default one */
	const char *name;        /* NULL: none */
	uint32_t image;          /* what its kernel is thawed from; 0: the usual one */
	uint64_t idle_us;
	struct limits limits;
	struct texts env, metadata, tools; /* go to the box, or away */
	struct net_policy net;             /* the same */
	uint64_t ttl_us;
};

/* Make it. r is answered as by box_create(), and is the caller's own (req.h: via). No kernel waits in such a box. */
void box_make(struct req *r, struct box_wish *w);
/* Its box is there, or is not, or has gone before anybody had it. */
void making_ready(struct abox *a);
void making_failed(struct abox *a, enum own_error code, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Its ports are there. */
void making_listens(struct abox *a);
/* The keeper does not make it. */
void making_refused(struct abox *a, const struct err *e);
/* Release what was needed on the way. */
void making_done(struct abox *a);
struct field_str;
/* The name of a box to be, "" if none was said. -1: answered, it is none or is taken. */
int box_take_name(struct req *r, const struct field_str *name, char ret[BOX_NAME]);
/* Whether idle and ttl may be that long; -1: answered. */
int box_check_times(struct req *r, bool ttl_set, int64_t ttl_s, bool idle_set, int64_t idle_s);
/* Texts of a request into *t. -1: answered. */
int box_take_texts(struct req *r, const char *field, const struct field_list *list, bool env,
		   struct texts *t);

extern const struct fields box_create_fields, box_patch_fields;

/* --- boxes_record.c --- */

/* Tell the keeper what the next gate needs. 0 or -errno. */
int abox_save(struct abox *a, keeper_fn fn, void *arg);
/* The same before anything more is sent to anybody, at the latest at the end of this turn. */
void abox_changed(struct abox *a);
void aboxes_save(struct gate *g);
/* It is gone. */
void abox_unsaved(struct abox *a);
/* Whether a record of this box would fit. */
bool abox_fits(const struct abox *a);
int abox_adopt(struct gate *g, const struct box_info *info, const uint8_t *record, size_t n);

/* --- idem.c --- */

/* Take the key of a request, before its body is decoded. 0, or -1: answered. */
int idem_take(struct req *r, const char *scope, struct idem_key *k);
/* What was answered to a key; NULL: nothing that is known. */
const struct idem *idem_find(struct gate *g, const struct idem_key *k);
bool idem_same_body(const struct idem *i, const struct idem_key *k);
const char *idem_answer(const struct idem *i, size_t *n);
/* Remember an answer, `age_ms` old. */
void idem_add(struct gate *g, const struct idem_key *k, const char *text, size_t n,
	      uint64_t age_ms);
/* Whether another command or box has this key with another body; -1: answered. */
void idem_refuse(struct req *r);

/* Which of the allowed roots is meant; -1: none. */
int box_find_root(const struct gate *g, const char *name);

/* --- tasks.c --- */

struct msg_in;
struct msg_out;

/* How much of a box its record has room for. */
enum record_room { ROOM_FOR_ALL, ROOM_FOR_WHAT_RUNS, ROOM_FOR_LITTLE, ROOM_MAX };

/* Of a record: those that run or wait to be heard. */
void tasks_save(const struct abox *a, struct msg_out *m, enum record_room room);
int tasks_load(struct abox *a, struct msg_in *m);
/* The box is there again: hear of them. */
void tasks_adopt(struct abox *a);
/* The box has ended under them. */
void tasks_end(struct abox *a, bool oom, const char *why);
/* Let go of the output of something that has ended: of the tenant that holds most, be it the one that writes. */
bool tasks_evict(void *gate);

/* Of a record: keys of others, as many as there is room for. */
void task_keys_save(const struct abox *a, struct msg_out *m, enum record_room room);
int task_keys_load(struct abox *a, struct msg_in *in);
void task_keys_done(struct abox *a);

/* One of a record; NULL: no memory, or there is no such kernel. A cell is of the kernel with this number, or of one that has
 * gone and had this name. */
struct task *command_load(struct abox *a, unsigned int flags);
struct task *cell_load(struct abox *a, unsigned int kernel, const char *name, unsigned int flags);

/* --- kernels.c --- */

void kernels_save(const struct abox *a, struct msg_out *m);
int kernels_load(struct abox *a, struct msg_in *m);
void kernels_adopt(struct abox *a);
void kernels_end(struct abox *a);

/* --- box_tty.c --- */

void ttys_save(const struct abox *a, struct msg_out *m);
int ttys_load(struct abox *a, struct msg_in *m);
void ttys_adopt(struct abox *a);
void ttys_end(struct abox *a);

/* --- box_stream.c --- */

/* Their box has ended: close them when everything was said. */
void streams_end(struct abox *a);

/* --- handlers --- */

void box_create(struct req *r);
void box_list(struct req *r);
void box_get(struct req *r);
void box_patch(struct req *r);
void box_network_put(struct req *r);
extern const struct fields box_network_fields;
void box_delete(struct req *r);
void command_create(struct req *r);
void command_list(struct req *r);
void command_get(struct req *r);
void command_events(struct req *r);
void command_delete(struct req *r);
void command_stdin(struct req *r);
void command_signal(struct req *r);
void box_file_get(struct req *r);
void box_file_put(struct req *r);
void box_file_post(struct req *r);
void box_file_delete(struct req *r);
void box_files_list(struct req *r);
void box_files_post(struct req *r);
void box_watch(struct req *r);
void box_archive_get(struct req *r);
void box_archive_put(struct req *r);
void box_tty(struct req *r);
void box_stream(struct req *r);
void cell_create(struct req *r);
void cell_list(struct req *r);
void cell_get(struct req *r);
void cell_events(struct req *r);
void cell_delete(struct req *r);
void cell_input(struct req *r);
void kernel_list(struct req *r);
void kernel_get(struct req *r);
void kernel_delete(struct req *r);
void kernel_interrupt(struct req *r);
void kernel_restart(struct req *r);
void kernel_complete(struct req *r);
void kernel_is_complete(struct req *r);
void kernel_inspect(struct req *r);

extern const struct fields kernel_complete_fields, kernel_is_complete_fields, kernel_inspect_fields;
extern const struct fields command_create_fields, command_stdin_fields, command_signal_fields;
extern const struct fields cell_create_fields, cell_input_fields, kernel_fields;
