/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress process: what boxes may reach, it reaches for them. See README.md for who decides what.
 *
 * main.c has the role, keeper.c what the keeper says, box.c a box from its policy to its end, names.c addresses that stand for names, dns.c answers
 * to questions, conn.c a connection from its arrival to its end, conn_dial.c the way to the other side, proxy.c who asks for a connection
 * in words, sniff.c what a client says first, http_flow.c requests one after the other, relay.c bytes, lookup.c names looked up, bounds.c how much of
 * it a box may have, figures.c how much it had. What requests get on their way out is in tunnel.h.
 */
#pragma once

#include "base/loop.h"
#include "wire/chan.h"
#include "wire/dns.h"
#include "wire/egressmsg.h"
#include "wire/http1.h"
#include "wire/netrule.h"

#include <netinet/in.h>

enum {
	EGRESS_KEEPER_FD = 3,
	EGRESS_SECRETS_FD = 4,

	CONNS_MAX = 16384,        /* of all boxes */
	BOX_NAMES_MAX = 4096,     /* that have an address at a time */
	ADDRESSES_MAX = 8,        /* of a name that are tried */
	HOLD_MAX = 64 * 1024,     /* of a client's bytes that are not passed on yet */
	HOLD_MOST = 2 * HOLD_MAX, /* with what is put in */
	HOLD_FIRST = 2048,
	ACCEPTS_A_TURN = 16, /* of one listener, so that others have theirs */
	QUESTIONS_A_TURN = 32,
	QUESTIONS_A_SECOND = 500, /* of a box, in the long run */
	QUESTIONS_AT_ONCE = 1000,
	DNS_CONNS_MAX = 8, /* of a box that asks by TCP */
	REFUSALS_A_SECOND =
		5, /* questions of a box whose refusal is told: it can ask without end */
	REFUSALS_AT_ONCE = 100,
	CONNS_A_SECOND = 200, /* new ones of a box */
	CONNS_AT_ONCE = 1000,
	RECORDS_A_SECOND = 2000, /* of all boxes */
	RECORDS_AT_ONCE = 4000,
	ANSWERS_MAX = 4096,
};

#define HELLO_US  (10 * 1000000ull)  /* until what a client says first is whole */
#define DIAL_US   (10 * 1000000ull)  /* until the other side has answered, all addresses together */
#define TRY_US    (2 * 1000000ull)   /* one address, where there is another */
#define IDLE_US   (600 * 1000000ull) /* in which nobody says anything */
#define LINGER_US (60 * 1000000ull)  /* the same when one side has finished */
#define NAME_US   (60 * 1000000ull)  /* an answer of ours is remembered */
#define NAME_OLD_US \
	(600 * 1000000ull) /* a name that was not asked for in that time may lose its address */

struct egress;
struct ebox;
struct econn;
struct tunnel;
struct authority;
struct secrets;

/* --- names.c: which address stands for which name, in one box --- */

struct ename {
	struct ename *next; /* of the same hash */
	char name[NET_NAME];
	uint32_t index; /* of its address in the range */
	uint64_t used_us;
	/* What it led to when it was last looked up. */
	struct net_address found[ADDRESSES_MAX];
	unsigned int nfound;
	uint64_t found_until_us;
};

struct enames {
	struct ename **by_hash, **by_index;
	unsigned int n, room;
	unsigned int hand; /* the index that is looked at first when an old one is wanted */
};

int names_init(struct enames *t);
void names_done(struct enames *t);
/* Its address, which it has from now on. NULL: there is none to be had. */
struct ename *names_take(struct enames *t, const char *name, uint64_t now_us);
/* Whom an address of the range stands for; NULL: nobody. */
struct ename *names_of(const struct enames *t, const uint8_t address[4]);
struct ename *names_find(const struct enames *t, const char *name);
void names_address(const struct ename *n, uint8_t ret[4]);
bool names_is_in_range(const struct net_address *a);

/* --- a box --- */

/* So much a second in the long run, and some more at once. */
struct bucket {
	uint64_t left, at_us; /* left: in millionths */
};

/* What may go at once, one way; below 0: it went already. */
struct flow {
	int64_t left;
	uint64_t at_us;
};

enum way { WAY_UP, WAY_DOWN, WAYS };

struct edns_conn;

struct ebox {
	struct ebox *next;
	struct egress *e;
	uint64_t id;
	struct net_policy policy;
	int fd[EGRESS_FDS];
	struct watch watch[EGRESS_FDS];
	struct timer resume;
	struct enames names;
	struct econn *conns;
	unsigned int nconns;
	struct edns_conn *dns_conns;
	unsigned int ndns_conns;
	struct bucket questions, refusals, arrivals;
	struct net_figures figures;
	bool untold; /* they have changed */
	struct flow flow[WAYS];
	struct timer earned;
	bool waits; /* for that */
	struct tunnel *tunnels;
	unsigned int ntunnels;
	struct authority *authority; /* NULL: nobody had a use for it */
	struct deferred gone;
};

