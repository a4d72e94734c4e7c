/* SPDX-License-Identifier: Apache-2.0 */
/* TLS on a connected descriptor, by libssl. TLS 1.2 and newer. */
#pragma once

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tls_context;
struct tls;

/* From PEM text: certificate chain, private key. */
struct tls_context *tls_context_new(const char *cert, size_t cert_len, const char *key,
				    size_t key_len, struct err *e);
void tls_context_free(struct tls_context *c);

/* The server's side of a connection, NULL without memory. */
struct tls *tls_new(struct tls_context *c, int fd);
void tls_free(struct tls *t);

/* As recv and send: a count, 0 at the end, -errno. -EAGAIN leaves in *want which of EPOLLIN and EPOLLOUT
 * must come first, whatever was asked for. */
ssize_t tls_recv(struct tls *t, void *p, size_t n, uint32_t *want);
ssize_t tls_send(struct tls *t, const void *p, size_t n, uint32_t *want);
/* Whether bytes wait in the library that no event will announce. */
int tls_pending(const struct tls *t);
/* Say that nothing more will be sent. */
void tls_bye(struct tls *t);
