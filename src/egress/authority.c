// SPDX-License-Identifier: Apache-2.0
/*
 * Who vouches for names in a box, in that box alone: an authority of its own, whose key never leaves this process.
 *
 * It is made from a seed that the supervisor has drawn and the number of the box. So the next egress has the same one, and what programs have read of it
 * holds; another box has another one, and whoever knows one key knows no other.
 */
#include "egress/tunnel.h"

#include "base/own.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/kdf.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

enum { LEAVES = 32, SCALAR = 48, DAY_S = 86400 };

struct authority {
	EVP_PKEY *key, *leaf_key;
	X509 *cert;
	struct leaf {
		char name[NET_NAME];
		X509 *cert;
	} leaf[LEAVES];
	unsigned int next;
};

/* --- keys ------------------------------------------------------------------------------------- */

static int derive(const uint8_t *seed, size_t n, const char *what, uint64_t box,
		  uint8_t ret[SCALAR])
{
	EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
	EVP_KDF_CTX *ctx = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
	char info[64], digest[] = "SHA256";
	OSSL_PARAM params[4];
	int ok = 0;

	(void)snprintf(info, sizeof(info), "glovebox %s %llu", what, (unsigned long long)box);
	params[0] = OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0);
	params[1] =
		OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)seed, n);
	params[2] = OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, strlen(info));
	params[3] = OSSL_PARAM_construct_end();
	if (ctx != NULL)
		ok = EVP_KDF_derive(ctx, ret, SCALAR, params);
	EVP_KDF_CTX_free(ctx);
	EVP_KDF_free(kdf);
	return ok == 1 ? 0 : -1;
}

/* The point that belongs to a scalar, as the library wants it told. 0 or -1. */
static int public_of(const BIGNUM *scalar, const EC_GROUP *group, uint8_t *ret, size_t size)
{
	EC_POINT *point = EC_POINT_new(group);
	size_t n = 0;

	if (point != NULL && EC_POINT_mul(group, point, scalar, NULL, NULL, NULL) == 1)
		n = EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, ret, size,
				       NULL);
	EC_POINT_free(point);
	return n == size ? 0 : -1;
}

static EVP_PKEY *key_of(const BIGNUM *scalar, const uint8_t *point, size_t n)
{
	EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
	OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
	OSSL_PARAM *params = NULL;
	EVP_PKEY *key = NULL;

	if (ctx != NULL && b != NULL &&
	    OSSL_PARAM_BLD_push_utf8_string(b, OSSL_PKEY_PARAM_GROUP_NAME, "P-256", 0) == 1 &&
	    OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_PRIV_KEY, scalar) == 1 &&
	    OSSL_PARAM_BLD_push_octet_string(b, OSSL_PKEY_PARAM_PUB_KEY, point, n) == 1)
		params = OSSL_PARAM_BLD_to_param(b);
	if (params != NULL && EVP_PKEY_fromdata_init(ctx) == 1)
		(void)EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params);
	OSSL_PARAM_free(params);
	OSSL_PARAM_BLD_free(b);
	EVP_PKEY_CTX_free(ctx);
	return key;
}

/* A number below the order of the curve, from more bits than it has: none is likelier than another. */
static EVP_PKEY *make_key(const uint8_t *seed, size_t n, const char *what, uint64_t box)
{
	EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
	uint8_t bytes[SCALAR], point[65];
	BN_CTX *scratch = BN_CTX_new();
	BIGNUM *scalar = NULL, *most = NULL;
	EVP_PKEY *key = NULL;

	if (group != NULL && scratch != NULL && derive(seed, n, what, box, bytes) == 0) {
		scalar = BN_bin2bn(bytes, sizeof(bytes), NULL);
		most = BN_dup(EC_GROUP_get0_order(group));
	}
	if (scalar != NULL && most != NULL && BN_sub_word(most, 1) == 1 &&
	    BN_mod(scalar, scalar, most, scratch) == 1 && BN_add_word(scalar, 1) == 1 &&
	    public_of(scalar, group, point, sizeof(point)) == 0)
		key = key_of(scalar, point, sizeof(point));
	explicit_bzero(bytes, sizeof(bytes));
	BN_clear_free(scalar);
	BN_free(most);
	BN_CTX_free(scratch);
	EC_GROUP_free(group);
	return key;
}

/* --- certificates ----------------------------------------------------------------------------- */

static int put_extension(X509 *x, X509 *issuer, int what, const char *value)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;
	int ok = 0;

	X509V3_set_ctx_nodb(&ctx);
	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, what, value);
	if (ext != NULL)
		ok = X509_add_ext(x, ext, -1);
	X509_EXTENSION_free(ext);
	return ok == 1 ? 0 : -1;
}

static int put_name(X509_NAME *name, const char *text)
{
	return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)text, -1, -1,
					  0) == 1
		       ? 0
		       : -1;
}

