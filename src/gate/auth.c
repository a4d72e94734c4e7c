// SPDX-License-Identifier: Apache-2.0
/*
 * Who may ask. Tokens decide where there are any. Where there are none, only this machine can connect, and the danger
 * is its browser: a page from elsewhere must not speak for its user. So the Host must be one of ours (a name that was
 * made to point here is not), and a request that a browser says comes from elsewhere is refused.
 */
#include "base/base64.h"
#include "base/own.h"
#include "base/sha256.h"
#include "gate/boxes.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

enum { CREDENTIAL_MAX = 1024 };

const struct tenant *tenant_find(const struct gate *g, const char *name)
{
	for (unsigned int i = 0; i < g->ntenants; i++)
		if (strcmp(g->tenants[i].name, name) == 0)
			return &g->tenants[i];
	return NULL;
}

/* --- how many boxes --------------------------------------------------------------------------- */

bool quota_take(struct gate *g, const struct tenant *t)
{
	uint64_t all = config_u64(&g->config, CONF_MAX_BOXES);
	uint64_t each = config_u64(&g->config, CONF_MAX_BOXES_PER_TENANT);
	struct tenant *mine = &g->tenants[t - g->tenants];

	if (g->counted_boxes >= all || mine->boxes >= (each != 0 ? each : all))
		return false;
	g->counted_boxes++;
	mine->boxes++;
	return true;
}

void quota_give(struct gate *g, const struct tenant *t)
{
	g->counted_boxes--;
	g->tenants[t - g->tenants].boxes--;
}

/* --- tenants ---------------------------------------------------------------------------------- */

static const struct tenant *tenant_add(struct gate *g, const char *name, size_t n)
{
	char text[GATE_TENANT];
	const struct tenant *known;

	(void)snprintf(text, sizeof(text), "%.*s", (int)n, name);
	known = tenant_find(g, text);
	if (known != NULL)
		return known;
	if (g->ntenants == ARRAY_LEN(g->tenants))
		return NULL;
	(void)memcpy(g->tenants[g->ntenants].name, text, sizeof(text));
	return &g->tenants[g->ntenants++];
}

int auth_start(struct gate *g, struct err *e)
{
	char *const *items;
	unsigned int n;

	if (g->ntenants == 0)
		(void)tenant_add(g, "local", 5);
	g->ntokens = 0;
	items = config_list(&g->config, CONF_TOKEN, &n);
	for (unsigned int i = 0; i < n; i++) {
		const char *colon = strchr(items[i], ':');
		struct token *t = &g->tokens[g->ntokens];

		if (g->ntokens == GATE_TOKENS_MAX || colon == NULL)
			return err_set(e, ERR_INPUT, 0, "at most %d tokens", GATE_TOKENS_MAX);
		t->tenant = tenant_add(g, items[i], (size_t)(colon - items[i]));
		if (t->tenant == NULL)
			return err_set(e, ERR_INPUT, 0, "too many tenants");
		if (sha256_from_hex(colon + 1, t->sha256) < 0) /* the supervisor hashed it */
			return err_set(e, ERR_PROTO, 0, "a token came without a hash");
		g->ntokens++;
	}
	return 0;
}

/* --- tokens ----------------------------------------------------------------------------------- */

static bool starts_nocase(struct http_slice s, const char *word)
{
	size_t n = strlen(word);

	return s.n > n && strncasecmp(s.p, word, n) == 0;
}

/* The password of Basic credentials, decoded into buf. */
static struct http_slice basic_password(struct http_slice value, char *buf)
{
	struct http_slice none = { 0 };
	const char *colon;
	size_t n;

	if (value.n > CREDENTIAL_MAX || base64_decode(value.p, value.n, (uint8_t *)buf, &n) < 0)
		return none;
	colon = memchr(buf, ':', n);
	if (colon == NULL)
		return none;
	return (struct http_slice){ .p = colon + 1, .n = n - (size_t)(colon + 1 - buf) };
}

static struct http_slice find_credential(const struct req *r, char *buf)
{
	struct http_slice v = req_get(r, "Authorization");

