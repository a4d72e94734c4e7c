/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions, for handlers that work in one. */
#pragma once

struct gbox;
struct req;

/* The box of the session in the request's path; NULL: answered. */
struct gbox *ci_session_box(struct req *r);
