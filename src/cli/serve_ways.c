// SPDX-License-Identifier: Apache-2.0
/*
 * Where the places are that the server may speak to (efast_url, efast_host, rayai_url). Names are looked up here, once, by whoever starts the
 * server: the keeper knows numbers only, and the gate not even those.
 */
#include "cli/say.h"
#include "cli/serve.h"

#include "wire/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int serve_look_up(const struct endpoint *p, char address[SERVE_WAY])
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC,
					.ai_socktype = SOCK_STREAM,
					.ai_flags = AI_ADDRCONFIG };
	char host[SERVE_WAY - 6]; /* and ":65535" */
	struct addrinfo *found;
	int r = getaddrinfo(p->host, NULL, &hints, &found);

	if (r != 0)
		return r;
	r = getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof(host), NULL, 0,
			NI_NUMERICHOST);
	freeaddrinfo(found);
	if (r == 0 && strchr(host, '%') != NULL) /* of one link only */
		return EAI_NONAME;
	if (r == 0)
		(void)snprintf(address, SERVE_WAY, "%s:%u", host, p->port);
	return r;
}

int serve_ways(const struct config *c, char addresses[][SERVE_WAY], struct err *e)
{
	struct endpoint v[ENDPOINTS_MAX];
	const char *bad;
	unsigned int nhosts;
	char *const *hosts = config_list(c, CONF_EFAST_HOST, &nhosts);
	unsigned int nurls;
	char *const *urls = config_list(c, CONF_RAYAI_URL, &nurls);
	int first, n = endpoints_read(config_str(c, CONF_EFAST_URL), hosts, nhosts, v, &bad);

	if (n == -EPROTONOSUPPORT)
		return err_set(e, ERR_USAGE, 0,
			       "efast_url: '%s': only http:// is spoken to a document store", bad);
	if (n < 0)
		return err_set(e, ERR_USAGE, 0, "%s: '%s' is not %s",
			       bad == config_str(c, CONF_EFAST_URL) ? "efast_url" : "efast_host",
			       bad,
			       bad == config_str(c, CONF_EFAST_URL) ? "http://NAME[:PORT]"
								    : "NAME[:PORT]");
	first = n;
	n = endpoints_of_urls(urls, nurls, v, n, &bad);
	if (n < 0)
		return err_set(e, ERR_USAGE, 0,
			       "rayai_url: '%s' is not http://NAME[:PORT]/…, or one too many", bad);
	for (int i = 0; i < n; i++) {
		int r = serve_look_up(&v[i], addresses[i]);

		if (r == 0)
			continue;
		addresses[i][0] = '\0';
		say("warning: %s: '%s': %s: nothing will be fetched from there",
		    i >= first ? "rayai_url"
		    : i == 0   ? "efast_url"
			       : "efast_host",
		    v[i].host, gai_strerror(r));
	}
	return n;
}
