// SPDX-License-Identifier: Apache-2.0
/*
 * Who asks for a connection in words: SOCKS 5, or HTTP as proxies are sent it, CONNECT and whole URLs. It is the same decision as for a connection that was
 * redirected, but there is somebody to tell why not.
 */
#include "egress/egress.h"

#include "base/own.h"
#include "wire/dnsname.h"
#include "wire/endpoint.h"
#include "wire/socks.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { REQUEST_MAX = 8192, TELL_MAX = 1024 };

/* What was read of the front is gone. */
static void drop(struct econn *c, size_t n)
{
	c->held -= n;
	(void)memmove(c->hold, c->hold + n, c->held);
}

/* A few bytes, to somebody who waits for them and has been told next to nothing: there is room. */
static int say(const struct econn *c, const void *p, size_t n)
{
	return send(c->client_fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n ? 0 : -EPIPE;
}

static void refuse(struct econn *c)
{
	(void)proxy_tell(c, EINVAL);
	conn_end(c, EGRESS_OTHER_PROTOCOL);
}

static void go_to_name(struct econn *c, const char *name, uint16_t port)
{
	c->port = port;
	if (dnsname_read(name, strlen(name), c->name) < 0) {
		refuse(c);
		return;
	}
	c->named = true;
	conn_go(c);
}

/* An address that stands for a name is that name. */
static void go_to_address(struct econn *c, const struct net_address *a, uint16_t port)
{
	const struct ename *n = a->v6 ? NULL : names_of(&c->box->names, a->a);

	if (n != NULL) {
		go_to_name(c, n->name, port);
		return;
	}
	c->address = *a;
	c->port = port;
	conn_go(c);
}

/* --- SOCKS ------------------------------------------------------------------------------------- */

static void socks_step(struct econn *c)
{
	static const uint8_t no_password[] = { 5, 0 }, no_method[] = { 5, 255 };
	struct socks_request q;
	struct net_address a;
	ptrdiff_t n;

	if (!c->greeted) {
		n = socks_greeting((const uint8_t *)c->hold, c->held);
		if (n == -EPROTONOSUPPORT)
			(void)say(c, no_method, sizeof(no_method));
		if (n < 0 || (n > 0 && say(c, no_password, sizeof(no_password)) < 0)) {
			conn_end(c, EGRESS_OTHER_PROTOCOL);
			return;
		}
		c->greeted = n > 0;
		drop(c, (size_t)n);
	}
	if (!c->greeted || c->held == 0)
		return;
	c->told = TOLD_SOCKS;
	n = socks_request_read((const uint8_t *)c->hold, c->held, &q);
	if (n == 0)
		return;
	if (n < 0) {
		(void)proxy_tell(c, n == -EPROTONOSUPPORT
					    ? ENOSYS
					    : EINVAL); /* an address of another kind among them */
		conn_end(c, EGRESS_OTHER_PROTOCOL);
		return;
	}
	drop(c, (size_t)n);
	if (q.by == SOCKS_BY_NAME) {
		go_to_name(c, q.name, q.port);
		return;
	}
	if (q.by == SOCKS_BY_V4)
		net_address_v4(q.address, &a);
	else
		net_address_v6(q.address, &a);
	go_to_address(c, &a, q.port);
}

/* --- HTTP -------------------------------------------------------------------------------------- */

/* The end of a head, behind its empty line; 0: it is not there. */
static size_t head_end(const char *p, size_t n)
{
	const char *end = memmem(p, n, "\r\n\r\n", 4);

	return end == NULL ? 0 : (size_t)(end - p) + 4;
}

static void go_to(struct econn *c, const struct endpoint *at)
{
	struct net_address a;

	if (net_address_read(at->host, &a) == 0)
		go_to_address(c, &a, at->port);
	else
		go_to_name(c, at->host, at->port);
}

/* "CONNECT name:443 HTTP/1.1"; what else its head says is nobody's business. */
static void connect_step(struct econn *c, size_t end)
{
	const char *at = c->hold + 8, *space = memchr(at, ' ', end - 8);
	struct endpoint to;

	if (space == NULL || endpoint_parse(at, (size_t)(space - at), 0, &to) < 0 ||
	    strncmp(space, " HTTP/1.", 8) != 0) {
		refuse(c);
		return;
	}
	drop(c, end);
	go_to(c, &to);
}

/* The URL of a request line, which it is for. 0, or -EINVAL; *ret_url is where it begins, *ret_path what follows the host in it. */
static int url_of(const char *p, size_t n, struct endpoint *to, const char **ret_url,
		  size_t *ret_path)
{
	const char *line = memchr(p, '\r', n), *at = memchr(p, ' ', n), *space, *rest;
	char url[REQUEST_MAX + 1];
	size_t len;

	if (line == NULL || at == NULL || at > line)
		return -EINVAL;
	at++;
	space = memchr(at, ' ', (size_t)(line - at));
	len = space == NULL ? 0 : (size_t)(space - at);
	if (len == 0 || len > REQUEST_MAX)
		return -EINVAL;
	(void)memcpy(url, at, len);
	url[len] = '\0';
	if (endpoint_of_url(url, to, &rest) < 0 || rest[0] != '/')
		return -EINVAL;
	*ret_url = at;
	*ret_path = (size_t)(rest - url);
	return 0;
}

static void request_step(struct econn *c)
{
	struct endpoint to;
	const char *url;
	size_t path;

	c->told = TOLD_WITH_ANSWER;
	if (url_of(c->hold, c->held, &to, &url, &path) < 0)
		refuse(c);
	else
		go_to(c, &to);
}

int proxy_origin_form(struct econn *c, size_t at)
{
	char name[DNSNAME_SIZE];
	struct endpoint to;
	const char *url;
	size_t path, n = c->held - at;

	if (c->told != TOLD_WITH_ANSWER)
		return 1;
	if (head_end(c->hold + at, n) == 0)
		return n > REQUEST_MAX ? -EACCES : 0;
	if (url_of(c->hold + at, n, &to, &url, &path) < 0 || to.port != c->port ||
	    (c->named &&
	     (dnsname_read(to.host, strlen(to.host), name) < 0 || strcmp(name, c->name) != 0)))
		return -EACCES;
	n = (size_t)(url - c->hold);
	c->held -= path;
	(void)memmove(c->hold + n, c->hold + n + path, c->held - n);
	return 1;
}

void proxy_step(struct econn *c)
{
	size_t end;

	if (c->held == 0)
		return;
	if (c->greeted || c->hold[0] == 5) {
		socks_step(c);
		return;
	}
	end = head_end(c->hold, c->held);
	c->told = TOLD_HTTP;
	if (end == 0 && c->held > REQUEST_MAX)
		refuse(c);
	else if (end > 0 && strncmp(c->hold, "CONNECT ", 8) == 0)
		connect_step(c, end);
	else if (end > 0)
		request_step(c);
}

/* --- how it went --------------------------------------------------------------------------------- */

static const struct {
	int error;
	enum socks_code socks;
	int status;
	const char *reason; /* behind the place */
} outcomes[] = {
	{ 0, SOCKS_OK, 200, "is connected" },
	{ EACCES, SOCKS_NOT_ALLOWED, 403, "is not allowed by the network rules of this box" },
	{ EDQUOT, SOCKS_NOT_ALLOWED, 403,
	  "is not reached: this box has sent and received all that it may" },
	{ EINVAL, SOCKS_NO_ADDRESS, 400, "is no place to connect to" },
	{ ENOSYS, SOCKS_NO_COMMAND, 405, "can be connected to, and nothing else" },
	{ ENOENT, SOCKS_HOST_UNREACHABLE, 502, "has no address" },
	{ ETIMEDOUT, SOCKS_TTL, 504, "does not answer" },
	{ ECONNREFUSED, SOCKS_REFUSED, 502, "refuses connections" },
	{ -1, SOCKS_NET_UNREACHABLE, 502, "cannot be reached" },
};

int proxy_tell(struct econn *c, int error)
{
	char place[NET_NAME + 16] = "it", reason[NET_NAME + 128], text[TELL_MAX];
	uint8_t reply[SOCKS_REPLY_MAX];
	unsigned int i = 0;
	int n;

	while (outcomes[i].error != error && outcomes[i].error >= 0)
		i++;
	if (c->told == TOLD_SOCKS) {
		size_t len = socks_reply(outcomes[i].socks, reply);

		return say(c, reply, len);
	}
	if (c->told == TOLD_NOTHING || (c->told == TOLD_WITH_ANSWER && error == 0))
		return 0;
	if (error == 0)
		return say(c, "HTTP/1.1 200 connected\r\n\r\n", 26);
	if (c->named)
		(void)snprintf(place, sizeof(place), "%s:%u", c->name, c->port);
	else if (c->port != 0)
		net_address_text(&c->address, place);
	(void)snprintf(reason, sizeof(reason), "%s %s", place, outcomes[i].reason);
	n = snprintf(text, sizeof(text),
		     "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
		     "Connection: close\r\n\r\nglovebox: %s\n",
		     outcomes[i].status, reason, strlen(reason) + 11, reason);
	return say(c, text, (size_t)n);
}
