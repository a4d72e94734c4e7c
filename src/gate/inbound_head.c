// SPDX-License-Identifier: Apache-2.0
/*
 * Heads of requests to a program of a box, and of its answers.
 *
 * Both are written anew. What is left out is what a connection says about itself, what lets somebody in here, and what would act on more than the program: a page of it
 * must not speak for its reader to this server, nor read what others have stored in his browser. Its own port of this machine is an origin of its own; a path is
 * not, so pages that come by one are told to have none (sandbox), and have no cookies. Cookies know no ports: those of a program that has one carry its box in
 * their name.
 */
#include "gate/published.h"

#include "base/own.h"
#include "gate/gate.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
	TO_PROGRAM = 1,       /* not passed on to the program */
	TO_CLIENT = 2,        /* nor to the client */
	CREDENTIAL = 4,       /* lets somebody in here, where tokens do */
	SHARED_TO_CLIENT = 8, /* not passed on where the origin is not the program's */
	BEGINS = 16,          /* all names that begin like this */
};

static const struct {
	const char *name;
	unsigned int flags;
} rules[] = {
	{ "Connection", TO_PROGRAM | TO_CLIENT },
	{ "Keep-Alive", TO_PROGRAM | TO_CLIENT },
	{ "Proxy-", TO_PROGRAM | TO_CLIENT | BEGINS },
	{ "TE", TO_PROGRAM | TO_CLIENT },
	{ "Trailer", TO_PROGRAM | TO_CLIENT },
	{ "Transfer-Encoding", TO_PROGRAM | TO_CLIENT },
	{ "Upgrade", TO_PROGRAM | TO_CLIENT },
	{ "Content-Length", TO_PROGRAM | TO_CLIENT },
	/* Said here, or answered here. */
	{ "Host", TO_PROGRAM },
	{ "Expect", TO_PROGRAM },
	{ "Cookie", TO_PROGRAM },
	{ "Origin", TO_PROGRAM },
	{ "Forwarded", TO_PROGRAM },
	{ "X-Real-IP", TO_PROGRAM },
	{ "X-Forwarded-", TO_PROGRAM | BEGINS },
	{ "Location", TO_CLIENT },
	{ "Set-Cookie", TO_CLIENT },
	{ "Date", TO_CLIENT },
	{ "X-Request-Id", TO_CLIENT },
	{ "X-Content-Type-Options", TO_CLIENT },
	{ "Sec-WebSocket-Accept", TO_CLIENT },
	{ "Authorization", CREDENTIAL },
	{ "X-API-KEY", CREDENTIAL },
	{ "X-Access-Token", CREDENTIAL },
	{ "Referer", CREDENTIAL },
	/* What a browser would keep, or do, for everything at this name. */
	{ "Strict-Transport-Security", TO_CLIENT },
	{ "Alt-Svc", TO_CLIENT },
	{ "Public-Key-Pins", TO_CLIENT | BEGINS },
	{ "Expect-CT", TO_CLIENT },
	{ "Clear-Site-Data", SHARED_TO_CLIENT },
	{ "NEL", SHARED_TO_CLIENT },
	{ "Report-To", SHARED_TO_CLIENT },
	{ "Reporting-Endpoints", SHARED_TO_CLIENT },
	{ "Service-Worker-Allowed", SHARED_TO_CLIENT },
	{ "Origin-Agent-Cluster", SHARED_TO_CLIENT },
	{ "Access-Control-", SHARED_TO_CLIENT | BEGINS },
};

static unsigned int flags_of(struct http_slice name)
{
	for (unsigned int i = 0; i < ARRAY_LEN(rules); i++) {
		size_t n = strlen(rules[i].name);
		struct http_slice front = { name.p, name.n < n ? name.n : n };

		if (http_slice_is_nocase((rules[i].flags & BEGINS) != 0 ? front : name,
					 rules[i].name))
			return rules[i].flags;
	}
	return 0;
}

static bool same(struct http_slice a, struct http_slice b)
{
	return a.n == b.n && strncasecmp(a.p, b.p, a.n) == 0;
}

static bool is_in(struct http_slice list, struct http_slice name)
{
	while (list.n > 0) {
		const char *comma = memchr(list.p, ',', list.n);
		struct http_slice one = { list.p,
					  comma != NULL ? (size_t)(comma - list.p) : list.n };
		size_t step = one.n + (comma != NULL);

		while (one.n > 0 && (one.p[0] == ' ' || one.p[0] == '\t')) {
			one.p++;
			one.n--;
		}
		while (one.n > 0 && (one.p[one.n - 1] == ' ' || one.p[one.n - 1] == '\t'))
			one.n--;
		if (same(one, name))
			return true;
		list.p += step;
		list.n -= step;
	}
	return false;
}

