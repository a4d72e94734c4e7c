// SPDX-License-Identifier: Apache-2.0
/*
 * Rules of a network as clients write them: a text, or an object that can say more. And written again, as a text where that says it all.
 */
#include "gate/net_rules.h"

#include "base/own.h"
#include "gate/own.h"
#include "wire/secretspec.h"

#include <stdio.h>
#include <string.h>

enum { FIELD_TEXT = 96 };

struct port_in {
	int64_t port; /* 0: not given */
	struct field_str ports;
};

struct inject_in {
	struct field_str header, prefix, secret;
	bool redact;
};

struct rule_in {
	struct field_str rule, host, cidr;
	struct field_list ports; /* of struct port_in */
	struct field_str protocol;
	struct field_list methods, paths;
	struct inject_in inject;
	bool inject_set;
	bool deny;
};

/* clang-format off */
static const struct field port_rows[] = {
	{ "port", FIELD_INT, FIELD_ONE_OF | FIELD_NULLABLE, 1, 65535, 0, offsetof(struct port_in, port), .doc = "a port" },
	{ "ports", FIELD_STRING, FIELD_ONE_OF, 1, 11, 0, offsetof(struct port_in, ports), .doc = "a port, or several as first-last" },
};

static const struct fields port_fields = { "NetworkPorts", port_rows, ARRAY_LEN(port_rows), sizeof(struct port_in), FIELDS_CLOSED | FIELDS_OR_VALUE };

static const struct field inject_rows[] = {
	{ "header", FIELD_STRING, FIELD_REQUIRED, 1, NET_HEADER - 1, 0, offsetof(struct inject_in, header), .doc = "which one, Authorization for example; what a program says by it is replaced" },
	{ "secret", FIELD_STRING, FIELD_REQUIRED, 1, NET_SECRET_NAME - 1, 0, offsetof(struct inject_in, secret), .doc = "the name of one that the operator has for that host" },
	{ "prefix", FIELD_STRING, 0, 0, NET_PREFIX - 1, 0, offsetof(struct inject_in, prefix), .doc = "what stands in front of it, as in 'Bearer '", .text = "" },
	{ "redact", FIELD_BOOL, 0, 0, 0, 1, offsetof(struct inject_in, redact), .doc = "whether answers that show it have asterisks in its place; they are not compressed then, and no WebSocket" },
};

static const struct fields inject_fields = { "NetworkInject", inject_rows, ARRAY_LEN(inject_rows), sizeof(struct inject_in), FIELDS_CLOSED };

static const struct field rule_rows[] = {
	{ "rule", FIELD_STRING, FIELD_ONE_OF, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct rule_in, rule), .doc = "pypi.org, *.pypi.org, 10.1.0.0/16, [2001:db8::]/32, each with :port or :first-last if it is to be some ports only; ! in front denies, and wins" },
	{ "host", FIELD_STRING, FIELD_ONE_OF, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct rule_in, host), .doc = "a name, or *.name for all below it" },
	{ "cidr", FIELD_STRING, FIELD_ONE_OF, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct rule_in, cidr), .doc = "an address or a network, IPv6 with or without brackets" },
	{ "ports", FIELD_LIST, 0, 0, NET_PORTS_MAX, 0, offsetof(struct rule_in, ports), .doc = "these ports only: numbers, or first-last as text", .sub = &port_fields },
	{ "protocol", FIELD_STRING, 0, FIELD_NO_MIN, FIELD_NO_MAX, 0, offsetof(struct rule_in, protocol), .doc = "what must be spoken", .text = "any", .words = "any tls http" },
	{ "methods", FIELD_STRINGS, 0, 0, NET_METHOD_MAX, 0, offsetof(struct rule_in, methods), .doc = "requests of HTTP by these methods only: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" },
	{ "paths", FIELD_STRINGS, 0, 0, NET_PATHS_MAX, 0, offsetof(struct rule_in, paths), .doc = "requests of HTTP for these paths, and what is below them, only" },
	{ "inject", FIELD_OBJECT, FIELD_NULLABLE, 0, 0, 0, offsetof(struct rule_in, inject), .doc = "a header with a secret that requests get on their way out: those in TLS, which is opened for that, or with the protocol http those without", .sub = &inject_fields, .set_at = offsetof(struct rule_in, inject_set) },
	{ "deny", FIELD_BOOL, 0, 0, 0, 0, offsetof(struct rule_in, deny), .doc = "it denies, and wins over what others allow" },
};
/* clang-format on */

const struct fields net_rule_fields = { "NetworkRule", rule_rows, ARRAY_LEN(rule_rows),
					sizeof(struct rule_in), FIELDS_CLOSED | FIELDS_OR_VALUE };