	if (starts_nocase(v, "bearer "))
		return (struct http_slice){ v.p + 7, v.n - 7 };
	if (starts_nocase(v, "token "))
		return (struct http_slice){ v.p + 6, v.n - 6 };
	if (starts_nocase(v, "basic "))
		return basic_password((struct http_slice){ v.p + 6, v.n - 6 }, buf);
	v = req_get(r, "X-API-KEY");
	if (v.n == 0)
		v = req_get(r, "X-Access-Token");
	/* A browser can give a WebSocket no header. */
	if (v.n == 0 && r->route != NULL && (r->route->flags & (ROUTE_WS | ROUTE_TOKEN)) != 0)
		v = req_query(r, "token");
	return v;
}

/* Whose token it is. Every token is compared, each in constant time. */
static const struct tenant *match(const struct gate *g, struct http_slice token)
{
	const struct tenant *found = NULL;
	uint8_t sha256[SHA256_DIGEST_LENGTH];

	(void)SHA256((const unsigned char *)token.p, token.n, sha256);
	for (unsigned int i = 0; i < g->ntokens; i++)
		if (CRYPTO_memcmp(g->tokens[i].sha256, sha256, sizeof(sha256)) == 0)
			found = g->tokens[i].tenant;
	return found;
}

static int check_token(struct req *r)
{
	char buf[CREDENTIAL_MAX];
	struct http_slice token = find_credential(r, buf);

	r->tenant = token.n > 0 ? match(r->g, token) : NULL;
	OPENSSL_cleanse(buf, sizeof(buf));
	if (r->tenant != NULL)
		return 0;
	r->g->metrics.tokens_refused++;
	audit_token_refused(r, token.n > 0 ? "wrong" : "missing");
	/* A line each: browsers pass over a line whose second challenge they do not know. */
	req_header(r, "WWW-Authenticate", "Basic realm=\"glovebox\", charset=\"UTF-8\"");
	req_header(r, "WWW-Authenticate", "Bearer");
	req_refuse(r, 401, "unauthorized", NULL,
		   token.n > 0 ? "this token is not known" : "a token is needed");
	return -1;
}

/* --- Host and Origin ---------------------------------------------------------------------------- */

static struct http_slice without_port(struct http_slice host)
{
	const char *end;

	if (host.n > 0 && host.p[0] == '[') {
		end = memchr(host.p, ']', host.n);
		if (end != NULL)
			host.n = (size_t)(end + 1 - host.p);
		return host;
	}
	end = host.n > 0 ? memchr(host.p, ':', host.n) : NULL;
	if (end != NULL)
		host.n = (size_t)(end - host.p);
	return host;
}

static bool is_listed(const struct gate *g, enum config_key key, struct http_slice s)
{
	unsigned int n;
	char *const *items = config_list(&g->config, key, &n);

	for (unsigned int i = 0; i < n; i++)
		if (http_slice_is_nocase(s, items[i]))
			return true;
	return false;
}

static bool host_is_ours(const struct req *r)
{
	const struct listener *l = r->conn->listener;
	struct http_slice host = without_port(r->head.host);
	unsigned int n;

	(void)config_list(&r->g->config, CONF_ALLOWED_HOST, &n);
	if (l->unix_socket || (!l->local && n == 0))
		return true;
	return http_slice_is_nocase(host, "localhost") || http_slice_is(host, "127.0.0.1") ||
	       http_slice_is(host, "[::1]") ||
	       (host.n > 10 && strncasecmp(host.p + host.n - 10, ".localhost", 10) == 0) ||
	       is_listed(r->g, CONF_ALLOWED_HOST, host);
}

/* Whether a browser says that a page from elsewhere is behind this. */
static bool is_foreign(const struct req *r)
{
	struct http_slice origin = req_get(r, "Origin"), site = req_get(r, "Sec-Fetch-Site"), host;
	const char *slashes;

	if (origin.n == 0)
		return http_slice_is(site, "cross-site") || http_slice_is(site, "same-site");
	if (is_listed(r->g, CONF_ALLOWED_ORIGIN, origin))
		return false;
	slashes = memmem(origin.p, origin.n, "://", 3);
	if (slashes == NULL)
		return true; /* "null" and the like */
	host.p = slashes + 3;
	host.n = origin.n - (size_t)(host.p - origin.p);
	return host.n != r->head.host.n || strncasecmp(host.p, r->head.host.p, host.n) != 0;
}

