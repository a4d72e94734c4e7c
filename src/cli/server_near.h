/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of our own, for as long as we live: `glovebox serve` on a Unix socket in a directory of its own.
 *
 * Between it and us is a small process that waits for the end of a pipe, which is our end, however it comes: then it
 * stops the server and removes the directory.
 */
#pragma once

#include "base/err.h"
#include "cli/url.h"

#include <sys/types.h>

struct server_near {
	pid_t minder;
	int life; /* the pipe; -1: there is no server */
	char dir[URL_PATH];
	struct url url;
};

/* roots: directories of which boxes may have parts; ends with NULL. warm: kernels are started from images, which takes it a moment
 * to make; otherwise the first one is there sooner, and all others later. */
int server_near_start(struct server_near *s, const char *const *roots, bool warm, struct err *e);
/* It is gone, and so is everything of it. */
void server_near_stop(struct server_near *s);
