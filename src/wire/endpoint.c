// SPDX-License-Identifier: Apache-2.0
#include "wire/endpoint.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { HTTP_PORT = 80 };

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

int endpoint_of_url(const char *url, struct endpoint *ret, const char **ret_rest)
{
	static const char scheme[] = "http://";
	const char *at = url + sizeof(scheme) - 1;
	size_t n;

	for (const char *p = url; *p != '\0'; p++)
		if (*p <= ' ' || *p > '~')
			return -EINVAL;
	if (strncasecmp(url, scheme, sizeof(scheme) - 1) != 0)
		return strstr(url, "://") != NULL ? -EPROTONOSUPPORT : -EINVAL;
	n = strcspn(at, "/?#");
	*ret_rest = at + n;
	return endpoint_parse(at, n, HTTP_PORT, ret);
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