static bool is_forwarded(const struct req *r)
{
	for (unsigned int i = 0; i < r->head.nh; i++) {
		struct http_slice name = r->head.h[i].name;

		if (http_slice_is_nocase(name, "Forwarded") ||
		    http_slice_is_nocase(name, "X-Real-IP") ||
		    (name.n > 12 && strncasecmp(name.p, "X-Forwarded-", 12) == 0))
			return true;
	}
	return false;
}

/* A page of a box that came by a path of ours has no origin. What it asks for is the same program's, whose path nobody else knows. */
static bool is_boxed(const struct req *r)
{
	struct http_slice origin = req_get(r, "Origin");

	return r->route != NULL && (r->route->flags & ROUTE_BOXED) != 0 &&
	       (origin.n == 0 || http_slice_is(origin, "null"));
}

/* Somebody follows a link to a page of ours: harmless, and expected to work. */
static bool is_navigation(const struct req *r)
{
	return http_slice_is(req_get(r, "Sec-Fetch-Mode"), "navigate") &&
	       http_slice_is(r->head.method, "GET") && req_get(r, "Origin").n == 0;
}

/* Pages of an origin that is allowed may also read the answers. */
static void share(struct req *r, struct http_slice origin)
{
	req_header(r, "Access-Control-Allow-Origin", "%.*s", (int)origin.n, origin.p);
	req_header(r, "Access-Control-Expose-Headers", "Location, X-Request-Id");
	req_header(r, "Vary", "Origin");
}

/* A browser asks on behalf of a page whether that may ask. It has no token for that, and learns nothing but yes. */
static bool is_preflight(const struct req *r)
{
	return http_slice_is(r->head.method, "OPTIONS") &&
	       req_get(r, "Access-Control-Request-Method").n > 0;
}

static void answer_preflight(struct req *r)
{
	struct http_slice names = req_get(r, "Access-Control-Request-Headers");

	req_header(r, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
	if (names.n > 0 && names.n < 512)
		req_header(r, "Access-Control-Allow-Headers", "%.*s", (int)names.n, names.p);
	req_header(r, "Access-Control-Max-Age", "600");
	req_reply(r, 204, NULL, "", 0);
}

int auth_check(struct req *r, bool open)
{
	struct http_slice origin = req_get(r, "Origin");
	const struct listener *l = r->conn->listener;
	struct gate *g = r->g;
	bool boxed = is_boxed(r);
	bool shared = origin.n > 0 && (boxed || is_listed(g, CONF_ALLOWED_ORIGIN, origin));

	r->tenant = &g->tenants[0];
	if (shared)
		share(r, origin);
	if (open)
		return 0;
	if (!host_is_ours(r)) {
		req_refuse(r, 421, "wrong_host", "Host",
			   "the Host '%.*s' is not one of ours (allowed_host)",
			   (int)(r->head.host.n < 200 ? r->head.host.n : 200), r->head.host.p);
		return -1;
	}
	if (is_foreign(r) && !is_navigation(r) && !boxed) {
		req_refuse(r, 403, "foreign_origin", "Origin",
			   "a page of another origin may not ask this (allowed_origin)");
		return -1;
	}
	if (shared && is_preflight(r)) {
		answer_preflight(r);
		return -1;
	}
	if (l->inside) { /* whoever is in a box is that box */
		r->tenant = l->box != NULL ? l->box->tenant : r->tenant;
		return 0;
	}
	if (g->ntokens > 0 && !l->unix_socket)
		return check_token(r);
	if (g->ntokens == 0 && !config_bool(&g->config, CONF_NO_AUTH) && is_forwarded(r)) {
		req_refuse(
			r, 403, "forwarded", NULL,
			"behind a proxy a token is needed: without one everybody would be let in");
		return -1;
	}
	return 0;
}
