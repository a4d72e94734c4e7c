// SPDX-License-Identifier: Apache-2.0
/*
 * TLS to servers of MCP: who they are is checked against the certificates that this machine trusts, which are read before the process gives up files.
 */
#include "tools/tools.h"

#include "base/own.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

static SSL_CTX *context;

int tools_tls_start(const char *ca_file, struct err *e)
{
	context = SSL_CTX_new(TLS_client_method());
	if (context == NULL)
		return err_set(e, ERR_SYS, ENOMEM, "set up TLS");
	(void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	(void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE |
						SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
						SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	/* Without any, nobody is trusted. */
	if (SSL_CTX_load_verify_file(context, ca_file) != 1)
		ERR_clear_error();
	return 0;
}

/* A name or an address, as the certificate has to have it. */
static int expect(SSL *ssl, const char *host)
{
	/* The library has a macro of its own for a name, and takes no constant. */
	char name[TLSEXT_MAXLEN_host_name + 1];

	if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
		return 1;
	ERR_clear_error();
	if ((size_t)snprintf(name, sizeof(name), "%s", host) >= sizeof(name))
		return 0;
	return SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, name) == 1;
}

static int begin(struct fetch *x)
{
	SSL *ssl = SSL_new(context);

	if (ssl == NULL || SSL_set_fd(ssl, x->fd) != 1 || expect(ssl, x->host) != 1) {
		SSL_free(ssl);
		return -ENOMEM;
	}
	SSL_set_connect_state(ssl);
	x->layered = ssl;
	return 0;
}

/* What a call of the library that did not succeed means. */
static ssize_t outcome(struct fetch *x, int rc)
{
	SSL *ssl = x->layered;
	int why = SSL_get_error(ssl, rc);
	bool untrusted = SSL_get_verify_result(ssl) != X509_V_OK;

	ERR_clear_error();
	if (why == SSL_ERROR_ZERO_RETURN)
		return 0;
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
		x->wants = why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
		errno = EAGAIN;
	} else {
		errno = untrusted ? EKEYREJECTED : EPROTO;
	}
	return -1;
}

static ssize_t put(struct fetch *x, const void *p, size_t n)
{
	size_t moved = 0;
	int rc = SSL_write_ex(x->layered, p, n, &moved);

	return rc == 1 ? (ssize_t)moved : outcome(x, rc);
}

static ssize_t get(struct fetch *x, void *p, size_t n)
{
	size_t moved = 0;
	int rc = SSL_read_ex(x->layered, p, n, &moved);

	return rc == 1 ? (ssize_t)moved : outcome(x, rc);
}

static void done(struct fetch *x)
{
	SSL_free(x->layered);
}

const struct fetch_layer tools_tls = { begin, put, get, done };
