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

enum { LINE_MAX_BYTES = 8192, TLS_HANDSHAKE = 22 };

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
	if (c->named && h.has_name && strcmp(h.name, c->name) != 0)
		return -EACCES;
	/* A second name in it that we cannot read, behind one that the rules have allowed. */
	if (c->named && h.has_ech && c->verdict.rule >= 0)
		return -EACCES;
	if ((conn_spoken(c) & NET_SPOKEN_TLS) == 0)
		return -EBADMSG;
	return c->named && c->verdict.opens ? open_up(c) : let_go(c, SAID_TLS);
}

/* The first line, behind empty ones. 1: it has HTTP in it. 0: it has not, and is whole, or is no text at all. -1: more is wanted. */
static int is_http(const char *p, size_t n)
{
	size_t at = 0, end;

	while (at < n && (p[at] == '\r' || p[at] == '\n'))
		at++;
	for (end = at; end < n && p[end] != '\n'; end++)
		if ((uint8_t)p[end] < ' ' && p[end] != '\t' && p[end] != '\r')
			return 0;
	for (size_t i = at; i + 5 <= end; i++)
		if (strncasecmp(p + i, "HTTP/", 5) == 0)
			return end < n || end - at > LINE_MAX_BYTES ? 1 : -1;
	return end < n || end - at > LINE_MAX_BYTES ? 0 : -1;
}

static int find_out(struct econn *c)
{
	int r;

	/* Whatever begins as TLS does must be it: others are not as strict as we are. */
	if ((uint8_t)c->hold[0] == TLS_HANDSHAKE && !c->tls) {
		c->said = SAID_TLS;
		return look_at_tls(c);
	}
	r = is_http(c->hold, c->held);
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
