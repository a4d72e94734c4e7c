/* SPDX-License-Identifier: Apache-2.0 */
/* src/wire/netdecide.c: rules that speak of protocols and of requests. */
#include "wire/egressmsg.h"
#include "wire/netrule.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "test_help.h"

enum { RULES = 4 };

struct rule_text {
	const char *rule, *methods, *paths; /* lists with spaces between */
	enum net_protocol protocol;
};

static void each_word(const char *words, struct net_rule *r,
		      int (*take)(struct net_rule *r, const char *text, struct err *e))
{
	char copy[256], *save = NULL;
	struct err e;

	(void)snprintf(copy, sizeof(copy), "%s", words != NULL ? words : "");
	for (char *w = strtok_r(copy, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
		CHECK_EQ_INT(take(r, w, &e), 0);
}

static struct net_policy policy_of(enum net_mode mode, const struct rule_text rules[RULES])
{
	struct net_policy p;
	struct err e;

	net_policy_init(&p);
	p.mode = mode;
	for (int i = 0; i < RULES && rules[i].rule != NULL; i++) {
		struct net_rule r;

		CHECK_EQ_INT(net_rule_read(rules[i].rule, &r, &e), 0);
		r.protocol = rules[i].protocol;
		each_word(rules[i].methods, &r, net_rule_method);
		each_word(rules[i].paths, &r, net_rule_path);
		CHECK_EQ_INT(net_policy_add(&p, &r, &e), 0);
	}
	return p;
}

/* A policy that went to egress and back says the same. */
static void send_it(struct net_policy *p)
{
	uint8_t bytes[NET_POLICY_BYTES], again[NET_POLICY_BYTES];
	ptrdiff_t n = net_policy_encode(p, bytes, sizeof(bytes));

	CHECK(n > 0);
	net_policy_done(p);
	CHECK_EQ_INT(net_policy_decode(bytes, (size_t)n, p), 0);
	CHECK_EQ_INT(net_policy_encode(p, again, sizeof(again)), n);
	CHECK(memcmp(bytes, again, (size_t)n) == 0);
}

enum { T = NET_SPOKEN_TLS, H = NET_SPOKEN_HTTP, O = NET_SPOKEN_OTHER, ALL = NET_SPOKEN_ALL };

TEST(net_decide_what_is_spoken)
{
	static const struct {
		enum net_mode mode;
		struct rule_text rules[RULES];
		unsigned int spoken;
		bool narrow; /* where HTTP is spoken */
		int rule;
	} rows[] = {
		{ NET_ALLOW, { { .rule = "a.org" } }, ALL, false, 0 },
		{ NET_ALLOW, { { .rule = "a.org", .protocol = NET_TLS } }, T, false, 0 },
		{ NET_ALLOW, { { .rule = "a.org", .protocol = NET_HTTP } }, H, false, 0 },
		/* Together they allow what each of them does. */
		{ NET_ALLOW,
		  { { .rule = "a.org", .protocol = NET_TLS },
		    { .rule = "a.org", .protocol = NET_HTTP } },
		  T | H,
		  false,
		  0 },
		{ NET_ALLOW,
		  { { .rule = "b.org" }, { .rule = "a.org", .methods = "GET" } },
		  H,
		  true,
		  1 },
		{ NET_ALLOW, { { .rule = "a.org", .paths = "/x" } }, H, true, 0 },
		{ NET_ALLOW,
		  { { .rule = "a.org", .paths = "/x" }, { .rule = "a.org" } },
		  ALL,
		  false,
		  0 },
		/* One that denies takes away what it names. */
		{ NET_ALLOW,
		  { { .rule = "a.org" }, { .rule = "!a.org", .protocol = NET_HTTP } },
		  T | O,
		  false,
		  0 },
		{ NET_ALLOW,
		  { { .rule = "a.org", .protocol = NET_HTTP },
		    { .rule = "!a.org", .protocol = NET_HTTP } },
		  0,
		  false,
		  1 },
		{ NET_ALLOW, { { .rule = "a.org" }, { .rule = "!a.org" } }, 0, false, 1 },
		/* Requests that are denied must be seen: nobody sees them inside of TLS. */
		{ NET_ALLOW,
		  { { .rule = "a.org" }, { .rule = "!a.org", .methods = "DELETE" } },
		  H | O,
		  true,
		  0 },
		{ NET_OPEN, { { .rule = "!a.org", .paths = "/x" } }, H | O, true, NET_BY_MODE },
		{ NET_ALLOW,
		  { { .rule = "a.org" },
		    { .rule = "!a.org", .paths = "/x", .protocol = NET_HTTP } },
		  ALL,
		  true,
		  0 },
		/* Of other ports, or others. */
		{ NET_ALLOW,
		  { { .rule = "a.org" }, { .rule = "!a.org:81", .paths = "/x" } },
		  ALL,
		  false,
		  0 },
		{ NET_OPEN, { { .rule = "!b.org", .paths = "/x" } }, ALL, false, NET_BY_MODE },
		{ NET_OPEN, { { .rule = "a.org", .paths = "/x" } }, ALL, false, 0 },
		{ NET_NONE, { { .rule = "a.org", .paths = "/x" } }, 0, false, NET_BY_NONE },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_policy p = policy_of(rows[i].mode, rows[i].rules);
		struct net_verdict v;

		send_it(&p);
		v = net_decide_name_port(&p, "a.org", 80);
		if (v.spoken != rows[i].spoken || v.allowed != (v.spoken != 0) ||
		    v.rule != rows[i].rule ||
		    ((v.spoken & NET_SPOKEN_HTTP) != 0 && v.narrow != rows[i].narrow))
			test_fail(__FILE__, __LINE__, "row %zu: spoken %u, narrow %d, rule %d", i,
				  v.spoken, v.narrow, v.rule);
		net_policy_done(&p);
	}
}

TEST(net_decide_requests)
{
	static const struct {
		struct rule_text rules[RULES];
		const char *method, *path;
		int by; /* -1: refused */
	} rows[] = {
		{ { { .rule = "a.org", .methods = "GET HEAD" } }, "GET", "/", 0 },
		{ { { .rule = "a.org", .methods = "GET HEAD" } }, "HEAD", "/x", 0 },
		{ { { .rule = "a.org", .methods = "GET HEAD" } }, "POST", "/x", -1 },
		{ { { .rule = "a.org", .methods = "GET" } }, "get", "/x", -1 },
		{ { { .rule = "a.org", .methods = "GET" } }, "PROPFIND", "/x", -1 },
		{ { { .rule = "a.org", .paths = "/x" } }, "PROPFIND", "/x", 0 },
		{ { { .rule = "a.org", .paths = "/api" } }, "GET", "/api", 0 },
		{ { { .rule = "a.org", .paths = "/api" } }, "GET", "/api/", 0 },
		{ { { .rule = "a.org", .paths = "/api" } }, "GET", "/api/v1", 0 },
		{ { { .rule = "a.org", .paths = "/api" } }, "GET", "/apis", -1 },
		{ { { .rule = "a.org", .paths = "/api" } }, "GET", "/API", -1 },
		{ { { .rule = "a.org", .paths = "/api/" } }, "GET", "/api", -1 },
		{ { { .rule = "a.org", .paths = "/api/" } }, "GET", "/api/v1", 0 },
		{ { { .rule = "a.org", .paths = "/b /a" } }, "GET", "/a", 0 },
		{ { { .rule = "a.org", .paths = "/" } }, "GET", "/anything", 0 },
		{ { { .rule = "a.org", .paths = "/" } }, "OPTIONS", "", -1 },
		{ { { .rule = "a.org", .methods = "OPTIONS" } }, "OPTIONS", "", 0 },
		{ { { .rule = "a.org", .methods = "GET", .paths = "/a" } }, "GET", "/b", -1 },
		{ { { .rule = "a.org", .methods = "GET", .paths = "/a" } }, "POST", "/a", -1 },
		{ { { .rule = "a.org", .methods = "GET" }, { .rule = "a.org", .paths = "/a" } },
		  "POST",
		  "/a",
		  1 },
		{ { { .rule = "a.org" }, { .rule = "!a.org", .methods = "DELETE" } },
		  "DELETE",
		  "/",
		  -1 },
		{ { { .rule = "a.org" }, { .rule = "!a.org", .methods = "DELETE" } },
		  "GET",
		  "/",
		  0 },
		{ { { .rule = "a.org" }, { .rule = "!a.org", .paths = "/admin" } },
		  "GET",
		  "/admin/x",
		  -1 },
		/* There are servers for which it is the same. */
		{ { { .rule = "a.org" }, { .rule = "!a.org", .paths = "/admin" } },
		  "GET",
		  "/ADMIN/x",
		  -1 },
		{ { { .rule = "a.org" }, { .rule = "!a.org", .paths = "/admin" } },
		  "GET",
		  "/administer",
		  0 },
		{ { { .rule = "a.org", .protocol = NET_TLS } }, "GET", "/", -1 },
		{ { { .rule = "b.org", .methods = "GET" } }, "GET", "/", -1 },
	};
	struct net_address public;

	CHECK_EQ_INT(net_address_read("1.2.3.4", &public), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_policy p = policy_of(NET_ALLOW, rows[i].rules);
		struct net_request q = { .name = "a.org",
					 .address = &public,
					 .port = 80,
					 .method = rows[i].method,
					 .path = rows[i].path };
		struct net_verdict v;

		send_it(&p);
		v = net_decide_request(&p, &q);
		if (v.allowed != (rows[i].by >= 0) || (v.allowed && v.rule != rows[i].by))
			test_fail(__FILE__, __LINE__, "row %zu: %s %s: %d by %d", i, rows[i].method,
				  rows[i].path, v.allowed, v.rule);
		net_policy_done(&p);
	}
}

/* As in an open network, but for who is said to have decided. */
TEST(net_decide_learns)
{
	static const struct rule_text rules[RULES] = { { .rule = "a.org" }, { .rule = "!b.org" } };
	struct net_policy p = policy_of(NET_LEARN, rules);
	struct net_route learn[NET_ROUTES_MAX], open[NET_ROUTES_MAX];
	struct net_address public, inside;
	int n;

	send_it(&p);
	CHECK_EQ_INT(net_address_read("1.2.3.4", &public), 0);
	CHECK_EQ_INT(net_address_read("10.1.2.3", &inside), 0);
	CHECK_EQ_INT(net_decide_name_port(&p, "a.org", 80).rule, 0);
	CHECK_EQ_INT(net_decide_name_port(&p, "b.org", 80).rule, 1);
	CHECK(!net_decide_name_port(&p, "b.org", 80).allowed);
	CHECK_EQ_INT(net_decide_name_port(&p, "c.org", 80).rule, NET_BY_LEARN);
	CHECK(net_decide_name_port(&p, "c.org", 80).allowed);
	CHECK_EQ_INT(net_decide_address(&p, &public, 80, false).rule, NET_BY_LEARN);
	CHECK(net_decide_address(&p, &public, 80, false).allowed);
	CHECK_EQ_INT(net_decide_address(&p, &inside, 80, false).rule, NET_BY_NONE);
	CHECK(!net_decide_address(&p, &inside, 80, true).allowed);
	n = net_policy_routes(&p, learn);
	p.mode = NET_OPEN;
	CHECK_EQ_INT(net_policy_routes(&p, open), n);
	CHECK(n > 0 && memcmp(learn, open, (size_t)n * sizeof(open[0])) == 0);
	net_policy_done(&p);
}

/* Which rule would allow what a record tells of. */
TEST(egress_record_as_a_rule)
{
	static const struct {
		const char *name, *address;
		uint16_t port;
		enum egress_why why;
		int rule;
		const char *text; /* NULL: none */
	} rows[] = {
		{ "a.org", "1.2.3.4", 80, EGRESS_LEARNED, NET_BY_LEARN, "a.org:80" },
		{ "", "1.2.3.4", 80, EGRESS_LEARNED, NET_BY_LEARN, "1.2.3.4:80" },
		{ "", "2606:2800::1", 443, EGRESS_LEARNED, NET_BY_LEARN, "[2606:2800::1]:443" },
		{ "a.org", "0.0.0.0", 0, EGRESS_NOT_ALLOWED, NET_BY_NONE, "a.org" },
		{ "a.org", "0.0.0.0", 22, EGRESS_NOT_ALLOWED, NET_BY_NONE, "a.org:22" },
		{ "a.org", "10.1.2.3", 22, EGRESS_NOT_PUBLIC, 0, "10.1.2.3:22" },
		{ "a.org", "0.0.0.0", 22, EGRESS_NOT_ALLOWED, 3, NULL }, /* one that denies */
		{ "a.org", "1.2.3.4", 80, EGRESS_CLOSED, 0, NULL },
		{ "a.org", "1.2.3.4", 80, EGRESS_REQUEST, 0, NULL },
		{ "a.org", "1.2.3.4", 80, EGRESS_OTHER_NAME, 0, NULL },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct egress_record r = { .port = rows[i].port,
					   .why = rows[i].why,
					   .rule = rows[i].rule };
		char text[NET_RULE_TEXT] = "";

		(void)snprintf(r.name, sizeof(r.name), "%s", rows[i].name);
		CHECK_EQ_INT(net_address_read(rows[i].address, &r.address), 0);
		CHECK_EQ_INT(egress_record_rule(&r, text), rows[i].text != NULL ? 0 : -ENOENT);
		if (rows[i].text != NULL)
			CHECK_STR(text, rows[i].text);
	}
}

/* A name that leads inside needs a rule for the address; if that one is narrow, requests are asked about by both. */
TEST(net_decide_requests_by_name_and_address)
{
	static const struct rule_text rules[RULES] = {
		{ .rule = "db.internal" },
		{ .rule = "10.0.0.0/8", .methods = "GET" },
	};
	struct net_policy p = policy_of(NET_ALLOW, rules);
	struct net_request q = { .name = "db.internal", .port = 80, .method = "GET", .path = "/" };
	struct net_address inside;

	CHECK_EQ_INT(net_address_read("10.1.2.3", &inside), 0);
	q.address = &inside;
	CHECK(!net_decide_name_port(&p, "db.internal", 80).narrow);
	CHECK(net_decide_address(&p, &inside, 80, true).narrow);
	CHECK(net_decide_request(&p, &q).allowed);
	q.method = "POST";
	CHECK(!net_decide_request(&p, &q).allowed);
	q.name = NULL;
	CHECK(!net_decide_request(&p, &q).allowed);
	q.method = "GET";
	CHECK(net_decide_request(&p, &q).allowed);
	net_policy_done(&p);
}

TEST(net_paths)
{
	static const struct {
		const char *target, *path; /* path NULL: refused */
	} rows[] = {
		{ "/", "/" },
		{ "/a/b", "/a/b" },
		{ "/a/", "/a/" },
		{ "/a?b=../c", "/a" },
		{ "/?", "/" },
		{ "/%61%62", "/ab" },
		{ "/a%20b", "/a b" },
		{ "/100%25", "/100%" },
		{ "/100%25x", "/100%x" },
		{ "/...", "/..." },
		{ "/.well-known/x", "/.well-known/x" },
		{ "/a;b=c/d", "/a;b=c/d" },
		{ "*", "" },
		{ "", NULL },
		{ "a", NULL },
		{ "?", NULL },
		{ "http://a.org/", NULL },
		{ "//a", NULL },
		{ "/a//b", NULL },
		{ "/a//", NULL },
		{ "/.", NULL },
		{ "/..", NULL },
		{ "/./a", NULL },
		{ "/a/../b", NULL },
		{ "/a/..", NULL },
		{ "/a/%2e%2e/b", NULL },
		{ "/a/.%2E/b", NULL },
		{ "/a/..;/b", NULL },
		{ "/a/..;x=1/b", NULL },
		{ "/a/.;/b", NULL },
		{ "/a/%2e%2e%3b/b", NULL },
		{ "/a%2fb", NULL },
		{ "/a%5cb", NULL },
		{ "/a\\b", NULL },
		{ "/a%00", NULL },
		{ "/%252e%252e/", NULL },
		{ "/%", NULL },
		{ "/%2", NULL },
		{ "/%zz", NULL },
		{ "/a b", NULL },
	};
	static char longest[NET_PATH_TEXT + 1], path[NET_PATH_TEXT];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int r = net_path_plain(rows[i].target, strlen(rows[i].target), path);

		if (r != (rows[i].path != NULL ? 0 : -EINVAL))
			test_fail(__FILE__, __LINE__, "'%s': %d", rows[i].target, r);
		if (rows[i].path != NULL)
			CHECK_STR(path, rows[i].path);
	}
	(void)memset(longest, 'a', sizeof(longest));
	longest[0] = '/';
	CHECK_EQ_INT(net_path_plain(longest, NET_PATH_TEXT - 1, path), 0);
	CHECK_EQ_INT(net_path_plain(longest, NET_PATH_TEXT, path), -EINVAL);
}

TEST(net_rule_parts_are_checked)
{
	static const char *const paths[] = { "",     "a",    "a/b",  "/a//b", "/a/../b", "/a?b",
					     "/a#b", "/%61", "/a b", "/a\\b", "/." };
	static const char *const methods[] = { "",         "get",      "CONNECT", "TRACE",
					       "PROPFIND", "GET HEAD", "*" };
	static const char *const ports[] = { "",     "0",     "65536",
					     "1-",   "-1",    "2-1",
					     "http", "1-2-3", "00000000000000001" };
	char path[NET_PATHS_BYTES];
	struct net_rule r;
	struct err e;

	CHECK_EQ_INT(net_rule_read("a.org", &r, &e), 0);
	CHECK(net_rule_has_text(&r));
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		CHECK_EQ_INT(net_rule_path(&r, paths[i], &e), -1);
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		CHECK_EQ_INT(net_rule_method(&r, methods[i], &e), -1);
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
		CHECK_EQ_INT(net_rule_port_text(&r, ports[i], &e), -1);
	CHECK(net_rule_has_text(&r));
	/* As many as there may be, and as long. */
	(void)memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 3] = '\0';
	CHECK_EQ_INT(net_rule_path(&r, path, &e), 0);
	CHECK_EQ_INT(net_rule_path(&r, "/a", &e), -1);
	CHECK_EQ_INT(net_rule_path(&r, "/", &e), 0);
	CHECK_EQ_INT(net_rule_path(&r, "/", &e), -1);
	for (int i = 0; i < NET_PORTS_MAX; i++)
		CHECK_EQ_INT(net_rule_port_text(&r, "80-81", &e), 0);
	CHECK_EQ_INT(net_rule_port_text(&r, "80", &e), -1);
	CHECK(!net_rule_has_text(&r));
}

