// SPDX-License-Identifier: Apache-2.0
/*
 * The packet filter of a box: table inet glovebox, read from top to bottom. It sees what a box sends, twice: as it leaves, and as it comes back in by lo.
 *
 * No packet could leave, with or without it: lo is the only interface. What it is for: that a connection arrives at our listener whatever its address, and that what
 * can lead nowhere is an error at once. A packet that is dropped where it is sent is EPERM for its sender. TCP alone does not look, and needs a reset.
 *
 * Why tproxy and not a redirection: that one needs every connection tracked, in a table that all of the machine shares and that a program could fill; closed ones stay there
 * for minutes, and no rule counts them. It also makes connections to different addresses look the same to the kernel, which then takes new ones for old. Here a connection keeps
 * its addresses, and nothing has to be remembered.
 */
#include "keeper/net_parts.h"

#include "keeper/netlink.h"

#include "base/own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>

#define TABLE "glovebox"

enum chain { LEAVING, ARRIVING };

static const struct {
	const char *name;
	uint32_t hook;
	int priority;
	uint32_t policy;
} chains[] = {
	[LEAVING] = { "leaving", NF_INET_LOCAL_OUT, -300, NF_DROP },
	[ARRIVING] = { "arriving", NF_INET_PRE_ROUTING, -150, NF_ACCEPT },
};

/* A range of addresses whose length is a number of bytes. */
struct place {
	bool v6;
	uint8_t nbytes;
	const char *address;
};
static const struct place any4 = { false, 0, "0.0.0.0" };
static const struct place any6 = { true, 0, "::" };
static const struct place loop4 = { false, 1, "127.0.0.0" };
static const struct place loop6 = { true, 16, "::1" };
static const struct place own4 = { false, 4, NET_V4_OWN };
static const struct place own6 = { true, 16, NET_V6_OWN };

enum action {
	ACCEPT,
	RESET,        /* connection refused */
	TO_LISTENER4, /* it is for the socket at NET_PORT, and keeps its addresses */
	TO_LISTENER6,
};

/* What is empty, is any. */
struct rule {
	enum chain chain;
	uint8_t protocol;
	const struct place *to;
	uint16_t from_port, to_port;
	enum action action;
};

#define TCP IPPROTO_TCP
#define UDP IPPROTO_UDP
/* clang-format off */
static const struct rule rules[] = {
	/* What is accepted at this port was meant for somewhere else, without exception. */
	{ LEAVING, TCP, .to = &loop4, .to_port = NET_PORT, .action = RESET },
	{ LEAVING, TCP, .to = &loop6, .to_port = NET_PORT, .action = RESET },
	/* Between programs of the box, also by the address that they see themselves have. */
	{ LEAVING, .to = &loop4, .action = ACCEPT },
	{ LEAVING, .to = &loop6, .action = ACCEPT },
	{ LEAVING, .to = &own4, .action = ACCEPT },
	{ LEAVING, .to = &own6, .action = ACCEPT },
	/* Our resolver has this port on all addresses. */
	{ LEAVING, UDP, .to_port = NET_DNS_PORT, .action = ACCEPT },
	{ LEAVING, UDP, .from_port = NET_DNS_PORT, .action = ACCEPT },
	{ LEAVING, TCP, .action = ACCEPT },

	{ ARRIVING, .to = &loop4, .action = ACCEPT },
	{ ARRIVING, .to = &loop6, .action = ACCEPT },
	{ ARRIVING, .to = &own4, .action = ACCEPT },
	{ ARRIVING, .to = &own6, .action = ACCEPT },
	{ ARRIVING, TCP, .to = &any4, .action = TO_LISTENER4 },
	{ ARRIVING, TCP, .to = &any6, .action = TO_LISTENER6 },
};
/* clang-format on */

/* Where things are in a packet. */
enum { IP4_TO = 16, IP6_TO = 24, PORT_FROM = 0, PORT_TO = 2 };

/* --- expressions ------------------------------------------------------------------------------------------- */

struct expr {
	size_t list, data;
};

static struct expr expr_begin(struct nl *nl, const char *name)
{
	struct expr e = { .list = nl_nest(nl, NFTA_LIST_ELEM) };