/* --- reading ---------------------------------------------------------------------------------- */

/* Where in a rule something is wrong: "rules[2].ports[0]". */
struct place {
	const char *rule; /* "rules[2]" */
	char text[FIELD_TEXT];
};

static void at_member(struct place *at, const char *member, size_t i, bool list)
{
	if (list)
		(void)snprintf(at->text, sizeof(at->text), "%s.%s[%zu]", at->rule, member, i);
	else
		(void)snprintf(at->text, sizeof(at->text), "%s.%s", at->rule, member);
}

/* IPv6 in brackets or without: in an object nothing else could be meant by its colons. */
static int take_cidr(const char *text, struct net_rule *ret, struct err *e)
{
	char copy[NET_RULE_TEXT];
	const char *slash = strchr(text, '/');
	int r;

	if (text[0] != '[' && strchr(text, ':') != NULL && strlen(text) + 3 < sizeof(copy)) {
		size_t n = slash != NULL ? (size_t)(slash - text) : strlen(text);

		(void)snprintf(copy, sizeof(copy), "[%.*s]%s", (int)n, text, text + n);
		text = copy;
	}
	r = net_rule_host(text, ret, e);
	if (r == 0 && ret->kind != NET_CIDR)
		return err_set(e, ERR_INPUT, 0, "'%.200s' is no address and no network", text);
	return r;
}

static int take_host(const char *text, struct net_rule *ret, struct err *e)
{
	int r = net_rule_host(text, ret, e);

	if (r == 0 && ret->kind == NET_CIDR)
		return err_set(e, ERR_INPUT, 0, "'%.200s' is an address: that is a 'cidr'", text);
	return r;
}

static int take_whom(const struct rule_in *in, struct net_rule *ret, struct place *at,
		     struct err *e)
{
	if (in->rule.set)
		return net_rule_read(in->rule.p, ret, e); /* the place is the rule */
	at_member(at, in->host.set ? "host" : "cidr", 0, false);
	return in->host.set ? take_host(in->host.p, ret, e) : take_cidr(in->cidr.p, ret, e);
}

static int take_ports(const struct rule_in *in, struct net_rule *ret, struct place *at,
		      struct err *e)
{
	const struct port_in *v = in->ports.v;

