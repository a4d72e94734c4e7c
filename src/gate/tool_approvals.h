/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of tools that somebody has to allow first: which wait, and who is asked.
 *
 * A client sees them by GET /v1/boxes/{box_id}/approvals, or hears of them on a WebSocket there, and answers by POST or on that. ipybox's clients do so on /approval
 * of the box's resource port, in the same shape. From inside a box nobody can answer. While a call waits the time of what runs in its box stands still.
 */
#pragma once

#include "gate/boxes.h"

struct approval;

enum approval_answer { APPROVAL_ALLOWED, APPROVAL_DENIED, APPROVAL_TIMED_OUT };

typedef void approval_fn(void *arg, enum approval_answer answer);

/* Ask whoever there is, and whoever comes. fn is called once, later. NULL: no memory. */
struct approval *approval_ask(struct abox *a, const char *server, const char *tool,
			      const char *arguments, size_t n, approval_fn *fn, void *arg);
/* Nobody wants to know any more. */
void approval_drop(struct approval *p);
/* The box ends: nobody is asked any more. Calls that wait have been dropped. */
void approvals_end(struct abox *a);

/* --- handlers --- */

void approvals_get(struct req *r); /* GET /v1/boxes/{box_id}/approvals, also a WebSocket */
void approvals_post(struct req *r);
void ipy_approval(struct req *r); /* WebSocket /approval */
void ipy_approve(struct req *r);  /* POST /approve, from inside: may this be called? */

extern const struct fields approvals_post_fields;
