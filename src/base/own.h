/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership: variables that clean up behind themselves.
 *
 * `own_fd fd = open(...)` closes the descriptor when the scope ends, `fd_take(&fd)` hands it on.
 * Every owned variable starts at its empty value (-1, NULL); destructors accept it.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define OWN(fn) __attribute__((cleanup(fn)))

/* Close *fd if it is open, keeping errno. close(2) is never retried: on Linux the descriptor is
 * gone even after EINTR. */
static inline void fd_close(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
	errno = saved;
}

static inline int fd_take(int *fd)
{
	int taken = *fd;

	*fd = -1;
	return taken;
}

static inline void own_free_p(void *p)
{
	void **pp = p;

	free(*pp);
	*pp = NULL;
}

#define own_fd   OWN(fd_close) int
#define own_free OWN(own_free_p)

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))