	for (size_t i = 0; i < in->ports.n; i++) {
		uint16_t port = (uint16_t)v[i].port;
		int r = v[i].ports.set ? net_rule_port_text(ret, v[i].ports.p, e)
				       : net_rule_port(ret, port, port, e);

		at_member(at, "ports", i, true);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_texts(const struct field_list *list, const char *member,
		      int (*take)(struct net_rule *r, const char *text, struct err *e),
		      struct net_rule *ret, struct place *at, struct err *e)
{
	const struct field_str *v = list->v;

	for (size_t i = 0; i < list->n; i++) {
		at_member(at, member, i, true);
		if (take(ret, v[i].p, e) < 0)
			return -1;
	}
	return 0;
}

/* The secret of that name that this tenant may use: its own before one that is everybody's. */
static int find_secret(const struct req *r, const char *name, struct secret_spec *ret)
{
	unsigned int n;
	char *const *v = config_list(&r->g->config, CONF_SECRET, &n);
	static struct secret_spec one;
	struct err e;
	int failed = -ENOENT;

	for (unsigned int i = 0; i < n; i++)
		if (secret_spec_read(v[i], &one, &e) == 0 && strcmp(one.name, name) == 0 &&
		    (one.tenant[0] == '\0' ? failed < 0
					   : strcmp(one.tenant, r->tenant->name) == 0)) {
			*ret = one;
			failed = 0;
		}
	return failed;
}

static int take_inject(struct req *r, const struct rule_in *in, struct net_rule *ret,
		       struct place *at, struct err *e)
{
	static struct secret_spec s;
	struct net_inject i = { .redact = in->inject.redact };
	char part[32];

	if (!in->inject_set)
		return 0;
	at_member(at, "inject.secret", 0, false);
	if (find_secret(r, in->inject.secret.p, &s) < 0)
		return err_set(e, ERR_INPUT, 0, "there is no secret '%.64s'", in->inject.secret.p);
	(void)snprintf(i.header, sizeof(i.header), "%s", in->inject.header.p);
	(void)snprintf(i.prefix, sizeof(i.prefix), "%s", in->inject.prefix.p);
	secret_spec_key(&s, i.secret);
	if (net_rule_inject(ret, &i, e) < 0) {
		(void)snprintf(part, sizeof(part), "inject%s%.16s", e->hint[0] != '\0' ? "." : "",
			       e->hint);
		at_member(at, part, 0, false);
		return -1;
	}
	if (!secret_hosts_cover(s.hosts, s.nhosts, ret))
		return err_set(e, ERR_INPUT, 0, "the secret '%s' is not for this host", s.name);
	return 0;
}

static int take_rule(struct req *r, const struct rule_in *in, struct net_rule *ret,
		     struct place *at, struct err *e)
{
	*ret = (struct net_rule){ 0 };
	if (take_whom(in, ret, at, e) < 0 || take_ports(in, ret, at, e) < 0 ||
	    take_texts(&in->methods, "methods", net_rule_method, ret, at, e) < 0 ||
	    take_texts(&in->paths, "paths", net_rule_path, ret, at, e) < 0)
		return -1;
	for (int i = 0; i < NET_PROTOCOL_MAX; i++)
		if (strcmp(net_protocol_str[i], in->protocol.p) == 0)
			ret->protocol = (enum net_protocol)i;
	ret->deny = ret->deny || in->deny;
	if (take_inject(r, in, ret, at, e) < 0)
		return -1;
	at_member(at, "protocol", 0, false);
	if (ret->protocol == NET_TLS && net_rule_is_narrow(ret) && !in->inject_set)
		return err_set(e, ERR_INPUT, 0,
			       "methods and paths of requests inside of TLS cannot be seen: "
			       "without them, with the protocol 'http', or with 'inject'");
	return 0;
}

int net_rules_take(struct req *r, const char *field, const struct field_list *list,
		   struct net_policy *p)
{
	const struct rule_in *v = list->v;
	char rule[FIELD_TEXT];

	for (size_t i = 0; i < list->n; i++) {
		struct place at = { .rule = rule };
		struct net_rule one;
		struct err e;

		(void)snprintf(rule, sizeof(rule), "%.48s[%zu]", field, i);
		(void)snprintf(at.text, sizeof(at.text), "%s", rule);
		if (take_rule(r, &v[i], &one, &at, &e) < 0 || net_policy_add(p, &one, &e) < 0) {
			own_refuse(r, OWN_INVALID_FIELD, at.text, "'%s': %s", at.text, e.text);
			return -1;
		}
	}
	return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void put_ports(const struct net_rule *r, struct json *j)
{
	json_open(j, "ports", '[');
	for (unsigned int i = 0; i < r->nports; i++) {
		char text[16];

		(void)snprintf(text, sizeof(text), "%u-%u", r->ports[i].first, r->ports[i].last);
		if (r->ports[i].first == r->ports[i].last)
			json_u64(j, NULL, r->ports[i].first);
		else
			json_str(j, NULL, text);
	}
	json_close(j, ']');
}

static void put_requests(const struct net_rule *r, struct json *j)
{
	const char *path = r->paths;

	if (r->methods != 0) {
		json_open(j, "methods", '[');
		for (unsigned int i = 0; i < NET_METHOD_MAX; i++)
			if ((r->methods & 1u << i) != 0)
				json_str(j, NULL, net_method_str[i]);
		json_close(j, ']');
	}
	if (r->npaths == 0)
		return;
	json_open(j, "paths", '[');
	for (unsigned int i = 0; i < r->npaths; i++, path += strlen(path) + 1)
		json_str(j, NULL, path);
	json_close(j, ']');
}

static void put_inject(const struct net_inject *i, struct json *j)
{
	if (i->secret[0] == '\0')
		return;
	json_open(j, "inject", '{');
	json_str(j, "header", i->header);
	json_str(j, "secret", net_secret_name(i->secret));
	if (i->prefix[0] != '\0')
		json_str(j, "prefix", i->prefix);
	if (!i->redact)
		json_bool(j, "redact", false);
	json_close(j, '}');
}

/* Without its ports and its '!', which have members of their own. */
static void put_whom(const struct net_rule *r, struct json *j)
{
	struct net_rule whom = *r;
	char text[NET_RULE_TEXT];

	whom.nports = 0;
	whom.deny = false;
	net_rule_text(&whom, text);
	json_str(j, r->kind == NET_CIDR ? "cidr" : "host", text);
}

void net_rule_put(const struct net_rule *r, struct json *j)
{
	char text[NET_RULE_TEXT];

	if (net_rule_has_text(r)) {
		net_rule_text(r, text);
		json_str(j, NULL, text);
		return;
	}
	json_open(j, NULL, '{');
	put_whom(r, j);
	if (r->nports > 0)
		put_ports(r, j);
	if (r->protocol != NET_ANY)
		json_str(j, "protocol", net_protocol_str[r->protocol]);
	put_requests(r, j);
	put_inject(&r->inject, j);
	if (r->deny)
		json_bool(j, "deny", true);
	json_close(j, '}');
}