struct egress {
	struct loop loop;
	struct watch keeper;
	struct {
		uint64_t request;
		int result;
	} answers[ANSWERS_MAX]; /* that wait for the keeper */
	unsigned int nanswers;
	struct bucket records;
	struct timer tell; /* figures */
	bool telling;
	struct ebox *boxes;
	unsigned int nconns;
	struct lookups *lookups;
	struct pipes *pipes;
	struct secrets *secrets; /* NULL: there are none */
	unsigned int ntunnels;
	int fds; /* descriptors that there may be */
};

/* --- bucket.c --- */

/* Take one, if there is one. */
bool bucket_take(struct bucket *b, uint64_t now_us, uint64_t a_second, uint64_t at_once);

/* --- bounds.c --- */

/* How many bytes may go one way now. */
uint64_t bounds_allow(struct ebox *b, enum way w);
void bounds_spent(struct ebox *b, enum way w, uint64_t bytes);
/* Whether it has had all that it may. */
bool bounds_reached(const struct ebox *b);
/* Its connections are looked at again when more may go. */
void bounds_wait(struct ebox *b);
/* Whether a new connection, or one that is there, may have this descriptor: the last ones are for the next box, which the keeper could not hand over otherwise. */
bool bounds_may_begin(const struct egress *e, int fd);
bool bounds_may_go_on(const struct egress *e, int fd);
void bounds_done(struct ebox *b);

/* --- figures.c --- */

void figures_changed(struct ebox *b);
/* It goes. */
void figures_last(struct ebox *b);

/* --- box.c --- */

/* A box that has done this so far, or other listeners of one that is there; the descriptors are its own from here on. 0 or -errno. */
int ebox_set(struct egress *e, const struct net_figures *f, const int fds[EGRESS_FDS]);
/* What it may reach from now on; connections that it may not have any more end. 0 or -errno. */
int ebox_policy(struct egress *e, uint64_t id, const void *bytes, size_t n);
void ebox_end(struct egress *e, uint64_t id);
/* There are other secrets: what was to hide the old ones, or trusts by them, begins anew. */
void eboxes_secrets(struct egress *e);
struct ebox *ebox_find(struct egress *e, uint64_t id);

/* --- keeper.c --- */

int keeper_start(struct egress *e, int fd);
/* A connection, or a name that was refused, is over: for whoever keeps the records. */
void keeper_tell(struct egress *e, const struct egress_record *r);

/* --- dns.c --- */

void dns_event(struct ebox *b);
/* 0, or -errno: it makes no sense to look again soon. */
int dns_accept(struct ebox *b);
void dns_conns_end(struct ebox *b);

/* --- lookup.c: names, by the servers that the machine has --- */

struct asked;

struct lookup {
	void (*fn)(struct lookup *l, const struct net_address *found, unsigned int n,
		   uint64_t ttl_us);
	void *arg;
	struct asked *asked; /* NULL: nothing is under way */
};

int lookups_start(struct egress *e, const char *servers, struct err *err);
/* fn follows, with none if there are none, but not at once. 0 or -errno. */
int lookup_begin(struct egress *e, struct lookup *l, const char *name);
/* fn is not called any more. */
void lookup_drop(struct lookup *l);

/* --- relay.c: bytes from one to the other, by pipes where that is possible --- */

struct pipes;

struct relay {
	int from, to;
	int pipe[2]; /* -1: none now */
	size_t in_pipe;
	bool ended; /* from has nothing more */
	bool shut;  /* and to was told */
	uint64_t bytes;
};

int pipes_start(struct egress *e);
/* Go on, with `most` bytes more at most. 0; what to wait for is in relay_wants(). -errno: one side is gone. */
int relay_step(struct egress *e, struct relay *r, uint64_t most);
void relay_done(struct egress *e, struct relay *r);
bool relay_wants_read(const struct relay *r);
bool relay_wants_write(const struct relay *r);
bool relay_is_over(const struct relay *r);

/* --- conn.c --- */

enum entry { ENTRY_REDIRECTED, ENTRY_PROXY };

enum said { /* what the client speaks */
	    SAID_NOTHING,
	    SAID_TLS,
	    SAID_HTTP,
	    SAID_OTHER,
};

