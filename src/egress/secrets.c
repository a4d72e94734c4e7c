// SPDX-License-Identifier: Apache-2.0
/*
 * What there is to put into requests: {"seed": hex, "authorities": PEM, "secrets": [{"name", "hosts": [], "value"}]}, by a file that nobody else can read.
 *
 * A secret goes to its own hosts only, whatever a policy says: that has come from a gate.
 */
#include "egress/tunnel.h"

#include "base/own.h"
#include "wire/jsonr.h"
#include "wire/secretspec.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SETTINGS_MAX = 8 << 20, SEED = 32 };

struct secrets {
	uint8_t seed[SEED];
	char *authorities; /* of the machine, as PEM */
	size_t authorities_len;
	struct secret v[SECRETS_MAX];
	unsigned int n;
	SSL_CTX *client, *server;
};

static void done(struct secrets *s)
{
	if (s == NULL)
		return;
	for (unsigned int i = 0; i < s->n; i++) {
		if (s->v[i].value != NULL)
			explicit_bzero(s->v[i].value, strlen(s->v[i].value));
		free(s->v[i].value);
		free(s->v[i].hosts);
	}
	SSL_CTX_free(s->client);
	SSL_CTX_free(s->server);
	free(s->authorities);
	explicit_bzero(s->seed, sizeof(s->seed));
	free(s);
}

/* --- TLS -------------------------------------------------------------------------------------- */

static SSL_CTX *context_of(const SSL_METHOD *method)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (ctx == NULL)
		return NULL;
	(void)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	return ctx;
}

/* Requests are read: they must be of the HTTP that we read. */
static int choose(SSL *ssl, const unsigned char **out, unsigned char *n, const unsigned char *in,
		  unsigned int in_n, void *arg)
{
	static const unsigned char http1[] = "\x08http/1.1";

	(void)ssl;
	(void)arg;
	return SSL_select_next_proto((unsigned char **)(uintptr_t)out, n, http1, sizeof(http1) - 1,
				     in, in_n) == OPENSSL_NPN_NEGOTIATED
		       ? SSL_TLSEXT_ERR_OK
		       : SSL_TLSEXT_ERR_NOACK;
}

/* Without any, nobody is trusted. */
static int trust(SSL_CTX *ctx, const struct secrets *s)
{
	BIO *b = BIO_new_mem_buf(s->authorities, (int)s->authorities_len);
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	X509 *x;

	if (b == NULL)
		return -1;
	while ((x = PEM_read_bio_X509(b, NULL, NULL, NULL)) != NULL) {
		(void)X509_STORE_add_cert(store, x);
		X509_free(x);
	}
	ERR_clear_error();
	BIO_free(b);
	return 0;
}