static void add_injecting(struct net_policy *p, const char *rule, enum net_protocol protocol,
			  const char *methods, const char *secret)
{
	struct net_inject i = { .header = "X-Key", .redact = true };
	struct net_rule r;
	struct err e;

	CHECK_EQ_INT(net_rule_read(rule, &r, &e), 0);
	r.protocol = protocol;
	each_word(methods, &r, net_rule_method);
	(void)snprintf(i.secret, sizeof(i.secret), "%s", secret);
	CHECK_EQ_INT(net_rule_inject(&r, &i, &e), 0);
	CHECK_EQ_INT(net_policy_add(p, &r, &e), 0);
}

static const char *injected(const struct net_policy *p, const char *name, uint16_t port, bool tls,
			    const char *method, const char *path)
{
	struct net_request q = {
		.name = name, .port = port, .tls = tls, .method = method, .path = path
	};
	const struct net_rule *r = net_decide_inject(p, &q);

	return r != NULL ? r->inject.secret : NULL;
}

/* TLS is opened where a rule says so: for that name, on that port; requests in it are told apart then. */
TEST(net_decide_injects)
{
	struct net_policy p;
	struct net_verdict v;
	static const struct net_address there = { .a = { 8, 8, 8, 8 } };
	struct net_request q = {
		.name = "a.org", .address = &there, .port = 443, .tls = true, .path = "/"
	};

	net_policy_init(&p);
	p.mode = NET_ALLOW;
	add_injecting(&p, "a.org:443", NET_ANY, "GET", "get");
	add_injecting(&p, "a.org:8443", NET_TLS, NULL, "all");
	add_injecting(&p, "*.b.org", NET_HTTP, NULL, "clear");
	send_it(&p);
	CHECK(net_policy_opens(&p));
	v = net_decide_name_port(&p, "a.org", 443);
	CHECK(v.allowed && v.opens && v.narrow);
	CHECK_EQ_INT(v.spoken, T | H);
	v = net_decide_name_port(&p, "a.org", 8443);
	CHECK(v.allowed && v.opens && !v.narrow);
	CHECK_EQ_INT(v.spoken, T);
	v = net_decide_name_port(&p, "x.b.org", 443);
	CHECK(v.allowed && !v.opens);
	CHECK_EQ_INT(v.spoken, H);
	CHECK(!net_decide_name_port(&p, "a.org", 80).allowed);
	CHECK(!net_decide_name_port(&p, "a.org", 80).opens);
	q.method = "GET";
	CHECK(net_decide_request(&p, &q).allowed);
	q.method = "POST";
	CHECK(!net_decide_request(&p, &q).allowed);

	CHECK_STR(injected(&p, "a.org", 443, true, "GET", "/x"), "get");
	CHECK_STR(injected(&p, "a.org", 443, true, "POST", "/x"), NULL);
	CHECK_STR(injected(&p, "a.org", 443, false, "GET", "/x"), NULL);
	CHECK_STR(injected(&p, "a.org", 443, true, "GET", NULL), NULL);
	CHECK_STR(injected(&p, "a.org", 8443, true, "POST", NULL), "all");
	CHECK_STR(injected(&p, "x.b.org", 80, false, "GET", "/"), "clear");
	CHECK_STR(injected(&p, "x.b.org", 443, true, "GET", "/"), NULL);
	CHECK_STR(injected(&p, "b.org", 80, false, "GET", "/"), NULL);
	CHECK(net_injects(&p, "a.org", 443, true, 0) == &p.rules[0]);
	CHECK(net_injects(&p, "a.org", 443, true, 1) == NULL);
	p.mode = NET_NONE;
	CHECK(!net_policy_opens(&p));
	CHECK(!net_decide_name_port(&p, "a.org", 443).opens);
	net_policy_done(&p);
}