enum conn_state {
	CONN_ASKING,  /* ENTRY_PROXY: it says where it wants to go */
	CONN_LOOKUP,  /* its name is looked up */
	CONN_DIALING, /* an address is being tried */
	CONN_OPEN,    /* both sides are there; what the client said first may not be whole yet */
};

struct econn {
	struct econn *next, **at;
	struct ebox *box;
	enum entry entry;
	enum conn_state state;
	struct watch client, server;
	int client_fd, server_fd;
	bool named;
	char name[NET_NAME];
	struct net_address address; /* where it is connected, or is to be */
	uint16_t port;
	struct net_verdict verdict; /* of its name, or of its address where it has none */
	struct net_verdict place;   /* of the address that was connected to */
	struct net_address tries[ADDRESSES_MAX];
	unsigned int ntries, tried;
	struct lookup lookup;
	struct timer timer;
	uint64_t began_us, dial_until_us;
	/* What the client has sent and nobody has looked at yet, or cannot be passed on now. */
	char *hold;
	size_t held, hold_cap, looked;
	size_t pass; /* of it that may go out */
	enum said said;
	bool whole; /* what is not held goes out as it is */
	bool client_ended;
	bool tls;                 /* it was opened: both sides are tunnels */
	struct tunnel *tunnel[2]; /* to the client, to the server; NULL: there is none */
	bool answered;            /* it was told why not, and is to find that, not a reset */
	struct http_flow *http;
	enum {
		TOLD_NOTHING,
		TOLD_SOCKS,
		TOLD_HTTP,
		TOLD_WITH_ANSWER
	} told; /* ENTRY_PROXY: how it hears whether that worked */
	bool greeted;
	struct relay up, down;
	uint64_t up_held_bytes;
	struct deferred gone;
	bool ending;
};

/* Those that wait. 0, or -errno: it makes no sense to look again soon. */
int conn_accept(struct ebox *b, int listener, enum entry entry);
/* Over: with a reset if it is refused or broken. why is for the record: a word of enum egress_why. */
void conn_end(struct econn *c, enum egress_why why);
/* The place that it wants is known: decide, look up, connect. */
void conn_go(struct econn *c);
/* More may go, or less: what it waits for. */
void conn_resume(struct econn *c);
/* Look again at what is held: its server can be spoken to now, or never. */
void conn_again(struct econn *c);
/* Its sockets are others now. 0, or -EBADMSG: the server has spoken. */
int conn_moved(struct econn *c);
/* Room for n bytes in what is held. 0, -ENOBUFS or -ENOMEM. */
int conn_room(struct econn *c, size_t n);
/* Again, because rules have changed: whether it may stay. */
bool conn_may_stay(struct econn *c);
/* What may be spoken on it, bits of NET_SPOKEN_…; known when it is open. */
unsigned int conn_spoken(const struct econn *c);
/* Whether each of its requests is to be asked about. */
bool conn_is_narrow(const struct econn *c);
/* The other side is there. */
void conn_opened(struct econn *c);
void conn_on_server(void *arg, uint32_t events);

/* --- conn_dial.c --- */

void dial_begin(struct econn *c);
void dial_failed(struct econn *c, int error);
void dial_done(struct econn *c);

/* --- proxy.c --- */

/* What is held of a client that says where it wants to go. */
void proxy_step(struct econn *c);
/* A request that is held from `at` on and has a whole URL, as proxies are sent them, becomes one with a path. 1: it can be read now, 0: more is wanted,
 * -EACCES: it is for somebody else. */
int proxy_origin_form(struct econn *c, size_t at);
/* Tell it how that went; it goes on as if it had connected by itself. 0 or -errno. */
int proxy_tell(struct econn *c, int error);

/* --- sniff.c --- */

/* Look at what is held: c->pass bytes of it may go out, c->whole when nothing more is to be looked at. 0, or -EACCES: it is for somebody else than it
 * may be, -EPERM: it asks for what it may not, and was told so, -EKEYREJECTED: its server cannot be trusted, and it was told so, -EBADMSG: nobody can tell what it is. Only when it is open. */
int sniff_step(struct econn *c);
/* Whether a name that is asked for on a connection to an address is one that a rule denies. */
bool sniff_is_denied(const struct econn *c, const char *name);

/* --- http_flow.c --- */

struct http_flow;

/* The same for requests of HTTP. */
int http_flow_step(struct econn *c);
/* A request wants to change the protocol: the first bytes of the answer are to be shown. True: that was enough. */
bool http_flow_wants_answer(const struct econn *c);
bool http_flow_answer(struct econn *c, const char *p, size_t n);
void http_flow_done(struct econn *c);
/* Headers by which some servers take a request for another one. */
bool http_flow_means_another(const struct http_head *h);
