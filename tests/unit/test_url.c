/* SPDX-License-Identifier: Apache-2.0 */
/* src/cli/url.c: where a server is. */
#include "cli/url.h"

#include <string.h>

#include "test.h"

TEST(url_takes_what_people_write)
{
	static const struct {
		const char *text, *host, *path, *prefix, *token, *authority, *shown;
		unsigned int port;
	} rows[] = {
		{ "http://127.0.0.1:8000", "127.0.0.1", "", "", "", "127.0.0.1:8000",
		  "http://127.0.0.1:8000", 8000 },
		{ "http://box.example", "box.example", "", "", "", "box.example:80",
		  "http://box.example:80", 80 },
		{ "HTTP://Box:1/", "Box", "", "", "", "Box:1", "http://Box:1", 1 },
		{ "http://[::1]:65535/a/b//", "::1", "", "/a/b", "", "[::1]:65535",
		  "http://[::1]:65535/a/b", 65535 },
		{ "http://[fe80::1]", "fe80::1", "", "", "", "[fe80::1]:80", "http://[fe80::1]:80",
		  80 },
		{ "http://gb:secret%2ftoken@h:9", "h", "", "", "secret/token", "h:9", "http://h:9",
		  9 },
		{ "http://tokenonly@h:9", "h", "", "", "tokenonly", "h:9", "http://h:9", 9 },
		{ "http://x:a@b@h:9", "h", "", "", "a@b", "h:9", "http://h:9", 9 },
		{ "unix:/run/glovebox.sock", "", "/run/glovebox.sock", "", "", "localhost",
		  "unix:/run/glovebox.sock", 0 },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct url u;
		struct err e;

		CHECK_EQ_INT(url_parse(rows[i].text, &u, &e), 0);
		CHECK_STR(u.host, rows[i].host);
		CHECK_STR(u.path, rows[i].path);
		CHECK_STR(u.prefix, rows[i].prefix);
		CHECK_STR(u.token, rows[i].token);
		CHECK_STR(u.authority, rows[i].authority);
		CHECK_STR(u.shown, rows[i].shown);
		CHECK_EQ_INT(u.port, rows[i].port);
	}
}

/* And says nothing of a token that stands in it. */
TEST(url_refuses_the_rest)
{
	static const char *const rows[] = {
		"",
		"127.0.0.1:8000",
		"ftp://h",
		"http://",
		"http://:80",
		"http://h:0",
		"http://h:65536",
		"http://h:12x",
		"http://h:",
		"http://h:123456789",
		"http://a b",
		"http://h\r\nX: y",
		"http://h/a b",
		"http://h/\x7f",
		"http://h/?q=1",
		"http://h?q=1",
		"http://h/#f",
		"http://[::1",
		"http://[]:80",
		"http://[gg::1]:80",
		"http://x:secret%0a@h",
		"http://x:sec ret@h",
		"unix:relative",
		"unix:",
	};
	char longest[700] = "http://";
	struct url u;
	struct err e;

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_EQ_INT(url_parse(rows[i], &u, &e), -1);
		CHECK(strstr(e.text, "sec") == NULL && strstr(e.hint, "sec") == NULL);
	}
	memset(longest + 7, 'a', 300);
	CHECK_EQ_INT(url_parse(longest, &u, &e), -1);
	(void)strcpy(longest, "http://h/");
	memset(longest + 9, 'a', 600);
	CHECK_EQ_INT(url_parse(longest, &u, &e), -1);
	(void)strcpy(longest, "unix:/");
	memset(longest + 6, 'a', 120);
	CHECK_EQ_INT(url_parse(longest, &u, &e), -1);
}

TEST(url_says_that_https_is_not_spoken)
{
	struct url u;
	struct err e;

	CHECK_EQ_INT(url_parse("https://box.example", &u, &e), -1);
	CHECK(strstr(e.text, "https") != NULL);
	CHECK(strstr(e.hint, "ssh -L") != NULL);
}

TEST(url_of_a_listener)
{
	static const struct {
		const char *listener, *shown;
	} rows[] = {
		{ "127.0.0.1:8000", "http://127.0.0.1:8000" }, { ":9000", "http://127.0.0.1:9000" },
		{ "0.0.0.0:80", "http://127.0.0.1:80" },       { "[::]:80", "http://127.0.0.1:80" },
		{ "[::1]:8000", "http://[::1]:8000" },         { "unix:/run/x", "unix:/run/x" },
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct url u;
		struct err e;

		CHECK_EQ_INT(url_from_listener(rows[i].listener, &u, &e), 0);
		CHECK_STR(u.shown, rows[i].shown);
	}
}
