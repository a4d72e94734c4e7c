/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SOCKS 5 as a server of a box speaks it (RFC 1928): no authentication, CONNECT, by name or
 * address. Hostile: read from a buffer that grows, from its beginning. What is refused is refused
 * by its first bytes that are wrong: more bytes, or fewer at a time, do not change what is said.
 */
#pragma once

#include "wire/dnsname.h"

#include <stddef.h>
#include <stdint.h>

enum { SOCKS_NAME = DNSNAME_SIZE, SOCKS_REPLY_MAX = 22 };

/* As the protocol has them. */
enum socks_code {
	SOCKS_OK = 0,
	SOCKS_FAILED = 1,
	SOCKS_NOT_ALLOWED = 2,
	SOCKS_NET_UNREACHABLE = 3,
	SOCKS_HOST_UNREACHABLE = 4,
	SOCKS_REFUSED = 5,
	SOCKS_TTL = 6,
	SOCKS_NO_COMMAND = 7,
	SOCKS_NO_ADDRESS = 8,
};

struct socks_request {
	enum { SOCKS_BY_NAME, SOCKS_BY_V4, SOCKS_BY_V6 } by;
	char name[SOCKS_NAME]; /* see dnsname_read(); "" unless it is by name */
	uint8_t address[16];   /* the first 4 of them for SOCKS_BY_V4; others are 0 */
	uint16_t port;         /* not 0 */
};

/* The greeting: which methods a client knows. > 0: so long is it, and "no authentication" is
 * among them. 0: more is wanted. -EBADMSG: it is none. -EPROTONOSUPPORT: it is whole, and our
 * method is not among them. */
ptrdiff_t socks_greeting(const uint8_t *p, size_t n);

/* The request. > 0: so long is it. 0: more is wanted. -EBADMSG: it is none, its name is no name,
 * its port is 0. To be answered with SOCKS_NO_COMMAND: -EPROTONOSUPPORT, another command than
 * CONNECT; with SOCKS_NO_ADDRESS: -EAFNOSUPPORT, another kind of address. *ret is set by > 0
 * only. One address is one thing: an IPv4 address as text in its usual form, or in an IPv6 one
 * (::ffff:1.2.3.4), is SOCKS_BY_V4. */
ptrdiff_t socks_request_read(const uint8_t *p, size_t n, struct socks_request *ret);

/* An answer to a request, with an address of 0.0.0.0:0; how long it is. */
size_t socks_reply(enum socks_code code, uint8_t buf[SOCKS_REPLY_MAX]);
