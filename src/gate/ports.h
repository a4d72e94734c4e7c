/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of a box: listeners of its own, for clients that know a box by its ports.
 *
 * Two are on this machine's loopback, and whoever connects there is asked for a token as everywhere. Two are in the box's own
 * network: who connects to those is in the box, and may do there what the box may do to itself. What can be asked of
 * either is said by the rows of routes.tbl, and is about this box and no other.
 *
 * Some more on this machine's loopback are for programs of the box that listen (published.h).
 *
 * One more is a Unix socket in the box, over which it calls tools (tool_calls.c).
 *
 * The keeper opens and keeps them (OP_BOX_PORT); they are asked for when a box is made, and again by every gate that takes it
 * over.
 */
#pragma once

#include "gate/boxes.h"

/* Ask for the listeners of a box: those of this machine with the numbers in a->port, 0: any. making_listens() or making_failed()
 * comes later. */
void ports_open(struct abox *a);
/* The socket for tools of a box that has none yet. Whether it is there: if not, tool_servers_open() comes later. */
bool ports_open_tools(struct abox *a);
/* One of them by itself, PORT_PUBLISHED or one behind it: opened() is called later, with its number or with an error, unless it is ended before. 0 or -errno. */
typedef void (*port_fn)(void *arg, uint16_t number, const struct err *e);
int ports_open_one(struct abox *a, unsigned int which, uint16_t number, port_fn opened, void *arg);
void ports_end_one(struct abox *a, unsigned int which);
/* Which of them a listener of a box is. */
unsigned int ports_which(const struct listener *l);
/* Others may come. */
void ports_accept(struct abox *a);
/* The box is another gate's, and ours from now on. */
void ports_adopt(struct abox *a);
/* It ends: nobody else may come. */
void ports_end(struct abox *a);
/* As a member of an answer. */
void ports_put(const struct abox *a, struct json *j);

/* The box that a request is about, by its path or by where it came in; NULL: none in particular. 0, or -1: answered. */
int req_box(struct req *r, struct abox **ret);
/* The parameter of its path, but for {box_id}. */
struct http_slice req_param(const struct req *r);
