/* SPDX-License-Identifier: Apache-2.0 */
/* Where a server is: http://[x:TOKEN@]host[:port][/prefix] or unix:/path. */
#pragma once

#include "base/err.h"

#include <stdint.h>

enum { URL_HOST = 256, URL_PATH = 108, URL_PREFIX = 512, URL_TOKEN = 1024 };

struct url {
	char host[URL_HOST]; /* a name, or an address without brackets; "": a Unix socket */
	uint16_t port;
	char path[URL_PATH];                     /* of the Unix socket */
	char prefix[URL_PREFIX];                 /* before every path: "" or "/something" */
	char token[URL_TOKEN];                   /* the password, decoded; "": none */
	char authority[URL_HOST + 16];           /* what goes into Host */
	char shown[URL_HOST + URL_PREFIX + 128]; /* for people, without the token */
};

int url_parse(const char *text, struct url *ret, struct err *e);

/* The same of a listener as `glovebox serve` is told: ADDR:PORT, [V6]:PORT, :PORT, unix:PATH. Of an address that stands
 * for all, this machine's own. */
int url_from_listener(const char *text, struct url *ret, struct err *e);
