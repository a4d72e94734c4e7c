// SPDX-License-Identifier: Apache-2.0
/* A policy: its rules, its bytes, and what it says of a name or an address. */
#include "wire/netrule.h"

#include "base/own.h"
#include "wire/dnsname.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void net_policy_init(struct net_policy *p)
{
	*p = (struct net_policy){ .mode = NET_NONE };
}

void net_policy_done(struct net_policy *p)
{
	free(p->rules);
	net_policy_init(p);
}

static int add(struct net_policy *p, const struct net_rule *r)
{
	struct net_rule *rules;

	if (p->nrules == NET_RULES_MAX)
		return -E2BIG;
	/* By powers of two: when the number is one there is no room for another. */
	if ((p->nrules & (p->nrules - 1)) == 0) {
		rules = reallocarray(p->rules, p->nrules == 0 ? 1 : 2u * p->nrules, sizeof(*rules));
		if (rules == NULL)
			return -ENOMEM;
		p->rules = rules;
	}
	p->rules[p->nrules++] = *r;
	return 0;
}

int net_policy_add(struct net_policy *p, const struct net_rule *r, struct err *e)
{
	switch (add(p, r)) {
	case 0:
		return 0;
	case -E2BIG:
		return err_set(e, ERR_INPUT, 0, "a box can have %d rules", NET_RULES_MAX);
	default:
		return err_set(e, ERR_SYS, ENOMEM, "add a rule");
	}
}

int net_policy_copy(const struct net_policy *from, struct net_policy *ret)
{
	net_policy_init(ret);
	ret->mode = from->mode;
	for (unsigned int i = 0; i < from->nrules; i++) {
		int r = add(ret, &from->rules[i]);

		if (r < 0) {
			net_policy_done(ret);
			return r;
		}
	}
	return 0;
}

/* --- bytes ------------------------------------------------------------------------------------ */

ptrdiff_t net_policy_encode(const struct net_policy *p, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u8(&m, (uint8_t)p->mode);
	msg_put_u16(&m, (uint16_t)p->nrules);
	for (unsigned int i = 0; i < p->nrules; i++) {
		const struct net_rule *r = &p->rules[i];

		msg_put_u8(&m, (uint8_t)r->kind);
		msg_put_u8(&m, r->deny);
		msg_put_u8(&m, (uint8_t)r->protocol);
		if (r->kind == NET_CIDR) {
			msg_put_u8(&m, r->address.v6);
			msg_put_bytes(&m, r->address.a, r->address.v6 ? 16 : 4);
			msg_put_u8(&m, r->bits);
		} else {
			msg_put_str(&m, r->name);
		}
		msg_put_u8(&m, (uint8_t)r->nports);
		for (unsigned int k = 0; k < r->nports; k++) {
			msg_put_u16(&m, r->ports[k].first);
			msg_put_u16(&m, r->ports[k].last);
		}
	}
	return m.failed ? -ENOBUFS : (ptrdiff_t)m.len;
}

static int get_address(struct msg_in *m, struct net_rule *r)
{
	bool v6 = msg_get_u8(m) != 0;
	size_t n;
	const uint8_t *a = msg_get_bytes(m, 16, &n);

	if (a == NULL || n != (v6 ? 16u : 4u))
		return -EPROTO;
	if (v6)
		net_address_v6(a, &r->address);
	else
		net_address_v4(a, &r->address);
	r->bits = msg_get_u8(m);
	return r->address.v6 == v6 && r->bits <= (v6 ? 128 : 32) ? 0 : -EPROTO;
}

static int get_name(struct msg_in *m, struct net_rule *r)
{
	char name[NET_NAME];
	size_t n = msg_get_str(m, name, sizeof(name));

	return dnsname_read(name, n, r->name) < 0 ? -EPROTO : 0;
}