/* What is denied of TLS that is opened can be seen. */
TEST(net_decide_denies_requests_in_tls_that_is_opened)
{
	static const struct rule_text rules[RULES] = { { .rule = "!a.org", .paths = "/admin" } };
	static const struct net_address there = { .a = { 8, 8, 8, 8 } };
	struct net_request q = { .name = "a.org",
				 .address = &there,
				 .port = 443,
				 .tls = true,
				 .method = "GET",
				 .path = "/admin/x" };
	struct net_policy p = policy_of(NET_OPEN, rules);
	struct net_verdict v = net_decide_name_port(&p, "a.org", 443);

	CHECK_EQ_INT(v.spoken, H | O);
	add_injecting(&p, "a.org:443", NET_TLS, NULL, "all");
	v = net_decide_name_port(&p, "a.org", 443);
	CHECK_EQ_INT(v.spoken, ALL);
	CHECK(v.opens && v.narrow);
	CHECK(!net_decide_request(&p, &q).allowed);
	q.path = "/x";
	CHECK(net_decide_request(&p, &q).allowed);
	net_policy_done(&p);
}

TEST(net_rules_that_cannot_inject)
{
	static const struct {
		const char *rule, *header, *prefix, *secret, *part;
	} rows[] = {
		{ "a.org", "X-Key", "", "key", NULL },
		{ "*.a.org", "Authorization", "Bearer ", "t/key", NULL },
		{ "!a.org", "X-Key", "", "key", "" },
		{ "10.0.0.1", "X-Key", "", "key", "" },
		{ "a.org", "", "", "key", "header" },
		{ "a.org", "X Key", "", "key", "header" },
		{ "a.org", "X-Key:", "", "key", "header" },
		{ "a.org", "host", "", "key", "header" },
		{ "a.org", "TE", "", "key", "header" },
		{ "a.org", "proxy-authorization", "", "key", "header" },
		{ "a.org", "Sec-WebSocket-Protocol", "", "key", "header" },
		{ "a.org", "X-Key", " x", "key", "prefix" },
		{ "a.org", "X-Key", "a\r\n", "key", "prefix" },
		{ "a.org", "X-Key", "", "", "secret" },
		{ "a.org", "X-Key", "", "Key", "secret" },
		{ "a.org", "X-Key", "", "t/../key", "secret" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct net_inject in = { 0 };
		struct net_rule r;
		struct err e;
		int rc;

		(void)snprintf(in.header, sizeof(in.header), "%s", rows[i].header);
		(void)snprintf(in.prefix, sizeof(in.prefix), "%s", rows[i].prefix);
		(void)snprintf(in.secret, sizeof(in.secret), "%s", rows[i].secret);
		CHECK_EQ_INT(net_rule_read(rows[i].rule, &r, &e), 0);
		rc = net_rule_inject(&r, &in, &e);
		if ((rc == 0) != (rows[i].part == NULL))
			test_fail(__FILE__, __LINE__, "row %zu: %d", i, rc);
		if (rc < 0)
			CHECK_STR(e.hint, rows[i].part);
		CHECK_EQ_INT(net_rule_has_text(&r), rc < 0);
	}
}
