// SPDX-License-Identifier: Apache-2.0
/*
 * A header with a secret, put into a request on its way out.
 *
 * What the client has said by that header goes: there is one of it, and it is ours. Where answers must not show the secret, requests are also kept from asking for an
 * answer in which it could not be seen: compressed, or a part of something. So are those that get no header: a server may tell in one answer what it was told by another request.
 */
#include "egress/tunnel.h"

#include "base/own.h"

#include <stdio.h>
#include <string.h>

/* --- which ------------------------------------------------------------------------------------ */

static const struct net_rule *rule_for(const struct econn *c, const struct http_head *h)
{
	char method[HTTP_METHOD_MAX + 1], path[NET_PATH_TEXT];
	struct net_request q = { .name = c->name,
				 .address = &c->address,
				 .port = c->port,
				 .tls = c->tls,
				 .method = method };

	if (!c->named)
		return NULL;
	(void)snprintf(method, sizeof(method), "%.*s", (int)h->method.n, h->method.p);
	/* What some servers take for another request is no reason to vouch for it. */
	if (!http_flow_means_another(h) && net_path_plain(h->target.p, h->target.n, path) == 0)
		q.path = path;
	return net_decide_inject(&c->box->policy, &q);
}

bool inject_hides(const struct econn *c)
{
	const struct net_rule *r;

	for (unsigned int i = 0;
	     c->named && (r = net_injects(&c->box->policy, c->name, c->port, c->tls, i)) != NULL;
	     i++)
		if (r->inject.redact)
			return true;
	return false;
}

int inject_hidden(const struct econn *c, struct redact *ret)
{
	const struct net_rule *r;

	for (unsigned int i = 0;
	     (r = net_injects(&c->box->policy, c->name, c->port, c->tls, i)) != NULL; i++) {
		const char *value = secrets_value(c->box->e, r->inject.secret, c->name);
		int failed = value != NULL && r->inject.redact
				     ? redact_add(ret, value, strlen(value))
				     : 0;

		if (failed < 0)
			return failed;
	}
	return 0;
}

/* --- how -------------------------------------------------------------------------------------- */

struct text {
	char *p;
	size_t n, cap;
	bool failed;
};

static void put(struct text *t, const char *p, size_t n)
{
	if (t->failed || n > t->cap - t->n) {
		t->failed = true;
		return;
	}
	(void)memcpy(t->p + t->n, p, n);
	t->n += n;
}

static void put_text(struct text *t, const char *text)
{
	put(t, text, strlen(text));
}

/* Whether a header of the client's does not go on. */
static bool is_dropped(const struct net_inject *i, bool hides, struct http_slice name)
{
	if (i != NULL && http_name_is_like(name, i->header))
		return true;
	return hides &&
	       (http_slice_is_nocase(name, "Accept-Encoding") || http_slice_is_nocase(name, "TE") ||
		http_slice_is_nocase(name, "Range") || http_slice_is_nocase(name, "If-Range"));
}

/* Line by line: the request line, then headers as they came, then ours. i NULL: there is none. */
static void rewrite(const struct http_head *h, const struct net_inject *i, bool hides,
		    const char *value, struct text *to)
{
	const char *line = h->method.p; /* an empty one may stand before it */
	const char *end = rawmemchr(line, '\n');

	put(to, line, (size_t)(end + 1 - line));
	for (unsigned int k = 0; k < h->nh; k++) {
		if (is_dropped(i, hides, h->h[k].name))
			continue;
		put(to, h->h[k].name.p, h->h[k].name.n);
		put_text(to, ": ");
		put(to, h->h[k].value.p, h->h[k].value.n);
		put_text(to, "\r\n");
	}
	if (hides)
		put_text(to, "Accept-Encoding: identity\r\n");
	if (i != NULL) {
		put_text(to, i->header);
		put_text(to, ": ");
		put_text(to, i->prefix);
		put_text(to, value);
		put_text(to, "\r\n");
	}
	put_text(to, "\r\n");
}

/* The head that is held becomes this one. */
static int replace(struct econn *c, size_t at, size_t n, const struct text *by)
{
	if (conn_room(c, c->held - n + by->n) < 0)
		return -ENOBUFS;
	(void)memmove(c->hold + at + by->n, c->hold + at + n, c->held - at - n);
	(void)memcpy(c->hold + at, by->p, by->n);
	c->held = c->held - n + by->n;
	return 0;
}

int inject_head(struct econn *c, const struct http_head *h, size_t at, size_t *n)
{
	const struct net_rule *r = rule_for(c, h);
	bool hides = inject_hides(c);
	const char *value = NULL;
	struct text t = { .cap = HOLD_MAX };
	int failed;

	if (r == NULL && !hides)
		return 0;
	if (r != NULL)
		value = secrets_value(c->box->e, r->inject.secret, c->name);
	if ((r != NULL && value == NULL) || (hides && h->upgrade_websocket))
		return -EPERM;
	t.p = malloc(t.cap);
	if (t.p == NULL)
		return -ENOMEM;
	rewrite(h, r != NULL ? &r->inject : NULL, hides, value, &t);
	failed = t.failed ? -ENOBUFS : replace(c, at, *n, &t);
	if (failed == 0)
		*n = t.n;
	explicit_bzero(t.p, t.cap);
	free(t.p);
	return failed;
}