static int get_rule(struct msg_in *m, struct net_rule *r)
{
	uint8_t kind = msg_get_u8(m), deny = msg_get_u8(m), protocol = msg_get_u8(m), nports;
	struct err e;

	if (kind >= NET_KIND_MAX || protocol >= NET_PROTOCOL_MAX || deny > 1)
		return -EPROTO;
	*r = (struct net_rule){ .kind = (enum net_kind)kind,
				.deny = deny != 0,
				.protocol = (enum net_protocol)protocol };
	if ((r->kind == NET_CIDR ? get_address(m, r) : get_name(m, r)) < 0)
		return -EPROTO;
	nports = msg_get_u8(m);
	for (unsigned int k = 0; k < nports; k++) {
		uint16_t first = msg_get_u16(m), last = msg_get_u16(m);

		if (net_rule_port(r, first, last, &e) < 0)
			return -EPROTO;
	}
	return m->failed ? -EPROTO : 0;
}

int net_policy_decode(const void *buf, size_t n, struct net_policy *ret)
{
	uint8_t mode;
	uint16_t nrules;
	struct msg_in m;

	net_policy_init(ret);
	msg_in_init(&m, buf, n);
	mode = msg_get_u8(&m);
	nrules = msg_get_u16(&m);
	if (m.failed || mode >= NET_MODE_MAX || nrules > NET_RULES_MAX)
		return -EPROTO;
	ret->mode = (enum net_mode)mode;
	for (unsigned int i = 0; i < nrules; i++) {
		struct net_rule r;

		if (get_rule(&m, &r) < 0)
			return -EPROTO;
		if (add(ret, &r) < 0)
			return -ENOMEM;
	}
	return msg_end(&m);
}

/* --- decisions -------------------------------------------------------------------------------- */

static bool has_port(const struct net_rule *r, uint16_t port)
{
	for (unsigned int i = 0; i < r->nports; i++)
		if (port >= r->ports[i].first && port <= r->ports[i].last)
			return true;
	return r->nports == 0;
}

static bool is_below(const char *name, const char *above)
{
	size_t n = strlen(name), len = strlen(above);

	return n > len + 1 && name[n - len - 1] == '.' && strcmp(name + n - len, above) == 0;
}

static bool has_name(const struct net_rule *r, const char *name)
{
	switch (r->kind) {
	case NET_EXACT:
		return strcmp(r->name, name) == 0;
	case NET_BELOW:
		return is_below(name, r->name);
	case NET_CIDR:
	case NET_KIND_MAX:
		break;
	}
	return false;
}

/* What is asked about: a name or an address, on a port or (0) on any. */
struct asked {
	const char *name;
	const struct net_address *address;
	uint16_t port;
};

static bool is_about(const struct net_rule *r, const struct asked *q)
{
	/* On some port: a rule that denies a few of them leaves others. */
	if (q->port == 0 ? r->deny && r->nports > 0 : !has_port(r, q->port))
		return false;
	if (q->name != NULL)
		return has_name(r, q->name);
	return r->kind == NET_CIDR && net_address_is_in(q->address, &r->address, r->bits);
}

/* The first rule that denies, else the first that allows, else `otherwise`. */
static struct net_verdict decide(const struct net_policy *p, const struct asked *q, bool otherwise,
				 int by)
{
	struct net_verdict v = { .allowed = otherwise, .rule = otherwise ? by : NET_BY_NONE };
	bool found = false;

	if (p->mode == NET_NONE)
		return (struct net_verdict){ .rule = NET_BY_NONE };
	for (unsigned int i = 0; i < p->nrules; i++) {
		const struct net_rule *r = &p->rules[i];

		if (!is_about(r, q) || (found && !r->deny))
			continue;
		v = (struct net_verdict){ .allowed = !r->deny,
					  .rule = (int)i,
					  .protocol = r->protocol };
		if (r->deny)
			break;
		found = true;
	}
	return v;
}

struct net_verdict net_decide_name_port(const struct net_policy *p, const char *name, uint16_t port)
{
	const struct asked q = { .name = name, .port = port };

	return decide(p, &q, p->mode == NET_OPEN, NET_BY_MODE);
}

struct net_verdict net_decide_name(const struct net_policy *p, const char *name)
{
	return net_decide_name_port(p, name, 0);
}

struct net_verdict net_decide_address(const struct net_policy *p, const struct net_address *a,
				      uint16_t port, bool named)
{
	const struct asked q = { .address = a, .port = port };
	bool enough = net_address_is_public(a) && (named || p->mode == NET_OPEN);

	return decide(p, &q, enough, NET_BY_MODE);
}