/* For so many days, from yesterday on: clocks differ. */
static X509 *begin_cert(EVP_PKEY *key, const char *subject, long days)
{
	X509 *x = X509_new();
	uint8_t serial[16];
	BIGNUM *number;

	if (x == NULL || RAND_bytes(serial, sizeof(serial)) != 1)
		goto failed;
	serial[0] &= 0x7f;
	number = BN_bin2bn(serial, sizeof(serial), NULL);
	if (number == NULL)
		goto failed;
	if (BN_to_ASN1_INTEGER(number, X509_get_serialNumber(x)) == NULL) {
		BN_free(number);
		goto failed;
	}
	BN_free(number);
	if (X509_set_version(x, X509_VERSION_3) != 1 ||
	    X509_gmtime_adj(X509_getm_notBefore(x), -DAY_S) == NULL ||
	    X509_gmtime_adj(X509_getm_notAfter(x), days * DAY_S) == NULL ||
	    X509_set_pubkey(x, key) != 1 || put_name(X509_get_subject_name(x), subject) < 0)
		goto failed;
	return x;
failed:
	X509_free(x);
	return NULL;
}

static X509 *make_root(EVP_PKEY *key, uint64_t box)
{
	char subject[64];
	X509 *x;

	(void)snprintf(subject, sizeof(subject), "Glovebox, for box %llu alone",
		       (unsigned long long)box);
	x = begin_cert(key, subject, 3650);
	if (x == NULL || X509_set_issuer_name(x, X509_get_subject_name(x)) != 1 ||
	    put_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") < 0 ||
	    put_extension(x, x, NID_key_usage, "critical,keyCertSign") < 0 ||
	    put_extension(x, x, NID_subject_key_identifier, "hash") < 0 ||
	    X509_sign(x, key, EVP_sha256()) == 0) {
		X509_free(x);
		return NULL;
	}
	return x;
}

static X509 *make_leaf(const struct authority *a, const char *name)
{
	char names[NET_NAME + 8];
	/* The subject has 64 characters at most; nobody reads it any more. */
	X509 *x = begin_cert(a->leaf_key, "Glovebox", 365);

	(void)snprintf(names, sizeof(names), "DNS:%s", name);
	if (x == NULL || X509_set_issuer_name(x, X509_get_subject_name(a->cert)) != 1 ||
	    put_extension(x, a->cert, NID_basic_constraints, "critical,CA:FALSE") < 0 ||
	    put_extension(x, a->cert, NID_key_usage, "critical,digitalSignature") < 0 ||
	    put_extension(x, a->cert, NID_ext_key_usage, "serverAuth") < 0 ||
	    put_extension(x, a->cert, NID_subject_alt_name, names) < 0 ||
	    put_extension(x, a->cert, NID_subject_key_identifier, "hash") < 0 ||
	    put_extension(x, a->cert, NID_authority_key_identifier, "keyid") < 0 ||
	    X509_sign(x, a->key, EVP_sha256()) == 0) {
		X509_free(x);
		return NULL;
	}
	return x;
}

/* --- the authority ----------------------------------------------------------------------------- */

struct authority *authority_new(const uint8_t *seed, size_t n, uint64_t box)
{
	struct authority *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	a->key = make_key(seed, n, "authority", box);
	a->leaf_key = make_key(seed, n, "names", box);
	if (a->key != NULL && a->leaf_key != NULL)
		a->cert = make_root(a->key, box);
	if (a->cert == NULL) {
		authority_free(a);
		return NULL;
	}
	return a;
}

void authority_free(struct authority *a)
{
	if (a == NULL)
		return;
	for (unsigned int i = 0; i < LEAVES; i++)
		X509_free(a->leaf[i].cert);
	X509_free(a->cert);
	EVP_PKEY_free(a->leaf_key);
	EVP_PKEY_free(a->key);
	free(a);
}

char *authority_pem(const struct authority *a, size_t *ret_n)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *text = NULL, *p;
	long n;

	if (b != NULL && PEM_write_bio_X509(b, a->cert) == 1) {
		n = BIO_get_mem_data(b, &p);
		text = n > 0 ? malloc((size_t)n) : NULL;
		if (text != NULL) {
			(void)memcpy(text, p, (size_t)n);
			*ret_n = (size_t)n;
		}
	}
	BIO_free(b);
	return text;
}

static X509 *leaf_of(struct authority *a, const char *name)
{
	struct leaf *l;
	X509 *x;

	for (unsigned int i = 0; i < LEAVES; i++)
		if (a->leaf[i].cert != NULL && strcmp(a->leaf[i].name, name) == 0)
			return a->leaf[i].cert;
	x = make_leaf(a, name);
	if (x == NULL)
		return NULL;
	l = &a->leaf[a->next++ % LEAVES]; /* connections that use it have it for themselves */
	X509_free(l->cert);
	l->cert = x;
	(void)snprintf(l->name, sizeof(l->name), "%s", name);
	return x;
}

int authority_use(struct authority *a, SSL *ssl, const char *name)
{
	X509 *leaf = leaf_of(a, name);

	return leaf != NULL && SSL_use_certificate(ssl, leaf) == 1 &&
			       SSL_use_PrivateKey(ssl, a->leaf_key) == 1
		       ? 0
		       : -ENOMEM;
}