	nl_str(nl, NFTA_EXPR_NAME, name);
	e.data = nl_nest(nl, NFTA_EXPR_DATA);
	return e;
}

static void expr_end(struct nl *nl, struct expr e)
{
	nl_nest_end(nl, e.data);
	nl_nest_end(nl, e.list);
}

static void put_value(struct nl *nl, uint16_t type, const void *value, size_t n)
{
	size_t at = nl_nest(nl, type);

	nl_put(nl, NFTA_DATA_VALUE, value, n);
	nl_nest_end(nl, at);
}

/* One register is enough: what was loaded is compared at once. */
static void compare(struct nl *nl, const void *value, size_t n)
{
	struct expr e = expr_begin(nl, "cmp");

	nl_be32(nl, NFTA_CMP_SREG, NFT_REG_1);
	nl_be32(nl, NFTA_CMP_OP, NFT_CMP_EQ);
	put_value(nl, NFTA_CMP_DATA, value, n);
	expr_end(nl, e);
}

static void meta_is(struct nl *nl, uint32_t key, uint8_t value)
{
	struct expr e = expr_begin(nl, "meta");

	nl_be32(nl, NFTA_META_DREG, NFT_REG_1);
	nl_be32(nl, NFTA_META_KEY, key);
	expr_end(nl, e);
	compare(nl, &value, sizeof(value));
}

static void payload_is(struct nl *nl, uint32_t base, uint32_t offset, const void *value, uint32_t n)
{
	struct expr e = expr_begin(nl, "payload");

	nl_be32(nl, NFTA_PAYLOAD_DREG, NFT_REG_1);
	nl_be32(nl, NFTA_PAYLOAD_BASE, base);
	nl_be32(nl, NFTA_PAYLOAD_OFFSET, offset);
	nl_be32(nl, NFTA_PAYLOAD_LEN, n);
	expr_end(nl, e);
	compare(nl, value, n);
}

static size_t place_bytes(const struct place *p, uint8_t ret[16])
{
	(void)inet_pton(p->v6 ? AF_INET6 : AF_INET, p->address, ret);
	return p->v6 ? 16 : 4;
}

static void goes_to(struct nl *nl, const struct place *p)
{
	uint8_t address[16];

	(void)place_bytes(p, address);
	meta_is(nl, NFT_META_NFPROTO, p->v6 ? NFPROTO_IPV6 : NFPROTO_IPV4);
	if (p->nbytes > 0)
		payload_is(nl, NFT_PAYLOAD_NETWORK_HEADER, p->v6 ? IP6_TO : IP4_TO, address,
			   p->nbytes);
}

static void port_is(struct nl *nl, uint16_t port, uint32_t offset)
{
	uint16_t be = htons(port);

	payload_is(nl, NFT_PAYLOAD_TRANSPORT_HEADER, offset, &be, sizeof(be));
}

/* --- what is done with a packet ---------------------------------------------------------------------------- */

