/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets that an operator has for boxes, as they are configured: "[TENANT/]NAME=SOURCE@HOST [HOST…]". SOURCE is where its value is: "env:VARIABLE", "file:/PATH" or
 * "command:/PROGRAM ARGUMENT…"; HOST is a name, or "*.name" for all below it: nobody else is ever sent it.
 *
 * The value itself is not here: the supervisor fetches it, and egress alone is told.
 */
#pragma once

#include "wire/netrule.h"

enum {
	SECRETS_MAX = 64,
	SECRET_TEXT = 4096, /* of one, with its NUL */
	SECRET_HOSTS = 16,
	SECRET_TENANT = 65,
	SECRET_SHORTEST =
		8, /* bytes of a value at least: what is shorter is found in texts that do not have it */
	SECRET_VALUE = 8192, /* and at most */
};

enum secret_source { SECRET_ENV, SECRET_FILE, SECRET_COMMAND, SECRET_SOURCE_MAX };

extern const char *const secret_source_str[SECRET_SOURCE_MAX]; /* "env" */

/* Whom a secret is for. */
struct secret_host {
	char name[NET_NAME];
	bool below; /* names below it, and not itself */
};

struct secret_spec {
	char tenant[SECRET_TENANT]; /* "": any */
	char name[NET_SECRET_NAME];
	enum secret_source source;
	char where[SECRET_TEXT];
	struct secret_host hosts[SECRET_HOSTS];
	unsigned int nhosts;
};

/* 0 or -1: e says what is wrong, and has nothing of the source in it. */
int secret_spec_read(const char *text, struct secret_spec *ret, struct err *e);

/* As rules have it: "name" or "tenant/name". */
void secret_spec_key(const struct secret_spec *s, char ret[NET_SECRET]);

/* "name" or "*.name". 0 or -EINVAL. */
int secret_host_read(const char *text, struct secret_host *ret);
/* Whether a secret for these may be sent to this name. */
bool secret_hosts_have(const struct secret_host *v, unsigned int n, const char *name);
/* Whether it may be sent wherever a rule leads. */
bool secret_hosts_cover(const struct secret_host *v, unsigned int n, const struct net_rule *r);
