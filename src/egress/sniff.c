// SPDX-License-Identifier: Apache-2.0
/*
 * What a client says first, and whether it is what it was connected for.
 *
 * A hello of TLS and requests of HTTP name whom they are for, and the machine at the other end may be many: so that must be the name that the rule
 * allowed. Whatever looks like one of the two is read strictly or refused; what looks like neither goes out as it is. Whose client waits for the server to
 * speak first is not held up: only its own bytes wait here.
 */
#include "egress/tunnel.h"

#include "base/own.h"
#include "wire/tls_hello.h"

#include <string.h>
#include <strings.h>

enum { LINE_MAX_BYTES = 8192, TLS_FIRST = 20, TLS_HANDSHAKE = 22, TLS_LAST = 24 };

/* Nothing more of it is looked at. */
static int let_go(struct econn *c, enum said said)
{
	c->said = said;
	c->pass = c->held;
	c->whole = true;
	return 0;
}

/* Requests in it get something: from here on what the client says is what it says in there. */
static int open_up(struct econn *c)
{
	if (!secrets_there(c->box->e))
		return -EPERM;
	c->tls = true;
	c->said = SAID_NOTHING;
	return tunnel_open(c);
}

bool sniff_is_denied(const struct econn *c, const char *name)
{
	struct net_verdict v = net_decide_name_port(&c->box->policy, name, c->port);

	return !c->named && !v.allowed && v.rule >= 0;
}

static int look_at_tls(struct econn *c)
{
	struct tls_hello h;
	int r;

	if (c->held < c->looked)
		return 0;
	r = tls_hello_read((const uint8_t *)c->hold, c->held, &h);
	c->looked = h.needs;
	if (r <= 0)
		return r < 0 ? -EBADMSG : 0;
	/* Without a name the machine at the other end has but one answer, and it was allowed. */
	if (h.has_name && (c->named ? strcmp(h.name, c->name) != 0 : sniff_is_denied(c, h.name)))
		return -EACCES;
	/* A second name in it that we cannot read, behind one that the rules have allowed. */
	if (c->named && h.has_ech && c->verdict.rule >= 0)
		return -EACCES;
	if ((conn_spoken(c) & NET_SPOKEN_TLS) == 0)
		return -EBADMSG;
	return c->named && c->verdict.opens ? open_up(c) : let_go(c, SAID_TLS);
}

/* White space to lenient readers of HTTP. */
static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

/* "GET " and the like. partly: there may be no more of the word yet, or ever. */
static bool begins_request(const char *p, size_t n, bool partly)
{
	size_t word = 0;

	while (word < n && !is_space(p[word]))
		word++;
	return (word < n || partly) && http_is_token((struct http_slice){ p, word });
}

/* A line without a version, from before there were any: whom it is for may be in it, and it is in no header. */
static bool is_old_request(const char *p, size_t n)
{
	return n > 4 && strncmp(p, "GET", 3) == 0 && is_space(p[3]) && memchr(p, '/', n) != NULL;
}

/* The first line, behind empty ones; ended: there is nothing behind it. 1: there are servers to which it is HTTP. 0: it is not, and is whole, or is no text at
 * all. -1: more is wanted. */
static int is_http(const char *p, size_t n, bool ended)
{
	size_t at = 0, end;
	bool whole, late;

	while (at < n && is_space(p[at]))
		at++;
	p += at;
	n -= at;
	for (end = 0; end < n && p[end] != '\n'; end++)
		/* No request has these, but some servers take them for white space, or for a part of a path. Lengths of other protocols begin with a digit. */
		if ((uint8_t)p[end] < ' ' && p[end] != '\t' && p[end] != '\r')
			return (p[0] < '0' || p[0] > '9') && begins_request(p, end + 1, false);
	whole = end < n || ended;
	late = !whole && end > LINE_MAX_BYTES;
	for (size_t i = 0; i + 5 <= end; i++)
		if (strncasecmp(p + i, "HTTP/", 5) == 0)
			return whole || late ? 1 : -1;
	if (late) /* its version may be still to come */
		return begins_request(p, end, true);
	return whole ? is_old_request(p, end) : -1;
}

/* What servers of TLS take, strictly read or not: records of any kind, some of which are passed over in front of a hello, and a hello in the shape of
 * SSL 2: behind two bytes of length its type and 3, of the version. 1, 0, or -1: more is wanted. */
static int is_tls(const uint8_t *p, size_t n)
{
	static const uint8_t old[] = { 1, 3 };

	if (p[0] == TLS_HANDSHAKE)
		return 1;
	if (p[0] >= TLS_FIRST && p[0] <= TLS_LAST)
		return n < 2 ? -1 : p[1] == 3;
	for (size_t i = 0; i < sizeof(old); i++)
		if ((p[0] & 0x80) == 0 || (n > i + 2 && p[i + 2] != old[i]))
			return 0;
	return n < 2 + sizeof(old) ? -1 : 1;
}

static int find_out(struct econn *c)
{
	int r;

	/* Whatever begins as TLS does must be it: others are not as strict as we are. */
	r = c->tls ? 0 : is_tls((const uint8_t *)c->hold, c->held);
	if (r > 0) {
		c->said = SAID_TLS;
		return look_at_tls(c);
	}
	if (r == 0)
		r = is_http(c->hold, c->held, c->client_ended);
	if (r < 0 && !c->client_ended)
		return 0;
	if (r > 0) {
		c->said = SAID_HTTP;
		if (!c->tls && (conn_spoken(c) & NET_SPOKEN_HTTP) == 0)
			return -EBADMSG;
		return http_flow_step(c);
	}
	if (c->tls) /* nobody could tell what it asks for */
		return -EBADMSG;
	return (conn_spoken(c) & NET_SPOKEN_OTHER) == 0 ? -EBADMSG : let_go(c, SAID_OTHER);
}

int sniff_step(struct econn *c)
{
	if (c->whole) {
		c->pass = c->held;
		return 0;
	}
	if (c->pass == c->held)
		return 0;
	switch (c->said) {
	case SAID_NOTHING:
		return find_out(c);
	case SAID_TLS:
		return look_at_tls(c);
	case SAID_HTTP:
		return http_flow_step(c);
	case SAID_OTHER:
		break;
	}
	return let_go(c, SAID_OTHER);
}