static void accept_it(struct nl *nl)
{
	struct expr e = expr_begin(nl, "immediate");
	size_t data, verdict;

	nl_be32(nl, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = nl_nest(nl, NFTA_IMMEDIATE_DATA);
	verdict = nl_nest(nl, NFTA_DATA_VERDICT);
	nl_be32(nl, NFTA_VERDICT_CODE, NF_ACCEPT);
	nl_nest_end(nl, verdict);
	nl_nest_end(nl, data);
	expr_end(nl, e);
}

static void reset_it(struct nl *nl)
{
	struct expr e = expr_begin(nl, "reject");

	nl_be32(nl, NFTA_REJECT_TYPE, NFT_REJECT_TCP_RST);
	nl_u8(nl, NFTA_REJECT_ICMP_CODE, 0);
	expr_end(nl, e);
}

static void load(struct nl *nl, uint32_t reg, const void *value, size_t n)
{
	struct expr e = expr_begin(nl, "immediate");

	nl_be32(nl, NFTA_IMMEDIATE_DREG, reg);
	put_value(nl, NFTA_IMMEDIATE_DATA, value, n);
	expr_end(nl, e);
}

static void to_listener(struct nl *nl, uint32_t family, const struct place *where)
{
	const uint16_t port = htons(NET_PORT);
	uint8_t address[16];
	struct expr e;

	load(nl, NFT_REG_1, address, place_bytes(where, address));
	load(nl, NFT_REG_2, &port, sizeof(port));
	e = expr_begin(nl, "tproxy");
	nl_be32(nl, NFTA_TPROXY_FAMILY, family);
	nl_be32(nl, NFTA_TPROXY_REG_ADDR, NFT_REG_1);
	nl_be32(nl, NFTA_TPROXY_REG_PORT, NFT_REG_2);
	expr_end(nl, e);
}

static void to_listener4(struct nl *nl)
{
	static const struct place listener = { false, 4, "127.0.0.1" };

	to_listener(nl, NFPROTO_IPV4, &listener);
}

static void to_listener6(struct nl *nl)
{
	to_listener(nl, NFPROTO_IPV6, &loop6);
}

static void (*const actions[])(struct nl *nl) = {
	[ACCEPT] = accept_it,
	[RESET] = reset_it,
	[TO_LISTENER4] = to_listener4,
	[TO_LISTENER6] = to_listener6,
};

/* --- the batch --------------------------------------------------------------------------------------------- */

static void begin(struct nl *nl, uint16_t type, uint16_t flags)
{
	const struct nfgenmsg header = { .nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0 };

	nl_begin(nl, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags | NLM_F_CREATE | NLM_F_ACK,
		 &header, sizeof(header));
}

/* All between two of these happens at once, or not. */
static void put_border(struct nl *nl, uint16_t type)
{
	const struct nfgenmsg header = { .version = NFNETLINK_V0,
					 .res_id = htons(NFNL_SUBSYS_NFTABLES) };

	nl_begin(nl, type, 0, &header, sizeof(header));
}

static void put_table(struct nl *nl)
{
	begin(nl, NFT_MSG_NEWTABLE, NLM_F_EXCL);
	nl_str(nl, NFTA_TABLE_NAME, TABLE);
}

static void put_chain(struct nl *nl, enum chain which)
{
	size_t hook;

	begin(nl, NFT_MSG_NEWCHAIN, NLM_F_EXCL);
	nl_str(nl, NFTA_CHAIN_TABLE, TABLE);
	nl_str(nl, NFTA_CHAIN_NAME, chains[which].name);
	hook = nl_nest(nl, NFTA_CHAIN_HOOK);
	nl_be32(nl, NFTA_HOOK_HOOKNUM, chains[which].hook);
	nl_be32(nl, NFTA_HOOK_PRIORITY, (uint32_t)chains[which].priority);
	nl_nest_end(nl, hook);
	nl_str(nl, NFTA_CHAIN_TYPE, "filter");
	nl_be32(nl, NFTA_CHAIN_POLICY, chains[which].policy);
}

static void put_rule(struct nl *nl, const struct rule *r)
{
	size_t list;

	begin(nl, NFT_MSG_NEWRULE, NLM_F_APPEND);
	nl_str(nl, NFTA_RULE_TABLE, TABLE);
	nl_str(nl, NFTA_RULE_CHAIN, chains[r->chain].name);
	list = nl_nest(nl, NFTA_RULE_EXPRESSIONS);
	if (r->to != NULL)
		goes_to(nl, r->to);
	if (r->protocol != 0)
		meta_is(nl, NFT_META_L4PROTO, r->protocol);
	if (r->from_port != 0)
		port_is(nl, r->from_port, PORT_FROM);
	if (r->to_port != 0)
		port_is(nl, r->to_port, PORT_TO);
	actions[r->action](nl);
	nl_nest_end(nl, list);
}

int net_filter(void)
{
	struct nl nl;
	int r = nl_open(&nl, NETLINK_NETFILTER);

	if (r < 0)
		return r;
	put_border(&nl, NFNL_MSG_BATCH_BEGIN);
	put_table(&nl);
	for (unsigned int i = 0; i < ARRAY_LEN(chains); i++)
		put_chain(&nl, (enum chain)i);
	for (unsigned int i = 0; i < ARRAY_LEN(rules); i++)
		put_rule(&nl, &rules[i]);
	put_border(&nl, NFNL_MSG_BATCH_END);
	r = nl_send(&nl, 0);
	nl_close(&nl);
	return r;
}
