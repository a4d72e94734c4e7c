/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where something is to be reached, as a document store writes it. Input: a URL, up to its first NUL.
 *
 * Claims: what is taken is a host of letters, digits and few others, in lower case, and a port; written as "Host" has it and read
 * again it is the same; the rest begins where the authority ends and has nothing that could end a line of a request.
 */
#include "wire/endpoint.h"

#include <errno.h>

#include "fuzz_input.h"

static void check(const struct endpoint *e)
{
	char text[ENDPOINT_HOST + 10];
	struct endpoint again;

	MUST(e->port > 0 && e->host[0] != '\0' && strlen(e->host) < ENDPOINT_HOST);
	MUST(strspn(e->host, "abcdefghijklmnopqrstuvwxyz0123456789-._:") == strlen(e->host));
	endpoint_text(e, text);
	MUST(endpoint_parse(text, strlen(text), 80, &again) == 0 && endpoint_is(e, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = strnlen((const char *)data, size);
	char *url = malloc(n + 1);
	struct endpoint e;
	const char *rest;
	int r;

	MUST(url != NULL);
	(void)memcpy(url, data, n);
	url[n] = '\0';
	r = endpoint_of_url(url, &e, &rest);
	MUST(r == 0 || r == -EINVAL || r == -EPROTONOSUPPORT);
	if (r == 0) {
		check(&e);
		MUST(rest >= url + 7 && rest <= url + n && strchr("/?#", *rest) != NULL);
		MUST(strpbrk(rest, "\r\n \t") == NULL);
	}
	{
		uint8_t *copy = exact_copy(data, size);

		if (endpoint_parse((const char *)copy, size, 80, &e) == 0)
			check(&e);
		free(copy);
	}
	free(url);
	return 0;
}
