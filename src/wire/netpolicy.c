// SPDX-License-Identifier: Apache-2.0
/* A policy: its rules, and its bytes. What it says of a name, an address or a request is in netdecide.c. */
#include "wire/netrule.h"

#include "base/own.h"
#include "wire/dnsname.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool net_mode_is_open(enum net_mode mode)
{
	return mode == NET_OPEN || mode == NET_LEARN;
}

void net_policy_init(struct net_policy *p)
{
	*p = (struct net_policy){ .mode = NET_NONE, .bounds = { .connections = NET_CONNS_MAX } };
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
	ret->bounds = from->bounds;
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

static void put_narrow(struct msg_out *m, const struct net_rule *r)
{
	const char *path = r->paths;

	msg_put_u8(m, r->methods);
	msg_put_u8(m, r->npaths);
	for (unsigned int i = 0; i < r->npaths; i++, path += strlen(path) + 1)
		msg_put_str(m, path);
}

static void put_inject(struct msg_out *m, const struct net_inject *i)
{
	msg_put_str(m, i->secret);
	if (i->secret[0] == '\0')
		return;
	msg_put_str(m, i->header);
	msg_put_str(m, i->prefix);
	msg_put_u8(m, i->redact);
}

ptrdiff_t net_policy_encode(const struct net_policy *p, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u8(&m, (uint8_t)p->mode);
	msg_put_u32(&m, p->bounds.connections);
	msg_put_u64(&m, p->bounds.bytes);
	msg_put_u64(&m, p->bounds.rate);
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
		put_narrow(&m, r);
		put_inject(&m, &r->inject);
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

static int get_narrow(struct msg_in *m, struct net_rule *r)
{
	uint8_t methods = msg_get_u8(m), npaths = msg_get_u8(m);
	struct err e;

	if (methods >= 1u << NET_METHOD_MAX)
		return -EPROTO;
	r->methods = methods;
	for (unsigned int i = 0; i < npaths; i++) {
		char path[NET_PATHS_BYTES];

		(void)msg_get_str(m, path, sizeof(path));
		if (m->failed || net_rule_path(r, path, &e) < 0)
			return -EPROTO;
	}
	return 0;
}

static int get_inject(struct msg_in *m, struct net_rule *r)
{
	struct net_inject i = { 0 };
	uint8_t redact;
	struct err e;

	if (msg_get_str(m, i.secret, sizeof(i.secret)) == 0)
		return m->failed ? -EPROTO : 0;
	(void)msg_get_str(m, i.header, sizeof(i.header));
	(void)msg_get_str(m, i.prefix, sizeof(i.prefix));
	redact = msg_get_u8(m);
	i.redact = redact != 0;
	return m->failed || redact > 1 || net_rule_inject(r, &i, &e) < 0 ? -EPROTO : 0;
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
	return get_narrow(m, r) < 0 || get_inject(m, r) < 0 || m->failed ? -EPROTO : 0;
}

static int get_bounds(struct msg_in *m, struct net_bounds *b)
{
	b->connections = msg_get_u32(m);
	b->bytes = msg_get_u64(m);
	b->rate = msg_get_u64(m);
	return b->connections == 0 || b->connections > NET_CONNS_MAX || b->bytes > INT64_MAX ||
			       b->rate > NET_RATE_MAX || (b->rate != 0 && b->rate < NET_RATE_MIN)
		       ? -EPROTO
		       : 0;
}

int net_policy_decode(const void *buf, size_t n, struct net_policy *ret)
{
	uint8_t mode;
	uint16_t nrules;
	struct msg_in m;

	net_policy_init(ret);
	msg_in_init(&m, buf, n);
	mode = msg_get_u8(&m);
	if (get_bounds(&m, &ret->bounds) < 0)
		return -EPROTO;
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
