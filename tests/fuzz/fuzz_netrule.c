/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules as clients write them, and policies as bytes. Input: one byte that says which, then a rule's text, or the bytes.
 *
 * Claims: a rule that is taken is written as a text that is taken again, as the same rule; it allows what it names and, denying, denies it; a policy that
 * is taken is written as bytes that are taken again; with NET_NONE nothing is allowed, whatever the rules are.
 */
#include "wire/netrule.h"

#include "fuzz_input.h"

static void check_rule(const char *text)
{
	char again[NET_RULE_TEXT], third[NET_RULE_TEXT];
	struct net_rule r, same;
	struct net_policy p = { .mode = NET_ALLOW, .rules = &r, .nrules = 1 };
	struct net_verdict v;
	struct err e;
	uint16_t port;

	if (net_rule_read(text, &r, &e) < 0) {
		MUST(e.text[0] != '\0');
		return;
	}
	net_rule_text(&r, again);
	MUST(net_rule_read(again, &same, &e) == 0);
	net_rule_text(&same, third);
	MUST(strcmp(again, third) == 0);
	port = r.nports > 0 ? r.ports[0].last : 443;
	if (r.kind == NET_CIDR)
		v = net_decide_address(&p, &r.address, port, false);
	else if (r.kind == NET_EXACT)
		v = net_decide_name_port(&p, r.name, port);
	else
		return;
	MUST(v.rule == 0 && v.allowed == !r.deny);
	p.mode = NET_NONE;
	MUST(!net_decide_name(&p, r.name).allowed);
	MUST(!net_decide_address(&p, &r.address, port, true).allowed);
}

static void check_policy(const uint8_t *bytes, size_t n)
{
	static uint8_t buf[1 << 18], again[1 << 18];
	uint8_t *copy = exact_copy(bytes, n);
	struct net_policy p, same;
	ptrdiff_t len;

	if (net_policy_decode(copy, n, &p) == 0) {
		len = net_policy_encode(&p, buf, sizeof(buf));
		MUST(len > 0);
		MUST(net_policy_decode(buf, (size_t)len, &same) == 0);
		MUST(net_policy_encode(&same, again, sizeof(again)) == len);
		MUST(memcmp(buf, again, (size_t)len) == 0);
		net_policy_done(&same);
	}
	net_policy_done(&p);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct input in = { bytes, size };
	char text[1024];

	if ((take_u8(&in) & 1) != 0) {
		check_policy(in.p, in.n);
		return 0;
	}
	if (in.n >= sizeof(text) || memchr(in.p, '\0', in.n) != NULL)
		return 0;
	(void)memcpy(text, in.p, in.n);
	text[in.n] = '\0';
	check_rule(text);
	return 0;
}
