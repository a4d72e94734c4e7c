/* SPDX-License-Identifier: Apache-2.0 */
/* Where something is to be reached over TCP: a name or an address, and a port. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ENDPOINT_HOST = 256, ENDPOINTS_MAX = 33 };

struct endpoint {
	char host[ENDPOINT_HOST]; /* in lower case, an address of IPv6 without its brackets */
	uint16_t port;
};

/* "name", "name:80", "[::1]:80". otherwise: the port where none is said. 0 or -EINVAL. */
int endpoint_parse(const char *p, size_t n, uint16_t otherwise, struct endpoint *ret);
/* That of "http://name:80/rest"; *ret_rest is what begins with the first '/' or '?', and may be empty. -EPROTONOSUPPORT: another
 * scheme; -EINVAL: none, a user in it, or something that is no printable ASCII. */
int endpoint_of_url(const char *url, struct endpoint *ret, const char **ret_rest);
/* The same, and of "https://name/rest": *ret_secure says which. */
int endpoint_of_any_url(const char *url, struct endpoint *ret, const char **ret_rest,
			bool *ret_secure);
/* The first of url, the rest of hosts: an order by which two processes mean the same. How many, or -errno with *ret_bad the one that is
 * none. An empty url is 0 of them. */
int endpoints_read(const char *url, char *const *hosts, unsigned int n,
		   struct endpoint v[ENDPOINTS_MAX], const char **ret_bad);
/* Those of URLs behind the n that are there; likewise. */
int endpoints_of_urls(char *const *urls, unsigned int nurls, struct endpoint v[ENDPOINTS_MAX],
		      int n, const char **ret_bad);
bool endpoint_is(const struct endpoint *a, const struct endpoint *b);
/* As "Host" has it. */
void endpoint_text(const struct endpoint *e, char text[ENDPOINT_HOST + 10]);
