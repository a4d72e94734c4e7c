// SPDX-License-Identifier: Apache-2.0
/* Where something is to be reached: as operators, clients and document stores write it. */
#include "wire/endpoint.h"

#include <errno.h>
#include <string.h>

#include "test_help.h"

TEST(endpoint_parse)
{
	static const struct {
		const char *text;
		const char *host; /* NULL: it is none */
		unsigned int port;
	} rows[] = {
		{ "store", "store", 80 },
		{ "Store.Example", "store.example", 80 },
		{ "127.0.0.1:8080", "127.0.0.1", 8080 },
		{ "[::1]:65535", "::1", 65535 },
		{ "[::1]", "::1", 80 },
		{ "a_b-c.d:1", "a_b-c.d", 1 },
		{ "", NULL, 0 },
		{ ":80", NULL, 0 },
		{ "a:", NULL, 0 },
		{ "a:0", NULL, 0 },
		{ "a:65536", NULL, 0 },
		{ "a:-1", NULL, 0 },
		{ "a:8a", NULL, 0 },
		{ "a:80:80", NULL, 0 },
		{ "::1", NULL, 0 },
		{ "[::1", NULL, 0 },
		{ "[]", NULL, 0 },
		{ "[::1]80", NULL, 0 },
		{ "[fe80::1%1]", NULL, 0 },
		{ "a@b", NULL, 0 },
		{ "a b", NULL, 0 },
		{ "a/b", NULL, 0 },
		{ "a\r\nb", NULL, 0 },
		{ "\xc3\xa4", NULL, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct endpoint e;
		int r = endpoint_parse(rows[i].text, strlen(rows[i].text), 80, &e);

		CHECK_EQ_INT(r, rows[i].host != NULL ? 0 : -EINVAL);
		if (r == 0) {
			CHECK_STR(e.host, rows[i].host);
			CHECK_EQ_INT(e.port, rows[i].port);
		}
	}
}

TEST(endpoint_of_the_longest_host)
{
	char text[300];
	struct endpoint e;

	(void)memset(text, 'a', sizeof(text));
	CHECK_EQ_INT(endpoint_parse(text, ENDPOINT_HOST - 1, 80, &e), 0);
	CHECK_EQ_INT(strlen(e.host), ENDPOINT_HOST - 1);
	CHECK_EQ_INT(endpoint_parse(text, ENDPOINT_HOST, 80, &e), -EINVAL);
}

TEST(endpoint_of_url)
{
	static const struct {
		const char *url;
		int result;
		const char *rest;
	} rows[] = {
		{ "http://a", 0, "" },
		{ "HTTP://a:1/b/c?d#e", 0, "/b/c?d#e" },
		{ "http://a?x=http://b/", 0, "?x=http://b/" },
		{ "http://[::1]:1/", 0, "/" },
		{ "https://a", -EPROTONOSUPPORT, NULL },
		{ "file:///etc/passwd", -EPROTONOSUPPORT, NULL },
		{ "a", -EINVAL, NULL },
		{ "http://", -EINVAL, NULL },
		{ "http:///x", -EINVAL, NULL },
		{ "http://u:p@a/", -EINVAL, NULL },
		{ "http://a\\@b/", -EINVAL, NULL },
		{ "http://a/ b", -EINVAL, NULL },
		{ "http://a/\r\nX: y", -EINVAL, NULL },
		{ "http://a/\x7f", -EINVAL, NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *rest = NULL;
		struct endpoint e;

		CHECK_EQ_INT(endpoint_of_url(rows[i].url, &e, &rest), rows[i].result);
		if (rows[i].result == 0)
			CHECK_STR(rest, rows[i].rest);
	}
}

TEST(endpoints_of_an_operator)
{
	char *many[ENDPOINTS_MAX], one[] = "a:1", two[] = "B", bad[] = "c:x";
	struct endpoint v[ENDPOINTS_MAX];
	const char *why;
	char text[ENDPOINT_HOST + 10];

	CHECK_EQ_INT(endpoints_read("", (char *[]){ one }, 1, v, &why), 0);
	CHECK_EQ_INT(endpoints_read("http://s:9/p", (char *[]){ one, two }, 2, v, &why), 3);
	CHECK_STR(v[0].host, "s");
	CHECK_STR(v[2].host, "b");
	CHECK(endpoint_is(&v[1], &(struct endpoint){ "a", 1 }) && !endpoint_is(&v[1], &v[2]));
	CHECK(!endpoint_is(&v[1], &(struct endpoint){ "a", 2 }));
	CHECK_EQ_INT(endpoints_read("http://s", (char *[]){ one, bad }, 2, v, &why), -EINVAL);
	CHECK_STR(why, "c:x");
	CHECK_EQ_INT(endpoints_read("ftp://s", NULL, 0, v, &why), -EPROTONOSUPPORT);
	CHECK_STR(why, "ftp://s");
	for (size_t i = 0; i < ENDPOINTS_MAX; i++)
		many[i] = one;
	CHECK_EQ_INT(endpoints_read("http://s", many, ENDPOINTS_MAX - 1, v, &why), ENDPOINTS_MAX);
	CHECK_EQ_INT(endpoints_read("http://s", many, ENDPOINTS_MAX, v, &why), -E2BIG);
	endpoint_text(&v[0], text);
	CHECK_STR(text, "s");
	endpoint_text(&v[1], text);
	CHECK_STR(text, "a:1");
	endpoint_text(&(struct endpoint){ "::1", 8080 }, text);
	CHECK_STR(text, "[::1]:8080");
}
