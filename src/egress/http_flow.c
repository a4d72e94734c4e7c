// SPDX-License-Identifier: Apache-2.0
/*
 * Requests of HTTP, one after the other on a connection: each of them says whom it is for. Where one ends must be certain, so they are read as
 * strictly as our own server reads them; bodies pass as they are.
 *
 * A request for a WebSocket may be the first one only. What follows it waits for the answer: behind 101 it is no HTTP any more, behind any other
 * answer it is the next request. Other protocols cannot be changed to: requests in them would name whom they like.
 */
#include "egress/tunnel.h"

#include "base/own.h"
#include "wire/dnsname.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum flow_state { FLOW_HEAD, FLOW_LENGTH, FLOW_CHUNKS, FLOW_ANSWER };

struct http_flow {
	enum flow_state state;
	bool plain; /* the head that is held has a path, not a whole URL */
	size_t scanned;
	uint64_t left;
	uint64_t requests;
	struct http_chunks chunks;
	struct http_head head;
};

/* "name", "name:80": is it where this connection leads? One that leads to an address may be for any name that no rule denies. */
static bool is_ours(const struct econn *c, struct http_slice host)
{
	const char *colon = host.n > 0 ? memchr(host.p, ':', host.n) : NULL;
	size_t n = colon != NULL ? (size_t)(colon - host.p) : host.n;
	char name[DNSNAME_SIZE];

	if (host.n == 0)
		return true;
	if (!c->named)
		return dnsname_read(host.p, n, name) < 0 || !sniff_is_denied(c, name);
	if (colon != NULL) {
		unsigned long port = 0;

		for (size_t i = n + 1; i < host.n; i++) {
			if (host.p[i] < '0' || host.p[i] > '9' || host.n - n > 6)
				return false;
			port = port * 10 + (unsigned long)(host.p[i] - '0');
		}
		if (port != c->port)
			return false;
	}
	return dnsname_read(host.p, n, name) == 0 && strcmp(name, c->name) == 0;
}

/* In words, where there is nobody else's answer that it could be taken for a part of. */
static void answer(struct econn *c, const struct http_flow *f, const char *status, const char *why)
{
	char body[NET_NAME + 512], text[NET_NAME + 768];
	int n;

	if (f->requests > 0 || c->down.bytes > 0)
		return;
	(void)snprintf(body, sizeof(body), "glovebox: %.*s %.*s at %s:%u %s\n",
		       (int)f->head.method.n, f->head.method.p,
		       f->head.target.n > 128 ? 128 : (int)f->head.target.n, f->head.target.p,
		       c->named ? c->name : "this address", c->port, why);
	n = snprintf(text, sizeof(text),
		     "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
		     "Connection: close\r\n\r\n%s",
		     status, strlen(body), body);
	c->answered = send(c->client_fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL) == n;
}

static int refuse(struct econn *c, const struct http_flow *f)
{
	answer(c, f, "403 Forbidden", "is not allowed by the network rules of this box");
	return -EPERM;
}

/* Nothing is said to a server that may be somebody else. */
static int refuse_server(struct econn *c, const struct http_flow *f, const char *why)
{
	char text[TUNNEL_WHY + 64];

	(void)snprintf(text, sizeof(text), "was not asked: its certificate is not trusted: %s",
		       why);
	answer(c, f, "502 Bad Gateway", text);
	return -EKEYREJECTED;
}

bool http_flow_means_another(const struct http_head *h)
{
	static const char *const names[] = { "X-HTTP-Method-Override", "X-HTTP-Method",
					     "X-Method-Override",      "X-Original-URL",
					     "X-Rewrite-URL",          "X-Original-Method" };

	for (unsigned int i = 0; i < h->nh; i++)
		for (unsigned int k = 0; k < ARRAY_LEN(names); k++)
			if (http_name_is_like(h->h[i].name, names[k]))
				return true;
	return false;
}

/* Method and path, where rules tell them apart. */
static int ask(struct econn *c, const struct http_flow *f)
{
	char method[HTTP_METHOD_MAX + 1], path[NET_PATH_TEXT];
	struct net_request q = { .name = c->named ? c->name : NULL,
				 .address = &c->address,
				 .port = c->port,
				 .tls = c->tls,
				 .method = method,
				 .path = path };

	if (!conn_is_narrow(c))
		return 0;
	(void)snprintf(method, sizeof(method), "%.*s", (int)f->head.method.n, f->head.method.p);
	if (http_flow_means_another(&f->head) ||
	    net_path_plain(f->head.target.p, f->head.target.n, path) < 0 ||
	    !net_decide_request(&c->box->policy, &q).allowed)
		return refuse(c, f);
	return 0;
}