static int make_contexts(struct secrets *s)
{
	s->client = context_of(TLS_client_method());
	s->server = context_of(TLS_server_method());
	if (s->client == NULL || s->server == NULL || trust(s->client, s) < 0)
		return -1;
	SSL_CTX_set_verify(s->client, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_alpn_select_cb(s->server, choose, NULL);
	(void)SSL_CTX_set_num_tickets(s->server, 0);
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int take_seed(struct secrets *s, const struct jsonr_node *n)
{
	if (n == NULL || n->type != JSONR_STRING || n->len != 2 * SEED)
		return -1;
	for (unsigned int i = 0; i < SEED; i++) {
		int high = http_hex(n->string[2 * i]), low = http_hex(n->string[2 * i + 1]);

		if (high < 0 || low < 0)
			return -1;
		s->seed[i] = (uint8_t)(high << 4 | low);
	}
	return 0;
}

static int take_hosts(struct secret *s, const struct jsonr *d, const struct jsonr_node *list)
{
	s->hosts = calloc(SECRET_HOSTS, sizeof(*s->hosts));
	if (s->hosts == NULL || list == NULL || list->type != JSONR_ARRAY)
		return -1;
	for (const struct jsonr_node *n = jsonr_first(d, list); n != NULL; n = jsonr_next(d, n)) {
		if (n->type != JSONR_STRING || s->nhosts == SECRET_HOSTS ||
		    secret_host_read(n->string, &s->hosts[s->nhosts]) < 0)
			return -1;
		s->nhosts++;
	}
	return 0;
}

static int take_secret(struct secrets *s, const struct jsonr *d, const struct jsonr_node *n)
{
	const struct jsonr_node *name = jsonr_get(d, n, "name"), *value = jsonr_get(d, n, "value");
	struct secret *one = &s->v[s->n];

	if (s->n == SECRETS_MAX || name == NULL || name->type != JSONR_STRING ||
	    !net_secret_is_key(name->string) || value == NULL || value->type != JSONR_STRING)
		return -1;
	s->n++;
	(void)snprintf(one->name, sizeof(one->name), "%s", name->string);
	one->value = strdup(value->string);
	return one->value == NULL ? -1 : take_hosts(one, d, jsonr_get(d, n, "hosts"));
}

static int take_all(struct secrets *s, const struct jsonr *d)
{
	const struct jsonr_node *root = jsonr_root(d), *pem, *list;

	if (root->type != JSONR_OBJECT || take_seed(s, jsonr_get(d, root, "seed")) < 0)
		return -1;
	pem = jsonr_get(d, root, "authorities");
	list = jsonr_get(d, root, "secrets");
	if (pem == NULL || pem->type != JSONR_STRING || list == NULL || list->type != JSONR_ARRAY)
		return -1;
	s->authorities = strdup(pem->string);
	s->authorities_len = pem->len;
	if (s->authorities == NULL)
		return -1;
	for (const struct jsonr_node *n = jsonr_first(d, list); n != NULL; n = jsonr_next(d, n))
		if (take_secret(s, d, n) < 0)
			return -1;
	return s->n > 0 ? make_contexts(s) : 0;
}

int secrets_read(struct egress *e, int fd, struct err *err)
{
	own_free char *text = malloc(SETTINGS_MAX);
	ssize_t n = text != NULL ? pread(fd, text, SETTINGS_MAX, 0) : -1;
	struct secrets *s = calloc(1, sizeof(*s));
	struct jsonr d;
	int r = -1;

	if (s != NULL && n > 0 && n < SETTINGS_MAX && jsonr_parse(&d, text, (size_t)n, NULL) == 0) {
		r = take_all(s, &d);
		jsonr_done(&d);
	}
	if (n > 0)
		explicit_bzero(text, (size_t)n);
	if (r < 0) {
		done(s);
		return err_set(err, ERR_INPUT, 0, "the secrets cannot be read");
	}
	done(e->secrets);
	e->secrets = s;
	return 0;
}

/* --- using ------------------------------------------------------------------------------------ */

bool secrets_there(const struct egress *e)
{
	return e->secrets != NULL && e->secrets->n > 0;
}

const char *secrets_value(const struct egress *e, const char *name, const char *host)
{
	for (unsigned int i = 0; e->secrets != NULL && i < e->secrets->n; i++) {
		const struct secret *s = &e->secrets->v[i];

		if (strcmp(s->name, name) == 0)
			return secret_hosts_have(s->hosts, s->nhosts, host) ? s->value : NULL;
	}
	return NULL;
}

SSL_CTX *secrets_client(struct egress *e)
{
	return e->secrets != NULL ? e->secrets->client : NULL;
}

SSL_CTX *secrets_server(struct egress *e)
{
	return e->secrets != NULL ? e->secrets->server : NULL;
}

struct authority *secrets_authority(const struct egress *e, uint64_t box)
{
	return e->secrets != NULL ? authority_new(e->secrets->seed, SEED, box) : NULL;
}

static int put(int fd, const char *p, size_t n)
{
	while (n > 0) {
		ssize_t w = write(fd, p, n);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return w < 0 ? -errno : -ENOSPC;
		p += w;
		n -= (size_t)w;
	}
	return 0;
}

/* Whether an egress before us has written all of it. The certificate was another one, of the same authority. */
static bool is_whole(const struct egress *e, int fd)
{
	static const char last[] = "-----END CERTIFICATE-----\n";
	char tail[sizeof(last) - 1];
	off_t size = lseek(fd, 0, SEEK_END);

	return size > (off_t)(e->secrets->authorities_len + sizeof(tail)) &&
	       pread(fd, tail, sizeof(tail), size - (off_t)sizeof(tail)) == (ssize_t)sizeof(tail) &&
	       memcmp(tail, last, sizeof(tail)) == 0;
}

int secrets_put_trust(const struct egress *e, const struct authority *a, int fd)
{
	own_free char *pem = NULL;
	size_t n = 0;
	int r;

	if (is_whole(e, fd))
		return 0;
	pem = authority_pem(a, &n);
	if (pem == NULL)
		return -ENOMEM;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	r = put(fd, e->secrets->authorities, e->secrets->authorities_len);
	return r < 0 ? r : put(fd, pem, n);
}
