// SPDX-License-Identifier: Apache-2.0
#include "wire/endpoint.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HTTP_PORT = 80, HTTPS_PORT = 443 };

static const char letters[] = "abcdefghijklmnopqrstuvwxyz";

/* Where the host ends: at a colon, or behind its bracket. 0: there is none. */
static size_t host_end(const char *p, size_t n)
{
	const char *end = n > 0 && p[0] == '[' ? memchr(p, ']', n) : memchr(p, ':', n);

	if (n == 0 || (end == NULL && p[0] == '['))
		return 0;
	if (end == NULL)
		return n;
	return (size_t)(end - p) + (p[0] == '[' ? 1 : 0);
}

/* In lower case, if it consists of what a host may. */
static int take_host(const char *p, size_t n, const char *others, char host[ENDPOINT_HOST])
{
	if (n == 0 || n >= ENDPOINT_HOST)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		char c = p[i];

		if (c >= 'A' && c <= 'Z')
			c = letters[c - 'A'];
		if (c == '\0' || (strchr(letters, c) == NULL && strchr("0123456789", c) == NULL &&
				  strchr(others, c) == NULL))
			return -EINVAL;
		host[i] = c;
	}
	host[n] = '\0';
	return 0;
}

int endpoint_parse(const char *p, size_t n, uint16_t otherwise, struct endpoint *ret)
{
	size_t end = host_end(p, n);
	char digits[6];
	uint64_t port = otherwise;
	int r = end > 0 && p[0] == '[' ? take_host(p + 1, end - 2, ":.", ret->host)
				       : take_host(p, end, "-._", ret->host);

	if (r < 0)
		return r;
	if (end < n) {
		size_t len = n - end - 1;

		if (p[end] != ':' || len == 0 || len >= sizeof(digits))
			return -EINVAL;
		(void)memcpy(digits, p + end + 1, len);
		digits[len] = '\0';
		if (str_to_u64(digits, UINT16_MAX, &port) < 0)
			return -EINVAL;
	}
	ret->port = (uint16_t)port;
	return port > 0 ? 0 : -EINVAL;
}

/* Behind this scheme. */
static int of_scheme(const char *url, const char *scheme, uint16_t port, struct endpoint *ret,
		     const char **ret_rest)
{
	const char *at = url + strlen(scheme);
	size_t n;

	for (const char *p = url; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			return -EINVAL;
	if (strncasecmp(url, scheme, strlen(scheme)) != 0)
		return strstr(url, "://") != NULL ? -EPROTONOSUPPORT : -EINVAL;
	n = strcspn(at, "/?#");
	*ret_rest = at + n;
	return endpoint_parse(at, n, port, ret);
}

int endpoint_of_url(const char *url, struct endpoint *ret, const char **ret_rest)
{
	return of_scheme(url, "http://", HTTP_PORT, ret, ret_rest);
}

int endpoint_of_any_url(const char *url, struct endpoint *ret, const char **ret_rest,
			bool *ret_secure)
{
	int r = of_scheme(url, "https://", HTTPS_PORT, ret, ret_rest);

	*ret_secure = r != -EPROTONOSUPPORT;
	return *ret_secure ? r : endpoint_of_url(url, ret, ret_rest);
}

int endpoints_read(const char *url, char *const *hosts, unsigned int n,
		   struct endpoint v[ENDPOINTS_MAX], const char **ret_bad)
{
	unsigned int count = 0;
	const char *rest;
	int r = 0;

	*ret_bad = url;
	if (url[0] == '\0')
		return 0;
	r = endpoint_of_url(url, &v[count++], &rest);
	for (unsigned int i = 0; i < n && r == 0; i++) {
		*ret_bad = hosts[i];
		r = count < ENDPOINTS_MAX
			    ? endpoint_parse(hosts[i], strlen(hosts[i]), HTTP_PORT, &v[count++])
			    : -E2BIG;
	}
	return r < 0 ? r : (int)count;
}

int endpoints_of_urls(char *const *urls, unsigned int nurls, struct endpoint v[ENDPOINTS_MAX],
		      int n, const char **ret_bad)
{
	for (unsigned int i = 0; i < nurls && n >= 0; i++) {
		const char *rest;
		int r = n < ENDPOINTS_MAX ? endpoint_of_url(urls[i], &v[n], &rest) : -E2BIG;

		*ret_bad = urls[i];
		n = r < 0 ? r : n + 1;
	}
	return n;
}

bool endpoint_is(const struct endpoint *a, const struct endpoint *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

void endpoint_text(const struct endpoint *e, char text[ENDPOINT_HOST + 10])
{
	bool v6 = strchr(e->host, ':') != NULL;
	int n = snprintf(text, ENDPOINT_HOST + 10, "%s%s%s", v6 ? "[" : "", e->host, v6 ? "]" : "");

	if (e->port != HTTP_PORT && n > 0)
		(void)snprintf(text + n, (size_t)(ENDPOINT_HOST + 10 - n), ":%u", e->port);
}