/* What it gets on its way. *n: how long the head is then. */
static int give(struct econn *c, const struct http_flow *f, size_t *n)
{
	bool head = http_slice_is(f->head.method, "HEAD"); /* what is held may move */
	int r;

	if (c->named && c->tunnel[1] == NULL && inject_hides(c)) {
		r = tunnel_hide(c);
		if (r < 0 || c->ending) /* the server has spoken before it was asked */
			return r < 0 ? r : -EPIPE;
	}
	r = inject_head(c, &f->head, c->pass, n);
	if (r == -EPERM)
		answer(c, f, "403 Forbidden",
		       f->head.upgrade_websocket ? "is no WebSocket for this box: its answers are "
						   "to be looked through"
						 : "needs a secret that is not there");
	return r < 0 ? r : tunnel_asks(c, head);
}

/* To nothing else, not even among others: the server would choose. */
static bool may_upgrade(const struct http_flow *f)
{
	const struct http_header *to = http_find(&f->head, "Upgrade");

	return to == NULL || (f->head.upgrade_websocket && f->requests == 0 &&
			      http_slice_is_nocase(to->value, "websocket"));
}

static int take_head(struct econn *c, struct http_flow *f)
{
	struct http_refusal why;
	ptrdiff_t n;
	size_t len;
	int r = f->plain ? 1 : proxy_origin_form(c, c->pass);

	if (r <= 0)
		return r;
	f->plain = true;
	n = http_head_parse(c->hold + c->pass, c->held - c->pass, &f->scanned, &f->head, &why);
	if (n <= 0)
		return n < 0 ? -EBADMSG : 0;
	if (!is_ours(c, f->head.host))
		return -EACCES;
	if (!may_upgrade(f))
		return -EBADMSG;
	r = ask(c, f);
	if (r < 0)
		return r;
	if (tunnel_refused(c) != NULL)
		return refuse_server(c, f, tunnel_refused(c));
	if (tunnel_waits(c))
		return 0;
	len = (size_t)n;
	r = give(c, f, &len);
	if (r == -ENOBUFS && c->pass > 0) /* there will be room when that is out */
		return 0;
	if (r < 0)
		return r;
	f->requests++;
	f->plain = false;
	f->scanned = 0;
	c->pass += len;
	if (f->head.upgrade_websocket) {
		f->state = FLOW_ANSWER;
	} else if (f->head.framing == HTTP_CHUNKED) {
		f->state = FLOW_CHUNKS;
		http_chunks_init(&f->chunks);
	} else if (f->head.framing == HTTP_LENGTH) {
		f->state = FLOW_LENGTH;
		f->left = f->head.length;
	}
	return 1;
}

static int take_chunks(struct econn *c, struct http_flow *f)
{
	struct http_refusal why;
	struct http_slice data;
	bool end = false;
	ptrdiff_t n = http_chunks_feed(&f->chunks, c->hold + c->pass, c->held - c->pass, &data,
				       &end, &why);

	if (n < 0)
		return -EBADMSG;
	c->pass += (size_t)n;
	if (end)
		f->state = FLOW_HEAD;
	return n > 0;
}

static int take_length(struct econn *c, struct http_flow *f)
{
	size_t n = c->held - c->pass;

	if (n > f->left)
		n = (size_t)f->left;
	c->pass += n;
	f->left -= n;
	if (f->left == 0)
		f->state = FLOW_HEAD;
	return 1;
}

int http_flow_step(struct econn *c)
{
	int r = 1;

	if (c->http == NULL)
		c->http = calloc(1, sizeof(*c->http));
	if (c->http == NULL)
		return -ENOMEM;
	while (r > 0 && c->pass < c->held) {
		switch (c->http->state) {
		case FLOW_HEAD:
			r = take_head(c, c->http);
			break;
		case FLOW_LENGTH:
			r = take_length(c, c->http);
			break;
		case FLOW_CHUNKS:
			r = take_chunks(c, c->http);
			break;
		case FLOW_ANSWER:
			r = 0;
			break;
		}
	}
	return r < 0 ? r : 0;
}

bool http_flow_wants_answer(const struct econn *c)
{
	return c->http != NULL && c->http->state == FLOW_ANSWER;
}

bool http_flow_answer(struct econn *c, const char *p, size_t n)
{
	static const char switched[] = "HTTP/1.1 101";

	if (n < sizeof(switched) - 1 && strncmp(p, switched, n) == 0)
		return false;
	c->http->state = FLOW_HEAD;
	if (n >= sizeof(switched) - 1 && memcmp(p, switched, sizeof(switched) - 1) == 0)
		c->whole = true;
	return true;
}

void http_flow_done(struct econn *c)
{
	free(c->http);
	c->http = NULL;
}