/* Whether a header is one that Connection names: for this connection, and nobody behind it. */
static bool is_named(const struct http_header *h, unsigned int nh, struct http_slice name)
{
	for (unsigned int i = 0; i < nh; i++)
		if (http_slice_is_nocase(h[i].name, "Connection") && is_in(h[i].value, name))
			return true;
	return false;
}

bool inbound_shares_origin(const struct req *r)
{
	return (r->conn->listener->place & ROUTE_PUBLISHED) == 0;
}

/* What names of cookies of this box begin with. */
static size_t cookie_front(const struct published *p, char text[16])
{
	return (size_t)snprintf(text, 16, "gb-%s-", p->a->id + strlen(p->a->id) - 8);
}

/* --- to the program --------------------------------------------------------------------------------- */

struct out {
	struct buf *to;
	bool failed;
};

static void put(struct out *o, const char *p, size_t n)
{
	if (!o->failed && n > 0)
		o->failed = buf_put(o->to, p, n) < 0;
}

static void put_text(struct out *o, const char *text)
{
	put(o, text, strlen(text));
}

static void put_line(struct out *o, const char *name, struct http_slice value)
{
	put_text(o, name);
	put_text(o, ": ");
	put(o, value.p, value.n);
	put_text(o, "\r\n");
}

static struct http_slice slice_of(const char *text)
{
	return (struct http_slice){ text, strlen(text) };
}

/* Of all that the browser has for this name, those that this program has set. */
static void put_cookies(struct out *o, const struct req *r, const struct published *p)
{
	char front[16];
	size_t n = cookie_front(p, front);
	bool any = false;

	for (unsigned int i = 0; i < r->head.nh; i++) {
		struct http_slice v = r->head.h[i].value;

		if (!http_slice_is_nocase(r->head.h[i].name, "Cookie"))
			continue;
		while (v.n > 0) {
			const char *end = memchr(v.p, ';', v.n);
			size_t len = end != NULL ? (size_t)(end - v.p) : v.n;

			if (len > n && memcmp(v.p, front, n) == 0) {
				put_text(o, any ? "; " : "Cookie: ");
				put(o, v.p + n, len - n);
				any = true;
			}
			len += end != NULL;
			while (len < v.n && v.p[len] == ' ')
				len++;
			v.p += len;
			v.n -= len;
		}
	}
	if (any)
		put_text(o, "\r\n");
}

/* A page that was told to have no origin is of this program all the same: it hears that it was asked from where it is. */
static void put_origin(struct out *o, const struct req *r, const char *scheme,
		       struct http_slice host)
{
	struct http_slice origin = req_get(r, "Origin");

	if (origin.n == 0)
		return;
	put_text(o, "Origin: ");
	if (http_slice_is(origin, "null")) {
		put_text(o, scheme);
		put_text(o, "://");
		origin = host;
	}
	put(o, origin.p, origin.n);
	put_text(o, "\r\n");
}

static void put_framing(struct out *o, const struct req *r)
{
	char line[64];

	if (r->head.framing == HTTP_LENGTH) {
		(void)snprintf(line, sizeof(line), "Content-Length: %llu\r\n",
			       (unsigned long long)r->head.length);
		put_text(o, line);
	} else if (r->head.framing == HTTP_CHUNKED) {
		put_text(o, "Transfer-Encoding: chunked\r\n");
	}
	put_text(o, r->head.upgrade_websocket ? "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
					      : "Connection: close\r\n\r\n");
}

int inbound_request(const struct req *r, const struct published *p, struct http_slice rest,
		    struct buf *to)
{
	const char *scheme = r->conn->tls != NULL ? "https" : "http";
	struct http_slice host = r->head.host;
	bool tokens = r->g->ntokens > 0, shared = inbound_shares_origin(r);
	struct out o = { .to = to };
	char text[128];

	(void)snprintf(text, sizeof(text), "localhost:%u", p->port);
	if (host.n == 0)
		host = slice_of(text);
	rest.n = (size_t)(r->head.target.p + r->head.target.n - rest.p);
	put(&o, r->head.method.p, r->head.method.n);
	put_text(&o, " /");
	put(&o, rest.p, rest.n);
	put_text(&o, " HTTP/1.1\r\n");
	put_line(&o, "Host", host);
	for (unsigned int i = 0; i < r->head.nh; i++) {
		const struct http_header *h = &r->head.h[i];
		unsigned int flags = flags_of(h->name);

		if ((flags & TO_PROGRAM) != 0 || (tokens && (flags & CREDENTIAL) != 0) ||
		    is_named(r->head.h, r->head.nh, h->name))
			continue;
		put(&o, h->name.p, h->name.n);
		put_line(&o, "", h->value);
	}
	put_origin(&o, r, scheme, host);
	if (!shared)
		put_cookies(&o, r, p);
	put_line(&o, "X-Forwarded-Host", host);
	put_line(&o, "X-Forwarded-Proto", slice_of(scheme));
	if (shared) {
		(void)snprintf(text, sizeof(text), "/v1/boxes/%s/ports/%u", p->a->id, p->port);
		put_line(&o, "X-Forwarded-Prefix", slice_of(text));
	}
	put_framing(&o, r);
	return o.failed ? -ENOMEM : 0;
}

