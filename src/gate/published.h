/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published ports: programs of a box that listen, for clients outside of it.
 *
 *   published.c     which ports: the calls, the table of a box, what the next gate is told
 *   inbound.c       one request to such a program, and its answer; a WebSocket
 *   inbound_head.c  what is said in the heads of both
 *
 * A request comes by a path of this server (/v1/boxes/{box_id}/ports/{port}/…) or by a port of this machine's loopback that is for this program alone. Who may
 * ask is decided as everywhere. Then init connects to the program (JOB_LINK), on the box's own loopback: nothing of this process, of the keeper or of the
 * machine is reachable from there, and the program cannot call out by it.
 *
 * The program is hostile. Its answer is read as strictly as a request is, written anew header by header, and what would act on more than itself is left out.
 */
#pragma once

#include "gate/boxes.h"
#include "wire/http_answer.h"

enum {
	PUBLISHED_PER_BOX = 16,
	PUBLISHED_NOWHERE = UINT8_MAX, /* instead of a slot: it has no port of this machine */
	INBOUND_MAX = 64,              /* requests of one box at once */
};

struct inbound;

struct published {
	struct published *next;
	struct abox *a;
	uint16_t port;     /* of the box */
	uint8_t slot;      /* behind PORT_PUBLISHED, or PUBLISHED_NOWHERE */
	uint16_t loopback; /* the number of that port; 0: it is being asked for */
	struct inbound *inbound;
	bool fresh;        /* it goes if that does not come to be */
	struct req *waits; /* who publishes it, and hears when its port is there */
};

/* --- published.c --- */

void published_put(const struct abox *a, struct json *j);
void published_save(const struct abox *a, struct msg_out *m);
int published_load(struct abox *a, struct msg_in *m);
/* The box is there again: so are its listeners. */
void published_adopt(struct abox *a);
/* It ends. */
void published_end(struct abox *a);
/* What a request is for. NULL: answered. */
struct published *published_find(struct req *r, struct http_slice *ret_rest);

void published_create(struct req *r);
void published_list(struct req *r);
void published_get(struct req *r);
void published_delete(struct req *r);
extern const struct fields published_fields;

/* --- inbound.c --- */

void inbound_run(struct req *r);
/* What goes through it is cut. */
void inbound_end_all(struct published *p);

/* --- inbound_head.c --- */

/* The request as the program gets it. rest: the target behind what is ours, without a slash in front. 0 or -errno. */
int inbound_request(const struct req *r, const struct published *p, struct http_slice rest,
		    struct buf *to);
/* The headers of its answer that a client gets, by req_header_slice(). */
void inbound_headers(struct req *r, const struct published *p, const struct http_answer *a);
/* Whether it was asked by a path of this server, where others are served, too. */
bool inbound_shares_origin(const struct req *r);
