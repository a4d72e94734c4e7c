/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/netrule.c, netaddress.c, netpolicy.c: what a box may reach. */
#include "wire/netrule.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "test_help.h"

TEST(net_rule_read_takes_and_writes)
{
	static const struct {
		const char *text, *again; /* again NULL: the same */
	} rows[] = {
		{ "pypi.org", NULL },
		{ "PyPI.org", "pypi.org" },
		{ "pypi.org.", "pypi.org" },
		{ "*.pypi.org", NULL },
		{ "!*.pypi.org:443", NULL },
		{ "pypi.org:443", NULL },
		{ "pypi.org:8000-8080", NULL },
		{ "localhost", NULL },
		{ "xn--bcher-kva.example", NULL },
		{ "_sip.example", NULL },
		{ "10.1.0.0/16", NULL },
		{ "10.1.2.3", NULL },
		{ "10.1.2.3/32", "10.1.2.3" },
		{ "10.1.0.0/16:5432", NULL },
		{ "0.0.0.0/0", NULL },
		{ "[2001:db8::]/32", NULL },
		{ "[2001:db8::1]", NULL },
		{ "[2001:DB8::1]:443", "[2001:db8::1]:443" },
		{ "![fd00::]/8:1-2", NULL },
		{ "[::ffff:10.1.2.3]", "10.1.2.3" },
		{ "[::ffff:10.1.0.0]/112", "10.1.0.0/16" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char text[NET_RULE_TEXT];
		struct net_rule r;
		struct err e;

		CHECK_EQ_INT(net_rule_read(rows[i].text, &r, &e), 0);
		net_rule_text(&r, text);
		CHECK_STR(text, rows[i].again != NULL ? rows[i].again : rows[i].text);
	}
}

TEST(net_rule_read_refuses_and_names)
{
	static const char *const rows[] = {
		"",
		"!",
		".",
		"*",
		"*.",
		"*.*.org",
		"a.*.org",
		"*pypi.org",
		"**.pypi.org",
		"!!a",
		"a..b",
		".a",
		"a b",
		"a\tb",
		"a\nb",
		"a@b",
		"user@pypi.org",
		"http://pypi.org",
		"pypi.org/path",
		"pypi.org:",
		"pypi.org:0",
		"pypi.org:65536",
		"pypi.org:x",
		"pypi.org:1-0",
		"pypi.org:1-",
		"pypi.org:-1",
		"pypi.org:80:80",
		"pypi.org:+80",
		"\xc3\xa4.example",
		/* what is nearly an address is no name */
		"1.2.3",
		"1.2.3.4.5",
		"256.1.1.1",
		"010.0.0.1",
		"0x7f.0.0.1",
		"127.1",
		"2130706433",
		"0x7f000001",
		"1.2.3.4.",
		"10.1.2.3/33",
		"10.1.2.3/16",
		"10.0.0.0/",
		"10.0.0.0/-1",
		"10.0.0.0/8/8",
		"2001:db8::1",
		"::1",
		"[::1",
		"::1]",
		"[]",
		"[10.0.0.1]",
		"[::1]/129",
		"[2001:db8::1]/32",
		"[fe80::1%1]",
		"[::ffff:10.1.2.3]/95",
		"[pypi.org]",
		"*.10.0.0.1",
		"pypi.org/24",
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_rule r;
		struct err e = { .text = "" };

		if (net_rule_read(rows[i], &r, &e) != -1)
			test_fail(__FILE__, __LINE__, "'%s' was taken", rows[i]);
		CHECK(strstr(e.text, rows[i]) != NULL);
	}
}

TEST(net_rule_of_the_longest_name)
{
	char text[400];
	struct net_rule r;
	struct err e;

	/* "abc.abc. … .abc" of 251 bytes, and of 255. */
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = "abc."[i % 4];
	text[251] = '\0';
	CHECK_EQ_INT(net_rule_read(text, &r, &e), 0);
	text[251] = '.';
	text[255] = '\0';
	CHECK_EQ_INT(net_rule_read(text, &r, &e), -1);
	(void)memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	CHECK_EQ_INT(net_rule_read(text, &r, &e), -1);
	CHECK(strstr(e.text, "too long") != NULL);
}

TEST(net_address_public)
{
	static const struct {
		const char *text;
		bool is_public;
	} rows[] = {
		{ "1.1.1.1", true },
		{ "8.8.8.8", true },
		{ "9.255.255.255", true },
		{ "10.0.0.0", false },
		{ "10.255.255.255", false },
		{ "11.0.0.0", true },
		{ "0.0.0.0", false },
		{ "127.0.0.1", false },
		{ "100.63.255.255", true },
		{ "100.64.0.0", false },
		{ "100.100.100.200", false },
		{ "100.128.0.0", true },
		{ "169.254.169.254", false },
		{ "172.15.0.1", true },
		{ "172.16.0.1", false },
		{ "172.31.255.255", false },
		{ "172.32.0.0", true },
		{ "192.168.1.1", false },
		{ "192.0.0.1", false },
		{ "192.0.2.1", false },
		{ "198.18.0.1", false },
		{ "198.19.255.255", false },
		{ "198.20.0.0", true },
		{ "198.51.100.1", false },
		{ "203.0.113.1", false },
		{ "224.0.0.1", false },
		{ "239.1.2.3", false },
		{ "240.0.0.1", false },
		{ "255.255.255.255", false },
		{ "168.63.129.16", false },
		{ "::", false },
		{ "::1", false },
		{ "::ffff:10.0.0.1", false },
		{ "::ffff:8.8.8.8", true },
		{ "64:ff9b::a00:1", false },
		{ "fe80::1", false },
		{ "fc00::1", false },
		{ "fd00:ec2::254", false },
		{ "ff02::1", false },
		{ "2001:db8::1", false },
		{ "2001::1", false },
		{ "2002:a00:1::", false },
		{ "2606:4700::1111", true },
		{ "2a00:1450::1", true },
		{ "3fff::1", false },
		{ "4000::1", false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_address a;

		CHECK_EQ_INT(net_address_read(rows[i].text, &a), 0);
		if (net_address_is_public(&a) != rows[i].is_public)
			test_fail(__FILE__, __LINE__, "%s", rows[i].text);
	}
}

/* A policy of these words: the mode, then rules. */
static struct net_policy policy(const char *words)
{
	struct net_policy p;
	char copy[1024], *save = NULL;
	struct err e;

	net_policy_init(&p);
	(void)snprintf(copy, sizeof(copy), "%s", words);
	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save)) {
		struct net_rule r;
		int mode = 0;

		while (mode < NET_MODE_MAX && strcmp(net_mode_str[mode], w) != 0)
			mode++;
		if (mode < NET_MODE_MAX) {
			p.mode = (enum net_mode)mode;
			continue;
		}
		CHECK_EQ_INT(net_rule_read(w, &r, &e), 0);
		CHECK_EQ_INT(net_policy_add(&p, &r, &e), 0);
	}
	return p;
}