/* --- to the client ---------------------------------------------------------------------------------- */

/* Behind "http://HOST" where that is us or the program by its own name, else NULL. */
static const char *behind_host(const struct req *r, const struct published *p, struct http_slice v)
{
	char names[3][32];
	const char *at = memmem(v.p, v.n, "://", 3), *end = v.p + v.n;
	struct http_slice host;

	if (at == NULL || (size_t)(at - v.p) > 5 || strncasecmp(v.p, "http", 4) != 0)
		return NULL;
	host.p = at + 3;
	host.n = (size_t)(end - host.p);
	for (size_t i = 0; i < host.n; i++)
		if (strchr("/?#", host.p[i]) != NULL)
			host.n = i;
	if (same(host, r->head.host))
		return host.p + host.n;
	(void)snprintf(names[0], sizeof(names[0]), "localhost:%u", p->port);
	(void)snprintf(names[1], sizeof(names[1]), "127.0.0.1:%u", p->port);
	(void)snprintf(names[2], sizeof(names[2]), "[::1]:%u", p->port);
	for (unsigned int i = 0; i < ARRAY_LEN(names); i++)
		if (http_slice_is_nocase(host, names[i]))
			return host.p + host.n;
	return NULL;
}

/* Where it sends its client: within itself it is below our path. */
static void put_location(struct req *r, const struct published *p, struct http_slice v)
{
	const char *path = behind_host(r, p, v);
	char front[128] = "";
	size_t n;
	char *text;

	if (path == NULL && v.n > 0 && v.p[0] == '/' &&
	    (v.n == 1 || (v.p[1] != '/' && v.p[1] != '\\')))
		path = v.p;
	if (path == NULL) {
		req_header_slice(r, "Location", v);
		return;
	}
	if (inbound_shares_origin(r))
		(void)snprintf(front, sizeof(front), "/v1/boxes/%s/ports/%u", p->a->id, p->port);
	v.n -= (size_t)(path - v.p);
	n = strlen(front);
	text = malloc(n + v.n + 2);
	if (text == NULL)
		return;
	(void)snprintf(text, n + v.n + 2, "%s%s%.*s", front, v.n == 0 || path[0] != '/' ? "/" : "",
		       (int)v.n, path);
	req_header_slice(r, "Location", slice_of(text));
	free(text);
}

static void put_set_cookie(struct req *r, const struct published *p, struct http_slice v)
{
	const char *equals = memchr(v.p, '=', v.n);
	char front[16];
	size_t n = cookie_front(p, front);
	char *text;

	if (equals == NULL || !http_is_token((struct http_slice){ v.p, (size_t)(equals - v.p) }))
		return;
	text = malloc(n + v.n);
	if (text == NULL)
		return;
	(void)memcpy(text, front, n);
	(void)memcpy(text + n, v.p, v.n);
	req_header_slice(r, "Set-Cookie", (struct http_slice){ text, n + v.n });
	free(text);
}

void inbound_headers(struct req *r, const struct published *p, const struct http_answer *a)
{
	bool shared = inbound_shares_origin(r);
	char name[128];

	for (unsigned int i = 0; i < a->nh; i++) {
		const struct http_header *h = &a->h[i];
		unsigned int flags = flags_of(h->name);

		if (http_slice_is_nocase(h->name, "Location"))
			put_location(r, p, h->value);
		else if (http_slice_is_nocase(h->name, "Set-Cookie") && !shared)
			put_set_cookie(r, p, h->value);
		if ((flags & TO_CLIENT) != 0 || (shared && (flags & SHARED_TO_CLIENT) != 0) ||
		    is_named(a->h, a->nh, h->name) || h->name.n >= sizeof(name))
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)h->name.n, h->name.p);
		req_header_slice(r, name, h->value);
	}
	if (shared)
		req_header(r, "Content-Security-Policy",
			   "sandbox allow-downloads allow-forms allow-modals allow-popups "
			   "allow-scripts");
}
