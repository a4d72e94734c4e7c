// SPDX-License-Identifier: Apache-2.0
#include "gate/tls.h"

#include "base/own.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>

struct tls_context {
	SSL_CTX *ctx;
};

struct tls {
	SSL *ssl;
};

static int openssl_err(struct err *e, const char *what)
{
	char text[160];
	unsigned long code = ERR_get_error();

	ERR_error_string_n(code, text, sizeof(text));
	ERR_clear_error();
	return err_set(e, ERR_INPUT, 0, "%s: %s", what, code != 0 ? text : "not usable");
}

static int use_chain(SSL_CTX *ctx, const char *pem, size_t len, struct err *e)
{
	BIO *bio = BIO_new_mem_buf(pem, (int)len);
	X509 *first = bio == NULL ? NULL : PEM_read_bio_X509_AUX(bio, NULL, NULL, NULL), *more;
	int ok = first != NULL && SSL_CTX_use_certificate(ctx, first) == 1;

	X509_free(first);
	while (ok && (more = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL)
		if (SSL_CTX_add0_chain_cert(ctx, more) != 1) {
			X509_free(more);
			ok = 0;
		}
	BIO_free(bio);
	if (!ok)
		return openssl_err(e, "tls_cert");
	ERR_clear_error(); /* the end of the file counts as one */
	return 0;
}

static int use_key(SSL_CTX *ctx, const char *pem, size_t len, struct err *e)
{
	BIO *bio = BIO_new_mem_buf(pem, (int)len);
	EVP_PKEY *key = bio == NULL ? NULL : PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	int ok = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1 &&
		 SSL_CTX_check_private_key(ctx) == 1;

	EVP_PKEY_free(key);
	BIO_free(bio);
	return ok ? 0 : openssl_err(e, "tls_key");
}

struct tls_context *tls_context_new(const char *cert, size_t cert_len, const char *key,
				    size_t key_len, struct err *e)
{
	struct tls_context *c = calloc(1, sizeof(*c));

	if (c != NULL)
		c->ctx = SSL_CTX_new(TLS_server_method());
	if (c == NULL || c->ctx == NULL || cert_len > INT_MAX || key_len > INT_MAX) {
		(void)err_set(e, ERR_SYS, ENOMEM, "set up TLS");
		tls_context_free(c);
		return NULL;
	}
	(void)SSL_CTX_set_min_proto_version(c->ctx, TLS1_2_VERSION);
	(void)SSL_CTX_set_options(c->ctx,
				  SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
	(void)SSL_CTX_set_mode(c->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
					       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					       SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_OFF);
	if (use_chain(c->ctx, cert, cert_len, e) < 0 || use_key(c->ctx, key, key_len, e) < 0) {
		tls_context_free(c);
		return NULL;
	}
	return c;
}

void tls_context_free(struct tls_context *c)
{
	if (c == NULL)
		return;
	SSL_CTX_free(c->ctx);
	free(c);
}

struct tls *tls_new(struct tls_context *c, int fd)
{
	struct tls *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->ssl = SSL_new(c->ctx);
	if (t->ssl == NULL || SSL_set_fd(t->ssl, fd) != 1) {
		tls_free(t);
		return NULL;
	}
	SSL_set_accept_state(t->ssl);
	return t;
}

void tls_free(struct tls *t)
{
	if (t == NULL)
		return;
	if (t->ssl != NULL && SSL_is_init_finished(t->ssl))
		(void)SSL_shutdown(t->ssl); /* one message, not waited for */
	SSL_free(t->ssl);
	ERR_clear_error();
	free(t);
}

static ssize_t outcome(struct tls *t, int rc, uint32_t *want)
{
	int why = SSL_get_error(t->ssl, rc);

	ERR_clear_error();
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
		*want = why == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT;
		return -EAGAIN;
	}
	return why == SSL_ERROR_ZERO_RETURN ? 0 : -ECONNRESET;
}

ssize_t tls_recv(struct tls *t, void *p, size_t n, uint32_t *want)
{
	size_t got = 0;
	int rc = SSL_read_ex(t->ssl, p, n, &got);

	return rc == 1 ? (ssize_t)got : outcome(t, rc, want);
}

ssize_t tls_send(struct tls *t, const void *p, size_t n, uint32_t *want)
{
	size_t put = 0;
	int rc = SSL_write_ex(t->ssl, p, n, &put);

	return rc == 1 ? (ssize_t)put : outcome(t, rc, want);
}

int tls_pending(const struct tls *t)
{
	/* Not SSL_has_pending(): that counts half a record, which reading does not change. */
	return SSL_pending(t->ssl) > 0;
}

void tls_bye(struct tls *t)
{
	if (SSL_is_init_finished(t->ssl))
		(void)SSL_shutdown(t->ssl);
	ERR_clear_error();
}
