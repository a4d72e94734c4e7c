// SPDX-License-Identifier: Apache-2.0
#include "wire/egressmsg.h"

#include "base/own.h"
#include "wire/msg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char *const egress_why_str[] = {
	[EGRESS_CLOSED] = "closed",
	[EGRESS_NOT_ALLOWED] = "not_allowed",
	[EGRESS_NOT_PUBLIC] = "not_public",
	[EGRESS_NO_ADDRESS] = "no_address",
	[EGRESS_UNREACHABLE] = "unreachable",
	[EGRESS_OTHER_NAME] = "other_name",
	[EGRESS_OTHER_PROTOCOL] = "other_protocol",
	[EGRESS_REQUEST] = "request",
	[EGRESS_BROKEN] = "broken",
	[EGRESS_IDLE] = "idle",
	[EGRESS_CUT] = "cut",
	[EGRESS_TOO_MANY] = "too_many",
	[EGRESS_BOX_GONE] = "box_gone",
	[EGRESS_LIMIT] = "limit",
	[EGRESS_CLIENT_TLS] = "client_tls",
	[EGRESS_SERVER_TLS] = "server_tls",
	[EGRESS_ANSWER] = "answer",
	[EGRESS_LEARNED] = "learned",
};
_Static_assert(ARRAY_LEN(egress_why_str) == EGRESS_WHY_MAX, "an end lacks its word");

int egress_record_rule(const struct egress_record *r, char text[NET_RULE_TEXT])
{
	char address[NET_ADDRESS_TEXT];
	size_t n;

	/* What a rule denies is no question of another rule. */
	if (r->why != EGRESS_NOT_PUBLIC && r->why != EGRESS_LEARNED &&
	    (r->why != EGRESS_NOT_ALLOWED || r->rule >= 0))
		return -ENOENT;
	net_address_text(&r->address, address);
	if (r->name[0] != '\0' && r->why != EGRESS_NOT_PUBLIC)
		(void)snprintf(text, NET_RULE_TEXT, "%s", r->name);
	else
		(void)snprintf(text, NET_RULE_TEXT, r->address.v6 ? "[%s]" : "%s", address);
	n = strlen(text);
	if (r->port != 0)
		(void)snprintf(text + n, NET_RULE_TEXT - n, ":%u", r->port);
	return 0;
}

void net_figures_put(struct msg_out *m, const struct net_figures *f)
{
	msg_put_u64(m, f->box);
	msg_put_u64(m, f->open);
	msg_put_u64(m, f->connections);
	msg_put_u64(m, f->refused);
	msg_put_u64(m, f->questions);
	msg_put_u64(m, f->sent);
	msg_put_u64(m, f->received);
}

void net_figures_get(struct msg_in *m, struct net_figures *f)
{
	f->box = msg_get_u64(m);
	f->open = msg_get_u64(m);
	f->connections = msg_get_u64(m);
	f->refused = msg_get_u64(m);
	f->questions = msg_get_u64(m);
	f->sent = msg_get_u64(m);
	f->received = msg_get_u64(m);
}

ptrdiff_t egress_record_encode(const struct egress_record *r, void *buf, size_t cap)
{
	struct msg_out m;

	msg_out_init(&m, buf, cap);
	msg_put_u64(&m, r->box);
	msg_put_u8(&m, r->question);
	msg_put_str(&m, r->name);
	msg_put_u8(&m, r->has_address ? (r->address.v6 ? 6 : 4) : 0);
	msg_put_bytes(&m, r->address.a, sizeof(r->address.a));
	msg_put_u16(&m, r->port);
	msg_put_u32(&m, (uint32_t)r->rule);
	msg_put_u8(&m, (uint8_t)r->why);
	msg_put_u64(&m, r->sent);
	msg_put_u64(&m, r->received);
	msg_put_u64(&m, r->us);
	return m.failed ? -ENOBUFS : (ptrdiff_t)m.len;
}

int egress_record_decode(const void *buf, size_t n, struct egress_record *ret)
{
	const uint8_t *a;
	struct msg_in m;
	uint8_t family, why;
	size_t len;

	*ret = (struct egress_record){ 0 };
	msg_in_init(&m, buf, n);
	ret->box = msg_get_u64(&m);
	ret->question = msg_get_u8(&m) != 0;
	(void)msg_get_str(&m, ret->name, sizeof(ret->name));
	family = msg_get_u8(&m);
	a = msg_get_bytes(&m, sizeof(ret->address.a), &len);
	ret->port = msg_get_u16(&m);
	ret->rule = (int32_t)msg_get_u32(&m);
	why = msg_get_u8(&m);
	ret->sent = msg_get_u64(&m);
	ret->received = msg_get_u64(&m);
	ret->us = msg_get_u64(&m);
	if (msg_end(&m) < 0 || len != sizeof(ret->address.a) || why >= EGRESS_WHY_MAX ||
	    (family != 0 && family != 4 && family != 6))
		return -EPROTO;
	ret->why = (enum egress_why)why;
	ret->has_address = family != 0;
	if (family == 6)
		net_address_v6(a, &ret->address);
	else
		net_address_v4(a, &ret->address);
	return 0;
}
