// SPDX-License-Identifier: Apache-2.0
/* Addresses, and which of them are public. */
#include "wire/netrule.h"

#include "base/own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

void net_address_v4(const uint8_t a[4], struct net_address *ret)
{
	*ret = (struct net_address){ 0 };
	(void)memcpy(ret->a, a, 4);
}

void net_address_v6(const uint8_t a[16], struct net_address *ret)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (memcmp(a, mapped, sizeof(mapped)) == 0) {
		net_address_v4(a + 12, ret);
		return;
	}
	ret->v6 = true;
	(void)memcpy(ret->a, a, 16);
}

/* inet_pton() takes dotted quads only, and no part of them with a zero in front or over 255. */
int net_address_read(const char *text, struct net_address *ret)
{
	uint8_t a[16];

	if (inet_pton(AF_INET, text, a) == 1) {
		net_address_v4(a, ret);
		return 0;
	}
	if (inet_pton(AF_INET6, text, a) == 1) {
		net_address_v6(a, ret);
		return 0;
	}
	return -EINVAL;
}

void net_address_text(const struct net_address *a, char text[NET_ADDRESS_TEXT])
{
	if (inet_ntop(a->v6 ? AF_INET6 : AF_INET, a->a, text, NET_ADDRESS_TEXT) == NULL)
		text[0] = '\0';
}

bool net_address_is_in(const struct net_address *a, const struct net_address *net,
		       unsigned int bits)
{
	unsigned int whole = bits / 8, rest = bits % 8;

	if (a->v6 != net->v6 || bits > (a->v6 ? 128u : 32u) || memcmp(a->a, net->a, whole) != 0)
		return false;
	return rest == 0 || ((a->a[whole] ^ net->a[whole]) & (0xff00u >> rest)) == 0;
}

/* What is not public: the registries of special addresses, and what clouds put where. The rest of IPv4 is, and of IPv6 2000::/3. */
static const struct {
	bool v6;
	uint8_t bits;
	uint8_t a[16];
} special[] = {
	{ false, 8, { 0 } },             /* this network */
	{ false, 8, { 10 } },            /* private */
	{ false, 10, { 100, 64 } },      /* shared; 100.100.100.200 is a metadata service */
	{ false, 8, { 127 } },           /* this machine */
	{ false, 16, { 169, 254 } },     /* link; 169.254.169.254 is a metadata service */
	{ false, 12, { 172, 16 } },      /* private */
	{ false, 24, { 192, 0, 0 } },    /* protocols */
	{ false, 24, { 192, 0, 2 } },    /* documentation */
	{ false, 24, { 192, 88, 99 } },  /* was 6to4 */
	{ false, 16, { 192, 168 } },     /* private */
	{ false, 15, { 198, 18 } },      /* benchmarks: our own, in a box */
	{ false, 24, { 198, 51, 100 } }, /* documentation */
	{ false, 24, { 203, 0, 113 } },  /* documentation */
	{ false, 4, { 224 } },           /* groups */
	{ false, 4, { 240 } },           /* reserved, and everybody */
	{ false,
	  32,
	  { 168, 63, 129, 16 } }, /* a cloud's own services, at an address that looks public */
	{ true,
	  23,
	  { 0x20, 0x01 } }, /* protocols: Teredo and the like, which lead to other addresses */
	{ true, 32, { 0x20, 0x01, 0x0d, 0xb8 } }, /* documentation */
	{ true, 16, { 0x20, 0x02 } },             /* 6to4: an address of IPv4 inside */
	{ true, 20, { 0x3f, 0xff } },             /* documentation */
};

bool net_special(unsigned int n, struct net_address *ret, uint8_t *ret_bits)
{
	if (n >= ARRAY_LEN(special))
		return false;
	ret->v6 = special[n].v6;
	(void)memcpy(ret->a, special[n].a, sizeof(ret->a));
	*ret_bits = special[n].bits;
	return true;
}

bool net_address_is_public(const struct net_address *a)
{
	struct net_address net;
	uint8_t bits;

	if (a->v6 && (a->a[0] & 0xe0) != 0x20)
		return false;
	for (unsigned int i = 0; net_special(i, &net, &bits); i++)
		if (net_address_is_in(a, &net, bits))
			return false;
	return true;
}
