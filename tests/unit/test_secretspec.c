/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/secretspec.h"

#include <stdio.h>

#include "test_help.h"

TEST(secret_spec_takes)
{
	static const struct {
		const char *text, *key, *where, *host;
		enum secret_source source;
		unsigned int nhosts;
		bool below;
	} rows[] = {
		{ "a=env:B@c.org", "a", "B", "c.org", SECRET_ENV, 1, false },
		{ "a=env:B@*.C.org", "a", "B", "c.org", SECRET_ENV, 1, true },
		{ "t/a.b-c_d=file:/x/y=z@w@c.org *.d.org", "t/a.b-c_d", "/x/y=z@w", "c.org",
		  SECRET_FILE, 2, false },
		{ "a=command:/bin/get one two@c.org", "a", "/bin/get one two", "c.org",
		  SECRET_COMMAND, 1, false },
	};
	static struct secret_spec s;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char key[NET_SECRET];
		struct err e;

		CHECK_EQ_INT(secret_spec_read(rows[i].text, &s, &e), 0);
		secret_spec_key(&s, key);
		CHECK_STR(key, rows[i].key);
		CHECK(net_secret_is_key(key));
		CHECK_STR(net_secret_name(key), s.name);
		CHECK_EQ_INT(s.source, rows[i].source);
		CHECK_STR(s.where, rows[i].where);
		CHECK_EQ_INT(s.nhosts, rows[i].nhosts);
		CHECK_STR(s.hosts[0].name, rows[i].host);
		CHECK_EQ_INT(s.hosts[0].below, rows[i].below);
	}
}

/* What it says is for a log: nothing of the source may be in it. */
TEST(secret_spec_refuses_and_keeps_it_to_itself)
{
	static const char *const rows[] = {
		"",
		"a",
		"a=",
		"=env:PRIVATE@c.org",
		"a=env:PRIVATE",
		"a=env:PRIVATE@",
		"a=PRIVATE@c.org",
		"a=vault:PRIVATE@c.org",
		"a=env:@c.org",
		"a=file:PRIVATE@c.org",
		"a=command:PRIVATE@c.org",
		"A=env:PRIVATE@c.org",
		"a b=env:PRIVATE@c.org",
		"/a=env:PRIVATE@c.org",
		"t/=env:PRIVATE@c.org",
		"T/a=env:PRIVATE@c.org",
		"t/u/a=env:PRIVATE@c.org",
		"a=env:PRIVATE@c.org,d.org",
		"a=env:PRIVATE@c.org:443",
		"a=env:PRIVATE@10.0.0.1",
		"a=env:PRIVATE@*",
		"a=env:PRIVATE@*.*.org",
		"a=env:PRIVATE@https://c.org",
		"a=env:PRIVATE@a.org  b..org",
		("a=env:PRIVATE@h1.a h2.a h3.a h4.a h5.a h6.a h7.a h8.a h9.a h10.a h11.a h12.a "
		 "h13.a h14.a h15.a h16.a h17.a"),
	};
	static char large[SECRET_TEXT + 1];
	static struct secret_spec s;
	struct err e;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_EQ_INT(secret_spec_read(rows[i], &s, &e), -1);
		CHECK(strncmp(e.text, "secret", 6) == 0);
		CHECK(strstr(e.text, "PRIVATE") == NULL);
	}
	memset(large, 'a', sizeof(large) - 1);
	CHECK_EQ_INT(secret_spec_read(large, &s, &e), -1);
}

TEST(secret_hosts_are_those_that_were_named)
{
	struct secret_host v[2];
	struct net_rule r;
	struct err e;
	static const struct {
		const char *rule;
		bool covered;
	} rows[] = {
		{ "a.org", true },     { "x.a.org", false },  { "b.org", false },
		{ "x.b.org", true },   { "y.x.b.org", true }, { "*.b.org", true },
		{ "*.x.b.org", true }, { "*.org", false },    { "*.a.org", false },
		{ "xb.org", false },   { "ab.org", false },   { "10.0.0.1", false },
		{ "*.ab.org", false },
	};

	CHECK_EQ_INT(secret_host_read("a.org", &v[0]), 0);
	CHECK_EQ_INT(secret_host_read("*.b.org", &v[1]), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_EQ_INT(net_rule_read(rows[i].rule, &r, &e), 0);
		CHECK_EQ_INT(secret_hosts_cover(v, 2, &r), rows[i].covered);
		if (r.kind == NET_EXACT)
			CHECK_EQ_INT(secret_hosts_have(v, 2, r.name), rows[i].covered);
	}
}

TEST(secret_keys)
{
	static const struct {
		const char *text;
		bool key, name;
	} rows[] = {
		{ "a", true, true },     { "a/b", true, false },    { "", false, false },
		{ "/", false, false },   { "/a", false, false },    { "a/", false, false },
		{ "A", false, false },   { "a/b/c", false, false }, { "a b", false, false },
		{ "a\n", false, false },
	};
	char large[NET_SECRET_NAME + 1] = "";

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_EQ_INT(net_secret_is_key(rows[i].text), rows[i].key);
		CHECK_EQ_INT(net_secret_is_name(rows[i].text), rows[i].name);
	}
	memset(large, 'a', NET_SECRET_NAME - 1);
	CHECK(net_secret_is_name(large));
	large[NET_SECRET_NAME - 1] = 'a';
	CHECK(!net_secret_is_name(large));
}
