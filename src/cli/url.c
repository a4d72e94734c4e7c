// SPDX-License-Identifier: Apache-2.0
#include "cli/url.h"

#include "base/str.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Errors show what is wrong, never all of it: there may be a token in it. */
static int bad(struct err *e, const char *why)
{
	(void)err_set(e, ERR_USAGE, 0, "the URL of the server %s", why);
	return err_hint(e, "write http://HOST:PORT or unix:/PATH");
}

static bool is_host_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       strchr("-._", c) != NULL;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* %xx decoded; only what a header may have. */
static int take_token(const char *p, size_t n, char ret[URL_TOKEN])
{
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		int c = (unsigned char)p[i];

		if (c == '%' && n - i > 2 && hex(p[i + 1]) >= 0 && hex(p[i + 2]) >= 0) {
			c = hex(p[i + 1]) << 4 | hex(p[i + 2]);
			i += 2;
		}
		if (c <= ' ' || c >= 0x7f || len + 1 >= URL_TOKEN)
			return -1;
		ret[len++] = (char)c;
	}
	ret[len] = '\0';
	return 0;
}

static int take_host(const char *p, size_t n, char ret[URL_HOST])
{
	bool v6 = n > 2 && p[0] == '[' && p[n - 1] == ']';

	if (v6) {
		p++;
		n -= 2;
	}
	if (n == 0 || n >= URL_HOST)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (v6 ? hex(p[i]) < 0 && p[i] != ':' && p[i] != '.' : !is_host_char(p[i]))
			return -1;
	(void)memcpy(ret, p, n);
	ret[n] = '\0';
	return 0;
}

/* host[:port]; without a port, the given one. */
static int take_authority(const char *p, size_t n, uint16_t port, struct url *ret, struct err *e)
{
	const char *close = memrchr(p, ']', n), *colon = memrchr(p, ':', n);
	size_t host = n;
	char digits[8];
	uint64_t v = port;

	if (colon != NULL && (close == NULL || colon > close)) {
		host = (size_t)(colon - p);
		if (n - host - 1 >= sizeof(digits))
			return bad(e, "has no port that is one");
		(void)snprintf(digits, sizeof(digits), "%.*s", (int)(n - host - 1), colon + 1);
		if (str_to_u64(digits, UINT16_MAX, &v) < 0 || v == 0)
			return bad(e, "has no port that is one");
	}
	if (take_host(p, host, ret->host) < 0)
		return bad(e, "has no host that is one");
	ret->port = (uint16_t)v;
	(void)snprintf(ret->authority, sizeof(ret->authority),
		       strchr(ret->host, ':') != NULL ? "[%s]:%u" : "%s:%u", ret->host,
		       (unsigned int)ret->port);
	return 0;
}

static int take_prefix(const char *p, char ret[URL_PREFIX], struct err *e)
{
	size_t n = strlen(p);

	while (n > 0 && p[n - 1] == '/')
		n--;
	if (n >= URL_PREFIX)
		return bad(e, "is too long");
	for (size_t i = 0; i < n; i++)
		if (p[i] <= ' ' || p[i] >= 0x7f || strchr("?#", p[i]) != NULL)
			return bad(e, "has a path with a character that no path has");
	(void)snprintf(ret, URL_PREFIX, "%.*s", (int)n, p);
	return 0;
}

static int take_unix(const char *path, struct url *ret, struct err *e)
{
	if (path[0] != '/' || strlen(path) >= URL_PATH)
		return bad(e, "is no absolute path of a Unix socket, of 107 bytes at most");
	(void)snprintf(ret->path, sizeof(ret->path), "%s", path);
	(void)snprintf(ret->authority, sizeof(ret->authority), "localhost");
	(void)snprintf(ret->shown, sizeof(ret->shown), "unix:%s", path);
	return 0;
}

static int take_http(const char *rest, struct url *ret, struct err *e)
{
	size_t n = strcspn(rest, "/?#");
	const char *at = memrchr(rest, '@', n);

	if (take_prefix(rest + n, ret->prefix, e) < 0)
		return -1;
	if (at != NULL) {
		const char *colon = memchr(rest, ':', (size_t)(at - rest));
		const char *token = colon != NULL ? colon + 1 : rest;

		if (take_token(token, (size_t)(at - token), ret->token) < 0)
			return bad(e, "has a token that is none");
		n -= (size_t)(at + 1 - rest);
		rest = at + 1;
	}
	if (take_authority(rest, n, 80, ret, e) < 0)
		return -1;
	(void)snprintf(ret->shown, sizeof(ret->shown), "http://%s%s", ret->authority, ret->prefix);
	return 0;
}

int url_parse(const char *text, struct url *ret, struct err *e)
{
	*ret = (struct url){ 0 };
	if (strncmp(text, "unix:", 5) == 0)
		return take_unix(text + 5, ret, e);
	if (strncasecmp(text, "http://", 7) == 0)
		return take_http(text + 7, ret, e);
	if (strncasecmp(text, "https://", 8) == 0) {
		(void)err_set(e, ERR_USAGE, 0, "this client does not speak https");
		return err_hint(e, "use the server's Unix socket, or a tunnel: ssh -L "
				   "8000:localhost:8000 HOST, and http://localhost:8000");
	}
	return bad(e, "begins with neither 'http://' nor 'unix:'");
}

int url_from_listener(const char *text, struct url *ret, struct err *e)
{
	static const char *const all[] = { "", "0.0.0.0", "[::]" };
	const char *colon = strrchr(text, ':');
	char own[URL_HOST + 16];

	*ret = (struct url){ 0 };
	if (strncmp(text, "unix:", 5) == 0)
		return take_unix(text + 5, ret, e);
	if (colon == NULL)
		return bad(e, "has no port that is one");
	for (unsigned int i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strlen(all[i]) == (size_t)(colon - text) &&
		    strncmp(all[i], text, strlen(all[i])) == 0) {
			(void)snprintf(own, sizeof(own), "127.0.0.1%s", colon);
			return take_http(own, ret, e);
		}
	return take_http(text, ret, e);
}