/* -3: refused by a rule. */
static int verdict(struct net_verdict v)
{
	CHECK(v.rule >= 0 || v.allowed == (v.rule == NET_BY_MODE));
	return v.allowed || v.rule == NET_BY_NONE ? v.rule : -3;
}

enum { NO = NET_BY_NONE, MODE = NET_BY_MODE, DENIED = -3 };

TEST(net_decide_names)
{
	static const struct {
		const char *policy, *name;
		unsigned int port; /* 0: any */
		int by;
	} rows[] = {
		{ "none", "pypi.org", 443, NO },
		{ "none pypi.org", "pypi.org", 443, NO },
		{ "allow", "pypi.org", 443, NO },
		{ "allow", "pypi.org", 0, NO },
		{ "allow pypi.org", "pypi.org", 443, 0 },
		{ "allow pypi.org", "pypi.org", 0, 0 },
		{ "allow pypi.org", "pypi.org.evil.org", 443, NO },
		{ "allow pypi.org", "xpypi.org", 443, NO },
		{ "allow pypi.org", "www.pypi.org", 443, NO },
		{ "allow pypi.org", "pypi.or", 443, NO },
		{ "allow *.pypi.org", "pypi.org", 443, NO },
		{ "allow *.pypi.org", "www.pypi.org", 443, 0 },
		{ "allow *.pypi.org", "a.b.pypi.org", 443, 0 },
		{ "allow *.pypi.org", "xpypi.org", 443, NO },
		{ "allow *.pypi.org", ".pypi.org", 443, NO },
		{ "allow a.org pypi.org:443", "pypi.org", 443, 1 },
		{ "allow pypi.org:443", "pypi.org", 80, NO },
		{ "allow pypi.org:443", "pypi.org", 0, 0 },
		{ "allow pypi.org:80-90", "pypi.org", 90, 0 },
		{ "allow pypi.org:80-90", "pypi.org", 91, NO },
		{ "allow *.org !evil.org", "evil.org", 443, DENIED },
		{ "allow !evil.org *.org", "evil.org", 443, DENIED },
		{ "allow !evil.org *.org", "evil.org", 0, DENIED },
		{ "allow !evil.org:22 *.org", "evil.org", 0, 1 },
		{ "allow !evil.org:22 *.org", "evil.org", 22, DENIED },
		{ "allow !evil.org:22 *.org", "evil.org", 443, 1 },
		{ "allow 10.0.0.0/8", "pypi.org", 443, NO },
		{ "open", "pypi.org", 443, MODE },
		{ "open", "pypi.org", 0, MODE },
		{ "open !*.evil.org", "a.evil.org", 443, DENIED },
		{ "open !*.evil.org", "evil.org", 443, MODE },
		{ "open pypi.org", "pypi.org", 443, 0 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_policy p = policy(rows[i].policy);
		struct net_verdict v =
			rows[i].port == 0
				? net_decide_name(&p, rows[i].name)
				: net_decide_name_port(&p, rows[i].name, (uint16_t)rows[i].port);

		if (verdict(v) != rows[i].by)
			test_fail(__FILE__, __LINE__, "%s: %s:%u by %d", rows[i].policy,
				  rows[i].name, rows[i].port, v.rule);
		net_policy_done(&p);
	}
}

TEST(net_decide_addresses)
{
	static const struct {
		const char *policy, *address;
		unsigned int port;
		bool named;
		int by;
	} rows[] = {
		{ "none", "8.8.8.8", 443, true, NO },
		{ "none 8.8.8.8", "8.8.8.8", 443, false, NO },
		{ "allow", "8.8.8.8", 443, false, NO },
		{ "allow", "8.8.8.8", 443, true, MODE },
		{ "allow", "10.0.0.1", 443, true, NO },
		{ "allow", "127.0.0.1", 443, true, NO },
		{ "allow", "169.254.169.254", 80, true, NO },
		{ "allow", "::1", 80, true, NO },
		{ "allow 10.0.0.0/8", "10.0.0.1", 443, true, 0 },
		{ "allow 10.0.0.0/8", "10.0.0.1", 443, false, 0 },
		{ "allow 10.0.0.0/8:5432", "10.0.0.1", 443, true, NO },
		{ "allow 10.0.0.0/8:5432", "10.0.0.1", 5432, true, 0 },
		{ "allow 10.0.0.0/8", "11.0.0.1", 443, false, NO },
		{ "allow 10.0.0.0/8 !10.1.0.0/16", "10.1.0.1", 443, false, DENIED },
		{ "allow 10.0.0.0/8 !10.1.0.0/16", "10.2.0.1", 443, false, 0 },
		{ "allow !8.8.8.0/24", "8.8.8.8", 443, true, DENIED },
		{ "allow 10.0.0.0/15", "10.1.255.255", 1, false, 0 },
		{ "allow 10.0.0.0/15", "10.2.0.0", 1, false, NO },
		{ "allow [2001:db8::]/33", "2001:db8:7fff::1", 1, false, 0 },
		{ "allow [2001:db8::]/33", "2001:db8:8000::1", 1, false, NO },
		{ "allow 0.0.0.0/0", "2606:4700::1111", 1, false, NO },
		{ "open", "8.8.8.8", 53, false, MODE },
		{ "open", "192.168.0.1", 53, false, NO },
		{ "open", "192.168.0.1", 53, true, NO },
		{ "open 192.168.0.0/24", "192.168.0.1", 53, false, 0 },
		{ "open !8.8.8.8", "8.8.8.8", 53, false, DENIED },
		{ "open", "2606:4700::1111", 443, false, MODE },
		{ "open", "fd00:ec2::254", 80, true, NO },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_policy p = policy(rows[i].policy);
		struct net_address a;
		struct net_verdict v;

		CHECK_EQ_INT(net_address_read(rows[i].address, &a), 0);
		v = net_decide_address(&p, &a, (uint16_t)rows[i].port, rows[i].named);
		if (verdict(v) != rows[i].by)
			test_fail(__FILE__, __LINE__, "%s: %s:%u by %d", rows[i].policy,
				  rows[i].address, rows[i].port, v.rule);
		net_policy_done(&p);
	}
}

TEST(net_policy_bytes_and_back)
{
	struct net_policy p = policy("allow pypi.org:443 *.a.org !10.0.0.0/8:1-2 [2001:db8::]/32"),
			  q, r;
	uint8_t buf[512], again[512];
	ptrdiff_t n = net_policy_encode(&p, buf, sizeof(buf));

	CHECK(n > 0);
	CHECK_EQ_INT(net_policy_decode(buf, (size_t)n, &q), 0);
	CHECK_EQ_INT(q.mode, NET_ALLOW);
	CHECK_EQ_INT(q.nrules, 4);
	CHECK_EQ_INT(net_policy_encode(&q, again, sizeof(again)), n);
	CHECK(memcmp(buf, again, (size_t)n) == 0);
	CHECK_EQ_INT(net_policy_copy(&q, &r), 0);
	CHECK_EQ_INT(net_policy_encode(&r, again, sizeof(again)), n);
	CHECK(memcmp(buf, again, (size_t)n) == 0);
	net_policy_done(&q);
	net_policy_done(&r);
	for (ptrdiff_t cut = 0; cut < n; cut++) {
		CHECK_EQ_INT(net_policy_encode(&p, again, (size_t)cut), -ENOBUFS);
		CHECK_EQ_INT(net_policy_decode(buf, (size_t)cut, &q), -EPROTO);
		net_policy_done(&q);
	}
	net_policy_done(&p);
}

TEST(net_policy_is_bounded)
{
	struct net_policy p;
	struct net_rule r;
	struct err e;

	net_policy_init(&p);
	CHECK_EQ_INT(net_rule_read("a.org", &r, &e), 0);
	for (int i = 0; i < NET_RULES_MAX; i++)
		CHECK_EQ_INT(net_policy_add(&p, &r, &e), 0);
	CHECK_EQ_INT(net_policy_add(&p, &r, &e), -1);
	CHECK(strstr(e.text, "256 rules") != NULL);
	net_policy_done(&p);
	for (int i = 0; i < NET_PORTS_MAX; i++)
		CHECK_EQ_INT(net_rule_port(&r, 1, 2, &e), 0);
	CHECK_EQ_INT(net_rule_port(&r, 1, 2, &e), -1);
}

/* "10.0.0.0/8 !10.1.0.0/16 …", in their order. */
static void routes_text(const char *words, char *text, size_t size)
{
	static struct net_route v[NET_ROUTES_MAX];
	struct net_policy p = policy(words);
	int n = net_policy_routes(&p, v);

	text[0] = '\0';
	for (int i = 0; i < n; i++) {
		char address[NET_ADDRESS_TEXT];
		size_t len = strlen(text);

		net_address_text(&v[i].address, address);
		(void)snprintf(text + len, size - len, "%s%s%s/%u", len > 0 ? " " : "",
			       v[i].refused ? "!" : "", address, v[i].bits);
	}
	net_policy_done(&p);
}

TEST(net_routes_of_policies)
{
	char text[4096];

	routes_text("none pypi.org 10.0.0.0/8", text, sizeof(text));
	CHECK_STR(text, "");
	routes_text("allow pypi.org", text, sizeof(text));
	CHECK_STR(text, "198.18.0.0/15");
	routes_text("allow !10.1.0.0/16 10.0.0.0/8 !10.2.0.0/16:22 [fd00::]/8 1.2.3.4:443", text,
		    sizeof(text));
	CHECK_STR(text, "198.18.0.0/15 10.0.0.0/8 fd00::/8 1.2.3.4/32 !10.1.0.0/16");
	routes_text("open 192.168.0.0/16 !8.8.8.8", text, sizeof(text));
	CHECK(strstr(text, "0.0.0.0/0 2000::/3 !0.0.0.0/8 !10.0.0.0/8") == text);
	CHECK(strstr(text, " !169.254.0.0/16 ") != NULL);
	CHECK(strstr(text, " !127.0.0.0/8") == NULL);
	CHECK(strstr(text, " 198.18.0.0/15 ") != NULL);
	CHECK(strstr(text, " 192.168.0.0/16 ") != NULL);
	CHECK(strstr(text, "!192.168.0.0/16") == NULL);
	CHECK(strstr(text, " !8.8.8.8/32") != NULL);
}
