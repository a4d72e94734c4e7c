/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tunnels: what stands between a connection and one of its ends where requests get a header on their way out.
 *
 *   program ── TLS ── [tunnel] ── plain ── econn: each request is looked at, and gets its header ── plain ── [tunnel] ── TLS ── server
 *
 * A tunnel has the socket, and is a socket pair to its connection: so that knows nothing of TLS, and reads requests in it as it reads those of plain HTTP.
 * The one to the program has a certificate for the name, by an authority that this box alone trusts; the one to the server wants to see one that the
 * machine trusts. The one to the server also hides secrets in answers, where a rule says so; without TLS that is all it does.
 *
 *   tunnel.c      bytes, both ways; TLS; its end
 *   authority.c   certificates for a box
 *   answers.c     answers that must not show something
 *   secrets.c     what there is to put in, and for whom
 *   inject.c      putting it in
 *   queue.h       bytes that wait
 */
#pragma once

#include "egress/egress.h"
#include "egress/queue.h"
#include "wire/redact.h"

#include <openssl/ssl.h>

enum {
	TUNNELS_BOX = 256, /* of a box; a connection that is opened has two */
	TUNNELS_MAX = 4096,
	TUNNEL_WHY = 160,
};

/* --- tunnel.c --- */

/* TLS of the client, whose hello is held, and of the server: from here on the connection is about what is in it. 0; -EACCES: there are too many; -ENOMEM. */
int tunnel_open(struct econn *c);
/* Answers that come from here on do not show the secrets of rules that say so. */
int tunnel_hide(struct econn *c);
/* A request is about to go out that will be answered there. 0 or -EBUSY. */
int tunnel_asks(struct econn *c, bool head);
/* Whether the server has yet to show who it is. conn_again() follows. */
bool tunnel_waits(const struct econn *c);
/* Why the server is not to be spoken to: a text, or NULL. */
const char *tunnel_refused(const struct econn *c);
/* The connection is over: what it has said goes out, or (broken) everything ends here. */
void tunnels_let_go(struct econn *c, bool broken);
/* All of a box. */
void tunnels_end(struct ebox *b);

/* --- authority.c --- */

/* Who vouches for names in a box, in that box only. */
struct authority;

/* From the same seed and box it is the same. */
struct authority *authority_new(const uint8_t *seed, size_t n, uint64_t box);
void authority_free(struct authority *a);
/* Its certificate as PEM, allocated; NULL: no memory. */
char *authority_pem(const struct authority *a, size_t *ret_n);
/* What a connection to this name needs, for a server. 0 or -ENOMEM. */
int authority_use(struct authority *a, SSL *ssl, const char *name);

/* --- answers.c --- */

struct answers;

/* redact is its own from here on. */
struct answers *answers_new(struct redact *redact);
void answers_free(struct answers *x);
int answers_asked(struct answers *x, bool head);
/* Bytes of the server, to what the client is to get. 0 or -errno. */
int answers_feed(struct answers *x, const uint8_t *p, size_t n, struct queue *to);
int answers_end(struct answers *x, struct queue *to);

/* --- secrets.c --- */

struct secret {
	char name[NET_SECRET];
	struct secret_host *hosts;
	unsigned int nhosts;
	char *value;
};

/* What the supervisor has told; whatever was there before is forgotten. 0 or -1. */
int secrets_read(struct egress *e, int fd, struct err *err);
/* Whether there is anything to put in, or to open TLS with. */
bool secrets_there(const struct egress *e);
/* The value that a rule puts into requests to this name; NULL: there is none for it. */
const char *secrets_value(const struct egress *e, const char *name, const char *host);
/* TLS to servers, and as one. */
SSL_CTX *secrets_client(struct egress *e);
SSL_CTX *secrets_server(struct egress *e);
/* What a box is to trust, into this file: what the machine trusts, and the box's own authority. 0 or -errno. */
int secrets_put_trust(const struct egress *e, const struct authority *a, int fd);
struct authority *secrets_authority(const struct egress *e, uint64_t box);

/* --- inject.c --- */

/* The head [at, at + n) of what is held gets its header, if a rule says so, and asks for an answer that can be looked through; *n is its new length. 0; -EPERM: there is no such secret; -ENOBUFS: it becomes too long. */
int inject_head(struct econn *c, const struct http_head *head, size_t at, size_t *n);
/* Whether answers to this connection must hide something. */
bool inject_hides(const struct econn *c);
/* All of it. 0 or -errno. */
int inject_hidden(const struct econn *c, struct redact *ret);
