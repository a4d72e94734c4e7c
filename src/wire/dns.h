/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DNS as a server of a box speaks it: one question, and an answer that is made here. Nothing is
 * forwarded, so there is no reader of answers: who looks names up for us has its own (c-ares).
 *
 * What is asked is hostile. A question is taken only if it is plain: one of them, class IN, a name
 * by the rule of dnsname.h or the root, not compressed, and nothing behind it but one OPT (EDNS,
 * RFC 6891). Anything else is answered with an error code, or, where not even a header can be made
 * out, not at all.
 */
#pragma once

#include "wire/dnsname.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DNS_NAME = DNSNAME_SIZE,
	DNS_MESSAGE_MAX = 1232, /* what we send by UDP at most, with EDNS */
	DNS_PLAIN_MAX = 512,    /* and without */
	DNS_QUERY_MAX = 4096,   /* longer ones are not looked at */
};

enum dns_type {
	DNS_A = 1,
	DNS_NS = 2,
	DNS_CNAME = 5,
	DNS_SOA = 6,
	DNS_PTR = 12,
	DNS_MX = 15,
	DNS_TXT = 16,
	DNS_AAAA = 28,
	DNS_SRV = 33,
	DNS_HTTPS = 65,
	DNS_ANY = 255,
};

enum dns_code {
	DNS_OK = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5,
	DNS_BADVERS = 16, /* another version of EDNS */
};

struct dns_query {
	uint16_t id, type;
	bool recursion; /* desired */
	bool edns;
	/* For an answer by UDP: 512, or what EDNS says, at most DNS_MESSAGE_MAX. Who answers by TCP
	 * sets another. */
	size_t room;
	/* Offset in the query: what the answer repeats as it came, letter case included. */
	size_t question_end;
	char name[DNS_NAME]; /* lower case, without a dot at its end; "" is the root */
};

/* What to answer. */
struct dns_reply {
	enum dns_code code;
	uint32_t ttl; /* of the record, or of there being none */
	/* At most one record, sent with DNS_OK and if its type is asked for, or any: */
	bool has_address;
	uint8_t address[4];  /* A */
	const char *pointer; /* PTR; NULL: none. One that is no name is DNS_SERVFAIL */
};

/*
 * DNS_OK: *ret is what is asked. Another code: that is the answer, by dns_write() with *ret as far
 * as it was understood (question_end is 0 where there was no question to repeat). DNS_NOTIMP: it is
 * no query. DNS_REFUSED: another class than IN, or a name that is none. -EBADMSG: it deserves no
 * answer: shorter than a header, longer than DNS_QUERY_MAX, or an answer itself.
 */
int dns_read(const uint8_t *p, size_t n, struct dns_query *ret);

/*
 * The answer to the query of n bytes at p, of which dns_read() said q; how long it is. Without a
 * record, and with DNS_OK or DNS_NXDOMAIN, it has an SOA that says how long that may be remembered:
 * one of the root, because only an SOA from above a name speaks for it, by "glovebox.invalid". buf
 * has room for DNS_PLAIN_MAX at least (0: nothing was written); what does not fit into q->room or
 * cap is cut, with TC.
 */
size_t dns_write(const struct dns_query *q, const uint8_t *p, size_t n, const struct dns_reply *r,
		 uint8_t *buf, size_t cap);

/* The address of a PTR question, "7.0.18.198.in-addr.arpa". -EINVAL: it is none of IPv4. */
int dns_pointer_address(const char *name, uint8_t ret[4]);
